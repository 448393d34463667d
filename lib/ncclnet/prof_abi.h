/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The binary interface between NCCL and a profiler plugin, versions 2 .. 6, as far as this plugin
 * needs it. NCCL looks up the symbol ncclProfiler_vN, newest first: in $NCCL_PROFILER_PLUGIN, in
 * libnccl-profiler.so, then in the library of the net plugin that it has loaded.
 *
 *   version   since NCCL   what differs from the one before
 *   2         2.24         the oldest here: operations name their communicator
 *   3         2.26         a collective without traffic bytes; new kinds of events
 *   4         2.27         init names communicator and rank; operations no longer do
 *   5         2.28         64 bits of type; another order of init's arguments
 *   6         2.29         new kinds of events
 *
 * An event begins with its type, one bit; the rest of its struct is that type's. NCCL starts events
 * of types that the mask does not name, as parents of those that it names: they are ignored here.
 *
 * Source: the layout of NVIDIA's public headers src/include/plugin/profiler/profiler_v2.h ..
 * profiler_v6.h (NCCL 2.30.7), restated. Sizes and offsets are those of LP64 and asserted.
 */
#ifndef SPW_NCCLNET_PROF_ABI_H
#define SPW_NCCLNET_PROF_ABI_H

#include "ncclnet/nccl_abi.h"

enum nccl_prof_type {
	NCCL_PROF_COLL = 1 << 1,
	NCCL_PROF_P2P = 1 << 2,
	NCCL_PROF_PROXY_OP = 1 << 3,
};

/* ---- events ---- */

/* Texts are NCCL's own and static. */
struct nccl_prof_coll_v2 {
	const char *name;
	uint64_t comm_hash;
	uint64_t sequence;
	const char *function;
	const void *send;
	void *recv;
	size_t count;
	int32_t root;
	const char *datatype;
	size_t traffic_bytes;
	uint8_t channel_cnt, warp_cnt;
	const char *algorithm, *protocol;
};
SPW_ASSERT_SIZE(struct nccl_prof_coll_v2, 104);
SPW_ASSERT_OFFSET(struct nccl_prof_coll_v2, datatype, 64);

struct nccl_prof_coll_v3 {
	const char *name;
	uint64_t comm_hash;
	uint64_t sequence;
	const char *function;
	const void *send;
	void *recv;
	size_t count;
	int32_t root;
	const char *datatype;
	uint8_t channel_cnt, warp_cnt;
	const char *algorithm, *protocol;
};
SPW_ASSERT_SIZE(struct nccl_prof_coll_v3, 96);
SPW_ASSERT_OFFSET(struct nccl_prof_coll_v3, algorithm, 80);

struct nccl_prof_coll_v4 { /* of versions 5 and 6, too: one pointer follows */
	uint64_t sequence;
	const char *function;
	const void *send;
	void *recv;
	size_t count;
	int32_t root;
	const char *datatype;
	uint8_t channel_cnt, warp_cnt;
	const char *algorithm, *protocol;
};
SPW_ASSERT_SIZE(struct nccl_prof_coll_v4, 80);
SPW_ASSERT_OFFSET(struct nccl_prof_coll_v4, datatype, 48);

struct nccl_prof_p2p_v2 { /* of version 3, too */
	const char *name;
	uint64_t comm_hash;
	const char *function;
	void *buf;
	const char *datatype;
	size_t count;
	int32_t peer;
};
SPW_ASSERT_SIZE(struct nccl_prof_p2p_v2, 56);

struct nccl_prof_p2p_v4 { /* of versions 5 and 6, too: more follows */
	const char *function;
	void *buf;
	const char *datatype;
	size_t count;
	int32_t peer;
};
SPW_ASSERT_SIZE(struct nccl_prof_p2p_v4, 40);

struct nccl_prof_proxy_op { /* of all versions */
	int32_t pid;        /* whose communicator it is: perhaps another process's */
	uint8_t channel;
	int32_t peer, step_cnt, chunk_bytes, is_send;
};
SPW_ASSERT_SIZE(struct nccl_prof_proxy_op, 24);
SPW_ASSERT_OFFSET(struct nccl_prof_proxy_op, is_send, 20);

/* TYPE: the integer of the type. */
#define NCCL_PROF_EVENT(TYPE, COLL, P2P)               \
	TYPE type; /* enum nccl_prof_type, and more */ \
	void *parent;                                  \
	int32_t rank;                                  \
	union {                                        \
		COLL coll;                             \
		P2P p2p;                               \
		struct nccl_prof_proxy_op proxy_op;    \
	}

struct nccl_prof_event_v2 {
	NCCL_PROF_EVENT(uint8_t, struct nccl_prof_coll_v2, struct nccl_prof_p2p_v2);
};
struct nccl_prof_event_v3 {
	NCCL_PROF_EVENT(uint8_t, struct nccl_prof_coll_v3, struct nccl_prof_p2p_v2);
};
struct nccl_prof_event_v4 {
	NCCL_PROF_EVENT(uint8_t, struct nccl_prof_coll_v4, struct nccl_prof_p2p_v4);
};
struct nccl_prof_event_v5 { /* of version 6, too; NCCL's are longer */
	NCCL_PROF_EVENT(uint64_t, struct nccl_prof_coll_v4, struct nccl_prof_p2p_v4);
};
SPW_ASSERT_OFFSET(struct nccl_prof_event_v2, coll, 24);
SPW_ASSERT_OFFSET(struct nccl_prof_event_v5, coll, 24);

/* ---- tables ---- */

/* The end of init's arguments, since version 4. */
#define NCCL_PROF_PLACE int node_cnt, int rank_cnt, int rank, nccl_logger *log

/* Each call returns an enum nccl_result. A NULL handle is not stopped. */
#define NCCL_PROF_TABLE(EVENT, ...)                                     \
	const char *name;                                               \
	int (*init)(__VA_ARGS__);                                       \
	int (*start)(void *ctx, void **handle_out, const EVENT *event); \
	int (*stop)(void *handle);                                      \
	int (*record)(void *handle, int state, void *args);             \
	int (*finalize)(void *ctx)

struct nccl_prof_v2 {
	NCCL_PROF_TABLE(struct nccl_prof_event_v2, void **ctx_out, int *mask_out);
};
struct nccl_prof_v3 {
	NCCL_PROF_TABLE(struct nccl_prof_event_v3, void **ctx_out, int *mask_out);
};
struct nccl_prof_v4 {
	NCCL_PROF_TABLE(struct nccl_prof_event_v4, void **ctx_out, int *mask_out, const char *name,
			uint64_t comm_hash, NCCL_PROF_PLACE);
};
struct nccl_prof_v5 { /* of version 6, too */
	NCCL_PROF_TABLE(struct nccl_prof_event_v5, void **ctx_out, uint64_t comm_hash,
			int *mask_out, const char *name, NCCL_PROF_PLACE);
};
SPW_ASSERT_SIZE(struct nccl_prof_v2, 6 * 8);
SPW_ASSERT_SIZE(struct nccl_prof_v5, 6 * 8);

#endif
