#include "provider/exec_groups.h"

#include <stdlib.h>

#include "base/str.h"
#include "core/frame_msg.h"

#define GROUPS_MAX 4096   /* many times what an agent can hold */

struct group {
	struct list node;
	char exec_id[MSG_ID_MAX + 1];
	int32_t pgid;
};

static struct group *find(const struct exec_groups *g, const char *exec_id)
{
	list_for_each(n, &g->list) {
		struct group *one = list_entry(n, struct group, node);

		if (str_eq(one->exec_id, exec_id))
			return one;
	}
	return NULL;
}

static void drop(struct exec_groups *g, struct group *one)
{
	list_del(&one->node);
	free(one);
	g->n--;
}

void exec_groups_init(struct exec_groups *g)
{
	list_init(&g->list);
	g->n = 0;
}

void exec_groups_clear(struct exec_groups *g)
{
	list_for_each_safe(n, following, &g->list)
		drop(g, list_entry(n, struct group, node));
}

int exec_groups_note(struct exec_groups *g, const char *exec_id, int32_t pgid)
{
	struct group *one = find(g, exec_id);

	if (!one) {
		if (g->n == GROUPS_MAX || !(one = calloc(1, sizeof(*one))))
			return -1;
		(void)str_copy(one->exec_id, sizeof(one->exec_id), exec_id);
		list_add_tail(&g->list, &one->node);
		g->n++;
	}
	one->pgid = pgid;
	return 0;
}

void exec_groups_forget(struct exec_groups *g, const char *exec_id)
{
	struct group *one = find(g, exec_id);

	if (one)
		drop(g, one);
}

int exec_groups_verify(const struct exec_groups *g, const struct exec_ref *x, err_t **err)
{
	const struct group *one = find(g, x->exec_id);

	if (x->pgid && one && one->pgid != x->pgid)
		return err_set(err, ERR_CONFLICT, "other_process", "the command runs as another process group");
	return 0;
}
