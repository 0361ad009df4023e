/* cleanup.h - scope-bound ownership: cleanup attributes, steal_ptr() and steal_fd() to hand over. */
#ifndef PADDOCK_BASE_CLEANUP_H
#define PADDOCK_BASE_CLEANUP_H

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"

static inline void cleanup_free_(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close_(const int *fd)
{
	if (*fd >= 0) {
		int saved = errno;
		close(*fd);
		errno = saved;
	}
}

static inline void cleanup_closedir_(DIR **d)
{
	if (*d)
		closedir(*d);
}

static inline void cleanup_fclose_(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void cleanup_err_(err_t **e)
{
	err_free(*e);
}

#define cleanup(f) __attribute__((__cleanup__(f)))
#define cleanup_free cleanup(cleanup_free_)
#define cleanup_close cleanup(cleanup_close_)
#define cleanup_closedir cleanup(cleanup_closedir_)
#define cleanup_fclose cleanup(cleanup_fclose_)
#define cleanup_err cleanup(cleanup_err_)

static inline void *steal_ptr_(void *pp)
{
	void **p = pp, *v = *p;
	*p = NULL;
	return v;
}
/* The pointer's value; the variable becomes NULL. */
#define steal_ptr(pp) ((__typeof__(*(pp)))steal_ptr_(pp))

static inline int steal_fd(int *fd)
{
	int v = *fd;
	*fd = -1;
	return v;
}

#endif
