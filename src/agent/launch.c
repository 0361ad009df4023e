#include "agent/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/exports.h"
#include "agent/stack.h"
#include "agent/supervisor.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"

static char *const base_env[] = {
	(char[]){ "PATH=/usr/local/bin:/usr/bin:/bin" }, (char[]){ "HOME=/home/user" }, (char[]){ "USER=user" }, (char[]){ "LOGNAME=user" },
	(char[]){ "SHELL=/bin/bash" }, (char[]){ "LANG=C.UTF-8" },
};
#define BASE_ENV (sizeof(base_env) / sizeof(base_env[0]))

static char bash_path[] = "/bin/bash", bash_flag[] = "-c";

/* The end of the piece that starts at p, not inside a UTF-8 character. */
static size_t piece_len(const char *p, size_t left)
{
	size_t n = left < LAUNCH_PIECE ? left : LAUNCH_PIECE;

	for (unsigned back = 0; n < left && n > 1 && back < 3 && ((unsigned char)p[n] & 0xc0) == 0x80; back++)
		n--;
	return n;
}

/* eval "set --\n$1$2${10}...": the text runs without positional parameters, exactly as it would after bash -c. */
static size_t put_eval(char *dst, size_t pieces)
{
	static const char head[] = "eval \"set --\n";
	size_t n = sizeof(head) - 1;

	memcpy(dst, head, n);
	for (size_t i = 1; i <= pieces; i++) {
		dst[n++] = '$';
		dst[n++] = '{';
		if (i >= 10)
			dst[n++] = (char)('0' + i / 10);
		dst[n++] = (char)('0' + i % 10);
		dst[n++] = '}';
	}
	dst[n++] = '"';
	dst[n++] = 0;
	return n;
}

char **launch_shell(const char *text)
{
	size_t len = strlen(text), max = len / (LAUNCH_PIECE - 3) + 1;
	char **argv = malloc((max + 5) * sizeof(*argv) + len + max + 32 + 5 * max);

	if (!argv)
		return NULL;
	char *at = (char *)(argv + max + 5);
	size_t argc = 0;
	argv[argc++] = bash_path;
	argv[argc++] = bash_flag;
	if (len < LAUNCH_PIECE) {
		memcpy(at, text, len + 1);
		argv[argc++] = at;
		argv[argc] = NULL;
		return argv;
	}
	size_t script = argc++;
	argv[argc++] = bash_path;
	for (size_t n; len; text += n, len -= n) {
		n = piece_len(text, len);
		memcpy(at, text, n);
		at[n] = 0;
		argv[argc++] = at;
		at += n + 1;
	}
	argv[script] = at;
	put_eval(at, argc - script - 2);
	argv[argc] = NULL;
	return argv;
}

static size_t name_len(const char *var)
{
	return strcspn(var, "=");
}

/* The place of a variable of that name; n when there is none. */
static size_t env_find(char *const *v, size_t n, const char *var)
{
	size_t len = name_len(var), i = 0;

	while (i < n && (name_len(v[i]) != len || memcmp(v[i], var, len) != 0))
		i++;
	return i;
}

static void env_put(char **v, size_t *n, char *var)
{
	size_t i = env_find(v, *n, var);

	v[i] = var;
	*n += i == *n;
}

char **launch_env(char *const *env, char *last, size_t *ret_own)
{
	size_t n = 0, given = 0;

	while (env && env[given])
		given++;
	char **v = malloc((BASE_ENV + given + 2) * sizeof(*v));
	if (!v)
		return NULL;
	for (size_t i = 0; i < given; i++)
		env_put(v, &n, env[i]);
	if (last)
		env_put(v, &n, last);
	size_t own = n;
	for (size_t i = 0; i < BASE_ENV; i++)
		if (env_find(v, own, base_env[i]) == own)
			v[n++] = base_env[i];
	v[n] = NULL;
	*ret_own = own;
	return v;
}

/* A pipe whose inode belongs to the user: /dev/stdout can be opened by it. The larger size is a wish: pages are counted per account. */
static int make_pipe(int p[2], bool to_command)
{
	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	if (!to_command)
		fcntl(p[0], F_SETPIPE_SZ, LAUNCH_PIPE_BYTES);
	return fcntl(p[to_command ? 1 : 0], F_SETFL, O_NONBLOCK);   /* no other flag is set */
}

struct pipes {
	int in[2], out[2], err[2], report[2];
};

static void close_pair(const int p[2])
{
	for (int i = 0; i < 2; i++) {
		if (p[i] >= 0)
			close(p[i]);
	}
}

static void cleanup_pipes(struct pipes *p)
{
	close_pair(p->in);
	close_pair(p->out);
	close_pair(p->err);
	close_pair(p->report);
}

/* Some descriptors are kept for the connection and for looking at /proc: a kill must not fail for want of one. */
static bool leaves_spare(int highest)
{
	struct rlimit r;

	errno = EMFILE;
	return getrlimit(RLIMIT_NOFILE, &r) < 0 || (rlim_t)highest + LAUNCH_SPARE_FDS < r.rlim_cur;
}

static int make_pipes(struct pipes *p, bool with_stdin)
{
	setfsgid(LAUNCH_GID);
	setfsuid(LAUNCH_UID);
	int r = make_pipe(p->out, false) < 0 || make_pipe(p->err, false) < 0 || (with_stdin && make_pipe(p->in, true) < 0) ? -1 : 0;
	int saved = errno;
	setfsuid(0);
	setfsgid(0);
	/* A change of credentials resets this to what the machine's administrator chose. */
	prctl(PR_SET_DUMPABLE, 0);
	errno = saved;
	if (r < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p->report) < 0)
		return -1;
	return leaves_spare(p->report[1]) ? 0 : -1;
}

/* A copy of a vector with its strings in one malloc'ed block. */
static char **pack(char *const *v)
{
	size_t n = strv_len(v), bytes = (n + 1) * sizeof(*v);

	for (size_t i = 0; i < n; i++)
		bytes += strlen(v[i]) + 1;
	char **ret = malloc(bytes);
	if (!ret)
		return NULL;
	char *at = (char *)(ret + n + 1);
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(v[i]) + 1;
		ret[i] = memcpy(at, v[i], len);
		at += len;
	}
	ret[n] = NULL;
	return ret;
}

void launch_running(struct launch *l)
{
	if (!l)
		return;
	free(l->argv);
	free(l->env);
	free(l->cwd);
	free(l->exports);
	l->argv = l->env = NULL;
	l->cwd = NULL;
	l->exports = NULL;
}

void launch_free(struct launch *l)
{
	if (!l)
		return;
	launch_running(l);
	stack_put(l->stack);
	free(l);
}

static void cleanup_launch(struct launch **l)
{
	launch_free(*l);
}

static struct launch *prepare(const struct msg_exec *m, const struct msg_config *limits)
{
	cleanup_free char *variable = m->clean ? NULL : exports_variable(m->scope);
	cleanup(cleanup_launch) struct launch *l = calloc(1, sizeof(*l));
	cleanup_free char **env = l && (variable || m->clean) ? launch_env(m->env, variable, &l->env_own) : NULL;

	if (!env || (!m->clean && !(l->exports = exports_new(m->scope))))
		return NULL;
	l->argv = m->command ? launch_shell(m->command) : pack(m->argv);
	l->env = pack(env);
	l->cwd = str_dup(m->cwd);
	l->stack = stack_get();
	if (!l->argv || !l->env || !l->cwd || !l->stack)
		return NULL;
	l->make_cwd = m->make_cwd;
	l->nofile = limits->nofile;
	l->nproc = limits->nproc;
	l->nice = getpriority(PRIO_PROCESS, 0) + limits->nice;
	if (limits->oom_score_adj && str_fmt(l->oom_score_adj, sizeof(l->oom_score_adj), "%d", (int)limits->oom_score_adj) < 0)
		return NULL;
	return steal_ptr(&l);
}

static int share_memory = CLONE_VM;

void launch_init(void)
{
#if defined(__SANITIZE_ADDRESS__)
	share_memory = 0;
#else
	char c = '0';
	cleanup_close int fd = open("/proc/sys/fs/suid_dumpable", O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && io_read(fd, &c, 1) == 1 && c == '1')
		share_memory = 0;
#endif
}

int launch_share(void)
{
	return share_memory;
}

static int start_supervisor(void *arg)
{
	supervisor_run(arg, share_memory);
}

enum msg_stage launch_start(const struct msg_exec *m, const struct msg_config *limits, struct launched *ret)
{
	cleanup(cleanup_pipes) struct pipes p = { { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 } };
	cleanup(cleanup_launch) struct launch *l = prepare(m, limits);

	if (!l) {
		errno = ENOMEM;
		return MSG_STAGE_AGENT;
	}
	if (make_pipes(&p, m->stdin_open) < 0)
		return MSG_STAGE_PIPES;
	l->in = p.in[0];
	l->out = p.out[1];
	l->err = p.err[1];
	l->report = p.report[1];
	pid_t pid = clone(start_supervisor, stack_supervisor(l->stack), share_memory | SIGCHLD, l);
	if (pid < 0)
		return MSG_STAGE_FORK;
	*ret = (struct launched){ pid, steal_ptr(&l), steal_fd(&p.report[0]), steal_fd(&p.out[0]), steal_fd(&p.err[0]), steal_fd(&p.in[1]) };
	return MSG_STAGE_NONE;
}
