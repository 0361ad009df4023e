#include "fcgi/confine.h"

#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sanitized.h"
#include "base/str.h"

int confine_self(err_t **err)
{
	const struct rlimit none = { 0, 0 };

	umask(077);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(err, errno, "give up new privileges");
	if (setrlimit(RLIMIT_CORE, &none) < 0)
		return err_sys(err, errno, "turn core dumps off");
#if !SANITIZED   /* its leak check has to look at the process */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_sys(err, errno, "close the memory to others");
#endif
	return 0;
}

int confine_to_parent(int parent_pid)
{
	if (prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) < 0)
		return -1;
	return getppid() == parent_pid ? 0 : -1;
}

#if SANITIZED

int confine_child(const struct config *c, err_t **err)
{
	(void)c;
	(void)err;
	return 0;
}

#else

/* Where libpq looks for its files when it connects again. */
static const char *home(void)
{
	const struct passwd *pw = getpwuid(getuid());

	return pw && !str_eq(pw->pw_dir, "/") ? pw->pw_dir : "/nonexistent";
}

int confine_child(const struct config *c, err_t **err)
{
	/* Those below /run are where /etc/resolv.conf may lead. */
	const char *dirs[] = { "/etc", "/usr", "/lib", "/lib64", "/proc", "/dev", "/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf",
			       config_str(c, "paths.keys"), home(), NULL };
	char abi_text[16];
	int abi = 0;

	if (confine_files(dirs, &abi, err) < 0 || confine_calls(err) < 0)
		return -1;
	(void)str_fmt(abi_text, sizeof abi_text, "%d", abi);
	log_kv(LOG_INFO, "confined", "seccomp", "yes", "landlock", abi_text, NULL);
	return 0;
}

#endif
