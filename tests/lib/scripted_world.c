#include "scripted_world.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/num.h"
#include "base/str.h"

#define WORDS_MAX 16
#define LINE_MAX_BYTES (8u << 20)
#define READ_BYTES 65536

/* --- a set of ids, as hashes --- */

static uint64_t hash_of(const char *id)
{
	uint64_t h = 14695981039346656037u;

	for (; *id; id++)
		h = (h ^ (unsigned char)*id) * 1099511628211u;
	return h ? h : 1;
}

static bool idset_has(const struct idset *s, uint64_t h)
{
	for (size_t i = h & (s->size - 1); s->size && s->slots[i]; i = (i + 1) & (s->size - 1))
		if (s->slots[i] == h)
			return true;
	return false;
}

static void idset_put(struct idset *s, uint64_t h)
{
	size_t i = h & (s->size - 1);

	while (s->slots[i])
		i = (i + 1) & (s->size - 1);
	s->slots[i] = h;
	s->n++;
}

static void idset_add(struct idset *s, const char *id)
{
	uint64_t h = hash_of(id);

	if (idset_has(s, h))
		return;
	if (2 * (s->n + 1) > s->size) {
		struct idset wider = { .size = s->size ? 2 * s->size : 1024 };

		if (!(wider.slots = calloc(wider.size, sizeof(*wider.slots))))
			abort();
		for (size_t i = 0; i < s->size; i++)
			if (s->slots[i])
				idset_put(&wider, s->slots[i]);
		free(s->slots);
		*s = wider;
	}
	idset_put(s, h);
}

/* --- finding --- */

static struct inst *in_list(const struct list *l, const char *id)
{
	list_for_each(n, l)
		if (str_eq(list_entry(n, struct inst, node)->id, id))
			return list_entry(n, struct inst, node);
	return NULL;
}

struct inst *world_find(const struct world *w, const char *id)
{
	return in_list(&w->living, id);
}

struct inst *world_any(const struct world *w, const char *id)
{
	struct inst *i = in_list(&w->living, id);

	return i ? i : in_list(&w->past, id);
}

struct cmd *world_cmd(const struct inst *i, const char *cid)
{
	if (i)
		list_for_each(n, &i->cmds)
			if (str_eq(list_entry(n, struct cmd, node)->id, cid))
				return list_entry(n, struct cmd, node);
	return NULL;
}

struct scope *world_scope(const struct inst *i, const char *sid)
{
	list_for_each(n, &i->scopes)
		if (str_eq(list_entry(n, struct scope, node)->id, sid))
			return list_entry(n, struct scope, node);
	return NULL;
}

size_t world_living(const struct world *w, const char *workspace)
{
	size_t found = 0;

	list_for_each(n, &w->living)
		found += !workspace || str_eq(list_entry(n, struct inst, node)->workspace, workspace);
	return found;
}

static bool is_up(const struct inst *i)
{
	return i->state == SIM_RUNNING || i->state == SIM_PAUSING;
}

int64_t world_ran_us(const struct inst *i, int64_t now_us)
{
	return i->ran_us + (is_up(i) ? now_us - i->since_us : 0);
}

unsigned world_running(const struct inst *i)
{
	unsigned n = 0;

	list_for_each(c, &i->cmds)
		n += !list_entry(c, struct cmd, node)->ended;
	return n;
}

bool world_alive(const struct inst *i, const char *seconds, int64_t now_us)
{
	list_for_each(n, &i->cmds) {
		const struct cmd *c = list_entry(n, struct cmd, node);
		const struct step *s = &c->plan.steps[c->step];

		if (c->bg_until_us > now_us && str_eq(c->bg, seconds))
			return true;
		if (!c->ended && s->kind == STEP_SLEEP && str_eq(s->text, seconds))
			return true;
	}
	return false;
}

/* --- what a line does --- */

struct line {
	struct world *w;
	int64_t t;
	char *word[WORDS_MAX];   /* behind the verb */
	size_t n;
	struct inst *i;          /* word 0, living; NULL */
	struct cmd *c;           /* word 1, of it; NULL */
};

static int64_t number(const char *s)
{
	return strtoll(s, NULL, 10);
}

void world_cmd_free(struct cmd *c)
{
	list_del(&c->node);
	plan_free(&c->plan);
	free(c->left[0]);
	free(c->left[1]);
	buf_free(&c->live.in);
	free(c);
}

/* Ended, acknowledged, nothing of it in the background. */
static void cmd_done(struct cmd *c, int64_t now)
{
	if (c->ended && c->acked && c->bg_until_us <= now && !c->live.io && c->live.out[0] < 0)
		world_cmd_free(c);
}

static void stretch_ends(struct inst *i, int64_t t)
{
	if (is_up(i))
		i->ran_us += t - i->since_us;
}

/* Its processes are no more; ends that nobody took are forgotten with them. */
static void cmds_lost(struct inst *i)
{
	list_for_each_safe(n, tmp, &i->cmds) {
		struct cmd *c = list_entry(n, struct cmd, node);

		c->ended = c->acked = true;
		c->bg_until_us = 0;
		cmd_done(c, 1);
	}
}

static void do_making(struct line *l)
{
	struct inst *i = calloc(1, sizeof(*i));

	if (!i || l->i || str_copy(i->id, sizeof(i->id), l->word[0]) < 0 || str_copy(i->workspace, sizeof(i->workspace), l->word[1]) < 0)
		abort();
	i->w = l->w;
	i->due_us = number(l->word[2]);
	list_init(&i->scopes);
	list_init(&i->cmds);
	list_add_tail(&l->w->living, &i->node);
}

static void do_running(struct line *l)
{
	if (!is_up(l->i))
		l->i->since_us = l->t;
	l->i->state = SIM_RUNNING;
}

static void do_pausing(struct line *l)
{
	l->i->state = SIM_PAUSING;
	l->i->due_us = number(l->word[1]);
}

static void do_waking(struct line *l)
{
	l->i->state = SIM_WAKING;
	l->i->due_us = number(l->word[1]);
}

static void do_paused(struct line *l)
{
	stretch_ends(l->i, l->t);
	l->i->state = SIM_PAUSED;
	cmds_lost(l->i);
}

static void do_failed(struct line *l)
{
	stretch_ends(l->i, l->t);
	l->i->state = SIM_FAILED;
}

static void passes(struct line *l, enum sim_state state)
{
	stretch_ends(l->i, l->t);
	l->i->state = state;
	cmds_lost(l->i);
	list_del(&l->i->node);
	list_add_tail(&l->w->past, &l->i->node);
}

static void do_vanished(struct line *l)
{
	passes(l, SIM_VANISHED);
}

static void do_gone(struct line *l)
{
	idset_add(&l->w->destroyed, l->word[0]);
	if (l->i)
		passes(l, SIM_GONE);
}

static void do_start(struct line *l)
{
	struct cmd *c = calloc(1, sizeof(*c));

	if (!c || l->c || str_copy(c->id, sizeof(c->id), l->word[1]) < 0 || str_copy(c->scope, sizeof(c->scope), l->word[2]) < 0 || !plan_decode(&c->plan, l->word[7]))
		abort();
	c->inst = l->i;
	c->pgid = (int32_t)number(l->word[3]);
	c->timeout_us = number(l->word[4]);
	c->stdin_open = *l->word[5] == '1';
	c->kind = *l->word[6] == 'f' ? EXEC_FILE : EXEC_COMMAND;
	c->at_us = c->start_us = l->t;
	c->start_wall_ms = clock_wall_ms() - (clock_boot_us() - l->t) / 1000;
	c->live.out[0] = c->live.out[1] = c->live.err[0] = c->live.err[1] = -1;
	buf_init(&c->live.in, 8u << 20);
	list_add_tail(&l->i->cmds, &c->node);
	idset_add(&l->w->started, c->id);
	if (l->w->next_pgid <= c->pgid)
		l->w->next_pgid = c->pgid + 1;
}

static void do_step(struct line *l)
{
	if (!l->c)
		return;
	l->c->step = (size_t)number(l->word[2]);
	l->c->at_us = number(l->word[3]);
	l->c->zeros = 0;
	for (size_t n = 0; n < l->c->step; n++)
		l->c->deaf |= l->c->plan.steps[n].kind == STEP_DEAF;
}

static void do_ack(struct line *l)
{
	if (!l->c)
		return;
	l->c->acked = true;
	cmd_done(l->c, l->t);
}

static void do_end(struct line *l)
{
	if (!l->c)
		return;
	l->c->ended = true;
	l->c->end = *l->word[2] == 'e' ? EXEC_EXITED : *l->word[2] == 's' ? EXEC_SIGNALED : EXEC_LOST;
	l->c->code = (int)number(l->word[3]);
	l->c->why = *l->word[4] == 't' ? EXEC_WHY_TIMEOUT : *l->word[4] == 'k' ? EXEC_WHY_KILLED : EXEC_WHY_NONE;
	l->c->end_wall_ms = l->c->start_wall_ms + (l->t - l->c->start_us) / 1000;
}

static void do_stdin(struct line *l)
{
	if (!l->c)
		return;
	l->c->taken = (uint64_t)number(l->word[2]);
	l->c->eof = *l->word[3] == '1';
}

static void do_left(struct line *l)
{
	int which = *l->word[2] == 'e';

	if (!l->c)
		return;
	free(l->c->left[which]);
	l->c->left[which] = pct_decode(l->word[3], strlen(l->word[3]), &l->c->left_n[which]);
}

static void do_bg(struct line *l)
{
	if (!l->c)
		return;
	l->c->bg_until_us = number(l->word[2]);
	(void)str_copy(l->c->bg, sizeof(l->c->bg), l->word[3]);
}

static void do_bgkill(struct line *l)
{
	if (!l->c)
		return;
	l->c->bg_until_us = 0;
	cmd_done(l->c, l->t);
}

static struct scope *scope_get(struct inst *i, const char *sid)
{
	struct scope *s = world_scope(i, sid);

	if (s)
		return s;
	if (!(s = calloc(1, sizeof(*s))) || str_copy(s->id, sizeof(s->id), sid) < 0)
		abort();
	list_add_tail(&i->scopes, &s->node);
	return s;
}

static void scope_vars_free(struct scope *s)
{
	while (s->vars_n)
		free(s->vars[--s->vars_n]);
}

static void do_scope(struct line *l)
{
	struct scope *s = scope_get(l->i, l->word[1]);

	s->ended = true;
	scope_vars_free(s);
}

static void do_share(struct line *l)
{
	struct scope *s = scope_get(l->i, l->word[1]);

	if (s->vars_n < sizeof(s->vars) / sizeof(s->vars[0]))
		s->vars[s->vars_n++] = pct_decode(l->word[2], strlen(l->word[2]), NULL);
}

static void do_dir(struct line *l)
{
	if (l->i->dirs_n < sizeof(l->i->dirs) / sizeof(l->i->dirs[0]))
		l->i->dirs[l->i->dirs_n++] = pct_decode(l->word[1], strlen(l->word[1]), NULL);
}

static void do_rule(struct line *l)
{
	uint64_t hash = strtoull(l->word[0], NULL, 16);
	size_t index = (size_t)number(l->word[1]);

	if (hash != l->w->rules_hash)
		memset(l->w->rule_uses, 0, sizeof(l->w->rule_uses));
	l->w->rules_hash = hash;
	if (index < sizeof(l->w->rule_uses) / sizeof(l->w->rule_uses[0]))
		l->w->rule_uses[index]++;
}

static void do_call(struct line *l)
{
	l->w->calls++;
}

static void do_violation(struct line *l)
{
	l->w->violations++;
	(void)str_fmt(l->w->violation, sizeof(l->w->violation), "%s %s %s", l->word[0], l->n > 1 ? l->word[1] : "", l->n > 2 ? l->word[2] : "");
}

static const struct effect {
	const char *verb;
	void (*fn)(struct line *l);
	size_t words;
	bool of_instance;        /* there must be a living one, else the line does nothing */
} effects[] = {
	{ "making", do_making, 3, false }, { "running", do_running, 1, true }, { "pausing", do_pausing, 2, true }, { "waking", do_waking, 2, true },
	{ "paused", do_paused, 2, true }, { "vanished", do_vanished, 1, true }, { "failed", do_failed, 1, true }, { "gone", do_gone, 1, false },
	{ "start", do_start, 8, true }, { "step", do_step, 4, true }, { "end", do_end, 5, true }, { "ack", do_ack, 2, true }, { "stdin", do_stdin, 4, true },
	{ "left", do_left, 4, true }, { "bg", do_bg, 4, true }, { "bgkill", do_bgkill, 2, true }, { "scope", do_scope, 2, true }, { "share", do_share, 3, true },
	{ "dir", do_dir, 2, true }, { "rule", do_rule, 2, false }, { "call", do_call, 1, false }, { "violation", do_violation, 1, false },
};

/* The line is taken apart in place. */
static void apply(struct world *w, char *text)
{
	struct line l = { .w = w };
	char *rest = text, *verb;

	l.t = number(strsep(&rest, " "));
	verb = rest ? strsep(&rest, " ") : NULL;
	while (rest && l.n < WORDS_MAX)
		l.word[l.n++] = strsep(&rest, " ");
	if (!verb)
		return;
	l.i = l.n ? world_find(w, l.word[0]) : NULL;
	l.c = l.n > 1 ? world_cmd(l.i, l.word[1]) : NULL;
	for (size_t i = 0; i < sizeof(effects) / sizeof(effects[0]); i++)
		if (str_eq(effects[i].verb, verb) && l.n >= effects[i].words && (l.i || !effects[i].of_instance))
			effects[i].fn(&l);
}

/* --- the log --- */

void world_note(struct world *w, int64_t t_us, const char *fmt, ...)
{
	cleanup_buf struct buf b = BUF_INIT(LINE_MAX_BYTES);
	cleanup_free char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		abort();
	va_end(ap);
	buf_addf(&b, "%lld %s\n", (long long)t_us, text);
	if (buf_failed(&b) || io_write_full(w->fd, b.data, b.len) < 0)
		abort();
	b.data[b.len - 1] = '\0';
	apply(w, b.data);
}

void world_refresh(struct world *w)
{
	for (;;) {
		if (buf_reserve(&w->tail, READ_BYTES) < 0)
			abort();
		ssize_t n = io_pread(w->fd, w->tail.data + w->tail.len, READ_BYTES, w->read_to);
		char *from = w->tail.data, *end;

		if (n <= 0)
			return;
		w->read_to += n;
		w->tail.len += (size_t)n;
		while ((end = memchr(from, '\n', w->tail.len - (size_t)(from - w->tail.data)))) {
			*end = '\0';
			apply(w, from);
			from = end + 1;
		}
		buf_consume(&w->tail, (size_t)(from - w->tail.data));
	}
}

struct world *world_open(const char *dir, bool acting)
{
	struct world *w = calloc(1, sizeof(*w));

	if (!w)
		abort();
	w->acting = acting;
	w->next_pgid = 100;
	buf_init(&w->tail, LINE_MAX_BYTES);
	list_init(&w->living);
	list_init(&w->past);
	w->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	w->fd = w->dir_fd < 0 ? -1 : openat(w->dir_fd, "truth", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (w->fd < 0) {
		fprintf(stderr, "scripted provider: PADDOCK_SCRIPTED_DIR: %s cannot be used\n", dir);
		abort();
	}
	world_refresh(w);
	return w;
}

static void inst_free(struct inst *i)
{
	list_for_each_safe(n, tmp, &i->cmds)
		world_cmd_free(list_entry(n, struct cmd, node));
	list_for_each_safe(n, tmp, &i->scopes) {
		scope_vars_free(list_entry(n, struct scope, node));
		free(list_entry(n, struct scope, node));
	}
	while (i->dirs_n)
		free(i->dirs[--i->dirs_n]);
	free(i);
}

void world_free(struct world *w)
{
	if (!w)
		return;
	list_for_each_safe(n, tmp, &w->living)
		inst_free(list_entry(n, struct inst, node));
	list_for_each_safe(n, tmp, &w->past)
		inst_free(list_entry(n, struct inst, node));
	free(w->destroyed.slots);
	free(w->started.slots);
	buf_free(&w->tail);
	close(w->fd);
	close(w->dir_fd);
	free(w);
}

/* --- the acting side --- */

void world_make(struct world *w, const struct instance_spec *s, int64_t now_us, int64_t due_us)
{
	if (w->persistent && world_living(w, s->workspace) > 0)
		world_note(w, now_us, "violation two_living %s %s", s->workspace, s->id);
	if (idset_has(&w->destroyed, hash_of(s->id)))
		world_note(w, now_us, "violation made_after_destroy %s %s", s->workspace, s->id);
	world_note(w, now_us, "making %s %s %lld", s->id, s->workspace, (long long)due_us);
}

void world_start(struct world *w, struct inst *i, const struct exec_spec *s, const struct plan *p, int64_t now_us)
{
	cleanup_buf struct buf b = BUF_INIT(LINE_MAX_BYTES);

	if (idset_has(&w->started, hash_of(s->exec_id)))
		world_note(w, now_us, "violation started_twice %s %s", i->id, s->exec_id);
	plan_encode(p, &b);
	world_note(w, now_us, "start %s %s %s %d %lld %d %s %s", i->id, s->exec_id, s->scope, w->next_pgid, (long long)(now_us + s->timeout_ms * 1000),
		s->stdin_open, s->kind == EXEC_FILE ? "file" : "command", buf_str(&b));
}

static void settle(struct world *w, struct inst *i)
{
	if (i->state == SIM_PAUSING)
		world_note(w, i->due_us, "paused %s asked", i->id);
	else
		world_note(w, i->due_us, "running %s", i->id);
}

int64_t world_pass(struct world *w, int64_t now_us)
{
	int64_t next = WORLD_NEVER;

	list_for_each_safe(n, tmp, &w->living) {
		struct inst *i = list_entry(n, struct inst, node);
		bool waits = i->state == SIM_MAKING || i->state == SIM_PAUSING || i->state == SIM_WAKING;

		if (!waits || i->due_us == WORLD_NEVER)
			continue;
		if (i->due_us <= now_us)
			settle(w, i);
		else if (next == WORLD_NEVER || i->due_us < next)
			next = i->due_us;
	}
	return next;
}
