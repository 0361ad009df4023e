#include <stdbool.h>
#include <string.h>

#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "core/config.h"
#include "fcgi/master.h"

/* The FILE of --config, which a reload reads again; NULL for the default. */
static const char *config_path(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--config") && i + 1 < argc)
			return argv[i + 1];
		if (str_prefix(argv[i], "--config="))
			return argv[i] + strlen("--config=");
	}
	return NULL;
}

int main(int argc, char **argv)
{
	enum log_level lvl = LOG_INFO;
	struct config *c = NULL;
	int rc;

	io_std_fds();
	rc = config_main(argc, argv, "paddock-api", "serves the HTTP API behind nginx", &c);
	if (rc != 0)
		return rc < 0 ? 2 : 0;
	log_level_parse(config_str(c, "service.log_level"), &lvl);
	log_init("paddock-api", lvl);
	return master_main(c, config_path(argc, argv));
}
