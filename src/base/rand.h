/* rand.h - random bytes from getrandom(2). Never fails after the kernel's pool is ready; aborts if the call is missing. */
#ifndef PADDOCK_BASE_RAND_H
#define PADDOCK_BASE_RAND_H

#include <stddef.h>

void rand_bytes(void *p, size_t n);
/* Lower-case hex of nbytes random bytes, NUL-terminated; dst of 2*nbytes+1. */
void rand_hex(char *dst, size_t nbytes);

#endif
