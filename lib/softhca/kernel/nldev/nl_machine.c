/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Objects of the machine's other processes: a kernel knows all, a library only its own. So each
 * process that has opened a device file has a socket in its private folder (tree.h), and who wants
 * to list the objects of the machine asks all folders of this user. The NIC thread answers.
 *
 *   who asks                                      each process that has a device open
 *   memfd, socket pair ─ both, in a datagram ──►  <folder>/.objects
 *                                                 hca_res_serve(): of this machine? rows
 *   memfd ◄───────────────────────────────────────  written into the memfd
 *   socket pair ◄── one byte, with who it is ─────  done
 *
 * Nobody waits for anybody but the one who asks, NL_WAIT_MS at most: a process that is stopped is
 * left out. The folder is private to the user; nevertheless what comes back is only numbers, and
 * the process is named by the kernel, in the reader's PID namespace.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/spw_monotonic.h"
#include "softhca/hca_real.h"
#include "softhca/kernel/kernel.h"
#include "softhca/kernel/nldev/nldev.h"
#include "softhca/kernel/tree.h"

#define SOCKET_NAME ".objects"
#define ASKED_MAX   64u        /* processes */
#define ROWS_MAX    (1u << 20) /* of one process */

/* Asks for an answer in rows of this size: other versions of the library have others. */
struct machine_ask {
	uint64_t machine;
	uint32_t row_bytes;
};

static struct {
	char folder[96]; /* of this process; "": none yet */
	int fd;          /* where others ask; 0: not yet, -1: it could not be made */
	struct hca_dev *devs;
	uint32_t dev_cnt;
} self;

/* ---- who is asked ---- */

void nl_machine_folder(const char *root)
{
	snprintf(self.folder, sizeof(self.folder), "%s", root);
}

static bool machine_socket(const char *folder, const char *entry, struct sockaddr_un *a_out)
{
	*a_out = (struct sockaddr_un){.sun_family = AF_UNIX};
	return (size_t)snprintf(a_out->sun_path, sizeof(a_out->sun_path), "%s%s/" SOCKET_NAME,
				folder, entry) < sizeof(a_out->sun_path);
}

/* Without the socket others do not find these objects, and nothing else is amiss. */
void nl_machine_serve(struct hca_dev *devs, uint32_t cnt, const char *root)
{
	struct sockaddr_un a;
	int32_t none = 0;
	int fd;

	if (spw_thr_load_rlx(&self.fd) || !machine_socket(root, "", &a))
		return;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && (fchmod(fd, 0600) || bind(fd, (struct sockaddr *)&a, sizeof(a)))) {
		real_close(fd);
		return; /* perhaps another thread's is just being made */
	}
	self.devs = devs;
	self.dev_cnt = cnt;
	/* [NM1 release, pairs with NM2: devices are set] */
	if (!spw_thr_cas(&self.fd, &none, fd))
		real_close(fd);
}

void nl_machine_forked(void)
{
	if (self.fd > 0)
		real_close(self.fd);
	self.fd = 0;
	self.folder[0] = 0;
}

/* Returns: false: that was no question. fd_out: memfd, socket; -1: none. */
static bool machine_receive(int fd, struct machine_ask *ask, int fd_out[2])
{
	union {
		struct cmsghdr head;
		uint8_t bytes[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct iovec iov = {ask, sizeof(*ask)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	const ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *c = n >= 0 ? CMSG_FIRSTHDR(&m) : NULL;

	fd_out[0] = fd_out[1] = -1;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(fd_out, CMSG_DATA(c), SPW_MIN(c->cmsg_len - CMSG_LEN(0), 2 * sizeof(int)));
	if (n != sizeof(*ask))
		memset(ask, 0, sizeof(*ask));
	return n >= 0;
}

static void machine_write(int fd, const struct nl_rows *rows)
{
	const uint8_t *at = (const uint8_t *)rows->row;
	size_t left = rows->cnt * sizeof(*rows->row);

	while (left) {
		const ssize_t n = real_write(fd, at, left);

		if (n <= 0)
			return;
		at += n;
		left -= (size_t)n;
	}
}

/* Descriptors that were not files of memory would only hold the thread up while it writes. */
static bool machine_is_memory(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

void hca_res_serve(void)
{
	const int fd = spw_thr_load_acq(&self.fd); /* [NM2 acquire, pairs with NM1] */
	struct machine_ask ask;
	int to[2];

	if (fd <= 0 || !machine_receive(fd, &ask, to))
		return;
	if (ask.machine == self.devs->cfg->machine && ask.row_bytes == sizeof(struct nl_row) &&
	    machine_is_memory(to[0])) {
		struct nl_rows rows = {0};

		nl_rows_own(self.devs, self.dev_cnt, &rows);
		machine_write(to[0], &rows);
		nl_rows_free(&rows);
		(void)send(to[1], "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
	real_close(to[0]);
	real_close(to[1]);
}

/* ---- who asks ---- */

struct asked {
	int mem_fd, fd; /* the rows; the own end of the socket pair */
};

static bool machine_send(const struct sockaddr_un *to, uint64_t machine, int mem_fd, int pair_fd)
{
	const struct machine_ask ask = {.machine = machine, .row_bytes = sizeof(struct nl_row)};
	const int fds[2] = {mem_fd, pair_fd};
	union {
		struct cmsghdr head;
		uint8_t bytes[CMSG_SPACE(sizeof(fds))];
	} control = {.head = {.cmsg_level = SOL_SOCKET,
			      .cmsg_type = SCM_RIGHTS,
			      .cmsg_len = CMSG_LEN(sizeof(fds))}};
	struct sockaddr_un name = *to;
	struct iovec iov = {(void *)(uintptr_t)&ask, sizeof(ask)};
	const struct msghdr m = {.msg_name = &name,
				 .msg_namelen = sizeof(name),
				 .msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool sent;

	memcpy(CMSG_DATA(&control.head), fds, sizeof(fds));
	sent = fd >= 0 && sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(ask);
	real_close(fd);
	return sent;
}

/* A folder without a socket, or whose process was killed, is passed over. */
static bool machine_ask_one(const struct sockaddr_un *to, uint64_t machine, struct asked *out)
{
	const int on = 1;
	int pair[2] = {-1, -1};
	bool sent;

	*out = (struct asked){memfd_create("softhca-objects", MFD_CLOEXEC), -1};
	if (out->mem_fd < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		real_close(out->mem_fd);
		return false;
	}
	out->fd = pair[0];
	setsockopt(out->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	sent = machine_send(to, machine, out->mem_fd, pair[1]);
	real_close(pair[1]);
	if (!sent) {
		real_close(out->fd);
		real_close(out->mem_fd);
	}
	return sent;
}

/* All are asked before one is waited for. */
static uint32_t machine_ask_all(uint64_t machine, struct asked asked[ASKED_MAX])
{
	const char *own = strrchr(self.folder, '/');
	char base[sizeof(self.folder)], prefix[32];
	uint32_t cnt = 0;
	struct dirent *e;
	DIR *d;

	if (!own)
		return 0;
	own++;
	snprintf(base, sizeof(base), "%.*s", (int)(own - self.folder), self.folder);
	tree_prefix(prefix, sizeof(prefix));
	d = opendir(base);
	while (d && cnt < ASKED_MAX && (e = readdir(d))) {
		struct sockaddr_un to;

		if (strncmp(e->d_name, prefix, strlen(prefix)) == 0 && strcmp(e->d_name, own) &&
		    machine_socket(base, e->d_name, &to))
			cnt += machine_ask_one(&to, machine, &asked[cnt]);
	}
	if (d)
		closedir(d);
	return cnt;
}

/* Returns: whether it answered; *pid_out 0: its PID namespace is not below this one. */
static bool machine_answered(int fd, uint32_t *pid_out)
{
	union {
		struct cmsghdr head;
		uint8_t bytes[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	uint8_t byte;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	const bool got = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) == 1;
	const struct cmsghdr *c = got ? CMSG_FIRSTHDR(&m) : NULL;
	struct ucred who = {0};

	if (c && c->cmsg_type == SCM_CREDENTIALS && c->cmsg_len == CMSG_LEN(sizeof(who)))
		memcpy(&who, CMSG_DATA(c), sizeof(who));
	*pid_out = (uint32_t)who.pid;
	return got;
}

/* Rows that cannot be are left out: kinds and devices are indices. */
static void machine_add(int mem_fd, uint32_t pid, uint32_t dev_cnt, struct nl_rows *rows)
{
	struct nl_row row;

	for (uint32_t i = 0; i < ROWS_MAX; i++) {
		struct nl_row *r;

		if (pread(mem_fd, &row, sizeof(row), (off_t)(i * sizeof(row))) != sizeof(row))
			return;
		r = row.kind < NL_KINDS && row.dev < dev_cnt ? nl_row_add(rows) : NULL;
		if (!r)
			continue;
		*r = row;
		r->pid = pid;
	}
}

void nl_machine_rows(const struct hca_dev *devs, uint32_t cnt, struct nl_rows *rows)
{
	struct asked asked[ASKED_MAX];
	int64_t until_ms;
	uint32_t n;

	if (!devs->cfg->machine)
		return;
	n = machine_ask_all(devs->cfg->machine, asked);
	until_ms = (int64_t)spw_monotonic_ms() + NL_WAIT_MS;
	for (uint32_t i = 0; i < n; i++) {
		struct pollfd p = {.fd = asked[i].fd, .events = POLLIN};
		uint32_t pid;

		if (poll(&p, 1, (int)SPW_MAX(until_ms - (int64_t)spw_monotonic_ms(), 0)) > 0 &&
		    machine_answered(asked[i].fd, &pid))
			machine_add(asked[i].mem_fd, pid, cnt, rows);
		real_close(asked[i].fd);
		real_close(asked[i].mem_fd);
	}
}
