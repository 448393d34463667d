/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <errno.h>
#include <stdio.h>

#include "../unit_test.h"
#include "port/null/null.h"
#include "port/null/rate.h"
#include "port/spw_port.h"
#include "time/spw_time.h"

#define SLOT_CNT 256u

static struct spw_region region;
static struct spw_pool pool[2];

static int set_up(void **state SPW_UNUSED)
{
	struct spw_mem_req req = {
		.kind = SPW_MEM_HOST, .bytes = 2 * SLOT_CNT * 2048, .numa_node = -1};

	return spw_region_alloc(&req, &region);
}

static int tear_down(void **state SPW_UNUSED)
{
	spw_region_free(&region);
	return 0;
}

static struct spw_port *open_null(const char *text, uint16_t queue_cnt, uint32_t ring_size)
{
	struct spw_port_spec spec;
	struct spw_port *port;

	assert_int_equal(spw_port_spec_parse(text, &spec), 0);
	if (spw_port_open(&spec, 5, queue_cnt, &port))
		fail_msg("%s", spw_err_text());
	for (uint16_t i = 0; i < queue_cnt; i++) {
		struct spw_port_queue_conf conf = {
			.pool = &pool[i], .ring_size = ring_size, .numa_node = -1};

		assert_int_equal(
			spw_pool_init(&pool[i], &region, i * SLOT_CNT * 2048, 2048, SLOT_CNT), 0);
		assert_int_equal(spw_port_queue_setup(port, i, &conf), 0);
	}
	assert_int_equal(spw_port_start(port), 0);
	return port;
}

static void check_slots(struct spw_port *port, uint16_t queue)
{
	struct spw_port_slots s;

	spw_port_slots(port, queue, &s);
	assert_int_equal(pool[queue].free_cnt + s.in_rx + s.lent + s.in_tx, SLOT_CNT);
}

static void close_null(struct spw_port *port)
{
	assert_int_equal(spw_port_stop(port), 0);
	for (uint16_t i = 0; i < port->queue_cnt; i++) {
		check_slots(port, i);
		assert_int_equal(spw_pool_fini(&pool[i]), 0);
	}
	spw_port_close(port);
}

static void give_back(struct spw_port *port, uint16_t queue, const struct spw_desc *desc,
		      uint16_t cnt)
{
	uint32_t slot[SPW_BURST_MAX];

	for (uint16_t i = 0; i < cnt; i++)
		slot[i] = desc[i].slot;
	spw_port_release_burst(&port->queue[queue], slot, cnt);
}

static uint8_t *bytes_of(uint16_t queue, const struct spw_desc *d)
{
	return spw_pool_slot_addr(&pool[queue], d->slot) + d->offset;
}

static uint32_t get16(const uint8_t *p)
{
	return (uint32_t)p[0] << 8 | p[1];
}

static uint32_t ip_sum(const uint8_t *p, uint32_t len)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < len; i += 2)
		sum += get16(p + i);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* Whole frames in every slot, each lent within its slot, until count is reached; sent ones are
 * counted and returned. */
static void count_frames_come_and_are_whole(void **state SPW_UNUSED)
{
	struct spw_port *port = open_null("null:size=300,count=1001", 2, 0);
	struct spw_desc desc[SPW_BURST_MAX], *list[SPW_BURST_MAX];
	struct spw_port_stat st;
	uint64_t seen = 0;

	for (uint16_t q = 0; q < 2; q++) {
		uint16_t n;

		while ((n = spw_port_rx_burst(&port->queue[q], desc, 48)) > 0) {
			check_slots(port, q);
			for (uint16_t i = 0; i < n; i++) {
				const uint8_t *p = bytes_of(q, &desc[i]);

				assert_int_equal(desc[i].len, 300);
				assert_int_equal(desc[i].port, 5);
				assert_int_equal(desc[i].region, region.id);
				assert_int_equal(get16(p + 12), 0x0800);
				assert_int_equal(get16(p + 16), 286);
				assert_int_equal(ip_sum(p + 14, 20), 0xffff);
				assert_int_equal(get16(p + 38), 266);
				assert_int_equal(get16(p + 34), 1024 + (desc[i].slot & 1023));
				list[i] = &desc[i];
			}
			seen += n;
			assert_int_equal(spw_port_tx_burst(&port->queue[q], list, n), n);
		}
		assert_int_equal(seen, q ? 1001 : 501);
	}
	spw_port_stat(port, &st);
	assert_int_equal(st.wire_frames, 1001);
	assert_int_equal(st.rx_frames, 1001);
	assert_int_equal(st.rx_bytes, 1001 * 300);
	assert_int_equal(st.tx_frames, 1001);
	assert_int_equal(st.tx_bytes, 1001 * 300);
	close_null(port);
}

static void a_dry_pool_is_counted(void **state SPW_UNUSED)
{
	struct spw_port *port = open_null("null", 1, 0);
	struct spw_desc desc[SLOT_CNT];
	struct spw_port_stat st;
	uint32_t slot;

	for (uint32_t i = 0; i < SLOT_CNT; i += 64)
		assert_int_equal(spw_port_rx_burst(&port->queue[0], desc + i, 64), 64);
	assert_int_equal(spw_port_rx_burst(&port->queue[0], desc, 64), 0);
	assert_int_equal(spw_port_lend_burst(&port->queue[0], &slot, 1), 0);
	check_slots(port, 0);
	spw_port_stat(port, &st);
	assert_int_equal(st.err[SPW_PORT_ERR_no_slot], 1);
	for (uint32_t i = 0; i < SLOT_CNT; i += 64)
		give_back(port, 0, desc + i, 64);
	assert_int_equal(spw_port_lend_burst(&port->queue[0], &slot, 1), 1);
	check_slots(port, 0);
	spw_port_release_burst(&port->queue[0], &slot, 1);
	close_null(port);
}

/* By the clock: over a stretch of time, as many frames fall due as the rate says, lent and missed
 * together. */
static void a_rate_is_kept(void **state SPW_UNUSED)
{
	uint64_t opened = spw_tsc_now();
	struct spw_port *port = open_null("null:rate=2M", 1, 128);
	uint64_t begin = spw_tsc_now(), span, polled, last = 0;
	struct spw_desc desc[SPW_BURST_MAX];
	struct spw_port_stat st;
	double per_tick;
	uint16_t n;

	do { /* and, at the end, until nothing waits any more: what waits is not counted yet */
		polled = spw_tsc_now() - begin;
		n = spw_port_rx_burst(&port->queue[0], desc, 64);

		for (uint16_t i = 0; i < n; i++) {
			assert_true(desc[i].flags & SPW_DESC_NIC_STAMP);
			assert_true(desc[i].nic_stamp > last);
			last = desc[i].nic_stamp;
		}
		assert_true(last <= spw_tsc_now());
		give_back(port, 0, desc, n);
		span = spw_tsc_now() - begin;
	} while (span < port->caps.nic_clock_hz / 20 || n == 64);
	spw_port_stat(port, &st);
	per_tick = 2e6 / (double)port->caps.nic_clock_hz;
	assert_true(st.missed_known);
	assert_int_equal(st.wire_frames,
			 st.rx_frames + st.missed_frames + st.dropped[SPW_PORT_DROP_rx_flushed]);
	assert_true((double)st.wire_frames >= per_tick * (double)polled - 2);
	assert_true((double)st.wire_frames <= per_tick * (double)(span + begin - opened) + 2);
	close_null(port);
}

#define RAMP_HZ 1000000000u /* ticks a second: a tick is a nanosecond */

/* From 1 k to 1 M frames/s in 11 s and back: eleven steps of a second each, the last of which
 * stays. What is due at the end of each is the sum of the rates so far, and frame n is due when
 * due() becomes n. */
static void a_ramp_is_the_sum_of_its_steps(void **state SPW_UNUSED)
{
	static const uint64_t rate[2][11] = {
		{1000, 2000, 4000, 8000, 16000, 32000, 64000, 128000, 256000, 512000, 1000000},
		{1000000, 500000, 250000, 125000, 62500, 31250, 15625, 7812, 3906, 1953, 1000}};

	for (uint32_t down = 0; down < 2; down++) {
		const uint64_t first = rate[down][0], last = rate[down][10];
		struct null_rate r;
		uint64_t sum = 0;

		assert_int_equal(null_rate_make(RAMP_HZ, first, last, 11ull * RAMP_HZ, &r), 0);
		assert_int_equal(null_rate_due(&r, 0), 0);
		for (uint32_t i = 0; i < 14; i++) {
			sum += rate[down][SPW_MIN(i, 10)];
			assert_in_range(null_rate_due(&r, (i + 1ull) * RAMP_HZ), sum - i - 1, sum);
			for (uint64_t n = 1; n <= sum; n += SPW_MAX(1, sum / 997)) {
				struct null_rate then = r;
				uint64_t at = null_rate_when(&r, n);

				then.now = 0;
				then.ticks = 0;
				assert_in_range(null_rate_due(&then, at + 1), n, n + 1);
				then.now = 0;
				then.ticks = 0;
				assert_in_range(null_rate_due(&then, at - 1), n - 1, n);
			}
		}
	}
}

static void a_ramp_goes_on_where_it_stopped(void **state SPW_UNUSED)
{
	struct null_rate r;

	assert_int_equal(null_rate_make(RAMP_HZ, 1000, 4000, 3ull * RAMP_HZ, &r), 0);
	for (uint64_t n = 0; n < 20000; n += 37) {
		uint64_t at = null_rate_restart(&r, n);

		assert_in_range(null_rate_due(&r, at + 1), n, n + 1);
		assert_true(null_rate_due(&r, at + RAMP_HZ) > n + 999);
	}
	assert_int_equal(null_rate_make(RAMP_HZ, 1000, 999, RAMP_HZ, &r), -ERANGE);
}

/* The lcore's counter is behind the one that read the start, or behind itself after a move to
 * another core: nothing falls due, and nothing that was due is taken back. */
static void a_counter_that_is_behind_makes_nothing_due(void **state SPW_UNUSED)
{
	struct null_rate r;
	uint64_t at;

	assert_int_equal(null_rate_make(RAMP_HZ, 1000, 4000, 3ull * RAMP_HZ, &r), 0);
	assert_int_equal(null_rate_due(&r, 0 - (uint64_t)RAMP_HZ), 0);
	assert_in_range(null_rate_due(&r, 2 * RAMP_HZ), 2999, 3000);
	assert_in_range(null_rate_due(&r, RAMP_HZ / 2), 2999, 3000);
	for (uint64_t n = 0; n < 20000; n += 37) {
		at = null_rate_restart(&r, n);
		assert_in_range(null_rate_due(&r, at - RAMP_HZ), n, n + 1);
		assert_in_range(null_rate_due(&r, (uint64_t)-1), n, n + 1);
	}
}

/* A pipe that does not poll: what the ring cannot hold is missed, not queued for later. */
static void what_waits_too_long_is_missed(void **state SPW_UNUSED)
{
	struct spw_port *port = open_null("null:rate=1M", 1, 64);
	uint64_t end = spw_tsc_now() + port->caps.nic_clock_hz / 100;
	struct spw_desc desc[SPW_BURST_MAX];
	struct spw_port_stat st;

	while (spw_tsc_now() < end)
		;
	assert_int_equal(spw_port_rx_burst(&port->queue[0], desc, 64), 64);
	spw_port_stat(port, &st);
	assert_true(st.missed_frames >= 10000 - 64);
	assert_int_equal(st.rx_frames, 64);
	give_back(port, 0, desc, 64);
	close_null(port);
}

static bool differs(const uint8_t *p, uint32_t len, enum null_bad bad, uint32_t flow)
{
	uint8_t want[2048];
	uint32_t want_len = null_frame_write(want, 100, flow, NULL_PATTERN_CRC, bad);

	return len != want_len || memcmp(p, want, len) != 0;
}

/* Every third frame is wrong in the way that was asked for, all others are right, though slots are
 * used again. */
static void bad_frames_come_as_often_as_asked(void **state SPW_UNUSED)
{
	static const char *const name[] = {"short_frame", "not_ipv4",   "ip_length",
					   "not_udp",     "udp_length", "checksum"};

	for (size_t k = 0; k < SPW_ARRAY_CNT(name); k++) {
		struct spw_desc desc[SPW_BURST_MAX];
		struct spw_port *port;
		char text[96];
		uint64_t seq = 0;

		snprintf(text, sizeof(text), "null:size=100,pattern=crc,bad=%s,bad_every=3",
			 name[k]);
		port = open_null(text, 1, 0);
		for (int round = 0; round < 50; round++) {
			uint16_t n = spw_port_rx_burst(&port->queue[0], desc, 7);

			assert_int_equal(n, 7);
			for (uint16_t i = 0; i < n; i++, seq++) {
				enum null_bad bad = seq % 3 == 2 ? (enum null_bad)(k + 1)
								 : NULL_BAD_NONE;

				assert_false(differs(bytes_of(0, &desc[i]), desc[i].len, bad,
						     desc[i].slot & 1023));
			}
			give_back(port, 0, desc, n);
		}
		close_null(port);
	}
}

/* Frames have the numbers in which they were due: a missed one leaves a gap, and a bad one in
 * between keeps its number. */
static void frames_are_numbered(void **state SPW_UNUSED)
{
	struct spw_port *port =
		open_null("null:size=50,rate=1M,pattern=counter,bad=not_udp,bad_every=5", 1, 64);
	uint64_t end = spw_tsc_now() + port->caps.nic_clock_hz / 1000, number = 0;
	struct spw_desc desc[SPW_BURST_MAX];
	struct spw_port_stat st;

	for (int round = 0; round < 20; round++) {
		uint16_t n = spw_port_rx_burst(&port->queue[0], desc, 64);

		spw_port_stat(port, &st);
		number = st.missed_frames + st.rx_frames - n;
		for (uint16_t i = 0; i < n; i++)
			assert_int_equal(spw_be64_load(bytes_of(0, &desc[i]) + NULL_HEADER_BYTES),
					 number + i);
		give_back(port, 0, desc, n);
		while (spw_tsc_now() < end)
			;
		end += port->caps.nic_clock_hz / 1000;
	}
	assert_true(st.missed_frames > 1000);
	close_null(port);
}

static void the_crc_is_the_published_one(void **state SPW_UNUSED)
{
	uint8_t frame[NULL_HEADER_BYTES + 36];

	/* RFC 3720 B.4: 32 bytes of 00 01 .. 1f give 0x46dd794e. */
	null_frame_write(frame, sizeof(frame), 0, NULL_PATTERN_CRC, NULL_BAD_NONE);
	assert_memory_equal(frame + NULL_HEADER_BYTES + 32, "\x4e\x79\xdd\x46", 4);
}

static void wrong_keys_are_refused(void **state SPW_UNUSED)
{
	static const struct {
		const char *text;
		int rc;
		const char *says;
	} table[] = {
		{"null:sise=64", -EINVAL, "'sise' is not known, did you mean 'size'?"},
		{"null:size=45", -ERANGE, "46 .. 65535"},
		{"null:bad=ugly", -EINVAL, "use none, short_frame"},
		{"null:bad=checksum", -EINVAL, "needs pattern=crc"},
		{"null:pattern=zero", -EINVAL, "use udp, crc or counter"},
		{"null:pattern=counter,size=49", -EINVAL, "needs size=50"},
		{"null:flows=3", -EINVAL, "no power of 2"},
		{"null:rate=ten", -EINVAL, "no number"},
		{"null:stamps=2", -ERANGE, "0 .. 1"},
		{"null:rate=1k,rate_to=2k", -EINVAL, "needs rate="},
		{"null:rate=1k,ramp_s=2", -EINVAL, "needs rate="},
		{"null:rate=1k,rate_to=0,ramp_s=2", -EINVAL, "needs rate="},
		{"null:rate_to=1k,ramp_s=2", -EINVAL, "needs rate="},
		{"null:rate=1k,rate_to=1k,ramp_s=2", -EINVAL, "needs rate="},
		{"null:rate=1k,rate_to=2k,ramp_s=0", -ERANGE, "1 .. 86400"},
	};
	struct spw_port_spec spec;
	struct spw_port *port;

	for (size_t i = 0; i < SPW_ARRAY_CNT(table); i++) {
		assert_int_equal(spw_port_spec_parse(table[i].text, &spec), 0);
		assert_int_equal(spw_port_open(&spec, 0, 1, &port), table[i].rc);
		if (!strstr(spw_err_text(), table[i].says) ||
		    !strstr(spw_err_text(), table[i].text))
			fail_msg("'%s' gave: %s", table[i].text, spw_err_text());
	}
	assert_int_equal(spw_port_spec_parse("null", &spec), 0);
	assert_int_equal(spw_port_open(&spec, 0, 0, &port), -ERANGE);
	assert_int_equal(spw_port_open(&spec, 0, 65, &port), -ERANGE);
	assert_int_equal(spw_port_open(&spec, SPW_PORT_MAX, 1, &port), -ERANGE);
}

static void a_port_without_a_clock_says_so(void **state SPW_UNUSED)
{
	struct spw_port *port = open_null("null", 1, 0);
	uint64_t nic, tsc, unc;

	assert_int_equal(spw_port_pair_clock(port, &nic, &tsc, &unc), -ENOTSUP);
	close_null(port);
	port = open_null("null:stamps=1", 1, 0);
	assert_int_equal(spw_port_pair_clock(port, &nic, &tsc, &unc), 0);
	assert_int_equal(nic, tsc);
	close_null(port);
}

int main(void)
{
	const struct CMUnitTest test[] = {
		cmocka_unit_test(count_frames_come_and_are_whole),
		cmocka_unit_test(a_dry_pool_is_counted),
		cmocka_unit_test(a_rate_is_kept),
		cmocka_unit_test(a_ramp_is_the_sum_of_its_steps),
		cmocka_unit_test(a_ramp_goes_on_where_it_stopped),
		cmocka_unit_test(a_counter_that_is_behind_makes_nothing_due),
		cmocka_unit_test(what_waits_too_long_is_missed),
		cmocka_unit_test(bad_frames_come_as_often_as_asked),
		cmocka_unit_test(frames_are_numbered),
		cmocka_unit_test(the_crc_is_the_published_one),
		cmocka_unit_test(wrong_keys_are_refused),
		cmocka_unit_test(a_port_without_a_clock_says_so),
	};

	return cmocka_run_group_tests_name("port-null", test, set_up, tear_down);
}
