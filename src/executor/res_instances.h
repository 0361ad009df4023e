/* res_instances.h - what res_instances*.c share. */
#ifndef PADDOCK_EXECUTOR_RES_INSTANCES_H
#define PADDOCK_EXECUTOR_RES_INSTANCES_H

#include "executor/executor.h"

const char *res_instance_id(struct request *r);   /* of the path; NULL: answered */
void res_instance_answer(struct executor *x, struct request *r, int status, const struct instance *i);
bool res_empty_body(struct request *r);           /* nothing, or {}; false: answered */

#endif
