#include "unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "core/crypto.h"

static char dir[128];

static const char *key_file(size_t n, mode_t mode)
{
	static char path[160];
	char bytes[64];
	int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	memset(bytes, 'k', sizeof bytes);
	assert_int_equal(io_write_file(at, "key", bytes, n, mode, 0, NULL), 0);
	close(at);
	snprintf(path, sizeof path, "%s/key", dir);
	return path;
}

static void key_files(void **state)
{
	struct crypto_key k;
	err_t *e = NULL;

	(void)state;
	assert_int_equal(crypto_key_load(key_file(32, 0640), &k, NULL), 0);
	assert_int_equal(k.bytes[31], 'k');
	assert_int_equal(crypto_key_load(key_file(31, 0600), &k, NULL), -1);
	assert_int_equal(crypto_key_load(key_file(33, 0600), &k, NULL), -1);
	assert_int_equal(crypto_key_load(key_file(32, 0644), &k, &e), -1);
	assert_int_equal(err_code(e), ERR_DENIED);
	err_free(e);
	assert_int_equal(crypto_key_load(key_file(32, 0660), &k, NULL), -1);
	assert_int_equal(crypto_key_load(dir, &k, NULL), -1);
	assert_int_equal(crypto_key_load("/dev/zero", &k, NULL), -1);
	assert_int_equal(crypto_key_load("/nonexistent/key", &k, NULL), -1);
}

/* BLAKE2b-256 with the key 00..1f of "abc", from the reference implementation (hashlib.blake2b). */
static void hash_vector(void **state)
{
	static const uint8_t want[CRYPTO_HASH_BYTES] = {
		0xd6, 0x3a, 0x32, 0xd3, 0xe4, 0x47, 0x38, 0xd7, 0x90, 0x7f, 0x96, 0x43, 0x16, 0xc2, 0x41, 0xad,
		0xab, 0xa0, 0xab, 0xfe, 0xab, 0xc3, 0x23, 0x49, 0x67, 0x75, 0x78, 0xa1, 0x5a, 0x20, 0x3f, 0x7f
	};
	struct crypto_key k;
	uint8_t got[CRYPTO_HASH_BYTES];

	(void)state;
	for (int i = 0; i < CRYPTO_KEY_BYTES; i++)
		k.bytes[i] = (uint8_t)i;
	crypto_keyed_hash(&k, "abc", 3, got);
	assert_memory_equal(got, want, sizeof want);
	assert_true(crypto_equal(got, want, sizeof want));
	got[31] ^= 1;
	assert_false(crypto_equal(got, want, sizeof want));
	crypto_wipe(got, sizeof got);
	for (size_t i = 0; i < sizeof got; i++)
		assert_int_equal(got[i], 0);
}

static void base64(void **state)
{
	static const char *const text[] = { "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy" };

	(void)state;
	for (size_t n = 0; n < UNIT_LEN(text); n++) {
		size_t len = 99;
		char *s = crypto_base64("foobar", n, &len), raw[8];

		assert_string_equal(s, text[n]);
		assert_int_equal(len, strlen(text[n]));
		free(s);
		assert_int_equal(crypto_base64_decode(text[n], strlen(text[n]), raw, n, &len), 0);
		assert_int_equal(len, n);
		assert_memory_equal(raw, "foobar", n);
		if (n)
			assert_int_equal(crypto_base64_decode(text[n], strlen(text[n]), raw, n - 1, &len), -1);
	}
}

static void base64_refuses(void **state)
{
	static const char *const bad[] = { "Z", "Zg", "Zg=", "Zg===", "Zm9v\n", " Zm9v", "Zm9-", "Zh==", "====", "Zg==Zg==" };
	char raw[16];
	size_t len;

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(bad); i++)
		assert_int_equal(crypto_base64_decode(bad[i], strlen(bad[i]), raw, sizeof raw, &len), -1);
}

static int setup(void **state)
{
	(void)state;
	unit_tmpdir(dir);
	return crypto_init(NULL);
}

static int teardown(void **state)
{
	(void)state;
	return io_remove_tree(AT_FDCWD, dir, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key_files), cmocka_unit_test(hash_vector), cmocka_unit_test(base64), cmocka_unit_test(base64_refuses),
	};

	return cmocka_run_group_tests_name("crypto", tests, setup, teardown);
}
