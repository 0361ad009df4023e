/* Payloads of every type: the first byte is the type, the rest is the payload. What is accepted must come back as the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "core/frame_msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The decoded message, encoded again; -1 when it was refused. */
static int again(uint8_t type, const uint8_t *p, size_t n, struct buf *b)
{
	union {
		struct msg_hello hello;
		struct msg_config config;
		struct msg_started started;
		struct msg_exited exited;
		struct msg_stdin_taken taken;
		struct msg_not_running not_running;
		struct msg_stdin in;
		struct msg_signal sig;
		struct msg_exec exec;
		const char *id;
	} m;
	char **v;
	int r;

	switch (type) {
	case MSG_HELLO: return msg_get_hello(p, n, &m.hello) < 0 ? -1 : msg_put_hello(b, &m.hello);
	case MSG_SYNCED: return msg_get_synced(p, n) < 0 ? -1 : msg_put_synced(b);
	case MSG_STARTED: return msg_get_started(p, n, &m.started) < 0 ? -1 : msg_put_started(b, &m.started);
	case MSG_EXITED: return msg_get_exited(p, n, &m.exited) < 0 ? -1 : msg_put_exited(b, &m.exited);
	case MSG_STDIN_TAKEN: return msg_get_stdin_taken(p, n, &m.taken) < 0 ? -1 : msg_put_stdin_taken(b, &m.taken);
	case MSG_NOT_RUNNING: return msg_get_not_running(p, n, &m.not_running) < 0 ? -1 : msg_put_not_running(b, &m.not_running);
	case MSG_CONFIG: return msg_get_config(p, n, &m.config) < 0 ? -1 : msg_put_config(b, &m.config);
	case MSG_STDIN: return msg_get_stdin(p, n, &m.in) < 0 ? -1 : msg_put_stdin(b, &m.in);
	case MSG_SIGNAL: return msg_get_signal(p, n, &m.sig) < 0 ? -1 : msg_put_signal(b, &m.sig);
	case MSG_KILL:
	case MSG_EXIT_ACK:
	case MSG_SCOPE_END:
	case MSG_SCOPE_ENDED: return msg_get_id(p, n, &m.id) < 0 ? -1 : msg_put_id(b, (enum msg_type)type, m.id);
	case MSG_EXEC:
		if (msg_get_exec(p, n, &m.exec, &v) < 0)
			return -1;
		r = msg_put_exec(b, &m.exec);
		free(v);
		if (r < 0)
			abort();
		return r;
	default: return -1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	cleanup_buf struct buf b = BUF_INIT(FRAME_HEADER + FRAME_MAX);

	if (size == 0 || again(data[0], data + 1, size - 1, &b) < 0)
		return 0;
	struct frame f;
	size_t used;
	if (frame_next(b.data, b.len, &f, &used) != 1 || f.type != data[0] || f.len != size - 1 ||
	    (f.len && memcmp(f.payload, data + 1, f.len) != 0))
		abort();
	return 0;
}
