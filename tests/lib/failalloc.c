#include "failalloc.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static long left;
static bool armed, fired;
static const char *scope;

void failalloc_arm(long nth)
{
	left = nth;
	fired = false;
	armed = true;
}

bool failalloc_disarm(void)
{
	armed = false;
	return fired;
}

void failalloc_only_from(const char *object)
{
	scope = object;
}

#if FAILALLOC
/* glibc's own, under the names that stay when malloc is replaced. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

static bool counts(const void *caller)
{
	Dl_info info;

	return !scope || (dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, scope));
}

static bool fails(const void *caller)
{
	if (!armed || !counts(caller) || --left != 0)
		return false;
	fired = true;
	errno = ENOMEM;
	return true;
}

void *malloc(size_t n)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(p, n);
}
#endif
