#include "ctl/ctl_paths.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"

const char *ctl_suffix(const struct config *c)
{
	static char suffix[32];
	const char *name = config_str(c, "service.instance");

	if (!*name || str_fmt(suffix, sizeof suffix, "-%s", name) < 0)
		suffix[0] = '\0';
	return suffix;
}

char *ctl_path(const struct config *c, const char *fmt)
{
	cleanup_buf struct buf b = BUF_INIT(4096);

	for (const char *p = fmt; *p; p++) {
		if (p[0] == '%' && p[1] == 'I') {
			buf_adds(&b, ctl_suffix(c));
			p++;
		} else {
			buf_addc(&b, *p);
		}
	}
	return buf_steal(&b);
}
