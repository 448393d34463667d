/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The communication manager of the process, as its NIC calls it. Locks: the NIC holds the device
 * lock and these calls take the manager's; nothing takes a device lock with the manager's held.
 */
#ifndef SPW_SOFTHCA_CM_CM_H
#define SPW_SOFTHCA_CM_CM_H

#include "softhca/hca_obj.h"

/* Purpose: a datagram of a management QP reached QP 1. from, to: GIDs of the packet.
 * Shape:   mad has 256 bytes, from anybody. */
void cm_rx(struct hca_dev *dev, const uint8_t from[16], const uint8_t to[16], const uint8_t *mad);

/* Purpose: sends what is queued for the device, and resolves addresses; called in a round of the
 *          NIC if cm_has_work. Returns: how much was done. */
uint32_t cm_round(struct hca_dev *dev);
SPW_INLINE bool cm_has_work(const struct hca_dev *dev)
{
	return spw_unlikely(spw_thr_load_rlx(&dev->cm_work));
}

/* Purpose: resends and time-outs; a device that has left. Called every few ms. */
void cm_tick(struct hca_dev *dev);

/* Purpose: the process ends: each peer gets one last message, as by the kernel when it closes the
 *          files of a process. Waits a second at most for the manager's lock. */
void cm_leave(struct hca_dev *dev);

#endif
