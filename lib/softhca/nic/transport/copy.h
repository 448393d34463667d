/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Large payloads are copied by several threads: the NIC thread and its helpers (--nic-threads).
 * The protocol stays with the NIC thread. It lists the copies of a round while it handles their
 * packets, and waits for all of them before anyone may depend on the bytes:
 *
 *   NIC thread   copy_list ... copy_list ...  copy_wait   then: frames reach the cable,
 *   helpers           copy, copy, copy ...        |             cable records are released,
 *                                                 |             the last packet of a message
 *                                                 |             arrives, a queue pair fails
 *
 * What is listed: payload of RC SENDs and WRITEs, both ways; at the receiver not that of a
 * message's last packet, which is copied after all others and before the completion. So a message
 * is whole before its completion, its ACK and the next message, as without helpers. Frames, PSNs
 * and counters are the same with any number of threads.
 *
 * Who may not use it: a device whose frames are read or changed before they leave (faults, trace,
 * ICRC) or whose NIC has an adversary; commands, which run in threads of the application.
 *
 * Memory that is gone: the copy fails, not the thread. A frame that lacks its payload is made one
 * for no QP, and the QP fails at the end of the round, as it does without helpers.
 */
#ifndef SPW_SOFTHCA_TRANSPORT_COPY_H
#define SPW_SOFTHCA_TRANSPORT_COPY_H

#include <string.h>

#include "softhca/hca_cfg.h"
#include "softhca/nic/dev.h"

#define COPY_HELPERS_MAX (HCA_NIC_THREADS_MAX - 1)

struct copier;
struct nic_qp;
struct wire_pkt;

enum { COPY_FAILED_TX = 1, COPY_FAILED_RX = 2 };

/* Purpose: starts the helpers. They spin for spin_ns after their last copy, and then sleep.
 * Returns: NULL, with a text: none could be started.
 * Lifetime: until copier_close(), which ends them; nothing may be listed then.
 * Thread:  control. */
struct copier *copier_open(uint32_t helpers, uint64_t spin_ns);
void copier_close(struct copier *c);
/* Copies made by helpers since copier_open(). Thread: any. */
uint64_t copier_helped(const struct copier *c);

/* The rest is the NIC thread's, within a round. */

/* May the copies of this device be listed in this round? */
bool copy_allowed(const struct nic_dev *nd);
/* Copies that follow fill a frame of q, and may be listed. q NULL: copies are made at once, as
 * those of everything but RC must be: a raw frame for several ports, or with a checksum, is read at
 * once. */
void copy_owner(struct copier *c, struct nic_qp *q, uint8_t *frame);
/* Copies that follow are of a received packet of q. last: after all that is listed, and before all
 * that will be. */
void copy_received(struct copier *c, struct nic_qp *q, uint32_t psn, bool last);
/* Lists a copy. Returns false if the caller must make it: it is short, or nobody's. */
bool copy_list(struct copier *c, uint8_t *to, const uint8_t *from, uint32_t bytes);
/* A request packet of RC: lists its payload or, if it is a message's last, waits first. */
void copy_rsp_rx(struct nic_qp *q, const struct wire_pkt *k);
/* Copies payload, now or by the end of the round (copy.h). */
SPW_INLINE void nic_copy(struct nic_dev *nd, uint8_t *to, const uint8_t *from, uint32_t bytes)
{
	if (spw_likely(!nd->copier) || !copy_list(nd->copier, to, from, bytes))
		memcpy(to, from, bytes);
}

#endif
