/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Strangers at a door over loopback: who is silent makes room, who is wrong is refused with its
 * reason, and who proves that it knows the secret comes in beside them. Time is the test's own.
 */
#include "../unit_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "oob/spw_oob_door.h"
#include "oob/spw_oob_socket.h"

#define SEATS    4u
#define FIRST_MS 1000u
#define WAIT_MS  10000

static const struct spw_oob_proto proto = {"TEST", 1};
static struct spw_oob_secret secret, other;
static struct spw_oob_door *door;
static struct sockaddr_in6 at;

static int open_for(uint32_t host_max)
{
	static struct spw_oob_prefix allow;
	const struct spw_oob_door_conf conf = {.proto = &proto,
					       .secret = &secret,
					       .allow = &allow,
					       .allow_cnt = 1,
					       .seat_cnt = SEATS,
					       .host_max = host_max,
					       .first_ms = FIRST_MS};

	assert_int_equal(spw_oob_prefix_parse("127.0.0.0/24", &allow), 0);
	assert_int_equal(
		spw_oob_secret_take("test", (const uint8_t *)"sixteen bytes ok", 16, &secret), 0);
	assert_int_equal(
		spw_oob_secret_take("test", (const uint8_t *)"sixteen bytes no", 16, &other), 0);
	assert_int_equal(spw_oob_addr_parse("127.0.0.1:0", &at), 0);
	assert_int_equal(spw_oob_door_open(&conf, &door), 0);
	assert_int_equal(spw_oob_door_listen(door, &at), 0);
	assert_int_not_equal(at.sin6_port, 0);
	return 0;
}

static int door_setup(void **state SPW_UNUSED)
{
	return open_for(0);
}

static int shares_setup(void **state SPW_UNUSED)
{
	return open_for(2);
}

static int door_teardown(void **state SPW_UNUSED)
{
	spw_oob_door_close(door);
	return 0;
}

/* Waits until the door has something to do, and takes it. */
static int turn(uint64_t now_ms, struct spw_oob_guest *guest)
{
	struct pollfd p = {.fd = spw_oob_door_fd(door), .events = POLLIN};
	int rc;

	while ((rc = spw_oob_door_turn(door, now_ms, guest)) == -EAGAIN)
		if (poll(&p, 1, WAIT_MS) != 1)
			return rc;
	return rc;
}

static int nobody(uint64_t now_ms)
{
	struct spw_oob_guest guest;

	return spw_oob_door_turn(door, now_ms, &guest);
}

static int dial_from(const char *host)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = at.sin6_port}, from = to;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	from.sin_port = 0;
	assert_int_equal(inet_pton(AF_INET, host, &from.sin_addr), 1);
	assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &to.sin_addr), 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

/* A connection that the door has accepted. */
static int silent_from(const char *host)
{
	int fd = dial_from(host);

	assert_int_equal(nobody(0), -EAGAIN);
	return fd;
}

static bool is_closed(int fd)
{
	uint8_t bytes[64];
	ssize_t n;

	while ((n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		;
	return n == 0 || errno != EAGAIN;
}

static void say(struct spw_oob_channel *ch, int fd, const struct spw_oob_secret *with,
		const char *text)
{
	assert_int_equal(spw_oob_channel_begin(ch, fd, true, with, &proto), 0);
	while (spw_oob_channel_greet(ch) == -EAGAIN)
		assert_int_equal(nobody(0), -EAGAIN);
	assert_int_equal(spw_oob_channel_send(ch, text, (uint32_t)strlen(text)), 0);
}

static void who_knows_the_secret_comes_in(void **state SPW_UNUSED)
{
	const int silent = silent_from("127.0.0.1"), fd = dial_from("127.0.0.2");
	struct spw_oob_guest guest;
	struct spw_oob_channel ch;
	uint8_t bytes[8];
	uint32_t len;

	say(&ch, fd, &secret, "hello");
	assert_int_equal(turn(0, &guest), 0);
	assert_int_equal(guest.len, 5);
	assert_memory_equal(guest.first, "hello", 5);
	assert_int_equal(guest.from.sin6_addr.s6_addr[15], 2);
	assert_int_equal(spw_oob_channel_send(&guest.ch, "well", 4), 0);
	assert_int_equal(spw_oob_channel_receive(&ch, bytes, sizeof(bytes), &len), 0);
	assert_int_equal(turn(FIRST_MS, &guest), -ETIMEDOUT); /* the silent one alone */
	assert_int_equal(nobody(FIRST_MS), -EAGAIN);
	assert_true(is_closed(silent));
	assert_false(is_closed(fd));
	close(guest.ch.fd);
	close(silent);
	close(fd);
}

static void the_oldest_silent_one_makes_room(void **state SPW_UNUSED)
{
	struct spw_oob_guest guest;
	struct spw_oob_channel ch;
	int fd[SEATS], last;

	for (uint32_t i = 0; i < SEATS; i++)
		fd[i] = silent_from("127.0.0.1");
	last = dial_from("127.0.0.1");
	assert_int_equal(turn(0, &guest), -EBUSY);
	assert_true(is_closed(fd[0]));
	for (uint32_t i = 1; i < SEATS; i++)
		assert_false(is_closed(fd[i]));
	say(&ch, last, &secret, "me");
	assert_int_equal(turn(0, &guest), 0);
	close(guest.ch.fd);
	close(last);
	for (uint32_t i = 0; i < SEATS; i++)
		close(fd[i]);
}

/* A crowd of one host is in nobody's way but its own. */
static void a_host_makes_room_for_itself(void **state SPW_UNUSED)
{
	const int elsewhere = silent_from("127.0.0.9");
	struct spw_oob_guest guest;
	int fd[3];

	fd[0] = silent_from("127.0.0.1");
	fd[1] = silent_from("127.0.0.1");
	fd[2] = dial_from("127.0.0.1");
	assert_int_equal(turn(0, &guest), -EBUSY);
	assert_int_equal(guest.from.sin6_addr.s6_addr[15], 1);
	assert_true(is_closed(fd[0]));
	assert_false(is_closed(elsewhere));
	close(elsewhere);
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(fd); i++)
		close(fd[i]);
}

static void every_reason_is_reported(void **state SPW_UNUSED)
{
	struct spw_oob_guest guest;
	struct spw_oob_channel ch;
	char text[SPW_OOB_FIRST_MAX + 2];
	int fd = dial_from("127.0.0.1");

	say(&ch, fd, &other, "hello");
	assert_int_equal(turn(0, &guest), -EACCES);
	assert_int_equal(spw_oob_channel_receive(&ch, text, sizeof(text), &guest.len), -EACCES);
	close(fd);
	fd = dial_from("127.0.0.1");
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	say(&ch, fd, &secret, text);
	assert_int_equal(turn(0, &guest), -EMSGSIZE);
	close(fd);
	fd = dial_from("127.0.0.1");
	assert_int_equal(send(fd, text, 64, 0), 64);
	assert_int_equal(turn(0, &guest), -EPROTO);
	close(fd);
	fd = silent_from("127.0.0.1");
	close(fd);
	assert_int_equal(turn(0, &guest), -ECONNRESET);
}

/* It is reported once in each pause, costs no turns in it, and passes. */
static void without_descriptors_it_pauses(void **state SPW_UNUSED)
{
	struct spw_oob_guest guest;
	struct rlimit was, none;
	const int fd = dial_from("127.0.0.1"), unused = dup(fd);

	close(unused);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = was;
	none.rlim_cur = (rlim_t)unused;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(turn(0, &guest), -EMFILE);
	assert_int_equal(guest.from.sin6_family, 0);
	assert_int_equal(nobody(SPW_OOB_RETRY_MS - 1), -EAGAIN);
	assert_int_equal(turn(SPW_OOB_RETRY_MS, &guest), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(nobody(2 * SPW_OOB_RETRY_MS), -EAGAIN);
	assert_int_equal(turn(2 * SPW_OOB_RETRY_MS + FIRST_MS, &guest), -ETIMEDOUT);
	close(fd);
}

/* An address outside the list costs no seat and gets no byte. */
static void who_is_not_allowed_hears_nothing(void **state SPW_UNUSED)
{
	const int silent = silent_from("127.0.0.1"), fd = dial_from("127.0.1.1");
	struct spw_oob_guest guest;
	uint8_t byte;

	assert_int_equal(turn(0, &guest), -EPERM);
	assert_int_equal(guest.from.sin6_addr.s6_addr[14], 1);
	assert_int_equal(guest.ch.fd, -1);
	assert_int_equal(recv(fd, &byte, 1, 0), 0);
	assert_false(is_closed(silent));
	close(silent);
	close(fd);
}

/* Through each of them, and no more than there is room for. */
static void it_listens_on_several_addresses(void **state SPW_UNUSED)
{
	struct sockaddr_in6 more;
	struct spw_oob_guest guest;
	struct spw_oob_channel ch;

	for (uint32_t i = 1; i < SPW_OOB_LISTEN_MAX; i++) {
		more = at;
		more.sin6_addr.s6_addr[15] = (uint8_t)(i + 1);
		more.sin6_port = 0;
		assert_int_equal(spw_oob_door_listen(door, &more), 0);
	}
	for (uint32_t i = 0; i < 2; i++) {
		const int fd = spw_oob_socket_connect(i ? &more : &at);

		while (spw_oob_socket_connected(fd) == -EAGAIN)
			;
		say(&ch, fd, &secret, "hello");
		assert_int_equal(turn(0, &guest), 0);
		close(guest.ch.fd);
		close(fd);
	}
	assert_int_equal(spw_oob_door_listen(door, &more), -ENOSPC);
}

static void deadlines_are_known(void **state SPW_UNUSED)
{
	struct spw_oob_guest guest;
	int fd[2];

	assert_true(spw_oob_door_due_ms(door) == UINT64_MAX);
	fd[0] = silent_from("127.0.0.1");
	assert_int_equal(spw_oob_door_due_ms(door), FIRST_MS);
	fd[1] = dial_from("127.0.0.1");
	assert_int_equal(nobody(10), -EAGAIN);
	assert_int_equal(turn(FIRST_MS, &guest), -ETIMEDOUT);
	assert_int_equal(guest.until_ms, FIRST_MS);
	assert_int_equal(spw_oob_door_due_ms(door), FIRST_MS + 10);
	close(fd[0]);
	close(fd[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(f) cmocka_unit_test_setup_teardown(f, door_setup, door_teardown)
		CASE(who_knows_the_secret_comes_in),
		CASE(the_oldest_silent_one_makes_room),
		cmocka_unit_test_setup_teardown(a_host_makes_room_for_itself, shares_setup,
						door_teardown),
		CASE(every_reason_is_reported),
		CASE(without_descriptors_it_pauses),
		CASE(who_is_not_allowed_hears_nothing),
		CASE(it_listens_on_several_addresses),
		CASE(deadlines_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
