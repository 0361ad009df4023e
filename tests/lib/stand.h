/* stand.h - what a test of the rules stands on: a PostgreSQL cluster of its own with the schema, an executor, a domain and a caller. The executor is one of
 * straw (scripted_executor.py), or the real one over the scripted provider (scripted_provider.h), with sandboxes that outlive Runs. */
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
	pid_t executor;                /* 0: there is none now */
	struct http_client *control;
	char script_dir[160];          /* PADDOCK_SCRIPTED_DIR of the real executor; "": it is the one of straw */
};

/* Exits with 77 (skipped) when there is no PostgreSQL server; aborts with the reason when something else is wrong. */
void stand_up(struct stand *s);
void stand_up_scripted(struct stand *s);   /* the real executor over the scripted provider; of $PADDOCK_BUILD, or below the present directory */
void stand_down(struct stand *s);

/* Another domain on the same parts, as another process would have. */
struct domain *stand_domain(const struct stand *s);
/* A user of that name, who is new, with a token. */
void stand_caller(struct stand *s, const char *user, struct caller *ret);
void stand_pg(const struct stand *s, const char *verb);           /* restart, halt, resume */
void stand_executor_kill(struct stand *s);
void stand_executor_start(struct stand *s);
bool stand_executor_died(struct stand *s);                        /* by itself, since it was started */
/* How the scripted provider misbehaves from now on; NULL: it does not. */
void stand_script(const struct stand *s, const char *text);
/* POST /control... of scripted_executor.py; path "" , "/end", "/instance". */
void stand_control(struct stand *s, const char *path, const char *json);
json_t *stand_state(struct stand *s);                              /* its whole memory */
/* The one value of a query by the superuser; malloc'ed. */
char *stand_sql(const struct stand *s, const char *sql);
long stand_count(const struct stand *s, const char *sql);

#endif
