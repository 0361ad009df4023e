/* exports.h - what the commands of a scope hand on to later ones: lines NAME=value that they append to the file that $PADDOCK_ENV names.
 *
 * The file belongs to the user and lies in the user's home: it is never trusted, only ever reached with the user's rights, without following a
 * link, and by processes that the agent does not wait for. It is read by the leader, whose memory is the agent's: what it needs is made ready
 * in a struct exports before, and freed by the agent when the program runs. Apart from exports_new() and exports_path() all functions are
 * for those processes: they make system calls by rawcall() only and allocate nothing. */
#ifndef PADDOCK_AGENT_EXPORTS_H
#define PADDOCK_AGENT_EXPORTS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/frame_msg.h"

#define EXPORTS_VARIABLE "PADDOCK_ENV"
#define EXPORTS_PREFIX "env-"                       /* of the file's name; the scope follows */
#define EXPORTS_NAME_SIZE (sizeof(EXPORTS_PREFIX) + MSG_ID_MAX)
#define EXPORTS_BYTES_MAX (1u << 20)                /* of the file, and of the whole environment that comes of it */
#define EXPORTS_LINE_MAX (128u * 1024)              /* a line has less: Linux takes no longer argument */
#define EXPORTS_VARIABLE_MAX 128                    /* characters of a name */

struct exports;

/* "PADDOCK_ENV=<path>", malloc'ed; NULL when memory is out. */
char *exports_variable(const char *scope);
/* Room for the file of this scope and the environment that comes of it; untouched pages cost nothing. Freed by free(). NULL when memory is out. */
struct exports *exports_new(const char *scope);

/* Makes the file when it is missing, reads it, and returns the environment: env without a doubled name, whose first `own` entries nothing replaces, and what
 * the file says in the place of the others. Whatever is wrong with the file, env itself is returned. */
char *const *exports_read(struct exports *x, char *const *env, size_t own);
/* The pure part of it: x->text holds n bytes of the file. */
char *const *exports_merge(struct exports *x, size_t n, char *const *env, size_t own);
char *exports_text(struct exports *x);              /* EXPORTS_BYTES_MAX + 1 bytes */
/* Removes the file of that name. The caller has the user's rights to files. */
void exports_remove(const char *name);

#endif
