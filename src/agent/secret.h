/* secret.h - the agent's connection token: taken out of the environment, kept in memory that no one can dump. */
#ifndef PADDOCK_AGENT_SECRET_H
#define PADDOCK_AGENT_SECRET_H

/* Copies PADDOCK_AGENT_TOKEN and overwrites the whole environment block (of /proc/1/environ). 0; -1: absent or too long. */
int secret_take(char **env);
const char *secret_token(void);    /* borrowed */
void secret_wipe(void);            /* in a child: its copy of the token */

#endif
