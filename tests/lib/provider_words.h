/* provider_words.h - the words in which the suite speaks to a provider: each asserts that what must happen happens. For tests/unit/test_provider.c. */
#ifndef PADDOCK_TESTS_PROVIDER_WORDS_H
#define PADDOCK_TESTS_PROVIDER_WORDS_H

#include "unit.h"

#include "provider_bench.h"

#define BIT(ev) (1u << (ev))
#define MADE (BIT(INSTANCE_READY) | BIT(INSTANCE_FAILED) | BIT(INSTANCE_EXITED))
#define REMOVED (BIT(INSTANCE_GONE) | BIT(INSTANCE_DESTROY_FAILED))
#define call(b, op, ...) BENCH_CALL(b, (b)->ops->op((b)->p, __VA_ARGS__))

void new_id(struct bench *b, char id[ID_SIZE]);
enum instance_event told(struct bench *b, const char *iid, unsigned bits);
void make(struct bench *b, char iid[ID_SIZE], const char *workspace);
void adopt(struct bench *b, const char *iid, enum instance_was was);
void restart(struct bench *b);
void destroy(struct bench *b, const char *iid);
/* How often the provider itself lists it, and as what. */
unsigned listed(struct bench *b, const char *iid, enum listed_state *ret);
void begin_in(struct bench *b, const char *iid, const char *scope, char cid[ID_SIZE], const char *text);
int32_t pgid_of(struct bench *b, const char *iid, const char *cid);
struct exec_exited end_of(struct bench *b, const char *iid, const char *cid);
void ack(struct bench *b, const char *iid, const char *cid);
/* Runs it to its end, which must be an exit with this status; its standard output, borrowed. */
const char *run_spec(struct bench *b, const char *iid, struct exec_spec *s, const char *text, int status);
const char *run(struct bench *b, const char *iid, const char *scope, const char *text, int status);
void end_scope(struct bench *b, const char *iid, const char *scope);
/* Refused at once, or told as not started: in any case nothing starts. */
void starts_nothing(struct bench *b, const char *iid, const char *scope);
bool can_pause(const struct bench *b);
/* Feeds all of it, as the window allows, and the end of it. */
void feed(struct bench *b, const char *iid, const char *cid, const char *data, size_t n);

/* File operations in a directory of the instance (made when it is missing), by the instance's own tools and as EXEC_FILE. */
#define FILES BENCH_HOME "/files"
void write_file(struct bench *b, const char *iid, const char *dir, char *name, const char *data, size_t n);
/* Ends with this status; what it printed, of *n bytes. */
const char *file_op(struct bench *b, const char *iid, const char *dir, char *const *argv, int status, size_t *n);

/* The tests of commands, scopes and files (provider_commands.c); those of what is mounted. */
extern const struct CMUnitTest command_tests[], mount_tests[];
extern const size_t command_tests_n, mount_tests_n;

#endif
