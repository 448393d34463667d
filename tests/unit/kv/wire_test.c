/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Info and frames of agents as bytes: all fields survive, and what is cut, changed or impossible is
 * refused.
 */
#include "kv/wire.h"

#include <errno.h>
#include <string.h>

#include "unit_test.h"

static const uint8_t id[KV_ID_BYTES] = "0123456789abcde";

static struct spw_kv_info an_info(struct spw_xfer_handle *handle_out)
{
	struct spw_kv_info info;
	uint64_t seed = 5;

	for (uint32_t i = 0; i < sizeof(handle_out->byte); i++)
		handle_out->byte[i] = (uint8_t)unit_random(&seed);
	kv_info_put(id, handle_out, &info);
	return info;
}

static void an_info_survives(void **state SPW_UNUSED)
{
	struct spw_xfer_handle handle, got;
	const struct spw_kv_info info = an_info(&handle);

	assert_int_equal(kv_info_check(info.byte, sizeof(info.byte)), 0);
	assert_memory_equal(kv_info_id(&info), id, sizeof(id));
	got = kv_info_handle(&info);
	assert_memory_equal(&got, &handle, sizeof(handle));
}

static void other_bytes_are_no_info(void **state SPW_UNUSED)
{
	struct spw_xfer_handle handle;
	const struct spw_kv_info info = an_info(&handle);
	uint8_t longer[SPW_KV_INFO_BYTES + 1] = {0};

	for (uint32_t bit = 0; bit < 8 * SPW_KV_INFO_BYTES; bit++) {
		struct spw_kv_info changed = info;

		changed.byte[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(kv_info_check(changed.byte, sizeof(changed.byte)), -EINVAL);
		if (bit / 8 == 5)
			assert_non_null(strstr(spw_err_text(), "this one is of version 1"));
	}
	for (size_t len = 0; len < SPW_KV_INFO_BYTES; len++)
		assert_int_equal(kv_info_check(info.byte, len), -EINVAL);
	memcpy(longer, info.byte, sizeof(info.byte));
	assert_int_equal(kv_info_check(longer, sizeof(longer)), -EINVAL);
}

static void frames_survive(void **state SPW_UNUSED)
{
	static const uint32_t bytes[] = {0, 1, KV_PIECE_BYTES, KV_PIECE_BYTES + 1, SPW_KV_NOTE_MAX};
	uint8_t head[KV_HEAD_BYTES];

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(bytes); i++) {
		uint32_t at = 0;

		do {
			const struct kv_frame f = {KV_FRAME_NOTE, bytes[i], at, 0};
			const uint32_t len = kv_frame_len(bytes[i], at);
			struct kv_frame got;

			kv_frame_put(&f, head);
			assert_int_equal(kv_frame_get(head, KV_HEAD_BYTES + len, &got), 0);
			assert_int_equal(got.type, KV_FRAME_NOTE);
			assert_int_equal(got.bytes, bytes[i]);
			assert_int_equal(got.at, at);
			assert_int_equal(got.len, len);
			assert_int_equal(kv_frame_get(head, KV_HEAD_BYTES + len + 1, &got),
					 -EPROTO);
			at += len;
		} while (at < bytes[i]);
	}
}

static void impossible_frames_are_refused(void **state SPW_UNUSED)
{
	static const struct kv_frame bad[] = {
		{KV_FRAME_NOTE, SPW_KV_NOTE_MAX + 1, 0, 0},         /* too long */
		{KV_FRAME_NOTE, UINT32_MAX, 0, 0},                  /* likewise */
		{KV_FRAME_NOTE, 100, 1, 0},                         /* not where frames begin */
		{KV_FRAME_NOTE, KV_PIECE_BYTES, KV_PIECE_BYTES, 0}, /* behind its end */
		{KV_FRAME_NOTE, 1, 2 * KV_PIECE_BYTES, 0},          /* beyond it */
	};
	const struct kv_frame good = {KV_FRAME_NOTE, 0, 0, 0};
	uint8_t head[KV_HEAD_BYTES];
	struct kv_frame got;

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(bad); i++) {
		kv_frame_put(&bad[i], head);
		for (uint32_t len = 0; len <= KV_FRAME_BYTES; len++)
			assert_int_equal(kv_frame_get(head, len, &got), -EPROTO);
	}
	for (uint32_t byte = 0; byte < KV_HEAD_BYTES; byte++) {
		kv_frame_put(&good, head);
		head[byte] ^= 0x10;
		if (byte != 3) /* the type is the receiver's to judge */
			assert_int_equal(kv_frame_get(head, KV_HEAD_BYTES, &got), -EPROTO);
	}
}

static void names_of_any_bytes_survive(void **state SPW_UNUSED)
{
	uint8_t frame[KV_FRAME_BYTES];
	struct kv_hello hello = {.name = {.byte = {0, 0xff, '\n'}}}, got;
	struct kv_frame f;

	memcpy(hello.id, id, sizeof(id));
	for (hello.name.len = 1; hello.name.len <= SPW_KV_NAME_MAX; hello.name.len++) {
		const uint32_t len = kv_hello_put(&hello, frame);

		assert_int_equal(kv_frame_get(frame, len, &f), 0);
		assert_int_equal(kv_hello_get(&f, frame + KV_HEAD_BYTES, &got), 0);
		assert_memory_equal(got.id, id, sizeof(id));
		assert_true(kv_name_is(&got.name, hello.name.byte, hello.name.len));
		assert_false(kv_name_is(&got.name, hello.name.byte, hello.name.len - 1));
	}
	f.bytes = KV_ID_BYTES; /* without a name */
	assert_int_equal(kv_hello_get(&f, frame, &got), -EPROTO);
	f.bytes = KV_ID_BYTES + SPW_KV_NAME_MAX + 1;
	assert_int_equal(kv_hello_get(&f, frame, &got), -EPROTO);
	f.bytes = KV_ID_BYTES + 1;
	f.type = KV_FRAME_NOTE;
	assert_int_equal(kv_hello_get(&f, frame, &got), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_info_survives),
		cmocka_unit_test(other_bytes_are_no_info),
		cmocka_unit_test(frames_survive),
		cmocka_unit_test(impossible_frames_are_refused),
		cmocka_unit_test(names_of_any_bytes_survive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
