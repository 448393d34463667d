/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A stand-in for a spinwire that publishes objects: the same page, the same telemetry, and the
 * owner's half of the protocol, without a port or an executor.
 *
 *   publisher SOCKET CONFIG NAME BUFFERS COUNT GAP_US [KIND]
 *
 * An object is int32 [4][256]; element i of object n is n * 1000 + i. After COUNT objects the
 * stream has ended; the program stays until SIGTERM, and prints what became of the objects. The
 * first time that no buffer is free it makes the file SOCKET.full. With KIND gpu objects are copied
 * into the GPU's own memory, which lib/mem makes and hands over.
 * `publisher layout` prints offsets of what Python reads.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "cuda/spw_cuda_library.h"
#include "mem/spw_mem.h"
#include "obj/spw_obj.h"
#include "tensor/spw_tensor.h"

#define ROWS    4
#define COLUMNS 256
#define BYTES   (ROWS * COLUMNS * sizeof(int32_t))

#define CUDA_CALLS(X)                                                           \
	X(device, cuDeviceGet, (int *device, int ordinal))                      \
	X(retain, cuDevicePrimaryCtxRetain, (void **context, int device))       \
	X(push, cuCtxPushCurrent_v2, (void *context))                           \
	X(copy, cuMemcpyHtoD_v2, (uint64_t to, const void *from, size_t bytes)) \
	X(wait, cuStreamSynchronize, (void *stream))

static struct {
	CUDA_CALLS(SPW_CUDA_LIBRARY_MEMBER)
} cuda;
static struct spw_region region; /* of KIND gpu */

static volatile sig_atomic_t stopped;
static struct spw_obj_page *page;
static int32_t *memory;
static char row[4096];

static void on_term(int sig)
{
	(void)sig;
	stopped = 1;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void *shared(const char *name, uint64_t bytes, int *fd_out)
{
	void *at;

	*fd_out = memfd_create(name, MFD_CLOEXEC);
	if (*fd_out < 0 || ftruncate(*fd_out, (off_t)bytes))
		die(name);
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd_out, 0);
	if (at == MAP_FAILED)
		die(name);
	return at;
}

/* Returns: what is copied to the region. */
static void *own(uint64_t *bytes, int *fd_out)
{
	const struct spw_mem_req req = {.kind = SPW_MEM_GPU,
					.bytes = *bytes,
					.numa_node = -1,
					.executor_is_gpu = true,
					.shared = true};
	typeof(cuda) *of = &cuda;
	const struct spw_cuda_symbol wanted[] = {CUDA_CALLS(SPW_CUDA_LIBRARY_SYMBOL)};
	void *context, *copy = malloc(*bytes);
	int device;

	if (!copy || spw_region_alloc(&req, &region) ||
	    spw_cuda_library_open("libcuda.so.1", "CUDA driver", wanted, SPW_ARRAY_CNT(wanted)) ||
	    of->device(&device, 0) || of->retain(&context, device) || of->push(context)) {
		fprintf(stderr, "%s\n", spw_err_text());
		exit(1);
	}
	*bytes = region.bytes;
	*fd_out = region.shared_fd;
	return copy;
}

static void make(char **arg, uint32_t buffers, const char *kind)
{
	struct spw_obj_desc desc = {
		.rule = {.buffers = buffers},
		.shape = {.type_code = 0,
			  .type_bits = 32,
			  .ndim = 2,
			  .dim = {ROWS, COLUMNS},
			  .stride = {COLUMNS, 1},
			  .bytes = BYTES},
	};
	uint64_t page_bytes = spw_obj_page_bytes(buffers), bytes = buffers * BYTES;
	int page_fd, memory_fd;

	snprintf(desc.name, sizeof(desc.name), "%s", arg[3]);
	page = shared("page", page_bytes, &page_fd);
	memory = strcmp(kind, "gpu") ? shared("objects", bytes, &memory_fd)
				     : own(&bytes, &memory_fd);
	spw_obj_page_init(page, &desc, BYTES, 1000000000);
	snprintf(row, sizeof(row),
		 "{\"/spinwire/objects\": {\"0\": {\"name\": \"%s\", \"kind\": \"%s\", \"config\": "
		 "\"%s\", "
		 "\"description\": \"%s.description\", \"pid\": %d, \"page_fd\": %d, "
		 "\"page_bytes\": %llu, \"memory_fd\": %d, \"memory_bytes\": %llu}}}",
		 arg[3], kind, arg[2], arg[2], getpid(), page_fd, (unsigned long long)page_bytes,
		 memory_fd, (unsigned long long)bytes);
}

static void *serve(void *arg)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0), fd;
	char line[256];

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", (const char *)arg);
	unlink(at.sun_path);
	if (bind(listener, (struct sockaddr *)&at, sizeof(at)) || listen(listener, 8))
		die(at.sun_path);
	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		if (send(fd, "{\"version\": \"stand-in\"}", 23, MSG_NOSIGNAL) > 0 &&
		    recv(fd, line, sizeof(line), 0) > 0)
			send(fd, row, strlen(row), MSG_NOSIGNAL);
		close(fd);
	}
	return NULL;
}

/* Returns: a free buffer, or -1. */
static int find_free(void)
{
	for (uint32_t b = 0; b < page->buffer_cnt; b++)
		if ((spw_thr_load_acq(&page->buffer[b].state) & 0xff) == SPW_OBJ_FREE)
			return (int)b;
	return -1;
}

static bool publish(uint64_t id)
{
	const int b = find_free();
	struct spw_obj_buffer *buffer = &page->buffer[b];
	uint64_t generation = page->head + 1;

	if (b < 0)
		return false;
	for (int32_t i = 0; i < ROWS * COLUMNS; i++)
		memory[(size_t)b * ROWS * COLUMNS + (size_t)i] = (int32_t)id * 1000 + i;
	if (region.bytes && (cuda.copy(region.dev_va + (uint64_t)b * BYTES,
				       memory + (size_t)b * ROWS * COLUMNS, BYTES) ||
			     cuda.wait(NULL)))
		die("cuMemcpyHtoD");
	buffer->receipt = (struct spw_obj_receipt){
		.id = id,
		.generation = generation,
		.state = id % 2 ? SPW_OBJ_STATE_partial : SPW_OBJ_STATE_complete,
		.cause = id % 2 ? SPW_OBJ_CAUSE_deadline : SPW_OBJ_CAUSE_all,
		.packets_present = 4,
		.packets_bad = 7,
		.bytes_due = BYTES,
		.bytes_present = id % 2 ? BYTES - 16 : BYTES,
		.first_nic = 5,
		.publish_tsc = spw_cpu_counter(),
		.range_cnt = id % 2,
		.range = {{32, 48}},
	};
	spw_thr_store_rel(&buffer->state, spw_obj_state_word(generation, SPW_OBJ_READY));
	spw_obj_page_queue(
		page,
		page->buffer_cnt)[page->head & (spw_obj_page_queue_cnt(page->buffer_cnt) - 1)] =
		(uint32_t)b;
	spw_thr_store_rel(&page->head, generation);
	spw_thr_store_rel(&page->wake, (uint32_t)generation);
	return true;
}

/* SOCKET.full: every buffer holds an object, and another one is due. */
static void mark_full(const char *socket_path)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s.full", socket_path);
	file = fopen(path, "w");
	if (!file || fclose(file))
		die(path);
}

/* What the control thread does: a consumer that died holds nothing. */
static void bury(void)
{
	const uint32_t pid = spw_thr_load_rlx(&page->consumer_pid);

	if (pid && kill((pid_t)pid, 0) && errno == ESRCH)
		printf("took back %d from %u\n", spw_obj_page_reclaim(page, pid), pid);
}

#define SHOW(type, field) printf("%s.%s %zu\n", #type, #field, offsetof(struct type, field))

static int layout(void)
{
	SHOW(spw_tensor_conf, gpu);
	SHOW(spw_tensor, buffer);
	SHOW(spw_tensor_export, cuda_stream);
	SHOW(spw_obj_page, tsc_hz);
	SHOW(spw_obj_page, name);
	SHOW(spw_obj_page, shape);
	SHOW(spw_obj_shape, bytes);
	SHOW(spw_obj_receipt, cause);
	SHOW(spw_obj_receipt, packets_present);
	SHOW(spw_obj_receipt, packets_bad);
	SHOW(spw_obj_receipt, bytes_overlap);
	SHOW(spw_obj_receipt, first_nic);
	SHOW(spw_obj_receipt, open_tsc);
	SHOW(spw_obj_receipt, publish_tsc);
	SHOW(spw_obj_receipt, range_more);
	SHOW(spw_obj_receipt, range);
	return 0;
}

int main(int argc, char **argv)
{
	const uint64_t count = argc > 6 ? strtoull(argv[5], NULL, 10) : 0;
	const uint64_t gap_ns = argc > 6 ? strtoull(argv[6], NULL, 10) * 1000 : 0;
	uint64_t published = 0, shed = 0;
	pthread_t thread;

	if (argc == 2 && !strcmp(argv[1], "layout"))
		return layout();
	if (argc < 7)
		return 2;
	signal(SIGTERM, on_term);
	setvbuf(stdout, NULL, _IOLBF, 0);
	make(argv, (uint32_t)atoi(argv[4]), argc > 7 ? argv[7] : "host");
	if (pthread_create(&thread, NULL, serve, argv[1]))
		die("thread");
	for (uint64_t id = 0; !stopped; nanosleep(&(struct timespec){0, (long)gap_ns}, NULL)) {
		bury();
		spw_region_hand(&region);
		if (id == count) {
			spw_thr_store_rel(&page->ended, 1u);
		} else if (publish(id)) {
			published++;
			id++;
		} else if (!shed++) {
			mark_full(argv[1]);
		}
	}
	printf("published %llu, waited %llu times\n", (unsigned long long)published,
	       (unsigned long long)shed);
	return 0;
}
