/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A NIC moved by hand: rings in plain memory, CQEs written as the hardware writes them (and, where
 * asked, as it never would). For tests and fuzzers of the mlx5 data path.
 */
#ifndef SPW_TEST_MLX5_HAND_H
#define SPW_TEST_MLX5_HAND_H

#include "port/mlx5/eth/queue.h"

#define HAND_LKEY      0x1234567u
#define HAND_HEAD_LKEY 0x7654321u
#define HAND_HEAD      80u /* bytes of a frame's head, with MLX5_F_SPLIT */
#define HAND_QPN       0xabcdefu

/* One frame as the NIC delivered it, to be compared with the descriptor. */
struct hand_frame {
	uint8_t *addr; /* named by the WQE */
	uint32_t len, hash;
	uint64_t stamp;
	uint16_t flags;
};

struct hand_conf {
	unsigned flags;
	uint32_t cq_cnt, rq_cnt, sq_cnt;
	uint32_t strides_log2;
	uint32_t slot_bytes, slot_cnt;
	uint32_t refill_min;
	uint32_t start;    /* first value of the CQ's counters: laps near a wrap */
	uint16_t rq_start; /* likewise of the WQE counters */
	uint32_t bf_bytes;
};

struct hand {
	struct hand_conf conf;
	struct spw_region region, heads;
	struct spw_pool pool;
	struct mlx5_eth_queue *q;
	struct spw_port_queue pq;
	uint8_t *cq, *rq, *sq, *tx_cq, *uar;
	spw_be32 db[4]; /* CQ consumer, RQ, SQ, TX CQ consumer */
	/* the NIC's own state */
	uint32_t pi;    /* CQ */
	uint32_t rq_ci; /* WQE in use */
	uint32_t stride_pos;
	uint32_t tx_pi;
	uint8_t drops;      /* goes into the next CQE */
	uint32_t tag;       /* flow tag of all CQEs from now on */
	uint8_t title_csum; /* enhanced layout: of the last plain CQE */
	uint64_t clock;
	/* what the reset calls did */
	unsigned rq_resets, rq_readies, sq_resets, sq_readies;
	int reset_rc; /* what they answer */
};

/* 0, or the errno of mlx5_eth_queue_init. */
int hand_open(struct hand *h, const struct hand_conf *conf);
/* Returns: slots that leaked. */
uint32_t hand_close(struct hand *h);
/* Is every slot accounted for, lent as the test counts it? */
bool hand_balanced(const struct hand *h, uint32_t lent);

/* WQEs (strides) that the NIC may still fill. */
uint32_t hand_room(const struct hand *h);
/* The place the next frame goes to; strides are used up. */
uint8_t *hand_take(struct hand *h, uint32_t strides);

/* One plain CQE for a frame of len bytes, 1 stride. */
void hand_plain(struct hand *h, uint32_t len, struct hand_frame *frame_out);
/* cnt frames in one compression session of the queue's layout. Lengths follow from the clock. */
void hand_session(struct hand *h, uint32_t cnt, struct hand_frame *frame_out);
/* Striding: a filler, or a frame over several strides. */
void hand_strides(struct hand *h, uint32_t strides, uint32_t len, bool filler);
/* An error CQE on the receive side. */
void hand_error(struct hand *h, uint32_t syndrome);
/* An error CQE of a queue that stays ready: it uses up a WQE, or that many strides (striding). */
void hand_bad_frame(struct hand *h, uint32_t syndrome, uint32_t strides);
/* All posted WQEs are flushed. */
void hand_flush(struct hand *h);

/* A completion (or error, syndrome != 0) of the send queue, stamped by the next of h->clock. */
void hand_sent(struct hand *h, uint16_t wqe_counter, uint32_t syndrome);

#endif
