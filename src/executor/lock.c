#include "executor/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"

int lock_take(int state_fd, err_t **err)
{
	cleanup_close int fd = openat(state_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	char pid[24] = "";
	ssize_t n;

	if (fd < 0)
		return err_sys(err, errno, "lock");
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return err_sys(err, errno, "lock");
		n = io_pread(fd, pid, sizeof pid - 1, 0);
		pid[n > 0 ? n : 0] = '\0';
		pid[strcspn(pid, "\n")] = '\0';
		return err_set(err, ERR_BUSY, "already_running", "another executor (pid %s) works on this state directory", *pid ? pid : "unknown");
	}
	if (str_fmt(pid, sizeof pid, "%d\n", getpid()) < 0 || ftruncate(fd, 0) < 0 || io_pwrite_full(fd, pid, strlen(pid), 0) < 0)
		return err_sys(err, errno, "lock");
	return steal_fd(&fd);
}
