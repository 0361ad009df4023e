/* confine_files.c - Landlock: files that a worker may still read (declared in confine.h). By raw system calls and numbers: the C library has no
 * wrappers and the headers of a build may be older than the kernel. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "fcgi/confine.h"

#define ASK_VERSION 1u
#define RULE_PATH_BENEATH 1
#define READ_FILE (UINT64_C(1) << 2)
#define READ_DIR (UINT64_C(1) << 3)
#define FS_ABI1 ((UINT64_C(1) << 13) - 1)       /* execute, write, read, remove, make */
#define FS_REFER (UINT64_C(1) << 13)            /* ABI 2 */
#define FS_TRUNCATE (UINT64_C(1) << 14)         /* ABI 3 */
#define FS_IOCTL_DEV (UINT64_C(1) << 15)        /* ABI 5 */
#define SCOPE_ABSTRACT_SOCKETS UINT64_C(1)      /* ABI 6 */
#define SCOPE_SIGNALS UINT64_C(2)

#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#define __NR_landlock_add_rule 445
#define __NR_landlock_restrict_self 446
#endif

struct ruleset_attr {
	uint64_t fs, net, scoped;
};

struct path_attr {
	uint64_t allowed;
	int32_t parent_fd;
} __attribute__((packed));

int confine_landlock_abi(void)
{
	long abi = syscall(__NR_landlock_create_ruleset, NULL, 0, ASK_VERSION);

	return abi < 0 ? 0 : (int)abi;
}

/* What is not there needs no rule. */
static int allow(int ruleset, const char *dir)
{
	struct path_attr a = { .allowed = READ_FILE | READ_DIR };
	cleanup_close int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : -1;
	a.parent_fd = fd;
	return (int)syscall(__NR_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &a, 0);
}

int confine_files(const char *const *dirs, int *ret_abi, err_t **err)
{
	int abi = confine_landlock_abi();
	struct ruleset_attr a = {
		.fs = FS_ABI1 | (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNCATE : 0) | (abi >= 5 ? FS_IOCTL_DEV : 0),
		.scoped = abi >= 6 ? SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS : 0,
	};

	*ret_abi = abi;
	if (abi == 0)
		return 0;
	cleanup_close int ruleset = (int)syscall(__NR_landlock_create_ruleset, &a, abi >= 6 ? sizeof a : sizeof a.fs, 0);
	if (ruleset < 0)
		return err_sys(err, errno, "landlock");
	for (; *dirs; dirs++)
		if (allow(ruleset, *dirs) < 0)
			return err_sys(err, errno, "landlock: %s", *dirs);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(__NR_landlock_restrict_self, ruleset, 0) < 0)
		return err_sys(err, errno, "landlock");
	return 0;
}
