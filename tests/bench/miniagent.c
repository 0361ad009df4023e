/* miniagent.c - the least that can run commands inside a container: the floor that the product's agent is measured against.
 *
 *   miniagent serve PATH    listens on a Unix socket, a child per connection, one command after another on it
 *   miniagent write BYTES   writes that many bytes to standard output in 64 KiB pieces (a fast source)
 *
 * Request: u32 length, then argv with a NUL behind each. Answer: frames {u32 length, u8 type}; type 1 output, 2 the exit status (i32). */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FRAME_OUTPUT = 1, FRAME_EXIT = 2, PIECE = 65536, ARGS = 32 };

extern char **environ;

struct frame {
	uint32_t len;
	uint8_t type;
} __attribute__((packed));

static int write_all(int fd, const void *p, size_t n)
{
	const char *c = p;

	while (n > 0) {
		ssize_t k = write(fd, c, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return -1;
		c += k;
		n -= (size_t)k;
	}
	return 0;
}

static int read_all(int fd, void *p, size_t n)
{
	char *c = p;

	while (n > 0) {
		ssize_t k = read(fd, c, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return -1;
		c += k;
		n -= (size_t)k;
	}
	return 0;
}

static int send_frame(int fd, uint8_t type, const void *p, uint32_t n)
{
	struct frame f = {n, type};

	return write_all(fd, &f, sizeof(f)) < 0 || write_all(fd, p, n) < 0 ? -1 : 0;
}

static pid_t start(char **argv, int out)
{
	posix_spawn_file_actions_t fa;
	pid_t pid;
	int rc;

	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, out, 1);
	posix_spawn_file_actions_adddup2(&fa, out, 2);
	rc = posix_spawnp(&pid, argv[0], &fa, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	return rc == 0 ? pid : -1;
}

static int run_one(int fd, char **argv)
{
	static char piece[PIECE];
	int out[2], status = 0;
	int32_t code;
	ssize_t k;
	pid_t pid;

	if (pipe2(out, 02000000 /* O_CLOEXEC */) < 0)
		return -1;
	pid = start(argv, out[1]);
	close(out[1]);
	while ((k = read(out[0], piece, sizeof(piece))) > 0)
		if (send_frame(fd, FRAME_OUTPUT, piece, (uint32_t)k) < 0)
			break;
	close(out[0]);
	if (pid > 0)
		waitpid(pid, &status, 0);
	code = pid < 0 ? 127 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return send_frame(fd, FRAME_EXIT, &code, sizeof(code));
}

static void serve_connection(int fd)
{
	static char text[8192];
	uint32_t n;

	while (read_all(fd, &n, sizeof(n)) == 0 && n > 0 && n < sizeof(text) && read_all(fd, text, n) == 0) {
		char *argv[ARGS + 1];
		size_t argc = 0;

		text[n] = '\0';
		for (char *p = text; p < text + n && argc < ARGS; p += strlen(p) + 1)
			argv[argc++] = p;
		argv[argc] = NULL;
		if (argc == 0 || run_one(fd, argv) < 0)
			return;
	}
}

static int serve(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(a.sun_path))
		return 2;
	memcpy(a.sun_path, path, strlen(path) + 1);
	unlink(path);
	if (bind(listener, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(listener, 64) < 0) {
		perror(path);
		return 1;
	}
	for (;;) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (fd < 0)
			continue;
		if (fork() == 0) {
			close(listener);
			serve_connection(fd);
			_exit(0);
		}
		close(fd);
	}
}

static int write_bytes(const char *count)
{
	static char piece[PIECE];
	long long left = strtoll(count, NULL, 10);

	memset(piece, 'x', sizeof(piece));
	while (left > 0) {
		size_t n = left > PIECE ? PIECE : (size_t)left;

		if (write_all(1, piece, n) < 0)
			return 1;
		left -= (long long)n;
	}
	return 0;
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	if (argc == 3 && strcmp(argv[1], "serve") == 0)
		return serve(argv[2]);
	if (argc == 3 && strcmp(argv[1], "write") == 0)
		return write_bytes(argv[2]);
	fprintf(stderr, "usage: miniagent serve PATH | miniagent write BYTES\n");
	return 2;
}
