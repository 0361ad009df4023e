#include "ctl/ctl_front.h"

#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "base/str.h"
#include "ctl/ctl_proc.h"

static int look(const struct config *c, struct buf *ret, err_t **err)
{
	char url[64];
	/* The certificate is our own and may be self-signed: this looks whether the service answers, no secret is sent. */
	const char *argv[] = { "curl", "-q", "-sk", "--noproxy", "*", "--max-time", "6", "-w", "\n%{http_code}", url, NULL };
	cleanup_buf struct buf out = BUF_INIT(65536);
	const char *line;
	int64_t status;
	int rc;

	if (str_fmt(url, sizeof url, "https://localhost:%lld/readyz", (long long)config_int(c, "service.https_port")) < 0)
		return err_set(err, ERR_INTERNAL, NULL, "url");
	rc = ctl_proc_run(argv, &out, err);
	if (rc < 0)
		return -1;
	line = strrchr(buf_str(&out), '\n');
	if (rc != 0 || !line || num_i64(line + 1, 100, 599, &status) < 0)
		return err_set(err, ERR_UNAVAILABLE, NULL, "%s does not answer", url);
	buf_reset(ret);
	buf_add(ret, buf_str(&out), (size_t)(line - buf_str(&out)));
	return (int)status;
}

int ctl_front_ready(const struct config *c, struct buf *ret, err_t **err)
{
	int status = look(c, ret, err);

	if (status < 0 || status == 200)
		return status;
	usleep(CTL_LOOK_AGAIN_US);
	return look(c, ret, err);
}
