#include "domain/commands.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/num.h"
#include "base/str.h"
#include "domain/answer.h"
#include "domain/audit.h"
#include "domain/check.h"
#include "domain/command_json.h"
#include "domain/command_start.h"
#include "domain/executor_client.h"
#include "domain/lease.h"

#define TRIES 4

static int write_row(struct domain *d, const struct caller *c, const char *run_id, const struct lease *l, const struct start *s, struct db_result **ret, err_t **err)
{
	struct db_origin o = answer_origin(c);
	char instance[ID_SIZE];
	err_t *e = NULL;
	id_v7(instance);
	FAULT_POINT(start_before_row);
	for (int tries = TRIES; db_command_start(d->db, run_id, &l->db, instance, c->user, &s->row, &s->idem.db, &o, ret, &e) < 0;)
		if (!answer_again(&tries, s->idem.db.key, &e))
			return err_move(err, e);
	FAULT_POINT(start_after_row);
	return 0;
}

int commands_start(struct domain *d, const struct caller *c, const char *run_id, const struct command_new *n, struct command_started *ret, err_t **err)
{
	cleanup_start struct start s = { 0 };
	cleanup_db_result struct db_result *r = NULL;
	struct lease lease;
	int64_t since;
	int again, tries = START_AGAIN;
	if (!id_valid(run_id))
		return answer_not_found("Run", err);
	if (start_prepare(d, n, &s, err) < 0)
		return -1;
	lease_present(d, n->lease_token, &lease);
	do {
		db_result_free(steal_ptr(&r));
		since = clock_boot_ms();
		if (write_row(d, c, run_id, &lease, &s, &r, err) < 0)
			return -1;
		again = start_again(d, r, &tries, err);
	} while (again > 0);
	if (again < 0 || answer_check(db_str(r, 0, START_RESULT), err) < 0)
		return -1;
	return start_tell(d, c, n, &s, r, since, ret, err);
}

static int peek(struct domain *d, const struct caller *c, const char *command_id, struct db_result **ret, err_t **err)
{
	if (!id_valid(command_id))
		return answer_not_found("command", err);
	if (db_command_peek(d->db, command_id, c->user_id, ret, err) < 0)
		return -1;
	return db_rows(*ret) == 0 ? answer_not_found("command", err) : 0;
}

int commands_peek(struct domain *d, const struct caller *c, const char *command_id, bool *ret_ended, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	if (peek(d, c, command_id, &r, err) < 0)
		return -1;
	*ret_ended = db_bool(r, 0, PEEK_ENDED);
	return 0;
}

int commands_get(struct domain *d, const struct caller *c, const char *command_id, json_t **ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	json_t *live = NULL;
	if (!id_valid(command_id))
		return answer_not_found("command", err);
	if (db_command_get(d->db, command_id, c->user_id, &r, err) < 0)
		return -1;
	if (db_rows(r) == 0)
		return answer_not_found("command", err);
	executor_client_request_id(d->executor, c->request_id);
	if (db_null(r, 0, COMMAND_ENDED) && executor_client_command_get(d->executor, command_id, true, &live, NULL) == 0) {
		*ret = live;
		return 0;
	}
	live = command_json(r, 0, true, err);
	if (!live)
		return -1;
	*ret = live;
	return 0;
}

/* What the executor knows of the open commands of a page, in place of their rows. */
static void merge_live(struct domain *d, json_t *items, const char *const *open, size_t n)
{
	cleanup_json json_t *answer = NULL;
	const json_t *live = NULL;
	if (n == 0 || executor_client_commands_query(d->executor, open, n, &answer, NULL) < 0 || json_get_arr(answer, "items", true, &live, NULL) < 0)
		return;
	for (size_t i = 0; i < json_object_array_length(live); i++) {
		json_t *l = json_object_array_get_idx(live, i);
		const char *id = NULL, *other = NULL;
		if (json_get_str(l, "id", true, &id, NULL) < 0)
			continue;
		for (size_t k = 0; k < json_object_array_length(items); k++)
			if (json_get_str(json_object_array_get_idx(items, k), "id", true, &other, NULL) == 0 && str_eq(id, other))
				json_object_array_put_idx(items, k, json_object_get(l));
	}
}

static int list_items(struct domain *d, const struct db_result *r, int n, json_t *items, err_t **err)
{
	const char *open[200];
	size_t n_open = 0;
	for (int i = 0; i < n; i++) {
		json_t *o = command_json(r, i, false, err);
		if (!o)
			return -1;
		json_object_array_add(items, o);
		if (db_null(r, i, COMMAND_ENDED) && n_open < sizeof open / sizeof *open)
			open[n_open++] = db_str(r, i, COMMAND_ID);
	}
	merge_live(d, items, open, n_open);
	return 0;
}

int commands_list(struct domain *d, const struct caller *c, const char *run_id, const struct command_list *q, json_t **ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	int64_t limit;
	if (!id_valid(run_id))
		return answer_not_found("Run", err);
	if (q->cursor && !id_valid(q->cursor))
		return err_set(err, ERR_INVALID, "bad_cursor", "cursor is not one that was given");
	if (check_limit(q->limit, &limit, err) < 0 || db_command_list(d->db, run_id, c->user_id, q->cursor, limit + 1, &r, err) < 0)
		return -1;
	if (db_rows(r) == 0)
		return answer_not_found("Run", err);
	bool more;
	int n = answer_page(db_null(r, 0, COMMAND_ID) ? 0 : db_rows(r), limit, db_i64(r, 0, COMMAND_PAGE_ROWS), &more);
	cleanup_json json_t *items = json_object_new_array();
	executor_client_request_id(d->executor, c->request_id);
	if (!items)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a list");
	if (list_items(d, r, n, items, err) < 0)
		return -1;
	return answer_items(steal_ptr(&items), more ? db_str(r, n - 1, COMMAND_ID) : NULL, ret, err);
}

/* For calls that need a command that has not ended. Gives its row. */
static int must_run(struct domain *d, const struct caller *c, const char *command_id, struct db_result **ret, err_t **err)
{
	if (peek(d, c, command_id, ret, err) < 0)
		return -1;
	executor_client_request_id(d->executor, c->request_id);
	return db_bool(*ret, 0, PEEK_ENDED) ? err_set(err, ERR_CONFLICT, "not_running", "the command has ended") : 0;
}

/* A command that the executor does not know is not running there. */
static int told(err_t *e, err_t **err)
{
	if (err_code(e) != ERR_NOT_FOUND)
		return err_move(err, e);
	err_free(e);
	return err_set(err, ERR_CONFLICT, "not_running", "the command is not running");
}

int commands_stdin(struct domain *d, const struct caller *c, const char *command_id, const void *p, size_t n, bool eof, json_t **ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	err_t *e = NULL;
	if (must_run(d, c, command_id, &r, err) < 0)
		return -1;
	return executor_client_stdin(d->executor, command_id, p, n, eof, ret, &e) < 0 ? told(e, err) : 0;
}

static const char *const signals[] = { "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM", "CHLD", "CONT",
	"STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS" };

static int check_signal(const char **sig, err_t **err)
{
	int64_t v;
	const char *s = *sig;
	if (s && num_i64(s, 1, 64, &v) == 0)
		return 0;
	if (s && str_prefix(s, "SIG"))
		s += 3;
	for (size_t i = 0; s && i < sizeof signals / sizeof *signals; i++) {
		if (str_eq(signals[i], s)) {
			*sig = s;
			return 0;
		}
	}
	return err_set(err, ERR_REFUSED, "bad_signal", "signal must be a name such as TERM or a number from 1 to 64");
}

int commands_signal(struct domain *d, const struct caller *c, const char *command_id, const char *sig, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	err_t *e = NULL;
	if (check_signal(&sig, err) < 0 || must_run(d, c, command_id, &r, err) < 0)
		return -1;
	int rc = executor_client_signal(d->executor, command_id, db_str(r, 0, PEEK_INSTANCE), sig, &e);
	(void)audit_write(d, c, "command.signal", command_id, rc < 0 ? err_detail(e) : sig, NULL);
	return rc < 0 ? told(e, err) : 0;
}

int commands_kill(struct domain *d, const struct caller *c, const char *command_id, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	err_t *e = NULL;
	if (must_run(d, c, command_id, &r, err) < 0)
		return -1;
	int rc = executor_client_kill(d->executor, command_id, db_str(r, 0, PEEK_INSTANCE), "cancelled", &e);
	(void)audit_write(d, c, "command.kill", command_id, rc < 0 ? err_detail(e) : "ok", NULL);
	return rc < 0 ? told(e, err) : 0;
}
