/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The NIC model, as the control path sees it. One thread per process serves every attached device:
 * it looks at doorbells, moves frames between the cable and the application's memory, writes CQEs.
 *
 * Calls below are made by the control path with the device lock held, unless they say otherwise. After
 * a *_destroy or a modify to RESET returns, the NIC touches neither the object nor its buffers.
 */
#ifndef SPW_SOFTHCA_NIC_H
#define SPW_SOFTHCA_NIC_H

#include <signal.h>

#include "softhca/hca_obj.h"

/* Purpose: puts the device on its cable (cfg->cable), learns cable_port, fills in id.mac and id.ip where they
 *          are 0, sets link_up, parses cfg->fault and clock, opens cfg->trace and control. No NIC thread is started.
 * Thread:  setup, without the lock. Errors: -errno with text (no such interface, cable of another
 *          version, no free port, bad option). Undone by nic_detach. */
int nic_attach(struct hca_dev *dev);

/* Purpose: the NIC thread works for this device from now on (first call starts the thread, on the
 *          affinity mask that nic_mask_save found). Idempotent. Thread: any, without the lock. */
int nic_start(struct hca_dev *dev);

/* Purpose: leaves in order: pending ACKs go out, the thread forgets the device, the cable is left.
 * Thread:  any, without the lock. For process exit and for a device that is closed for good. */
void nic_detach(struct hca_dev *dev);

/* Purpose: in a forked child: forgets the thread and the cables without releasing what is the parent's.
 *          Async-signal-safe. Call from a pthread_atfork child handler. */
void nic_forked(void);

/* Purpose: remembers the process's affinity mask; call when the library is loaded, before anything
 *          (EAL) pins the thread that will first open a device. */
void nic_mask_save(void);

/* Purpose: sigaction() of the program for SIGSEGV or SIGBUS while the NIC thread guards its accesses: kept, and called
 *          for every fault that is not the NIC's. Returns: false: not our business, ask libc. Thread: any. */
bool nic_guard_sigaction(int sig, const struct sigaction *act, struct sigaction *old_out);

struct uv_call;
/* Purpose: a command under the device lock, with the application's memory guarded as for the NIC thread: what it finds gone
 *          (a ring that flushes go to) is -EFAULT. Thread: any. */
int nic_guarded(struct hca_dev *dev, int (*command)(struct uv_call *call), struct uv_call *call);

/* ---- objects: create before the handle is answered; -errno on no memory. Of regions the NIC keeps nothing: it looks them up
 *      for every packet ------------------------------------------------------------------------------------ */

int nic_uar_create(struct hca_uar *uar);
void nic_uar_destroy(struct hca_uar *uar);
int nic_cq_create(struct hca_cq *cq);
void nic_cq_destroy(struct hca_cq *cq);
/* CQEs between the consumer index and the producer index have been moved to the new cq->buf by the
 * caller or by this call; buf and ncqe of the new ring are given, the old ones are still in *cq. */
int nic_cq_resize(struct hca_cq *cq, uint8_t *buf, uint32_t ncqe);
int nic_srq_create(struct hca_srq *srq);
void nic_srq_destroy(struct hca_srq *srq);
int nic_wq_create(struct hca_wq *wq);
void nic_wq_destroy(struct hca_wq *wq);
/* After wq->state changed; `from` is the state before. */
void nic_wq_modified(struct hca_wq *wq, uint8_t from);
/* qp->nic is also made for RSS QPs (counters only). */
int nic_qp_create(struct hca_qp *qp);
void nic_qp_destroy(struct hca_qp *qp);
/* After qp->state and attr changed; mask is IB_QP_*. To RESET: indices go to 0, the queue is forgotten.
 * To ERR: everything posted is flushed, now and when rung later. `from` == to: attributes only. */
void nic_qp_modified(struct hca_qp *qp, uint8_t from, uint32_t mask);

/* ---- answers ------------------------------------------------------------------------------------------ */

/* Purpose: the MAC that stands for a GID: link-local and IPv4-mapped GIDs of this cable, or what has been
 *          learnt from ARP and arriving frames. Returns: false: not known (yet): an ARP request has gone out;
 *          use ff:ff:ff:ff:ff:ff, the NIC replaces it when it knows better. */
bool nic_resolve(struct hca_dev *dev, const uint8_t dgid[16], uint8_t mac_out[6]);

/* Purpose: the NIC clock now, in its own ticks (1 GHz nominal, with the configured offset and skew).
 * Thread:  any, no lock. */
uint64_t nic_clock(const struct hca_dev *dev);
#define NIC_CLOCK_KHZ 1000000u

/* Returns: the errno that a command has to fail with on purpose (fault.h, fail=), 0 if none. NULL is no command. */
int nic_fault_of(struct hca_dev *dev, const char *command);

/* Purpose: one line of the control socket (cfg->control): "fault=loss=0.01", "hold", "release=256",
 *          "link-down=100ms", "qp-error=0x12", "mr-revoke=0x1234", "cq-overrun=3", "trace=PATH"...
 * Shape:   answer gets "ok ...\n" or "error ...\n". Thread: any, without the lock. */
void nic_control(struct hca_dev *dev, const char *line, char *answer, size_t answer_bytes);

#endif
