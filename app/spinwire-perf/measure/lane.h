/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One connection of lib/xfer over a set of rails, with its memory: the way that a case takes. It is
 * kept from case to case while the rails stay the same.
 *
 *   region   | send half | receive half | flags |     half: the longest message, 8 MiB at least
 *                         <------ window ------>      what the other end may write and read
 *
 * A half is used as slots of one message each, up to PERF_SLOT_MAX of them. A message goes from a
 * send half to a receive half; a READ, which must not write what the other end may read at the same
 * time, from a receive half to a send half. Messages that lib/xfer joins with their flag are
 * received in the flags' lines, where they end at the flag.
 *
 * Of GPU rows the region is memory that kernels reach, of the kind that lib/mem chooses for this
 * machine; of all others, of the CPU. The CPU does not reach a GPU's own memory: such rows have no
 * flags.
 */
#ifndef PERF_LANE_H
#define PERF_LANE_H

#include "control/control.h"
#include "mem/spw_mem.h"
#include "xfer/spw_xfer.h"

#define PERF_SLOT_MAX   32u
#define PERF_HALF_LEAST (8ull << 20)
#define PERF_HOT_BYTES  (1ull << 20)
#define PERF_LANE_TAG   0x7066u /* of every message */
#define PERF_FLAG_BYTES 4096u   /* a line of 64 for each slot: its flag is the second half */

struct perf_lane {
	struct spw_region region; /* bytes 0: not allocated */
	bool for_gpu;             /* it is of GPU rows */
	enum spw_mem_kind kind;   /* wanted for GPU rows; AUTO: as the machine chooses */
	char there[16];           /* client: kind of the other end's memory */
	uint64_t half;
	struct spw_xfer *x;
	struct spw_xfer_mem *mem;
	struct spw_xfer_listener *listener;
	struct spw_xfer_conn *conn;
	struct spw_xfer_window *remote;
	char rails[160];     /* devices, as lib/xfer takes them */
	uint64_t flag;       /* of the last put; never the same twice */
	uint64_t memory_max; /* longest message that this end allocates for; 0: no limit */
	uint16_t port;       /* server: where transfers are set up; 0: any free one */
	bool yield;          /* cores are so few that a spinning thread must let the NIC's run */
};

/* Purpose: the message that begins a case, and its answer: both ends have the lane. At the client
 *   opens, or takes again, a lane over rails; theirs are the devices of the other end.
 * Errors: those of lib/mem and lib/xfer; -ETIMEDOUT; those of the control connection. The server
 *   has reported its error to the client when it returns one. */
int perf_lane_client(struct perf_lane *lane, struct perf_ctl *ctl, const struct perf_case *what,
		     const char *rails, const char *theirs);
int perf_lane_server(struct perf_lane *lane, struct perf_ctl *ctl, const struct perf_case *what,
		     const json_t *request);

/* Purpose: as perf_ctl_give_up; the lane is closed first, which is what the other end's timed part
 *   learns of. */
int perf_lane_give_up(struct perf_lane *lane, struct perf_ctl *ctl, int error);

/* Purpose: closes the connection and the endpoint; _free: the memory too. */
void perf_lane_close(struct perf_lane *lane);
void perf_lane_free(struct perf_lane *lane);

/* Returns: how many slots the messages of a case have. Those of bandwidth rows take PERF_HOT_BYTES
 * at most, so that longer messages go from one buffer to one other, as those of ib_write_bw: of
 * software devices a row would else measure whether the slots fit the caches. */
uint32_t perf_lane_slots(const struct perf_lane *lane, const struct perf_case *what);
uint8_t *perf_lane_send_at(const struct perf_lane *lane, const struct perf_case *what,
			   uint64_t slot);
uint8_t *perf_lane_recv_at(const struct perf_lane *lane, const struct perf_case *what,
			   uint64_t slot);
/* The address that kernels have for a byte of the region. */
uint64_t perf_lane_gpu_va(const struct perf_lane *lane, const uint8_t *at);
/* The four words of a slot's flag. */
uint64_t *perf_lane_flag_at(const struct perf_lane *lane, uint64_t slot);

/* Purpose: lets other threads run if cores are few. To be called when a poll found nothing. */
void perf_lane_idle(const struct perf_lane *lane);

/* Purpose: starts one message of the case: a put (with a flag if flagged), a send or a get.
 * Returns: as spw_xfer_put. */
int perf_lane_start(struct perf_lane *lane, const struct perf_case *what, uint64_t slot,
		    bool flagged, struct spw_xfer_req **req_out);
/* Purpose: starts to receive one message of the case. */
int perf_lane_receive(struct perf_lane *lane, const struct perf_case *what, uint64_t slot,
		      struct spw_xfer_req **req_out);

#endif
