#include "scripted_rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/str.h"

#define SCRIPT_MAX 65536
#define LOST_MS 200

static const struct { const char *name; enum fault fault; } faults[] = {
	{ "late", FAULT_LATE }, { "slow", FAULT_SLOW }, { "lost", FAULT_LOST }, { "silent", FAULT_SILENT }, { "twice", FAULT_TWICE }, { "refuse", FAULT_REFUSE },
	{ "reject", FAULT_REJECT }, { "says", FAULT_SAYS }, { "part", FAULT_PART }, { "vanish", FAULT_VANISH }, { "pause", FAULT_PAUSE }, { "stuck", FAULT_STUCK },
	{ "fail", FAULT_FAIL }, { "lose_contact", FAULT_LOSE_CONTACT }, { "contact", FAULT_CONTACT }, { "settle", FAULT_SETTLE },
};
static const char *const calls[] = {
	"create", "adopt", "lookup", "wake", "pause", "keep", "destroy", "list", "exec", "exec_stdin", "exec_ack", "exec_signal", "exec_kill", "scope_end", "now",
	"any", "health",
};
static const struct { const char *name; enum err_code code; } codes[] = {
	{ "unavailable", ERR_UNAVAILABLE }, { "busy", ERR_BUSY }, { "limit", ERR_LIMIT }, { "denied", ERR_DENIED }, { "unknown", ERR_UNKNOWN },
	{ "not_found", ERR_NOT_FOUND },
};

static void wrong(const char *line)
{
	fprintf(stderr, "scripted provider: the script has a line that means nothing: %s\n", line);
	abort();
}

static long number(const char *word, const char *line)
{
	char *end;
	long n = word ? strtol(word, &end, 10) : 0;

	if (!word || *end)
		wrong(line);
	return n;
}

static enum err_code code_of(const char *word, const char *line)
{
	for (size_t i = 0; word && i < sizeof(codes) / sizeof(codes[0]); i++)
		if (str_eq(codes[i].name, word))
			return codes[i].code;
	wrong(line);
	return ERR_INTERNAL;
}

static enum fault fault_of(const char *word, const char *line)
{
	for (size_t i = 0; word && i < sizeof(faults) / sizeof(faults[0]); i++)
		if (str_eq(faults[i].name, word))
			return faults[i].fault;
	wrong(line);
	return FAULT_NONE;
}

static bool is_call(const char *word)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (str_eq(calls[i], word))
			return true;
	return false;
}

/* What belongs to the fault itself; words that are not its own are left. */
static void argument(struct rule *r, char **rest, const char *line)
{
	bool needs_ms = r->fault == FAULT_LATE || r->fault == FAULT_SLOW || r->fault == FAULT_PART;
	bool may_ms = r->fault == FAULT_LOST || r->fault == FAULT_STUCK;

	r->ms = r->fault == FAULT_LOST ? LOST_MS : -1;
	if (needs_ms || (may_ms && *rest && **rest >= '0' && **rest <= '9'))
		r->ms = number(strsep(rest, " "), line);
	else if (r->fault == FAULT_REFUSE || r->fault == FAULT_REJECT)
		r->code = code_of(strsep(rest, " "), line);
	else if (r->fault == FAULT_SAYS && (!*rest || str_copy(r->says, sizeof(r->says), strsep(rest, " ")) < 0))
		wrong(line);
}

static void parse(struct rules *rs, char *text)
{
	cleanup_free char *line = str_dup(text);
	struct rule r = { .times = -1, .chance = 1 };
	char *rest = text, *word = strsep(&rest, " ");

	if (!*word || *word == '#')
		return;
	if (str_eq(word, "seed")) {
		rs->dice = (uint64_t)number(strsep(&rest, " "), line) * 2 + 1;
		return;
	}
	if (rs->n == sizeof(rs->list) / sizeof(rs->list[0]) || !is_call(word) || str_copy(r.call, sizeof(r.call), word) < 0)
		wrong(line);
	r.fault = fault_of(strsep(&rest, " "), line);
	argument(&r, &rest, line);
	if (str_eq(r.call, "now"))
		r.times = 1;
	while (rest && (word = strsep(&rest, " "))) {
		if (str_eq(word, "times"))
			r.times = number(strsep(&rest, " "), line);
		else if (str_eq(word, "skip"))
			r.skip = number(strsep(&rest, " "), line);
		else if (str_eq(word, "chance"))
			r.chance = strtod(rest ? strsep(&rest, " ") : "", NULL);
		else if (!str_eq(word, "of") || !rest || str_copy(r.of, sizeof(r.of), strsep(&rest, " ")) < 0)
			wrong(line);
	}
	rs->list[rs->n++] = r;
}

static uint64_t hash_of(const char *text)
{
	uint64_t h = 14695981039346656037u;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 1099511628211u;
	return h;
}

void rules_read(struct rules *r, struct world *w)
{
	cleanup_free char *text = NULL;

	if (io_read_file(w->dir_fd, "script", SCRIPT_MAX, &text, NULL, NULL) < 0 && !(text = str_dup("")))
		abort();
	if (r->text && str_eq(r->text, text))
		return;
	free(r->text);
	r->text = str_dup(text);
	r->hash = hash_of(text);
	r->dice = (uint64_t)clock_boot_us() | 1;
	r->n = 0;
	for (char *rest = text, *line; (line = strsep(&rest, "\n;"));)
		parse(r, line + strspn(line, " "));
	if (w->rules_hash != r->hash)
		memset(w->rule_uses, 0, sizeof(w->rule_uses));
	w->rules_hash = r->hash;
}

void rules_free(struct rules *r)
{
	free(r->text);
	*r = (struct rules){ 0 };
}

static bool falls(struct rules *r, double chance)
{
	if (chance >= 1)
		return true;
	r->dice ^= r->dice << 13;
	r->dice ^= r->dice >> 7;
	r->dice ^= r->dice << 17;
	return (double)(r->dice >> 11) / 9007199254740992.0 < chance;
}

static bool is_of(const struct rule *r, const char *call)
{
	return str_eq(r->call, call) || (str_eq(r->call, "any") && !str_eq(call, "now"));
}

const struct rule *rules_match(struct rules *rs, struct world *w, const char *call, const char *iid, const char *workspace)
{
	for (size_t i = 0; i < rs->n; i++) {
		struct rule *r = &rs->list[i];

		if (!is_of(r, call) || (*r->of && !str_eq(r->of, iid) && !str_eq(r->of, workspace)))
			continue;
		if ((r->times >= 0 && w->rule_uses[i] >= (unsigned long)r->times) || !falls(rs, r->chance))
			continue;
		if (r->skipped < r->skip) {
			r->skipped++;
			continue;
		}
		if (r->times >= 0)
			world_note(w, clock_boot_us(), "rule %llx %zu", (unsigned long long)rs->hash, i);
		return r;
	}
	return NULL;
}
