#include "fcgi/board.h"

#include <sys/mman.h>

#include "base/clock.h"

struct board *board_new(void)
{
	void *p = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void board_busy(struct board_slot *s, int64_t now_boot_ms)
{
	s->busy_since = now_boot_ms > 0 ? now_boot_ms : 1;
	s->state = BOARD_BUSY;
}

void board_idle(struct board_slot *s)
{
	s->busy_since = 0;
	s->state = BOARD_IDLE;
}

void board_count(struct board_slot *s, int status, int64_t us)
{
	int cls = status / 100;

	s->requests++;
	s->by_class[cls >= 1 && cls <= 5 ? cls : 0]++;
	s->busy_us += us > 0 ? (uint64_t)us : 0;
}

static void help(struct buf *b, const char *name, const char *type, const char *text)
{
	buf_addf(b, "# HELP %s %s\n# TYPE %s %s\n", name, text, name, type);
}

static void add_counter(struct buf *b, const char *name, const char *text, uint64_t v)
{
	help(b, name, "counter", text);
	buf_addf(b, "%s %llu\n", name, (unsigned long long)v);
}

static void add_requests(struct board *b, struct buf *to)
{
	uint64_t by_class[6] = { 0 }, requests = 0, us = 0;

	for (int i = 0; i < LIMIT_SLOTS; i++) {
		for (int c = 0; c < 6; c++)
			by_class[c] += b->slots[i].by_class[c];
		requests += b->slots[i].requests;
		us += b->slots[i].busy_us;
	}
	help(to, "paddock_api_requests_total", "counter", "Requests answered by workers, by class of status");
	for (int c = 1; c < 6; c++)
		buf_addf(to, "paddock_api_requests_total{class=\"%dxx\"} %llu\n", c, (unsigned long long)by_class[c]);
	help(to, "paddock_api_request_seconds", "summary", "Time from taking a request to its answer");
	buf_addf(to, "paddock_api_request_seconds_sum %llu.%06llu\n", (unsigned long long)(us / 1000000), (unsigned long long)(us % 1000000));
	buf_addf(to, "paddock_api_request_seconds_count %llu\n", (unsigned long long)requests);
}

static void add_workers(struct board *b, struct buf *to)
{
	unsigned busy = 0, idle = 0, janitors = 0;

	for (int i = 0; i < LIMIT_SLOTS; i++) {
		const struct board_slot *s = &b->slots[i];

		if (s->role == BOARD_JANITOR)
			janitors += s->pid > 0;
		else if (s->role == BOARD_WORKER && s->pid > 0)
			s->state == BOARD_BUSY ? busy++ : idle++;
	}
	help(to, "paddock_api_workers", "gauge", "Workers, by what they do");
	buf_addf(to, "paddock_api_workers{state=\"busy\"} %u\npaddock_api_workers{state=\"idle\"} %u\n", busy, idle);
	help(to, "paddock_api_janitors", "gauge", "Janitors of this master");
	buf_addf(to, "paddock_api_janitors %u\n", janitors);
}

int board_metrics(struct board *b, struct buf *to)
{
	add_requests(b, to);
	add_workers(b, to);
	add_counter(to, "paddock_api_child_deaths_total", "Children that ended without being told to", b->deaths);
	add_counter(to, "paddock_api_child_stuck_total", "Children killed because one request took too long", b->stuck);
	add_counter(to, "paddock_api_child_recycled_total", "Workers that left after their share of requests", b->recycled);
	add_counter(to, "paddock_api_reloads_total", "Configurations taken over", b->reloads);
	add_counter(to, "paddock_api_reload_failures_total", "Configurations refused", b->reload_failures);
	return buf_failed(to) ? -1 : 0;
}

static json_t *slot_json(const struct board_slot *s, int64_t now)
{
	static const char *const states[] = { "starting", "idle", "busy", "draining" };
	int64_t since = s->busy_since;
	char started[CLOCK_RFC3339_SIZE];
	json_t *o = json_object_new_object();
	unsigned state = (unsigned)s->state;

	clock_rfc3339(s->started_wall_ms, started);
	if (!o || json_add_i64(o, "pid", s->pid) < 0 || json_add_str(o, "role", s->role == BOARD_JANITOR ? "janitor" : "worker") < 0 ||
	    json_add_str(o, "state", state < 4 ? states[state] : "idle") < 0 || json_add_i64(o, "generation", s->generation) < 0 ||
	    json_add_str(o, "started_at", started) < 0 || json_add_i64(o, "busy_ms", since ? now - since : 0) < 0 ||
	    json_add_i64(o, "requests", (int64_t)s->requests) < 0) {
		json_object_put(o);
		return NULL;
	}
	return o;
}

json_t *board_json(struct board *b)
{
	cleanup_json json_t *o = json_object_new_object();
	json_t *items = json_object_new_array(), *ret;

	if (!o || !items || json_add_i64(o, "generation", b->generation) < 0 || json_add(o, "workers", items) < 0)
		return NULL;
	for (int i = 0; i < LIMIT_SLOTS; i++) {
		json_t *slot;

		if (b->slots[i].role == BOARD_FREE || b->slots[i].pid <= 0)
			continue;
		slot = slot_json(&b->slots[i], clock_boot_ms());
		if (!slot || json_object_array_add(items, slot) < 0)
			return NULL;
	}
	ret = o;
	o = NULL;
	return ret;
}
