/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "exec_suite.h"

#include "../unit/unit_test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/handlers/crc32c.h"
#include "time/spw_time.h"

#define SLOT_BYTES 2048u
#define SLOTS      4096u
#define PATIENCE_S 20u

/* ---- rig ---------------------------------------------------------------------------------------------- */

static uint64_t tick_hz(void)
{
	static struct spw_tsc tsc;

	if (!tsc.hz)
		assert_int_equal(spw_tsc_calibrate(20, &tsc), 0);
	return tsc.hz;
}

uint64_t suite_random(uint64_t *state)
{
	return unit_random(state);
}

void rig_open(struct rig *rig, const struct suite *suite, const char *handler, struct spw_exec_conf conf)
{
	int rc;

	*rig = (struct rig){.suite = suite};
	assert_int_equal(spw_handler_open(handler, &rig->handler), 0);
	rig->region.host_va = suite->mem;
	rig->region.dev_va = suite->mem_dev;
	rig->region.bytes = suite->mem_bytes;
	rig->region.id = 3;
	conf.kind = suite->kind;
	conf.handler = rig->handler;
	conf.region = &rig->region;
	conf.region_cnt = 1;
	conf.numa_node = -1;
	if (!conf.ring_cnt)
		conf.ring_cnt = 1;
	if (!conf.life_ms)
		conf.life_ms = 5000; /* whatever goes wrong, no kernel of a test stays */
	rc = spw_exec_open(&conf, &rig->exec);
	if (rc)
		fail_msg("%s", spw_err_text());
	rc = spw_exec_start(rig->exec);
	if (rc)
		fail_msg("%s", spw_err_text());
}

void rig_close(struct rig *rig)
{
	if (spw_exec_stop(rig->exec, 10000))
		fail_msg("%s", spw_err_text());
	spw_exec_close(rig->exec);
	spw_handler_close(rig->handler);
}

void rig_turn(struct rig *rig)
{
	spw_exec_beat(rig->exec, 0);
	if (spw_exec_service(rig->exec))
		fail_msg("%s", spw_err_text());
}

struct spw_gring_batch *rig_reap(struct rig *rig, uint16_t ring)
{
	uint64_t begin = spw_tsc_now();
	struct spw_gring_batch *b;

	while (!(b = spw_gring_reap(spw_exec_ring(rig->exec, ring)))) {
		spw_exec_beat(rig->exec, ring);
		rig_turn(rig);
		if (spw_tsc_now() - begin > PATIENCE_S * tick_hz())
			fail_msg("no completion within %u s", PATIENCE_S);
	}
	return b;
}

static struct spw_gring_batch *rig_next(struct rig *rig, uint16_t ring)
{
	struct spw_gring_batch *b = spw_gring_next(spw_exec_ring(rig->exec, ring));

	assert_non_null(b);
	b->cnt = 0;
	return b;
}

static uint8_t *add_frame(struct rig *rig, struct spw_gring_batch *b, uint32_t offset, uint32_t len, uint16_t flags)
{
	b->desc[b->cnt++] = (struct spw_desc){.offset = offset, .len = len, .flags = flags, .region = rig->region.id,
					      .meta = 0x5eed0000u + offset};
	assert_true((size_t)offset + len <= rig->region.bytes);
	return rig->region.host_va + offset;
}

static struct spw_gring_batch *do_batch(struct rig *rig, struct spw_gring_batch *b)
{
	struct spw_gring_batch *r;

	spw_gring_push(spw_exec_ring(rig->exec, 0), b);
	r = rig_reap(rig, 0);
	assert_ptr_equal(r, b);
	return r;
}

static void done_batch(struct rig *rig, struct spw_gring_batch *b)
{
	spw_gring_retire(spw_exec_ring(rig->exec, 0), b);
}

/* ---- frames ---------------------------------------------------------------------------------------------- */

static void put16(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

/* A UDP frame with ihl bytes of IP header and a right CRC trailer; len is the frame's. Returns the UDP offset. */
static uint32_t udp_frame(uint8_t *p, uint32_t len, uint32_t ihl, uint64_t *seed)
{
	uint32_t udp = 14 + ihl, payload = len - udp - 8, crc;

	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)suite_random(seed);
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

static uint64_t sum_bytes(const uint8_t *p, size_t len)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < len; i++)
		sum += p[i];
	return sum;
}

/* ---- tests ------------------------------------------------------------------------------------------------- */

static void crc_known_answers(void **state)
{
	uint8_t zeros[32] = {0}, ones[32];

	(void)state;
	memset(ones, 0xff, sizeof(ones));
	assert_int_equal(spw_crc32c(0, "123456789", 9), 0xe3069283u); /* RFC 3720 B.4 and the catalogue's check value */
	assert_int_equal(spw_crc32c(0, zeros, 32), 0x8a9136aau);
	assert_int_equal(spw_crc32c(0, ones, 32), 0x62a8ab43u);
	assert_int_equal(spw_crc32c(spw_crc32c(0, "12345", 5), "6789", 4), 0xe3069283u);
}

/* Every length up to 300 and every alignment up to 16 is read, no byte twice, none left out. */
static void sum_reads_each_byte_once(void **state)
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
			uint8_t *p = add_frame(&rig, b, (at % SLOTS) * 512 + at % 17, len, 0);

			want += sum_bytes(p, len);
			if (++at % 17 == 0)
				len++;
		}
		b = do_batch(&rig, b);
		assert_int_equal(b->digest, want);
		assert_int_equal(b->verdict[0] | b->verdict[1], 0);
		done_batch(&rig, b);
	}
	rig_close(&rig);
}

static void sizes_and_batches_mix(void **state)
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

				want += sum_bytes(add_frame(&rig, b, off, len, 0), len);
			}
			b = do_batch(&rig, b);
			assert_int_equal(b->digest, want);
			assert_true(b->exec_end >= b->exec_start);
			done_batch(&rig, b);
		}
	rig_close(&rig);
}

static void null_touches_and_says_nothing(void **state)
{
	struct rig rig;
	struct spw_gring_batch *b;

	rig_open(&rig, *state, "null", (struct spw_exec_conf){0});
	b = rig_next(&rig, 0);
	for (uint32_t i = 0; i < 64; i++)
		add_frame(&rig, b, i * SLOT_BYTES, 64, 0);
	b = do_batch(&rig, b);
	assert_int_equal(b->verdict[0] | b->verdict[1] | b->digest, 0);
	assert_int_equal(spw_gring_executed(spw_exec_ring(rig.exec, 0)), 64);
	done_batch(&rig, b);
	rig_close(&rig);
}

static void crc_right_and_wrong(void **state)
{
	struct rig rig;
	uint64_t seed = 3;

	rig_open(&rig, *state, "crc32c", (struct spw_exec_conf){0});
	for (uint32_t round = 0; round < 60; round++) {
		struct spw_gring_batch *b = rig_next(&rig, 0);
		uint64_t wrong = 0, want = 0;

		for (uint32_t i = 0; i < 64; i++) {
			uint32_t len = 46 + (uint32_t)suite_random(&seed) % 1600, ihl = 20 + 4 * (i % 11 == 10);
			uint8_t *p;

			if (len < 14 + ihl + 12)
				len = 14 + ihl + 12;
			p = add_frame(&rig, b, i * SLOT_BYTES + (uint32_t)suite_random(&seed) % 33, len, 0);
			udp_frame(p, len, ihl, &seed);
			if (suite_random(&seed) % 4) {
				want += (uint32_t)(p[len - 4] | p[len - 3] << 8 | p[len - 2] << 16) |
					(uint32_t)p[len - 1] << 24;
				continue;
			}
			p[14 + ihl + 8 + suite_random(&seed) % (len - 14 - ihl - 8)] ^=
				(uint8_t)(1u << suite_random(&seed) % 8);
			wrong |= 1ull << i;
		}
		b = do_batch(&rig, b);
		assert_int_equal(b->verdict[1], wrong);
		assert_int_equal(b->bad[SPW_BAD_checksum], __builtin_popcountll(wrong));
		assert_int_equal(b->digest, want & SPW_GRING_VALUE_MASK);
		done_batch(&rig, b);
	}
	rig_close(&rig);
}

static void crc_of_messages(void **state)
{
	static const uint32_t size[] = {4, 5, 7, 8, 16, 19, 20, 21, 35, 4096, 5001, 65537, 300000};
	struct rig rig;
	uint64_t seed = 9;

	rig_open(&rig, *state, "crc32c", (struct spw_exec_conf){0});
	for (uint32_t s = 0; s < SPW_ARRAY_CNT(size); s++)
		for (uint32_t skew = 0; skew < 17; skew++) {
			struct spw_gring_batch *b = rig_next(&rig, 0);

			for (uint32_t i = 0; i < 3; i++) {
				uint8_t *p = add_frame(&rig, b, i * 400000 + skew, size[s], SPW_DESC_MSG);
				uint32_t crc;

				for (uint32_t k = 0; k < size[s]; k++)
					p[k] = (uint8_t)suite_random(&seed);
				crc = spw_crc32c(0, p, size[s] - 4) ^ (i == 1 ? 0x80u : 0);
				for (uint32_t k = 0; k < 4; k++)
					p[size[s] - 4 + k] = (uint8_t)(crc >> (8 * k));
			}
			b = do_batch(&rig, b);
			assert_int_equal(b->verdict[1], 2);
			assert_int_equal(b->bad[SPW_BAD_checksum], 1);
			done_batch(&rig, b);
		}
	rig_close(&rig);
}

/* One frame per way of being wrong; what it must be called. */
static uint32_t spoil(uint8_t *p, uint32_t kind, uint32_t len, enum spw_bad *reason_out)
{
	static const enum spw_bad reason[] = {SPW_BAD_short_frame, SPW_BAD_short_frame, SPW_BAD_not_ip, SPW_BAD_not_ip,
					      SPW_BAD_ip_length,   SPW_BAD_ip_length,   SPW_BAD_ip_length,
					      SPW_BAD_not_udp,     SPW_BAD_not_udp,     SPW_BAD_not_udp,
					      SPW_BAD_udp_length,  SPW_BAD_udp_length,  SPW_BAD_udp_length};

	*reason_out = reason[kind];
	switch (kind) {
	case 0: return 1;                                  /* almost nothing */
	case 1: return 33;                                 /* one byte short of an IP header */
	case 2: put16(p + 12, 0x0806); break;              /* ARP */
	case 3: p[14] = 0x65; break;                       /* version 6 in an IPv4 frame */
	case 4: p[14] = 0x44; break;                       /* IHL below 5 words */
	case 5: put16(p + 16, len - 14 + 1); break;        /* longer than the frame */
	case 6: put16(p + 16, 19); break;                  /* shorter than its header */
	case 7: p[23] = 6; break;                          /* TCP */
	case 8: put16(p + 20, 0x2000); break;              /* first fragment */
	case 9: put16(p + 20, 0x0010); break;              /* a later one */
	case 10: put16(p + 38, 7); break;                  /* shorter than its header */
	case 11: put16(p + 38, len - 34 + 1); break;       /* longer than the packet */
	default: put16(p + 16, 27); break;                 /* no room for the UDP header */
	}
	return len;
}

static void damaged_frames_are_named(void **state)
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
			uint8_t *p = add_frame(&rig, b, i * SLOT_BYTES + 64, 100, 0);
			enum spw_bad reason;

			udp_frame(p, 100, 20, &seed);
			b->desc[i].len = spoil(p, i, 100, &reason);
			want[reason]++;
		}
		memcpy(before, rig.region.host_va, sizeof(before));
		b = do_batch(&rig, b);
		assert_int_equal(b->verdict[1], (1u << 13) - 1);
		for (uint32_t r = 0; r < SPW_GRING_REASON_MAX; r++)
			assert_int_equal(b->bad[r], want[r]);
		assert_memory_equal(before, rig.region.host_va, sizeof(before));
		done_batch(&rig, b);
		rig_close(&rig);
	}
}

static void echo_swaps_addresses_and_nothing_else(void **state)
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
			uint32_t len = 42 + 40 + (uint32_t)suite_random(&seed) % 1400, off = i * SLOT_BYTES + 130 + i % 16;

			udp_frame(add_frame(&rig, b, off, len, 0), len, 20 + 4 * (i % 11), &seed);
		}
		memcpy(want, rig.region.host_va, sizeof(want));
		for (uint32_t i = 0; i < 64; i++) {
			uint8_t *p = want + b->desc[i].offset, t[6], *udp = p + 14 + (p[14] & 15) * 4;

			memcpy(t, p, 6), memcpy(p, p + 6, 6), memcpy(p + 6, t, 6);
			memcpy(t, p + 26, 4), memcpy(p + 26, p + 30, 4), memcpy(p + 30, t, 4);
			memcpy(t, udp, 2), memcpy(udp, udp + 2, 2), memcpy(udp + 2, t, 2);
		}
		b = do_batch(&rig, b);
		assert_int_equal(b->verdict[0], ~0ull);
		assert_int_equal(b->verdict[1], 0);
		/* the acquire in reap is all that the CPU does before it looks */
		assert_memory_equal(want, rig.region.host_va, sizeof(want));
		done_batch(&rig, b);
	}
	rig_close(&rig);
}

void suite_laps(struct rig *rig, uint16_t ring_idx, uint32_t cnt, uint64_t seed)
{
	struct spw_gring *ring = spw_exec_ring(rig->exec, ring_idx);
	uint64_t *want = calloc(ring->batch_mask + 1, sizeof(*want)), frames = 0, base = spw_gring_executed(ring);
	uint32_t pushed = 0, reaped = 0;

	assert_non_null(want);
	while (reaped < cnt) {
		struct spw_gring_batch *b = pushed < cnt ? spw_gring_next(ring) : NULL;

		if (b) {
			uint64_t sum = 0;

			b->cnt = 0;
			for (uint32_t n = 1 + (uint32_t)suite_random(&seed) % (pushed % 97 ? 4 : 64), i = 0; i < n; i++) {
				uint32_t place = (pushed & ring->batch_mask) * SPW_GRING_FRAME_MAX + i;
				uint32_t len = 8 + (uint32_t)suite_random(&seed) % 120;
				uint8_t *p = add_frame(rig, b, (ring_idx << 22) + place * 256, len, 0);

				memset(p, (int)(pushed + i), len);
				sum += sum_bytes(p, len);
			}
			want[pushed & ring->batch_mask] = sum;
			frames += b->cnt;
			spw_gring_push(ring, b);
			pushed++;
			if (ring->batch_mask > 15 && suite_random(&seed) % 8)
				continue;
		}
		b = rig_reap(rig, ring_idx);
		assert_int_equal(b->digest, want[reaped & ring->batch_mask]);
		spw_gring_retire(ring, b);
		reaped++;
	}
	assert_int_equal(spw_gring_executed(ring) - base, frames);
	assert_int_equal(ring->in_exec_frames, 0);
	free(want);
}

/* Each slot is written anew every lap, so one read from a cache of last lap's bytes gives a wrong sum. */
static void laps_past_the_tag_wrap(void **state)
{
	struct rig rig;
	const struct suite *suite = *state;

	rig_open(&rig, suite, "sum", (struct spw_exec_conf){.batch_cnt = 4, .cta_per_ring = 2});
	suite_laps(&rig, 0, 4 * 700, 1);
	rig_close(&rig);
	rig_open(&rig, suite, "sum", (struct spw_exec_conf){.batch_cnt = 8});
	if (spw_exec_ring(rig.exec, 0)->unit_cnt <= 8)
		suite_laps(&rig, 0, 8 * 300, 2);
	rig_close(&rig);
}

static void full_ring_then_drained(void **state)
{
	struct rig rig;
	struct spw_gring_batch *b;
	struct spw_exec_stat stat;
	uint64_t pushed = 0;

	rig_open(&rig, *state, "sum", (struct spw_exec_conf){.batch_cnt = 16, .cta_per_ring = 4});
	for (uint32_t round = 0; round < 50; round++) {
		while ((b = spw_gring_next(spw_exec_ring(rig.exec, 0)))) {
			b->cnt = 0;
			for (uint32_t i = 0; i < 64; i++)
				add_frame(&rig, b, i * SLOT_BYTES, 64, 0);
			spw_gring_push(spw_exec_ring(rig.exec, 0), b);
			pushed += 64;
		}
		for (uint32_t i = 0; i < 16; i++)
			done_batch(&rig, rig_reap(&rig, 0));
		assert_null(spw_gring_reap(spw_exec_ring(rig.exec, 0)));
	}
	spw_exec_stat(rig.exec, &stat);
	assert_int_equal(stat.frames, pushed);
	assert_int_equal(spw_gring_executed(spw_exec_ring(rig.exec, 0)), pushed);
	rig_close(&rig);
}

/* What was pushed before stop is done after it, and a second start goes on where the first ended. */
static void stop_drains_and_start_goes_on(void **state)
{
	struct rig rig;

	rig_open(&rig, *state, "sum", (struct spw_exec_conf){.batch_cnt = 16, .cta_per_ring = 4});
	for (uint32_t round = 0; round < 5; round++) {
		for (uint32_t k = 0; k < 11; k++) {
			struct spw_gring_batch *b = rig_next(&rig, 0);

			for (uint32_t i = 0; i <= k; i++)
				add_frame(&rig, b, i * SLOT_BYTES, 64 + k, 0);
			spw_gring_push(spw_exec_ring(rig.exec, 0), b);
		}
		assert_int_equal(spw_exec_stop(rig.exec, 10000), 0);
		for (uint32_t k = 0; k < 11; k++) {
			struct spw_gring_batch *b = spw_gring_reap(spw_exec_ring(rig.exec, 0));

			assert_non_null(b);
			assert_int_equal(b->cnt, k + 1);
			done_batch(&rig, b);
		}
		assert_int_equal(spw_exec_start(rig.exec), 0);
	}
	assert_int_equal(spw_gring_executed(spw_exec_ring(rig.exec, 0)), 5 * 66);
	rig_close(&rig);
}

static void rings_do_not_mix(void **state)
{
	struct rig rig;

	rig_open(&rig, *state, "sum", (struct spw_exec_conf){.ring_cnt = 3, .batch_cnt = 16, .cta_per_ring = 2});
	for (uint32_t round = 0; round < 3; round++)
		for (uint16_t r = 0; r < 3; r++)
			suite_laps(&rig, r, 100 + 10 * r, round * 3 + r);
	rig_close(&rig);
}

static void message_of_64_mb(void **state)
{
	struct rig rig;
	struct spw_gring_batch *b;
	uint32_t crc, len = SPW_DESC_LEN_MAX;
	uint64_t seed = 77;
	uint8_t *p;

	rig_open(&rig, *state, "crc32c", (struct spw_exec_conf){0});
	for (uint32_t round = 0; round < 2; round++) {
		b = rig_next(&rig, 0);
		p = add_frame(&rig, b, 64 + 5 * round, len, SPW_DESC_MSG);
		for (uint32_t i = 0; i < len; i += 8) {
			uint64_t v = suite_random(&seed);

			memcpy(p + i, &v, 8);
		}
		crc = spw_crc32c(0, p, len - 4);
		for (uint32_t k = 0; k < 4; k++)
			p[len - 4 + k] = (uint8_t)(crc >> (8 * k));
		b = do_batch(&rig, b);
		assert_int_equal(b->verdict[1], 0);
		assert_int_equal(b->digest, crc);
		done_batch(&rig, b);
	}
	rig_close(&rig);
}

static void clock_pairs_agree(void **state)
{
	struct rig rig;
	uint64_t e[2], t[2], unc[2];
	double exec_s, cpu_s;

	rig_open(&rig, *state, "null", (struct spw_exec_conf){0});
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t begin = spw_tsc_now();

		assert_int_equal(spw_exec_pair_clock(rig.exec, &e[i], &t[i], &unc[i]), 0);
		assert_true(unc[i] < 1000000);
		while (spw_tsc_now() - begin < tick_hz() / 5)
			rig_turn(&rig);
	}
	exec_s = (double)(e[1] - e[0]) / (double)spw_exec_clock_hz(rig.exec);
	cpu_s = (double)(t[1] - t[0]) / (double)tick_hz();
	assert_true(exec_s > 0.15 && exec_s - cpu_s < 0.02 * cpu_s && cpu_s - exec_s < 0.02 * cpu_s);
	rig_close(&rig);
}

static void stamps_lie_between_push_and_reap(void **state)
{
	struct rig rig;
	struct spw_gring_batch *b;
	uint64_t e, t, unc, hz;

	rig_open(&rig, *state, "sum", (struct spw_exec_conf){0});
	hz = spw_exec_clock_hz(rig.exec);
	assert_int_equal(spw_exec_pair_clock(rig.exec, &e, &t, &unc), 0);
	for (uint32_t i = 0; i < 20; i++) {
		uint64_t pushed, reaped;
		double start, end, slack = (double)unc * 1e-9 + 1e-5;

		b = rig_next(&rig, 0);
		add_frame(&rig, b, 0, 1500, 0);
		pushed = spw_tsc_now();
		b = do_batch(&rig, b);
		reaped = spw_tsc_now();
		start = (double)(int64_t)(b->exec_start - e) / (double)hz;
		end = (double)(int64_t)(b->exec_end - e) / (double)hz;
		assert_true(start >= (double)(int64_t)(pushed - t) / (double)tick_hz() - slack);
		assert_true(end <= (double)(int64_t)(reaped - t) / (double)tick_hz() + slack);
		done_batch(&rig, b);
	}
	rig_close(&rig);
}

static void bad_conf_is_refused(void **state)
{
	const struct suite *suite = *state;
	struct spw_exec_conf conf = {.kind = suite->kind, .ring_cnt = 1, .batch_cnt = 3, .numa_node = -1};
	struct spw_handler host_only = *spw_handler_builtin(0);
	struct spw_exec *exec;

	conf.handler = spw_handler_builtin(0);
	assert_int_equal(spw_exec_open(&conf, &exec), -EINVAL);
	conf.batch_cnt = 2 * SPW_GRING_BATCH_MAX;
	assert_int_equal(spw_exec_open(&conf, &exec), -EINVAL);
	conf.batch_cnt = 0;
	conf.ring_cnt = 0;
	assert_int_equal(spw_exec_open(&conf, &exec), -EINVAL);
	if (suite->kind < SPW_EXEC_CUDA_PERSISTENT)
		return;
	conf.ring_cnt = 1;
	host_only.cuda = NULL;
	conf.handler = &host_only;
	assert_int_equal(spw_exec_open(&conf, &exec), -ENOTSUP);
	assert_non_null(strstr(spw_err_text(), "nvcc"));
}

#define SUITE_TEST(name) {#name, name, NULL, NULL, NULL}

int suite_run(const struct suite *suite, const char *filter)
{
	struct CMUnitTest tests[] = {
		SUITE_TEST(crc_known_answers),        SUITE_TEST(null_touches_and_says_nothing),
		SUITE_TEST(sum_reads_each_byte_once), SUITE_TEST(sizes_and_batches_mix),
		SUITE_TEST(crc_right_and_wrong),      SUITE_TEST(crc_of_messages),
		SUITE_TEST(damaged_frames_are_named), SUITE_TEST(echo_swaps_addresses_and_nothing_else),
		SUITE_TEST(laps_past_the_tag_wrap),   SUITE_TEST(full_ring_then_drained),
		SUITE_TEST(stop_drains_and_start_goes_on), SUITE_TEST(rings_do_not_mix),
		SUITE_TEST(message_of_64_mb),         SUITE_TEST(clock_pairs_agree),
		SUITE_TEST(stamps_lie_between_push_and_reap), SUITE_TEST(bad_conf_is_refused),
	};

	for (size_t i = 0; i < SPW_ARRAY_CNT(tests); i++)
		tests[i].initial_state = (void *)(uintptr_t)suite;
	printf("executor %s\n", spw_exec_kind_name(suite->kind));
	if (filter)
		cmocka_set_test_filter(filter);
	return cmocka_run_group_tests_name(spw_exec_kind_name(suite->kind), tests, NULL, NULL);
}
