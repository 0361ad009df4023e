/* scripted_run.c - simulated commands go on: through real pipes, in a time that also passes while nobody looks. */
#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/str.h"
#include "scripted_priv.h"

#define LEFT_MAX (1 << 20)

/* --- pipes --- */

static void pipe_open(int fds[2], const char *left, size_t n)
{
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		abort();
	if (n) {
		(void)fcntl(fds[1], F_SETPIPE_SZ, LEFT_MAX);
		(void)io_write_full(fds[1], left, n);
	}
}

void run_open(struct cmd *c)
{
	if (c->live.out[0] >= 0)
		return;
	pipe_open(c->live.out, c->left[0], c->left_n[0]);
	pipe_open(c->live.err, c->left[1], c->left_n[1]);
	c->left_n[0] = c->left_n[1] = 0;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void close_writers(struct cmd *c)
{
	loop_io_free(c->live.io);
	c->live.io = NULL;
	close_fd(&c->live.out[1]);
	close_fd(&c->live.err[1]);
}

void run_close(struct cmd *c)
{
	close_writers(c);
	close_fd(&c->live.out[0]);
	close_fd(&c->live.err[0]);
}

void run_close_all(struct inst *i)
{
	list_for_each(n, &i->cmds)
		run_close(list_entry(n, struct cmd, node));
}

static void save(struct cmd *c, int fd, const char *which)
{
	cleanup_buf struct buf all = BUF_INIT(LEFT_MAX), pct = BUF_INIT(4 * LEFT_MAX);
	char part[8192];
	ssize_t n;

	while (fd >= 0 && (n = io_read(fd, part, sizeof(part))) > 0)
		buf_add(&all, part, (size_t)n);
	if (!all.len)
		return;
	pct_encode(&pct, all.data, all.len);
	world_note(c->inst->w, clock_boot_us(), "left %s %s %s %s", c->inst->id, c->id, which, buf_str(&pct));
}

void run_save(struct cmd *c)
{
	save(c, c->live.out[0], "out");
	save(c, c->live.err[0], "err");
	run_close(c);
}

/* --- steps --- */

struct turn {
	struct provider *p;
	struct cmd *c;
	int64_t now;
	int64_t next;      /* when to come again */
};

static void on_writable(void *arg, int fd, int events)
{
	struct cmd *c = arg;

	(void)fd;
	(void)events;
	loop_io_set(c->live.io, 0);   /* until it is found full again: a timer that is set over and over would never run out */
	scripted_soon(c->live.p);
}

/* It waits until the pipe takes more. */
static void wait_for_room(struct turn *t, int fd)
{
	t->c->live.p = t->p;
	if (!t->c->live.io)
		t->c->live.io = loop_io_new(t->p->loop, fd, LOOP_WRITE, on_writable, t->c);
	else
		loop_io_set(t->c->live.io, LOOP_WRITE);
}

/* False: the pipe is full. Moves *given on. */
static bool give(struct turn *t, int fd, const char *data, size_t n, int64_t *given)
{
	while ((size_t)*given < n) {
		ssize_t put = write(fd, data + *given, n - (size_t)*given);

		if (put < 0 && errno == EAGAIN) {
			wait_for_room(t, fd);
			return false;
		}
		if (put < 0)
			break;   /* nobody reads any more: dropped, as the agent does it */
		*given += put;
	}
	return true;
}

static bool give_zeros(struct turn *t, const struct step *s)
{
	static const char zeros[65536];

	while (t->c->zeros < s->n) {
		int64_t given = 0;
		size_t n = s->n - t->c->zeros < (int64_t)sizeof(zeros) ? (size_t)(s->n - t->c->zeros) : sizeof(zeros);
		bool all = give(t, t->c->live.out[1], zeros, n, &given);

		t->c->zeros += given;
		if (!all)
			return false;
	}
	return true;
}

static int files_dir(const struct inst *i, const struct step *s)
{
	cleanup_free char *name = str_dupf("files.%s", *s->text == 'w' ? i->workspace : i->id);

	(void)mkdirat(i->w->dir_fd, name, 0755);
	return openat(i->w->dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Standard input to standard output and, for a file operation, to the file. */
static bool copy_in(struct turn *t, const struct step *s)
{
	struct cmd *c = t->c;
	int64_t given = 0;
	cleanup_close int dir = s->kind == STEP_FILE_WRITE ? files_dir(c->inst, s) : -1;
	cleanup_close int fd = dir < 0 ? -1 : openat(dir, base_of(s->text + 1), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (c->zeros ? 0 : O_TRUNC), 0644);

	c->zeros = 1;
	if (c->live.in.len) {
		(void)give(t, c->live.out[1], c->live.in.data, c->live.in.len, &given);
		if (fd >= 0)
			(void)io_write_full(fd, c->live.in.data, (size_t)given);
		buf_consume(&c->live.in, (size_t)given);
		c->taken += (uint64_t)given;
		world_note(c->inst->w, t->now, "stdin %s %s %llu %d", c->inst->id, c->id, (unsigned long long)c->taken, c->eof);
		c->live.tell_stdin = given > 0;
	}
	return !c->live.in.len && (c->eof || !c->stdin_open);
}

static void list_files(int dir, struct buf *b)
{
	cleanup_closedir DIR *d = fdopendir(fcntl(dir, F_DUPFD_CLOEXEC, 0));
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (!str_eq(e->d_name, ".") && !str_eq(e->d_name, ".."))
			buf_add(b, e->d_name, strlen(e->d_name) + 1);
}

/* One file operation; a failure is told on standard error and ends the command with 1. */
static bool file_step(struct turn *t, const struct step *s)
{
	cleanup_close int dir = files_dir(t->c->inst, s);
	cleanup_buf struct buf b = BUF_INIT(LEFT_MAX);
	cleanup_free char *text = NULL;
	const char *name = base_of(s->text + 1);
	struct stat st;
	size_t n = 0;
	int rc = 0;
	int64_t given = 0;

	if (s->kind == STEP_FILE_READ && (rc = io_read_file(dir, name, LEFT_MAX, &text, &n, NULL)) == 0)
		buf_add(&b, text, scripted_breaks(t->p, "half_files") ? strlen(text) : n);
	else if (s->kind == STEP_FILE_SIZE && (rc = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW)) == 0)
		buf_addf(&b, "%lld\n", (long long)st.st_size);
	else if (s->kind == STEP_FILE_LIST)
		list_files(dir, &b);
	else if (s->kind == STEP_FILE_REMOVE)
		rc = unlinkat(dir, name, 0);
	else if (s->kind == STEP_FILE_RENAME)
		rc = renameat(dir, name, dir, base_of(s->text + strlen(s->text) + 1));
	if (rc < 0)
		t->c->plan.steps[t->c->plan.n - 1].n = 1;
	given = t->c->zeros;
	bool all = give(t, t->c->live.out[1], buf_str(&b), b.len, &given);
	t->c->zeros = given;
	return all;
}

static void share(struct turn *t, const struct step *s)
{
	cleanup_buf struct buf b = BUF_INIT(8192);

	pct_encode(&b, s->text, s->len);
	world_note(t->c->inst->w, t->now, "share %s %s %s", t->c->inst->id, t->c->scope, buf_str(&b));
}

/* True: done. False: it waits. */
static bool do_step(struct turn *t, const struct step *s)
{
	struct cmd *c = t->c;
	bool alive = s->kind == STEP_ALIVE && world_alive(c->inst, s->text, t->now);
	size_t lost = scripted_breaks(t->p, "loses_output") && s->len;

	switch (s->kind) {
	case STEP_OUT:
		return give(t, c->live.out[1], s->text, s->len - lost, &c->zeros);
	case STEP_ERR:
		return give(t, c->live.err[1], s->text, s->len, &c->zeros);
	case STEP_ALIVE:
		return give(t, c->live.out[1], alive ? "yes\n" : "no\n", alive ? 4 : 3, &c->zeros);
	case STEP_ZEROS:
		return give_zeros(t, s);
	case STEP_CAT:
	case STEP_FILE_WRITE:
		return copy_in(t, s);
	case STEP_SHARE:
		share(t, s);
		return true;
	case STEP_BG:
		world_note(c->inst->w, t->now, "bg %s %s %lld %s", c->inst->id, c->id, (long long)(c->at_us + s->n), s->text);
		return true;
	case STEP_FILE_READ:
	case STEP_FILE_SIZE:
	case STEP_FILE_LIST:
	case STEP_FILE_REMOVE:
	case STEP_FILE_RENAME:
		return file_step(t, s);
	case STEP_DEAF:
	case STEP_SLEEP:
	case STEP_EXIT:
	case STEP_SIGNAL:
		break;
	}
	return true;
}

void run_end(struct cmd *c, int64_t at_us, enum exec_end end, int code, enum exec_why why)
{
	static const char *const whys[] = { "none", "timeout", "killed", "none" };

	close_writers(c);
	world_note(c->inst->w, at_us, "end %s %s %s %d %s", c->inst->id, c->id, end == EXEC_EXITED ? "exited" : "signaled", code, whys[why]);
}

static bool time_is_up(struct turn *t, int64_t at)
{
	if (at < t->c->timeout_us)
		return false;
	run_end(t->c, t->c->timeout_us, EXEC_SIGNALED, SIGKILL, EXEC_WHY_TIMEOUT);
	return true;
}

static void come_again(struct turn *t, int64_t at)
{
	if (t->next == WORLD_NEVER || at < t->next)
		t->next = at;
}

static void moved(struct turn *t, int64_t at)
{
	struct cmd *c = t->c;

	loop_io_free(c->live.io);
	c->live.io = NULL;
	world_note(c->inst->w, t->now, "step %s %s %zu %lld", c->inst->id, c->id, c->step + 1, (long long)at);
}

static void run(struct turn *t)
{
	struct cmd *c = t->c;

	while (!c->ended) {
		const struct step *s = &c->plan.steps[c->step];
		int64_t due = c->at_us + (s->kind == STEP_SLEEP ? s->n : 0);

		if (due > t->now || due >= c->timeout_us) {
			if (!time_is_up(t, due < t->now ? due : t->now))
				come_again(t, due < c->timeout_us ? due : c->timeout_us);
			return;
		}
		if (s->kind == STEP_EXIT)
			run_end(c, due, EXEC_EXITED, (int)s->n + scripted_breaks(t->p, "wrong_status"), EXEC_WHY_NONE);
		else if (s->kind == STEP_SIGNAL)
			run_end(c, due, EXEC_SIGNALED, (int)s->n, EXEC_WHY_NONE);
		else if (do_step(t, s))
			moved(t, s->kind == STEP_SLEEP || !c->zeros ? due : t->now);
		else {
			if (!time_is_up(t, t->now))
				come_again(t, c->timeout_us);
			return;
		}
	}
}

int64_t run_commands(struct provider *p, int64_t now_us)
{
	int64_t next = WORLD_NEVER;

	list_for_each(n, &p->world->living) {
		struct inst *i = list_entry(n, struct inst, node);

		list_for_each(m, &i->cmds) {
			struct turn t = { p, list_entry(m, struct cmd, node), now_us, next };

			if (t.c->live.out[1] >= 0)
				run(&t);
			next = t.next;
		}
	}
	return next;
}

void run_feed(struct cmd *c, uint64_t offset, const void *data, size_t n, bool eof)
{
	uint64_t held = c->taken + c->live.in.len;

	if (offset > held || c->eof)
		return;
	if (offset + n > held)
		buf_add(&c->live.in, (const char *)data + (held - offset), (size_t)(offset + n - held));
	if (eof) {
		c->eof = true;
		world_note(c->inst->w, clock_boot_us(), "stdin %s %s %llu 1", c->inst->id, c->id, (unsigned long long)c->taken);
	}
}
