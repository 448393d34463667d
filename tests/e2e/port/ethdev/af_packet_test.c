/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * DPDK's net_af_packet on one end of a veth pair in a network namespace of the test's own; the test
 * sends and receives on the other end through a packet socket. Needs the right to make a namespace
 * (root): else skipped.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inter_test.h"

#define SKIP 77

static struct inter_port ip;
static int sock;

static int command(const char *text)
{
	int status = system(text);

	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The kernel may take a second until both ends of a pair carry frames. */
static int wait_for_carrier(const char *name)
{
	char text[80];

	snprintf(text, sizeof(text), "ip link show %s | grep -q 'state UP'", name);
	for (int i = 0; i < 1000; i++) {
		if (!command(text))
			return 0;
		usleep(10000);
	}
	fprintf(stderr, "%s has no carrier\n", name);
	return 1;
}

static int open_socket(void)
{
	struct sockaddr_ll addr = {.sll_family = AF_PACKET,
				   .sll_protocol = htons(ETH_P_ALL),
				   .sll_ifindex = (int)if_nametoindex("far")};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL)), one = 1;

	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)))
		return -1;
	setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, &one, sizeof(one));
	return fd;
}

static int set_up(void **state SPW_UNUSED)
{
	inter_open(&ip, "ethdev:net_af_packet0,iface=near", 4, 1, 1024);
	sock = open_socket();
	return sock < 0 ? -1 : 0;
}

static int tear_down(void **state SPW_UNUSED)
{
	close(sock);
	inter_close(&ip);
	return 0;
}

/* dst, src, tags, type, filling. Returns the length. */
static uint32_t make_frame(uint8_t *p, uint32_t len, uint64_t seq, const char *tags,
			   uint32_t tag_bytes)
{
	uint8_t *q = p + 12;

	for (uint32_t i = 0; i < len; i++)
		p[i] = inter_byte(seq, i);
	p[0] = p[6] = 0x02; /* local, no multicast */
	memcpy(q, tags, tag_bytes);
	memcpy(q + tag_bytes, "\x88\xb5", 2);
	return len;
}

static bool is_ours(const uint8_t *p, const struct spw_desc *d)
{
	for (uint32_t at = 12; at <= 20 && at + 2 <= d->len; at += 4)
		if (p[at] == 0x88 && p[at + 1] == 0xb5)
			return true;
	return false;
}

/* The next frame of the test's own type; others (IPv6 neighbour discovery) go back. */
static struct spw_desc next_frame(void)
{
	uint64_t end = inter_now_ms() + INTER_WAIT_MS;
	struct spw_desc d;

	while (inter_now_ms() < end) {
		if (!spw_port_rx_burst(&ip.port->queue[0], &d, 1)) {
			sched_yield();
			continue;
		}
		if (is_ours(inter_bytes(&ip, 0, &d), &d))
			return d;
		spw_port_release_burst(&ip.port->queue[0], &d.slot, 1);
	}
	fail_msg("no frame came");
	return d;
}

/* The echoed frame as the far end sees it; tci: of the tag that the kernel took off, 0 if none. */
static uint32_t far_receive(uint8_t *p, uint32_t room, uint16_t *tci)
{
	struct pollfd pfd = {.fd = sock, .events = POLLIN};
	char control[CMSG_SPACE(sizeof(struct tpacket_auxdata))];

	for (;;) {
		struct iovec iov = {.iov_base = p, .iov_len = room};
		struct msghdr msg = {.msg_iov = &iov,
				     .msg_iovlen = 1,
				     .msg_control = control,
				     .msg_controllen = sizeof(control)};
		struct sockaddr_ll from;
		ssize_t n;

		msg.msg_name = &from;
		msg.msg_namelen = sizeof(from);
		if (poll(&pfd, 1, INTER_WAIT_MS) != 1)
			fail_msg("nothing came back");
		n = recvmsg(sock, &msg, 0);
		assert_true(n > 0);
		if (from.sll_pkttype == PACKET_OUTGOING || n < 16)
			continue;
		*tci = 0;
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
			struct tpacket_auxdata aux;

			memcpy(&aux, CMSG_DATA(c), sizeof(aux));
			if (c->cmsg_type == PACKET_AUXDATA &&
			    (aux.tp_status & TP_STATUS_VLAN_VALID))
				*tci = aux.tp_vlan_tci;
		}
		if ((p[12] == 0x88 && p[13] == 0xb5) || (p[16] == 0x88 && p[17] == 0xb5))
			return (uint32_t)n;
	}
}

static void frames_arrive_and_go_back(void **state SPW_UNUSED)
{
	struct spw_port_stat st;
	uint8_t out[2048], in[2048];
	uint16_t tci;

	for (uint64_t seq = 0; seq < 500; seq++) {
		uint32_t len = make_frame(out, 60 + (uint32_t)(seq * 13 % 1440), seq, "", 0);
		struct spw_desc d, *list = &d;

		assert_int_equal(send(sock, out, len, 0), len);
		d = next_frame();
		assert_int_equal(d.len, len);
		assert_memory_equal(inter_bytes(&ip, 0, &d), out, len);
		assert_int_equal(spw_port_tx_burst(&ip.port->queue[0], &list, 1), 1);
		assert_int_equal(far_receive(in, sizeof(in), &tci), len);
		assert_memory_equal(in, out, len);
		inter_check_slots(&ip);
	}
	spw_port_stat(ip.port, &st);
	assert_true(st.missed_known);
	assert_int_equal(st.missed_frames, 0);
	assert_int_equal(st.wire_frames, st.rx_frames);
	assert_int_equal(st.port_copies, st.rx_frames);
	assert_int_equal(st.tx_frames, 500);
}

/* The kernel takes tags off; the frame has its tag all the same, and so has its echo. */
static void a_vlan_tag_stays_in_the_frame(void **state SPW_UNUSED)
{
	uint8_t out[256], in[256];
	uint32_t len = make_frame(out, 200, 9, "\x81\x00\x60\x05", 4);
	struct spw_desc d, *list = &d;
	uint16_t tci;

	assert_int_equal(send(sock, out, len, 0), len);
	d = next_frame();
	assert_int_equal(d.len, len);
	assert_memory_equal(inter_bytes(&ip, 0, &d), out, len);
	assert_int_equal(spw_port_tx_burst(&ip.port->queue[0], &list, 1), 1);
	assert_int_equal(far_receive(in, sizeof(in), &tci), len - 4);
	assert_int_equal(tci, 0x6005);
	assert_memory_equal(in + 12, out + 16, len - 16);
}

/* The outer tag's EtherType is lost within the PMD; the tag and the one behind it are not. */
static void an_outer_tag_keeps_its_number(void **state SPW_UNUSED)
{
	uint8_t out[256], in[256];
	uint32_t len = make_frame(out, 200, 9, "\x88\xa8\x60\x07\x81\x00\x60\x05", 8);
	struct spw_desc d, *list = &d;
	uint16_t tci;

	assert_int_equal(send(sock, out, len, 0), len);
	d = next_frame();
	memcpy(out + 12, "\x81\x00", 2);
	assert_int_equal(d.len, len);
	assert_memory_equal(inter_bytes(&ip, 0, &d), out, len);
	assert_int_equal(spw_port_tx_burst(&ip.port->queue[0], &list, 1), 1);
	assert_int_equal(far_receive(in, sizeof(in), &tci), len - 4);
	assert_int_equal(tci, 0x6007);
	assert_memory_equal(in + 12, out + 16, len - 16);
}

int main(void)
{
	const struct CMUnitTest test[] = {
		cmocka_unit_test_setup_teardown(frames_arrive_and_go_back, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_vlan_tag_stays_in_the_frame, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_outer_tag_keeps_its_number, set_up, tear_down),
	};

	if (unshare(CLONE_NEWNET)) {
		printf("skipped: no right to make a network namespace (%s)\n", strerror(errno));
		return SKIP;
	}
	if (command("ip link add name near type veth peer name far") ||
	    command("ip link set near up") || command("ip link set far up")) {
		printf("skipped: no veth pair can be made (ip link, of iproute2)\n");
		return SKIP;
	}
	if (wait_for_carrier("near") || wait_for_carrier("far"))
		return 1;
	inter_eal_init();
	return cmocka_run_group_tests_name("inter-af_packet", test, NULL, NULL);
}
