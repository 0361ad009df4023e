/* arena_kit.h - an arena for the tests of one program: group set-up and tear-down. */
#ifndef PADDOCK_TESTS_ARENA_KIT_H
#define PADDOCK_TESTS_ARENA_KIT_H

#include "unit.h"

#include "fcgi/arena.h"

static struct arena *arena;

static int set_up(void **state)
{
	(void)state;
	arena = arena_new(1 << 20);
	return arena ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	arena_free(arena);
	return 0;
}

#endif
