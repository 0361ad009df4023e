/* bwrap.h - is there a bubblewrap? The launcher decides by it how sandboxes of the provider `host` start, and everybody who has to warn of it asks the same. */
#ifndef PADDOCK_PROVIDER_BWRAP_H
#define PADDOCK_PROVIDER_BWRAP_H

/* The program to use: `configured` ([host] bwrap), or when that is empty the first of the system's directories; NULL: none. Borrowed. */
const char *bwrap_find(const char *configured);

#endif
