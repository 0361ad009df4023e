#include "core/config.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "core/config_env.h"
#include "core/config_ini.h"
#include "core/config_rules.h"
#include "core/config_table.h"
#include "core/config_value.h"

#define INSTANCE_MAX 12
#define SUFFIX_SIZE (INSTANCE_MAX + 2)

enum source { FROM_DEFAULT, FROM_FILE, FROM_ENV };

struct setting {
	char *text;
	int64_t number;
	enum source source;
	char env[CONFIG_ENV_NAME];   /* the variable it came from */
};

struct config {
	char *path;
	const char *backend;
	struct setting *settings;   /* one for each of config_table */
};

/* "" or "-NAME": several installations live side by side on one machine. */
static int make_suffix(const char *name, char dst[SUFFIX_SIZE], err_t **err)
{
	dst[0] = '\0';
	if (!name || !*name)
		return 0;
	if (strlen(name) > INSTANCE_MAX || name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789")])
		return err_set(err, ERR_REFUSED, "bad_config", "the instance's name is \"%s\", it must be 1 to %d of a-z and 0-9", name, INSTANCE_MAX);
	return str_fmt(dst, SUFFIX_SIZE, "-%s", name);
}

static char *expand(const char *def, const char *suffix)
{
	const char *at = strstr(def, "%I");

	return at ? str_dupf("%.*s%s%s", (int)(at - def), def, suffix, at + 2) : str_dup(def);
}

/* The variable that sets the option, its name in dst; NULL when there is none. Both names with different values is an error. */
static int from_env(const struct config_opt *o, const char **ret, char dst[CONFIG_ENV_NAME], err_t **err)
{
	const char *ours, *known = o->env ? getenv(o->env) : NULL;

	config_env_name(o, dst);
	ours = getenv(dst);
	if (ours && known && !str_eq(ours, known))
		return err_set(err, ERR_REFUSED, "bad_config", "environment: %s and %s differ", o->env, dst);
	if (known)
		str_copy(dst, CONFIG_ENV_NAME, o->env);
	*ret = known ? known : ours;
	return 0;
}

static int settle(struct config *c, size_t i, const char *suffix, char **file_value, err_t **err)
{
	const struct config_opt *o = &config_table[i];
	struct setting *s = &c->settings[i];
	const char *where = c->path, *env = NULL;

	if (from_env(o, &env, s->env, err) < 0)
		return -1;
	if (env) {
		s->source = FROM_ENV;
		s->text = str_dup(env);
		where = s->env;
	} else if (*file_value) {
		s->source = FROM_FILE;
		s->text = steal_ptr(file_value);
	} else {
		s->text = expand(o->def, suffix);
		where = "default";
	}
	if (!s->text)
		return err_set(err, ERR_NO_MEMORY, NULL, "out of memory");
	return config_value_check(o, s->text, where, &s->number, err);
}

static void values_free(char **values)
{
	for (size_t i = 0; i < config_table_len; i++)
		free(values[i]);
	free(values);
}

static void cleanup_values(char ***values)
{
	if (*values)
		values_free(*values);
}

/* The suffix that the defaults get: of the environment's instance, else of the file's. */
static int suffix_of(char **values, char dst[SUFFIX_SIZE], err_t **err)
{
	const char *name = getenv("PADDOCK_INSTANCE");

	for (size_t i = 0; !name && i < config_table_len; i++) {
		if (str_eq(config_table[i].section, "service") && str_eq(config_table[i].key, "instance"))
			name = values[i];
	}
	return make_suffix(name, dst, err);
}

static int fill(struct config *c, err_t **err)
{
	char suffix[SUFFIX_SIZE];
	cleanup(cleanup_values) char **values = calloc(config_table_len, sizeof *values);

	c->settings = calloc(config_table_len, sizeof *c->settings);
	if (!values || !c->settings)
		return err_set(err, ERR_NO_MEMORY, NULL, "out of memory");
	if (config_env_check(err) < 0)
		return -1;
	if (config_ini_load(c->path, values, err) < 0)
		return -1;
	if (suffix_of(values, suffix, err) < 0)
		return -1;
	if (config_rules_backend(c->path, values, &c->backend, err) < 0)
		return -1;
	for (size_t i = 0; i < config_table_len; i++) {
		if (settle(c, i, suffix, &values[i], err) < 0)
			return -1;
	}
	return config_rules_check(c, err);
}

static char *default_path(err_t **err)
{
	const char *named = getenv("PADDOCK_CONFIG");
	char suffix[SUFFIX_SIZE];

	if (named && *named)
		return str_dup(named);
	if (make_suffix(getenv("PADDOCK_INSTANCE"), suffix, err) < 0)
		return NULL;
	return *suffix ? str_dupf("/etc/paddock%s/paddock.ini", suffix) : str_dup(CONFIG_DEFAULT_PATH);
}

struct config *config_load(const char *path, err_t **err)
{
	struct config *c = calloc(1, sizeof *c);

	if (c)
		c->path = path ? str_dup(path) : default_path(err);
	if (!c || !c->path) {
		if (err && !*err)
			err_set(err, ERR_NO_MEMORY, NULL, "out of memory");
		config_free(c);
		return NULL;
	}
	if (fill(c, err) < 0) {
		config_free(c);
		return NULL;
	}
	return c;
}

void config_free(struct config *c)
{
	if (!c)
		return;
	for (size_t i = 0; c->settings && i < config_table_len; i++)
		free(c->settings[i].text);
	free(c->settings);
	free(c->path);
	free(c);
}

static size_t find(const char *key)
{
	const char *dot = strchr(key, '.');

	for (size_t i = 0; dot && i < config_table_len; i++) {
		const struct config_opt *o = &config_table[i];
		size_t n = (size_t)(dot - key);

		if (strlen(o->section) == n && memcmp(o->section, key, n) == 0 && str_eq(o->key, dot + 1))
			return i;
	}
	fprintf(stderr, "bug: no option %s\n", key);
	abort();
}

static void must(int fits, const char *key)
{
	if (fits)
		return;
	fprintf(stderr, "bug: option %s is of another type\n", key);
	abort();
}

const char *config_str(const struct config *c, const char *key)
{
	size_t i = find(key);

	must(config_table[i].type <= CONFIG_WORD, key);
	return c->settings[i].text;
}

int64_t config_int(const struct config *c, const char *key)
{
	size_t i = find(key);
	enum config_type t = config_table[i].type;

	must(t == CONFIG_INT || t == CONFIG_SIZE || t == CONFIG_MS, key);
	return c->settings[i].number;
}

const char *config_backend(const struct config *c)
{
	return c->backend;
}

void config_dump(const struct config *c, FILE *to)
{
	const char *section = "";

	fprintf(to, "; effective configuration: %s and the environment\n", c->path);
	for (size_t i = 0; i < config_table_len; i++) {
		const struct config_opt *o = &config_table[i];
		const struct setting *s = &c->settings[i];
		const char *source = s->source == FROM_ENV ? s->env : s->source == FROM_FILE ? "file" : "default";

		if (!str_eq(section, o->section))
			fprintf(to, "\n[%s]\n", o->section);
		section = o->section;
		fprintf(to, "%s = \"%s\" ; %s\n", o->key, s->text, source);
	}
}
