/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Shared by the verbs tests: one device, one registered buffer, pairs of connected QPs. Only the
 * public interface of rdma-core is used, so the same programs run on a real card. A set-up that
 * fails fails the running cmocka test.
 */
#ifndef VERBS_KIT_H
#define VERBS_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define KIT_BUF_BYTES (8u << 20)
#define KIT_DEPTH     64u
#define KIT_WAIT_MS   20000u /* limit for what must happen */
#define KIT_QUIET_MS  100u   /* time in which it must not happen */

struct kit {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	uint8_t *buf;      /* KIT_BUF_BYTES; the lower half for end a, the upper for end b */
	struct ibv_mr *mr; /* all rights */
	union ibv_gid gid;
	uint8_t gid_idx;
};

struct kit_end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

/* Zero means the default: RC, 14 (67 ms), 7, 7, 1 (10 us), KIT_DEPTH. */
struct kit_how {
	enum ibv_qp_type type;
	uint8_t timeout, retry, rnr_retry, min_rnr_timer;
	bool no_retry; /* retry and rnr_retry really 0 */
	uint32_t cqe;
	bool ignore_overrun; /* of the CQ */
	struct ibv_srq *srq;
};

void kit_open(struct kit *k);
/* NULL: the first. */
void kit_open_device(struct kit *k, const char *name);
void kit_close(struct kit *k);
void kit_end_open(struct kit *k, struct kit_end *e, const struct kit_how *how);
void kit_end_connect(struct kit *k, struct kit_end *e, uint32_t dest_qpn,
		     const struct kit_how *how);
/* As far as `to`: RESET (nothing), INIT, RTR or RTS. */
void kit_end_bring(struct kit *k, struct kit_end *e, uint32_t dest_qpn, const struct kit_how *how,
		   enum ibv_qp_state to);
void kit_pair_open(struct kit *k, struct kit_end *a, struct kit_end *b, const struct kit_how *how);
void kit_end_close(struct kit_end *e);

/* Posts one signalled request with one data segment. raddr, rkey: of one-sided requests. */
int kit_post(struct kit_end *e, enum ibv_wr_opcode op, void *at, uint32_t len, uint32_t lkey,
	     uint64_t raddr, uint32_t rkey);
/* Posts one signalled SEND with its bytes inside the WQE. */
int kit_post_inline(struct kit_end *e, void *at, uint32_t len);
int kit_recv(struct kit_end *e, void *at, uint32_t len, uint32_t lkey);

/* Polls until `cnt` completions have come or the time is over. Returns: how many came. */
int kit_poll(struct ibv_cq *cq, struct ibv_wc *wc, int cnt, unsigned ms);
/* One completion with this status, within KIT_WAIT_MS. */
void kit_expect(struct ibv_cq *cq, enum ibv_wc_status status, struct ibv_wc *wc_out);
/* Nothing for KIT_QUIET_MS. */
void kit_expect_nothing(struct ibv_cq *cq);
enum ibv_qp_state kit_state(struct ibv_qp *qp);
/* An asynchronous event of this type, within KIT_WAIT_MS; others before it are acknowledged. */
void kit_expect_event(struct kit *k, enum ibv_event_type type);
/* No asynchronous event for KIT_QUIET_MS. */
void kit_expect_no_event(struct kit *k);
/* These bytes, as kit_fill makes them, within KIT_WAIT_MS. */
void kit_expect_bytes(const uint8_t *at, size_t len, unsigned seed);
/* The pair still works: a SEND from a to b, its bytes checked. */
void kit_check_alive(struct kit *k, struct kit_end *a, struct kit_end *b);

/* A counter of the port, such as "hw_counters/out_of_sequence". */
uint64_t kit_counter(const struct kit *k, const char *name);
/* Monotonic. */
uint64_t kit_now_us(void);
void kit_fill(uint8_t *at, size_t len, unsigned seed);
bool kit_same(const uint8_t *at, size_t len, unsigned seed);

#endif
