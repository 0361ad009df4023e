/* host_tree.h - removal of a tree that a sandbox has made: any depth, any modes, never through a link. Blocking, as long as it takes. */
#ifndef PADDOCK_PROVIDER_HOST_TREE_H
#define PADDOCK_PROVIDER_HOST_TREE_H

#include "base/err.h"

/* Removes everything in the directory but the entry `keep` (NULL: none). Nothing of the sandbox may run. Can be repeated after a death in the middle. */
int host_tree_empty(int dir_fd, const char *keep, err_t **err);

#endif
