#include "fcgi/confine.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

int confine_self(err_t **err)
{
	const struct rlimit none = { 0, 0 };

	umask(077);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(err, errno, "give up new privileges");
	if (setrlimit(RLIMIT_CORE, &none) < 0)
		return err_sys(err, errno, "turn core dumps off");
#ifndef __SANITIZE_ADDRESS__   /* its leak check has to look at the process */
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
