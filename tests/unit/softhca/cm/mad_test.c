/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The wire format of the communication manager: fields at the specification's offsets, and back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "softhca/cm/cm_mad.h"

#define DATA 24u /* bytes of the header */

/* Each kind's fields all ones: they come back as they went, none reaches into another, and what is
 * no field stays 0. */
static void test_fields_are_apart(void **state)
{
	(void)state;
	for (uint32_t attr = CM_REQ; attr < CM_ATTR_END; attr++) {
		struct cm_msg ones, back, again;
		uint8_t mad[CM_MAD_BYTES], twice[CM_MAD_BYTES];

		memset(&ones, 0xff, sizeof(ones));
		ones.attr = attr;
		cm_mad_build(&ones, mad);
		assert_true(cm_mad_parse(mad, &back));
		cm_mad_build(&back, twice);
		assert_memory_equal(mad, twice, sizeof(mad));
		assert_true(cm_mad_parse(twice, &again));
		assert_memory_equal(&back, &again, sizeof(back));
	}
}

static void test_request_offsets(void **state)
{
	struct cm_msg m = {.attr = CM_REQ,
			   .tid = 0x1122334455667788ull,
			   .local_id = 0xa1a2a3a4,
			   .service_id = 0x0000000001061c55ull,
			   .qpn = 0x010203,
			   .responder_resources = 7,
			   .initiator_depth = 9,
			   .remote_timeout = 20,
			   .transport = 1,
			   .flow_control = 1,
			   .psn = 0xabcdef,
			   .local_timeout = 19,
			   .retry_cnt = 7,
			   .pkey = 0xffff,
			   .path_mtu = 5,
			   .rnr_retry = 6,
			   .max_retries = 15,
			   .srq = 1,
			   .flow_label = 0x12345,
			   .tclass = 8,
			   .hop_limit = 64,
			   .ack_timeout = 18};
	uint8_t mad[CM_MAD_BYTES];

	(void)state;
	m.priv[0] = 0x77;
	m.priv[91] = 0x78;
	cm_mad_build(&m, mad);
	assert_memory_equal(mad, "\x01\x07\x02\x03", 4);
	assert_memory_equal(mad + 8, "\x11\x22\x33\x44\x55\x66\x77\x88\x00\x10", 10);
	assert_memory_equal(mad + DATA, "\xa1\xa2\xa3\xa4", 4);
	assert_memory_equal(mad + DATA + 8, "\0\0\0\0\x01\x06\x1c\x55", 8);
	assert_memory_equal(mad + DATA + 32, "\x01\x02\x03\x07", 4);
	assert_int_equal(mad[DATA + 39], 9);
	assert_int_equal(mad[DATA + 43], 20 << 3 | 1 << 1 | 1);
	assert_memory_equal(mad + DATA + 44, "\xab\xcd\xef", 3);
	assert_int_equal(mad[DATA + 47], 19 << 3 | 7);
	assert_memory_equal(mad + DATA + 48, "\xff\xff", 2);
	assert_int_equal(mad[DATA + 50], 5 << 4 | 6);
	assert_int_equal(mad[DATA + 51], 15 << 4 | 1 << 3);
	assert_memory_equal(mad + DATA + 88, "\x12\x34\x50", 3);
	assert_int_equal(mad[DATA + 92], 8);
	assert_int_equal(mad[DATA + 93], 64);
	assert_int_equal(mad[DATA + 95], 18 << 3);
	assert_int_equal(mad[DATA + 140], 0x77);
	assert_int_equal(mad[CM_MAD_BYTES - 1], 0x78);
}

/* Private data: the sizes of the tables of the specification. */
static void test_private_sizes(void **state)
{
	static const uint32_t want[] = {92, 222, 148, 196, 224, 220, 224, 216, 136};

	(void)state;
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(want); i++)
		assert_int_equal(cm_mad_priv_bytes(CM_REQ + i), want[i]);
	assert_int_equal(cm_mad_priv_bytes(CM_REQ - 1), 0);
	assert_int_equal(cm_mad_priv_bytes(CM_ATTR_END), 0);
}

static void test_others_are_refused(void **state)
{
	const struct cm_msg m = {.attr = CM_DREP};
	struct cm_msg out;
	uint8_t mad[CM_MAD_BYTES];

	(void)state;
	for (uint32_t byte = 0; byte < 4; byte++) {
		cm_mad_build(&m, mad);
		assert_true(cm_mad_parse(mad, &out));
		mad[byte] ^= 0x10;
		assert_false(cm_mad_parse(mad, &out));
	}
	cm_mad_build(&m, mad);
	mad[17] = 0x19; /* LAP: no alternate path is loaded */
	assert_false(cm_mad_parse(mad, &out));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields_are_apart),
		cmocka_unit_test(test_request_offsets),
		cmocka_unit_test(test_private_sizes),
		cmocka_unit_test(test_others_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
