/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Faults on purpose. Those of frames act where a frame leaves this NIC, each frame by its number and the
 * seed alone, so that the same traffic meets the same faults:
 *   loss=P dup=P reorder=P corrupt=P delay=P:TIME   P in [0,1], TIME with ns, us, ms or s
 * Others happen once, at a time after attach (at=TIME:WHAT) or on request over the control socket:
 *   link-down=TIME rnr=TIME cq-overrun=CQN qp-error=QPN mr-revoke=KEY kill remove
 * Commands: fail=COMMAND:ERRNO (fail=create_flow:EPERM) makes the device file answer so until fail=none; COMMAND is open,
 * or a uverbs command as <rdma/ib_user_verbs.h> names it.
 * Also: seed=N, log=FILE (one line per frame that a fault touched), icrc (compute every ICRC).
 */
#ifndef SPW_SOFTHCA_FAULT_H
#define SPW_SOFTHCA_FAULT_H

#include "softhca/cable.h"

#define FAULT_HELD_MAX 256u
#define FAULT_AT_MAX 16u
#define FAULT_FAIL_MAX 4u

struct fault_held { /* a frame that leaves later */
	uint64_t due_ns;
	uint64_t due_frame; /* reordering: after this many frames */
	uint32_t len;
	uint8_t *data;
};

struct fault {
	bool on;                 /* some fault of frames may strike: frames go through here */
	bool icrc;
	uint64_t seed, frame;    /* frame: number of the next one */
	double loss, dup, reorder, corrupt, delay;
	uint64_t delay_ns;
	uint64_t link_down_until_ns, rnr_until_ns;
	struct {
		uint64_t ns;
		char what[64];
	} at[FAULT_AT_MAX];
	uint32_t at_cnt;
	char fail[FAULT_FAIL_MAX][48]; /* COMMAND:ERRNO */
	uint32_t fail_cnt;
	bool removed;            /* the device is gone: every command fails */
	struct fault_held held[FAULT_HELD_MAX];
	uint32_t held_cnt;
	uint64_t hit_cnt[5];     /* lost, duplicated, reordered, corrupted, delayed */
	int log_fd;              /* -1: none */
	uint8_t *buf;            /* the frame being written */
};

/* Purpose: reads a list of the settings above, separated by commas; adds to what is set.
 * Errors:  -EINVAL with a text that names the word. Thread: with the device lock, or before attach. */
int fault_set(struct fault *f, const char *text);
int fault_init(struct fault *f, const char *text, uint64_t seed);
void fault_fini(struct fault *f);

uint8_t *fault_tx_reserve(struct fault *f, uint32_t len);
void fault_tx_commit(struct fault *f, struct cable *c, const uint8_t *frame, uint32_t len, uint64_t now_ns);
/* Purpose: sends the frames whose time has come; the caller flushes the cable. Returns: how many. */
uint32_t fault_tick(struct fault *f, struct cable *c, uint64_t now_ns);

/* Returns: the errno that `command` has to fail with, 0 if none. Thread: with the device lock. */
int fault_fail(const struct fault *f, const char *command);

/* Purpose: "150us" to ns. Returns -1 for what is no time. */
int64_t fault_time_ns(const char *text);

#endif
