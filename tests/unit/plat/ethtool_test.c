/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The statistics of a network interface, as the kernel hands them out: counted, named, read. And
 * what a physical port counted between two readings.
 */
#include <errno.h>
#include <linux/ethtool.h>

#include "plat/spw_ethtool.h"
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
	if (what == card->fails_at) {
		errno = ENODEV;
		return -1;
	}
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

static int read_rc; /* of the last ask */

static bool ask(struct card *card, const char *name, uint64_t *value_out)
{
	struct spw_ethtool_stats stats;
	uint64_t other;
	bool found;

	read_rc = spw_ethtool_stats_read(card_call, card, "eth7", &stats);
	assert_false(spw_ethtool_stats_find(&stats, "no_such", &other));
	found = spw_ethtool_stats_find(&stats, name, value_out);
	spw_ethtool_stats_free(&stats);
	return found;
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
	assert_int_equal(read_rc, -EOPNOTSUPP);
	for (size_t i = 0; i < SPW_ARRAY_CNT(fails); i++) {
		card = card_new(5);
		card.fails_at = fails[i];
		assert_false(ask(&card, "rx_packets", &value));
		assert_int_equal(read_rc, -ENODEV);
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

/* Each counter is unknown unless both readings had it; packets need both directions. */
static void test_what_a_port_counted(void **state)
{
	struct spw_phy_count base[SPW_PHY_CNT] = {{7, true}, {8, true}, {9, true}},
			     now[SPW_PHY_CNT] = {{10, true}, {20, true}, {9, true}};
	struct spw_port_stat stat = {0};

	(void)state;
	spw_phy_moved(base, now, &stat);
	assert_true(stat.phy_known && stat.port_discards_known);
	assert_int_equal(stat.phy_rx_packets, 3);
	assert_int_equal(stat.phy_tx_packets, 12);
	assert_int_equal(stat.port_discards, 0);
	base[SPW_PHY_TX].known = now[SPW_PHY_DISCARDS].known = false;
	spw_phy_moved(base, now, &stat);
	assert_false(stat.phy_known || stat.port_discards_known);
	assert_int_equal(stat.phy_tx_packets, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_its_whole_name),
		cmocka_unit_test(test_what_cannot_be_read),
		cmocka_unit_test(test_more_than_a_moment_ago),
		cmocka_unit_test(test_what_a_port_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
