/* dues.h - the files of the archive in the order of their last acknowledgement, each with the time when it is to be looked at: what the sweep
 * knows, so that it need not walk a directory to find out that there is nothing to do. 24 bytes a file, and a file holds what was
 * started in the same quarter of a second. */
#ifndef PADDOCK_EXECUTOR_DUES_H
#define PADDOCK_EXECUTOR_DUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "executor/archive.h"

struct due {
	uint64_t file : 40;   /* its name's ten digits */
	uint64_t bare : 1;    /* its commands have no outputs, or no more; their logs are there */
	uint64_t dead : 1;    /* to be taken out */
	int64_t acked_ms;     /* wall time of the last acknowledgement */
	int64_t next_ms;      /* wall time of the next look */
};

struct dues {
	struct due *items;
	size_t n, alloc;
};

void dues_free(struct dues *d);
/* Something was added to the file, with outputs or not: it is the youngest one from now on. -1: out of memory. */
int dues_note(struct dues *d, const char name[ARCHIVE_NAME], int64_t acked_ms, int64_t next_ms, bool outputs);
bool dues_has(const struct dues *d, const char name[ARCHIVE_NAME]);   /* the dead are counted; looks at all items */
/* Item i was acknowledged later than was known: goes behind all others. */
void dues_move_last(struct dues *d, size_t i, int64_t acked_ms, int64_t next_ms);
void dues_sort(struct dues *d);        /* by acked_ms */
void dues_compact(struct dues *d);     /* takes the dead out */
int64_t dues_next_ms(const struct dues *d);   /* INT64_MAX for none */
void due_name(const struct due *d, char name[ARCHIVE_NAME]);

#endif
