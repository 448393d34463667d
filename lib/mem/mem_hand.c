/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A GPU's own memory for other processes. A memfd is opened by whoever may open /proc/PID/fd/N; the
 * descriptor that stands for a GPU's memory is one of the driver's device, and opening that again
 * names no memory, so it has to be sent. The socket it is sent by is found and guarded as a memfd
 * is: its place in the file system is held open and unlinked, and /proc/PID/fd/N leads there.
 *
 *   owner      bind ─ open the place (O_PATH) ─ unlink ─ listen        accept ─ send ─ close
 *                            │ shared_fd                                  ▲
 *   consumer                 └───────> connect("/proc/PID/fd/N") ─────────┘─> receive
 *
 * Before listen nobody can connect, and after unlink nobody finds the socket but through /proc,
 * where the kernel checks that the process may read the owner's memory (ptrace(2), "access mode
 * checking"). No file is left if the owner is killed, except between bind and unlink.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "cuda/spw_cuda_share.h"
#include "mem/mem_impl.h"

#define HAND_TURN_MAX 8 /* processes answered at once, and those that may wait */

struct mem_hand {
	struct spw_cuda_share share;
	int listener;
};

_Static_assert(sizeof(((struct spw_mem_handed *)0)->gpu) == SPW_CUDA_UUID_BYTES, "a UUID");

/* Returns: the descriptor of the place where the socket is bound, or -1 with errno. */
static int hand_bind(int listener)
{
	char folder[] = "/tmp/spinwire-XXXXXX";
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int place = -1, err;

	if (!mkdtemp(folder))
		return -1;
	snprintf(at.sun_path, sizeof(at.sun_path), "%s/memory", folder);
	if (!bind(listener, (const struct sockaddr *)&at, sizeof(at)))
		place = open(at.sun_path, O_PATH | O_CLOEXEC);
	err = errno;
	unlink(at.sun_path);
	rmdir(folder);
	errno = err;
	return place;
}

static int hand_listen(struct mem_hand *hand, int *place_out)
{
	int err;

	*place_out = -1;
	hand->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (hand->listener >= 0)
		*place_out = hand_bind(hand->listener);
	if (*place_out >= 0 && !listen(hand->listener, HAND_TURN_MAX))
		return 0;
	err = errno;
	if (*place_out >= 0)
		close(*place_out);
	if (hand->listener >= 0)
		close(hand->listener);
	return spw_err(err, "the socket in /tmp by which other processes get it: %s",
		       strerror(err));
}

int mem_hand_open(size_t bytes, struct spw_region *region)
{
	struct mem_hand *hand = calloc(1, sizeof(*hand));
	int rc;

	if (!hand)
		return spw_err(ENOMEM, "no memory");
	rc = spw_cuda_share_make(0, bytes, &hand->share);
	if (!rc) {
		rc = hand_listen(hand, &region->shared_fd);
		if (rc)
			spw_cuda_share_free(&hand->share);
	}
	if (rc) {
		free(hand);
		return rc;
	}
	region->hand = hand;
	region->dev_va = hand->share.at;
	region->bytes = hand->share.bytes;
	region->page_bytes = hand->share.page_bytes;
	return 0;
}

void mem_hand_close(struct spw_region *region)
{
	close(region->shared_fd);
	close(region->hand->listener);
	spw_cuda_share_free(&region->hand->share);
	free(region->hand);
}

/* A fresh socket has room for one message: if it is refused, its process is gone. */
static void hand_send(int fd, const struct spw_cuda_share *share)
{
	union {
		struct cmsghdr head; /* aligns it */
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.bytes = {0}};
	struct spw_mem_handed handed;
	struct iovec data = {&handed, sizeof(handed)};
	const struct msghdr message = {.msg_iov = &data,
				       .msg_iovlen = 1,
				       .msg_control = &control,
				       .msg_controllen = sizeof(control)};

	memcpy(handed.gpu, share->gpu, sizeof(handed.gpu));
	control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
					.cmsg_level = SOL_SOCKET,
					.cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.head), &share->fd, sizeof(int));
	sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void spw_region_hand(const struct spw_region *region)
{
	int fd;

	for (int i = 0; region->hand && i < HAND_TURN_MAX; i++) {
		fd = accept4(region->hand->listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			return;
		hand_send(fd, &region->hand->share);
		close(fd);
	}
}
