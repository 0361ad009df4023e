#include "truth.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

#define WORDS_MAX 10
#define READ_BYTES 65536
#define GROW 1024

/* --- places by id --- */

typedef const char *name_of(const struct truth *t, size_t place);

static const char *instance_name(const struct truth *t, size_t place)
{
	return t->instances[place].id;
}

static const char *command_name(const struct truth *t, size_t place)
{
	return t->commands[place].id;
}

static const char *scope_name(const struct truth *t, size_t place)
{
	return t->scopes[place];
}

static size_t slot_of(const struct truth_index *x, const char *id)
{
	uint64_t h = 14695981039346656037u;

	for (; *id; id++)
		h = (h ^ (unsigned char)*id) * 1099511628211u;
	return (size_t)(h ^ h >> 32) & (x->size - 1);
}

/* The place + 1; 0: not there. */
static size_t find(const struct truth *t, const struct truth_index *x, name_of *name, const char *id)
{
	if (!x->size)
		return 0;
	for (size_t s = slot_of(x, id); x->slots[s]; s = (s + 1) & (x->size - 1))
		if (str_eq(name(t, x->slots[s] - 1), id))
			return x->slots[s];
	return 0;
}

static void enter(struct truth_index *x, const char *id, size_t place)
{
	size_t s = slot_of(x, id);

	while (x->slots[s])
		s = (s + 1) & (x->size - 1);
	x->slots[s] = (uint32_t)place + 1;
}

static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

static void add(struct truth *t, struct truth_index *x, name_of *name, size_t place)
{
	if (2 * (x->n + 1) > x->size) {
		free(x->slots);
		x->size = x->size ? 2 * x->size : GROW;
		x->slots = must(calloc(x->size, sizeof *x->slots));
		for (size_t i = 0; i < x->n; i++)
			enter(x, name(t, i), i);
	}
	enter(x, name(t, place), place);
	x->n++;
}

static void *room(void *list, size_t n, size_t size)
{
	return n % GROW ? list : must(realloc(list, (n + GROW) * size));
}

static void drop(size_t *list, size_t *n, size_t place)
{
	for (size_t i = 0; i < *n; i++)
		if (list[i] == place) {
			list[i] = list[--*n];
			return;
		}
}

/* --- what a line says --- */

struct line {
	struct truth *t;
	int64_t at;
	char *word[WORDS_MAX];   /* behind the verb; "" when missing */
	struct truth_instance *i;
	struct truth_command *c;
};

static void violation(struct truth *t, const char *what, const char *a, const char *b)
{
	if (!t->violation[0])
		snprintf(t->violation, sizeof t->violation, "%s: %s %s", what, a, b);
}

static bool is_up(const struct truth_instance *i)
{
	return i->state == TRUTH_RUNNING || i->state == TRUTH_PAUSING;
}

static void move(struct line *l, enum truth_state to)
{
	bool was = is_up(l->i);

	l->i->state = to;
	if (was && !is_up(l->i))
		l->i->ran_us += l->at - l->i->since_us;
	else if (!was && is_up(l->i))
		l->i->since_us = l->at;
}

/* Its processes are no more. */
static void lose(struct line *l)
{
	struct truth *t = l->t;
	size_t place = (size_t)(l->i - t->instances);

	for (size_t n = t->n_alive; n-- > 0;) {
		struct truth_command *c = &t->commands[t->alive[n]];
		if (c->instance != place)
			continue;
		if (!c->ended)
			snprintf(c->how, sizeof c->how, "lost");
		c->ended = true;
		c->bg_until_us = 0;
		t->alive[n] = t->alive[--t->n_alive];
	}
	l->i->running = 0;
}

static void do_making(struct line *l)
{
	struct truth *t = l->t;

	if (l->i) {
		violation(t, "an instance was made again", l->word[0], "");
		return;
	}
	for (size_t n = 0; n < t->n_living; n++) {
		const struct truth_instance *o = &t->instances[t->living[n]];
		if (str_eq(o->workspace, l->word[1]) && o->destroys < TRUTH_STUCK_TRIES)
			violation(t, "two living instances of a workspace", o->id, l->word[0]);
	}
	t->instances = room(t->instances, t->n_instances, sizeof *t->instances);
	t->living = room(t->living, t->n_instances, sizeof *t->living);
	struct truth_instance *i = &t->instances[t->n_instances++];
	*i = (struct truth_instance){ .state = TRUTH_MAKING };
	snprintf(i->id, sizeof i->id, "%s", l->word[0]);
	snprintf(i->workspace, sizeof i->workspace, "%s", l->word[1]);
	t->living[t->n_living++] = t->n_instances - 1;
	add(t, &t->by_instance, instance_name, t->n_instances - 1);
}

static void do_running(struct line *l)
{
	move(l, TRUTH_RUNNING);
}

static void do_pausing(struct line *l)
{
	if (l->i->running)
		violation(l->t, "it is paused while commands run", l->i->id, "");
	move(l, TRUTH_PAUSING);
}

static void do_waking(struct line *l)
{
	move(l, TRUTH_WAKING);
}

static void do_paused(struct line *l)
{
	if (l->i->running && str_eq(l->word[1], "asked"))
		violation(l->t, "it was paused while commands run", l->i->id, "");
	move(l, TRUTH_PAUSED);
	lose(l);
}

static void do_failed(struct line *l)
{
	move(l, TRUTH_FAILED);
}

static void passes(struct line *l, enum truth_state to)
{
	if (l->i->state == TRUTH_VANISHED || l->i->state == TRUTH_GONE)
		return;
	move(l, to);
	lose(l);
	drop(l->t->living, &l->t->n_living, (size_t)(l->i - l->t->instances));
}

static void do_vanished(struct line *l)
{
	passes(l, TRUTH_VANISHED);
}

static void do_gone(struct line *l)
{
	passes(l, TRUTH_GONE);
}

static void do_start(struct line *l)
{
	struct truth *t = l->t;

	if (l->c) {
		violation(t, "a command was started twice", l->word[1], "");
		return;
	}
	if (find(t, &t->ended_scopes, scope_name, l->word[2]))
		violation(t, "a command was started in a scope that has ended", l->word[1], l->word[2]);
	t->commands = room(t->commands, t->n_commands, sizeof *t->commands);
	t->alive = room(t->alive, t->n_commands, sizeof *t->alive);
	struct truth_command *c = &t->commands[t->n_commands++];
	*c = (struct truth_command){ .instance = (size_t)(l->i - t->instances) };
	snprintf(c->id, sizeof c->id, "%s", l->word[1]);
	snprintf(c->scope, sizeof c->scope, "%s", l->word[2]);
	t->alive[t->n_alive++] = t->n_commands - 1;
	l->i->running++;
	add(t, &t->by_command, command_name, t->n_commands - 1);
}

static void do_end(struct line *l)
{
	if (!l->c || l->c->ended)
		return;
	l->c->ended = true;
	snprintf(l->c->how, sizeof l->c->how, "%s", l->word[2]);
	snprintf(l->c->why, sizeof l->c->why, "%s", l->word[4]);
	l->c->code = (int)strtol(l->word[3], NULL, 10);
	l->i->running--;
	if (!l->c->bg_until_us)
		drop(l->t->alive, &l->t->n_alive, (size_t)(l->c - l->t->commands));
}

static void do_bg(struct line *l)
{
	if (l->c)
		l->c->bg_until_us = strtoll(l->word[2], NULL, 10);
}

static void do_bgkill(struct line *l)
{
	if (!l->c)
		return;
	l->c->bg_until_us = 0;
	if (l->c->ended)
		drop(l->t->alive, &l->t->n_alive, (size_t)(l->c - l->t->commands));
}

static void do_scope(struct line *l)
{
	struct truth *t = l->t;

	if (find(t, &t->ended_scopes, scope_name, l->word[1]))
		return;
	t->scopes = room(t->scopes, t->n_scopes, sizeof *t->scopes);
	snprintf(t->scopes[t->n_scopes++], ID_SIZE, "%s", l->word[1]);
	add(t, &t->ended_scopes, scope_name, t->n_scopes - 1);
}

static void do_call(struct line *l)
{
	size_t place = str_eq(l->word[0], "destroy") ? find(l->t, &l->t->by_instance, instance_name, l->word[1]) : 0;

	if (place)
		l->t->instances[place - 1].destroys++;
}

/* two_living is judged by do_making(), which knows what is stuck. */
static void do_violation(struct line *l)
{
	if (!str_eq(l->word[0], "two_living"))
		violation(l->t, l->word[0], l->word[1], l->word[2]);
}

static const struct {
	const char *verb;
	void (*fn)(struct line *l);
	bool of_instance;
} verbs[] = {
	{ "making", do_making, false }, { "running", do_running, true }, { "pausing", do_pausing, true }, { "waking", do_waking, true }, { "paused", do_paused, true },
	{ "failed", do_failed, true }, { "vanished", do_vanished, true }, { "gone", do_gone, true }, { "start", do_start, true }, { "end", do_end, true },
	{ "bg", do_bg, true }, { "bgkill", do_bgkill, true }, { "scope", do_scope, true }, { "call", do_call, false }, { "violation", do_violation, false },
};

static void take(struct truth *t, char *text)
{
	static char none[] = "";
	struct line l = { .t = t };
	char *rest = text, *verb;

	l.at = strtoll(strsep(&rest, " "), NULL, 10);
	verb = rest ? strsep(&rest, " ") : none;
	for (size_t i = 0; i < WORDS_MAX; i++)
		l.word[i] = rest ? strsep(&rest, " ") : none;
	size_t i = find(t, &t->by_instance, instance_name, l.word[0]), c = find(t, &t->by_command, command_name, l.word[1]);
	l.i = i ? &t->instances[i - 1] : NULL;
	l.c = c ? &t->commands[c - 1] : NULL;
	for (size_t v = 0; v < sizeof verbs / sizeof *verbs; v++)
		if (str_eq(verbs[v].verb, verb) && (l.i || !verbs[v].of_instance))
			verbs[v].fn(&l);
}

/* --- reading --- */

void truth_open(struct truth *t, const char *dir)
{
	char path[256];

	memset(t, 0, sizeof *t);
	snprintf(path, sizeof path, "%s/truth", dir);
	t->fd = open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0644);
	if (t->fd < 0)
		abort();
}

void truth_read(struct truth *t)
{
	for (;;) {
		if (t->tail_size - t->tail_n < READ_BYTES)
			t->tail = must(realloc(t->tail, t->tail_size += READ_BYTES));
		ssize_t n = pread(t->fd, t->tail + t->tail_n, READ_BYTES, t->at);
		char *from = t->tail, *end;
		if (n <= 0)
			return;
		t->at += n;
		t->tail_n += (size_t)n;
		while ((end = memchr(from, '\n', t->tail_n - (size_t)(from - t->tail)))) {
			*end = '\0';
			take(t, from);
			from = end + 1;
		}
		t->tail_n -= (size_t)(from - t->tail);
		memmove(t->tail, from, t->tail_n);
	}
}

void truth_close(struct truth *t)
{
	close(t->fd);
	free(t->tail);
	free(t->instances);
	free(t->commands);
	free(t->scopes);
	free(t->living);
	free(t->alive);
	free(t->by_instance.slots);
	free(t->by_command.slots);
	free(t->ended_scopes.slots);
}

const struct truth_instance *truth_instance(const struct truth *t, const char *id)
{
	size_t place = find(t, &t->by_instance, instance_name, id);
	return place ? &t->instances[place - 1] : NULL;
}

const struct truth_command *truth_command(const struct truth *t, const char *id)
{
	size_t place = find(t, &t->by_command, command_name, id);
	return place ? &t->commands[place - 1] : NULL;
}

bool truth_alive(const struct truth *t, const struct truth_command *c, int64_t now_us)
{
	enum truth_state s = t->instances[c->instance].state;
	return (s == TRUTH_RUNNING || s == TRUTH_PAUSING) && (!c->ended || c->bg_until_us > now_us);
}

int64_t truth_ran_ms(const struct truth_instance *i, int64_t now_us)
{
	return (i->ran_us + (is_up(i) ? now_us - i->since_us : 0)) / 1000;
}
