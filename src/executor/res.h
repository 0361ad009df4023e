/* res.h - the route handlers of res_*.c; routes.c has the table that names them. */
#ifndef PADDOCK_EXECUTOR_RES_H
#define PADDOCK_EXECUTOR_RES_H

struct executor;
struct request;

void res_command_put(struct executor *x, struct request *r);
void res_command_get(struct executor *x, struct request *r);
void res_commands_query(struct executor *x, struct request *r);
void res_command_ticket(struct executor *x, struct request *r);
void res_command_view(struct executor *x, struct request *r);
void res_command_stdin(struct executor *x, struct request *r);
void res_command_signal(struct executor *x, struct request *r);
void res_command_kill(struct executor *x, struct request *r);
void res_ticket_get(struct executor *x, struct request *r);

void res_instance_put(struct executor *x, struct request *r);
void res_instance_get(struct executor *x, struct request *r);
void res_instance_delete(struct executor *x, struct request *r);
void res_instance_pause(struct executor *x, struct request *r);
void res_instance_wake(struct executor *x, struct request *r);
void res_instance_keepalive(struct executor *x, struct request *r);
void res_scope_delete(struct executor *x, struct request *r);
void res_provider_instances(struct executor *x, struct request *r);
void res_instances_get(struct executor *x, struct request *r);

void res_reports_get(struct executor *x, struct request *r);
void res_reports_ack(struct executor *x, struct request *r);

void res_healthz(struct executor *x, struct request *r);
void res_health(struct executor *x, struct request *r);
void res_metrics(struct executor *x, struct request *r);

#endif
