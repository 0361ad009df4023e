/* fault-list - prints the points of src/base/fault_steps.def for the crash matrix, a line each: name, step, place, who passes it (joined by commas).
 * Exit 77: this build has none of them. */
#include <stdio.h>

#include "base/fault.h"

#define WORKER 1
#define JANITOR 2
#define EXECUTOR 4
#define ENGINE 8
#define HOST 16
#define LAUNCHER 32

static const struct {
	const char *name, *step, *place;
	unsigned who;
} points[] = {
#define FAULT_PLACE(step, place, who) { #step "_" #place, #step, #place, who },
#include "base/fault_steps.def"
#undef FAULT_PLACE
};

int main(void)
{
	static const char *const actors[] = { "worker", "janitor", "executor", "engine", "host", "launcher" };

	for (size_t i = 0; i < sizeof(points) / sizeof(*points); i++) {
		const char *sep = " ";

		printf("%s %s %s", points[i].name, points[i].step, points[i].place);
		for (unsigned a = 0; a < sizeof(actors) / sizeof(*actors); a++) {
			if (points[i].who & 1u << a) {
				printf("%s%s", sep, actors[a]);
				sep = ",";
			}
		}
		putchar('\n');
	}
#ifdef PADDOCK_FAULTS
	return 0;
#else
	return 77;
#endif
}
