/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../unit_test.h"
#include "port/ethdev/ethdev.h"

static uint8_t file[512];
static size_t file_bytes;

static void put32(uint32_t v, bool swapped)
{
	v = swapped ? __builtin_bswap32(v) : v;
	memcpy(file + file_bytes, &v, 4);
	file_bytes += 4;
}

static void make_pcap(uint32_t magic, bool swapped)
{
	file_bytes = 0;
	put32(magic, swapped);
	file_bytes += 20;
	for (uint32_t i = 0; i < 3; i++) {
		file_bytes += 8;
		put32(10 + i, swapped);
		put32(100, swapped);
		file_bytes += 10 + i;
	}
}

static void make_pcapng(bool swapped)
{
	file_bytes = 0;
	put32(0x0a0d0d0a, swapped);
	put32(28, swapped);
	put32(0x1a2b3c4d, swapped);
	file_bytes += 12;
	put32(28, swapped);
	for (uint32_t i = 0; i < 3; i++) {
		put32(6, swapped);
		put32(32 + 4 * i, swapped);
		file_bytes += 32 + 4 * i - 12;
		put32(32 + 4 * i, swapped);
	}
}

static int check(size_t bytes)
{
	char path[] = "/tmp/spw-capture-XXXXXX";
	int fd = mkstemp(path), rc;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, file, bytes), bytes);
	close(fd);
	rc = ethdev_capture_check(path);
	if (rc)
		assert_non_null(strstr(spw_err_text(), path));
	unlink(path);
	return rc;
}

/* Good at the end of each record, and nowhere between. */
static void check_each_cut(const size_t *whole, size_t whole_cnt)
{
	size_t k = 0;

	for (size_t n = 0; n <= file_bytes; n++) {
		bool ok = k < whole_cnt && n == whole[k];

		assert_int_equal(check(n), ok ? 0 : -EINVAL);
		k += ok;
	}
	assert_int_equal(k, whole_cnt);
}

static void pcap_is_walked(void **state SPW_UNUSED)
{
	static const size_t whole[] = {24, 50, 77, 105};

	make_pcap(0xa1b2c3d4, false);
	check_each_cut(whole, SPW_ARRAY_CNT(whole));
	make_pcap(0xa1b23c4d, true);
	check_each_cut(whole, SPW_ARRAY_CNT(whole));
}

static void pcapng_is_walked(void **state SPW_UNUSED)
{
	static const size_t whole[] = {28, 60, 96, 136};

	make_pcapng(false);
	check_each_cut(whole, SPW_ARRAY_CNT(whole));
	make_pcapng(true);
	check_each_cut(whole, SPW_ARRAY_CNT(whole));
}

static void bad_lengths_are_refused(void **state SPW_UNUSED)
{
	memset(file, 0x55, sizeof(file));
	assert_int_equal(check(200), -EINVAL);
	assert_non_null(strstr(spw_err_text(), "no pcap or pcapng"));
	make_pcap(0xa1b2c3d4, false);
	memset(file + 32, 0xff, 4);
	assert_int_equal(check(file_bytes), -EINVAL);
	assert_non_null(strstr(spw_err_text(), "record 1 at byte 24: its length is out of range"));
	make_pcapng(false);
	memset(file + 32, 0, 4); /* a block of no length would be walked for ever */
	assert_int_equal(check(file_bytes), -EINVAL);
	assert_int_equal(ethdev_capture_check("/nonexistent/x.pcap"), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest test[] = {
		cmocka_unit_test(pcap_is_walked),
		cmocka_unit_test(pcapng_is_walked),
		cmocka_unit_test(bad_lengths_are_refused),
	};

	return cmocka_run_group_tests_name("port-capture", test, NULL, NULL);
}
