/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The four functions of --as dgx-spark: one card, two ports of two halves each, two PCIe links, and
 * the switch between them. The first argument is a path of the control socket, the second names the
 * group of tests; spark.py runs each group with its options.
 *
 *   rocep1s0f0 ──┐ PCIe link 0    ┌── p0      rocep1s0f1   ──┐ PCIe link 0    ┌── p1
 *   roceP2p1s0f0 ┘ PCIe link 1 ───┘           roceP2p1s0f1 ──┘ PCIe link 1 ───┘
 */
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/spw_types.h"
#include "verbs_kit.h"

enum { P0, P1, P0_2, P1_2, FUNCS };

static const char *const rdma[FUNCS] = {"rocep1s0f0", "rocep1s0f1", "roceP2p1s0f0", "roceP2p1s0f1"};
static const char *const netdev[FUNCS] = {"enp1s0f0np0", "enp1s0f1np1", "enP2p1s0f0np0",
					  "enP2p1s0f1np1"};
static const char *control_path;
static struct kit k[FUNCS];

/* ---- what the machine reports ---- */

static void ethtool(const char *name, void *cmd)
{
	struct ifreq ifr = {.ifr_data = cmd};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	assert_int_equal(ioctl(fd, SIOCETHTOOL, &ifr), 0);
	close(fd);
}

static uint64_t phy(unsigned f, const char *stat)
{
	union {
		struct ethtool_gstrings s;
		char room[64 * ETH_GSTRING_LEN];
	} names = {.s = {.cmd = ETHTOOL_GSTRINGS, .string_set = ETH_SS_STATS}};
	union {
		struct ethtool_stats s;
		char room[64 * 8];
	} values = {.s = {.cmd = ETHTOOL_GSTATS}};

	ethtool(netdev[f], &names);
	ethtool(netdev[f], &values);
	for (unsigned i = 0; i < names.s.len; i++)
		if (strcmp((char *)names.s.data + (size_t)i * ETH_GSTRING_LEN, stat) == 0)
			return values.s.data[i];
	fail_msg("%s has no %s", netdev[f], stat);
	return 0;
}

static void sysfs(const char *fmt, const char *name, char text[64])
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), fmt, name);
	file = fopen(path, "r");
	if (!file || !fgets(text, 64, file))
		fail_msg("%s cannot be read", path);
	fclose(file);
	text[strcspn(text, "\n")] = '\0';
}

static uint64_t counter(unsigned f, const char *name)
{
	return kit_counter(&k[f], name);
}

static void control(unsigned f, const char *line)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	char text[512] = "";
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(to.sun_path, sizeof(to.sun_path), f ? "%.50s.%s.%d" : "%.50s", control_path,
		 rdma[f], (int)getpid());
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	snprintf(text, sizeof(text), "%s\n", line);
	assert_true(send(fd, text, strlen(text), 0) > 0);
	assert_true(recv(fd, text, sizeof(text), 0) > 2);
	if (strncmp(text, "ok", 2))
		fail_msg("%s: %s", line, text);
	close(fd);
}

/* ---- pairs ---- */

struct way {
	struct kit_end a, b;
	struct kit *from, *to;
	uint32_t sent;
	uint64_t bytes;
};

/* An RC connection from one function to another: the other end's GID is the destination. */
static void way_open(struct way *w, unsigned from, unsigned to)
{
	static const struct kit_how patient = {.timeout = 19}; /* 2 s: low rates */
	const union ibv_gid from_gid = k[from].gid, to_gid = k[to].gid;

	*w = (struct way){.from = &k[from], .to = &k[to]};
	kit_end_open(w->from, &w->a, &patient);
	kit_end_open(w->to, &w->b, &patient);
	w->from->gid = to_gid;
	w->to->gid = from_gid;
	kit_end_connect(w->from, &w->a, w->b.qp->qp_num, &patient);
	kit_end_connect(w->to, &w->b, w->a.qp->qp_num, &patient);
	w->from->gid = from_gid;
	w->to->gid = to_gid;
}

static void way_close(struct way *w)
{
	kit_end_close(&w->a);
	kit_end_close(&w->b);
}

static int open_all(void **state)
{
	(void)state;
	for (unsigned i = 0; i < FUNCS; i++)
		kit_open_device(&k[i], rdma[i]);
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	for (unsigned i = 0; i < FUNCS; i++)
		kit_close(&k[i]);
	return 0;
}

static void write_once(struct way *w, uint32_t bytes)
{
	uint8_t *far = w->to->buf + KIT_BUF_BYTES / 2;

	kit_fill(w->from->buf, bytes, 5);
	memset(far, 0, bytes);
	assert_int_equal(kit_post(&w->a, IBV_WR_RDMA_WRITE, w->from->buf, bytes, w->from->mr->lkey,
				  (uintptr_t)far, w->to->mr->rkey),
			 0);
	kit_expect(w->a.cq, IBV_WC_SUCCESS, NULL);
	assert_true(kit_same(far, bytes, 5));
}

/* ---- one card ---- */

static void test_one_card(void **state)
{
	static const char *const port[FUNCS] = {"p0", "p1", "p0", "p1"};
	struct ibv_device_attr first, attr;
	char id[64], text[64];

	(void)state;
	assert_int_equal(ibv_query_device(k[0].ctx, &first), 0);
	sysfs("/sys/class/net/%s/phys_switch_id", netdev[0], id);
	for (unsigned i = 0; i < FUNCS; i++) {
		assert_int_equal(ibv_query_device(k[i].ctx, &attr), 0);
		assert_true(attr.sys_image_guid == first.sys_image_guid);
		assert_true((attr.node_guid == first.node_guid) == (i == 0));
		sysfs("/sys/class/net/%s/phys_switch_id", netdev[i], text);
		assert_string_equal(text, id);
		sysfs("/sys/class/net/%s/phys_port_name", netdev[i], text);
		assert_string_equal(text, port[i]);
		sysfs("/sys/class/infiniband/%s/device/current_link_width", rdma[i], text);
		assert_string_equal(text, "4");
		sysfs("/sys/class/infiniband/%s/device/current_link_speed", rdma[i], text);
		assert_string_equal(text, "32.0 GT/s PCIe");
	}
}

/* Two halves of a port talk inside the card: no port has seen a frame of it. */
static void test_halves_stay_off_the_wire(void **state)
{
	const uint64_t before = phy(P0, "tx_packets_phy") + phy(P0, "rx_packets_phy");
	const uint64_t sent = counter(P0, "counters/port_xmit_packets");
	struct way w;

	(void)state;
	way_open(&w, P0, P0_2);
	write_once(&w, 100000);
	way_close(&w);
	assert_true(counter(P0, "counters/port_xmit_packets") >= sent + 98);
	assert_int_equal(phy(P0, "tx_packets_phy") + phy(P0, "rx_packets_phy"), before);
	assert_int_equal(phy(P0_2, "tx_packets_phy") + phy(P0_2, "rx_packets_phy"), before);
}

/* Nor has it seen what a function sends to itself. */
static void test_itself_stays_off_the_wire(void **state)
{
	const uint64_t before = phy(P1, "tx_packets_phy") + phy(P1, "rx_packets_phy");
	const uint64_t sent = counter(P1, "counters/port_xmit_packets");
	struct way w;

	(void)state;
	way_open(&w, P1, P1);
	write_once(&w, 100000);
	way_close(&w);
	assert_true(counter(P1, "counters/port_xmit_packets") >= sent + 25);
	assert_int_equal(phy(P1, "tx_packets_phy") + phy(P1, "rx_packets_phy"), before);
}

/* Two ports talk over the cable, and both halves of a port report its counters. */
static void test_ports_use_the_wire(void **state)
{
	const uint64_t tx = phy(P0, "tx_packets_phy"), rx = phy(P1, "rx_packets_phy");
	struct way w;

	(void)state;
	way_open(&w, P0, P1_2);
	write_once(&w, 100000);
	way_close(&w);
	assert_true(phy(P0, "tx_packets_phy") >= tx + 98);
	assert_true(phy(P1, "rx_packets_phy") >= rx + 98);
	assert_true(phy(P0, "tx_bytes_phy") > 100000);
	assert_int_equal(phy(P0, "tx_packets_phy"), phy(P0_2, "tx_packets_phy"));
	assert_int_equal(phy(P1, "rx_packets_phy"), phy(P1_2, "rx_packets_phy"));
}

/* A link that negotiated low: both halves of the port report it, and the other port does not. */
static void test_link_speed(void **state)
{
	struct ibv_port_attr attr;
	char text[64];

	(void)state;
	control(P0, "fault=link-speed=40");
	for (unsigned i = 0; i < FUNCS; i++) {
		const bool low = i == P0 || i == P0_2;

		assert_int_equal(ibv_query_port(k[i].ctx, 1, &attr), 0);
		assert_int_equal(attr.active_speed, low ? 8 : 64); /* 10 or 50 Gb/s a lane */
		sysfs("/sys/class/infiniband/%s/ports/1/rate", rdma[i], text);
		assert_int_equal(atoi(text), low ? 40 : 200);
		sysfs("/sys/class/net/%s/speed", netdev[i], text);
		assert_int_equal(atoi(text), low ? 40000 : 200000);
	}
	control(P0, "fault=link-speed=none");
	assert_int_equal(ibv_query_port(k[P0_2].ctx, 1, &attr), 0);
	assert_int_equal(attr.active_speed, 64);
}

static void expect_port(unsigned f, enum ibv_port_state state)
{
	struct ibv_port_attr attr;

	assert_int_equal(ibv_query_port(k[f].ctx, 1, &attr), 0);
	assert_int_equal(attr.state, state);
}

/* A port that goes down goes down for both of its halves. The cable goes from one port of this card
 * to the other, which loses the carrier, both halves too; either half brings all of it back. */
static void test_link_down(void **state SPW_UNUSED)
{
	control(P0_2, "link-down=3600s");
	for (unsigned f = 0; f < FUNCS; f++) {
		kit_expect_event(&k[f], IBV_EVENT_PORT_ERR);
		expect_port(f, IBV_PORT_DOWN);
	}
	control(P0, "link-down=0s");
	for (unsigned f = 0; f < FUNCS; f++)
		kit_expect_event(&k[f], IBV_EVENT_PORT_ACTIVE);
}

/* Each port has a cable of its own, and nobody at the other end. */
static void test_link_down_of_one_port(void **state SPW_UNUSED)
{
	control(P0_2, "link-down=300ms");
	kit_expect_event(&k[P0_2], IBV_EVENT_PORT_ERR);
	kit_expect_event(&k[P0], IBV_EVENT_PORT_ERR);
	expect_port(P1_2, IBV_PORT_ACTIVE);
	kit_expect_event(&k[P0_2], IBV_EVENT_PORT_ACTIVE);
	kit_expect_event(&k[P0], IBV_EVENT_PORT_ACTIVE);
}

/* Who receives marked packets notifies their sender; each notification arrives before the last
 * acknowledgement. */
static void test_ecn(void **state)
{
	uint64_t marked, sent;
	struct way w;

	(void)state;
	control(P0, "fault=ecn=0.5");
	way_open(&w, P0, P1);
	write_once(&w, 400000);
	control(P0, "fault=ecn=0");
	marked = counter(P1, "hw_counters/np_ecn_marked_roce_packets");
	sent = counter(P1, "hw_counters/np_cnp_sent");
	assert_in_range(marked, 100, 300);
	assert_in_range(sent, 1, marked);
	assert_int_equal(counter(P0, "hw_counters/rp_cnp_handled"), sent);
	assert_int_equal(counter(P0, "hw_counters/rp_cnp_ignored"), 0);
	assert_int_equal(counter(P0, "hw_counters/np_ecn_marked_roce_packets"), 0);
	assert_int_equal(counter(P0, "hw_counters/np_cnp_sent"), 0);
	way_close(&w);
}

/* ---- rates ---- */

#define MESSAGE 65536u
#define DEEP    4u
#define WARM_US 500000u
#define RUN_US  1500000u

static void keep_busy(struct way *w)
{
	struct ibv_wc wc[DEEP];
	const int n = ibv_poll_cq(w->a.cq, DEEP, wc);

	for (int i = 0; i < n; i++)
		assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
	w->sent -= (uint32_t)n;
	w->bytes += (uint64_t)n * MESSAGE;
	for (; w->sent < DEEP; w->sent++)
		assert_int_equal(kit_post(&w->a, IBV_WR_RDMA_WRITE, w->from->buf, MESSAGE,
					  w->from->mr->lkey, (uintptr_t)w->to->buf,
					  w->to->mr->rkey),
				 0);
}

/* What these connections carry together, Mb/s. */
static double carries(const unsigned (*pair)[2], unsigned cnt)
{
	uint64_t start = 0, begin = kit_now_us(), now;
	struct way w[2];
	double mbps = 0;

	for (unsigned i = 0; i < cnt; i++)
		way_open(&w[i], pair[i][0], pair[i][1]);
	do {
		for (unsigned i = 0; i < cnt; i++)
			keep_busy(&w[i]);
		now = kit_now_us();
		if (!start && now - begin > WARM_US) {
			start = now;
			for (unsigned i = 0; i < cnt; i++)
				w[i].bytes = 0;
		}
		usleep(200);
	} while (!start || now - start < RUN_US);
	for (unsigned i = 0; i < cnt; i++) {
		mbps += (double)w[i].bytes * 8 / (double)(now - start);
		way_close(&w[i]);
	}
	return mbps;
}

#define TRIES 4 /* a busy machine takes the NIC thread's core; no try may exceed the rate */

static void expect_rate(const char *what, const unsigned (*pair)[2], unsigned cnt, double want)
{
	double got = 0;

	for (unsigned i = 0; i < TRIES && got < 0.75 * want; i++) {
		got = carries(pair, cnt);
		print_message("%s: %.0f Mb/s\n", what, got);
		if (got > 1.1 * want)
			break;
	}
	if (got < 0.75 * want || got > 1.1 * want)
		fail_msg("%s: %.0f Mb/s, not %.0f", what, got, want);
}

/* With --rate port=0.2,pcie=0.1: a half carries half of its cable. */
static void test_pcie_limits(void **state)
{
	static const unsigned half[][2] = {{P0, P1}}, halves[][2] = {{P0, P1}, {P0_2, P1_2}},
			      cables[][2] = {{P0, P1_2}, {P1, P0_2}};

	(void)state;
	expect_rate("one half of a cable", half, 1, 100);
	expect_rate("both halves of a cable", halves, 2, 200);
	expect_rate("two cables, one PCIe link", cables, 2, 100);
}

/* With --rate port=0.1,pcie=0.4: halves share the port, and not the switch inside the card. */
static void test_port_limits(void **state)
{
	static const unsigned halves[][2] = {{P0, P1}, {P0_2, P1_2}}, inside[][2] = {{P0, P0_2}};

	(void)state;
	expect_rate("both halves of a slow port", halves, 2, 100);
	expect_rate("inside the card", inside, 1, 400);
}

/* With --rate pcie=0.1,pause=off: two links send to one, whose port discards what it cannot hold.
 */
static void test_discards(void **state)
{
	static const unsigned both[][2] = {{P0, P1}, {P0_2, P1}};
	const uint64_t paused = phy(P1, "tx_pause_ctrl_phy");
	double got;

	(void)state;
	got = carries(both, 2);
	print_message("two links into one: %.0f Mb/s\n", got);
	assert_true(got < 1.1 * 100);
	assert_true(phy(P1, "rx_discards_phy") > 0);
	assert_int_equal(phy(P1, "tx_pause_ctrl_phy"), paused);
}

/* The state in which a port carries a fraction of what all else promises. */
static void test_slow_port(void **state)
{
	static const unsigned pair[][2] = {{P0, P1}}, back[][2] = {{P1, P0}};
	struct ibv_port_attr attr;

	(void)state;
	control(P1, "fault=port-rate=0.05");
	expect_rate("into a slow port", pair, 1, 50);
	expect_rate("out of a slow port", back, 1, 50);
	assert_true(phy(P1, "tx_pause_ctrl_phy") > 0); /* it stopped the other end */
	assert_int_equal(ibv_query_port(k[P1].ctx, 1, &attr), 0);
	assert_int_equal(attr.active_speed, 64);
	control(P1, "fault=port-rate=none");
}

/* ---- unplugged ---- */

static bool is_listed(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	bool found = false;

	assert_non_null(list);
	for (int i = 0; list[i]; i++)
		found |= strcmp(ibv_get_device_name(list[i]), name) == 0;
	ibv_free_device_list(list);
	return found;
}

/* The ports go down, then every function leaves: commands fail, nothing is listed any more. */
static void test_unplug(void **state)
{
	(void)state;
	control(P0, "unplug");
	for (unsigned i = 0; i < FUNCS; i++) {
		kit_expect_event(&k[i], IBV_EVENT_PORT_ERR);
		kit_expect_event(&k[i], IBV_EVENT_DEVICE_FATAL);
		assert_null(ibv_alloc_pd(k[i].ctx));
	}
	for (unsigned i = 0; i < FUNCS; i++) {
		assert_false(is_listed(rdma[i]));
		assert_int_equal(access("/sys/bus/pci/devices/0002:01:00.1/vendor", F_OK), -1);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest card[] = {
		cmocka_unit_test(test_one_card),
		cmocka_unit_test(test_halves_stay_off_the_wire),
		cmocka_unit_test(test_itself_stays_off_the_wire),
		cmocka_unit_test(test_ports_use_the_wire),
		cmocka_unit_test(test_link_speed),
		cmocka_unit_test(test_link_down),
		cmocka_unit_test(test_ecn),
	};
	const struct {
		const char *name;
		struct CMUnitTest test[1];
		int (*close)(void **state);
	} single[] = {
		{"pcie", {cmocka_unit_test(test_pcie_limits)}, close_all},
		{"port", {cmocka_unit_test(test_port_limits)}, close_all},
		{"discard", {cmocka_unit_test(test_discards)}, close_all},
		{"slow", {cmocka_unit_test(test_slow_port)}, close_all},
		{"apart", {cmocka_unit_test(test_link_down_of_one_port)}, close_all},
		{"unplug", {cmocka_unit_test(test_unplug)}, NULL},
	};

	if (argc < 3)
		return 2;
	control_path = argv[1];
	for (unsigned i = 0; i < SPW_ARRAY_CNT(single); i++)
		if (!strcmp(argv[2], single[i].name))
			return cmocka_run_group_tests(single[i].test, open_all, single[i].close);
	return cmocka_run_group_tests(card, open_all, close_all);
}
