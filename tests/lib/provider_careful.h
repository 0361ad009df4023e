/* provider_careful.h - a careful caller lives through every fault of the scripted provider: what the contract promises even then. For tests/unit/test_provider.c.
 *
 * It makes an instance, runs commands, pauses, wakes, keeps, ends a scope, lists and removes, and when an answer is missing or in doubt it does what provider.h
 * says: asks again by id, never makes a second, never starts a command twice. Afterwards the provider's own truth must show that. */
#ifndef PADDOCK_TESTS_PROVIDER_CAREFUL_H
#define PADDOCK_TESTS_PROVIDER_CAREFUL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

extern const struct CMUnitTest careful_tests[];
extern const size_t careful_tests_n;

#endif
