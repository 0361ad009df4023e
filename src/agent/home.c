#include "agent/home.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "agent/launch.h"
#include "base/cleanup.h"

void home_give(void)
{
	cleanup_close int fd = open(HOME_PATH, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct statfs fs;
	struct stat st;

	/* Changing the mode takes its owner, so that comes first. */
	if (fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC && fstat(fd, &st) == 0 && st.st_uid == 0 && fchmod(fd, 0755) == 0 &&
	    fchown(fd, LAUNCH_UID, LAUNCH_GID) < 0)
		fchmod(fd, st.st_mode & 07777);
}
