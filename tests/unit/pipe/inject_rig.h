/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One port, one pipe, one executor, for tests that inject faults. The test takes the pipe's turns;
 * with a resident kernel it is also the control thread, and may neglect that duty.
 */
#ifndef INJECT_RIG_H
#define INJECT_RIG_H

#include "pipe/spw_pipe.h"
#include "time/spw_time.h"
#include "unit_test.h"

#define RIG_SLOTS   128u
#define RIG_SLOW_NS 10000000u

/* Life of a resident kernel: it leaves after so long, and rig_serve launches it again. */
#define RIG_LIFE_MS 40u

struct rig_conf {
	const char *port;    /* as a user names it */
	const char *handler; /* NULL: own */
	const struct spw_handler *own;
	enum spw_exec_kind exec;
};

struct rig {
	struct spw_region region;
	struct spw_pool pool;
	struct spw_port *port;
	struct spw_exec *exec;
	const struct spw_handler *handler, *own;
	struct spw_pipe *pipe;
	struct spw_tsc tsc;
	struct spw_clock_fit fit; /* the GPU's clock */
	struct spw_clock_box box;
	uint64_t served_tsc, relaunched;
};

/* Purpose: everything up and started. Returns: false if there is no such executor here; then
 * nothing is open. */
bool rig_open(struct rig *rig, const struct rig_conf *conf);
void rig_close(struct rig *rig);

/* Purpose: what a program's control thread does every millisecond: a kernel that left is launched
 * again, and the pipe gets a report. */
void rig_serve(struct rig *rig);

#endif
