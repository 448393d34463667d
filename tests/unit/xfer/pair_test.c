/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which devices are paired, by the addresses of machines that owners have.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "unit_test.h"
#include "xfer/pair.h"

#define ALL UINT8_MAX

static int8_t got[SPW_XFER_RAIL_MAX];

/* "10.0.0.1/24 fe80::1": as spw_xfer_open finds them. Returns: how many. */
static uint32_t ends(const char *text, struct xfer_end *end)
{
	char copy[256], *rest = NULL;
	uint32_t n = 0;

	snprintf(copy, sizeof(copy), "%s", text);
	for (char *word = strtok_r(copy, " ", &rest); word;
	     word = strtok_r(NULL, " ", &rest), n++) {
		char *slash = strchr(word, '/');
		unsigned int bits = 0;
		bool v4 = !strchr(word, ':');

		if (slash) {
			*slash = '\0';
			assert_int_equal(sscanf(slash + 1, "%u", &bits), 1);
			bits += v4 ? 96 : 0;
		}
		end[n] = (struct xfer_end){.mtu = 1024};
		if (v4)
			end[n].gid[10] = end[n].gid[11] = 0xff;
		assert_int_equal(
			inet_pton(v4 ? AF_INET : AF_INET6, word, end[n].gid + (v4 ? 12 : 0)), 1);
		end[n].prefix = xfer_gid_prefix(end[n].gid, bits);
	}
	return n;
}

static struct xfer_pairs pairs_of(const char *mine, const char *theirs)
{
	struct xfer_pairs p = {.mine_cnt = 0};

	p.mine_cnt = ends(mine, p.mine);
	p.theirs_cnt = ends(theirs, p.theirs);
	return p;
}

/* want: by number of ours the number of theirs; '-': none. */
static void expect(const struct xfer_pairs *p, const char *want)
{
	char text[SPW_XFER_RAIL_MAX + 1] = "";
	uint32_t cnt = 0, n = xfer_pairs_match(p, ALL, ALL, got);

	for (uint32_t i = 0; i < p->mine_cnt; i++) {
		text[i] = got[i] == XFER_NO_PAIR ? '-' : (char)('0' + got[i]);
		cnt += got[i] != XFER_NO_PAIR;
	}
	assert_string_equal(text, want);
	assert_int_equal(n, cnt);
}

static void fail_all(struct xfer_pairs *p)
{
	for (uint32_t i = 0; i < p->mine_cnt; i++)
		if (got[i] != XFER_NO_PAIR)
			xfer_pairs_failed(p, i, (uint32_t)got[i]);
}

static void by_subnet(void **state SPW_UNUSED)
{
	static const struct {
		const char *mine, *theirs, *want;
	} set[] = {
		/* the first port of a workstation is the LAN */
		{"192.168.1.5/24 10.0.1.1/24", "10.0.1.2/24 10.0.2.2/24", "-0"},
		/* a triangle, one address a cable, and with halves */
		{"192.168.101.1/24 192.168.100.1/24", "192.168.100.3/24 192.168.102.3/24", "-0"},
		{"192.168.100.1/24 192.168.101.1/24 192.168.102.1/24 192.168.103.1/24",
		 "192.168.104.2/24 192.168.105.2/24 192.168.101.2/24 192.168.100.2/24", "32--"},
		{"10.0.0.1/16 10.1.0.1/16", "10.1.9.9/16 10.0.9.9/16", "10"},
		{"10.0.0.1/31 10.0.0.2/31", "10.0.0.3/31 10.0.0.0/31", "10"},
		{"fd00:1::1/64 fd00:2::1/64", "fd00:2::2/64 fd00:1::2/64", "10"},
		{"10.0.0.1/24 fd00:2::1/64", "fd00:2::2/64 10.0.0.2/24", "10"},
		/* all in one: the same number */
		{"10.0.0.1/24 10.0.0.2/24", "10.0.0.4/24 10.0.0.3/24", "01"},
		{"10.0.0.1/24", "10.0.0.4/24 10.0.0.3/24", "0"},
		/* unknown prefixes: /24, /64 */
		{"10.0.2.1 10.0.1.1", "10.0.1.2 10.0.2.2", "10"},
		/* a link-local address and one that is not */
		{"169.254.7.1/16 10.0.1.1/24", "10.0.1.2/24 169.254.9.9/16", "10"},
		{"169.254.7.1/16", "10.0.1.2/24", "-"},
		{"10.0.0.1/24", "fd00:2::2/64", "-"},
	};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(set); i++) {
		struct xfer_pairs p = pairs_of(set[i].mine, set[i].theirs);

		expect(&p, set[i].want);
	}
}

/* A device that is gone keeps its number, and has no address. */
static void one_is_gone(void **state SPW_UNUSED)
{
	struct xfer_pairs p = pairs_of("fd00:1::1/64 fd00:2::1/64", "fd00:1::2/64 fd00:2::2/64");

	memset(p.theirs[0].gid, 0, sizeof(p.theirs[0].gid));
	expect(&p, "-1");
	p.routed = true;
	expect(&p, "-1");
}

/* Ours 0 could be paired with both of theirs, ours 1 with the first only: none may be lost, however
 * near the first two are. */
static void the_only_partner_is_kept(void **state SPW_UNUSED)
{
	struct xfer_pairs p = pairs_of("10.0.0.1/16 10.0.0.2/24", "10.0.0.3/16 10.0.9.1/16");

	expect(&p, "10");
}

static void routed_only_if_asked(void **state SPW_UNUSED)
{
	struct xfer_pairs p = pairs_of("10.1.0.0/31 10.2.0.0/31", "10.2.4.0/31 10.1.4.0/31");

	expect(&p, "--");
	assert_false(xfer_pairs_left(&p, XFER_PAIR_BLIND, false));
	assert_true(xfer_pairs_left(&p, XFER_PAIR_ROUTED, false));
	p.routed = true;
	expect(&p, "10"); /* the longest common prefixes */
}

/* Four cables with link-local addresses: every pair is tried once before any is tried twice. */
static void by_trying(void **state SPW_UNUSED)
{
	static const char four[] = "169.254.3.1/16 169.254.1.2/16 fe80::1/64 fe80::2/64";
	struct xfer_pairs p = pairs_of(four, four);

	expect(&p, "0123");
	fail_all(&p);
	expect(&p, "1032");
	assert_true(xfer_pairs_left(&p, XFER_PAIR_BLIND, true));
	fail_all(&p);
	assert_false(xfer_pairs_left(&p, XFER_PAIR_BLIND, true));

	p = pairs_of("169.254.1.1 169.254.1.2 169.254.1.3 169.254.1.4",
		     "169.254.1.5 169.254.1.6 169.254.1.7 169.254.1.8");
	for (uint32_t round = 0; round < 4; round++) {
		assert_true(xfer_pairs_left(&p, XFER_PAIR_BLIND, true));
		assert_int_equal(xfer_pairs_match(&p, ALL, ALL, got), 4);
		fail_all(&p);
	}
	assert_false(xfer_pairs_left(&p, XFER_PAIR_BLIND, true));
	for (uint32_t i = 0; i < 16; i++)
		assert_int_equal(p.failed[i / 4][i % 4], 1);
}

static void what_is_taken_stays(void **state SPW_UNUSED)
{
	struct xfer_pairs p = pairs_of("10.0.0.1/24 10.0.0.2/24", "10.0.0.3/24 10.0.0.4/24");

	assert_int_equal(xfer_pairs_match(&p, 2, 1, got), 1);
	assert_int_equal(got[0], XFER_NO_PAIR);
	assert_int_equal(got[1], 0);
	assert_int_equal(xfer_pairs_match(&p, 0, ALL, got), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_subnet),
		cmocka_unit_test(one_is_gone),
		cmocka_unit_test(the_only_partner_is_kept),
		cmocka_unit_test(routed_only_if_asked),
		cmocka_unit_test(by_trying),
		cmocka_unit_test(what_is_taken_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
