/* rawcall.h - system calls that return -errno and touch nothing else. The processes between the agent and a command run in the agent's
 * own memory while it goes on: errno, locks and buffers of the C library belong to it alone. */
#ifndef PADDOCK_AGENT_RAWCALL_H
#define PADDOCK_AGENT_RAWCALL_H

#include <sys/syscall.h>

#if defined(__x86_64__)

static inline long rawcall6(long n, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return ret;
}

#elif defined(__aarch64__)

static inline long rawcall6(long n, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
}

#else
#error "rawcall6() is not written for this machine yet"
#endif

#define RAWCALL_PICK(a, b, c, d, e, f, name, ...) name
/* rawcall(SYS_x, arguments...), one to six of them, each cast to long. */
#define rawcall(n, ...) RAWCALL_PICK(__VA_ARGS__, rawcall_6, rawcall_5, rawcall_4, rawcall_3, rawcall_2, rawcall_1, )(n, __VA_ARGS__)
#define rawcall_1(n, a) rawcall6(n, (long)(a), 0, 0, 0, 0, 0)
#define rawcall_2(n, a, b) rawcall6(n, (long)(a), (long)(b), 0, 0, 0, 0)
#define rawcall_3(n, a, b, c) rawcall6(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define rawcall_4(n, a, b, c, d) rawcall6(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define rawcall_5(n, a, b, c, d, e) rawcall6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define rawcall_6(n, a, b, c, d, e, f) rawcall6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

_Noreturn static inline void rawcall_exit(int status)
{
	for (;;)
		rawcall(SYS_exit_group, status);
}

#endif
