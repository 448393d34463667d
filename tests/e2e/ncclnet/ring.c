/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * ring RANK RANKS FOLDER [noprofiler]: one rank of a ring under the plugin, with the threads that a
 * rank of NCCL has: the program enqueues a call and waits for it, the proxy moves its messages and
 * sleeps between calls. Commands come on stdin, one a line:
 *
 *   join                                    connects to the next rank, accepts the one before
 *   run CALLS FUNCTION MESSAGES PAUSE_MS    collectives, a pause before each; "ran" at the end
 *   replay CALLS FUNCTION MESSAGES PAUSE_MS the same as launches of a captured graph: the profiler
 *                                           is called for the first one only
 *
 * AllGather and AllReduce go round the ring, so that a rank that stops stops all; Broadcast goes
 * from rank 0 to the last one. Some bytes of each page are compared (pair.py compares all), so that
 * the network limits the speed. An error of the plugin ends the proxy's work
 * ("result N"), not the program, as in NCCL.
 *
 * A third thread opens files of the emulated /sys again and again: the software ConnectX writes
 * them then, so that a reader outside of this process finds the state of its ports (ring.py).
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ncclnet/prof_abi.h"
#include "net_kit.h"
#include "rank_kit.h"

#define FLIGHT  8u
#define SLOT    (256u << 10)
#define MARK    32u /* bytes of each page that are compared */
#define VERSION 11

/* What the proxy has to move for a collective. */
struct call {
	uint32_t number;
	uint32_t sends, recvs; /* messages */
	uint32_t ahead;        /* so many sends more than receives that have come */
};

/* One direction. */
struct way {
	void *comm, *mr;
	uint8_t *slot; /* FLIGHT of SLOT bytes */
	void *req[FLIGHT];
	uint32_t started, done; /* messages of the call */
};

static struct ring {
	struct net net;
	int rank, rank_cnt;
	const char *folder;
	void *listen;
	struct way send, recv;
	const struct nccl_prof_v5 *prof;
	void *prof_ctx;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct call call;
	bool active; /* the proxy has a call */
	uint32_t call_cnt;
} ring = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* ---- the profiler ---- */

static void ring_prof_init(struct ring *r)
{
	int mask = 0;

	r->prof = net_symbol("ncclProfiler_v5");
	rank_must(!r->prof);
	rank_must(r->prof->init(&r->prof_ctx, VERSION, &mask, "ring", r->rank_cnt, r->rank_cnt,
				r->rank, NULL));
}

static void ring_prof_coll(struct ring *r, const char *function, uint32_t messages)
{
	const struct nccl_prof_event_v5 coll = {.type = NCCL_PROF_COLL,
						.rank = r->rank,
						.coll = {.sequence = r->call_cnt,
							 .function = function,
							 .count = (size_t)messages * SLOT,
							 .datatype = "ncclInt8",
							 .algorithm = "RING",
							 .protocol = "SIMPLE"}};
	void *none;

	if (r->prof_ctx)
		rank_must(r->prof->start(r->prof_ctx, &none, &coll));
}

static void *ring_prof_op(struct ring *r, uint32_t messages, bool is_send)
{
	const int step = is_send ? 1 : -1;
	const struct nccl_prof_event_v5 op = {
		.type = NCCL_PROF_PROXY_OP,
		.rank = r->rank,
		.proxy_op = {.pid = getpid(),
			     .peer = (r->rank + step + r->rank_cnt) % r->rank_cnt,
			     .step_cnt = (int)messages,
			     .is_send = is_send}};
	void *handle = NULL;

	if (r->prof_ctx && messages)
		rank_must(r->prof->start(r->prof_ctx, &handle, &op));
	return handle;
}

/* ---- the proxy ---- */

/* NCCL's proxy stops at an error, and the program does not learn of it. */
static void ring_check(int result)
{
	if (!result)
		return;
	printf("result %d\n", result);
	for (;;)
		pause();
}

/* The bytes of a message, written or compared. */
static bool ring_bytes(uint8_t *slot, const struct call *call, uint32_t message, bool is_send)
{
	bool right = true;

	for (uint32_t at = 0; at < SLOT; at += 4096) {
		const uint32_t seed = call->number * 65537u + message * 64 + at / 4096;

		if (is_send)
			rank_fill(slot + at, MARK, seed);
		else
			right &= rank_is_right(slot + at, MARK, seed);
	}
	return right;
}

/* Returns: whether a message was started. */
static bool ring_start(struct ring *r, const struct call *call, struct way *w)
{
	const uint32_t i = w->started;
	uint8_t *slot = w->slot + (size_t)(i % FLIGHT) * SLOT;
	struct net_group g = {1, {slot}, {SLOT}, {0}, {w->mr}};
	void **req = &w->req[i % FLIGHT];

	if (w == &r->send) {
		ring_bytes(slot, call, i, true);
		ring_check(net_isend(&r->net, w->comm, slot, SLOT, 0, w->mr, req));
	} else {
		ring_check(net_irecv(&r->net, w->comm, &g, req));
	}
	w->started += !!*req;
	return *req;
}

/* Returns: whether the oldest message has ended. */
static bool ring_finish(struct ring *r, const struct call *call, struct way *w)
{
	const uint32_t i = w->done;
	int done, bytes;

	if (i == w->started)
		return false;
	ring_check(net_test(&r->net, w->req[i % FLIGHT], &done, &bytes));
	if (!done)
		return false;
	if (w == &r->recv &&
	    (bytes != SLOT || !ring_bytes(w->slot + (size_t)(i % FLIGHT) * SLOT, call, i, false))) {
		printf("message %u of call %u is wrong\n", i, call->number);
		exit(1);
	}
	w->done++;
	return true;
}

static void ring_move(struct ring *r, const struct call *call)
{
	void *send_op = ring_prof_op(r, call->sends, true);
	void *recv_op = ring_prof_op(r, call->recvs, false);

	r->send.started = r->send.done = r->recv.started = r->recv.done = 0;
	while (r->send.done < call->sends || r->recv.done < call->recvs) {
		bool moved = false;

		if (r->recv.started < call->recvs && r->recv.started - r->recv.done < FLIGHT)
			moved |= ring_start(r, call, &r->recv);
		if (r->send.started < call->sends && r->send.started - r->send.done < FLIGHT &&
		    r->send.started < r->recv.done + call->ahead)
			moved |= ring_start(r, call, &r->send);
		moved |= ring_finish(r, call, &r->recv);
		moved |= ring_finish(r, call, &r->send);
		if (!moved)
			rank_nap(50);
	}
	if (r->prof_ctx) {
		r->prof->stop(send_op);
		r->prof->stop(recv_op);
	}
}

static void *ring_proxy(void *arg)
{
	struct ring *r = arg;

	pthread_mutex_lock(&r->lock);
	for (;;) {
		while (!r->active)
			pthread_cond_wait(&r->changed, &r->lock);
		pthread_mutex_unlock(&r->lock);
		ring_move(r, &r->call);
		pthread_mutex_lock(&r->lock);
		r->active = false;
		pthread_cond_broadcast(&r->changed);
	}
	return NULL;
}

/* ---- the program ---- */

static void ring_call(struct ring *r, const char *function, uint32_t messages, bool is_counted)
{
	const bool first = r->rank == 0, last = r->rank == r->rank_cnt - 1;
	const uint32_t rounds = (uint32_t)r->rank_cnt - 1;
	const uint32_t all = messages * rounds * (strcmp(function, "AllReduce") ? 1 : 2);
	struct call call = {r->call_cnt, all, all, messages};

	if (!strcmp(function, "Broadcast"))
		call = (struct call){r->call_cnt, last ? 0 : messages, first ? 0 : messages,
				     first ? messages : 0};
	if (is_counted)
		ring_prof_coll(r, function, messages);
	r->call_cnt++;
	pthread_mutex_lock(&r->lock);
	r->call = call;
	r->active = true;
	pthread_cond_broadcast(&r->changed);
	while (r->active)
		pthread_cond_wait(&r->changed, &r->lock);
	pthread_mutex_unlock(&r->lock);
}

static void ring_path(const struct ring *r, int rank, char path_out[512])
{
	snprintf(path_out, 512, "%s/handle.%d", r->folder, rank % r->rank_cnt);
}

static void ring_way(struct ring *r, struct way *w)
{
	w->slot = malloc((size_t)FLIGHT * SLOT);
	rank_must(net_reg(&r->net, w->comm, w->slot, (size_t)FLIGHT * SLOT, NCCL_PTR_HOST, &w->mr));
}

static void ring_join(struct ring *r)
{
	uint8_t handle[NCCL_HANDLE_BYTES];
	char path[512];

	ring_path(r, r->rank + 1, path);
	rank_handle_learn(path, handle);
	while (!r->send.comm || !r->recv.comm) {
		if (!r->send.comm)
			rank_must(net_connect(&r->net, 0, handle, &r->send.comm));
		if (!r->recv.comm)
			rank_must(net_accept(&r->net, r->listen, &r->recv.comm));
		rank_nap(200);
	}
	ring_way(r, &r->send);
	ring_way(r, &r->recv);
}

static void ring_obey(struct ring *r, const char *line)
{
	char word[16] = "", function[24] = "";
	unsigned cnt, messages, pause_ms;
	const int n =
		sscanf(line, "%15s %u %23s %u %u", word, &cnt, function, &messages, &pause_ms);

	if (!strcmp(word, "join")) {
		ring_join(r);
		printf("joined\n");
	} else if (n == 5) {
		for (unsigned i = 0; i < cnt; i++) {
			for (unsigned ms = 0; ms < pause_ms; ms++)
				rank_nap(1000);
			ring_call(r, function, messages, !strcmp(word, "run") || i == 0);
		}
		printf("ran\n");
	} else {
		printf("no command: %s", line);
	}
}

/* Files of /sys whose opening makes the software ConnectX write them. */
static void *ring_sysfs(void *arg)
{
	static const char *const file[] = {"state",
					   "counters/port_xmit_data",
					   "hw_counters/packet_seq_err",
					   "hw_counters/local_ack_timeout_err",
					   "hw_counters/rnr_nak_retry_err",
					   "hw_counters/implied_nak_seq_err",
					   "hw_counters/roce_adp_retrans",
					   "hw_counters/req_transport_retries_exceeded",
					   "hw_counters/out_of_sequence",
					   "hw_counters/duplicate_request",
					   "hw_counters/out_of_buffer"};
	char path[128];

	for (;; rank_nap(50000))
		for (size_t i = 0; i < SPW_ARRAY_CNT(file); i++) {
			int fd;

			snprintf(path, sizeof(path), "/sys/class/infiniband/mlx5_0/ports/1/%s",
				 file[i]);
			fd = open(path, O_RDONLY | O_CLOEXEC);
			if (fd >= 0)
				close(fd);
		}
	return arg;
}

int main(int argc, char **argv)
{
	uint8_t handle[NCCL_HANDLE_BYTES];
	char path[512], line[128];
	pthread_t thread;
	int fd;

	if (argc < 4 || !net_load(&ring.net, VERSION))
		return 2;
	setlinebuf(stdout);
	ring.rank = atoi(argv[1]);
	ring.rank_cnt = atoi(argv[2]);
	ring.folder = argv[3];
	rank_must(net_init(&ring.net));
	if (argc == 4)
		ring_prof_init(&ring);
	rank_must(net_listen(&ring.net, 0, handle, &ring.listen));
	ring_path(&ring, ring.rank, path);
	rank_handle_share(path, handle);
	rank_must(pthread_create(&thread, NULL, ring_sysfs, &ring) ||
		  pthread_create(&thread, NULL, ring_proxy, &ring) ||
		  pthread_setname_np(thread, "proxy"));
	/* The doctor knows NCCL's processes by the name of its library. */
	snprintf(path, sizeof(path), "%s/libnccl.so.2", ring.folder);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	rank_must(mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED);
	/* Open for good: its link names the folder in which the software ConnectX writes. */
	rank_must(open("/sys/class/infiniband", O_RDONLY | O_DIRECTORY | O_CLOEXEC) < 0);
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin))
		ring_obey(&ring, line);
	return 0;
}
