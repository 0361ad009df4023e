#include "provider/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"

#define STATUS_MAX 16384

uid_t process_uid(pid_t pid)
{
	cleanup_free char *text = NULL;
	char path[64];
	unsigned uid = (unsigned)-1;
	const char *line;

	if (str_fmt(path, sizeof(path), "/proc/%d/status", (int)pid) == 0 && io_read_file(AT_FDCWD, path, STATUS_MAX, &text, NULL, NULL) == 0 &&
	    (line = strstr(text, "\nUid:")))
		sscanf(line, "\nUid: %u", &uid);
	return (uid_t)uid;
}
