#include "core/config_env.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

static char upper(char c)
{
	return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

void config_env_name(const struct config_opt *o, char dst[CONFIG_ENV_NAME])
{
	str_fmt(dst, CONFIG_ENV_NAME, "PADDOCK_%s_%s", o->section, o->key);
	for (char *p = dst; *p; p++)
		*p = upper(*p);
}

/* What comes after "PADDOCK_<section>_" in var, NULL when it does not begin so. */
static const char *below(const char *var, const char *section)
{
	if (!str_prefix(var, "PADDOCK_"))
		return NULL;
	for (var += strlen("PADDOCK_"); *section; section++) {
		if (*var++ != upper(*section))
			return NULL;
	}
	return *var == '_' ? var + 1 : NULL;
}

/* The section that var = "NAME=value" is below without naming a key of it, NULL when there is none. */
static const char *misnamed(const char *var)
{
	size_t n = strcspn(var, "=");
	const char *section = NULL;

	for (size_t i = 0; i < config_table_len; i++) {
		char name[CONFIG_ENV_NAME];

		if (!below(var, config_table[i].section))
			continue;
		section = config_table[i].section;
		config_env_name(&config_table[i], name);
		if (strlen(name) == n && memcmp(name, var, n) == 0)
			return NULL;
	}
	return section;
}

int config_env_check(err_t **err)
{
	for (char **var = environ; var && *var; var++) {
		const char *section = misnamed(*var);

		if (section)
			return err_set(err, ERR_REFUSED, "bad_config", "environment: %.*s: unknown key in [%s]", (int)strcspn(*var, "="), *var, section);
	}
	return 0;
}
