/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What the NIC takes from the host: time, threads, and a guard around its accesses to memory of the
 * application. nic_guarded() and nic_mask_save() are in nic.h.
 */
#ifndef SPW_SOFTHCA_HOST_HOST_H
#define SPW_SOFTHCA_HOST_HOST_H

#include <pthread.h>
#include <setjmp.h>

#include "base/spw_types.h"

struct nic_dev;

/* The host's raw monotonic clock. Thread: any. */
uint64_t nic_now_ns(void);
/* Cores that the process may use. Thread: any. */
uint32_t host_cores(void);
/* Creates a thread of the NIC: on CPU `cpu`, or -1: on any that the process had. Returns 0 or an
 * errno. Thread: control. */
int nic_thread_create(pthread_t *thread_out, void *(*main)(void *arg), void *arg, int32_t cpu);

/* ---- the guard (guard.c): of the calling thread, unless stated otherwise ---- */

/* Installs the handlers, for the process. Idempotent. */
void guard_install(void);
/* Where a fault between guard_begin() and guard_end() continues. */
void guard_return_to(sigjmp_buf *env);
void guard_begin(struct nic_dev *nd);
void guard_end(void);
/* The device at work; NULL: none. */
struct nic_dev *guard_device(void);

#endif
