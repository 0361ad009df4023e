#include "core/crypto.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

int crypto_init(err_t **err)
{
	if (sodium_init() < 0)
		return err_set(err, ERR_INTERNAL, NULL, "libsodium could not be initialised");
	return 0;
}

static int check_file(int fd, const char *path, err_t **err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(err, errno, "cannot stat key file %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_REFUSED, "bad_key_file", "key file %s is not a regular file", path);
	if (st.st_mode & (S_IRWXO | S_IWGRP))
		return err_set(err, ERR_DENIED, "bad_key_file", "key file %s is open to others: chmod 0640 or less", path);
	if (st.st_size != CRYPTO_KEY_BYTES)
		return err_set(err, ERR_REFUSED, "bad_key_file", "key file %s must have exactly %d bytes", path, CRYPTO_KEY_BYTES);
	return 0;
}

int crypto_key_load(const char *path, struct crypto_key *ret, err_t **err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0)
		return err_sys(err, errno, "cannot open key file %s", path);
	if (check_file(fd, path, err) < 0)
		return -1;
	(void)sodium_mlock(ret, sizeof *ret);   /* a limit of 0 on locked memory is no reason to stop */
	if (io_read_full(fd, ret->bytes, sizeof ret->bytes) < 0) {
		crypto_wipe(ret, sizeof *ret);
		return err_sys(err, errno ? errno : EIO, "cannot read key file %s", path);
	}
	return 0;
}

void crypto_keyed_hash(const struct crypto_key *k, const void *p, size_t n, uint8_t ret[CRYPTO_HASH_BYTES])
{
	if (crypto_generichash(ret, CRYPTO_HASH_BYTES, p, n, k->bytes, sizeof k->bytes) != 0)
		abort();   /* only for sizes that the header rules out */
}

bool crypto_equal(const void *a, const void *b, size_t n)
{
	return sodium_memcmp(a, b, n) == 0;
}

void crypto_wipe(void *p, size_t n)
{
	sodium_memzero(p, n);
}

char *crypto_base64(const void *p, size_t n, size_t *ret_len)
{
	size_t size;
	char *dst;

	if (n > SIZE_MAX / 2)
		return NULL;
	size = sodium_base64_encoded_len(n, sodium_base64_VARIANT_ORIGINAL);
	dst = malloc(size);
	if (!dst)
		return NULL;
	sodium_bin2base64(dst, size, p, n, sodium_base64_VARIANT_ORIGINAL);
	if (ret_len)
		*ret_len = size - 1;
	return dst;
}

int crypto_base64_decode(const char *s, size_t n, void *dst, size_t dst_size, size_t *ret_len)
{
	size_t len;

	if (sodium_base642bin(dst, dst_size, s, n, NULL, &len, NULL, sodium_base64_VARIANT_ORIGINAL) != 0)
		return -1;
	*ret_len = len;
	return 0;
}
