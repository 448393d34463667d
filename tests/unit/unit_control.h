/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The control sockets of the software ConnectX in this process: $SPW_TEST_CONTROL is that of
 * mlx5_0, which must be the first to be opened; any other's has ".DEVICE.PID" behind it
 * (docs/060-software-connectx.md, --control).
 */
#ifndef UNIT_CONTROL_H
#define UNIT_CONTROL_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "unit_test.h"

#define UNIT_ANSWER_BYTES 4096u

/* Sends a line and expects "ok", with which the answer begins. */
static inline void unit_control(const char *dev, const char *line, char answer[UNIT_ANSWER_BYTES])
{
	const char *path = getenv("SPW_TEST_CONTROL");
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ssize_t n;

	assert_non_null(path);
	if (strcmp(dev, "mlx5_0"))
		snprintf(at.sun_path, sizeof(at.sun_path), "%.64s.%.16s.%d", path, dev, getpid());
	else
		snprintf(at.sun_path, sizeof(at.sun_path), "%.64s", path);
	if (connect(fd, (struct sockaddr *)&at, sizeof(at)))
		fail_msg("no control socket %s", at.sun_path);
	assert_int_equal(send(fd, line, strlen(line), MSG_NOSIGNAL), strlen(line));
	assert_int_equal(send(fd, "\n", 1, MSG_NOSIGNAL), 1);
	n = recv(fd, answer, UNIT_ANSWER_BYTES - 1, 0);
	close(fd);
	answer[n > 0 ? n : 0] = '\0';
	if (strncmp(answer, "ok", 2))
		fail_msg("'%s' was answered: %s", line, answer);
}

#endif
