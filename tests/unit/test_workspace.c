/* Workspace names, and the directories made for them. */
#include "unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "provider/workspace.h"

static void names(void **state)
{
	static const char *const good[] = { "a", "0", "user-1", "a.b_c-d", "0123456789012345678901234567890123456789012345678901234567890123" };
	static const char *const bad[] = { "", ".", "..", ".a", "-a", "_a", "A", "a/b", "../a", "a b", "a\n", "\xc3\xa4", "a\x01",
		"01234567890123456789012345678901234567890123456789012345678901234" };

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(good); i++)
		assert_true(workspace_name_valid(good[i]));
	for (size_t i = 0; i < UNIT_LEN(bad); i++)
		assert_false(workspace_name_valid(bad[i]));
}

static mode_t mode_of(int fd, const char *path)
{
	struct stat st;

	assert_int_equal(fstatat(fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st.st_mode & 07777;
}

static void made_once_with_modes(void **state)
{
	char dir[128];
	cleanup_close int tmp = open(unit_tmpdir(dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	mode_t mask = umask(077);

	(void)state;
	assert_int_equal(fchmod(tmp, 02751), 0);
	assert_int_equal(workspace_make(tmp, "w", NULL), 0);
	assert_int_equal(mode_of(tmp, "w"), 02750);
	assert_int_equal(mode_of(tmp, "w/files"), 02755);
	assert_int_equal(umask(mask), 077);
	/* what its owner made of it stays */
	assert_int_equal(fchmodat(tmp, "w/files", 0711, 0), 0);
	assert_int_equal(workspace_make(tmp, "w", NULL), 0);
	assert_int_equal(mode_of(tmp, "w/files"), 0711);
	assert_int_equal(io_remove_tree(tmp, "w", NULL), 0);
	rmdir(dir);
}

static void links_and_files_are_refused(void **state)
{
	char dir[128];
	cleanup_close int tmp = open(unit_tmpdir(dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	assert_int_equal(symlinkat("/", tmp, "link"), 0);
	assert_int_equal(workspace_make(tmp, "link", NULL), -1);
	assert_int_equal(mkdirat(tmp, "gate", 0700), 0);
	assert_int_equal(symlinkat("/etc", tmp, "gate/files"), 0);
	assert_int_equal(workspace_make(tmp, "gate", NULL), -1);
	assert_int_equal(workspace_make(tmp, "../x", NULL), -1);
	assert_int_equal(io_remove_tree(tmp, "gate", NULL), 0);
	unlinkat(tmp, "link", 0);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(made_once_with_modes),
		cmocka_unit_test(links_and_files_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
