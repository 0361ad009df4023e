#include "agent/stack.h"

#include <stddef.h>
#include <sys/mman.h>

/* From below: guard, leader, guard, supervisor with the list's node at its very top. */
#define GUARD 4096
#define ROOM (28 * 1024)
#define BYTES (2 * (GUARD + ROOM))
#define SPARE_MAX 8

struct stack {
	struct stack *next;
	char *base;
	/* keeps what lies below this struct aligned as a stack has to be */
	void *pad[2];
};

static struct stack *spare;
static unsigned spares;

static struct stack *make(void)
{
	char *base = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (base == MAP_FAILED)
		return NULL;
	if (mprotect(base, GUARD, PROT_NONE) < 0 || mprotect(base + GUARD + ROOM, GUARD, PROT_NONE) < 0) {
		munmap(base, BYTES);
		return NULL;
	}
	struct stack *s = (struct stack *)(void *)(base + BYTES - sizeof(*s));
	s->base = base;
	return s;
}

struct stack *stack_get(void)
{
	struct stack *s = spare;

	if (!s)
		return make();
	spare = s->next;
	spares--;
	return s;
}

void stack_put(struct stack *s)
{
	if (!s)
		return;
	if (spares == SPARE_MAX) {
		munmap(s->base, BYTES);
		return;
	}
	s->next = spare;
	spare = s;
	spares++;
}

void *stack_supervisor(struct stack *s)
{
	return s;
}

void *stack_leader(struct stack *s)
{
	return s->base + GUARD + ROOM;
}
