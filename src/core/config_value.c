#include "core/config_value.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/utf8.h"

static void size_text(int64_t v, char dst[24])
{
	static const char unit[] = { 'G', 'M', 'K' };

	for (int i = 0, shift = 30; i < 3; i++, shift -= 10) {
		if (v && v % (INT64_C(1) << shift) == 0) {
			snprintf(dst, 24, "%lld%c", (long long)(v >> shift), unit[i]);
			return;
		}
	}
	snprintf(dst, 24, "%lld", (long long)v);
}

void config_value_allowed(const struct config_opt *o, char *dst, size_t size)
{
	char lo[24], hi[24];

	switch (o->type) {
	case CONFIG_STR:
		snprintf(dst, size, "text of %lld to %lld bytes", (long long)o->min, (long long)o->max);
		return;
	case CONFIG_PATH:
		snprintf(dst, size, "an absolute path of at most %lld bytes", (long long)o->max);
		return;
	case CONFIG_WORD:
		snprintf(dst, size, "one of %s", o->choices);
		return;
	case CONFIG_INT:
		snprintf(dst, size, "a number from %lld to %lld", (long long)o->min, (long long)o->max);
		return;
	case CONFIG_SIZE:
		size_text(o->min, lo);
		size_text(o->max, hi);
		snprintf(dst, size, "a size from %s to %s", lo, hi);
		return;
	case CONFIG_MS:
		snprintf(dst, size, "milliseconds from %lld to %lld", (long long)o->min, (long long)o->max);
		return;
	}
}

/* What may stand between quotes on one line of the file. */
static bool is_clean(const char *s)
{
	size_t n = strlen(s);

	if (n > CONFIG_TEXT_MAX || !utf8_valid(s, n) || strchr(s, '"'))
		return false;
	for (; *s; s++) {
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return false;
	}
	return true;
}

static bool is_choice(const char *choices, const char *word)
{
	size_t n = strlen(word);

	while (n && choices) {
		size_t len = strcspn(choices, "|");

		if (len == n && memcmp(choices, word, n) == 0)
			return true;
		choices = choices[len] ? choices + len + 1 : NULL;
	}
	return false;
}

static bool is_text(const struct config_opt *o, const char *text)
{
	size_t n = strlen(text);

	return n >= (size_t)o->min && n <= (size_t)o->max;
}

static bool as_size(const struct config_opt *o, const char *text, int64_t *ret)
{
	uint64_t v;

	if (num_size(text, (uint64_t)o->max, &v) < 0 || v < (uint64_t)o->min)
		return false;
	*ret = (int64_t)v;
	return true;
}

static bool parse(const struct config_opt *o, const char *text, int64_t *ret)
{
	switch (o->type) {
	case CONFIG_STR: return is_text(o, text);
	case CONFIG_PATH: return text[0] == '/' && is_text(o, text);
	case CONFIG_WORD: return is_choice(o->choices, text);
	case CONFIG_INT:
	case CONFIG_MS: return num_i64(text, o->min, o->max, ret) == 0;
	case CONFIG_SIZE: return as_size(o, text, ret);
	}
	return false;
}

int config_value_check(const struct config_opt *o, const char *text, const char *where, int64_t *ret, err_t **err)
{
	char allowed[128];

	*ret = 0;
	if (!is_clean(text))
		return err_set(err, ERR_REFUSED, "bad_config", "%s: %s.%s must be one line of at most %d bytes without \" or control bytes", where,
			o->section, o->key, CONFIG_TEXT_MAX);
	if (parse(o, text, ret))
		return 0;
	config_value_allowed(o, allowed, sizeof allowed);
	return err_set(err, ERR_REFUSED, "bad_config", "%s: %s.%s is \"%s\", it must be %s", where, o->section, o->key, text, allowed);
}
