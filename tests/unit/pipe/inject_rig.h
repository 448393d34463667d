/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One port, one pipe, one executor, for tests that inject faults. The test takes the pipe's turns;
 * with a resident kernel it is also the control thread, and may neglect that duty.
 */
#ifndef INJECT_RIG_H
#define INJECT_RIG_H

#include "topo/spw_topo.h"
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
	struct spw_port_spec spec;
	struct spw_topo topo;
	struct spw_pipe *pipe; /* of its one lane */
	struct spw_port *port;
	const struct spw_handler *handler, *own;
	struct spw_tsc tsc;
	uint64_t served_tsc;
};

/* Purpose: everything up and started. Returns: false if there is no such executor here; then
 * nothing is open. */
bool rig_open(struct rig *rig, const struct rig_conf *conf);
void rig_close(struct rig *rig);

/* Purpose: what a program's control thread does every millisecond: a kernel that left is launched
 * again, the pipe gets a report, and clocks are paired. */
void rig_serve(struct rig *rig);

#endif
