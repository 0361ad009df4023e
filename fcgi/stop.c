#include "fcgi/stop.h"

#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>

int stop_open(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
		return -1;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

bool stop_asked(void)
{
	sigset_t set;

	return sigpending(&set) == 0 && sigismember(&set, SIGTERM) == 1;
}
