#include "unit.h"

#include "base/list.h"

struct item {
	int n;
	struct list node;
};

static int sum(struct list *head)
{
	int s = 0;

	list_for_each(n, head)
		s = s * 10 + list_entry(n, struct item, node)->n;
	return s;
}

static void keeps_order(void **state)
{
	struct list head;
	struct item items[3] = { { .n = 1 }, { .n = 2 }, { .n = 3 } };

	(void)state;
	list_init(&head);
	assert_true(list_empty(&head));
	for (int i = 0; i < 3; i++)
		list_add_tail(&head, &items[i].node);
	assert_int_equal(sum(&head), 123);
	list_del(&items[1].node);
	list_del(&items[1].node);   /* self-linked: harmless */
	assert_int_equal(sum(&head), 13);
	list_add_tail(&head, &items[1].node);
	assert_int_equal(sum(&head), 132);
}

static void can_be_emptied_while_walked(void **state)
{
	struct list head;
	struct item items[5];

	(void)state;
	list_init(&head);
	for (int i = 0; i < 5; i++)
		list_add_tail(&head, &items[i].node);
	list_for_each_safe(n, next, &head)
		list_del(n);
	assert_true(list_empty(&head));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(keeps_order), cmocka_unit_test(can_be_emptied_while_walked) };

	return cmocka_run_group_tests_name("list", tests, NULL, NULL);
}
