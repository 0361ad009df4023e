/* home.h - the home directory of the account that commands run as. */
#ifndef PADDOCK_AGENT_HOME_H
#define PADDOCK_AGENT_HOME_H

#define HOME_PATH "/home/user"

/* Gives HOME_PATH, a tmpfs that the engine cannot give to anyone but container root, to the commands' account, mode 0755. Without CAP_CHOWN, which
 * caps_reduce() takes, or where it is no tmpfs of root's, the directory stays as it is. Called once, before the first command. */
void home_give(void);

#endif
