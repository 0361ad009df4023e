/* failalloc.h - a malloc that fails on demand, in the test program and every library in it. Not with AddressSanitizer. */
#ifndef PADDOCK_TESTS_FAILALLOC_H
#define PADDOCK_TESTS_FAILALLOC_H

#include <stdbool.h>

#include "base/sanitized.h"

#define FAILALLOC (!SANITIZED)

void failalloc_arm(long nth);    /* the nth allocation from now on fails, and only that one; 1 is the next */
void failalloc_only_from(const char *object);   /* counts those asked for by this program or library alone; NULL: all */
bool failalloc_disarm(void);     /* whether it came to that */

#endif
