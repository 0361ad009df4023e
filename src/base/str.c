#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool str_suffix(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n >= m && str_eq(s + n - m, suffix);
}

int str_copy(char *dst, size_t n, const char *src)
{
	size_t len = strlen(src);

	if (len >= n) {
		if (n)
			dst[0] = '\0';
		return -1;
	}
	memcpy(dst, src, len + 1);
	return 0;
}

int str_fmt(char *dst, size_t n, const char *fmt, ...)
{
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(dst, n, fmt, ap);
	va_end(ap);
	if (len < 0 || (size_t)len >= n) {
		if (n)
			dst[0] = '\0';
		return -1;
	}
	return 0;
}

char *str_dup(const char *s)
{
	return strdup(s);
}

char *str_dupn(const char *s, size_t n)
{
	return strndup(s, n);
}

char *str_dupf(const char *fmt, ...)
{
	va_list ap;
	char *p;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&p, fmt, ap);
	va_end(ap);
	return n < 0 ? NULL : p;
}

void strv_free(char **v)
{
	if (!v)
		return;
	for (size_t i = 0; v[i]; i++)
		free(v[i]);
	free(v);
}

size_t strv_len(char *const *v)
{
	size_t n = 0;

	while (v && v[n])
		n++;
	return n;
}

char **strv_dup(char *const *v)
{
	size_t n = strv_len(v);
	char **copy = calloc(n + 1, sizeof *copy);

	if (!copy)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		copy[i] = strdup(v[i]);
		if (!copy[i]) {
			strv_free(copy);
			return NULL;
		}
	}
	return copy;
}
