/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * rank VERSION send|recv FOLDER COUNT BYTES: one of two processes. It moves COUNT messages of BYTES
 * through the plugin, several under way, and compares every byte. To the profiler's table it is
 * rank 0 (recv) or 1 (send) of a communicator of two, and each message a broadcast. The receiver
 * leaves its handle in FOLDER. Prints "going" after the first message, and "done" or "result N" at
 * the end. Exit status 0; 1: wrong bytes; 3: a call failed, as "result N" says.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ncclnet/prof_abi.h"
#include "net_kit.h"
#include "rank_kit.h"

#define FLIGHT 8u

struct rank {
	struct net net;
	bool sends;
	char path[512];
	size_t bytes;
	uint32_t cnt;
	void *listen, *comm, *mr;
	uint8_t *buf; /* FLIGHT slots */
	void *req[FLIGHT];
	const struct nccl_prof_v5 *prof;
	void *prof_ctx, *prof_op[FLIGHT];
};

static void join(struct rank *r)
{
	uint8_t handle[NCCL_HANDLE_BYTES];

	if (r->sends) {
		rank_handle_learn(r->path, handle);
	} else {
		rank_must(net_listen(&r->net, 0, handle, &r->listen));
		rank_handle_share(r->path, handle);
	}
	while (!r->comm) {
		rank_must(r->sends ? net_connect(&r->net, 0, handle, &r->comm)
				   : net_accept(&r->net, r->listen, &r->comm));
		rank_nap(200);
	}
}

/* The library has one page for both of its plugins: they name the same communicator. */
static void prof_init(struct rank *r)
{
	int mask = 0;

	r->prof = net_symbol("ncclProfiler_v5");
	rank_must(!r->prof);
	rank_must(r->prof->init(&r->prof_ctx, net_comm(&r->net), &mask, "harness", 2, 2, r->sends,
				NULL));
}

static void prof_enqueue(struct rank *r, uint32_t i)
{
	const struct nccl_prof_event_v5 coll = {.type = NCCL_PROF_COLL,
						.rank = r->sends,
						.coll = {.sequence = i,
							 .function = "Broadcast",
							 .count = r->bytes,
							 .root = 1,
							 .datatype = "ncclInt8",
							 .algorithm = "RING",
							 .protocol = "SIMPLE"}};
	const struct nccl_prof_event_v5 op = {
		.type = NCCL_PROF_PROXY_OP,
		.rank = r->sends,
		.proxy_op = {
			.pid = getpid(), .peer = !r->sends, .step_cnt = 1, .is_send = r->sends}};
	void *none;

	if (!r->prof_ctx)
		return;
	rank_must(r->prof->start(r->prof_ctx, &none, &coll));
	rank_must(r->prof->start(r->prof_ctx, &r->prof_op[i % FLIGHT], &op));
}

/* The call may be put off: again, later. */
static void start(struct rank *r, uint32_t i)
{
	uint8_t *slot = r->buf + i % FLIGHT * r->bytes;
	struct net_group g = {1, {slot}, {r->bytes}, {0}, {r->mr}};

	if (!r->prof_op[i % FLIGHT])
		prof_enqueue(r, i);

	if (r->sends) {
		rank_fill(slot, r->bytes, i);
		rank_must(
			net_isend(&r->net, r->comm, slot, r->bytes, 0, r->mr, &r->req[i % FLIGHT]));
	} else {
		memset(slot, 0, r->bytes);
		rank_must(net_irecv(&r->net, r->comm, &g, &r->req[i % FLIGHT]));
	}
}

/* Returns: whether message i is complete. */
static bool finish(struct rank *r, uint32_t i)
{
	int done, bytes;

	if (!r->req[i % FLIGHT])
		return false;
	rank_must(net_test(&r->net, r->req[i % FLIGHT], &done, &bytes));
	if (!done)
		return false;
	r->req[i % FLIGHT] = NULL;
	rank_must(r->prof->stop(r->prof_op[i % FLIGHT]));
	r->prof_op[i % FLIGHT] = NULL;
	if ((size_t)bytes != r->bytes ||
	    (!r->sends && !rank_is_right(r->buf + i % FLIGHT * r->bytes, r->bytes, i))) {
		printf("message %u is wrong\n", i);
		exit(1);
	}
	if (i == 0) {
		printf("going\n");
		fflush(stdout);
	}
	return true;
}

static void transfer(struct rank *r)
{
	uint32_t started = 0, done = 0;

	while (done < r->cnt) {
		for (; started < r->cnt && started - done < FLIGHT; started++) {
			start(r, started);
			if (!r->req[started % FLIGHT])
				break;
		}
		if (done < started && finish(r, done))
			done++;
	}
}

int main(int argc, char **argv)
{
	static struct rank r;

	if (argc != 6 || !net_load(&r.net, atoi(argv[1])))
		return 2;
	r.sends = !strcmp(argv[2], "send");
	snprintf(r.path, sizeof(r.path), "%s/handle", argv[3]);
	r.cnt = (uint32_t)atoi(argv[4]);
	r.bytes = (size_t)atoll(argv[5]);
	r.buf = malloc(FLIGHT * r.bytes + 1);
	rank_must(net_init(&r.net));
	prof_init(&r);
	join(&r);
	rank_must(net_reg(&r.net, r.comm, r.buf, FLIGHT * r.bytes, NCCL_PTR_HOST, &r.mr));
	transfer(&r);
	rank_must(net_dereg(&r.net, r.comm, r.mr));
	rank_must(r.sends ? net_close_send(&r.net, r.comm) : net_close_recv(&r.net, r.comm));
	if (r.listen)
		rank_must(net_close_listen(&r.net, r.listen));
	rank_must(r.prof->finalize(r.prof_ctx));
	rank_must(net_finalize(&r.net));
	free(r.buf);
	printf("done\n");
	return 0;
}
