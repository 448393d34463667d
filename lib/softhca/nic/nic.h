/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The NIC model, as the control path calls it. One thread per process serves every attached device:
 * it polls doorbells, moves frames between the cable and the application's memory, and writes CQEs.
 *
 * The control path makes all calls with the device lock held, unless they say otherwise. After a
 * *_destroy or a modify to RESET returns, the NIC touches neither the object nor its buffers.
 */
#ifndef SPW_SOFTHCA_NIC_H
#define SPW_SOFTHCA_NIC_H

#include <signal.h>

#include "softhca/hca_flow.h"

/* Purpose: puts the device on its cable (hca_cfg_cable): sets cable_port and link_up, fills in
 * id.mac and id.ip where they are 0, parses cfg->fault and clock, opens cfg->trace and control.
 *          Starts no thread.
 * Lifetime: until nic_detach.
 * Errors:  -errno with text (no such interface, cable of another version, no free port, bad
 *          option).
 * Thread:  setup, without the lock. */
int nic_attach(struct hca_dev *dev);

/* Purpose: the NIC thread works for this device from now on. The first call starts the thread, on
 *          the affinity mask that nic_mask_save found. Idempotent.
 * Errors:  -errno if the thread cannot be started; logged too.
 * Thread:  any, without the lock. */
int nic_start(struct hca_dev *dev);

/* Purpose: closes a device for good, in order: pending ACKs are sent, the thread stops working for
 *          the device, the cable is left.
 * Thread:  any, without the lock. */
void nic_detach(struct hca_dev *dev);

/* Purpose: at process exit: the last ACKs are sent, the cable is left, files are removed. The
 *          device stays locked and its memory is not freed. Neither allocates nor frees, and waits
 *          a second at most for the device lock: exit() may have been called in a signal handler
 *          that interrupted malloc or a command.
 * Thread:  any, without the lock. */
void nic_leave(struct hca_dev *dev);

/* Purpose: in a forked child: forgets the thread and the cables without releasing what belongs to
 *          the parent. For a pthread_atfork child handler.
 * Thread:  the child's only one; async-signal-safe. */
void nic_forked(void);

/* Purpose: stores the process's affinity mask. Call when the library is loaded, before anything
 *          (EAL) pins the thread that will first open a device.
 * Thread:  setup. */
void nic_mask_save(void);

/* Purpose: sigaction() of the program for SIGSEGV or SIGBUS while the NIC thread guards its
 *          accesses: the handler is stored, and called for every fault that is not the NIC's.
 * Returns: false: the signal is not guarded; call libc.
 * Thread:  any. */
bool nic_guard_sigaction(int sig, const struct sigaction *act, struct sigaction *old_out);

/* Purpose: runs a command, or a part of the NIC's own work, under the memory guard of the NIC
 *          thread. May be nested.
 * Shape:   command is in another file, so that the compiler cannot move its accesses out of here.
 * Returns: its result; -EFAULT if it met memory that is gone (a ring that flushes go to).
 * Thread:  any, with the lock held, or for the thread that holds it. */
int nic_guarded(struct hca_dev *dev, int (*command)(void *arg), void *arg);

/* ---- objects ----
 * Create before the command is answered; -ENOMEM with text if there is no memory. There are no
 * calls for regions: the NIC looks them up for every packet. */

int nic_uar_create(struct hca_uar *uar);
void nic_uar_destroy(struct hca_uar *uar);
int nic_cq_create(struct hca_cq *cq);
void nic_cq_destroy(struct hca_cq *cq);
/* Purpose: switches the CQ to a new ring; the old one is still in *cq. A RESIZE_CQ CQE marks the
 *          end of the old ring, and libmlx5 moves the CQEs before it.
 * Errors:  -EINVAL: the CQ contains more CQEs than the new ring can. */
int nic_cq_resize(struct hca_cq *cq, uint8_t *buf, uint32_t ncqe);
int nic_srq_create(struct hca_srq *srq);
void nic_srq_destroy(struct hca_srq *srq);
int nic_wq_create(struct hca_wq *wq);
void nic_wq_destroy(struct hca_wq *wq);
/* Call after wq->state changed; `from` is the state before. */
void nic_wq_modified(struct hca_wq *wq, uint8_t from);
int nic_tir_create(struct hca_tir *tir);
void nic_tir_destroy(struct hca_tir *tir);
/* The rule meets every frame from now on. match: NULL unless FLOW_NORMAL. Errors too: -EEXIST: its
 * equal does otherwise, -ENOSPC: its level is full. */
int nic_flow_create(struct hca_flow *f, const struct flow_match *match);
void nic_flow_destroy(struct hca_flow *f);
/* qp->nic is made for RSS QPs too, without queues. */
int nic_qp_create(struct hca_qp *qp);
void nic_qp_destroy(struct hca_qp *qp);
/* Call after qp->state and attr changed; `from` is the state before, mask is IB_QP_*. To RESET:
 * indices go to 0 and the queues are dropped. To ERR: everything posted is flushed, now and when
 * rung later. from == state: attributes only. */
void nic_qp_modified(struct hca_qp *qp, uint8_t from, uint32_t mask);

/* ---- queries ---- */

/* Purpose: the MAC for a GID: from the GID itself, the cable, ARP, or frames that arrived
 *          (neigh.c).
 * Shape:   sgid_index < HCA_GID_CNT.
 * Returns: 0; -EAGAIN: not known yet: an ARP request has been sent; -ENETUNREACH no route;
 *          -EINVAL one address is IPv4, the other IPv6. mac_out is ff:ff:ff:ff:ff:ff then, which
 *          the NIC replaces when it learns the MAC. */
int nic_resolve(struct hca_dev *dev, uint32_t sgid_index, const uint8_t dgid[16],
		uint8_t mac_out[6]);

/* The way of a management datagram: to QP 1 of the port that has the GID. */
struct nic_mad {
	uint8_t dgid[16];
	uint8_t sgid_index, tclass;
};
#define NIC_MAD_BYTES 256u
/* Purpose: sends one; what is sent to a neighbour whose MAC is not known yet is lost, and the MAC
 * is asked for. Returns: false: no room on the cable now. Thread:  the NIC thread, or nic_leave. */
bool nic_mad_send(struct hca_dev *dev, const struct nic_mad *to, const uint8_t *mad);

/* Purpose: the NIC clock now, in its own ticks (the card's clock_khz nominal, with the configured
 *          offset and skew).
 * Thread:  any, without the lock. */
uint64_t nic_clock(const struct hca_dev *dev);
/* Returns: ns of the PTP clock of every device, as /dev/ptpN of a card shows them. Thread: any. */
uint64_t nic_ptp_ns(void);

/* Returns: the errno that a command has to fail with by configuration (fault.h, fail=); 0: none,
 *          or command is NULL. */
int nic_fault_of(struct hca_dev *dev, const char *command);
/* Returns: the status that a firmware command has to end with (fail=devx-OPCODE:STATUS); 0: none;
 *          -EIO: the device is gone. */
int nic_fault_devx(struct hca_dev *dev, uint32_t opcode);

/* Purpose: one line of the control socket (cfg->control):
 *            fault=LIST  link-down=TIME  rnr=TIME  cq-overrun=CQN  qp-error=QPN  mr-revoke=KEY
 *            hold  release[=FRAMES]  trace=PATH  remove  unplug  kill
 *            status  objects  thread  strict     questions: they change nothing
 * Shape:   answer is "ok ...\n" or "error ...\n".
 * Thread:  any, without the lock. */
void nic_control(struct hca_dev *dev, const char *line, char *answer, size_t answer_bytes);

#endif
