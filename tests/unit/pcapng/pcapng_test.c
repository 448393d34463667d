/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Files are read back by libpcap. A full disk is simulated by this process's file size limit.
 */
#include "unit_test.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "pcapng/spw_pcapng.h"

static char path[64];

static int setup(void **state)
{
	(void)state;
	snprintf(path, sizeof(path), "/tmp/spw-pcapng-%d", (int)getpid());
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

static void add(struct spw_pcapng *file, uint32_t i, uint32_t bytes)
{
	uint8_t data[3000];

	memset(data, (int)i, sizeof(data));
	spw_pcapng_packet(file, &(struct spw_pcapng_packet){.direction = SPW_PCAPNG_IN,
							    .stamp_ns = 1700000000000000000ull + i,
							    .data = data,
							    .bytes = bytes,
							    .wire_bytes = bytes + i,
							    .comment = i % 2 ? "odd" : NULL});
}

/* Packets that libpcap reads, each checked against what add wrote. */
static uint32_t read_back(void)
{
	char why[PCAP_ERRBUF_SIZE];
	pcap_t *pcap =
		pcap_open_offline_with_tstamp_precision(path, PCAP_TSTAMP_PRECISION_NANO, why);
	struct pcap_pkthdr *head;
	const u_char *data;
	uint32_t cnt = 0;
	int rc;

	if (!pcap)
		fail_msg("%s", why);
	while ((rc = pcap_next_ex(pcap, &head, &data)) == 1) {
		const uint32_t i = head->len - head->caplen;

		assert_int_equal(head->ts.tv_sec, 1700000000);
		assert_int_equal(head->ts.tv_usec, i);
		assert_int_equal(data[0], (uint8_t)i);
		assert_int_equal(data[head->caplen - 1], (uint8_t)i);
		cnt++;
	}
	assert_int_equal(rc, PCAP_ERROR_BREAK); /* the end, not half a block */
	pcap_close(pcap);
	return cnt;
}

static void reads_back(void **state)
{
	struct spw_pcapng *file;
	struct stat st;

	(void)state;
	assert_int_equal(spw_pcapng_open(path, &file), 0);
	assert_int_equal(
		spw_pcapng_interface(file, SPW_PCAPNG_ETHERNET, 96, "one", "what its stamps are"),
		0);
	assert_int_equal(spw_pcapng_interface(file, SPW_PCAPNG_ETHERNET, 96, "two", NULL), 1);
	for (uint32_t i = 0; i < 2000; i++)
		add(file, i, 1 + i % 96);
	spw_pcapng_statistics(file, 0, 1700000001000000000ull, 2000, 7);
	assert_int_equal(spw_pcapng_flush(file), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, spw_pcapng_bytes(file));
	assert_int_equal(spw_pcapng_lost(file), 0);
	spw_pcapng_close(file);
	assert_int_equal(read_back(), 2000);
}

/* Packets that the disk refuses are counted and cut off: the file stays valid, and grows again when
 * there is room. */
static void full_disk(void **state)
{
	struct rlimit before, tight;
	struct spw_pcapng *file;
	uint32_t cnt = 0;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	tight = (struct rlimit){.rlim_cur = 400000, .rlim_max = before.rlim_max};
	assert_int_equal(spw_pcapng_open(path, &file), 0);
	assert_int_equal(spw_pcapng_interface(file, SPW_PCAPNG_ETHERNET, 0, "one", NULL), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
	for (; spw_pcapng_lost(file) == 0 && cnt < 10000; cnt++)
		add(file, cnt % 200, 64);
	assert_in_range(spw_pcapng_lost(file), 1, cnt);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	for (uint32_t i = 0; i < 100; i++, cnt++)
		add(file, i, 64);
	assert_int_equal(spw_pcapng_flush(file), 0);
	cnt -= (uint32_t)spw_pcapng_lost(file);
	spw_pcapng_close(file);
	assert_int_equal(read_back(), cnt);
}

static void cannot_open(void **state)
{
	struct spw_pcapng *file;

	(void)state;
	assert_int_equal(spw_pcapng_open("/nonexistent/x", &file), -ENOENT);
	assert_non_null(strstr(spw_err_text(), "/nonexistent/x"));
	assert_int_equal(spw_pcapng_open("/dev/full", &file), -ENOSPC);
	spw_pcapng_close(NULL);
}

/* A shared folder may contain a link of the file's name: its target is not changed. */
static void links_are_not_followed(void **state)
{
	struct spw_pcapng *file;
	char target[80];
	struct stat st;
	FILE *f;

	(void)state;
	snprintf(target, sizeof(target), "%s-target", path);
	f = fopen(target, "w");
	assert_non_null(f);
	assert_true(fputs("precious", f) >= 0);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(symlink(target, path), 0);
	assert_int_equal(spw_pcapng_open(path, &file), -ELOOP);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(link(target, path), 0);
	assert_int_equal(spw_pcapng_open(path, &file), -EPERM);
	assert_int_equal(stat(target, &st), 0);
	assert_int_equal(st.st_size, strlen("precious"));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(unlink(target), 0);
}

static void one_writer_a_file(void **state)
{
	struct spw_pcapng *file, *second;

	(void)state;
	assert_int_equal(spw_pcapng_open(path, &file), 0);
	assert_int_equal(spw_pcapng_interface(file, SPW_PCAPNG_ETHERNET, 0, "a", NULL), 0);
	assert_int_equal(spw_pcapng_open(path, &second), -EBUSY);
	add(file, 1, 60);
	spw_pcapng_close(file);
	assert_int_equal(read_back(), 1);
	assert_int_equal(spw_pcapng_open(path, &second),
			 0); /* an old file of that name is emptied */
	assert_int_equal(spw_pcapng_bytes(second), 28);
	spw_pcapng_close(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(reads_back, setup, teardown),
		cmocka_unit_test_setup_teardown(full_disk, setup, teardown),
		cmocka_unit_test_setup_teardown(cannot_open, setup, teardown),
		cmocka_unit_test_setup_teardown(links_are_not_followed, setup, teardown),
		cmocka_unit_test_setup_teardown(one_writer_a_file, setup, teardown),
	};

	return cmocka_run_group_tests_name("pcapng", tests, NULL, NULL);
}
