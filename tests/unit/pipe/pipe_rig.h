/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One port, one executor and the pipe between them, for the tests of the pipe: the null port and
 * the CPU executors are real. What the null port never does (refuse a transmit, have nothing to
 * receive, lose its link) is put between pipe and port, where every slot is also watched: lent
 * once, returned once.
 */
#ifndef PIPE_RIG_H
#define PIPE_RIG_H

#include "pipe/spw_pipe.h"
#include "unit_test.h"

#define SLOTS 1024u

/* A port, a pool, an executor and the pipe between them. */
struct rig {
	struct spw_region region;
	struct spw_pool pool;
	struct spw_port *port;
	struct spw_exec *exec;
	struct spw_exec *also[SPW_PIPE_BACKEND_MAX - 1]; /* the other backends of the pipe */
	uint32_t also_cnt;
	const struct spw_handler *handler;
	struct spw_pipe *pipe;
	/* between the pipe and the port */
	struct spw_port_queue real, queue;
	uint16_t tx_room;            /* frames that each transmit takes; the rest is refused */
	bool dry;                    /* polls bring nothing */
	struct spw_port_event event; /* the port reports it once if report is set */
	bool report;
	uint32_t lent_twice; /* slots lent while lent, or returned while not */
	uint8_t lent[SLOTS];
	uint32_t stop; /* what spw_pipe_run watches */
};

/* Purpose: opens and starts port and executor. batches: of the executor ring. */
void rig_open(struct rig *rig, const char *port, const char *handler, enum spw_exec_kind kind,
	      uint32_t batches);
/* Purpose: opens and starts one more executor, before rig_pipe. */
void rig_also(struct rig *rig, enum spw_exec_kind kind, uint32_t batches);
/* Purpose: makes the pipe; conf's queue, ring, pool and exec are the rig's, 0 in burst and
 * drain_tsc stands for a default. */
void rig_pipe(struct rig *rig, struct spw_pipe_conf conf);
/* Purpose: turns until the pipe has fetched an event of that kind from the port. */
void rig_report(struct rig *rig, enum spw_port_event_kind kind);
/* Purpose: stops everything and draws the balance; fails unless it is even and no slot is missing.
 */
void rig_close(struct rig *rig, struct spw_ledger *ledger_out);
/* Purpose: frames that all executors executed. */
uint64_t rig_executed(const struct rig *rig);
/* Purpose: stops everything, whatever the counters are. */
void rig_free(struct rig *rig);

#endif
