/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the NIC may call of the kernel side: it raises events. This header and nic/nic.h, the calls
 * in the other direction, are the whole edge between the two; tools/check/layers enforces it. The
 * objects that both work on are in hca_obj.h and hca_flow.h.
 *
 * On a card these calls are entries in an event queue and an interrupt. Here the NIC thread writes
 * the event into the pipe that the application reads (events.c).
 *
 * Who wakes whom in the software NIC:
 *
 *   application's threads                          NIC thread (one per process, all devices)
 *   ---------------------                          -----------------------------------------
 *   write a WQE, the doorbell record,
 *   the register page                ~~ polls ~~>  nic_doorbells() reads the pages, then the rings
 *   poll the CQ                      <~~ polls ~~  writes CQEs
 *   block in read() or poll() of a
 *   completion channel               <-- wakes --  hca_event_comp(): the CQ was armed
 *   block in read() or poll() of
 *   the async event file             <-- wakes --  hca_event_qp() and the others below
 *   write() or ioctl() of the device
 *   file: hca_lock(), the command,
 *   hca_unlock()                     -- mutex -->  hca_lock_nic() leaves a device out of the round
 *                                                  while a command waits for its mutex
 *   first GET_CONTEXT: nic_start()   -- starts ->  the thread
 *                                    <~~ polls ~~> the cable, which another NIC polls at its end
 *
 * Nothing wakes the NIC thread: it spins or naps (nic/run/thread.c), so a doorbell costs the
 * application no system call, as on a card.
 *
 * All calls below but hca_res_serve: with the device lock held. They never block: an event that
 * finds the pipe full is dropped and counted (struct hca_evq, lost). Thread: the NIC thread, or one
 * that runs a command.
 */
#ifndef SPW_SOFTHCA_KERNEL_H
#define SPW_SOFTHCA_KERNEL_H

#include "softhca/hca_obj.h"

/* Purpose: an armed CQ has a new completion: one event to its channel. No-op without a channel. */
void hca_event_comp(struct hca_cq *cq);

/* Purpose: one asynchronous event about the object, to the context that owns it. */
void hca_event_cq(struct hca_cq *cq, enum hca_event type);
void hca_event_qp(struct hca_qp *qp, enum hca_event type);
void hca_event_srq(struct hca_srq *srq, enum hca_event type);
void hca_event_wq(struct hca_wq *wq, enum hca_event type);

/* Purpose: one event to every context of the device: PORT_ACTIVE and PORT_ERR (after link_up has
 * changed), DEVICE_FATAL. */
void hca_event_port(struct hca_dev *dev, enum hca_event type);

/* Purpose: another process of the machine may have asked for the objects of this one (netlink):
 *          answers it. Called every few ms, without the device lock, which it takes. Never blocks.
 */
void hca_res_serve(void);

#endif
