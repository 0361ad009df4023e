/* sanitized.h - SANITIZED: is this an instrumented build, whose run-time must look at its own process and write where we would not let it? */
#ifndef PADDOCK_BASE_SANITIZED_H
#define PADDOCK_BASE_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#endif
