#include "unit.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/io.h"
#include "core/unixsock.h"

static char dir[128], path[160];

static void listens_and_tells_the_peer(void **state)
{
	int lfd = unix_listen(path, 0660, 4, NULL), cfd, sfd;
	struct unix_peer p;
	struct stat st;

	(void)state;
	assert_true(lfd >= 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0660);
	assert_true(fcntl(lfd, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(lfd, F_GETFL) & O_NONBLOCK);
	cfd = unix_connect(path, NULL);
	assert_true(cfd >= 0);
	assert_false(fcntl(cfd, F_GETFL) & O_NONBLOCK);
	sfd = accept4(lfd, NULL, NULL, SOCK_CLOEXEC);
	assert_int_equal(unix_peer(sfd, &p, NULL), 0);
	assert_int_equal(p.pid, getpid());
	assert_int_equal(p.uid, getuid());
	assert_int_equal(p.gid, getgid());
	close(sfd);
	close(cfd);
	close(lfd);
	unlink(path);
}

static void replaces_a_stale_socket_only(void **state)
{
	int a = unix_listen(path, 0600, 1, NULL), b;
	err_t *e = NULL;

	(void)state;
	assert_true(a >= 0);
	assert_int_equal(unix_listen(path, 0600, 1, &e), -1);
	assert_int_equal(err_code(e), ERR_BUSY);
	err_free(e);
	close(a);
	b = unix_listen(path, 0600, 1, NULL);
	assert_true(b >= 0);
	close(b);
	unlink(path);
}

static void leaves_other_files_alone(void **state)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	err_t *e = NULL;

	(void)state;
	close(fd);
	assert_int_equal(unix_listen(path, 0600, 1, &e), -1);
	assert_int_equal(err_code(e), ERR_EXISTS);
	err_free(e);
	assert_int_equal(access(path, F_OK), 0);
	unlink(path);
}

static void path_length(void **state)
{
	struct sockaddr_un sa;
	char longest[sizeof sa.sun_path + 1];
	err_t *e = NULL;

	(void)state;
	memset(longest, 'x', sizeof longest);
	longest[0] = '/';
	longest[sizeof sa.sun_path - 1] = '\0';
	assert_int_equal(unix_connect(longest, &e), -1);
	assert_int_equal(err_code(e), ERR_NOT_FOUND);   /* fits */
	err_free(e);
	e = NULL;
	longest[sizeof sa.sun_path - 1] = 'x';
	longest[sizeof sa.sun_path] = '\0';
	assert_int_equal(unix_connect(longest, &e), -1);
	assert_int_equal(err_code(e), ERR_INVALID);
	err_free(e);
	assert_int_equal(unix_connect("", NULL), -1);
}

static void nobody_listens(void **state)
{
	int fd = unix_listen(path, 0600, 1, NULL);
	err_t *e = NULL;

	(void)state;
	close(fd);
	assert_int_equal(unix_connect(path, &e), -1);
	assert_int_equal(err_code(e), ERR_UNAVAILABLE);
	err_free(e);
	unlink(path);
}

static void accounts(void **state)
{
	err_t *e = NULL;

	(void)state;
	assert_int_equal(unix_uid_of("root", NULL), 0);
	assert_int_equal(unix_uid_of("1234", NULL), 1234);
	assert_int_equal(unix_uid_of("4294967294", NULL), 4294967294u);
	assert_int_equal(unix_uid_of("4294967295", NULL), (uid_t)-1);
	assert_int_equal(unix_uid_of("no-such-account", &e), (uid_t)-1);
	assert_int_equal(err_code(e), ERR_NOT_FOUND);
	err_free(e);
}

static int setup(void **state)
{
	(void)state;
	snprintf(path, sizeof path, "%s/s", unit_tmpdir(dir));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return io_remove_tree(AT_FDCWD, dir, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(listens_and_tells_the_peer), cmocka_unit_test(replaces_a_stale_socket_only),
		cmocka_unit_test(leaves_other_files_alone), cmocka_unit_test(path_length), cmocka_unit_test(nobody_listens),
		cmocka_unit_test(accounts),
	};

	return cmocka_run_group_tests_name("unixsock", tests, setup, teardown);
}
