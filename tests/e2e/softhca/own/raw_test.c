/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the NIC does with a raw frame, and what its CQE reports: VLAN tags stripped and inserted,
 * the FCS delivered, checksums computed and verified.
 */
#include "raw_kit.h"

#include <string.h>

#include "prm/spw_prm.h"

#define LEN       100u
#define TCI       0x6123u
#define TAG_BYTES 4u
#define FCS_BYTES 4u

static struct raw r;

static int close_raw(void **state)
{
	(void)state;
	raw_close(&r);
	return 0;
}

/* Sends the frame of place 0. Returns: where it was received. */
static const uint8_t *there(uint32_t len, struct raw_done *d)
{
	raw_post(&r, 0);
	raw_send(&r, 1, &len);
	raw_next(&r, d);
	assert_int_equal(d->opcode, SPW_PRM_CQE_RESP_SEND);
	return raw_slot(&r, r.posted - 1);
}

/* Inserts a tag after the addresses of the frame of place 0, which grows by TAG_BYTES. */
static void put_tag(uint16_t type)
{
	uint8_t *f = raw_frame_at(&r, 0);

	memmove(f + 12 + TAG_BYTES, f + 12, LEN - 12);
	spw_prm_st16(f + 12, type);
	spw_prm_st16(f + 14, TCI);
}

/* The CRC of IEEE 802.3, 3.2.9, bit by bit, in the order in which it is sent. */
static void fcs_of(const uint8_t *frame, uint32_t len, uint8_t fcs[FCS_BYTES])
{
	uint32_t crc = ~0u;

	for (uint32_t i = 0; i < len * 8; i++) {
		const uint32_t bit = (frame[i / 8] >> i % 8 ^ crc) & 1;

		crc = crc >> 1 ^ (bit ? 0xedb88320u : 0);
	}
	for (uint32_t i = 0; i < FCS_BYTES; i++)
		fcs[i] = (uint8_t)(~crc >> 8 * i);
}

/* ---- receiving ---- */

static void expect_stripped(void)
{
	const uint8_t *f = raw_frame_at(&r, 0), *to;
	struct raw_done d;

	raw_frame(&r, 0, LEN, 1);
	put_tag(0x8100);
	to = there(LEN + TAG_BYTES, &d);
	assert_int_equal(d.byte_cnt & 0xffff, LEN);
	assert_int_equal(d.l4_hdr_type_etc & 1, 1);
	assert_int_equal(d.vlan, TCI);
	assert_int_equal(d.hds_ip_ext, 7); /* the headers after the tag were parsed */
	assert_memory_equal(to, f, 12);
	assert_memory_equal(to + 12, f + 12 + TAG_BYTES, LEN - 12);
}

static void expect_left(uint16_t type)
{
	const uint8_t *to;
	struct raw_done d;

	raw_frame(&r, 0, LEN, 2);
	if (type)
		put_tag(type);
	to = there(LEN + (type ? TAG_BYTES : 0), &d);
	assert_int_equal(d.byte_cnt & 0xffff, LEN + (type ? TAG_BYTES : 0));
	assert_int_equal(d.l4_hdr_type_etc & 1, 0);
	assert_memory_equal(to, raw_frame_at(&r, 0), LEN);
}

/* A customer tag is stripped and reported; a service tag stays in the frame. Stripping can be
 * switched while the queue runs. */
static void test_vlan_strip(void **state)
{
	struct ibv_wq_attr off = {.attr_mask = IBV_WQ_ATTR_FLAGS,
				  .flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING};

	(void)state;
	raw_open(&r, &(struct raw_how){.wq_flags = IBV_WQ_FLAGS_CVLAN_STRIPPING});
	expect_stripped();
	expect_left(0);
	expect_left(0x88a8);
	assert_int_equal(ibv_modify_wq(r.wq, &off), 0);
	expect_left(0x8100);
	off.flags = IBV_WQ_FLAGS_CVLAN_STRIPPING;
	assert_int_equal(ibv_modify_wq(r.wq, &off), 0);
	expect_stripped();
}

static void test_vlan_strip_striding(void **state)
{
	(void)state;
	raw_open(&r, &(struct raw_how){.wq_flags = IBV_WQ_FLAGS_CVLAN_STRIPPING,
				       .striding = true,
				       .stride_log2 = 6,
				       .strides_log2 = 9});
	expect_stripped();
}

static void test_scatter_fcs(void **state)
{
	uint8_t fcs[FCS_BYTES];
	const uint8_t *to;
	struct raw_done d;

	(void)state;
	raw_open(&r, &(struct raw_how){.wq_flags = IBV_WQ_FLAGS_SCATTER_FCS});
	for (uint32_t len = 60; len < 200; len += 7) {
		raw_frame(&r, 0, len, len);
		to = there(len, &d);
		fcs_of(to, len, fcs);
		assert_int_equal(d.byte_cnt, len + FCS_BYTES);
		assert_memory_equal(to, raw_frame_at(&r, 0), len);
		assert_memory_equal(to + len, fcs, FCS_BYTES);
	}
}

#define L3_OK 2u
#define L4_OK 4u

static uint8_t judged(uint32_t change_at)
{
	struct raw_done d;

	raw_frame(&r, 0, LEN, 3);
	if (change_at)
		raw_frame_at(&r, 0)[change_at] ^= 0x10;
	there(LEN, &d);
	return d.hds_ip_ext & (L3_OK | L4_OK);
}

static void test_checksum_flags(void **state)
{
	(void)state;
	raw_open(&r, &(struct raw_how){0});
	assert_int_equal(judged(0), L3_OK | L4_OK);
	assert_int_equal(judged(24), L4_OK);              /* in the IP header */
	assert_int_equal(judged(40), L3_OK);              /* adds a wrong UDP checksum */
	assert_int_equal(judged(LEN - 1), L3_OK | L4_OK); /* payload: there is no UDP checksum */
	assert_int_equal(judged(23),
			 0); /* protocol is no longer UDP, and the IP checksum is wrong */
}

/* ---- sending ---- */

/* Both checksums of a received frame are right, whatever the application wrote there. */
static void test_checksum_offload(void **state)
{
	(void)state;
	raw_open(&r, &(struct raw_how){.send_flags = IBV_SEND_IP_CSUM});
	for (uint32_t len = 61; len < 90; len++) {
		const uint8_t *to;
		struct raw_done d;
		uint8_t pseudo[256] = {0};

		raw_frame(&r, 0, len, len);
		raw_frame_at(&r, 0)[24] ^= 0xff;
		raw_frame_at(&r, 0)[41] = 0x77;
		to = there(len, &d);
		assert_int_equal(d.hds_ip_ext & (L3_OK | L4_OK), L3_OK | L4_OK);
		assert_int_equal(raw_sum(to, 34), 0xffff);
		assert_int_not_equal(spw_prm_ld16(to + 40), 0);
		/* addresses, protocol and length, then UDP; raw_sum() begins at byte 14 */
		memcpy(pseudo + 14, to + 26, 8);
		pseudo[23] = 17;
		memcpy(pseudo + 24, to + 38, 2);
		memcpy(pseudo + 26, to + 34, len - 34);
		assert_int_equal(raw_sum(pseudo, 26 + len - 34), 0xffff);
	}
}

#define CASE(f) cmocka_unit_test_teardown(f, close_raw)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_vlan_strip),     CASE(test_vlan_strip_striding), CASE(test_scatter_fcs),
		CASE(test_checksum_flags), CASE(test_checksum_offload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
