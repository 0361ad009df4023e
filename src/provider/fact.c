#include "provider/fact.h"

#include <string.h>

#include "core/json.h"

static void begin(struct buf *b, const char *name, bool ok, const char *hint)
{
	buf_addf(b, "%s{\"name\":\"%s\",\"ok\":%s,\"hint\":", b->len ? "," : "", name, ok ? "true" : "false");
	json_quote(b, hint, strlen(hint));
}

void fact_add(struct buf *b, const char *name, bool ok, const char *hint)
{
	begin(b, name, ok, hint);
	buf_addc(b, '}');
}

void fact_add_vital(struct buf *b, const char *name, bool ok, const char *hint)
{
	begin(b, name, ok, hint);
	buf_addf(b, ",\"away\":%s}", ok ? "false" : "true");
}
