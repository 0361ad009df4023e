/* The parts of the service: keys, certificate, database, engine, image, executor, front. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "core/crypto.h"
#include "core/http_client.h"
#include "core/json.h"
#include "ctl/ctl_check.h"
#include "ctl/ctl_front.h"
#include "ctl/ctl_paths.h"
#include "ctl/ctl_proc.h"
#include "ctl/ctl_service.h"

#define ASK_MS 5000
#define ANSWER_MAX (1 << 20)

static void check_services(const struct config *c, struct ctl_finding *f)
{
	if (!ctl_service_supervised(c)) {
		ctl_find(f, CTL_MISSING, "the supervisor is not running: paddockctl start");
		return;
	}
	for (const char *const *s = ctl_services; *s; s++) {
		struct ctl_service_state st;

		if (ctl_service_state(c, *s, &st, NULL) < 0 || !st.up) {
			ctl_find(f, CTL_MISSING, "%s is down: look at /var/log/paddock%s/%s/current (journalctl -u paddock-%s%s)", *s, ctl_suffix(c), *s, *s,
				ctl_suffix(c));
			return;
		}
	}
	ctl_find(f, CTL_OK, "all run under %s", ctl_service_systemd() ? "systemd" : "s6");
}

static void check_keys(const struct config *c, struct ctl_finding *f)
{
	cleanup_free char *pepper = str_dupf("%s/pepper", config_str(c, "paths.keys"));
	cleanup_err err_t *err = NULL;
	struct crypto_key key;

	if (!pepper || crypto_init(&err) < 0 || crypto_key_load(pepper, &key, &err) < 0) {
		ctl_find(f, CTL_MISSING, "%s", err ? err_message(err) : "out of memory");
		return;
	}
	crypto_wipe(&key, sizeof key);
	ctl_find(f, CTL_OK, "%s", pepper);
}

static void check_certificate(const struct config *c, struct ctl_finding *f)
{
	cleanup_free char *file = ctl_path(c, "/etc/paddock%I/tls/cert.pem");
	const char *argv[] = { "openssl", "x509", "-noout", "-checkend", "1209600", "-in", file, NULL };
	cleanup_buf struct buf out = BUF_INIT(4096);

	if (!file || access(file, R_OK) < 0)
		ctl_find(f, CTL_MISSING, "%s is not there: run contrib/up", file ? file : "?");
	else if (ctl_proc_run(argv, &out, NULL) != 0)
		ctl_find(f, CTL_MISSING, "%s ends within 14 days: put a new one there (or remove it and run contrib/up), then paddockctl stop, start", file);
	else
		ctl_find(f, CTL_OK, "%s", file);
}

static void check_database(const struct config *c, struct ctl_finding *f)
{
	cleanup_free char *dir = ctl_path(c, "/run/paddock%I/pg");
	const char *argv[] = { "pg_isready", "-q", "-t", "5", "-h", dir, NULL };
	cleanup_buf struct buf out = BUF_INIT(4096);

	if (!dir || ctl_proc_run(argv, &out, NULL) != 0)
		ctl_find(f, CTL_MISSING, "PostgreSQL does not answer in %s", dir ? dir : "?");
	else
		ctl_find(f, CTL_OK, "PostgreSQL answers in %s", dir);
}

/* GET path on a Unix socket; the HTTP status, or -1 with f filled in. */
static int ask(const char *socket, const char *path, struct http_answer *a, struct ctl_finding *f)
{
	struct http_req r = { .method = "GET", .path = path, .timeout_ms = ASK_MS, .max_answer = ANSWER_MAX };
	cleanup_err err_t *err = NULL;
	struct http_client *h = http_client_new(socket, &err);
	int rc = h ? http_client_do(h, &r, a, &err) : -1;

	http_client_free(h);
	if (rc < 0) {
		ctl_find(f, CTL_MISSING, "%s: %s", socket, err_message(err));
		return -1;
	}
	return a->status;
}

static bool has_engine(const struct config *c, struct ctl_finding *f)
{
	if (str_eq(config_backend(c), "container"))
		return true;
	ctl_find(f, CTL_OK, "not used by %s", config_backend(c));
	return false;
}

static void check_engine(const struct config *c, struct ctl_finding *f)
{
	struct http_answer a = { 0 };
	int status = !has_engine(c, f) ? -1 : ask(config_str(c, "container.engine_socket"), "/_ping", &a, f);

	if (status == 200)
		ctl_find(f, CTL_OK, "%s answers", config_str(c, "container.engine"));
	else if (status >= 0)
		ctl_find(f, CTL_MISSING, "%s answered %d", config_str(c, "container.engine"), status);
	http_answer_free(&a);
}

static void check_image(const struct config *c, struct ctl_finding *f)
{
	const char *image = config_str(c, "container.image");
	cleanup_free char *path = str_dupf("/images/%s/json", image);
	struct http_answer a = { 0 };
	int status = path && has_engine(c, f) ? ask(config_str(c, "container.engine_socket"), path, &a, f) : -1;

	if (status == 200)
		ctl_find(f, CTL_OK, "%s", image);
	else if (status >= 0)
		ctl_find(f, CTL_MISSING, "the engine has no image %s: run contrib/up", image);
	http_answer_free(&a);
}

/* The first component that is not well, with its hint; false then. */
static bool read_health(const json_t *o, struct ctl_finding *f)
{
	const json_t *items = NULL;

	if (json_get_arr(o, "components", true, &items, NULL) < 0) {
		ctl_find(f, CTL_MISSING, "its health answer has no components");
		return true;
	}
	ctl_find(f, CTL_OK, "every component is ok");
	for (size_t i = 0; i < json_object_array_length(items); i++) {
		const json_t *it = json_object_array_get_idx(items, i);
		const char *name = "?", *hint = "";
		bool ok = false;

		json_get_str(it, "name", true, &name, NULL);
		json_get_str(it, "hint", false, &hint, NULL);
		json_get_bool(it, "ok", true, &ok, NULL);
		if (!ok) {
			ctl_find(f, CTL_MISSING, "%s: %s", name, hint);
			return false;
		}
	}
	return true;
}

/* False: a component is not well. */
static bool look_at_executor(const struct config *c, struct ctl_finding *f)
{
	struct http_answer a = { 0 };
	cleanup_err err_t *err = NULL;
	bool well = true;
	int status = ask(config_str(c, "executor.socket"), "/v1/health", &a, f);

	if (status == 200) {
		cleanup_json json_t *o = json_parse(buf_str(&a.body), a.body.len, ANSWER_MAX, 16, &err);

		if (o)
			well = read_health(o, f);
		else
			ctl_find(f, CTL_MISSING, "its health answer is not JSON: %s", err_message(err));
	} else if (status >= 0) {
		ctl_find(f, CTL_MISSING, "the executor answered %d", status);
	}
	http_answer_free(&a);
	return well;
}

static void check_executor(const struct config *c, struct ctl_finding *f)
{
	if (!look_at_executor(c, f)) {
		usleep(CTL_LOOK_AGAIN_US);
		look_at_executor(c, f);
	}
}

static void check_front(const struct config *c, struct ctl_finding *f)
{
	cleanup_buf struct buf body = BUF_INIT(65536);
	cleanup_err err_t *err = NULL;
	int status = ctl_front_ready(c, &body, &err);

	if (status == 200)
		ctl_find(f, CTL_OK, "https://localhost:%lld is ready", (long long)config_int(c, "service.https_port"));
	else if (status < 0)
		ctl_find(f, CTL_MISSING, "%s", err_message(err));
	else
		ctl_find(f, CTL_MISSING, "/readyz answers %d: %.300s", status, buf_str(&body));
}

const struct ctl_check ctl_checks_parts[] = {
	{ "services", check_services },
	{ "keys", check_keys },
	{ "certificate", check_certificate },
	{ "database", check_database },
	{ "engine", check_engine },
	{ "image", check_image },
	{ "executor", check_executor },
	{ "front", check_front },
	{ NULL, NULL },
};
