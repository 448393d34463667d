/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A test's body as an ordinary user in user namespaces of its own, as "unshare -r" makes them.
 */
#ifndef UNIT_USERNS_H
#define UNIT_USERNS_H

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define UNIT_USERNS_UID  65533u /* of the ordinary user, if the test is root's */
#define UNIT_USERNS_NONE 77

static inline bool unit_userns_put(const char *file, const char *text)
{
	const int fd = open(file, O_WRONLY | O_CLOEXEC);
	const bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

static inline bool unit_userns_enter(unsigned uid, unsigned gid)
{
	char uids[32], gids[32];

	snprintf(uids, sizeof(uids), "0 %u 1", uid);
	snprintf(gids, sizeof(gids), "0 %u 1", gid);
	return !unshare(CLONE_NEWUSER) && !prctl(PR_SET_DUMPABLE, 1) &&
	       unit_userns_put("/proc/self/uid_map", uids) &&
	       unit_userns_put("/proc/self/setgroups", "deny") &&
	       unit_userns_put("/proc/self/gid_map", gids) && geteuid() == 0;
}

static inline void unit_userns_child(int depth, int (*body)(unsigned uid))
{
	const unsigned uid = getuid() ? getuid() : UNIT_USERNS_UID;

	if (setresuid(uid, uid, uid))
		_exit(UNIT_USERNS_NONE);
	for (int i = 0; i < depth; i++)
		if (!unit_userns_enter(geteuid(), getegid()))
			_exit(UNIT_USERNS_NONE);
	_exit(body(uid));
}

/* Returns: what body returned in a process that is user 0 within `depth` namespaces and uid
 * outside; UNIT_USERNS_NONE: this machine makes none. */
static inline int unit_userns_run(int depth, int (*body)(unsigned uid))
{
	const pid_t pid = fork();
	int status;

	if (pid == 0)
		unit_userns_child(depth, body);
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
									       : -1;
}

#endif
