/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The statistics of a network interface, as the kernel hands them out: counted, named, read.
 */
#include <errno.h>
#include <linux/ethtool.h>

#include "rdma/spw_rdma_netdev.h"
#include "unit_test.h"

/* A driver behind the kernel's side of SIOCETHTOOL. */
struct card {
	const char *const *name;
	uint32_t cnt;
	uint32_t grown;    /* statistics that come when the names have been read */
	uint32_t fails_at; /* command that is refused; 0: none */
	uint64_t value[8];
};

static int card_call(void *arg, const char *netdev, void *cmd)
{
	struct card *card = arg;
	uint32_t what = *(uint32_t *)cmd;

	assert_string_equal(netdev, "eth7");
	if (what == card->fails_at)
		return -1;
	if (what == ETHTOOL_GSSET_INFO) {
		struct ethtool_sset_info *info = cmd;

		assert_int_equal(info->sset_mask, 1ull << ETH_SS_STATS);
		info->sset_mask = card->cnt ? info->sset_mask : 0;
		info->data[0] = card->cnt;
	} else if (what == ETHTOOL_GSTRINGS) {
		struct ethtool_gstrings *strings = cmd;

		assert_int_equal(strings->string_set, ETH_SS_STATS);
		strings->len = card->cnt;
		for (uint32_t i = 0; i < card->cnt; i++)
			strncpy((char *)strings->data + i * ETH_GSTRING_LEN, card->name[i],
				ETH_GSTRING_LEN);
	} else {
		struct ethtool_stats *stats = cmd;

		assert_int_equal(what, ETHTOOL_GSTATS);
		stats->n_stats = card->cnt + card->grown;
		for (uint32_t i = 0; i < card->cnt + card->grown; i++)
			stats->data[i] = i < card->cnt ? card->value[i] : 0xbad;
	}
	return 0;
}

static const char *const names[] = {"rx_packets", "rx_discards", "rx_discards_phy",
				    "rx_packets_phy", "a_name_of_exactly_32_characters."};

static struct card card_new(uint32_t cnt)
{
	return (struct card){.name = names, .cnt = cnt, .value = {11, 22, 33, 44, 55}};
}

static bool ask(struct card *card, const char *name, uint64_t *value_out)
{
	struct rdma_ethtool_stat stat[] = {{.name = "no_such"}, {.name = name}};

	rdma_ethtool_read(card_call, card, "eth7", stat, SPW_ARRAY_CNT(stat));
	assert_false(stat[0].known);
	if (stat[1].known)
		*value_out = stat[1].value;
	return stat[1].known;
}

static void test_by_its_whole_name(void **state)
{
	struct card card = card_new(5);
	uint64_t value;

	(void)state;
	assert_true(ask(&card, "rx_discards_phy", &value));
	assert_int_equal(value, 33);
	assert_true(ask(&card, "rx_discards", &value));
	assert_int_equal(value, 22);
	assert_true(ask(&card, names[4], &value));
	assert_int_equal(value, 55);
	assert_false(ask(&card, "rx_discards_ph", &value));
	assert_false(ask(&card, "rx_discards_phy_", &value));
}

static void test_what_cannot_be_read(void **state)
{
	static const uint32_t fails[] = {ETHTOOL_GSSET_INFO, ETHTOOL_GSTRINGS, ETHTOOL_GSTATS};
	struct card card = card_new(0);
	uint64_t value = 7;

	(void)state;
	assert_false(ask(&card, "rx_packets", &value));
	for (size_t i = 0; i < SPW_ARRAY_CNT(fails); i++) {
		card = card_new(5);
		card.fails_at = fails[i];
		assert_false(ask(&card, "rx_packets", &value));
	}
	card = card_new(1u << 20); /* no interface has so many: not a byte is asked for */
	assert_false(ask(&card, "rx_packets", &value));
	assert_int_equal(value, 7);
}

/* A driver that gets more statistics in between, up to twice as many: memory stays whole (the
 * sanitizers watch). */
static void test_more_than_a_moment_ago(void **state)
{
	struct card card = card_new(4);
	uint64_t value;

	(void)state;
	card.grown = 4;
	assert_true(ask(&card, "rx_packets_phy", &value));
	assert_int_equal(value, 44);
}

/* Firmware whose counter leaves receive work queues out: unknown, not 0. */
static void test_missed(void **state)
{
	static const struct {
		bool known;
		uint64_t counted, by_cqe;
		bool known_out;
		uint64_t missed;
	} table[] = {
		{true, 0, 0, true, 0},   {true, 9, 0, true, 9},  {true, 9, 4, true, 9},
		{true, 4, 9, true, 9},   {true, 0, 9, false, 0}, {false, 0, 0, false, 0},
		{false, 0, 9, false, 0},
	};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(table); i++) {
		struct spw_port_stat stat = {.wire_frames = 100};

		rdma_missed_stat(table[i].known, table[i].counted, table[i].by_cqe, &stat);
		assert_int_equal(stat.missed_known, table[i].known_out);
		assert_int_equal(stat.missed_frames, table[i].missed);
		assert_int_equal(stat.wire_frames, 100 + table[i].missed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_its_whole_name),
		cmocka_unit_test(test_what_cannot_be_read),
		cmocka_unit_test(test_more_than_a_moment_ago),
		cmocka_unit_test(test_missed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
