/* host_layout.c - see host_layout.h. */
#include "provider/host_layout.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/str.h"

#define RUN_MAX 512

int host_layout_open(int root_fd, const char *id, err_t **err)
{
	cleanup_close int fd = openat(root_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		return err_set(err, ERR_NOT_FOUND, "sandbox_not_found", "the sandbox's directory is not there");
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, errno, "the sandbox's directory");
	if (st.st_uid != geteuid())
		return err_set(err, ERR_REFUSED, "sandbox_owner", "the sandbox's directory belongs to uid %u", (unsigned)st.st_uid);
	return steal_fd(&fd);
}

static int make_dir(int at, const char *name, mode_t mode, err_t **err)
{
	mode_t mask = umask(0);
	int rc = mkdirat(at, name, mode), why = errno;

	umask(mask);
	return rc < 0 && why != EEXIST ? err_sys(err, why, "mkdir %s", name) : 0;
}

int host_layout_make(int root_fd, const char *id, const char *workspace, err_t **err)
{
	cleanup_close int dir = -1;
	cleanup_close int home = -1;
	cleanup_close int lock = -1;

	if (make_dir(root_fd, id, 0700, err) < 0)
		return -1;
	FAULT_POINT(host_make_directory);
	dir = host_layout_open(root_fd, id, err);
	if (dir < 0 || make_dir(dir, "home", 0755, err) < 0 || make_dir(dir, "workspace", 0755, err) < 0)
		return -1;
	FAULT_POINT(host_make_home);
	/* whatever mode its user has given to the home meanwhile: it need not be opened again */
	if (host_layout_whole(dir))
		return 0;
	home = openat(dir, "home", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* what is mounted over in the sandbox; nobody in there can remove a place that something is mounted at */
	if (home < 0 || make_dir(home, "workspace", 0755, err) < 0)
		return home < 0 ? err_sys(err, errno, "home") : -1;
	lock = openat(dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (lock < 0)
		return err_sys(err, errno, "lock");
	FAULT_POINT(host_make_lock);
	return io_write_file(dir, "info", workspace, strlen(workspace), 0600, 1, err);
}

bool host_layout_whole(int dir_fd)
{
	return faccessat(dir_fd, "info", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int host_layout_lock(int dir_fd, err_t **err)
{
	cleanup_close int fd = openat(dir_fd, "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		return err_set(err, ERR_NOT_FOUND, "sandbox_not_found", "the sandbox has no lock file");
	if (fd < 0)
		return err_sys(err, errno, "lock");
	if (fcntl(fd, F_SETLK, &all) < 0)
		return errno == EAGAIN || errno == EACCES ? err_set(err, ERR_BUSY, "sandbox_runs", "something of the sandbox runs already") : err_sys(err, errno, "lock");
	/* removed between the opening and the locking: the lock of nothing */
	if (fstat(fd, &st) < 0 || st.st_nlink == 0)
		return err_set(err, ERR_NOT_FOUND, "sandbox_not_found", "the sandbox was removed");
	return steal_fd(&fd);
}

pid_t host_layout_keeper(int dir_fd)
{
	cleanup_close int fd = openat(dir_fd, "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (fd < 0 || fcntl(fd, F_GETLK, &all) < 0 || all.l_type == F_UNLCK)
		return 0;
	return all.l_pid;
}

int host_run_write(int dir_fd, const struct host_run *r, err_t **err)
{
	char text[RUN_MAX];

	if (str_fmt(text, sizeof(text), "keeper %d %" PRIu64 "\nagent %d %" PRIu64 "\ntoken %s\n", (int)r->keeper.pid, r->keeper.start, (int)r->agent.pid,
		    r->agent.start, r->token_hash) < 0)
		return err_set(err, ERR_INTERNAL, NULL, "run record");
	return io_write_file(dir_fd, "run", text, strlen(text), 0600, 0, err);
}

int host_run_read(int dir_fd, struct host_run *ret, err_t **err)
{
	cleanup_free char *text = NULL;
	struct host_run r = { 0 };
	int keeper = 0, agent = 0;

	if (io_read_file(dir_fd, "run", RUN_MAX, &text, NULL, err) < 0)
		return -1;
	if (sscanf(text, "keeper %d %" SCNu64 " agent %d %" SCNu64 " token %64s", &keeper, &r.keeper.start, &agent, &r.agent.start, r.token_hash) != 5 || keeper < 2 ||
	    agent < 2)
		return err_set(err, ERR_INTERNAL, "bad_run", "the sandbox's run record makes no sense");
	r.keeper.pid = keeper;
	r.agent.pid = agent;
	*ret = r;
	return 0;
}

int host_proc_find(pid_t pid, struct host_proc *ret)
{
	cleanup_free char *text = NULL;
	char path[64];
	const char *rest;
	uint64_t start = 0;

	if (str_fmt(path, sizeof(path), "/proc/%d/stat", (int)pid) < 0 || io_read_file(AT_FDCWD, path, 4096, &text, NULL, NULL) < 0 || !(rest = strrchr(text, ')')))
		return -1;
	/* field 22; the first after the name is field 3 */
	if (sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64, &start) != 1)
		return -1;
	*ret = (struct host_proc){ pid, start };
	return 0;
}

int host_proc_open(const struct host_proc *p)
{
	cleanup_close int fd = p->pid > 1 ? (int)syscall(SYS_pidfd_open, p->pid, 0) : -1;
	struct host_proc now;
	struct pollfd ended = { .fd = fd, .events = POLLIN };

	/* looked at after it was opened: what is compared is what was opened, or it has ended meanwhile */
	if (fd < 0 || host_proc_find(p->pid, &now) < 0 || now.start != p->start || poll(&ended, 1, 0) != 0)
		return -1;
	return steal_fd(&fd);
}
