/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which frames are ours, rule by rule; and frames that lie about themselves. Behind each frame that
 * must stay out goes one that must come in: what arrives next says which of them did.
 */
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "port_kit.h"
#include "prm/spw_prm.h"

#define FRAME_BYTES 90u
#define UDP         17
#define TCP         6
#define ICMP        1
#define IGMP        2

static struct kit_run run;

/* Zeros: untagged, to 02:...:02, from and to address 2 of the test networks. proto 0: no IP at all.
 * group: to 239.129.2.GROUP and its MAC address, whose last 23 bits are those of the group. */
struct packet {
	bool v6;
	uint16_t vlan;
	uint8_t mac, host, proto, group;
	uint16_t port;
};

/* Headers of p; number is the last byte. */
static void build(uint8_t *f, const struct packet *p, uint8_t number)
{
	static const uint8_t net4[4] = {198, 18, 0, 2},
			     net6[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 2};
	const uint8_t group4[4] = {239, 129, 2, p->group},
		      group_mac[6] = {1, 0, 94, 1, 2, p->group};
	uint8_t *at = f + 12, *l4;

	memset(f, 0, FRAME_BYTES);
	f[0] = f[6] = 2;
	f[5] = p->mac ? p->mac : 2;
	if (p->group && !p->mac)
		memcpy(f, group_mac, 6);
	if (p->vlan) {
		spw_prm_st16(at, 0x8100);
		spw_prm_st16(at + 2, p->vlan);
		at += 4;
	}
	spw_prm_st16(at, !p->proto ? 0x0806 : p->v6 ? 0x86dd : 0x0800);
	at += 2;
	if (p->v6) {
		at[0] = 0x60;
		spw_prm_st16(at + 4, 20);
		at[6] = p->proto;
		memcpy(at + 8, net6, 16);
		memcpy(at + 24, net6, 16);
		at[39] = p->host ? p->host : 2;
		l4 = at + 40;
	} else {
		at[0] = 0x45;
		spw_prm_st16(at + 2, 40);
		at[8] = 64;
		at[9] = p->proto;
		memcpy(at + 12, net4, 4);
		memcpy(at + 16, net4, 4);
		at[19] = p->host ? p->host : 2;
		if (p->group)
			memcpy(at + 16, group4, 4);
		l4 = at + 20;
	}
	spw_prm_st16(l4 + 2, p->port);
	if (p->proto == TCP)
		l4[12] = 0x50;
	else
		spw_prm_st16(l4 + 4, 20);
	f[FRAME_BYTES - 1] = number;
}

/* The number of the next frame that arrives. */
static uint8_t arrived(void)
{
	uint8_t frame[2048];
	struct spw_desc desc;

	kit_receive_bytes(&run.b, &desc, frame);
	assert_int_equal(desc.len, FRAME_BYTES);
	return frame[FRAME_BYTES - 1];
}

static void send(const struct packet *p, uint8_t number)
{
	uint8_t frame[FRAME_BYTES];

	build(frame, p, number);
	kit_send_bytes(&run, frame, sizeof(frame));
}

static const struct rule_case {
	const char *keys;
	struct packet in[5],
		out[5]; /* the first of in is real, lists end with a packet of all zeros */
} cases[] = {
	{"flow=all",
	 {{.proto = UDP, .port = 9},
	  {.v6 = true, .proto = TCP, .port = 80},
	  {.vlan = 7, .proto = ICMP},
	  {.mac = 5}},
	 {{0}}},
	{"udp=9",
	 {{.proto = UDP, .port = 9},
	  {.v6 = true, .proto = UDP, .port = 9},
	  {.mac = 5, .host = 7, .proto = UDP, .port = 9}},
	 {{.proto = UDP, .port = 10},
	  {.proto = TCP, .port = 9},
	  {.proto = ICMP},
	  {.v6 = true, .proto = TCP, .port = 9}}},
	{"tcp=80",
	 {{.proto = TCP, .port = 80}, {.v6 = true, .proto = TCP, .port = 80}},
	 {{.proto = UDP, .port = 80},
	  {.proto = TCP, .port = 81},
	  {.v6 = true, .proto = TCP, .port = 79}}},
	{"udp=9,udp=11,tcp=80",
	 {{.proto = UDP, .port = 9},
	  {.proto = UDP, .port = 11},
	  {.v6 = true, .proto = TCP, .port = 80}},
	 {{.proto = UDP, .port = 10}, {.proto = UDP, .port = 80}, {.proto = TCP, .port = 9}}},
	{"vlan=7",
	 {{.vlan = 7, .proto = UDP, .port = 9},
	  {.vlan = 7, .v6 = true, .proto = TCP, .port = 1},
	  {.vlan = 7, .mac = 5}},
	 {{.proto = UDP, .port = 9}, {.vlan = 8, .proto = UDP, .port = 9}, {.mac = 5}}},
	{"vlan=7,udp=9",
	 {{.vlan = 7, .proto = UDP, .port = 9}, {.vlan = 7, .v6 = true, .proto = UDP, .port = 9}},
	 {{.proto = UDP, .port = 9},
	  {.vlan = 7, .proto = UDP, .port = 10},
	  {.vlan = 8, .proto = UDP, .port = 9}}},
	{"ipv4=198.18.0.4",
	 {{.host = 4, .proto = UDP, .port = 9}, {.host = 4, .proto = ICMP}},
	 {{.proto = UDP, .port = 9}, {.host = 4, .v6 = true, .proto = UDP, .port = 9}, {.mac = 5}}},
	{"ipv6=2001:db8::4",
	 {{.host = 4, .v6 = true, .proto = UDP, .port = 9}, {.host = 4, .v6 = true, .proto = ICMP}},
	 {{.v6 = true, .proto = UDP, .port = 9}, {.host = 4, .proto = UDP, .port = 9}, {.mac = 5}}},
	{"mac=02:00:00:00:00:05",
	 {{.mac = 5, .proto = UDP, .port = 9},
	  {.mac = 5, .v6 = true, .proto = TCP, .port = 1},
	  {.mac = 5}},
	 {{.proto = UDP, .port = 9}, {.mac = 6, .proto = UDP, .port = 9}}},
	{"group=239.129.2.3,group=239.129.2.7",
	 {{.group = 3, .proto = UDP, .port = 9}, {.group = 7, .proto = UDP, .port = 11}},
	 {{.group = 4, .proto = UDP, .port = 9},
	  {.group = 3, .proto = IGMP},
	  {.group = 3, .mac = 2, .proto = UDP, .port = 9},
	  {.proto = UDP, .port = 9}}},
	{"group=239.129.2.3,udp=9,udp=11",
	 {{.group = 3, .proto = UDP, .port = 9}, {.group = 3, .proto = UDP, .port = 11}},
	 {{.group = 3, .proto = UDP, .port = 10},
	  {.group = 4, .proto = UDP, .port = 9},
	  {.proto = UDP, .port = 9},
	  {.v6 = true, .proto = UDP, .port = 9}}},
	{"group=239.1.2.3,group=239.129.2.4", /* the first has the MAC address of 239.129.2.3 */
	 {{.group = 4, .proto = UDP, .port = 9}},
	 {{.group = 3, .proto = UDP, .port = 9}}},
	{"group=198.18.0.2@239.129.2.3,group=198.18.0.9@239.129.2.4",
	 {{.group = 3, .proto = UDP, .port = 9}},
	 {{.group = 4, .proto = UDP, .port = 9}}},
	{"mac=02:00:00:00:00:05,vlan=7,ipv6=2001:db8::4,tcp=80",
	 {{.mac = 5, .vlan = 7, .host = 4, .v6 = true, .proto = TCP, .port = 80}},
	 {{.mac = 6, .vlan = 7, .host = 4, .v6 = true, .proto = TCP, .port = 80},
	  {.mac = 5, .vlan = 8, .host = 4, .v6 = true, .proto = TCP, .port = 80},
	  {.mac = 5, .vlan = 7, .host = 5, .v6 = true, .proto = TCP, .port = 80},
	  {.mac = 5, .vlan = 7, .host = 4, .v6 = true, .proto = TCP, .port = 81}}},
};

static bool is_last(const struct packet *p, size_t at)
{
	static const struct packet none;

	return at == SPW_ARRAY_CNT(cases[0].in) || !memcmp(p, &none, sizeof(none));
}

static void one_case(const char *driver, const struct rule_case *c)
{
	struct kit_conf a = {.spec = "mlx5:mlx5_0", .queues = 1, .profile = "latency"}, b = a;
	char spec[128];
	uint8_t number = 0;

	snprintf(spec, sizeof(spec), "%s:mlx5_1,%s", driver, c->keys);
	b.spec = spec;
	kit_open(&run, &a, &b);
	for (size_t i = 0; !is_last(&c->in[i], i); i++) {
		send(&c->in[i], ++number);
		if (arrived() != number)
			fail_msg("%s: packet %zu did not come", spec, i);
	}
	for (size_t i = 0; !is_last(&c->out[i], i); i++) {
		send(&c->out[i], ++number);
		send(&c->in[0], ++number);
		if (arrived() != number)
			fail_msg("%s: packet %zu came in", spec, i);
	}
	kit_close(&run);
}

static void test_rules(void **state)
{
	static const char *const driver[] = {"mlx5", "verbs"};

	(void)state;
	for (size_t d = 0; d < SPW_ARRAY_CNT(driver); d++)
		for (size_t i = 0; i < SPW_ARRAY_CNT(cases); i++)
			one_case(driver[d], &cases[i]);
}

/* Every length field of a frame may lie: what arrives is as long as the frame was, and its
 * checksums are not called good. */
static void liars(const char *profile)
{
	static const struct {
		uint32_t at, word;
	} lie[] = {
		{16, 0xffff}, {16, 21},     {16, 0},      {14, 0x4f00}, {14, 0x4000},
		{38, 0xffff}, {38, 7},      {38, 0},      {12, 1500},   {12, 0x8100},
		{20, 0x2000}, {20, 0x1fff}, {22, 0x4006},
	};
	struct kit_conf a = {.spec = "mlx5:mlx5_0", .queues = 1, .profile = "latency"},
			b = {.spec = "mlx5:mlx5_1", .queues = 1};
	const struct packet honest = {.proto = UDP, .port = 9};

	b.profile = profile;
	kit_open(&run, &a, &b);
	for (size_t i = 0; i < SPW_ARRAY_CNT(lie); i++) {
		uint8_t frame[FRAME_BYTES], got[2048];
		struct spw_desc desc;

		build(frame, &honest, (uint8_t)i);
		spw_prm_st16(
			frame + 40,
			0x1234); /* a UDP checksum that is wrong, and no IPv4 checksum at all */
		spw_prm_st16(frame + lie[i].at, (uint16_t)lie[i].word);
		for (uint32_t bytes = 60; bytes <= FRAME_BYTES; bytes += 30) {
			kit_send_bytes(&run, frame, bytes);
			kit_receive_bytes(&run.b, &desc, got);
			assert_int_equal(desc.len, bytes);
			assert_false(desc.flags & SPW_DESC_L4_OK && desc.flags & SPW_DESC_L3_OK);
			assert_memory_equal(got, frame, bytes);
		}
	}
	kit_close(&run);
}

static void test_frames_that_lie(void **state)
{
	(void)state;
	liars("latency");
	liars("throughput");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules),
					   cmocka_unit_test(test_frames_that_lie)};

	return cmocka_run_group_tests_name("flow rules", tests, NULL, NULL);
}
