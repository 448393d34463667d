/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * "unix:MINE,PEER": AF_UNIX datagrams, one frame each, which is what QEMU's "-netdev dgram" speaks.
 * sock.c sends and receives; here is only the opening. MINE is bound and removed at close.
 *
 *   cable_unix_open   socket --> stale name removed --> bind MINE --> identity --> cable_sock_new
 *
 * PEER need not exist: frames to it are lost until somebody binds it, as on a link whose other end
 * is not plugged in. Addresses that the options leave open are made from MINE, so that an end has
 * the same ones in each run.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "softhca/cable/sock.h"

/* An end has the same ones in each run. */
static void unix_choose_id(const char *mine, struct cable_id *id)
{
	const uint32_t h = cable_hash(CABLE_HASH_SEED, mine, strlen(mine));
	const uint8_t b = (uint8_t)(h ^ h >> 8 ^ h >> 16 ^ h >> 24);

	id->port = b;
	cable_id_mac(id, (const uint8_t[6]){0x02, 0x53, 0x58, (uint8_t)(h >> 16), (uint8_t)(h >> 8),
					    (uint8_t)h});
	cable_id_ip(id, (const uint8_t[4]){10, 53, 1, (uint8_t)(b % 254 + 1)});
}

/* Removes a socket that a killed process left. A socket that another process reads, or a file that
 * is not a socket, is refused. */
static int unix_remove_stale(int fd, const struct sockaddr_un *mine)
{
	struct stat st;

	if (lstat(mine->sun_path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return spw_err(EEXIST, "cable unix:%s: that file is not a socket; use another name",
			       mine->sun_path);
	/* A name that nobody reads refuses: its owner is dead. */
	if (connect(fd, (const struct sockaddr *)mine, sizeof(*mine)) && errno == ECONNREFUSED)
		return unlink(mine->sun_path) ? -errno : 0;
	return spw_err(EADDRINUSE,
		       "cable unix:%s: another process reads this socket already (fuser %s); each "
		       "NIC needs its own",
		       mine->sun_path, mine->sun_path);
}

int cable_unix_open(const char *paths, struct cable_id *id, struct cable **cable_out)
{
	struct sockaddr_un mine = {.sun_family = AF_UNIX};
	struct cable_sock_how how = {.to = {.sun_family = AF_UNIX},
				     .to_bytes = sizeof(how.to),
				     .unlink_path = mine.sun_path};
	const char *comma = strchr(paths, ',');
	const int bytes = 4 << 20;
	int fd, rc;

	if (!comma || comma == paths || !comma[1] ||
	    (size_t)(comma - paths) >= sizeof(mine.sun_path) ||
	    strlen(comma + 1) >= sizeof(how.to.sun_path))
		return spw_err(
			EINVAL,
			"cable unix:%s: use unix:MINE,PEER, two paths of at most %zu characters",
			paths, sizeof(mine.sun_path) - 1);
	memcpy(mine.sun_path, paths, (size_t)(comma - paths));
	strcpy(how.to.sun_path, comma + 1);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return spw_err(errno, "cable unix:%s: %s", paths, strerror(errno));
	rc = unix_remove_stale(fd, &mine);
	if (rc) {
		close(fd);
		return rc;
	}
	/* bind(2) gives the mode to the name, less the umask: no other user may send frames */
	if (fchmod(fd, 0600) || bind(fd, (struct sockaddr *)&mine, sizeof(mine))) {
		const int err = errno;

		close(fd);
		return spw_err(err, "cable unix:%s: cannot bind %s: %s", paths, mine.sun_path,
			       strerror(err));
	}
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	unix_choose_id(mine.sun_path, id);
	return cable_sock_new(fd, &how, cable_out);
}
