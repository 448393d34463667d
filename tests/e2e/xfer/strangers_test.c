/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Whatever reaches a listener's port: other protocols, other versions, wrong keys, frames that are
 * replayed, out of place or out of range, and silence. Each costs one line and nothing else:
 * a connection that exists carries on, and the next peer can connect. Arguments: the rails of both
 * ends.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "oob/spw_oob_socket.h"
#include "xfer/connection.h"
#include "xfer/endpoint.h"
#include "xfer_kit.h"

#define EXCHANGE_MS 300u

static const char *rails_a = "mlx5_0", *rails_b = "mlx5_1";
static struct kit k;
static struct spw_xfer_handle handle;
static struct spw_xfer_listener *listener;
static struct spw_xfer *rogue_x; /* of a stranger; nothing advances it */
static char secret[64], other_secret[64];
static char last[1024]; /* what was logged */
static uint32_t lines;

static void on_log(enum spw_log_level level, const char *text, void *arg SPW_UNUSED)
{
	lines += level != SPW_LOG_INFO;
	snprintf(last, sizeof(last), "%s", text);
}

static void write_secret(char path[64], const char *text)
{
	int fd;

	snprintf(path, 64, "/tmp/spw-secret-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static int open_with(uint32_t exchange_ms)
{
	struct spw_xfer_conf conf = {.exchange_ms = exchange_ms, .secret = secret};

	kit_open(&k, rails_a, rails_b, &conf);
	kit_connect(&k);
	kit_memory(&k, 1u << 20);
	conf.rails = rails_a;
	assert_int_equal(spw_xfer_open(&conf, &rogue_x), 0);
	assert_int_equal(spw_xfer_listen(k.b, &handle, &listener), 0);
	spw_log_sink_set(on_log, NULL);
	return 0;
}

/* However late this thread gets its core, what a stranger says is in time. */
static int open_kit(void **state SPW_UNUSED)
{
	return open_with(KIT_WAIT_MS);
}

/* For strangers who say too little. */
static int open_hasty(void **state SPW_UNUSED)
{
	return open_with(EXCHANGE_MS);
}

static int close_kit(void **state SPW_UNUSED)
{
	spw_log_sink_set(NULL, NULL);
	spw_xfer_close(rogue_x);
	kit_close(&k);
	return 0;
}

/* ---- a stranger ---- */

static int dial(void)
{
	struct xfer_address at;
	int fd;

	assert_int_equal(xfer_wire_handle_get(&handle, &at), 0);
	fd = spw_oob_socket_connect(&at.addr[0]);
	assert_true(fd >= 0);
	kit_turn_for(&k, 3);
	lines = 0;
	last[0] = 0;
	k.b->limit = (struct spw_log_limit){0};
	return fd;
}

/* Until b has refused a peer. */
static void expect_line(const char *text)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;

	while (!lines && kit_now_ms() < end)
		kit_turn(&k);
	kit_turn_for(&k, 5);
	if (lines != 1 || !strstr(last, text))
		fail_msg("%u lines, the last is '%s' and not '%s'", lines, last, text);
	kit_pass(&k, 70000, lines);
	assert_int_equal(spw_xfer_conn_error(k.ab), 0);
	assert_int_equal(spw_xfer_conn_error(k.ba), 0);
}

/* A connection of the stranger's, which speaks the protocol by the library's own means. */
static struct spw_xfer_conn *stranger(void)
{
	struct spw_oob_channel ch;
	struct spw_xfer_conn *c;
	struct xfer_address at;

	assert_int_equal(xfer_wire_handle_get(&handle, &at), 0);
	assert_int_equal(spw_oob_channel_begin(&ch, dial(), true, &rogue_x->secret, &xfer_proto),
			 0);
	assert_int_equal(xfer_conn_make(rogue_x, &ch, true, &c), 0);
	c->peer = at;
	return c;
}

static void say(struct spw_xfer_conn *c, const struct xfer_frame *f)
{
	assert_int_equal(xfer_link_send(&c->link, f), 0);
}

static struct xfer_frame hear(struct spw_xfer_conn *c)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	struct xfer_frame f;
	int rc;

	while (!(rc = xfer_link_receive(&c->link, &f)) && kit_now_ms() < end)
		kit_turn(&k);
	assert_int_equal(rc, 1);
	return f;
}

/* Both nonces are known afterwards. */
static void greet(struct spw_xfer_conn *c)
{
	const uint64_t end = kit_now_ms() + KIT_WAIT_MS;
	int rc;

	while ((rc = spw_oob_channel_greet(&c->link.ch)) == -EAGAIN && kit_now_ms() < end)
		kit_turn(&k);
	assert_int_equal(rc, 0);
}

static struct xfer_frame offer_of(const struct spw_xfer_conn *c)
{
	struct xfer_frame f = {.type = XFER_FRAME_OFFER,
			       .offer = {.box_addr = (uintptr_t)c->box, .dev_cnt = 1}};

	memcpy(f.offer.key, c->peer.key, sizeof(f.offer.key));
	f.offer.end[0] = (struct xfer_end){.mtu = 1024, .read_max = 1, .rkey = c->box_in[0]->rkey};
	memcpy(f.offer.end[0].gid, rogue_x->dev[0].gid.gid.raw, 16);
	return f;
}

static struct spw_xfer_conn *accepted(void)
{
	struct spw_xfer_conn *c = stranger();
	struct xfer_frame f;

	greet(c);
	f = offer_of(c);
	say(c, &f);
	assert_int_equal(hear(c).type, XFER_FRAME_ACCEPT);
	return c;
}

/* ---- what they do ---- */

static void other_protocols_are_refused(void **state SPW_UNUSED)
{
	static const struct {
		const char *bytes, *line;
		size_t len;
	} wrong[] = {
		{"GET / HTTP/1.1\r\n\r\n", "does not speak this protocol", 18},
		{"SPWX\0\1\1\0", "it speaks version 1 of the protocol, this end ", 8},
		{"SPWR\0\3\0\0", "does not speak this protocol", 8},
	};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(wrong); i++) {
		int fd = dial();

		assert_int_equal(write(fd, wrong[i].bytes, wrong[i].len), wrong[i].len);
		expect_line(wrong[i].line);
		close(fd);
	}
}

/* First messages that are no frame: too short, too long, of no type, with bits that must be 0. */
static void first_messages_that_are_none_are_refused(void **state SPW_UNUSED)
{
	static const uint8_t bytes[SPW_OOB_FIRST_MAX + 1] = {XFER_FRAME_CNT}, zero = 1;
	const struct {
		const void *bytes;
		uint32_t len;
	} wrong[] = {{bytes, 0},
		     {bytes, 4},
		     {bytes + 1, 4},
		     {&zero, 1},
		     {"\3\1\0\0\0\0\0\1", 8},
		     {bytes, sizeof(bytes)}};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(wrong); i++) {
		struct spw_xfer_conn *c = stranger();

		greet(c);
		assert_int_equal(spw_oob_channel_send(&c->link.ch, wrong[i].bytes, wrong[i].len),
				 0);
		expect_line("does not speak this protocol");
		spw_xfer_conn_close(c);
	}
}

static void silence_ends(void **state SPW_UNUSED)
{
	struct spw_xfer_conn *c = stranger();

	expect_line("it did not answer in time");
	spw_xfer_conn_close(c);
	c = stranger(); /* a part of a message, then nothing */
	assert_int_equal(write(c->link.ch.fd, "\0\0\0", 3), 3);
	expect_line("it did not answer in time");
	spw_xfer_conn_close(c);
	c = stranger();
	spw_xfer_conn_close(c);
	expect_line("it closed the connection");
	c = accepted(); /* and no rail */
	expect_line("no rail leads there (no answer)");
	spw_xfer_conn_close(c);
}

static void frames_out_of_place_end_the_exchange(void **state SPW_UNUSED)
{
	static const enum xfer_frame_type type[] = {XFER_FRAME_ACCEPT, XFER_FRAME_REJECT,
						    XFER_FRAME_RAIL, XFER_FRAME_WINDOW};

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(type); i++) {
		struct spw_xfer_conn *c = stranger();
		struct xfer_frame f = type[i] == XFER_FRAME_ACCEPT ? offer_of(c)
								   : (struct xfer_frame){0};

		greet(c);
		f.type = type[i];
		if (type[i] == XFER_FRAME_REJECT)
			f.reject.reason = XFER_REJECT_KEY;
		if (type[i] == XFER_FRAME_RAIL)
			f.rail.qp_generation = f.rail.rail_cnt = 1;
		if (type[i] == XFER_FRAME_WINDOW)
			f.window.bytes = 1;
		say(c, &f);
		expect_line("a frame that has no place here");
		spw_xfer_conn_close(c);
	}
}

static void an_offer_out_of_range_is_refused(void **state SPW_UNUSED)
{
	for (uint32_t i = 0; i < 8; i++) {
		struct spw_xfer_conn *c = stranger();
		struct xfer_frame f = offer_of(c);

		greet(c);
		f.offer.dev_cnt = i == 0 ? 0 : i == 1 ? SPW_XFER_RAIL_MAX + 1 : 1;
		f.offer.end[0].mtu = i == 2 ? 1500 : 1024;
		f.offer.end[0].prefix = i == 3 ? 129 : 0;
		f.offer.end[0].in_order = i == 4 ? 2 : 0;
		f.offer.end[0].read_max = i == 7 ? 0 : 1;
		f.offer.box_addr += i == 5 ? 8 : 0;
		f.offer.box_addr = i == 6 ? UINT64_MAX - 63 : f.offer.box_addr;
		say(c, &f);
		expect_line("does not speak this protocol");
		spw_xfer_conn_close(c);
	}
}

static void an_address_of_another_kind_is_refused(void **state SPW_UNUSED)
{
	struct spw_xfer_conn *c = stranger();
	struct xfer_frame f = offer_of(c);

	greet(c);
	inet_pton(AF_INET6, "fd00::7", f.offer.end[0].gid);
	say(c, &f);
	expect_line("one side has IPv4 addresses, the other IPv6");
	assert_int_equal(hear(c).type, XFER_FRAME_REJECT);
	spw_xfer_conn_close(c);
}

static void a_wrong_key_or_secret_is_refused(void **state SPW_UNUSED)
{
	struct spw_xfer_conf conf = {.rails = rails_a, .secret = other_secret};
	struct spw_xfer_conn *c = stranger();
	struct xfer_frame f = offer_of(c);
	struct spw_xfer *x;
	int rc;

	f.offer.key[5] ^= 1;
	greet(c);
	say(c, &f);
	expect_line("does not hold this listener's handle");
	assert_int_equal(hear(c).type, XFER_FRAME_REJECT);
	spw_xfer_conn_close(c);
	/* one that follows the protocol, with another secret */
	c = NULL;
	lines = 0;
	assert_int_equal(spw_xfer_open(&conf, &x), 0);
	while ((rc = spw_xfer_connect(x, &handle, &c)) == -EAGAIN)
		kit_turn(&k);
	assert_int_equal(rc, -EACCES);
	assert_non_null(strstr(spw_err_text(), "the secrets differ"));
	spw_xfer_close(x);
}

/* What the server took once is refused the second time, and so is what it said itself. */
static void replayed_frames_are_refused(void **state SPW_UNUSED)
{
	struct spw_xfer_conn *c = stranger();
	struct xfer_frame f = offer_of(c);

	greet(c);
	say(c, &f);
	assert_int_equal(hear(c).type, XFER_FRAME_ACCEPT);
	c->link.ch.sent_cnt--; /* its number again */
	say(c, &f);
	expect_line("a frame that was changed, or sent before");
	spw_xfer_conn_close(c);
	c = stranger();
	greet(c);
	f = offer_of(c);
	c->link.ch.is_client = false; /* a MAC as the server would make it */
	say(c, &f);
	expect_line("the secrets differ");
	spw_xfer_conn_close(c);
}

static void rails_that_were_not_agreed_are_refused(void **state SPW_UNUSED)
{
	static const char place[] = "a frame that has no place here";
	static const struct {
		uint32_t rail, qp_generation, client_dev, peer_dev;
		const char *line;
	} wrong[] = {
		{1, 1, 0, 0, "a malformed frame"},
		{0, 1, 1, 0, place}, /* devices that neither side has listed */
		{0, 1, 0, 2, place},
		{0, 2, 0, 0, "a rail that is not being made"},
	};
	struct xfer_frame rail = {.type = XFER_FRAME_RAIL, .rail = {0, 1, 77, 88, 2, 0, 0}};
	struct xfer_frame down = {.type = XFER_FRAME_DOWN,
				  .down = {.qp_generation = 1, .generation = 1}};
	struct xfer_frame window = {.type = XFER_FRAME_WINDOW, .window = {.bytes = 1}};
	struct spw_xfer_conn *c = accepted();

	memset(down.down.open, 0xff, sizeof(down.down.open));
	say(c, &rail);
	rail.rail.rail = 1; /* with the device of a rail that is being made */
	say(c, &rail);
	expect_line(place);
	spw_xfer_conn_close(c);
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(wrong); i++) {
		c = accepted();
		rail.rail.rail = wrong[i].rail;
		rail.rail.qp_generation = wrong[i].qp_generation;
		rail.rail.rail_cnt = 1;
		rail.rail.client_dev = wrong[i].client_dev;
		rail.rail.peer_dev = wrong[i].peer_dev;
		say(c, &rail);
		expect_line(wrong[i].line);
		spw_xfer_conn_close(c);
	}
	c = accepted();
	say(c, &down);
	expect_line(place);
	spw_xfer_conn_close(c);
	c = accepted();
	say(c, &window);
	say(c, &window);
	expect_line("a window that was exposed before");
	spw_xfer_conn_close(c);
}

/* The honest one comes while all of them are there and silent, long before their time is over. */
static void a_crowd_is_in_nobodys_way(void **state SPW_UNUSED)
{
	struct spw_xfer_conn *good, *there;
	int fd[100];

	for (uint32_t i = 0; i < SPW_ARRAY_CNT(fd); i++) {
		fd[i] = dial();
		kit_turn(&k);
	}
	kit_pass(&k, 100000, 3);
	kit_join(&k, &handle, listener, &good, &there);
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(fd); i++)
		close(fd[i]);
	kit_pass(&k, 100000, 4);
}

/* It is said, not in each turn, and passes. */
static void no_descriptor_for_a_connection(void **state SPW_UNUSED)
{
	struct rlimit before, none;
	struct spw_xfer_conn *good, *there;
	struct xfer_address at;
	int fd, free_fd;

	assert_int_equal(xfer_wire_handle_get(&handle, &at), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	fd = spw_oob_socket_connect(&at.addr[0]);
	free_fd = dup(fd);
	assert_true(free_fd >= 0);
	close(free_fd);
	none = before;
	none.rlim_cur = (rlim_t)free_fd;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	lines = 0;
	kit_turn_for(&k, 450);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	if (!spw_in_range(lines, 1, 6) || !strstr(last, "raise ulimit -n"))
		fail_msg("%u lines, the last is '%s'", lines, last);
	close(fd);
	kit_join(&k, &handle, listener, &good, &there);
	kit_pass(&k, 100000, 4);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define CASE(f)  cmocka_unit_test_setup_teardown(f, open_kit, close_kit)
#define HASTY(f) cmocka_unit_test_setup_teardown(f, open_hasty, close_kit)
		CASE(other_protocols_are_refused),
		CASE(first_messages_that_are_none_are_refused),
		HASTY(silence_ends),
		CASE(frames_out_of_place_end_the_exchange),
		CASE(an_offer_out_of_range_is_refused),
		CASE(an_address_of_another_kind_is_refused),
		CASE(a_wrong_key_or_secret_is_refused),
		CASE(replayed_frames_are_refused),
		CASE(rails_that_were_not_agreed_are_refused),
		CASE(a_crowd_is_in_nobodys_way),
		CASE(no_descriptor_for_a_connection),
	};
	int failed;

	if (argc == 3) {
		rails_a = argv[1];
		rails_b = argv[2];
	}
	write_secret(secret, "a secret of some twenty bytes");
	write_secret(other_secret, "another one, as long as that");
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(secret);
	unlink(other_secret);
	return failed;
}
