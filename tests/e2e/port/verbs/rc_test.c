/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * mode=rc between ports of ours: both operations, sizes, several peers, shared receive queues,
 * peers that come and go. The drivers of both ends are chosen by the environment (rc_kit.h).
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "rc_kit.h"

#define ANY "peers=127.0.0.1"

static const char *const op_name[] = {"send", "write"};

/* ---- one peer ---- */

static void traffic_with(const char *more, const char *keys, uint32_t slots, uint32_t bytes_max,
			 uint32_t window, uint64_t cnt)
{
	char server_keys[128];
	struct kit_end server, client, *end[] = {&server, &client};
	const struct kit_end_conf conf = {
		.keys = keys, .slots = slots, .slot_bytes = SPW_ALIGN_UP(bytes_max, 64u)};
	struct kit_end_conf server_conf = conf;
	uint16_t port = kit_free_port();

	snprintf(server_keys, sizeof(server_keys), ANY ",peer_max=1,%s%s", keys, more);
	server_conf.keys = server_keys;
	kit_server(&server, port, &server_conf);
	kit_client(&client, port, &conf);
	client.bytes_max = bytes_max;
	client.window = window;
	client.imm = strstr(keys, "op=send") != NULL;
	kit_pump(end, 2, cnt);
	kit_settle(end, 2);
	assert_int_equal(server.down, 0);
	kit_close(&client);
	kit_close(&server);
}

static void traffic(const char *keys, uint32_t slots, uint32_t bytes_max, uint32_t window,
		    uint64_t cnt)
{
	traffic_with("", keys, slots, bytes_max, window, cnt);
}

static void unequal_mtus_meet_at_the_smaller_one(void **state SPW_UNUSED)
{
	traffic_with(",mtu=512", "op=send", 256, 4096, 64, 500);
	traffic_with(",mtu=256", "op=write", 256, 4096, 64, 500);
}

static void send_mixed_sizes(void **state SPW_UNUSED)
{
	traffic("op=send", 256, 4096, 64, 3000);
}

static void write_mixed_sizes(void **state SPW_UNUSED)
{
	traffic("op=write", 256, 4096, 64, 3000);
}

static void send_on_a_shared_queue(void **state SPW_UNUSED)
{
	traffic("op=send,srq=1", 256, 4096, 64, 3000);
}

static void write_on_a_shared_queue(void **state SPW_UNUSED)
{
	traffic("op=write,srq=1", 256, 4096, 64, 3000);
}

/* One message at a time, and windows that divide nothing. */
static void few_credits(void **state SPW_UNUSED)
{
	traffic("op=send,credits=1", 64, 2048, 8, 500);
	traffic("op=write,credits=1", 64, 2048, 8, 500);
	traffic("op=send,credits=7", 64, 2048, 32, 1000);
	traffic("op=write,credits=7", 64, 2048, 32, 1000);
}

/* The ring of grants holds 4096 numbers: it goes round. */
static void grants_go_round_their_ring(void **state SPW_UNUSED)
{
	traffic("op=write", 512, 64, 300, 10000);
}

static void long_messages(void **state SPW_UNUSED)
{
	traffic("op=send,credits=2", 12, 4u << 20, 3, 20);
	traffic("op=write,credits=2", 6, 4u << 20, 3, 20);
}

/* 1 byte to 64 MiB, one more and one less than each power of 2. */
static void every_size(const char *keys, uint32_t slots)
{
	char server_keys[128];
	struct kit_end server, client, *end[] = {&server, &client};
	struct kit_end_conf conf = {
		.keys = server_keys, .slots = slots, .slot_bytes = SPW_DESC_LEN_MAX};
	uint32_t size[80], cnt = 0;
	uint16_t port = kit_free_port();

	for (uint32_t bytes = 2; bytes <= SPW_DESC_LEN_MAX; bytes *= 2) {
		size[cnt++] = bytes - 1;
		size[cnt++] = bytes;
		if (bytes < SPW_DESC_LEN_MAX)
			size[cnt++] = bytes + 1;
	}
	snprintf(server_keys, sizeof(server_keys), ANY ",peer_max=1,credits=1,%s", keys);
	kit_server(&server, port, &conf);
	snprintf(server_keys, sizeof(server_keys), "credits=1,%s", keys);
	kit_client(&client, port, &conf);
	client.size = size;
	client.size_cnt = cnt;
	client.window = 1;
	kit_pump(end, 2, cnt);
	kit_settle(end, 2);
	kit_close(&client);
	kit_close(&server);
}

static void send_every_size(void **state SPW_UNUSED)
{
	every_size("op=send", 8);
}

static void write_every_size(void **state SPW_UNUSED)
{
	every_size("op=write", 2);
}

/* ---- several peers ---- */

static void three_peers(const char *op, const char *srq, uint16_t queues)
{
	char server_keys[128], client_keys[64];
	struct kit_end server, client[3], *end[] = {&server, &client[0], &client[1], &client[2]};
	struct kit_end_conf conf = {.keys = server_keys, .queues = queues};
	uint16_t port = kit_free_port();

	snprintf(server_keys, sizeof(server_keys), ANY ",peer_max=4,op=%s%s", op, srq);
	snprintf(client_keys, sizeof(client_keys), "op=%s", op);
	kit_server(&server, port, &conf);
	conf = (struct kit_end_conf){.keys = client_keys};
	for (int i = 0; i < 3; i++)
		kit_client(&client[i], port, &conf);
	kit_pump(end, 4, 1000);
	kit_settle(end, 4);
	assert_int_equal(server.up, 3);
	for (int i = 0; i < 3; i++)
		kit_close(&client[i]);
	kit_close(&server);
}

static void several_peers(void **state SPW_UNUSED)
{
	for (int i = 0; i < 2; i++) {
		three_peers(op_name[i], "", 1);
		three_peers(op_name[i], "", 2);
		three_peers(op_name[i], ",srq=1", 1);
	}
}

/* ---- coming and going ---- */

static bool peer_lost(struct kit_end *const *end, uint32_t cnt SPW_UNUSED, const void *arg)
{
	return end[0]->down >= *(const uint32_t *)arg;
}

/* One of two leaves in the middle of its traffic and comes back; the other does not notice. */
static void a_peer_leaves_and_comes_back(void **state SPW_UNUSED)
{
	for (int i = 0; i < 4; i++) {
		char server_keys[128], client_keys[64];
		struct kit_end server, stays, leaves, *end[] = {&server, &stays, &leaves};
		struct kit_end_conf conf = {.keys = server_keys, .slots = 128};
		struct spw_port_stat stat;
		uint16_t port = kit_free_port();

		snprintf(server_keys, sizeof(server_keys), ANY ",peer_max=2,op=%s,srq=%d",
			 op_name[i & 1], i >> 1);
		snprintf(client_keys, sizeof(client_keys), "op=%s", op_name[i & 1]);
		kit_server(&server, port, &conf);
		conf.keys = client_keys;
		kit_client(&stays, port, &conf);
		for (uint32_t round = 1; round <= 3; round++) {
			kit_client(&leaves, port, &conf);
			kit_pump(end, 3, 100);
			kit_close(&leaves);
			kit_until(end, 2, true, peer_lost, &round, "the server to notice");
		}
		kit_pump(end, 2, 100);
		kit_settle(end, 2);
		kit_stat(&server, &stat);
		assert_int_equal(stat.err[SPW_PORT_ERR_peer_gone], 3);
		assert_int_equal(stat.err[SPW_PORT_ERR_protocol], 0);
		assert_int_equal(stays.down, 0);
		kit_close(&stays);
		kit_close(&server);
	}
}

static bool up_again(struct kit_end *const *end, uint32_t cnt, const void *arg)
{
	return end[cnt - 1]->up >= *(const uint32_t *)arg;
}

/* The server goes; its client keeps trying, and its slots are all there when it is back. */
static void a_server_comes_back(void **state SPW_UNUSED)
{
	for (int i = 0; i < 2; i++) {
		struct kit_end server, client, *end[] = {&server, &client};
		struct kit_end_conf conf = {.keys = i ? "op=write" : "op=send"},
				    server_conf = {.keys = i ? ANY ",op=write" : ANY ",op=send"};
		const uint32_t twice = 2;
		uint16_t port = kit_free_port();

		kit_server(&server, port, &server_conf);
		kit_client(&client, port, &conf);
		kit_pump(end, 2, 200);
		kit_close(&server);
		kit_server(&server, port, &server_conf);
		kit_until(end, 2, false, up_again, &twice, "the second connection");
		client.echoed = client.sent; /* what was under way is lost, or came late */
		client.bad = 0;
		kit_pump(end, 2, 200);
		kit_settle(end, 2);
		assert_true(client.down >= 1);
		kit_close(&client);
		kit_close(&server);
	}
}

static bool all_taken(struct kit_end *const *end, uint32_t cnt SPW_UNUSED, const void *arg)
{
	return end[0]->p.rx[0] >= *(const uint64_t *)arg;
}

/* A server that only receives sends nothing but credits. When its peer goes, it gets its slots and
 * its place back. */
static void a_sink_loses_its_peers(void **state SPW_UNUSED)
{
	for (int i = 0; i < 4; i++) {
		char server_keys[128];
		struct kit_end server, client, *end[] = {&server, &client};
		struct kit_end_conf conf = {.keys = server_keys},
				    client_conf = {.keys = i & 1 ? "op=write" : "op=send"};
		uint16_t port = kit_free_port();

		snprintf(server_keys, sizeof(server_keys), ANY ",peer_max=1,op=%s,srq=%d",
			 op_name[i & 1], i >> 1);
		kit_server(&server, port, &conf);
		server.sink = true;
		for (uint32_t round = 1; round <= 5; round++) {
			const uint64_t want = 300 * round + round;

			kit_client(&client, port, &client_conf);
			client.window = UINT32_MAX;
			kit_until(end, 2, true, all_taken, &want, "messages at the sink");
			kit_close(&client);
			kit_until(end, 1, true, peer_lost, &round, "the server to notice");
		}
		kit_close(&server);
	}
}

static bool held(struct kit_end *const *end, uint32_t cnt SPW_UNUSED, const void *arg)
{
	return end[0]->held_cnt >= *(const uint32_t *)arg;
}

/* A server that gives no slot back: the client runs out of credits and waits; nothing is lost or
 * overrun. */
static void without_credits_nothing_is_sent(void **state SPW_UNUSED)
{
	for (int i = 0; i < 2; i++) {
		struct kit_end server, client, *end[] = {&server, &client};
		struct kit_end_conf conf = {.keys = i ? "op=write,credits=16"
						      : "op=send,credits=16"};
		struct kit_end_conf server_conf = {
			.keys = i ? ANY ",peer_max=1,op=write,credits=16"
				  : ANY ",peer_max=1,op=send,credits=16"};
		const uint32_t all = 16;
		uint16_t port = kit_free_port();

		kit_server(&server, port, &server_conf);
		kit_client(&client, port, &conf);
		server.hold = true;
		kit_until(end, 2, true, held, &all, "all credits to be used");
		for (int turn = 0; turn < 2000; turn++)
			kit_turn(end, 2, true);
		assert_int_equal(server.held_cnt, 16);
		assert_int_equal(server.down + client.down, 0);
		kit_close(&client);
		kit_close(&server);
	}
}

/* ---- what does not fit ---- */

static bool client_reported(struct kit_end *const *end, uint32_t cnt, const void *arg)
{
	return strstr(end[cnt - 1]->text, arg) != NULL;
}

static void write_secret(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static bool is_refused(struct kit_end *const *end, uint32_t cnt SPW_UNUSED,
		       const void *arg SPW_UNUSED)
{
	struct spw_port_stat stat;

	kit_stat(end[0], &stat);
	return stat.err[SPW_PORT_ERR_refused] >= 1;
}

/* %s in keys: a folder with two secrets, a and b. */
static bool only_client_reported(struct kit_end *const *end, uint32_t cnt SPW_UNUSED,
				 const void *arg)
{
	return strstr(end[0]->text, arg) != NULL;
}

static void refused(const char *dir, const char *server_keys, const char *client_keys,
		    const char *says)
{
	struct kit_end server, client, *end[] = {&server, &client};
	struct kit_end_conf conf;
	uint16_t port = kit_free_port();
	char keys[128];

	conf = (struct kit_end_conf){.keys = keys};
	snprintf(keys, sizeof(keys), server_keys, dir);
	kit_server(&server, port, &conf);
	snprintf(keys, sizeof(keys), client_keys, dir);
	kit_client(&client, port, &conf);
	kit_until(end, 2, true, client_reported, says, says);
	assert_int_equal(server.up + client.up, 0);
	kit_until(end, 2, false, is_refused, NULL, "the server to count it");
	kit_close(&client);
	kit_close(&server);
}

/* Where nobody listens, and later somebody does. */
static void who_calls_nobody_gets_an_event(void **state SPW_UNUSED)
{
	const struct kit_end_conf conf = {.keys = "op=send"};
	struct kit_end client, *end[] = {&client};
	uint16_t port = kit_free_port();
	struct spw_port_stat stat;

	kit_client(&client, port, &conf);
	kit_until(end, 1, false, only_client_reported, "nobody listens there",
		  "an event that says so");
	kit_stat(&client, &stat);
	assert_int_equal(stat.err[SPW_PORT_ERR_refused], 0); /* nobody refused anything */
	kit_close(&client);
}

static void what_does_not_fit_is_reported(void **state SPW_UNUSED)
{
	char dir[] = "/tmp/spw-rc-XXXXXX", path[64];

	assert_non_null(mkdtemp(dir));
	for (char name = 'a'; name <= 'b'; name++) {
		snprintf(path, sizeof(path), "%s/%c", dir, name);
		write_secret(path, name == 'a' ? "the first of two secrets"
					       : "the second of two secrets");
	}
	refused(dir, ANY ",op=send", "op=write", "it has op=send, we have op=write");
	refused(dir, "peers=10.0.0.0/8", "op=send", "are we in its peers=");
	refused(dir, ANY ",secret=%s/a", "secret=%s/b", "the secrets differ");
	refused(dir, ANY ",secret=%s/a", "op=send", "it wants a secret, and this end has none");
	snprintf(path, sizeof(path), "op=send,secret=%s/a", dir);
	traffic(path, 64, 512, 8, 100); /* and with the right one all is well */
	for (char name = 'a'; name <= 'b'; name++) {
		snprintf(path, sizeof(path), "%s/%c", dir, name);
		unlink(path);
	}
	rmdir(dir);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(send_mixed_sizes),
		cmocka_unit_test(unequal_mtus_meet_at_the_smaller_one),
		cmocka_unit_test(write_mixed_sizes),
		cmocka_unit_test(send_on_a_shared_queue),
		cmocka_unit_test(write_on_a_shared_queue),
		cmocka_unit_test(few_credits),
		cmocka_unit_test(grants_go_round_their_ring),
		cmocka_unit_test(long_messages),
		cmocka_unit_test(several_peers),
		cmocka_unit_test(a_peer_leaves_and_comes_back),
		cmocka_unit_test(a_server_comes_back),
		cmocka_unit_test(a_sink_loses_its_peers),
		cmocka_unit_test(without_credits_nothing_is_sent),
		cmocka_unit_test(what_does_not_fit_is_reported),
		cmocka_unit_test(who_calls_nobody_gets_an_event),
	};

	const struct CMUnitTest slow[] = {
		cmocka_unit_test(send_every_size),
		cmocka_unit_test(write_every_size),
	};

	if (argc > 1 && !strcmp(argv[1], "slow"))
		return cmocka_run_group_tests(slow, NULL, NULL);
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
