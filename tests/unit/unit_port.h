/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A port for a listener of a test, chosen as peers.free_port() of tests/e2e/softhca does: below the
 * range that the kernel gives to clients, and kept from tests that run beside this one by an
 * abstract socket of that name, which is held until the program ends.
 */
#ifndef UNIT_PORT_H
#define UNIT_PORT_H

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "unit_test.h"

static inline bool unit_port_is_mine(uint16_t port)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	const int len =
		snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "spinwire-test-port-%u", port);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	if (!bind(fd, (struct sockaddr *)&at,
		  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)))
		return true;
	close(fd);
	return false;
}

/* type: SOCK_STREAM or SOCK_DGRAM. */
static inline uint16_t unit_free_port(int type)
{
	for (uint16_t port = 20000; port < 30000; port++) {
		struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
		bool is_free;
		int fd;

		if (!unit_port_is_mine(port))
			continue;
		fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
		is_free = !bind(fd, (struct sockaddr *)&at, sizeof(at));
		close(fd);
		if (is_free)
			return port;
	}
	fail_msg("no free port");
	return 0;
}

#endif
