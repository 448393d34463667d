/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Makes this process a stream's consumer: maps the page and the objects of another process by its
 * descriptors (the kernel checks the right to, as for a debugger that only reads), registers the
 * objects with CUDA if a GPU is to read them, or maps them if they lie in its own memory, and
 * claims the page.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_fork.h"
#include "base/spw_monotonic.h"
#include "tensor/tensor.h"

#define FREED_NS (2 * TENSOR_NS_PER_S) /* for the owner, to notice that a consumer died */
#define RETRY_NS 10000000
#define TAKE_S   2 /* the owner answers about every 20 ms */

/* What /proc/PID/fd/N refuses, both to open and to connect to. */
static int tensor_refused(const char *path, int error)
{
	return spw_err(error,
		       "%s: %s: objects are handed over to processes of the same user with at "
		       "least the capabilities of spinwire",
		       path, strerror(error));
}

/* Opening /proc/PID/fd/N gives a descriptor of the same memfd, without a socket or any help of the
 * owner. The size is checked first: a mapped page beyond the end of its file raises SIGBUS when it
 * is touched. Writable, since a consumer changes the states of buffers, and DLPack's consumers may
 * write into a tensor. */
static int tensor_map(int32_t pid, int32_t fd, uint64_t bytes, void **at_out)
{
	char path[64];
	struct stat stat;
	int own, rc = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, fd);
	own = open(path, O_RDWR | O_CLOEXEC);
	if (own < 0)
		return tensor_refused(path, errno);
	*at_out = MAP_FAILED;
	if (!fstat(own, &stat) && (uint64_t)stat.st_size >= bytes)
		*at_out = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0);
	if (*at_out == MAP_FAILED)
		rc = spw_err(EPROTO, "%s: %llu bytes cannot be mapped", path,
			     (unsigned long long)bytes);
	close(own);
	return rc;
}

/* A GPU's own memory. */
static bool tensor_is_own(const struct tensor_place *place)
{
	return !strcmp(place->kind, "gpu");
}

/* The page first: its own sizes have to fit what telemetry reported before they are used. Another
 * program may have taken the number of a process that ended in between. */
static int tensor_map_both(struct spw_tensor_stream *stream, const struct tensor_place *place)
{
	int rc = tensor_map(place->pid, place->page_fd, place->page_bytes, (void **)&stream->page);

	if (rc)
		return rc;
	rc = spw_obj_page_check(stream->page, place->page_bytes);
	if (!rc && stream->page->buffer_cnt * stream->page->buffer_stride > place->memory_bytes)
		rc = spw_err(EPROTO, "its buffers need more than %llu bytes of memory",
			     (unsigned long long)place->memory_bytes);
	if (!rc && !tensor_is_own(place))
		rc = tensor_map(place->pid, place->memory_fd, place->memory_bytes,
				(void **)&stream->memory);
	if (rc)
		munmap(stream->page, place->page_bytes);
	return rc;
}

static void tensor_unmap_both(const struct spw_tensor_stream *stream,
			      const struct tensor_place *place)
{
	munmap(stream->page, place->page_bytes);
	if (stream->memory)
		munmap(stream->memory, place->memory_bytes);
}

/* ---- a GPU's own memory ---- */

/* The control buffer has room for one descriptor: more are closed by the kernel, and flagged. */
static int take_message(int from, struct spw_mem_handed *handed_out, int *fd_out)
{
	union {
		struct cmsghdr head; /* aligns it */
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec data = {handed_out, sizeof(*handed_out)};
	struct msghdr message = {.msg_iov = &data,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = CMSG_LEN(sizeof(int))};
	const ssize_t got = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
	const struct cmsghdr *c = got < 0 ? NULL : CMSG_FIRSTHDR(&message);

	if (got < 0)
		return -errno;
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
	    c->cmsg_len != CMSG_LEN(sizeof(int)))
		return -EPROTO;
	memcpy(fd_out, CMSG_DATA(c), sizeof(int));
	if (got == sizeof(*handed_out) && !(message.msg_flags & (MSG_CTRUNC | MSG_TRUNC)))
		return 0;
	close(*fd_out);
	return -EPROTO;
}

/* The owner sends a descriptor of it through a socket (mem_hand.c), since /proc/PID/fd/N opens the
 * driver's device anew; the socket's place is behind /proc, where the kernel checks as for a memfd.
 */
static int tensor_take(const struct tensor_place *place, struct spw_mem_handed *handed_out,
		       int *fd_out)
{
	const struct timeval limit = {.tv_sec = TAKE_S};
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int from = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), rc;

	if (from < 0)
		return spw_err(errno, "socket: %s", strerror(errno));
	snprintf(at.sun_path, sizeof(at.sun_path), "/proc/%d/fd/%d", place->pid, place->memory_fd);
	setsockopt(from, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(from, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)); /* and of connect */
	if (connect(from, (const struct sockaddr *)&at, sizeof(at)))
		rc = -errno;
	else
		rc = take_message(from, handed_out, fd_out);
	close(from);
	if (rc == -EAGAIN)
		return spw_err(ETIMEDOUT,
			       "spinwire (pid %d) does not hand over the objects' memory within "
			       "%d s: is it stopped?",
			       place->pid, TAKE_S);
	if (rc == -EPROTO || rc == -ECONNREFUSED || rc == -ECONNRESET)
		return spw_err(EPROTO, "%s: hands over no memory of a GPU", at.sun_path);
	return rc ? tensor_refused(at.sun_path, -rc) : 0;
}

static int tensor_open_own(struct spw_tensor_stream *stream, const struct tensor_place *place,
			   enum spw_tensor_device device, int32_t gpu)
{
	struct spw_mem_handed handed;
	int fd = -1, rc;

	if (device == SPW_TENSOR_CPU)
		return spw_err(ENOTSUP,
			       "its objects lie in a GPU's own memory, which the CPU cannot read: "
			       "open it for CUDA, or start spinwire with another --object-memory");
	rc = tensor_take(place, &handed, &fd);
	if (rc)
		return rc;
	rc = tensor_cuda_open_own(&stream->cuda, gpu, &handed, fd, place->memory_bytes);
	close(fd);
	return rc;
}

/* ---- the consumer ---- */

/* Names the process that is in the way: a forgotten notebook is the usual one. */
static int tensor_busy(uint32_t pid, bool dead)
{
	char path[64], comm[32] = "?";
	FILE *file;

	if (pid == (uint32_t)getpid())
		return spw_err(EBUSY, "this process consumes it, or holds objects of it: close it, "
				      "and release them");
	if (dead)
		return spw_err(EBUSY,
			       "its consumer (pid %u) died, and spinwire has not yet taken "
			       "the objects back: try again",
			       pid);
	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	file = fopen(path, "re");
	if (file) {
		if (fgets(comm, sizeof(comm), file))
			comm[strcspn(comm, "\n")] = '\0';
		fclose(file);
	}
	return spw_err(EBUSY, "%s (pid %u) consumes it, and only one process can", comm, pid);
}

/* The owner frees the claim of a consumer that died. */
static int tensor_claim(struct spw_obj_page *page)
{
	const uint64_t until = spw_monotonic_ns() + FREED_NS;

	while (spw_obj_page_claim(page, (uint32_t)getpid())) {
		const uint32_t by = spw_thr_load_rlx(&page->consumer_pid);
		const bool dead = kill((pid_t)by, 0) && errno == ESRCH;

		if (!dead || spw_monotonic_ns() > until)
			return tensor_busy(by, dead);
		tensor_sleep_ns(RETRY_NS);
	}
	return 0;
}

/* SPW_TENSOR_AUTO takes a GPU where the objects are in memory meant for one, and goes on by the CPU
 * where that fails. SPW_TENSOR_CUDA reports the failure, because the caller cannot do without. */
static int tensor_open_cuda(struct spw_tensor_stream *stream, const struct tensor_place *place,
			    enum spw_tensor_device device, int32_t gpu)
{
	int rc;

	stream->cuda.gpu = -1;
	if (tensor_is_own(place))
		return tensor_open_own(stream, place, device, gpu);
	if (device == SPW_TENSOR_CPU ||
	    (device == SPW_TENSOR_AUTO && strncmp(place->kind, "cuda-", 5)))
		return 0;
	rc = tensor_cuda_open(&stream->cuda, gpu, stream->memory, stream->memory_bytes);
	return device == SPW_TENSOR_AUTO ? 0 : rc;
}

/* The claim is last: until it succeeds, nothing of this process is visible to the owner, so an
 * error before it needs no undoing there. The pidfd is opened before the claim, so that a wait for
 * objects always notices that the owner died. */
static int tensor_start(struct spw_tensor_stream *stream, const struct tensor_place *place,
			enum spw_tensor_device device, int32_t gpu)
{
	int rc;

	spw_fork_watch();
	stream->forks = spw_fork_cnt;
	stream->refs = 1;
	stream->owner_pid = place->pid;
	stream->page_bytes = place->page_bytes;
	stream->memory_bytes = place->memory_bytes;
	stream->owner_fd = (int)syscall(SYS_pidfd_open, place->pid, 0);
	if (stream->owner_fd < 0)
		return spw_err(errno, "pidfd_open of spinwire (pid %d): %s", place->pid,
			       strerror(errno));
	rc = tensor_open_cuda(stream, place, device, gpu);
	if (!rc) {
		rc = tensor_claim(stream->page);
		if (rc)
			tensor_cuda_close(&stream->cuda);
	}
	if (rc)
		close(stream->owner_fd);
	else
		pthread_mutex_init(&stream->reap_lock, NULL);
	return rc;
}

/* The number of slots is known only from the mapped page, so the mappings are made in `head` and
 * moved into the stream once it can be allocated. */
int tensor_attach(const struct tensor_place *place, enum spw_tensor_device device, int32_t gpu,
		  struct spw_tensor_stream **stream_out)
{
	struct spw_tensor_stream *stream, head = {0};
	int rc = tensor_map_both(&head, place);

	if (rc)
		return spw_err_ctx(rc, "stream %s", place->name);
	stream = calloc(1, sizeof(*stream) + head.page->buffer_cnt * sizeof(stream->slot[0]));
	if (stream) {
		*stream = head;
		rc = tensor_start(stream, place, device, gpu);
	} else {
		rc = spw_err(ENOMEM, "no memory for %u buffers", head.page->buffer_cnt);
	}
	if (rc) {
		tensor_unmap_both(&head, place);
		free(stream);
		return spw_err_ctx(rc, "stream %s", place->name);
	}
	*stream_out = stream;
	return 0;
}

int spw_tensor_open(const struct spw_tensor_conf *conf, struct spw_tensor_stream **stream_out)
{
	struct tensor_place place;
	int rc = tensor_find(conf, &place);

	return rc ? rc : tensor_attach(&place, conf->device, conf->gpu, stream_out);
}
