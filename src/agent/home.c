#include "agent/home.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "agent/launch.h"
#include "base/cleanup.h"

static void drop_chown(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3];

	prctl(PR_CAPBSET_DROP, CAP_CHOWN, 0, 0, 0);
	if (syscall(SYS_capget, &h, d) < 0)
		return;
	d[0].effective &= ~(1u << CAP_CHOWN);
	d[0].permitted &= ~(1u << CAP_CHOWN);
	d[0].inheritable &= ~(1u << CAP_CHOWN);
	syscall(SYS_capset, &h, d);
}

void home_give(void)
{
	cleanup_close int fd = open(HOME_PATH, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct statfs fs;
	struct stat st;

	/* Changing the mode takes its owner, so that comes first. */
	if (fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC && fstat(fd, &st) == 0 && st.st_uid == 0 && fchmod(fd, 0755) == 0 &&
	    fchown(fd, LAUNCH_UID, LAUNCH_GID) < 0)
		fchmod(fd, st.st_mode & 07777);
	drop_chown();
}
