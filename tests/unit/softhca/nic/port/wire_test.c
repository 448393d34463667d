/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * RoCE v2 frames as the NIC builds them: parsed back field by field; refused if cut, if a covered
 * bit flips, or if lengths contradict each other. Frames of another sender: golden_test.c.
 */
#include "softhca/nic/port/wire.h"
#include "unit_test.h"

static struct wire_tmpl tmpl_of(bool ipv6, uint16_t vlan)
{
	struct wire_av av = {.smac = {2, 0, 0, 0, 0, 1},
			     .dmac = {2, 0, 0, 0, 0, 2},
			     .hop_limit = 64,
			     .sport = 0xc123,
			     .tclass = 0x68,
			     .flow_label = 0x12345,
			     .vlan = vlan};
	struct wire_tmpl t;

	memcpy(av.sgid, (const uint8_t[16]){[10] = 0xff, [11] = 0xff, 10, 0, 0, 1}, 16);
	memcpy(av.dgid, (const uint8_t[16]){[10] = 0xff, [11] = 0xff, 10, 0, 0, 2}, 16);
	if (ipv6) {
		av.sgid[0] = 0xfd;
		av.dgid[0] = 0xfd;
	}
	wire_tmpl_init(&t, &av);
	return t;
}

/* A complete frame of `op`; its length. */
static uint32_t build(const struct wire_tmpl *t, uint8_t opcode, uint32_t payload, uint8_t *frame)
{
	const uint8_t op = opcode & 0x1f;
	const uint32_t ext = wire_op_ext_bytes[op] +
			     ((opcode & 0xe0) == WIRE_UD ? (uint32_t)WIRE_DETH_BYTES : 0);
	const uint32_t bytes = wire_frame_bytes(t, ext, payload);
	uint8_t *p = wire_start(t, frame, bytes, payload,
				(struct wire_bth){.opcode = opcode,
						  .flags = WIRE_F_ACK_REQ | WIRE_F_SE,
						  .dqpn = 0x123456,
						  .psn = 0xabcdef});

	for (uint32_t i = 0; i < ext; i++)
		p[i] = (uint8_t)(i + 1);
	for (uint32_t i = 0; i < payload; i++)
		p[ext + i] = (uint8_t)(i * 7);
	wire_finish(frame, bytes, t->l3_off, t->ipv6, payload, true);
	return bytes;
}

static uint32_t payload_of(uint8_t op, uint32_t want)
{
	return wire_op_hdrs[op] & WIRE_H_PAYLOAD ? want : 0;
}

static void every_opcode_reads_back(void **state)
{
	(void)state;
	for (unsigned how = 0; how < 4; how++) {
		const struct wire_tmpl t = tmpl_of(how & 1, how & 2 ? 0x6005 : 0);

		for (uint8_t op = 0; op < WIRE_OP_CNT; op++) {
			uint8_t frame[2048];
			const uint32_t payload = payload_of(op, 1001 + op),
				       bytes = build(&t, op, payload, frame);
			struct wire_pkt k = {0};

			if (!(wire_op_hdrs[op] & WIRE_H_VALID)) {
				assert_int_equal(wire_parse(frame, bytes, false, &k), WIRE_BAD);
				continue;
			}
			assert_int_equal(wire_parse(frame, bytes, false, &k), WIRE_OK);
			assert_int_equal(k.op, op);
			assert_int_equal(k.dqpn, 0x123456);
			assert_int_equal(k.psn, 0xabcdef);
			assert_true(k.ack_req && k.se);
			assert_int_equal(k.ipv6, how & 1);
			assert_int_equal(k.payload_len, payload);
			for (uint32_t i = 0; i < payload; i++)
				assert_int_equal(k.payload[i], (uint8_t)(i * 7));
			if (k.hdrs & WIRE_H_RETH) {
				assert_int_equal(k.va, 0x0102030405060708ull);
				assert_int_equal(k.rkey, 0x090a0b0c);
				assert_int_equal(k.dma_len, 0x0d0e0f10);
			}
		}
	}
}

/* A flipped bit that the ICRC covers is an error; one that a router may change is not. */
static void every_flipped_bit_is_detected(void **state)
{
	const struct wire_tmpl t = tmpl_of(false, 0);
	uint8_t frame[256];
	const uint32_t bytes = build(&t, WIRE_SEND_ONLY, 61, frame);
	struct wire_pkt k;

	(void)state;
	for (uint32_t bit = 14 * 8; bit < bytes * 8; bit++) {
		const uint32_t at = bit / 8;
		const bool changes = at == 15 || at == 22 || at == 24 || at == 25 || at == 40 ||
				     at == 41 || at == 46;

		frame[at] ^= (uint8_t)(1u << bit % 8);
		if (changes)
			assert_int_equal(wire_parse(frame, bytes, false, &k), WIRE_OK);
		else
			assert_int_not_equal(wire_parse(frame, bytes, false, &k), WIRE_OK);
		frame[at] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(wire_parse(frame, bytes, false, &k), WIRE_OK);
}

static void cut_frames_are_refused(void **state)
{
	(void)state;
	for (uint8_t op = 0; op < WIRE_OP_CNT; op++) {
		const struct wire_tmpl t = tmpl_of(op & 1, 0);
		uint8_t frame[2048];
		const uint32_t bytes = build(&t, op, payload_of(op, 64), frame);
		struct wire_pkt k;

		for (uint32_t len = 0; len < bytes; len++)
			assert_int_not_equal(wire_parse(frame, len, true, &k), WIRE_OK);
	}
}

static void ip_checksum_is_right(void **state)
{
	const struct wire_tmpl t = tmpl_of(false, 0);
	uint8_t frame[2048];

	(void)state;
	for (uint32_t payload = 0; payload < 1500; payload += 13) {
		uint32_t sum = 0;

		build(&t, WIRE_SEND_ONLY, payload, frame);
		for (unsigned i = 0; i < 20; i += 2)
			sum += spw_prm_ld16(frame + 14 + i);
		while (sum >> 16)
			sum = (sum & 0xffff) + (sum >> 16);
		assert_int_equal(sum, 0xffff);
	}
}

static void psn_distance_wraps(void **state)
{
	(void)state;
	assert_int_equal(wire_psn_diff(0, 0xffffff), 1);
	assert_int_equal(wire_psn_diff(0xffffff, 0), -1);
	assert_int_equal(wire_psn_diff(0x800000 - 1, 0), 0x7fffff);
	assert_int_equal(wire_psn_diff(0x800000, 0), -0x800000);
	assert_int_equal(wire_psn_diff(5, 5 | 1u << 24), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_opcode_reads_back),
		cmocka_unit_test(every_flipped_bit_is_detected),
		cmocka_unit_test(cut_frames_are_refused),
		cmocka_unit_test(ip_checksum_is_right),
		cmocka_unit_test(psn_distance_wraps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
