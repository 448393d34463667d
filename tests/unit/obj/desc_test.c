/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "frame/spw_move.h"
#include "obj/desc.h"
#include "unit_test.h"

static struct spw_obj_desc desc;

static int load(const char *text)
{
	return spw_obj_desc_load_text("f.yaml", text, strlen(text), &desc);
}

static void assert_error(int rc, const char *text, const char *part)
{
	if (rc == 0)
		fail_msg("no error of\n%sexpected one with \"%s\"", text, part);
	assert_true(rc < 0);
	if (!strstr(spw_err_text(), part))
		fail_msg("error \"%s\" lacks \"%s\"", spw_err_text(), part);
}

/* A description that is right, in two halves; a case replaces or adds. */
#define HEADER "header:\n- [a 4, b 4, seq 32]\n"
#define NUMBER "number: seq\nper: 4\n"
#define PLACE  "bytes: 10\nplace: part * 10\n"
#define SHAPE  "wire: uint8\nshape: [4, 10]\n"

static void a_description_is_read(void **state)
{
	static const char text[] =
		"name: adc\n" HEADER NUMBER PLACE
		"wire: int16\norder: big\ntype: float32\nshape: [4, 5]\nstrides: [1, 4]\n"
		"deadline: 5ms\nbuffers: 16\nopen: 3\npolicy: newest\npriority: 7\nfill: 0xff\n";

	(void)state;
	assert_int_equal(load(text), 0);
	assert_string_equal(desc.name, "adc");
	assert_int_equal(desc.plan.object_bytes, 40);
	assert_int_equal(desc.plan.key_bits, 30);
	assert_false(desc.plan.key_label);
	assert_int_equal(desc.shape.bytes, 80);
	assert_int_equal(desc.shape.ndim, 2);
	assert_int_equal(desc.shape.stride[1], 4);
	assert_int_equal(desc.shape.type_code, 2);
	assert_int_equal(desc.shape.type_bits, 32);
	assert_int_equal(desc.rule.op, SPW_MOVE_OP_i16be_f32);
	assert_int_equal(desc.rule.granule, 10);
	assert_int_equal(desc.rule.deadline_ns, 5000000);
	assert_int_equal(desc.rule.buffers, 16);
	assert_int_equal(desc.rule.open_max, 3);
	assert_int_equal(desc.rule.policy, SPW_OBJ_POLICY_newest);
	assert_int_equal(desc.rule.priority, 7);
	assert_int_equal(desc.rule.fill, 255);
}

static void every_shipped_format_is_a_description(void **state)
{
	(void)state;
	assert_true(format_cnt() >= 2);
	for (uint32_t i = 0; i < format_cnt(); i++) {
		size_t bytes;
		const char *text = format_text(format_name(i, NULL), &bytes);

		if (spw_obj_desc_load_text(format_name(i, NULL), text, bytes, &desc))
			fail_msg("%s", spw_err_text());
		assert_string_equal(desc.name, format_name(i, NULL));
	}
}

static void a_format_is_a_beginning(void **state)
{
	(void)state;
	assert_int_equal(load("format: counter\nname: adc\nset: { payload: 1176, packets: 4096 }\n"
			      "wire: int8\ntype: float16\nshape: [32, 3, 224, 224]\n"),
			 0);
	assert_string_equal(desc.name, "adc");
	assert_int_equal(desc.plan.object_bytes, 4096 * 1176);
	assert_int_equal(desc.rule.op, SPW_MOVE_OP_i8_f16);
	assert_int_equal(load("format: counter\nset: { rows: 8, packets: rows }\n"), 0);
	assert_int_equal(desc.plan.object_bytes, 8 * 1024);
}

/* What cannot be, each with its place and what to do. */
static const struct {
	const char *text, *error;
} refused[] = {
	/* the document */
	{"", "f.yaml:1:1: the file is empty"},
	{"7\n", "f.yaml:1:1: a single value where a mapping"},
	{"headre: []\n", "f.yaml:1:1: unknown key 'headre' in the description, did you mean "
			 "'header'"},
	{"name: a\nname: b\n", "f.yaml:2:1: 'name' is given twice in the description"},
	{"format: conuter\n", "f.yaml:1:9: no format 'conuter'; did you mean 'counter'?"},
	{"format: [a]\n", "f.yaml:1:9: a list where the name of a format"},
	{"format: counter\nset: { rows: pakets }\n", "f.yaml:2:14: 'pakets' is neither"},
	{"set: { a: 1, a: 2 }\n", "f.yaml:1:14: 'a' is a name already"},
	{"set: { part: 1 }\n", "f.yaml:1:8: 'part' is a name already"},
	{"set: { 1a: 1 }\n", "f.yaml:1:8: '1a' is no name"},
	{NUMBER PLACE SHAPE, "f.yaml:1:9: 'seq' is no field"},
	{PLACE SHAPE, "f.yaml:1:1: no header; or begin with format: NAME"},
	{HEADER NUMBER PLACE "wire: uint8\n", "f.yaml:1:1: no shape"},
	/* the packet */
	{"under: tcp\n", "f.yaml:1:8: 'tcp' is not allowed; allowed: udp, ethernet, message"},
	{"port: 65536\n", "f.yaml:1:7: '65536' is not allowed; allowed: 0 .. 65535"},
	{"under: message\nport: 5\n", "f.yaml:2:7: under: message has no such number"},
	{"ethertype: 5\n", "f.yaml:1:12: under: udp has no such number"},
	/* the header */
	{"header: 5\n", "f.yaml:1:9: a single value where a list of parts"},
	{"header: [[a]]\n", "f.yaml:1:11: 'a' is no field"},
	{"header: [[a 0]]\n", "f.yaml:1:11: 'a 0' is no field"},
	{"header: [[a 8x]]\n", "'a 8x' is no field"},
	{"header: [[a 65]]\n", "a has 65 bits; a field has 1 .. 64"},
	{"header: [[_ 4, a 64, _ 4]]\n", "a: 64 bits from bit 4 of a byte on are more than"},
	{"header: [[a 8, a 8]]\n", "f.yaml:1:16: 'a' is a name already"},
	{"header: [[a 4]]\n", "f.yaml:1:10: the part's 4 bits end within a byte"},
	{"header: [[_ 8192, a 8]]\n", "f.yaml:1:19: a part of more than 1024 bytes"},
	{"header: [[a b 8]]\n", "'a b 8' is no field"},
	{"header: [[a-b 8]]\n", "'a-b 8' is no name"},
	{"header: [{ order: little, fields: [a 4, b 4] }]\n",
	 "a: a little-endian field is whole bytes, or lies in one word"},
	{"header: [{ order: little, fields: [_ 4, a 8, _ 4] }]\n",
	 "a: a little-endian field is whole bytes, or lies in one word"},
	{"header: [{ order: little, word: 16, fields: [_ 8, a 16, _ 8] }]\n",
	 "a: a little-endian field is whole bytes, or lies in one word"},
	{"header: [{ order: middle, fields: [a 8] }]\n", "'middle' is not allowed"},
	{"header: [{ word: 24, order: little, fields: [a 24] }]\n", "a word has 16, 32 or 64 bits"},
	{"header: [{ word: 64, order: little, fields: [a 32] }]\n",
	 "the part's 32 bits end within a word"},
	{"header: [{ when: { a: 1 }, fields: [a 8] }]\n",
	 "f.yaml:1:20: 'a' is no field that stands before this"},
	{"header: [{ order: big }]\n", "a part without fields and bytes"},
	{"header: [[a 8], { when: { a: 256 }, fields: [b 8] }]\n",
	 "'256' is not allowed; allowed: 0 .. 255"},
	{"header: [[a 8], { when: { a: [64] }, fields: [b 8] }]\n",
	 "'64' is not allowed; allowed: 0 .. 63"},
	{"header: [[a 8], { when: { a: [] }, fields: [b 8] }]\n", "an empty list"},
	{"header: [[a 8], { when: {}, fields: [b 8] }]\n", "no condition"},
	{HEADER "only: { a: 1, a: 2 }\n", "f.yaml:3:15: a field is given twice"},
	{HEADER "only: { c: 1 }\n", "f.yaml:3:9: 'c' is no field"},
	{HEADER "only: { a: 1 }\nsegments: { most: 2, header: [n 16], only: { n: 1, a: 2 } }\n",
	 "f.yaml:4:44: only of a is given twice"},
	/* sums */
	{HEADER "number: sek\n", "f.yaml:3:9: 'sek' is no field that stands before this; did "
				 "you mean 'seq'?"},
	{HEADER "number: seq *\n", "f.yaml:3:14: a name or a number is wanted here"},
	{HEADER "number: seq * 0\n", "times or over 0"},
	{HEADER "number: seq seq\n", "f.yaml:3:13: 'seq' is not understood"},
	{HEADER "number: (seq\n", "f.yaml:3:13: '-' is wanted: (NAME - NUMBER)"},
	{HEADER "number: (seq - 1\n", "f.yaml:3:17: ')' is wanted"},
	{HEADER "number: seq * 18446744073709551615 * 2\n", "numbers too large"},
	{HEADER "number: a + a + a + a + a + a + a\n", "more than 6 terms"},
	{HEADER "number: seq / b\n", "'b' is neither a number nor a value of set"},
	{HEADER "number: seq * c\n", "'c' is no field that stands before this"},
	{HEADER "number: seq * a * b * a\n", "a product of more than 3 fields"},
	{HEADER "number: (seq - 1) * a\n", "f.yaml:3:22: (NAME - NUMBER) times a field"},
	{HEADER "number: part\nper: 4\n" PLACE SHAPE,
	 "f.yaml:3:9: part, header and rest are not known here"},
	{HEADER "number: seq * 3 / 2\n" PLACE SHAPE, "a fraction here is below 1, and added"},
	{HEADER NUMBER "place: part * 1 / 2 - a / 3\n" SHAPE,
	 "f.yaml:5:8: a quotient here is of a field alone"},
	{HEADER NUMBER "place: part * 10 + 1 / 2\n" SHAPE, "a constant that is no whole number"},
	/* the key */
	{HEADER PLACE SHAPE, "f.yaml:1:1: either number or label"},
	{HEADER NUMBER "label: [a]\n" PLACE SHAPE, "either number or label"},
	{HEADER "label: [a]\nper: 4\nplace: 0\n" SHAPE, "per, wrap and align are of a"},
	{HEADER "label: [a]\n" PLACE SHAPE, "f.yaml:5:8: without a number, part is not known here"},
	{HEADER "label: [a]\nplace: a * part\n" SHAPE, "without a number, part is not known here"},
	{"header: [[x 64, y 1, _ 7]]\nlabel: [x, y]\n", "a label of more than 64 bits"},
	{HEADER "number: seq\nper: 0\n", "f.yaml:4:6: '0' is not allowed; allowed: 1 .. "},
	{HEADER "number: seq\nper: 5\nbytes: 8\nplace: part * 8\n" SHAPE,
	 "f.yaml:4:6: 5 does not divide 2^32"},
	{HEADER "number: a\nper: 32\nbytes: 8\nplace: part * 8\n" SHAPE,
	 "a number of 4 bits never reaches the next object"},
	/* the payload */
	{"wrap: 3\n", "f.yaml:1:7: a power of 2"},
	{HEADER NUMBER SHAPE, "f.yaml:1:1: either place, with bytes or without, or segments"},
	{HEADER NUMBER "bytes: 0\nplace: 0\n" SHAPE,
	 "f.yaml:5:8: no frame has 0 bytes of payload; 1 .. 65535"},
	{"format: counter\nset: { payload: 65536 }\n",
	 "counter:15:8: no frame has 65536 bytes of payload; 1 .. 65535"},
	{"format: counter\nset: { payload: 0 }\n", "times or over 0"},
	{HEADER NUMBER "bytes: 10\nplace: part * 9\n" SHAPE,
	 "f.yaml:6:8: places 9 bytes apart overlap: bytes is 10"},
	{HEADER NUMBER "bytes: 10\nplace: part * 11\n" SHAPE,
	 "places 11 bytes apart leave gaps: bytes is 10"},
	{HEADER NUMBER PLACE "wire: uint8\nshape: [5, 10]\n",
	 "4 places of 10 bytes are not an object of 50 bytes"},
	{HEADER NUMBER PLACE "wire: uint8\nshape: [3, 10]\n",
	 "4 places of 10 bytes are not an object of 30 bytes"},
	{HEADER NUMBER PLACE SHAPE "granule: 41\n", "a granule of 41 bytes is larger than"},
	{HEADER NUMBER PLACE "wire: int16\nshape: [4, 5]\ngranule: 5\n",
	 "a granule of 5 bytes is not made of elements of 2"},
	/* segments and items */
	{HEADER "segments: { most: 5 }\n", "f.yaml:3:19: '5' is not allowed; allowed: 1 .. 4"},
	{HEADER "segments: { most: 2 }\n", "segments need most, header, bytes and place"},
	{HEADER "segments: { most: 2, header: [n 16], bytes: n, place: n }\n",
	 "data: after needs more"},
	{HEADER "segments: { data: before }\n", "'before' is not allowed; allowed: after, "},
	{HEADER "items: { count: a }\n", "items need count, id and fields"},
	{HEADER "items: { id: 16, fields: { x: 1 } }\n",
	 "f.yaml:3:31: items need count, id and fields"},
	{"header: [[a 8], { when: { a: 1 }, fields: [b 8] }]\n"
	 "items: { id: 16, fields: { x: 1 } }\n",
	 "f.yaml:2:31: items need count, id and fields"},
	{HEADER "items: { count: a, fields: { x: 1 } }\n",
	 "f.yaml:3:33: items need count, id and fields"},
	{HEADER "items: { count: a, none: [1] }\n", "f.yaml:3:27: items need count, id and fields"},
	{HEADER "items: { count: a, id: 16, fields: { x: 65536 } }\n",
	 "'65536' is not allowed; allowed: 0 .. 65535"},
	{HEADER "items: { count: a, id: 16, fields: { x: 1, y: 1 } }\n",
	 "f.yaml:3:47: the id is given twice"},
	/* what a consumer sees */
	{HEADER NUMBER PLACE "wire: uint9\n", "'uint9' is not allowed; allowed: int8, uint8"},
	{HEADER NUMBER PLACE SHAPE "type: int64\n", "wire uint8 does not become int64"},
	{"shape: [0]\n", "f.yaml:1:9: '0' is not allowed; allowed: 1 .. "},
	{"shape: []\n", "a shape without dimensions"},
	{"shape: [1,1,1,1,1,1,1,1,1]\n", "more than 8 dimensions"},
	{"shape: [1048576, 1048576, 2]\n", "f.yaml:1:8: an object above 1 TiB"},
	{HEADER NUMBER "place: part * 268435456\nwire: uint8\nshape: [1073741824]\n"
		       "buffers: 2048\n",
	 "2048 buffers of 1073741824 bytes are more than 1 TiB"},
	{"shape: [4, 10]\nstrides: [10]\n", "fewer strides than dimensions"},
	{"shape: [4, 10]\nstrides: [10, 1, 1]\n", "more strides than dimensions"},
	{"shape: [4, 10]\nstrides: [9, 1]\n", "stride 9 overlaps another dimension"},
	{"shape: [4, 10]\nstrides: [14, 1]\n", "stride 14 leads out of the object"},
	{"shape: [2, 2, 3]\nstrides: [4, 3, 1]\n", "stride 4 overlaps another dimension"},
	{"shape: [2, 2, 3]\nstrides: [11, 9, 1]\n", "stride 11 overlaps another dimension"},
	{"shape: [2, 2, 3]\nstrides: [10, 3, 1]\n", "stride 10 leads out of the object"},
	{"shape: [2, 2, 2, 2]\nstrides: [7, 4, 2, 1]\n", "stride 7 overlaps another dimension"},
	{"shape: [2, 2, 2, 2]\nstrides: [1, 4, 2, 9]\n", "stride 9 leads out of the object"},
	/* how objects are kept */
	{"buffers: 3\n", "f.yaml:1:10: buffers: '3' is not allowed; allowed: 2 .. 4096, a "
			 "power of 2"},
	{HEADER NUMBER PLACE SHAPE "buffers: 2\nopen: 2\n",
	 "open: 2 of 2 buffers; one at least is for the consumer"},
	{"deadline: 5\n", "deadline: '5' has no unit"},
	{"policy: best\n", "'best' is not allowed; allowed: oldest, newest"},
	{"fill: 256\n", "fill: '256' is not allowed"},
};

static void errors_name_the_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(refused); i++)
		assert_error(load(refused[i].text), refused[i].text, refused[i].error);
	assert_error(spw_obj_desc_load("/nonexistent.yaml", &desc), "",
		     "objects /nonexistent.yaml: No such file");
	assert_int_equal(load(HEADER NUMBER PLACE SHAPE), 0);
}

/* Every element once, with dimensions of 1 and in any order of the strides. */
static void strides_are_a_permutation(void **state)
{
	static const char *const right[] = {"[24, 12, 4, 1]", "[1, 2, 4, 12]", "[12, 24, 1, 3]"};
	char text[400];

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(right); i++) {
		snprintf(text, sizeof(text),
			 HEADER "number: seq\nplace: 0\nwire: uint8\nshape: [2, 2, 3, 4]\n"
				"strides: %s\n",
			 right[i]);
		if (load(text))
			fail_msg("%s: %s", right[i], spw_err_text());
	}
}

static void run(const char *text, const uint8_t *frame, uint32_t bytes, struct spw_obj_hit *hit)
{
	if (load(text))
		fail_msg("%s", spw_err_text());
	assert_int_equal(spw_obj_plan_run(&desc.plan, frame, bytes, bytes, hit), SPW_OBJ_MISS_none);
	assert_int_equal(hit->piece_cnt, 1);
}

/* The payload step knows both, whatever names the object. */
static void a_label_leaves_header_and_rest(void **state)
{
	static const uint8_t frame[14] = {7, 3};
	struct spw_obj_hit hit;

	(void)state;
	run("under: message\nheader: [[id 8, at 8]]\nlabel: [id]\nbytes: rest - header\n"
	    "place: at * 2 + header\nwire: uint8\nshape: [40]\ngranule: 2\n",
	    frame, sizeof(frame), &hit);
	assert_int_equal(hit.key, 7);
	assert_int_equal(hit.piece[0].pos, 8);
	assert_int_equal(hit.piece[0].skip, 2);
	assert_int_equal(hit.piece[0].len, 10);
}

static void little_fields_begin_at_any_byte(void **state)
{
	static const uint8_t frame[12] = {0xff, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0xff, 0x77};
	struct spw_obj_hit hit;

	(void)state;
	run("under: message\nheader: [{ order: little, fields: [_ 8, a 16, b 32, _ 8, c 8] }]\n"
	    "label: [a, b, c]\nplace: 0\nwire: uint8\nshape: [3]\n",
	    frame, sizeof(frame), &hit);
	assert_int_equal(hit.key, 0x22116655443377);
	run("under: message\nheader: [{ order: little, fields: [_ 8, a 24, _ 40] }]\n"
	    "only: { a: 0x332211 }\nlabel: [a]\nplace: 0\nwire: uint8\nshape: [3]\n",
	    frame, sizeof(frame), &hit);
	assert_int_equal(hit.key, 0x332211);
	run("under: message\nheader: [{ order: little, fields: [_ 8, a 64] }]\n"
	    "label: [a]\nplace: 0\nwire: uint8\nshape: [3]\n",
	    frame, sizeof(frame), &hit);
	assert_int_equal(hit.key, 0x77ff665544332211);
}

/* A value of the format is replaced, which needs no room, also where there is none. */
static void a_full_set_can_be_overridden(void **state)
{
	char text[400] = "format: counter\nset: {";

	(void)state;
	for (uint32_t i = 0; i < DESC_SET_MAX - 3; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "v%u: 1, ", i);
	strcat(text, "packets: 8 }\n");
	if (load(text))
		fail_msg("%s", spw_err_text());
	assert_int_equal(desc.plan.object_bytes, 8 * 1024);
	strcpy(strstr(text, "packets"), "one: 1 }\n");
	assert_error(load(text), text, "more than 16 values");
}

/* A description that needs too many steps is refused, not cut. */
static void a_plan_has_a_limit(void **state)
{
	static const char when[] = "- { when: { a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1 }, "
				   "bytes: 1 }\n";
	char text[4096] = NUMBER PLACE SHAPE
		"header:\n- [seq 32, a 8, b 8, c 8, d 8, e 8, f 8, g 8, h 8]\n";

	(void)state;
	for (uint32_t parts = 1; parts < DESC_PART_MAX; parts++) {
		uint32_t steps = desc.plan.step_cnt;

		strcat(text, when);
		if (parts < 12)
			assert_int_equal(load(text), 0);
		else
			assert_error(load(text), text, "steps; 128 is the limit");
		if (parts > 1)
			assert_int_equal(desc.plan.step_cnt, steps + 10);
	}
	strcat(text, when);
	assert_error(load(text), text, "more than 16 parts");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_description_is_read),
		cmocka_unit_test(every_shipped_format_is_a_description),
		cmocka_unit_test(a_format_is_a_beginning),
		cmocka_unit_test(errors_name_the_place),
		cmocka_unit_test(strides_are_a_permutation),
		cmocka_unit_test(a_label_leaves_header_and_rest),
		cmocka_unit_test(little_fields_begin_at_any_byte),
		cmocka_unit_test(a_full_set_can_be_overridden),
		cmocka_unit_test(a_plan_has_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
