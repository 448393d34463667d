/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The calls upward between the rooms of the NIC model. A room includes only what is below it; these
 * are the events that a lower room reports to a higher one. A new one needs a reason: prefer a
 * result that the caller acts on.
 */
#ifndef SPW_SOFTHCA_NIC_UP_H
#define SPW_SOFTHCA_NIC_UP_H

struct nic_cq;
struct nic_dev;

/* port/tx.c: frames reach the cable. Passes on what was committed; then the raw WQEs whose frames
 * these were complete, stamped now (transport/complete.c). */
void nic_tx_publish(struct nic_dev *nd);

/* port/tx.c: frames are about to reach the cable, and their payload must be in them. Makes the
 * copies that are left, and waits for those of the helpers (transport/copy.c). */
void copy_wait(struct nic_dev *nd);

/* port/neigh.c: a MAC was learnt; QPs that waited for it get it (transport/qp.c). */
void qp_neigh_learnt(struct nic_dev *nd);

/* cq/cq.c: the CQ overran; every QP that completes to it goes to ERR (transport/qp.c). */
void qp_cq_failed(struct nic_cq *c);

#endif
