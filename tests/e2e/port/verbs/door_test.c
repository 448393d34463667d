/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Strangers at a port's TCP door: what they cost, and what they learn. A good peer gets in beside
 * them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../../../unit/unit_thread.h"
#include "base/spw_log.h"
#include "base/spw_order.h"
#include "peer/exchange.h"
#include "rdma/spw_rdma.h"
#include "rc_kit.h"

#define KEYS "peers=127.0.0.1,peer_max=2,exchange_ms=300"

static int dial(const char *from, uint16_t port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in me = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(inet_pton(AF_INET, from, &me.sin_addr), 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&me, sizeof(me)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

/* Bytes that came until the server closed; fails if it does not. */
static size_t heard(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint8_t bytes[512];
	size_t sum = 0;

	for (;;) {
		ssize_t n;

		assert_int_equal(poll(&p, 1, KIT_WAIT_S * 1000), 1);
		n = recv(fd, bytes, sizeof(bytes), 0);
		if (n <= 0)
			return sum;
		sum += (size_t)n;
	}
}

static size_t say_and_hear(uint16_t port, const void *bytes, size_t len)
{
	int fd = dial("127.0.0.1", port);
	size_t sum;

	assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
	sum = heard(fd);
	close(fd);
	return sum;
}

static uint64_t refused(struct kit_end *server)
{
	struct spw_port_stat stat;

	kit_stat(server, &stat);
	return stat.err[SPW_PORT_ERR_refused];
}

static bool are_refused(struct kit_end *const *end, uint32_t cnt, const void *least)
{
	return cnt && refused(end[0]) >= *(const uint64_t *)least;
}

/* Who is refused hears it before the control thread counts it. */
static void wait_refused(struct kit_end *server, uint64_t least)
{
	kit_until(&server, 1, false, are_refused, &least, "refusals");
}

static void expect_refused(struct kit_end *server, uint64_t want)
{
	wait_refused(server, want);
	assert_int_equal(refused(server), want);
}

static void good_peer_gets_in(struct kit_end *server, uint16_t port, const char *keys)
{
	struct kit_end good, *end[] = {server, &good};
	const struct kit_end_conf conf = {.keys = keys};

	kit_client(&good, port, &conf);
	kit_pump(end, 2, 20);
	kit_settle(end, 2);
	kit_close(&good);
}

/* A channel's greeting, and a message: what comes back. */
static size_t greet_and_hear(uint16_t port, const struct spw_oob_proto *proto, const char *secret)
{
	struct spw_oob_secret with = {.len = (uint32_t)strlen(secret)};
	struct spw_oob_channel ch;
	int fd = dial("127.0.0.1", port);
	size_t sum;

	memcpy(with.byte, secret, with.len);
	assert_int_equal(spw_oob_channel_begin(&ch, fd, true, &with, proto), 0);
	(void)spw_oob_channel_send(&ch, "", 0); /* it may be closed by now */
	sum = heard(fd);
	close(fd);
	return sum;
}

/* ---- */

static void who_is_not_listed_hears_nothing(void **state SPW_UNUSED)
{
	struct kit_end server;
	const struct kit_end_conf conf = {.keys = KEYS};
	uint16_t port = kit_free_port();
	int fd;

	kit_server(&server, port, &conf);
	fd = dial("127.0.0.2", port);
	assert_int_equal(heard(fd), 0);
	close(fd);
	expect_refused(&server, 1);
	good_peer_gets_in(&server, port, "op=send");
	kit_close(&server);
}

/* What a stranger at an allowed address can get: the server's version and nonce. */
static void noise_hears_a_greeting(void **state SPW_UNUSED)
{
	const struct spw_oob_proto old = {"SPWR", 1};
	const struct kit_end_conf conf = {.keys = KEYS};
	struct kit_end server;
	uint16_t port = kit_free_port();

	kit_server(&server, port, &conf);
	assert_true(say_and_hear(port, "GET / HTTP/1.1\r\n\r\n", 18) <= SPW_OOB_GREETING_BYTES);
	assert_true(greet_and_hear(port, &old, "") <= SPW_OOB_GREETING_BYTES);
	assert_int_equal(say_and_hear(port, "SPWR", 4),
			 SPW_OOB_GREETING_BYTES); /* and then silence, until its time is over */
	expect_refused(&server, 3);
	good_peer_gets_in(&server, port, "op=send");
	kit_close(&server);
}

/* Without the secret there is no more to be had, but that it is wrong. */
static void who_cannot_prove_it_hears_no_more(void **state SPW_UNUSED)
{
	char path[] = "/tmp/spw-rc-door-XXXXXX", keys[128];
	const struct kit_end_conf conf = {.keys = keys};
	struct kit_end server;
	uint16_t port = kit_free_port();
	int fd = mkstemp(path);

	assert_int_equal(write(fd, "a secret of some length", 23), 23);
	close(fd);
	snprintf(keys, sizeof(keys), KEYS ",secret=%s", path);
	kit_server(&server, port, &conf);
	unlink(path);
	for (int i = 0; i < 2; i++)
		assert_true(greet_and_hear(port, &peer_proto, i ? "" : "another of some length") <=
			    SPW_OOB_GREETING_BYTES + 4);
	expect_refused(&server, 2);
	kit_close(&server);
}

/* A crowd that opens connections and says a byte each. They make room for each other and for the
 * good peer, or hold their places for their time. */
static void a_slow_crowd_is_timed_out(void **state SPW_UNUSED)
{
	enum { CROWD = 60 };
	const struct kit_end_conf conf = {.keys = KEYS};
	struct kit_end server;
	uint16_t port = kit_free_port();
	int fd[CROWD];

	kit_server(&server, port, &conf);
	for (int i = 0; i < CROWD; i++) {
		fd[i] = dial("127.0.0.1", port);
		(void)!send(fd[i], "S", 1, MSG_NOSIGNAL); /* it may be closed by now */
	}
	good_peer_gets_in(&server, port, "op=send");
	for (int i = 0; i < CROWD; i++) {
		assert_true(heard(fd[i]) <= SPW_OOB_GREETING_BYTES);
		close(fd[i]);
	}
	wait_refused(&server, CROWD);
	kit_close(&server);
}

/* As many silent connections as one host may have, all with a minute left: the oldest makes room.
 */
static void a_silent_crowd_holds_nobody_out(void **state SPW_UNUSED)
{
	const struct kit_end_conf conf = {.keys = "peers=127.0.0.1,peer_max=2,exchange_ms=60000"};
	struct kit_end server;
	const double late = kit_seconds() + 30;
	uint16_t port = kit_free_port();
	int fd[8];

	kit_server(&server, port, &conf);
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(fd); i++)
		fd[i] = dial("127.0.0.1", port);
	good_peer_gets_in(&server, port, "op=send");
	assert_true(kit_seconds() < late);
	wait_refused(&server, 1);
	assert_int_equal(heard(fd[0]), SPW_OOB_GREETING_BYTES);
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(fd); i++)
		close(fd[i]);
	kit_close(&server);
}

/* More peers than there is room for: refused with that reason, after they proved themselves. */
static void a_full_table_says_so(void **state SPW_UNUSED)
{
	struct kit_end server, client[3], *end[] = {&server, &client[0], &client[1], &client[2]};
	const struct kit_end_conf server_conf = {.keys = KEYS}, conf = {.keys = "op=send"};
	const double give_up = kit_seconds() + KIT_WAIT_S;
	uint16_t port = kit_free_port();
	uint32_t full = 0;

	kit_server(&server, port, &server_conf);
	for (int i = 0; i < 3; i++)
		kit_client(&client[i], port, &conf);
	while (!full) {
		assert_true(kit_seconds() < give_up);
		kit_turn(end, 4, true);
		for (int i = 0; i < 3; i++)
			full += strstr(client[i].text, "peer_max=") != NULL;
	}
	assert_int_equal(full, 1);
	for (int i = 0; i < 3; i++)
		kit_close(&client[i]);
	kit_close(&server);
}

/* ---- no descriptors left ---- */

struct logged {
	uint32_t fails, again; /* fails: written by the control thread */
};

static void count_accept(enum spw_log_level level SPW_UNUSED, const char *text, void *arg)
{
	struct logged *logged = arg;

	if (strstr(text, "no peer can be accepted"))
		spw_thr_count(&logged->fails, 1);
	logged->again += strstr(text, "are accepted again") != NULL;
}

static pid_t control_thread(void)
{
	pid_t tid;

	assert_true(unit_threads("spw-rdma-ctl", &tid) > 0);
	return tid;
}

/* CPU time of another thread of this process: the kernel's encoding of its clock
 * (include/linux/posix-timers.h). */
static double cpu_seconds(pid_t tid)
{
	struct timespec ts;

	assert_int_equal(clock_gettime((clockid_t)(~(unsigned)tid << 3 | 6), &ts), 0);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* As many as are open, and one more. */
static void limit_files(struct rlimit *was)
{
	struct rlimit now;
	int fd = dup(0);

	assert_int_equal(getrlimit(RLIMIT_NOFILE, was), 0);
	now = *was;
	now.rlim_cur = (rlim_t)fd + 1;
	close(fd);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
}

static void a_server_without_descriptors_waits(void **state SPW_UNUSED)
{
	const struct kit_end_conf conf = {.keys = KEYS};
	struct logged logged = {0};
	struct kit_end server;
	struct rlimit was;
	uint16_t port = kit_free_port();
	double cpu, give_up;
	pid_t tid;
	int fd;

	spw_log_sink_set(count_accept, &logged);
	kit_server(&server, port, &conf);
	tid = control_thread();
	limit_files(&was);
	/* The kernel takes it; there is no descriptor to accept it with. */
	fd = dial("127.0.0.1", port);
	for (give_up = kit_seconds() + KIT_WAIT_S; !spw_thr_load_rlx(&logged.fails);) {
		assert_true(kit_seconds() < give_up);
		usleep(1000);
	}
	cpu = cpu_seconds(tid);
	usleep(600000);
	cpu = cpu_seconds(tid) - cpu;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(spw_thr_load_rlx(&logged.fails), 1);
	assert_true(cpu < 0.05);
	good_peer_gets_in(&server, port, "op=send");
	assert_int_equal(spw_thr_load_rlx(&logged.fails), 1);
	assert_int_equal(logged.again, 1);
	close(fd);
	kit_close(&server);
	spw_log_sink_set(NULL, NULL);
}

/* ---- clients without a device ---- */

/* Speaks the whole exchange, and has no QP behind what it offers. */
struct mute {
	struct peer_exchange x;
	struct peer_params ours;
};

static const struct spw_oob_secret no_secret;

static void mute_dial(struct mute *m, const char *from, uint16_t port, const char *gid)
{
	memset(m, 0, sizeof(*m));
	m->ours = (struct peer_params){.qpn = 0x777,
				       .psn = 7,
				       .mtu = 1024,
				       .op = SPW_PEER_OP_SEND,
				       .credit_cnt = 4,
				       .slot_bytes = 64,
				       .gid = {[10] = 0xff, [11] = 0xff}};
	assert_int_equal(inet_pton(AF_INET, gid, &m->ours.gid[12]), 1);
	peer_exchange_client(&m->x, dial(from, port), &no_secret, UINT64_MAX);
}

static bool mute_is_done(struct kit_end *const *end SPW_UNUSED, uint32_t cnt SPW_UNUSED,
			 const void *arg)
{
	struct mute *m = (struct mute *)(uintptr_t)arg;

	switch (peer_exchange_step(&m->x, 0)) {
	case PEER_TURN_TO_OFFER:
		peer_exchange_offer(&m->x, &m->ours);
		break;
	case PEER_TURN_TO_READY:
		peer_exchange_ready(&m->x);
		break;
	default:
		break;
	}
	return m->x.turn >= PEER_TURN_DONE;
}

static enum peer_turn mute_connect(struct mute *m, struct kit_end *server, const char *from,
				   uint16_t port, const char *gid)
{
	mute_dial(m, from, port, gid);
	kit_until(&server, 1, false, mute_is_done, m, "an exchange without a device");
	return m->x.turn;
}

static bool are_down(struct kit_end *const *end, uint32_t cnt SPW_UNUSED, const void *arg)
{
	return end[0]->down >= *(const uint32_t *)arg;
}

/* The address of a device on the cable: an unknown one is refused by the network already. */
static void device_address(char text[INET_ADDRSTRLEN])
{
	struct rdma_dev dev;
	struct rdma_gid gid;

	assert_int_equal(rdma_dev_open("mlx5_0", 1, &dev), 0);
	assert_int_equal(rdma_dev_gid(&dev, NULL, &gid), 0);
	assert_non_null(inet_ntop(AF_INET, &gid.gid.raw[12], text, INET_ADDRSTRLEN));
	rdma_dev_close(&dev);
}

/* It takes the share of its host, for the time that it has to say something on its QP: less than
 * the retries of what the server sends there (8.6 s). */
static void who_has_no_device_holds_no_entry(void **state SPW_UNUSED)
{
	const struct kit_end_conf conf = {
		.keys = "peers=127.0.0.0/8,peer_max=4,mtu=1024,exchange_ms=5000,timeout=18"};
	static const uint32_t all = 3; /* the good one's, and both mute ones' */
	struct kit_end server, *end = &server;
	struct mute m[3], again;
	uint16_t port = kit_free_port();
	char gid[INET_ADDRSTRLEN];

	device_address(gid);
	kit_server(&server, port, &conf);
	assert_int_equal(mute_connect(&m[0], &server, "127.0.0.2", port, gid), PEER_TURN_DONE);
	assert_int_equal(mute_connect(&m[1], &server, "127.0.0.2", port, gid), PEER_TURN_DONE);
	assert_int_equal(mute_connect(&m[2], &server, "127.0.0.2", port, gid), PEER_TURN_FAILED);
	assert_int_equal(m[2].x.why, PEER_REFUSED_host);
	assert_int_equal(m[2].x.value, 2);
	good_peer_gets_in(&server, port, "op=send,mtu=1024");
	kit_until(&end, 1, false, are_down, &all, "the mute ones' end");
	assert_non_null(strstr(server.text, "sent nothing on its QP"));
	assert_int_equal(heard(m[0].x.ch.fd), 0);
	assert_int_equal(heard(m[1].x.ch.fd), 0);
	expect_refused(&server, 3);
	assert_int_equal(mute_connect(&again, &server, "127.0.0.2", port, gid), PEER_TURN_DONE);
	for (int i = 0; i < 3; i++)
		close(m[i].x.ch.fd);
	close(again.x.ch.fd);
	kit_close(&server);
}

static void whose_gid_is_not_listed_gets_no_entry(void **state SPW_UNUSED)
{
	const struct kit_end_conf conf = {
		.keys = "peers=127.0.0.0/8,gids=10.99.0.0/16,peer_max=2,mtu=1024"};
	struct kit_end server;
	struct mute m;
	uint16_t port = kit_free_port();

	kit_server(&server, port, &conf);
	assert_int_equal(mute_connect(&m, &server, "127.0.0.2", port, "10.98.0.1"),
			 PEER_TURN_FAILED);
	assert_int_equal(m.x.why, PEER_REFUSED_gid);
	assert_int_equal(server.up, 0);
	expect_refused(&server, 1);
	close(m.x.ch.fd);
	kit_close(&server);
}

static void count_warning(enum spw_log_level level, const char *text, void *arg)
{
	*(uint32_t *)arg += level == SPW_LOG_WARN && strstr(text, "without secret=") != NULL;
}

static uint32_t warnings(const char *listen)
{
	uint16_t port = kit_free_port();
	char keys[64];
	const struct kit_end_conf conf = {.keys = keys};
	struct kit_end server;
	uint32_t cnt = 0;

	snprintf(keys, sizeof(keys), "listen=%s:%u,peers=127.0.0.1", listen,
		 port); /* the last listen= counts */
	spw_log_sink_set(count_warning, &cnt);
	kit_server(&server, port, &conf);
	spw_log_sink_set(NULL, NULL);
	kit_close(&server);
	return cnt;
}

static void an_open_door_is_warned_of(void **state SPW_UNUSED)
{
	assert_int_equal(warnings("127.0.0.1"), 0);
	assert_int_equal(warnings("0.0.0.0"), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_not_listed_hears_nothing),
		cmocka_unit_test(noise_hears_a_greeting),
		cmocka_unit_test(who_cannot_prove_it_hears_no_more),
		cmocka_unit_test(a_slow_crowd_is_timed_out),
		cmocka_unit_test(a_silent_crowd_holds_nobody_out),
		cmocka_unit_test(a_full_table_says_so),
		cmocka_unit_test(a_server_without_descriptors_waits),
		cmocka_unit_test(who_has_no_device_holds_no_entry),
		cmocka_unit_test(whose_gid_is_not_listed_gets_no_entry),
		cmocka_unit_test(an_open_door_is_warned_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
