/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The control socket of a device: an AF_UNIX stream of lines, one command each, one answer line
 * each (control.c executes them). nic_attach opens it, nic_detach closes it, nic_leave removes its
 * name.
 *
 * One thread per device, asleep in poll() when nothing is asked. It serves one client at a time and
 * takes the device lock only while a command runs (nic_control), like a command of the application.
 * Closing the write end of stop_fd wakes it out of every poll(); control_close then joins it.
 *
 *   control_main:  poll --> accept --> serve: recv --> line --> nic_control --> reply --> recv ...
 *                   ^                            |
 *                   +--- client closed, too slow, or a line too long: close ---+
 *
 * Names. The first device binds PATH; others, of any process, find it in use and bind
 * PATH.DEVICE.PID. A socket file outlives a process that was killed: control_is_stale finds out by
 * connecting.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "softhca/hca_real.h"
#include "softhca/inject/inject.h"

#define REPLY_MS 1000

struct control {
	struct nic_dev *nd;
	pthread_t thread;
	int fd, stop_fd[2];
	char path[108];
};

/* Waits until fd is readable. Returns 0; -1 if the thread has to end. */
static int control_wait(const struct control *c, int fd)
{
	struct pollfd p[2] = {{.fd = fd, .events = POLLIN},
			      {.fd = c->stop_fd[0], .events = POLLIN}};

	while (poll(p, 2, -1) < 0)
		if (errno != EINTR)
			return -1;
	return p[1].revents ? -1 : 0;
}

/* Drops a client that does not read its answer within REPLY_MS: others wait for their turn. */
static int control_reply(const struct control *c, int fd, const char *text)
{
	size_t left = strlen(text);

	while (left) {
		struct pollfd p[2] = {{.fd = fd, .events = POLLOUT},
				      {.fd = c->stop_fd[0], .events = POLLIN}};
		const int ready = poll(p, 2, REPLY_MS);
		ssize_t n;

		if (ready < 0 && errno == EINTR)
			continue;
		if (ready <= 0 || p[1].revents)
			return -1;
		n = send(fd, text, left, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN)
			return -1;
		if (n > 0) {
			text += n;
			left -= (size_t)n;
		}
	}
	return 0;
}

/* Several lines may arrive at once, and one in several pieces. nic_control takes the lock and may
 * wait for the NIC's round to end. */
static void control_serve(struct control *c, int fd)
{
	char line[512], answer[4096];
	size_t fill = 0;

	while (control_wait(c, fd) == 0) {
		const ssize_t n = recv(fd, line + fill, sizeof(line) - 1 - fill, 0);
		char *nl;

		if (n <= 0)
			return;
		fill += (size_t)n;
		line[fill] = '\0';
		while ((nl = strchr(line, '\n'))) {
			*nl = '\0';
			nic_control(c->nd->dev, line, answer, sizeof(answer));
			if (control_reply(c, fd, answer))
				return;
			fill -= (size_t)(nl + 1 - line);
			memmove(line, nl + 1, fill + 1);
		}
		if (fill == sizeof(line) - 1)
			return; /* no command is that long */
	}
}

/* ECONNABORTED and the like concern one client: the loop goes on. */
static void *control_main(void *arg)
{
	struct control *c = arg;

	while (control_wait(c, c->fd) == 0) {
		const int fd = accept4(c->fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0) {
			if (errno != EAGAIN) /* without descriptors it would be at once again */
				nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
			continue;
		}
		control_serve(c, fd);
		close(fd);
	}
	return NULL;
}

/* Was the socket left by a process that was killed? It is this user's, and nobody listens. */
static bool control_is_stale(const struct sockaddr_un *a)
{
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;
	bool refused;

	if (fd < 0)
		return false;
	refused = connect(fd, (const struct sockaddr *)a, sizeof(*a)) && errno == ECONNREFUSED;
	close(fd);
	return refused && lstat(a->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
	       st.st_uid == geteuid();
}

/* Serialises the replacement of a stale socket: a lock on the folder, which leaves no file behind.
 */
static int control_folder_lock(const char *path)
{
	char folder[108];
	char *slash;
	int fd;

	snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (slash)
		slash[slash == folder] = '\0';
	fd = real_open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	for (int i = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && i < 100; i++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	return fd;
}

/* Between the test and unlink() no other process may bind the name: all of them hold the folder's
 * lock here. If the lock cannot be had, binding is tried nevertheless. */
static int control_bind_fresh(int fd, const struct sockaddr_un *a)
{
	const int lock = control_folder_lock(a->sun_path);
	int rc, err;

	if (control_is_stale(a))
		unlink(a->sun_path);
	rc = fchmod(fd, 0600); /* bind(2) gives it to the name, less the umask: never to others */
	rc = rc ? rc : bind(fd, (const struct sockaddr *)a, sizeof(*a));
	rc = rc ? rc : listen(fd, 4);
	err = errno;
	real_close(lock);
	errno = err;
	return rc;
}

/* c->path is what control_close and control_leave remove: only what was bound. */
static int control_bind(struct control *c, const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof(a.sun_path))
		return spw_err(EINVAL, "control socket %s: longer than %zu characters", path,
			       sizeof(a.sun_path) - 1);
	strcpy(a.sun_path, path);
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0)
		return spw_err(errno, "control socket %s: %s", path, strerror(errno));
	if (control_bind_fresh(c->fd, &a))
		return spw_err(errno, "control socket %s: %s", path, strerror(errno));
	strcpy(c->path, path);
	return 0;
}

/* PATH for the first device of the first process, PATH.DEVICE.PID for others. */
int control_open(struct nic_dev *nd, const char *path)
{
	struct control *c = calloc(1, sizeof(*c));
	char other[160];
	sigset_t all, old;
	int rc;

	if (!c)
		return spw_err(ENOMEM, "control socket: no memory");
	c->nd = nd;
	c->fd = c->stop_fd[0] = c->stop_fd[1] = -1;
	nd->control = c;
	rc = control_bind(c, path);
	if (rc == -EADDRINUSE) {
		close(c->fd);
		snprintf(other, sizeof(other), "%.100s.%s.%d", path, nd->dev->id.name,
			 (int)getpid());
		rc = control_bind(c, other);
		if (!rc)
			spw_warn("%s: its control socket is %s; %s is another's", nd->dev->id.name,
				 other, path);
	}
	if (!rc && pipe(c->stop_fd))
		rc = spw_err(errno, "control socket %s: %s", path, strerror(errno));
	if (rc)
		return rc;
	/* Signals are the program's: none may be delivered to this thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&c->thread, NULL, control_main, c);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc) {
		close(c->stop_fd[0]);
		close(c->stop_fd[1]);
		c->stop_fd[1] = -1;
		return spw_err(rc, "control socket %s: no thread", path);
	}
	return 0;
}

/* At process exit, perhaps in a signal handler: the name goes, the thread is not waited for. */
void control_leave(struct nic_dev *nd)
{
	if (nd->control && nd->control->path[0])
		unlink(nd->control->path);
}

/* Works on a control that control_open left half-made. */
void control_close(struct nic_dev *nd)
{
	struct control *c = nd->control;

	if (!c)
		return;
	if (c->stop_fd[1] >= 0) {
		close(c->stop_fd[1]);
		pthread_join(c->thread, NULL);
		close(c->stop_fd[0]);
	}
	if (c->fd >= 0)
		close(c->fd);
	if (c->path[0])
		unlink(c->path);
	free(c);
	nd->control = NULL;
}
