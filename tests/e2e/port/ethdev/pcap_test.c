/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * DPDK's net_pcap replaying capture files that the test writes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "inter_test.h"

#define FRAME_CNT 300u

static char path[64];

static uint32_t len_of(uint64_t seq)
{
	return 60 + (uint32_t)(seq * 41 % 1450);
}

static void put_record(FILE *f, uint64_t seq, uint32_t len)
{
	uint32_t head[4] = {(uint32_t)seq, 0, len, len};

	assert_int_equal(fwrite(head, sizeof(head), 1, f), 1);
	for (uint32_t i = 0; i < len; i++)
		fputc(inter_byte(seq, i), f);
}

static int set_up(void **state SPW_UNUSED)
{
	static const uint32_t head[6] = {0xa1b2c3d4, 0x00040002, 0, 0, 65535, 1};
	FILE *f;
	int fd;

	strcpy(path, "/tmp/spw-inter-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	f = fdopen(fd, "w");
	assert_int_equal(fwrite(head, sizeof(head), 1, f), 1);
	for (uint64_t seq = 0; seq < FRAME_CNT; seq++)
		put_record(f, seq, len_of(seq));
	assert_int_equal(fclose(f), 0);
	return 0;
}

static int tear_down(void **state SPW_UNUSED)
{
	return unlink(path);
}

static void open_replay(struct inter_port *ip, const char *more)
{
	char spec[160];

	snprintf(spec, sizeof(spec), "ethdev:net_pcap0,rx_pcap=%s%s", path, more);
	inter_open(ip, spec, 2, 1, 256);
}

/* Held until all slots but a few are out: the frame that finds no slot must not be read from the
 * file and lost. */
static void every_frame_is_replayed_in_order(void **state SPW_UNUSED)
{
	struct spw_desc desc[256];
	struct inter_port ip;
	struct spw_port_stat st;
	uint16_t held = 0, n;

	open_replay(&ip, "");
	while ((n = spw_port_rx_burst(&ip.port->queue[0], desc + held,
				      (uint16_t)SPW_MIN(64, 256 - held))) > 0)
		held = (uint16_t)(held + n);
	assert_int_equal(held, 256);
	for (uint16_t i = 0; i < 8; i++) /* dry: polled in vain */
		assert_int_equal(spw_port_rx_burst(&ip.port->queue[0], desc, 64), 0);
	for (uint16_t i = 0; i < held; i++) {
		assert_int_equal(desc[i].len, len_of(i));
		inter_check_and_release(&ip, &desc[i], i);
	}
	inter_receive(&ip, held, FRAME_CNT - held, inter_check_and_release);
	assert_int_equal(spw_port_rx_burst(&ip.port->queue[0], desc, 64), 0);
	spw_port_stat(ip.port, &st);
	assert_int_equal(st.wire_frames, FRAME_CNT);
	assert_int_equal(st.rx_frames, FRAME_CNT);
	assert_int_equal(st.port_copies, FRAME_CNT);
	assert_true(st.missed_known);
	assert_int_equal(st.missed_frames, 0);
	inter_close(&ip);
}

static void frames_longer_than_a_slot_are_counted(void **state SPW_UNUSED)
{
	FILE *f = fopen(path, "a");
	struct spw_port_stat st;
	struct inter_port ip;

	assert_non_null(f);
	put_record(f, FRAME_CNT, 9000);
	put_record(f, FRAME_CNT, 64);
	assert_int_equal(fclose(f), 0);
	open_replay(&ip, "");
	inter_receive(&ip, 0, FRAME_CNT + 1, inter_check_and_release);
	spw_port_stat(ip.port, &st);
	assert_int_equal(st.wire_frames, FRAME_CNT + 2);
	assert_int_equal(st.dropped[SPW_PORT_DROP_too_long], 1);
	inter_close(&ip);
}

static void a_file_cut_short_is_named(void **state SPW_UNUSED)
{
	struct spw_port_spec spec;
	struct spw_port *port;
	char text[160];

	snprintf(text, sizeof(text), "ethdev:net_pcap0,rx_pcap=%s", path);
	assert_int_equal(spw_port_spec_parse(text, &spec), 0);
	assert_int_equal(truncate(path, 24 + 16 + 60 + 16 + 50), 0);
	assert_int_equal(spw_port_open(&spec, 0, 1, &port), -EINVAL);
	snprintf(text, sizeof(text),
		 "capture file %s is truncated: record 2 at byte 100 needs 117 bytes and 66 are "
		 "left",
		 path);
	if (!strstr(spw_err_text(), text))
		fail_msg("%s", spw_err_text());
}

int main(void)
{
	const struct CMUnitTest test[] = {
		cmocka_unit_test_setup_teardown(every_frame_is_replayed_in_order, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(frames_longer_than_a_slot_are_counted, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_file_cut_short_is_named, set_up, tear_down),
	};

	inter_eal_init();
	return cmocka_run_group_tests_name("inter-pcap", test, NULL, NULL);
}
