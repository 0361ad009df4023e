/* engine_spec.h - a container of ours as the engines' create calls want it. Pure functions; docs/container.md has the same as a table. */
#ifndef PADDOCK_PROVIDER_ENGINE_SPEC_H
#define PADDOCK_PROVIDER_ENGINE_SPEC_H

#include "core/json.h"
#include "provider/engine.h"

/* A new object, or NULL when memory is out. */
json_t *engine_spec_libpod(const struct engine_config *c, const struct engine_spec *s);
/* For the Docker-compatible route. `seccomp`: what stands behind "seccomp=" (Docker wants the profile's text, Podman a path).
 * `podman`: the network and user namespace are named as Podman names them. */
json_t *engine_spec_docker(const struct engine_config *c, const struct engine_spec *s, const char *seccomp, bool podman);

#endif
