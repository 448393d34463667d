/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Golden vectors: RoCE v2 frames that Linux's rdma_rxe sent (tests/corpus/capture_rxe). The parser
 * accepts each, its ICRC covers every byte that it should, and wire_finish() writes the same ICRC
 * again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../../fuzz/corpus.h"
#include "softhca/nic/port/wire.h"

enum { FRAMES_MAX = 64 };

static struct frame {
	char name[100];
	size_t size;
	uint8_t data[2048];
} frames[FRAMES_MAX];
static int cnt;

static uint32_t load(int i, uint8_t *frame, uint32_t cap)
{
	assert_in_range(frames[i].size, 1, cap);
	memcpy(frame, frames[i].data, frames[i].size);
	return (uint32_t)frames[i].size;
}

/* The frames of the archive that rdma_rxe sent; false if there are none. */
static bool golden_read(const char *path)
{
	FILE *tar = fopen(path, "rb");
	bool sound = false;

	while (tar && cnt < FRAMES_MAX) {
		struct frame *f = &frames[cnt];

		if (!corpus_next(tar, "seeds", f->name, f->data, sizeof(f->data), &f->size, &sound))
			break;
		cnt += strncmp(f->name, "rxe-", 4) == 0;
	}
	if (tar)
		fclose(tar);
	return sound && cnt > 0;
}

static void test_all_are_read(void **state)
{
	uint8_t frame[2048];
	struct wire_pkt pkt;
	uint32_t seen = 0;

	(void)state;
	for (int i = 0; i < cnt; i++) {
		const uint32_t len = load(i, frame, sizeof(frame));

		assert_int_equal(wire_parse(frame, len, false, &pkt), WIRE_OK);
		assert_int_equal(pkt.opcode, strtoul(frames[i].name + 4, NULL,
						     16)); /* the file name has the opcode */
		seen |= 1u << pkt.op;
	}
	/* All operations but those with immediates or invalidation. */
	assert_int_equal(seen & 0x1ef1d7, 0x1ef1d7);
}

/* The bytes that routers change are not covered: IPv4 TOS, TTL, checksum; UDP checksum; BTH byte 4.
 */
static bool is_variant(uint32_t at)
{
	return at < 14 || at == 15 || at == 22 || at == 24 || at == 25 || at == 40 || at == 41 ||
	       at == 46;
}

static void test_icrc_covers_each_byte(void **state)
{
	uint8_t frame[2048];
	struct wire_pkt pkt;

	(void)state;
	for (int i = 0; i < cnt; i++) {
		const uint32_t len = load(i, frame, sizeof(frame));

		for (uint32_t at = 14; at < len; at++) {
			frame[at] ^= 0x10;
			if (wire_parse(frame, len, false, &pkt) == WIRE_OK && !is_variant(at))
				fail_msg("%s: byte %u is not covered", frames[i].name, at);
			frame[at] ^= 0x10;
		}
		assert_int_equal(wire_parse(frame, len, false, &pkt), WIRE_OK);
	}
}

static void test_cut_frames_are_bad(void **state)
{
	struct wire_pkt pkt;

	(void)state;
	for (int i = 0; i < cnt; i++) {
		uint8_t frame[2048];
		const uint32_t len = load(i, frame, sizeof(frame));

		for (uint32_t cut = 0; cut < len; cut++) {
			uint8_t *copy =
				malloc(cut + 1); /* under ASan, reading beyond it is an error */

			memcpy(copy, frame, cut);
			assert_int_not_equal(wire_parse(copy, cut, false, &pkt), WIRE_OK);
			free(copy);
		}
	}
}

/* wire_finish() computes the ICRC that the kernel computed. */
static void test_icrc_is_the_senders(void **state)
{
	uint8_t frame[2048], again[2048];
	struct wire_pkt pkt;

	(void)state;
	for (int i = 0; i < cnt; i++) {
		const uint32_t len = load(i, frame, sizeof(frame));

		assert_int_equal(wire_parse(frame, len, false, &pkt), WIRE_OK);
		memcpy(again, frame, len);
		memset(again + len - WIRE_ICRC_BYTES, 0, WIRE_ICRC_BYTES);
		wire_finish(again, len, 14, false, pkt.payload_len, true);
		assert_memory_equal(again, frame, len);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_are_read),
		cmocka_unit_test(test_icrc_covers_each_byte),
		cmocka_unit_test(test_cut_frames_are_bad),
		cmocka_unit_test(test_icrc_is_the_senders),
	};

	if (argc != 2 || !golden_read(argv[1]))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
