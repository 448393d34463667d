/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * NCCL_SPINWIRE_HANG=30s: who hangs the collective, logged without being asked.
 *
 *   context.c   the first context ─► a thread                 the last one ends ─► so does the
 * thread thread      the live page, 16 times in 30 s: is anything open, did anything move? nothing
 * for 30 s ─► this host's answer (hang/spw_hang.h) to the log, once a process
 *
 * The threads of NCCL do nothing for it: the page is written anyway. The job goes on whatever comes
 * of it, so an error is one line of log.
 */
#ifndef SPW_NCCLNET_WATCH_H
#define SPW_NCCLNET_WATCH_H

/* Both under the lock of the process, which the thread never takes. Again: nothing. */
void nnet_watch_start(void);
void nnet_watch_stop(void);

#endif
