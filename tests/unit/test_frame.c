#include "unit.h"

#include "core/frame.h"

static uint8_t room[FRAME_HEADER + FRAME_MAX + 1];

static void round_trip_at_the_limits(void **state)
{
	static const uint32_t lens[] = { 0, 1, 255, 65535, 65536, FRAME_MAX };

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(lens); i++) {
		struct frame f;
		size_t used = 0;

		frame_header(room, 17, FRAME_MAX_FDS, lens[i]);
		assert_int_equal(frame_next(room, FRAME_HEADER + lens[i], &f, &used), 1);
		assert_int_equal(f.type, 17);
		assert_int_equal(f.nfds, FRAME_MAX_FDS);
		assert_int_equal(f.len, lens[i]);
		assert_ptr_equal(f.payload, room + FRAME_HEADER);
		assert_int_equal(used, FRAME_HEADER + lens[i]);
	}
}

static void every_cut_waits(void **state)
{
	struct frame f;
	size_t used;

	(void)state;
	frame_header(room, 1, 0, 20);
	for (size_t n = 0; n < FRAME_HEADER + 20; n++)
		assert_int_equal(frame_next(room, n, &f, &used), 0);
	assert_int_equal(frame_next(room, FRAME_HEADER + 21, &f, &used), 1);
	assert_int_equal(used, FRAME_HEADER + 20);
}

static void refuses(void **state)
{
	struct frame f;
	size_t used;

	(void)state;
	frame_header(room, 1, 0, FRAME_MAX + 1);
	assert_int_equal(frame_next(room, FRAME_HEADER, &f, &used), -1);   /* at once, not after 4 MiB */
	frame_header(room, 1, 0, UINT32_MAX);
	assert_int_equal(frame_next(room, sizeof room, &f, &used), -1);
	frame_header(room, 1, FRAME_MAX_FDS + 1, 0);
	assert_int_equal(frame_next(room, FRAME_HEADER, &f, &used), -1);
	frame_header(room, 1, 0, 0);
	room[5] = 1;
	assert_int_equal(frame_next(room, FRAME_HEADER, &f, &used), -1);
}

static void header_bytes(void **state)
{
	(void)state;
	frame_header(room, 0xab, 0x0102, 0x03040506);
	assert_memory_equal(room, "\x06\x05\x04\x03\xab\x00\x02\x01", FRAME_HEADER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trip_at_the_limits), cmocka_unit_test(every_cut_waits), cmocka_unit_test(refuses),
		cmocka_unit_test(header_bytes),
	};

	return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
