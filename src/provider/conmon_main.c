/* conmon_main.c - paddock-conmon: conmon as the engine calls it, without the command that conmon runs when one of our containers has ended.
 *
 * That command is a whole podman that takes the container down. The executor takes each of its containers down by name anyway, so the two
 * do the same work at the same time, at the price of a container's start. Containers of other names and exec sessions keep their command.
 * The engine finds this program by conmon_path in its containers.conf. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

#define OUR_PREFIX "pdk-"       /* of every container's name, whatever the node */

/* Where podman itself would look. */
static const char *const places[] = { "/usr/bin/conmon", "/usr/libexec/podman/conmon", "/usr/lib/podman/conmon", "/usr/local/bin/conmon",
	"/usr/local/libexec/podman/conmon" };

static bool is_ours(int argc, char **argv)
{
	bool ours = false;

	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--exec-process-spec"))
			return false;
		ours = ours || (str_eq(argv[i], "-n") && i + 1 < argc && str_prefix(argv[i + 1], OUR_PREFIX));
	}
	return ours;
}

/* Both are followed by their value. */
static bool is_exit_option(const char *arg)
{
	return str_eq(arg, "--exit-command") || str_eq(arg, "--exit-command-arg");
}

int main(int argc, char **argv)
{
	bool ours = is_ours(argc, argv);
	int n = 0, why = ENOENT;

	for (int i = 0; i < argc; i++) {
		if (ours && is_exit_option(argv[i]) && i + 1 < argc)
			i++;
		else
			argv[n++] = argv[i];
	}
	argv[n] = NULL;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (execv(places[i], argv) < 0 && errno != ENOENT && why == ENOENT)
			why = errno;   /* that of one that is there says more */
	dprintf(2, "paddock-conmon: conmon: %s\n", strerror(why));
	return 127;
}
