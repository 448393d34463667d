/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A link that is down loses what leaves and what arrives, counted as a card counts it: two devices,
 * one of them with its link down. The first argument is its control socket.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "verbs_kit.h"

#define BYTES 512u

enum { DOWN, UP, DEVS };

static struct kit k[DEVS];
static struct kit_end e[DEVS];
static const char *control_path;

static void say(const char *line)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	char answer[512] = "";
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", control_path);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(dprintf(fd, "%s\n", line), strlen(line) + 1);
	assert_true(recv(fd, answer, sizeof(answer) - 1, 0) > 0);
	if (strncmp(answer, "ok", 2))
		fail_msg("%s: %s", line, answer);
	close(fd);
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
	k[DOWN].gid = k[UP].gid;
	k[UP].gid = gid;
	kit_end_connect(&k[DOWN], &e[DOWN], e[UP].qp->qp_num, &uc);
	kit_end_connect(&k[UP], &e[UP], e[DOWN].qp->qp_num, &uc);
	post_recv(DOWN);
	post_recv(UP);
	send_from(UP, 1); /* both devices learn the other's MAC */
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

static void wait_for_discards(uint64_t before)
{
	const uint64_t end = kit_now_us() + KIT_WAIT_MS * 1000ull;

	while (kit_counter(&k[DOWN], "counters/port_xmit_discards") == before && kit_now_us() < end)
		;
	assert_true(kit_counter(&k[DOWN], "counters/port_xmit_discards") > before);
}

/* A device takes what arrived before it sends, so the completion of its own request shows that
 * nothing did. */
static void test_link_down_loses_both_ways(void **state)
{
	static const char *const still[] = {"counters/port_rcv_packets",
					    "counters/port_xmit_packets"};
	uint64_t before[2], discards;

	(void)state;
	say("link-down=3600s");
	discards = kit_counter(&k[DOWN], "counters/port_xmit_discards");
	for (unsigned i = 0; i < 2; i++)
		before[i] = kit_counter(&k[DOWN], still[i]);
	send_from(UP, 2);
	send_from(DOWN, 3);
	send_from(UP, 4);
	send_from(DOWN, 5);
	wait_for_discards(discards);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(kit_counter(&k[DOWN], still[i]), before[i]);
	say("link-down=0s");
	send_from(UP, 6);
	comes_to(DOWN, 6);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_link_down_loses_both_ways)};

	if (argc < 2)
		return 2;
	control_path = argv[1];
	return cmocka_run_group_tests(tests, open_both, close_both);
}
