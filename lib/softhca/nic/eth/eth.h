/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Received frames of every kind, and raw Ethernet. Everything runs with the device lock held.
 */
#ifndef SPW_SOFTHCA_ETH_ETH_H
#define SPW_SOFTHCA_ETH_ETH_H

#include "softhca/cable/cable.h"
#include "softhca/nic/eth/flow.h"
#include "softhca/nic/transport/qp.h"

/* ---- received frames: rx.c ---- */

/* Returns false if the frame must be offered again (raw_steer). */
bool rx_frame(struct nic_dev *nd, const struct cable_frame *f);
/* Counts a frame that reached the port and gets no further. */
void rx_discard(struct nic_dev *nd, const struct cable_frame *f);

/* ---- what a port lets in: l2.c ---- */

/* At attach and every tick: reads the flags of the interface. */
void l2_refresh(struct nic_dev *nd);
/* Does a frame of these addresses reach the flow rules? */
bool l2_accepts(const struct nic_dev *nd, const uint8_t *frame);
/* A raw frame was sent: the function's other contexts may get it too. */
void l2_loop(struct nic_qp *q, const uint8_t *frame, uint32_t len);

/* ---- raw Ethernet: raw.c, raw_tx.c ---- */

/* Sends as much as budget and room allow. Returns true if there is more to do now. */
bool raw_tx(struct nic_qp *q);
/* Returns false if the frame must be offered again: its CQ looks full. */
bool raw_steer(struct nic_dev *nd, const uint8_t *frame, uint32_t len, bool roce);
/* The same for a frame that context `from` sent: its own QPs do not get it, unless they ask. */
void raw_rx_looped(struct nic_dev *nd, const uint8_t *frame, uint32_t len,
		   const struct hca_ctx *from);
/* A receive WQE is unusable: error CQE, and its queue goes to ERR. q: of a ring that is no WQ. */
void raw_rq_fail(struct nic_dev *nd, struct nic_qp *q, struct nic_rq *r, uint32_t wqe_counter,
		 uint8_t syndrome);
/* Sum of big-endian 16-bit words on top of sum, folded to 16 bits (RFC 1071). */
uint32_t csum_add(uint32_t sum, const uint8_t *p, uint32_t bytes);
/* Sum over the pseudo-header and the L4 bytes; 0xffff if the checksum is correct. */
uint32_t csum_l4(const struct flow_key *k);

/* ---- TIRs: rss.c ---- */

struct nic_tir {
	uint32_t (*hash)[16]; /* Toeplitz, by input nibble; NULL: no fields */
	uint64_t cq_full_ns;  /* since when a frame waits for room in the CQ */
};

/* The queue for a frame, its hash and the CQE's rx_hash_type. Returns NULL if that queue is not
 * ready. */
struct nic_rq *rss_pick(const struct hca_tir *tir, const struct flow_key *key, uint32_t *hash_out,
			uint8_t *type_out);
uint32_t rss_toeplitz(const uint8_t *key, uint32_t key_bytes, const uint8_t *data, uint32_t bytes);

#endif
