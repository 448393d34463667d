/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The verdict and digest of each handler for frames and messages of every kind.
 */
#include "exec_suite.h"

#include "../unit/unit_test.h"

#include "exec/handlers/crc32c.h"

#define SLOT_BYTES 2048u
#define SLOTS      4096u

/* ---- frames ---- */

static void put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

/* A UDP frame with ihl bytes of IP header and a right CRC trailer, between single hosts; len is the
 * frame's. Returns the UDP offset. */
static uint32_t udp_frame(uint8_t *p, uint32_t len, uint32_t ihl, uint64_t *seed)
{
	uint32_t udp = 14 + ihl, payload = len - udp - 8, crc;

	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)suite_random(seed);
	p[0] &= 0xfe, p[6] &= 0xfe, p[26] &= 0x7f, p[30] &= 0x7f;
	put16(p + 12, 0x0800);
	p[14] = (uint8_t)(0x40 | ihl / 4);
	put16(p + 16, len - 14);
	put16(p + 20, 0x4000);
	p[23] = 17;
	put16(p + udp + 4, payload + 8);
	if (payload < 4)
		return udp;
	crc = spw_crc32c(0, p + udp + 8, payload - 4);
	for (uint32_t i = 0; i < 4; i++)
		p[len - 4 + i] = (uint8_t)(crc >> (8 * i));
	return udp;
}

/* ---- tests ---- */

void suite_crc_known_answers(void **state)
{
	uint8_t zeros[32] = {0}, ones[32];

	(void)state;
	memset(ones, 0xff, sizeof(ones));
	assert_int_equal(spw_crc32c(0, "123456789", 9),
			 0xe3069283u); /* RFC 3720 B.4 and the catalogue's check value */
	assert_int_equal(spw_crc32c(0, zeros, 32), 0x8a9136aau);
	assert_int_equal(spw_crc32c(0, ones, 32), 0x62a8ab43u);
	assert_int_equal(spw_crc32c(spw_crc32c(0, "12345", 5), "6789", 4), 0xe3069283u);
}

/* Every length up to 300 and every alignment up to 16 is read, no byte twice, none left out. */
void suite_sum_reads_each_byte_once(void **state)
{
	struct rig rig;
	uint64_t seed = 11;
	uint32_t at = 0;

	rig_open(&rig, *state, "sum", (struct spw_exec_conf){0});
	for (uint32_t i = 0; i < SLOTS * SLOT_BYTES; i++)
		rig.region.host_va[i] = (uint8_t)suite_random(&seed);
	for (uint32_t len = 1; len <= 300;) {
		struct spw_gring_batch *b = rig_next(&rig, 0);
		uint64_t want = 0;

		for (uint32_t i = 0; i < 64 && len <= 300; i++) {
			uint8_t *p = rig_add(&rig, b, (at % SLOTS) * 512 + at % 17, len, 0);

			want += suite_sum(p, len);
			if (++at % 17 == 0)
				len++;
		}
		b = rig_do(&rig, b);
		assert_int_equal(b->digest, want);
		assert_int_equal(b->verdict[0] | b->verdict[1], 0);
		rig_done(&rig, b);
	}
	rig_close(&rig);
}

void suite_sizes_and_batches_mix(void **state)
{
	static const uint32_t size[] = {64, 1500, 4096, 4097, 9000, 65536, 100001};
	struct rig rig;
	uint64_t seed = 5;

	rig_open(&rig, *state, "sum", (struct spw_exec_conf){0});
	for (uint32_t i = 0; i < 16u << 20; i += 8)
		*(uint64_t *)(void *)(rig.region.host_va + i) = suite_random(&seed);
	for (uint32_t cnt = 1; cnt <= 64; cnt = cnt * 2 + cnt / 3)
		for (uint32_t s = 0; s < SPW_ARRAY_CNT(size); s++) {
			struct spw_gring_batch *b = rig_next(&rig, 0);
			uint64_t want = 0;

			for (uint32_t i = 0; i < cnt; i++) {
				uint32_t off = (uint32_t)(suite_random(&seed) % (16u << 20));
				uint32_t len = size[(s + (i % 5 == 4)) % SPW_ARRAY_CNT(size)];

				want += suite_sum(rig_add(&rig, b, off, len, 0), len);
			}
			b = rig_do(&rig, b);
			assert_int_equal(b->digest, want);
			assert_true(b->exec_end >= b->exec_start);
			rig_done(&rig, b);
		}
	rig_close(&rig);
}

void suite_null_touches_nothing(void **state)
{
	struct rig rig;
	struct spw_gring_batch *b;

	rig_open(&rig, *state, "null", (struct spw_exec_conf){0});
	b = rig_next(&rig, 0);
	for (uint32_t i = 0; i < 64; i++)
		rig_add(&rig, b, i * SLOT_BYTES, 64, 0);
	b = rig_do(&rig, b);
	assert_int_equal(b->verdict[0] | b->verdict[1] | b->digest, 0);
	assert_int_equal(spw_gring_executed(spw_exec_ring(rig.exec, 0)), 64);
	rig_done(&rig, b);
	rig_close(&rig);
}

void suite_crc_right_and_wrong(void **state)
{
	struct rig rig;
	uint64_t seed = 3;

	rig_open(&rig, *state, "crc32c", (struct spw_exec_conf){0});
	for (uint32_t round = 0; round < 60; round++) {
		struct spw_gring_batch *b = rig_next(&rig, 0);
		uint64_t wrong = 0, want = 0;

		for (uint32_t i = 0; i < 64; i++) {
			uint32_t len = 46 + (uint32_t)suite_random(&seed) % 1600,
				 ihl = 20 + 4 * (i % 11 == 10);
			uint8_t *p;

			if (len < 14 + ihl + 12)
				len = 14 + ihl + 12;
			p = rig_add(&rig, b, i * SLOT_BYTES + (uint32_t)suite_random(&seed) % 33,
				    len, 0);
			udp_frame(p, len, ihl, &seed);
			if (suite_random(&seed) % 4) {
				want += (uint32_t)(p[len - 4] | p[len - 3] << 8 |
						   p[len - 2] << 16) |
					(uint32_t)p[len - 1] << 24;
				continue;
			}
			p[14 + ihl + 8 + suite_random(&seed) % (len - 14 - ihl - 8)] ^=
				(uint8_t)(1u << suite_random(&seed) % 8);
			wrong |= 1ull << i;
		}
		b = rig_do(&rig, b);
		assert_int_equal(b->verdict[1], wrong);
		assert_int_equal(b->bad[SPW_BAD_checksum], __builtin_popcountll(wrong));
		assert_int_equal(b->digest, want & SPW_GRING_VALUE_MASK);
		rig_done(&rig, b);
	}
	rig_close(&rig);
}

void suite_crc_of_messages(void **state)
{
	static const uint32_t size[] = {4, 5, 7, 8, 16, 19, 20, 21, 35, 4096, 5001, 65537, 300000};
	struct rig rig;
	uint64_t seed = 9;

	rig_open(&rig, *state, "crc32c", (struct spw_exec_conf){0});
	for (uint32_t s = 0; s < SPW_ARRAY_CNT(size); s++)
		for (uint32_t skew = 0; skew < 17; skew++) {
			struct spw_gring_batch *b = rig_next(&rig, 0);

			for (uint32_t i = 0; i < 3; i++) {
				uint8_t *p =
					rig_add(&rig, b, i * 400000 + skew, size[s], SPW_DESC_MSG);
				uint32_t crc;

				for (uint32_t k = 0; k < size[s]; k++)
					p[k] = (uint8_t)suite_random(&seed);
				crc = spw_crc32c(0, p, size[s] - 4) ^ (i == 1 ? 0x80u : 0);
				for (uint32_t k = 0; k < 4; k++)
					p[size[s] - 4 + k] = (uint8_t)(crc >> (8 * k));
			}
			b = rig_do(&rig, b);
			assert_int_equal(b->verdict[1], 2);
			assert_int_equal(b->bad[SPW_BAD_checksum], 1);
			rig_done(&rig, b);
		}
	rig_close(&rig);
}

/* One frame per way of being wrong; what it must be called. */
static uint32_t spoil(uint8_t *p, uint32_t kind, uint32_t len, enum spw_bad *reason_out)
{
	static const enum spw_bad reason[] = {
		SPW_BAD_short_frame, SPW_BAD_short_frame, SPW_BAD_not_ipv4,   SPW_BAD_not_ipv4,
		SPW_BAD_ip_length,   SPW_BAD_ip_length,   SPW_BAD_ip_length,  SPW_BAD_not_udp,
		SPW_BAD_not_udp,     SPW_BAD_not_udp,     SPW_BAD_udp_length, SPW_BAD_udp_length,
		SPW_BAD_udp_length};

	*reason_out = reason[kind];
	switch (kind) {
	case 0:
		return 1; /* almost nothing */
	case 1:
		return 33; /* one byte short of an IP header */
	case 2:
		put16(p + 12, 0x0806);
		break; /* ARP */
	case 3:
		p[14] = 0x65;
		break; /* version 6 in an IPv4 frame */
	case 4:
		p[14] = 0x44;
		break; /* IHL below 5 words */
	case 5:
		put16(p + 16, len - 14 + 1);
		break; /* longer than the frame */
	case 6:
		put16(p + 16, 19);
		break; /* shorter than its header */
	case 7:
		p[23] = 6;
		break; /* TCP */
	case 8:
		put16(p + 20, 0x2000);
		break; /* first fragment */
	case 9:
		put16(p + 20, 0x0010);
		break; /* a later one */
	case 10:
		put16(p + 38, 7);
		break; /* shorter than its header */
	case 11:
		put16(p + 38, len - 34 + 1);
		break; /* longer than the packet */
	default:
		put16(p + 16, 27);
		break; /* no room for the UDP header */
	}
	return len;
}

void suite_damaged_frames_are_named(void **state)
{
	static const char *const handler[] = {"crc32c", "echo"};

	for (uint32_t h = 0; h < 2; h++) {
		struct rig rig;
		struct spw_gring_batch *b;
		uint32_t want[SPW_GRING_REASON_MAX] = {0};
		static uint8_t before[64 * SLOT_BYTES];
		uint64_t seed = 4;

		rig_open(&rig, *state, handler[h], (struct spw_exec_conf){0});
		b = rig_next(&rig, 0);
		for (uint32_t i = 0; i < 13; i++) {
			uint8_t *p = rig_add(&rig, b, i * SLOT_BYTES + 64, 100, 0);
			enum spw_bad reason;

			udp_frame(p, 100, 20, &seed);
			b->desc[i].len = spoil(p, i, 100, &reason);
			want[reason]++;
		}
		memcpy(before, rig.region.host_va, sizeof(before));
		b = rig_do(&rig, b);
		assert_int_equal(b->verdict[1], (1u << 13) - 1);
		for (uint32_t r = 0; r < SPW_GRING_REASON_MAX; r++)
			assert_int_equal(b->bad[r], want[r]);
		assert_memory_equal(before, rig.region.host_va, sizeof(before));
		rig_done(&rig, b);
		rig_close(&rig);
	}
}

/* Makes one of the four addresses a group's. */
static void to_group(uint8_t *p, uint32_t which)
{
	static const uint8_t at[] = {0, 6, 26, 30};

	p[at[which % 4]] |= which % 4 < 2 ? 1 : 0xe0;
}

/* Of each eight frames the fourth is to or from a group, and stays as it is. */
void suite_echo_swaps_addresses_and_nothing_else(void **state)
{
	struct rig rig;
	uint64_t seed = 21;
	static uint8_t want[64 * SLOT_BYTES];

	rig_open(&rig, *state, "echo", (struct spw_exec_conf){0});
	for (uint32_t round = 0; round < 20; round++) {
		struct spw_gring_batch *b = rig_next(&rig, 0);

		for (uint32_t i = 0; i < 64 * SLOT_BYTES; i++)
			rig.region.host_va[i] = (uint8_t)suite_random(&seed);
		for (uint32_t i = 0; i < 64; i++) {
			uint32_t len = 42 + 40 + (uint32_t)suite_random(&seed) % 1400,
				 off = i * SLOT_BYTES + 130 + i % 16;
			uint8_t *p = rig_add(&rig, b, off, len, i % 8 == 7 ? SPW_DESC_MSG : 0);

			udp_frame(p, len, 20 + 4 * (i % 11), &seed);
			if (i % 8 == 3)
				to_group(p, i / 8);
		}
		memcpy(want, rig.region.host_va, sizeof(want));
		for (uint32_t i = 0; i < 64; i++) {
			uint8_t *p = want + b->desc[i].offset, t[6],
				*udp = p + 14 + (p[14] & 15) * 4;

			if (i % 4 == 3)
				continue; /* a message goes back as it is, whatever it looks like */
			memcpy(t, p, 6), memcpy(p, p + 6, 6), memcpy(p + 6, t, 6);
			memcpy(t, p + 26, 4), memcpy(p + 26, p + 30, 4), memcpy(p + 30, t, 4);
			memcpy(t, udp, 2), memcpy(udp, udp + 2, 2), memcpy(udp + 2, t, 2);
		}
		b = rig_do(&rig, b);
		assert_int_equal(b->verdict[0], ~0x0808080808080808ull);
		assert_int_equal(b->verdict[1], 0x0808080808080808ull);
		assert_int_equal(b->bad[SPW_BAD_handler], 8);
		/* the CPU's only synchronization before it reads is the acquire in reap */
		assert_memory_equal(want, rig.region.host_va, sizeof(want));
		rig_done(&rig, b);
	}
	rig_close(&rig);
}

void suite_message_of_64_mb(void **state)
{
	struct rig rig;
	struct spw_gring_batch *b;
	uint32_t crc, len = SPW_DESC_LEN_MAX;
	uint64_t seed = 77;
	uint8_t *p;

	rig_open(&rig, *state, "crc32c", (struct spw_exec_conf){0});
	for (uint32_t round = 0; round < 2; round++) {
		b = rig_next(&rig, 0);
		p = rig_add(&rig, b, 64 + 5 * round, len, SPW_DESC_MSG);
		for (uint32_t i = 0; i < len; i += 8) {
			uint64_t v = suite_random(&seed);

			memcpy(p + i, &v, 8);
		}
		crc = spw_crc32c(0, p, len - 4);
		for (uint32_t k = 0; k < 4; k++)
			p[len - 4 + k] = (uint8_t)(crc >> (8 * k));
		b = rig_do(&rig, b);
		assert_int_equal(b->verdict[1], 0);
		assert_int_equal(b->digest, crc);
		rig_done(&rig, b);
	}
	rig_close(&rig);
}
