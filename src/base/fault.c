#include "base/fault.h"

#ifdef PADDOCK_FAULTS

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"

#define FAULT_SPEC_MAX 1024
#define FAULT_STALL_MAX_MS 600000

/* The armed points as text: the file's when one is named (read each time), else the variable's. */
static bool spec_read(char dst[FAULT_SPEC_MAX])
{
	const char *file = getenv("PADDOCK_FAULT_FILE"), *env = getenv("PADDOCK_FAULT");
	ssize_t n;
	int fd;

	dst[0] = '\0';
	if (!file) {
		if (!env || strlen(env) >= FAULT_SPEC_MAX)
			return false;
		memcpy(dst, env, strlen(env) + 1);
		return true;
	}
	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, dst, FAULT_SPEC_MAX - 1);
	close(fd);
	dst[n > 0 ? n : 0] = '\0';
	dst[strcspn(dst, "\n")] = '\0';
	return n > 0;
}

static void stall(const char *ms_text)
{
	uint64_t ms;
	struct timespec ts;

	if (num_u64(ms_text, FAULT_STALL_MAX_MS, &ms) < 0)
		return;
	ts.tv_sec = (time_t)(ms / 1000);
	ts.tv_nsec = (long)(ms % 1000) * 1000000;
	nanosleep(&ts, NULL);
}

static bool act(const char *action)
{
	if (strcmp(action, "kill") == 0)
		kill(getpid(), SIGKILL);
	else if (strncmp(action, "stall:", 6) == 0)
		stall(action + 6);
	return strcmp(action, "fail") == 0;
}

bool fault_hit(const char *name)
{
	char spec[FAULT_SPEC_MAX], *rest = spec, *item;
	size_t len = strlen(name);

	if (!spec_read(spec))
		return false;
	while ((item = strsep(&rest, ","))) {
		if (strncmp(item, name, len) == 0 && item[len] == '=')
			return act(item + len + 1);
	}
	return false;
}

#else
/* ISO C wants a declaration in each file. */
typedef int fault_not_built_in;
#endif
