/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Paths through a plan: whatever a memo has learned, a frame means what it means without one. Each
 * bit of a header is flipped after that header was learned, frames end at every byte, and flows
 * take turns.
 */
#include <stdlib.h>

#include "obj_same.h"
#include "unit_test.h"

#define FRAME_MAX 400u
#define HEADERS   42u
#define KIND_MAX  4u
#define SKIPS     12u /* of streams: bytes that are skipped */

/* Kinds of frames of one description: what is in UDP, in hex, and zeros up to `bytes`. */
struct stream {
	const char *text;
	uint16_t port;
	bool path; /* whether its frames have paths */
	struct {
		uint32_t bytes;
		const char *hex;
	} kind[KIND_MAX];
};

#define LEADER \
	"0000000100000000000000000108000100000008000000080000000000000000000000000000000000000000"

static const struct stream streams[] = {
	{"format: counter\nset: { packets: 4, payload: 16 }\n",
	 4660,
	 true,
	 {{24, "00000000000000ff"}}},
	{"format: mark\nset: { packets: 4, payload: 40 }\n",
	 5357,
	 true,
	 {{40, "535701000009000000000005"}}},
	{"format: gvsp\nset: { width: 8, height: 8, payload: 32 }\n",
	 20202,
	 true,
	 {{40, "0000000703000001"},
	  {52, "0000000701000000" LEADER},
	  {116, "0000000704000000" LEADER},
	  {16, "0000000702000003"}}},
	{"format: gvsp_extended\nset: { width: 8, height: 8, payload: 32 }\n",
	 20202,
	 true,
	 {{52, "0000000083000000000000000000000700000001"},
	  {64, "0000000081000000000000000000000700000000" LEADER}}},
	{"format: rfc4175\nset: { lines: 4, pitch: 20 }\n",
	 5004,
	 true,
	 {{40, "8060000100000bbb0000000100000014000100000000"},
	  {50, "8060000100000bbb000000010000000a00018000000a00020004"},
	  {52, "9160000100000bbb0000000100000009bede0001aabbccdd0000000a00010000"},
	  {40, "80e0000100000bbb0000000100000014000300000000"}}},
	{"format: vrt\nset: { rate: 1000, samples: 32, payload: 64 }\n",
	 4991,
	 true,
	 {{84, "1050001500000007000000010000000000000020"},
	  {88, "1450001600000007000000010000000000000020"},
	  {80, "0050001400000001000000000000000000000020"},
	  {92, "1850001700000007001234560001000200000001000000000000000000000020"}}},
	{"format: difi\nset: { samples: 32, payload: 64 }\n",
	 50000,
	 true,
	 {{92, "1860001700000007006a621e0000000000000001000000000000000000000020"}}},
	{"format: chdr\nset: { ticks: 32, payload: 64 }\n",
	 49153,
	 true,
	 {{80, "050050000000e0002000000000000000"},
	  {88, "050058000100e10020000000000000000000000000000000"}}},
	{"format: spead\nset: { heap: 128, payload: 64 }\n",
	 7148,
	 true,
	 {{112, "5304020600000005800100000000000980020000000000808003000000000040800400000000004012"
		"3400"},
	  {112, "5304020600000005123400000000000080030000000000408001000000000009800200000000008080"
		"04000000000040"}}},
	{"format: hsb\nset: { page: 128, image: 128, payload: 64 }\n",
	 4791,
	 true,
	 {{92, "2a00ffff0000000100000000000000000000004000000000000000400000"},
	  {144, "2b00ffff000000010000000000000000000000400000000000000070"}}},
	/* Little-endian fields that decide, and one that does not; bytes that a field skips; a
	 * guarded item; a product; a part by a set. */
	{"under: udp\n"
	 "header:\n"
	 "- { order: little, fields: [kind 16, words 8, _ 8, seq 32] }\n"
	 "- { bytes: words * 4 }\n"
	 "- { when: { kind: [3, 5] }, fields: [row 8, pitch 8] }\n"
	 "- [n 8, _ 8]\n"
	 "only: { kind: [2, 3, 5], flavour: 7 }\n"
	 "items: { count: n, id: 16, fields: { flavour: 1, x: 2 }, none: [9] }\n"
	 "number: seq\nper: 4\nplace: row * pitch + x\nwire: uint8\nshape: [4096]\n",
	 9,
	 true,
	 {{48, "03000100050000000102030402040200000100000000000700020000000000055566"},
	  {48, "02000000050000000300000100000000000700020000000000050003000000000005"},
	  {48, "05000200050000000102030401020304020402000002000000000005000100000000000799"}}},
	/* A guard behind all that is loaded. */
	{"under: udp\nheader:\n- [seq 32, _ 40, kind 8]\nonly: { kind: 1 }\nnumber: seq\nbytes: 8\n"
	 "place: 0\nwire: uint8\nshape: [8]\n",
	 9,
	 true,
	 {{18, "00000005000000000001"}}},
	/* SKIPS: bytes that are skipped, with nothing behind them. */
	{"under: udp\nheader:\n- [kind 8, words 8, seq 32]\n- { bytes: words * 4 }\n"
	 "info: { kind: 1 }\nnumber: seq\nplace: 0\nwire: uint8\nshape: [64]\n",
	 9,
	 true,
	 {{26, "010500000001"}, {82, "000300000001"}}},
	/* Sections lie where the data of those before end: no path. */
	{"under: udp\nheader:\n- [a 8, _ 8]\nnumber: a\n"
	 "segments:\n  most: 2\n  data: inline\n  header: [bytes 8, at 8]\n  bytes: bytes\n"
	 "  place: at\nwire: uint8\nshape: [64]\n",
	 9,
	 false,
	 {{20, "01000405aabbccdd0809"}}},
};

static struct spw_obj_desc desc;
static uint64_t seed = 1;

static uint32_t digit(char c)
{
	return (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* Returns: the frame's bytes; 0: there is no such kind. */
static uint32_t frame_make(const struct stream *stream, uint32_t kind, uint8_t *frame)
{
	const uint32_t bytes = stream->kind[kind].bytes;
	const char *hex = stream->kind[kind].hex;
	const spw_be16 port = spw_cpu_to_be16(stream->port);
	const spw_be16 udp = spw_cpu_to_be16((uint16_t)(8 + bytes));

	if (!hex)
		return 0;
	memset(frame, 0, FRAME_MAX);
	frame[12] = 8;
	frame[14] = 0x45;
	frame[23] = 17;
	memcpy(frame + 36, &port, 2);
	memcpy(frame + 38, &udp, 2);
	for (uint32_t i = 0; hex[2 * i]; i++)
		frame[HEADERS + i] = (uint8_t)(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
	return HEADERS + bytes;
}

static void stream_load(const struct stream *stream)
{
	uint8_t frame[FRAME_MAX];
	uint32_t len = frame_make(stream, 0, frame);

	if (spw_obj_desc_load_text("test", stream->text, strlen(stream->text), &desc))
		fail_msg("%s\n%s", spw_err_text(), stream->text);
	if (desc.plan.align_first)
		assert_true(spw_obj_plan_align(&desc.plan, frame, len, len));
}

/* A copy of exactly the head's bytes, so that a sanitizer finds a read beyond them. */
static bool same(struct plan_memo *memo, const uint8_t *frame, uint32_t head, uint32_t len)
{
	uint8_t *copy = malloc(head ? head : 1);
	bool is;

	assert_non_null(copy);
	memcpy(copy, frame, head);
	is = obj_plan_same(&desc.plan, memo, copy, head, len);
	free(copy);
	return is;
}

/* Whether a path is known: then it is read although the plan refuses all frames. */
static bool path_known(const struct plan_memo *memo, const uint8_t *frame, uint32_t len)
{
	static struct spw_obj_plan none;
	struct plan_memo copy = *memo;
	struct spw_obj_hit hit;

	none = desc.plan;
	none.step[0] = (struct spw_obj_step){.op = PLAN_OP_refuse};
	return plan_path_run(&none, &copy, frame, len, len, &hit) == SPW_OBJ_MISS_none;
}

static void check_bits(const struct stream *stream, const struct plan_memo *memo, uint8_t *frame,
		       uint32_t len)
{
	for (uint32_t bit = 0; bit < len * 8; bit++) {
		struct plan_memo copy = *memo;

		frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (!same(&copy, frame, len, len))
			fail_msg("bit %u of a frame of %u bytes\n%s", bit, len, stream->text);
		frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (!same(&copy, frame, len, len))
			fail_msg("the frame behind bit %u\n%s", bit, stream->text);
	}
}

/* The frame ends, its head does, or UDP says that it does. */
static void check_ends(const struct stream *stream, const struct plan_memo *memo, uint8_t *frame,
		       uint32_t len)
{
	for (uint32_t end = 0; end < len; end++) {
		const spw_be16 udp = spw_cpu_to_be16((uint16_t)(end - HEADERS + 8));
		struct plan_memo copy = *memo;
		bool is = same(&copy, frame, end, end) && same(&copy, frame, end, len);

		if (end >= HEADERS) {
			memcpy(frame + 38, &udp, 2);
			is = is && same(&copy, frame, end, end) && same(&copy, frame, len, len);
		}
		if (!is)
			fail_msg("cut at %u of %u bytes\n%s", end, len, stream->text);
	}
}

static void a_learned_header_answers_for_no_other(void **state)
{
	uint8_t frame[FRAME_MAX];
	uint32_t len;

	(void)state;
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(streams); i++) {
		stream_load(&streams[i]);
		for (uint32_t k = 0; k < KIND_MAX && (len = frame_make(&streams[i], k, frame));
		     k++) {
			struct plan_memo memo = {0};

			assert_true(same(&memo, frame, len, len));
			if (path_known(&memo, frame, len) != streams[i].path)
				fail_msg("kind %u: path %d\n%s", k, !streams[i].path,
					 streams[i].text);
			check_bits(&streams[i], &memo, frame, len);
			check_ends(&streams[i], &memo, frame, len);
		}
	}
}

/* All kinds, some with bits or the length changed, in any order, by one memo that learns. */
static void flows_take_turns(void **state)
{
	uint8_t frame[FRAME_MAX];

	(void)state;
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(streams); i++) {
		struct plan_memo memo = {0};

		stream_load(&streams[i]);
		for (uint32_t n = 0; n < 40000; n++) {
			const uint64_t r = unit_random(&seed);
			uint32_t len = frame_make(&streams[i], r % KIND_MAX, frame);
			uint32_t flips = r >> 8 & 3, head;

			while (flips-- && len) {
				const uint64_t at = unit_random(&seed);

				frame[HEADERS - 6 + at % (len - HEADERS + 6)] ^= 1u
										 << (at >> 32) % 8;
			}
			head = r >> 16 & 1 ? len : (uint32_t)((r >> 20) % (len + 1));
			if (!same(&memo, frame, head, len))
				fail_msg("frame %u\n%s", n, streams[i].text);
			if (n % 64 == 0)
				memo.wait = 0;
		}
	}
}

/* What is in front of the header is no part of a path. */
static void a_tag_moves_the_header(void **state)
{
	uint8_t frame[FRAME_MAX], tagged[FRAME_MAX + 4];
	struct plan_memo memo = {0};
	uint32_t len = frame_make(&streams[2], 0, frame);

	(void)state;
	stream_load(&streams[2]);
	memcpy(tagged, frame, 12);
	memcpy(tagged + 12, "\x81\0\0\5", 4);
	memcpy(tagged + 16, frame + 12, len - 12);
	assert_true(same(&memo, frame, len, len));
	assert_true(path_known(&memo, tagged, len + 4));
	assert_true(same(&memo, tagged, len + 4, len + 4));
	check_bits(&streams[2], &memo, tagged, len + 4);
}

/* 320 bytes in front of the field that decides: frames without a path. */
static uint32_t frame_make_long(uint8_t *frame)
{
	static const struct stream stream = {.port = 9, .kind = {{326, "005000000001"}}};

	return frame_make(&stream, 0, frame);
}

/* The more frames had no path, the fewer are tried; and each stream that gets one is read by it. */
static void learning_in_vain_becomes_rare(void **state)
{
	uint8_t none[FRAME_MAX], frame[FRAME_MAX];
	uint32_t none_len = frame_make_long(none), len = frame_make(&streams[SKIPS], 0, frame);
	struct plan_memo memo = {0};
	uint32_t tries = 0, sent = 0;

	(void)state;
	stream_load(&streams[SKIPS]);
	for (uint32_t i = 0; i < 1000000; i++) {
		const uint32_t wait = memo.wait;

		assert_true(same(&memo, none, none_len, none_len));
		tries += memo.wait > wait || wait == 0;
	}
	assert_in_range(tries, 10, 25);
	assert_false(path_known(&memo, none, none_len));
	while (!path_known(&memo, frame, len)) {
		assert_true(same(&memo, frame, len, len));
		assert_true(++sent <= 1u << 17);
	}
	for (uint32_t i = 0; i < 3000; i++)
		assert_true(same(&memo, none, none_len, none_len));
	assert_true(memo.vain > 1);
	assert_true(path_known(&memo, frame, len));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_learned_header_answers_for_no_other),
		cmocka_unit_test(flows_take_turns),
		cmocka_unit_test(a_tag_moves_the_header),
		cmocka_unit_test(learning_in_vain_becomes_rare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
