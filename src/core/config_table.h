/* config_table.h - the option table: data from which parsing, --help, --dump and the checks of the man page are made. */
#ifndef PADDOCK_CORE_CONFIG_TABLE_H
#define PADDOCK_CORE_CONFIG_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum config_type {
	CONFIG_STR,    /* text; min and max bound its bytes */
	CONFIG_PATH,   /* text that begins with a slash */
	CONFIG_WORD,   /* one of `choices` */
	CONFIG_INT,
	CONFIG_SIZE,   /* bytes; K, M, G may follow */
	CONFIG_MS,     /* milliseconds */
};

/* Which programs read an option; for --help only. */
enum { CONFIG_API = 1, CONFIG_EXECUTOR = 2, CONFIG_CTL = 4, CONFIG_ALL = 7 };

struct config_opt {
	const char *section, *key;
	enum config_type type;
	const char *def;       /* as one would write it in the file; %I is "" or "-NAME" of the instance */
	int64_t min, max;
	const char *choices;   /* "a|b|c" for CONFIG_WORD */
	const char *env;       /* a well-known variable besides PADDOCK_<SECTION>_<KEY>, or NULL */
	unsigned programs;
	const char *help;
};

extern const struct config_opt config_table[];
extern const size_t config_table_len;

#endif
