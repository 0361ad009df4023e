#include "base/fault.h"

#ifdef PADDOCK_FAULTS

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
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

/* The highest number that was done, for all that are forked from this process: mapped before anything is. */
static _Atomic uint64_t *last_done;

__attribute__((constructor)) static void share(void)
{
	void *p = mmap(NULL, sizeof(*last_done), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	last_done = p == MAP_FAILED ? NULL : p;
}

static bool is_first(const char *number)
{
	uint64_t n, was;

	if (!last_done || num_u64(number, UINT64_MAX, &n) < 0)
		return false;
	was = atomic_load(last_done);
	return was < n && atomic_compare_exchange_strong(last_done, &was, n);
}

static bool is_me(const char *process)
{
	char name[16] = "";

	return prctl(PR_GET_NAME, name, 0, 0, 0) == 0 && strcmp(name, process) == 0;
}

/* action[@PROCESS][#NUMBER] */
static bool act(const char *name, char *action)
{
	char *once = strchr(action, '#'), *process;

	if (once)
		*once++ = '\0';
	process = strchr(action, '@');
	if (process)
		*process++ = '\0';
	if ((process && !is_me(process)) || (once && !is_first(once)))
		return false;
	if (strcmp(action, "kill") == 0) {
		log_kv(LOG_WARN, "fault_kill", "point", name, NULL);
		kill(getpid(), SIGKILL);
	} else if (strncmp(action, "stall:", 6) == 0) {
		stall(action + 6);
	}
	return strcmp(action, "fail") == 0;
}

static const char *const names[FAULT_POINTS] = {
#define FAULT_PLACE(step, place, who) [FAULT_AT_##step##_##place] = #step "_" #place,
#include "base/fault_steps.def"
#undef FAULT_PLACE
};

bool fault_hit(enum fault_point at)
{
	char spec[FAULT_SPEC_MAX], *rest = spec, *item;
	const char *name = names[at];
	size_t len = strlen(name);

	if (!spec_read(spec))
		return false;
	while ((item = strsep(&rest, ","))) {
		if (strncmp(item, name, len) == 0 && item[len] == '=')
			return act(name, item + len + 1);
	}
	return false;
}

#else
/* ISO C wants a declaration in each file. */
typedef int fault_not_built_in;
#endif
