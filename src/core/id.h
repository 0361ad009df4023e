/* id.h - UUIDs. Ids are UUIDv7 (time-ordered), project ids UUIDv4; text is lower-case, 36 characters. */
#ifndef PADDOCK_CORE_ID_H
#define PADDOCK_CORE_ID_H

#include <stdbool.h>

#define ID_SIZE 37

void id_v7(char dst[ID_SIZE]);
void id_v4(char dst[ID_SIZE]);
bool id_valid(const char *s);   /* exactly the canonical lower-case form, any version */

#endif
