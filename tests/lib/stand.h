/* stand.h - what a test of the rules stands on: a PostgreSQL cluster of its own with the schema, an executor of straw, a domain and a caller. */
#ifndef PADDOCK_TESTS_STAND_H
#define PADDOCK_TESTS_STAND_H

#include "core/http_client.h"
#include "domain/caller.h"
#include "domain/domain.h"

struct stand {
	char dir[128];
	char config_path[160];
	struct config *config;
	struct domain *domain;
	struct caller caller;          /* user "ann" */
	char token[128];               /* of hers */
	pid_t executor;
	struct http_client *control;
};

/* Exits with 77 (skipped) when there is no PostgreSQL server; aborts with the reason when something else is wrong. */
void stand_up(struct stand *s);
void stand_down(struct stand *s);

/* Another domain on the same parts, as another process would have. */
struct domain *stand_domain(const struct stand *s);
void stand_pg(const struct stand *s, const char *verb);           /* restart, halt, resume */
void stand_executor_kill(struct stand *s);
void stand_executor_start(struct stand *s);
/* POST /control... of scripted_executor.py; path "" , "/end", "/instance". */
void stand_control(struct stand *s, const char *path, const char *json);
json_t *stand_state(struct stand *s);                              /* its whole memory */
/* The one value of a query by the superuser; malloc'ed. */
char *stand_sql(const struct stand *s, const char *sql);
long stand_count(const struct stand *s, const char *sql);

#endif
