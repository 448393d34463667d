/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A raw Ethernet receiver that writes and reads its work and completion queues itself, through
 * mlx5dv, and a sender on the same port. It is written from the formats alone and shares no code
 * with lib/port, so that a mistake in one shows against the other.
 */
#ifndef RAW_KIT_H
#define RAW_KIT_H

#include "verbs_kit.h"

#define RAW_WQE_CNT    4u
#define RAW_CQE_CNT    256u
#define RAW_SLOT_BYTES 16384u /* of each receive WQE */
#define RAW_HEAD_BYTES 42u    /* Ethernet, IPv4, UDP */

struct raw_how {
	uint32_t wqe_cnt; /* 0: RAW_WQE_CNT */
	bool striding;
	uint8_t stride_log2, strides_log2;
	bool two_byte_shift;
	uint8_t comp_format; /* MLX5DV_CQE_RES_FORMAT_*, 0: no compression */
	bool enhanced;       /* the layout of compressed CQEs (--cqe-layout); else basic */
	uint32_t wq_flags;   /* IBV_WQ_FLAGS_* */
	unsigned send_flags; /* IBV_SEND_* of every frame */
};

/* One completion, decoded from a plain or a compressed CQE. */
struct raw_done {
	uint32_t byte_cnt; /* striding: filler, strides and length */
	uint32_t hash;
	uint16_t check_sum, counter, wqe_id;
	uint16_t vlan;
	uint32_t tag; /* flow tag; of a plain CQE */
	uint8_t opcode, syndrome, drops, hds_ip_ext, l4_hdr_type_etc;
	bool mini; /* reported by a mini-CQE */
};

struct raw {
	struct kit k;
	struct raw_how how;
	uint8_t mac[6];
	struct ibv_cq_ex *cq;
	struct ibv_wq *wq;
	struct ibv_rwq_ind_table *table;
	struct ibv_qp *rss;
	struct ibv_flow *flow;
	struct kit_end tx;
	struct mlx5dv_rwq rq;
	struct mlx5dv_cq dc;
	uint32_t posted, ci, sent, tagged;
	/* an open compression session */
	uint8_t title[64], mini[64];
	uint32_t mini_cnt, mini_at, mini_first;
	uint16_t counter; /* of the next mini */
	uint32_t minis_taken;
};

void raw_open(struct raw *r, const struct raw_how *how);
void raw_close(struct raw *r);
/* Posts one receive WQE. lkey 0: the valid one. */
void raw_post(struct raw *r, uint32_t lkey);
void raw_post_bytes(struct raw *r, uint32_t lkey, uint32_t bytes);
/* Address of the buffer of the WQE with that index. */
uint8_t *raw_slot(const struct raw *r, uint32_t wqe);
/* Writes a frame of `len` bytes, UDP over IPv4, into the sending buffer at place `at` (0..63) and
 * queues nothing. */
void raw_frame(struct raw *r, uint32_t at, uint32_t len, uint32_t seed);
uint8_t *raw_frame_at(const struct raw *r, uint32_t at);
/* Sends the frames of places 0..cnt - 1 with one doorbell, and waits until they have gone. */
void raw_send(struct raw *r, uint32_t cnt, const uint32_t *len);
/* Sends place 0 with a VLAN tag that the NIC inserts. */
void raw_send_tagged(struct raw *r, uint32_t len, uint16_t tci, bool service_tag);
/* The next completion, within KIT_WAIT_MS; raw_try: false if there is none now. */
void raw_next(struct raw *r, struct raw_done *d_out);
bool raw_try(struct raw *r, struct raw_done *d_out);
/* What the CQE of a frame must contain, computed from its bytes. */
uint32_t raw_hash(const uint8_t *frame);
uint16_t raw_sum(const uint8_t *frame, uint32_t len);

#endif
