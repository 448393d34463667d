/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The cable of UDP datagrams: which ends it takes, whose datagrams, and in which order.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../unit_port.h"
#include "cable_kit.h"

static void udp_name(char *text, size_t bytes, const char *host, uint16_t mine, uint16_t peer)
{
	snprintf(text, bytes, "udp:%s:%u,%s:%u", host, mine, host, peer);
}

/* From another address than the peer's: before the cable is open, and after. */
static void udp_stranger_sends(int fd, uint16_t to)
{
	const struct sockaddr_in at = {.sin_family = AF_INET,
				       .sin_port = htons(to),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const uint8_t frame[64] = {0};

	(void)!sendto(fd, frame, sizeof(frame), 0, (const struct sockaddr *)&at, sizeof(at));
}

static void udp_carries_frames_of_its_peer_only(void **state)
{
	const uint16_t port[2] = {unit_free_port(SOCK_DGRAM), unit_free_port(SOCK_DGRAM)};
	const int stranger = socket(AF_INET, SOCK_DGRAM, 0);
	struct cable_id id[2] = {0}, again = {0};
	struct cable *a, *b, *twin;
	char ab[64], ba[64];
	struct cable_frame f[CABLE_BURST];
	uint32_t got = 0;

	(void)state;
	udp_name(ab, sizeof(ab), "127.0.0.1", port[0], port[1]);
	udp_name(ba, sizeof(ba), "127.0.0.1", port[1], port[0]);
	assert_int_equal(cable_open(ab, &id[0], &a), 0);
	udp_stranger_sends(stranger, port[0]);
	assert_int_equal(cable_rx_burst(a, f, CABLE_BURST), 0);
	assert_true(put(a, id[0].mac, id[0].mac, 0, 60));
	cable_tx_flush(
		a); /* nobody is at the other end: lost, not fatal, and said by the next one */
	assert_int_equal(cable_open(ba, &id[1], &b), 0);
	assert_int_equal(cable_open(ba, &again, &twin), -EADDRINUSE);
	assert_memory_not_equal(id[0].mac, id[1].mac, 6);
	assert_memory_not_equal(id[0].ip, id[1].ip, 4);
	assert_int_not_equal(id[0].port, id[1].port);
	udp_stranger_sends(stranger, port[1]);
	(void)cable_rx_burst(a, f, CABLE_BURST); /* takes the refusal of the lost frame */
	for (uint32_t i = 0; i < 200; i++) {
		uint32_t n;

		assert_true(put(a, id[1].mac, id[0].mac, i, 60 + i * 45));
		cable_tx_flush(a);
		n = cable_rx_burst(b, f, CABLE_BURST);
		for (uint32_t k = 0; k < n; k++, got++) {
			assert_int_equal(number_of(&f[k]), got);
			assert_int_equal(f[k].len, 60 + got * 45);
		}
		cable_rx_release(b, n);
	}
	assert_int_equal(got, 200);
	a->ops->close(a);
	b->ops->close(b);
	close(stranger);
}

static void udp_texts_that_name_no_end(void **state)
{
	static const char *const wrong[] = {
		"udp:",       "udp:,",     "udp::47910",   "udp:a,",   "udp:[::1,b",
		"udp:[::1]x", "udp:host:", "udp:h:123456", "udp:,:9",  "udp:[::1]:",
		"udp::9,:9",  "udp:h:0",   "udp:h:65536",  "udp:h:no", "udp:h:-9",
	};
	struct cable_id id = {0};
	struct cable *c;

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_equal(cable_open(wrong[i], &id, &c), -EINVAL);
	assert_int_equal(cable_open("udp:no-such-host.invalid", &id, &c), -ENOENT);
	assert_int_equal(cable_open("udp:[::1]:9,127.0.0.1:9", &id, &c), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(udp_carries_frames_of_its_peer_only),
		cmocka_unit_test(udp_texts_that_name_no_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
