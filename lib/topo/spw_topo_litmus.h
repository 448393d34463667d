/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The litmus: before traffic is let in, each lane's own queue, pool and region, with an executor of
 * the kind that will run, pass frames around until the time is up. Each word of a frame names which
 * frame wrote it (exec/spw_litmus.h), so a reader that is too early finds an old word and says so.
 *
 *   CPU ─publish─► executor ─answer─► CPU                          first, on every port
 *   NIC ─receive─► CPU ─publish─► executor ─(CPU: doorbell)─echo─► NIC     ports that can send to
 *    └─────────────────── own MAC address, or own QP ◄─────────────────┘   themselves
 *
 *   name         what it would show                                       labels under test
 *   ----------   ------------------------------------------------------   -----------------
 *   publish      the executor reads a frame before the CPU's last bytes   G1
 *   descriptor   a 16-byte descriptor of which each half is of a lap      G1
 *   answer       the CPU reads a frame before the executor's last bytes   G2, D1 to D3
 *   receive      a completion that came before the frame's last bytes     M1, G1
 *   echo         the NIC reads a frame before the last bytes are written  G2, M3, M4
 *
 * Nothing of it remains: the executor is one of its own, slots return to the pool with the bytes
 * they had, and a port forgets what it counted when it starts (spw_port_loop).
 */
#ifndef SPW_TOPO_LITMUS_H
#define SPW_TOPO_LITMUS_H

#include "base/spw_enum.h"
#include "topo/spw_topo.h"

#ifdef __cplusplus
extern "C" {
#endif

/* name, who does what */
#define SPW_LITMUS_LIST(X, P)                                                              \
	X(P, publish, "the CPU writes a frame and publishes it, the executor reads it")    \
	X(P, descriptor, "the executor reads the two halves of a descriptor")              \
	X(P, answer, "the executor writes a frame and completes it, the CPU reads it")     \
	X(P, receive, "the NIC writes a frame and completes it, CPU and executor read it") \
	X(P, echo, "a frame is written, the CPU rings the doorbell, the NIC reads it")

enum spw_litmus_pattern { SPW_ENUM(SPW_LITMUS) };

enum spw_litmus_level { SPW_LITMUS_OFF, SPW_LITMUS_QUICK, SPW_LITMUS_LONG };

struct spw_litmus {
	enum spw_litmus_level level;
	uint64_t frames[SPW_LITMUS_CNT]; /* that passed, by pattern */
	uint64_t round_trips;            /* frames that went to the executor and came back */
	uint64_t bytes;                  /* of these frames */
	uint64_t ns;                     /* time in which frames moved, over all lanes */
	/* By port: whether its NIC took part, and why not (one clause). */
	bool nic[SPW_PORT_MAX];
	char why_not[SPW_PORT_MAX][160];
};

/* Purpose: runs the litmus on every lane in turn, about 0.1 s in all (quick) or 10 s (long), and
 *          logs its outcome in one line.
 * Shape:   topo is open and not started. OFF only clears out. handler: &spw_litmus_handler
 *          (exec/spw_litmus.h); tests pass one with an ordering removed.
 * Errors:  -EIO with pattern, memory, executor and what to do: the machine is not fit to start.
 *          Those of spw_exec_open and spw_exec_start. -EBUSY: the executor does not end, so only
 *          _exit is left.
 * Thread:  setup. */
int spw_topo_litmus(struct spw_topo *topo, enum spw_litmus_level level,
		    const struct spw_handler *handler, struct spw_litmus *out);

/* Purpose: the name of a pattern, as it is printed. Thread: any. */
const char *spw_litmus_pattern_name(enum spw_litmus_pattern pattern);

#ifdef __cplusplus
}
#endif
#endif
