/* What a worker gave up is tried in a process that gave it up; what it needs is tried, too. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "base/sanitized.h"
#include "base/str.h"
#include "core/unixsock.h"
#include "fcgi/confine.h"

static char dir[128];
static struct config *config;

static bool denied(long rc, int wanted)
{
	if (rc == -1 && errno == wanted)
		return true;
	fprintf(stderr, "got %ld, %s\n", rc, rc < 0 ? strerror(errno) : "no error");
	return false;
}

static const char *in_dir(const char *name)
{
	static char path[256];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

/* --- tried in the child; true: as it should be --- */

static bool no_other_program(void)
{
	char *const argv[] = { (char *)(uintptr_t)"true", NULL };

	return denied(execve("/bin/true", argv, argv + 1), EPERM) && denied(fork(), EPERM) && denied(vfork(), EPERM) &&
		denied(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), EPERM);
}

static bool no_other_process(void)
{
	return denied(ptrace(PTRACE_ATTACH, getppid(), 0, 0), EPERM) && denied(ptrace(PTRACE_TRACEME, 0, 0, 0), EPERM) &&
		denied(syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0), EPERM);
}

static bool no_namespace_or_mount(void)
{
	int ns = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);

	return ns >= 0 && denied(unshare(CLONE_NEWUSER), EPERM) && denied(setns(ns, 0), EPERM) && denied(mount("x", dir, "tmpfs", 0, NULL), EPERM) &&
		denied(umount(dir), EPERM) && denied(chroot(dir), EPERM);
}

static bool no_rare_calls(void)
{
	return denied(syscall(SYS_io_uring_setup, 1, NULL), EPERM) && denied(syscall(SYS_bpf, 0, NULL, 0), EPERM) &&
		denied(syscall(SYS_keyctl, 0, 0, 0), EPERM) && denied(syscall(SYS_perf_event_open, NULL, 0, 0, 0, 0), EPERM) &&
		denied(mknod(in_dir("node"), S_IFCHR | 0600, 0), EPERM);
}

static bool few_sockets(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0 && denied(socket(AF_NETLINK, SOCK_RAW, 0), EAFNOSUPPORT) &&
		denied(socket(AF_PACKET, SOCK_RAW, 0), EAFNOSUPPORT) && denied(socket(AF_VSOCK, SOCK_STREAM, 0), EAFNOSUPPORT) &&
		denied(bind(fd, (struct sockaddr *)&a, sizeof a), EPERM) && denied(listen(fd, 1), EPERM);
}

static bool no_writing(void)
{
	return denied(open(in_dir("file"), O_WRONLY | O_CLOEXEC), EACCES) && denied(open(in_dir("new"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600), EACCES) &&
		denied(unlink(in_dir("file")), EACCES) && denied(mkdir(in_dir("sub"), 0700), EACCES) && denied(rename(in_dir("file"), "/etc/x"), EACCES) &&
		denied(open("/etc/passwd", O_RDWR | O_CLOEXEC), EACCES);
}

static bool reading_where_it_may(void)
{
	return open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 && open(in_dir("keys/pepper"), O_RDONLY | O_CLOEXEC) >= 0 &&
		open("/dev/urandom", O_RDONLY | O_CLOEXEC) >= 0 && denied(open(in_dir("file"), O_RDONLY | O_CLOEXEC), EACCES) &&
		denied(open("/var", O_RDONLY | O_DIRECTORY | O_CLOEXEC), EACCES);
}

static bool no_signals_to_others(void)
{
	return confine_landlock_abi() < 6 || (denied(kill(getppid(), 0), EPERM) && kill(getpid(), 0) == 0);
}

static void *a_thread(void *arg)
{
	return arg;
}

static bool what_it_needs(void)
{
	cleanup_err err_t *e = NULL;
	pthread_t t;
	void *got = NULL;
	int fd = unix_connect(in_dir("sock"), &e);

	return fd >= 0 && write(fd, "x", 1) == 1 && pthread_create(&t, NULL, a_thread, dir) == 0 && pthread_join(t, &got) == 0 && got == dir;
}

/* --- the frame --- */

static void in_child(bool (*fn)(void), bool files)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		cleanup_err err_t *e = NULL;

		if (files ? confine_child(config, &e) < 0 : confine_calls(&e) < 0) {
			fprintf(stderr, "%s\n", err_message(e));
			_exit(2);
		}
		_exit(!fn());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define CALLS(f) static void f##_(void **state) { (void)state; in_child(f, false); in_child(f, true); }
#define FILES(f) static void f##_(void **state) { (void)state; if (confine_landlock_abi() == 0) skip(); in_child(f, true); }

CALLS(no_other_program)
CALLS(no_other_process)
CALLS(no_namespace_or_mount)
CALLS(no_rare_calls)
CALLS(few_sockets)
CALLS(what_it_needs)
FILES(no_writing)
FILES(reading_where_it_may)
FILES(no_signals_to_others)

static int set_up(void **state)
{
	cleanup_close int fd = open(unit_tmpdir(dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char text[256];

	(void)state;
	if (mkdirat(fd, "keys", 0700) < 0)
		return -1;
	cleanup_close int keys = openat(fd, "keys", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (io_write_file(keys, "pepper", "x", 1, 0600, 0, NULL) < 0 || io_write_file(fd, "file", "x", 1, 0600, 0, NULL) < 0 ||
	    unix_listen(in_dir("sock"), 0600, 8, NULL) < 0)
		return -1;
	snprintf(text, sizeof text, "[paths]\nkeys = %s/keys\n", dir);
	if (io_write_file(fd, "ini", text, strlen(text), 0600, 0, NULL) < 0)
		return -1;
	config = config_load(in_dir("ini"), NULL);
	return config ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	config_free(config);
	return io_remove_tree(AT_FDCWD, dir, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_other_program_), cmocka_unit_test(no_other_process_), cmocka_unit_test(no_namespace_or_mount_),
		cmocka_unit_test(no_rare_calls_), cmocka_unit_test(few_sockets_), cmocka_unit_test(what_it_needs_), cmocka_unit_test(no_writing_),
		cmocka_unit_test(reading_where_it_may_), cmocka_unit_test(no_signals_to_others_),
	};

	if (SANITIZED) {
		puts("1..0 # SKIP a sanitizer build is not confined");
		return 0;
	}
	log_init("test", LOG_ERROR);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
