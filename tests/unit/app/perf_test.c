/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * spinwire-perf without a network: which functions of two recorded machines face each other, what
 * they can carry, what the PHY counters prove, and messages of the other end that are wrong.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_monotonic.h"
#include "measure/coll.h"
#include "result/judge.h"
#include "measure/open_loop.h"
#include "measure/pattern.h"
#include "perf_kit.h"
#include "result/phy.h"

static void sparks(struct perf_end *own, struct perf_end *peer)
{
	machine("dgx-spark", own);
	*peer = *own;
	another(peer);
}

static double limit_of(const struct perf_rails *rails, const struct perf_end *own,
		       const struct perf_end *peer, uint32_t mask, const char *by)
{
	char text[64];
	double mbps = perf_limit_mbps(rails, own, peer, mask, text, sizeof(text));

	if (!strstr(text, by))
		fail_msg("limit by %s, expected %s", text, by);
	return mbps;
}

static void halves_of_one_cable(void **state)
{
	static struct perf_end own, peer;
	struct perf_rails rails;
	double half;

	(void)state;
	sparks(&own, &peer);
	assert_int_equal(perf_pair(&own, &peer, NULL, NULL, &rails), 0);
	assert_int_equal(rails.cnt, 2);
	assert_string_equal(rails.rail[0].own->rdma, rails.rail[0].peer->rdma);
	half = limit_of(&rails, &own, &peer, 1, "PCIe Gen5 x4");
	assert_true(half > 114e3 && half < 116e3); /* 126 Gb/s less headers */
	/* Both halves are PCIe links of their own, but share the port. */
	assert_true(limit_of(&rails, &own, &peer, 3, "link, 200 Gb/s") == 200e3);
}

/* Two functions on one PCIe link and on two ports: what one of them could carry, both share. */
static void functions_of_one_pcie_link(void **state)
{
	static struct perf_end own, peer;
	struct perf_rails rails;

	(void)state;
	sparks(&own, &peer);
	assert_int_equal(perf_pair(&own, &peer, NULL, NULL, &rails), 0);
	snprintf(own.nic[1].pci, sizeof(own.nic[1].pci), "0000:01:00.1");
	for (uint32_t i = 0; i < own.nic_cnt; i++)
		own.nic[i].port = peer.nic[i].port = i;
	for (uint32_t i = 0; i < rails.cnt; i++)
		snprintf(((struct perf_nic *)(uintptr_t)rails.rail[i].own)->pci, 16,
			 "0000:01:00.%u", i & 7u);
	assert_true(limit_of(&rails, &own, &peer, 3, "PCIe Gen5 x4 of dgx-spark") ==
		    limit_of(&rails, &own, &peer, 1, "PCIe"));
}

/* What software reports limits nothing; what it enforces does, unless the link carries less. */
static void software_enforces(void **state)
{
	static struct perf_end own, peer;
	struct perf_rails rails;

	(void)state;
	sparks(&own, &peer);
	own.software = peer.software = true;
	assert_int_equal(perf_pair(&own, &peer, NULL, NULL, &rails), 0);
	assert_true(limit_of(&rails, &own, &peer, 3, "") <= 0);
	for (uint32_t i = 0; i < own.nic_cnt; i++)
		own.nic[i].port_enforced_mbps = 13000;
	assert_true(limit_of(&rails, &own, &peer, 1, "enforced rate, port of dgx-spark") == 13e3);
	assert_true(limit_of(&rails, &own, &peer, 3, "enforced rate, port of dgx-spark") == 13e3);
	for (uint32_t i = 0; i < own.nic_cnt; i++) {
		own.nic[i].port_enforced_mbps = 0;
		peer.nic[i].pcie_enforced_mbps = 5000;
	}
	assert_true(limit_of(&rails, &own, &peer, 3, "enforced rate, PCIe link of peer") == 10e3);
	for (uint32_t i = 0; i < peer.nic_cnt; i++)
		peer.nic[i].pcie_enforced_mbps = 400000;
	assert_true(limit_of(&rails, &own, &peer, 3, "link, 200 Gb/s") == 200e3);
}

static void one_card(void **state)
{
	static struct perf_end own, peer;
	struct perf_rails rails;

	(void)state;
	sparks(&own, &peer);
	assert_int_equal(perf_pair(&own, &peer, NULL, NULL, &rails), 0);
	assert_false(rails.rail[0].one_card);
	memcpy(peer.nic[0].guid, own.nic[0].guid, sizeof(own.nic[0].guid));
	for (uint32_t i = 0; i < peer.nic_cnt; i++)
		memcpy(peer.nic[i].guid, own.nic[i].guid, sizeof(own.nic[i].guid));
	assert_int_equal(perf_pair(&own, &peer, NULL, NULL, &rails), 0);
	assert_true(rails.rail[0].one_card);
}

static void what_cannot_be_paired_says_why(void **state)
{
	static struct perf_end own, peer;
	struct perf_rails rails;

	(void)state;
	sparks(&own, &peer);
	for (uint32_t i = 0; i < peer.nic_cnt; i++)
		peer.nic[i].mtu = 1500;
	assert_int_equal(perf_pair(&own, &peer, NULL, NULL, &rails), 0);
	assert_int_equal(rails.cnt, 0);
	assert_int_equal(rails.fault_cnt, 2);
	assert_non_null(strstr(rails.fault[0], "MTU"));
	peer.nic_cnt = 0;
	assert_int_equal(perf_pair(&own, &peer, NULL, NULL, &rails), 0);
	assert_non_null(strstr(rails.fault[0], "another host"));
	assert_int_equal(perf_pair(&own, &peer, "nothing", NULL, &rails), -EINVAL);
	own.nic_cnt = 0;
	assert_int_equal(perf_pair(&own, &peer, NULL, NULL, &rails), 0);
	assert_non_null(strstr(rails.fault[0], "no RDMA device"));
}

/* A row of two Sparks, over one half of a cable and over both. */
static void figures_and_words(void **state)
{
	static struct perf_session s;
	struct perf_result r = {.what = {.op = PERF_WRITE, .bytes = 1 << 20, .rails = 1},
				.own = {.bytes = 1ull << 34,
					.messages = 1 << 14,
					.total = 1 << 15,
					.ns = 1400000000,
					.cpu_ns = 1000000000},
				.peer = {.cpu_ns = 500000000}};
	struct perf_verdict v;

	(void)state;
	sparks(&s.own, &s.peer);
	assert_int_equal(perf_pair(&s.own, &s.peer, NULL, NULL, &s.rails), 0);
	perf_judge(&s, &r, &v);
	assert_true(v.gbps > 98.1 && v.gbps < 98.2);
	assert_true(v.efficiency > 0.85 && v.efficiency < 0.86);
	assert_string_equal(perf_word(v.efficiency), "good");
	assert_string_equal(v.reference, "96 Gb/s ib_write_bw");
	assert_true(v.cpu_ns == 1.5e9 / (1 << 15)); /* of both ends, warm-up included */
	r.what.rails = 3;
	perf_judge(&s, &r, &v);
	assert_string_equal(perf_word(v.efficiency), "below");
	assert_string_equal(v.reference, "192 Gb/s ib_write_bw");
	r.what.gpu = true;
	r.what.bytes = 64 << 20;
	perf_judge(&s, &r, &v);
	assert_string_equal(v.reference, "22.31 GB/s");
	s.own.software = true;
	perf_judge(&s, &r, &v);
	assert_string_equal(v.reference, "");
	assert_true(v.limit_gbps <= 0);
	assert_string_equal(perf_word(0), "");
	assert_string_equal(perf_word(0.91), "excellent");
}

/* A way that gives nothing back for stall_ns of the open loop. Only that loop polls with nothing
 * under way: the first such poll begins the stall, however long the closed loop took. */
struct way {
	uint64_t posted, back, stall_from_ns, stall_ns;
};

static int method_post(void *arg)
{
	struct way *w = arg;

	w->posted++;
	return 0;
}

static int method_poll(void *arg)
{
	struct way *w = arg;
	uint64_t now = spw_monotonic_ns();

	if (w->back == w->posted) {
		if (!w->stall_from_ns)
			w->stall_from_ns = now;
		return 0;
	}
	if (now - w->stall_from_ns < w->stall_ns)
		return 0;
	w->back++;
	return 1;
}

static void method_idle(void *arg)
{
	(void)arg;
}

static void time_counts_from_when_it_was_due(void **state)
{
	struct way w = {.stall_ns = 100000000};
	const struct perf_method method = {method_post, method_poll, method_idle, &w, 1};
	struct perf_lat lat;
	struct spw_tsc tsc;

	(void)state;
	assert_int_equal(spw_tsc_calibrate(20, &tsc), 0);
	assert_int_equal(perf_latency(&method, &tsc, 10, 200, &lat), 0);
	assert_int_equal(lat.lost, 0);
	assert_int_equal(lat.intended, lat.open.count);
	/* Messages were due all the time: half of them waited, 50 ms on average. */
	assert_int_equal(lat.open.answer[SPW_HIST_POINT_p90], SPW_HIST_VALUE);
	assert_true(lat.open.value[SPW_HIST_POINT_p90] > 50000000);
	assert_true(lat.closed.value[SPW_HIST_POINT_p50] < 10000000);
}

static void what_did_not_come_back_is_lost(void **state)
{
	struct way w = {.stall_ns = 600000000};
	const struct perf_method method = {method_post, method_poll, method_idle, &w, 1};
	struct perf_lat lat;
	struct spw_tsc tsc;

	(void)state;
	assert_int_equal(spw_tsc_calibrate(20, &tsc), 0);
	/* Nothing comes back for longer than the open loop and its drain. */
	assert_int_equal(perf_latency(&method, &tsc, 10, 100, &lat), 0);
	assert_true(lat.lost > 0);
	assert_int_equal(lat.intended, lat.open.count + lat.lost);
	assert_int_equal(lat.open.answer[SPW_HIST_POINT_max], SPW_HIST_LOST);
}

static void bonds_of_one_subnet(void **state)
{
	static struct perf_end own, peer;
	const struct perf_bond *a = NULL, *b = NULL;

	(void)state;
	own.bond_cnt = peer.bond_cnt = 2;
	own.bond[0] = (struct perf_bond){"bond0", "10.1.0.1", "a+b", 24};
	own.bond[1] = (struct perf_bond){"bond1", "10.2.0.1", "c+d", 24};
	peer.bond[0] = (struct perf_bond){"bond0", "10.3.0.2", "a+b", 24};
	peer.bond[1] = (struct perf_bond){"bond1", "10.2.0.2", "e+f", 16};
	assert_false(perf_pair_bonds(&own, &peer, &a, &b));
	peer.bond[1].prefix = 24;
	assert_true(perf_pair_bonds(&own, &peer, &a, &b));
	assert_ptr_equal(a, &own.bond[1]);
	assert_ptr_equal(b, &peer.bond[1]);
}

static void facts_travel(void **state)
{
	static struct perf_end own, back;
	json_t *json;

	(void)state;
	machine("x86-connectx5", &own);
	own.memory_max = 1ull << 40;
	own.nic[0].port_enforced_mbps = 13000;
	own.nic[0].pcie_enforced_mbps = 100000;
	own.bond[0] = (struct perf_bond){"bond0", "10.1.0.1", "eth0+eth1", 24};
	own.bond_cnt = 1;
	own.other[0] = (struct spw_plat_rdma){"rxe0", "rxe", "eth0", true};
	own.other_cnt = 1;
	json = perf_facts_json(&own);
	assert_non_null(json);
	assert_int_equal(perf_facts_parse(json, &back), 0);
	assert_memory_equal(own.nic, back.nic, sizeof(own.nic));
	assert_memory_equal(own.bond, back.bond, sizeof(own.bond));
	assert_int_equal(own.other_cnt, back.other_cnt);
	assert_memory_equal(own.other, back.other, sizeof(own.other));
	assert_int_equal(own.memory_max, back.memory_max);
	assert_string_equal(own.machine, back.machine);
	json_object_set_new(json_array_get(json_object_get(json, "nics"), 0), "prefix",
			    json_integer(33));
	assert_int_equal(perf_facts_parse(json, &back), -EPROTO);
	json_object_set_new(json, "memory_max", json_string("much"));
	assert_int_equal(perf_facts_parse(json, &back), -EPROTO);
	json_decref(json);
}

static void cases_are_checked(void **state)
{
	const struct perf_case good = {
		.op = PERF_READ, .bytes = 64, .rails = 3, .streams = 2, .ms = 100};
	const struct {
		const char *name;
		json_t *value;
	} wrong[] = {{"op", json_string("erase")},     {"bytes", json_integer(0)},
		     {"bytes", json_real(1.5)},        {"bytes", json_integer(-1)},
		     {"rails_mask", json_integer(16)}, {"streams", json_integer(17)},
		     {"ms", json_integer(1 << 30)},    {"streams", json_integer(0)}};
	struct perf_case back;

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(wrong); i++) {
		json_t *json = perf_case_json(&good);

		assert_int_equal(perf_case_parse(json, &back), 0);
		assert_int_equal(back.rails, good.rails);
		json_object_set_new(json, wrong[i].name, wrong[i].value);
		assert_true(perf_case_parse(json, &back) < 0);
		json_decref(json);
	}
}

/* As nccl-tests defines them, for two ranks. */
static void bus_bytes_of_collectives(void **state)
{
	const struct {
		enum perf_coll coll;
		uint64_t bus, part;
	} want[] = {{PERF_COLL_ALL_GATHER, 512, 512},
		    {PERF_COLL_ALL_REDUCE, 1024, 1024},
		    {PERF_COLL_BROADCAST, 1024, 1024},
		    {PERF_COLL_REDUCE_SCATTER, 512, 1024},
		    {PERF_COLL_SENDRECV, 1024, 1024}};

	(void)state;
	for (size_t i = 0; i < SPW_ARRAY_CNT(want); i++) {
		const struct perf_case what = {.op = PERF_COLL,
					       .coll = want[i].coll,
					       .net = PERF_NET_IB,
					       .bytes = 1024,
					       .rails = 1,
					       .streams = 1,
					       .ms = 1};
		json_t *json = perf_case_json(&what);
		struct perf_case back;

		assert_int_equal(perf_coll_bus_bytes(&what), want[i].bus);
		assert_int_equal(perf_coll_part_bytes(&what), want[i].part);
		assert_int_equal(perf_case_parse(json, &back), 0);
		assert_int_equal(back.coll, what.coll);
		assert_int_equal(back.net, what.net);
		json_object_set_new(json, "coll", json_string("none"));
		assert_int_equal(perf_case_parse(json, &back), -EPROTO);
		json_object_set_new(json, "net", json_string("smoke"));
		assert_int_equal(perf_case_parse(json, &back), -EPROTO);
		json_decref(json);
	}
}

static void bytes_that_did_not_cross_the_wire(void **state)
{
	const struct perf_phy all = {.known = true, .tx = 101 << 20, .rx = 101 << 20};
	const struct perf_phy still = {.known = true};
	const struct perf_phy unknown = {.why = "no interface"};
	struct perf_result r = {.what = {.op = PERF_WRITE, .bytes = 1 << 20},
				.own = {.total = 100}};

	(void)state;
	perf_phy_judge(&all, &all, &r);
	assert_int_equal(r.valid, PERF_VALID);
	perf_phy_judge(&all, &unknown, &r);
	assert_int_equal(r.valid, PERF_UNVERIFIED);
	assert_non_null(strstr(r.why, "no interface"));
	perf_phy_judge(&all, &still, &r);
	assert_int_equal(r.valid, PERF_INVALID);
	r = (struct perf_result){.what = {.op = PERF_READ, .bytes = 1 << 20},
				 .own = {.total = 102}};
	perf_phy_judge(&all, &all, &r); /* within what counters may lack */
	assert_int_equal(r.valid, PERF_VALID);
	r.own.total = 110;
	perf_phy_judge(&all, &all, &r);
	assert_int_equal(r.valid, PERF_INVALID);
}

static void a_wrong_byte_is_found(void **state)
{
	uint8_t at[61];

	(void)state;
	perf_pattern_fill(at, sizeof(at), 5);
	assert_int_equal(perf_pattern_check(at, sizeof(at), 5), sizeof(at));
	for (uint64_t i = 0; i < sizeof(at); i++) {
		at[i] ^= 0x40;
		assert_int_equal(perf_pattern_check(at, sizeof(at), 5), i);
		at[i] ^= 0x40;
	}
	assert_true(perf_pattern_check(at, sizeof(at), 6) < sizeof(at));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(halves_of_one_cable),
		cmocka_unit_test(functions_of_one_pcie_link),
		cmocka_unit_test(software_enforces),
		cmocka_unit_test(one_card),
		cmocka_unit_test(what_cannot_be_paired_says_why),
		cmocka_unit_test(figures_and_words),
		cmocka_unit_test(time_counts_from_when_it_was_due),
		cmocka_unit_test(what_did_not_come_back_is_lost),
		cmocka_unit_test(bonds_of_one_subnet),
		cmocka_unit_test(facts_travel),
		cmocka_unit_test(cases_are_checked),
		cmocka_unit_test(bus_bytes_of_collectives),
		cmocka_unit_test(bytes_that_did_not_cross_the_wire),
		cmocka_unit_test(a_wrong_byte_is_found),
	};

	if (argc != 2)
		return 1;
	platforms = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
