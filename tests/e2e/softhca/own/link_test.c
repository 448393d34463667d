/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A cable whose link is down at one end: both ends see it go, and frames of both directions are
 * lost and counted. With a third device there is a switch between the two: only the one port goes
 * down. The first argument is the control socket of the device that goes down, the second "cable"
 * or "switch"; fault.py gives two or three devices.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "verbs_kit.h"

#define BYTES 512u

enum { DOWN, FAR, DEVS };

static struct kit k[DEVS];
static struct kit_end e[DEVS];
static const char *control_path;

/* Returns: how many frames the device lost of those that left and of those that arrived. */
struct lost {
	unsigned tx, rx;
};

static struct lost say(const char *line)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	char answer[512] = "";
	struct lost lost;
	const char *at;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", control_path);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(dprintf(fd, "%s\n", line), strlen(line) + 1);
	assert_true(recv(fd, answer, sizeof(answer) - 1, 0) > 0);
	close(fd);
	at = strstr(answer, "tx_down=");
	if (strncmp(answer, "ok", 2) || !at ||
	    sscanf(at, "tx_down=%u rx_down=%u", &lost.tx, &lost.rx) != 2)
		fail_msg("%s: %s", line, answer);
	return lost;
}

static uint8_t *landing(unsigned i)
{
	return k[i].buf + KIT_BUF_BYTES / 2;
}

static void post_recv(unsigned i)
{
	assert_int_equal(kit_recv(&e[i], landing(i), BYTES, k[i].mr->lkey), 0);
}

/* Sends one message; the next completion is the request's own, so nothing arrived before it. */
static void send_from(unsigned i, unsigned seed)
{
	struct ibv_wc wc;

	kit_fill(k[i].buf, BYTES, seed);
	assert_int_equal(kit_post(&e[i], IBV_WR_SEND, k[i].buf, BYTES, k[i].mr->lkey, 0, 0), 0);
	kit_expect(e[i].cq, IBV_WC_SUCCESS, &wc);
	assert_int_equal(wc.opcode, IBV_WC_SEND);
}

/* A message arrives, and it is this one. */
static void comes_to(unsigned i, unsigned seed)
{
	struct ibv_wc wc;

	kit_expect(e[i].cq, IBV_WC_SUCCESS, &wc);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_true(kit_same(landing(i), BYTES, seed));
}

static void expect_port(unsigned i, enum ibv_port_state state)
{
	struct ibv_port_attr attr;

	assert_int_equal(ibv_query_port(k[i].ctx, 1, &attr), 0);
	assert_int_equal(attr.state, state);
}

static int open_both(void **state)
{
	static const struct kit_how uc = {.type = IBV_QPT_UC};
	union ibv_gid gid;

	(void)state;
	for (unsigned i = 0; i < DEVS; i++) {
		kit_open_device(&k[i], i == DOWN ? "mlx5_0" : "mlx5_1");
		kit_end_open(&k[i], &e[i], &uc);
	}
	gid = k[DOWN].gid; /* the kit connects to its own device */
	k[DOWN].gid = k[FAR].gid;
	k[FAR].gid = gid;
	kit_end_connect(&k[DOWN], &e[DOWN], e[FAR].qp->qp_num, &uc);
	kit_end_connect(&k[FAR], &e[FAR], e[DOWN].qp->qp_num, &uc);
	post_recv(DOWN);
	post_recv(FAR);
	send_from(FAR, 1); /* both devices learn the other's MAC */
	comes_to(DOWN, 1);
	post_recv(DOWN);
	return 0;
}

static int close_both(void **state)
{
	(void)state;
	for (unsigned i = 0; i < DEVS; i++) {
		kit_end_close(&e[i]);
		kit_close(&k[i]);
	}
	return 0;
}

/* Frames of the port that it sent and received. */
static uint64_t moved(unsigned i)
{
	return kit_counter(&k[i], "counters/port_rcv_packets") +
	       kit_counter(&k[i], "counters/port_xmit_packets");
}

static uint64_t discards(unsigned i)
{
	return kit_counter(&k[i], "counters/port_xmit_discards");
}

static void wait_for_discards(unsigned i, uint64_t cnt)
{
	const uint64_t end = kit_now_us() + KIT_WAIT_MS * 1000ull;

	while (discards(i) < cnt && kit_now_us() < end)
		;
	assert_int_equal(discards(i), cnt);
}

/* Both ends see it, and each loses what it sends, whichever end it is. */
static void test_cable(void **state)
{
	uint64_t was_moved[DEVS], was_lost[DEVS];

	(void)state;
	for (unsigned i = 0; i < DEVS; i++) {
		was_moved[i] = moved(i);
		was_lost[i] = discards(i);
	}
	say("link-down=3600s");
	for (unsigned i = 0; i < DEVS; i++) {
		kit_expect_event(&k[i], IBV_EVENT_PORT_ERR);
		expect_port(i, IBV_PORT_DOWN);
		assert_int_equal(kit_counter(&k[i], "counters/link_downed"), 1);
	}
	for (unsigned i = 0; i < DEVS; i++)
		send_from(i, 2 + i);
	for (unsigned i = 0; i < DEVS; i++) {
		wait_for_discards(i, was_lost[i] + 1);
		assert_int_equal(moved(i), was_moved[i]);
	}
	say("link-down=0s");
	for (unsigned i = 0; i < DEVS; i++) {
		kit_expect_event(&k[i], IBV_EVENT_PORT_ACTIVE);
		expect_port(i, IBV_PORT_ACTIVE);
	}
	send_from(FAR, 6);
	comes_to(DOWN, 6);
	send_from(DOWN, 7);
	comes_to(FAR, 7);
}

/* The far port keeps its carrier, and sends into a port that takes nothing. A device takes what
 * arrived before it sends, so the completion of its own request shows that nothing did. */
static void test_switch(void **state)
{
	const uint64_t was_moved = moved(DOWN), was_lost = discards(DOWN);
	struct lost before, after;

	(void)state;
	before = say("link-down=3600s");
	kit_expect_event(&k[DOWN], IBV_EVENT_PORT_ERR);
	send_from(FAR, 2);
	send_from(DOWN, 3);
	send_from(FAR, 4);
	send_from(DOWN, 5);
	wait_for_discards(DOWN, was_lost + 2);
	assert_int_equal(moved(DOWN), was_moved);
	expect_port(FAR, IBV_PORT_ACTIVE);
	after = say("link-down=0s");
	assert_int_equal(after.tx - before.tx, 2);
	assert_int_equal(after.rx - before.rx, 2);
	kit_expect_event(&k[DOWN], IBV_EVENT_PORT_ACTIVE);
	send_from(FAR, 6);
	comes_to(DOWN, 6);
	kit_expect_no_event(&k[FAR]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest cable[] = {cmocka_unit_test(test_cable)};
	const struct CMUnitTest three[] = {cmocka_unit_test(test_switch)};

	if (argc < 3)
		return 2;
	control_path = argv[1];
	if (!strcmp(argv[2], "switch"))
		return cmocka_run_group_tests(three, open_both, close_both);
	return cmocka_run_group_tests(cable, open_both, close_both);
}
