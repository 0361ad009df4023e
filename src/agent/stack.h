/* stack.h - the two stacks that a launch needs, with guard pages, kept for the next one. */
#ifndef PADDOCK_AGENT_STACK_H
#define PADDOCK_AGENT_STACK_H

struct stack;

struct stack *stack_get(void);                       /* NULL with errno */
void stack_put(struct stack *s);                     /* nobody runs on it any more; NULL is fine */
/* Their upper ends, where a downward stack begins. */
void *stack_supervisor(struct stack *s);
void *stack_leader(struct stack *s);

#endif
