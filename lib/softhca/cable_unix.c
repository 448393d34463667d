/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * AF_UNIX datagrams, one frame each: what QEMU's "-netdev dgram" speaks. "unix:MINE,PEER". */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "softhca/cable_sock.h"

/* FNV-1a: two ends with different names get different addresses. */
static uint32_t name_hash(const char *s)
{
	uint32_t h = 2166136261u;

	while (*s)
		h = (h ^ (uint8_t)*s++) * 16777619u;
	return h;
}

static void choose_id(const char *mine, struct cable_id *id)
{
	static const uint8_t none[6];
	const uint32_t h = name_hash(mine);
	const uint8_t b = (uint8_t)(h ^ h >> 8 ^ h >> 16 ^ h >> 24);

	id->port = b;
	if (memcmp(id->mac, none, 6) == 0)
		memcpy(id->mac, (const uint8_t[6]){0x02, 0x53, 0x58, (uint8_t)(h >> 16), (uint8_t)(h >> 8), (uint8_t)h}, 6);
	if (memcmp(id->ip, none, 4) == 0)
		memcpy(id->ip, (const uint8_t[4]){10, 53, 1, (uint8_t)(b % 254 + 1)}, 4);
}

int cable_unix_open(const char *paths, struct cable_id *id, struct cable **cable_out)
{
	struct sockaddr_un mine = {.sun_family = AF_UNIX}, peer = {.sun_family = AF_UNIX};
	const char *comma = strchr(paths, ',');
	const int bytes = 4 << 20;
	int fd;

	if (!comma || comma == paths || !comma[1] || (size_t)(comma - paths) >= sizeof(mine.sun_path) ||
	    strlen(comma + 1) >= sizeof(peer.sun_path))
		return spw_err(EINVAL, "cable unix:%s: say unix:MINE,PEER, two paths of at most %zu characters", paths,
			       sizeof(mine.sun_path) - 1);
	memcpy(mine.sun_path, paths, (size_t)(comma - paths));
	strcpy(peer.sun_path, comma + 1);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return spw_err(errno, "cable unix:%s: %s", paths, strerror(errno));
	unlink(mine.sun_path); /* what a killed process left */
	if (bind(fd, (struct sockaddr *)&mine, sizeof(mine))) {
		const int err = errno;

		close(fd);
		return spw_err(err, "cable unix:%s: cannot bind %s: %s", paths, mine.sun_path, strerror(err));
	}
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	choose_id(mine.sun_path, id);
	return cable_sock_new(fd, false, &peer, sizeof(peer), mine.sun_path, cable_out);
}
