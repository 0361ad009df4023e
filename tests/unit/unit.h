/* unit.h - what every cmocka test includes first; scratch directories. */
#ifndef PADDOCK_TESTS_UNIT_H
#define PADDOCK_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define UNIT_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* A directory for one test, made below $TMPDIR or /tmp; the caller removes what it puts there. */
static inline char *unit_tmpdir(char dst[128])
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dst, 128, "%.90s/paddock-unit-XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(dst));
	return dst;
}

#endif
