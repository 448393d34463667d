/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Two mlx5 ports of one process on one cable: `a` makes frames and counts its echoes, `b` sends
 * back what it gets. The test's thread is the owner of every queue of both. Runs under
 * tools/with-softhca --devices 2; every failure of set-up fails the running cmocka test.
 */
#ifndef PORT_KIT_H
#define PORT_KIT_H

#include "kit_port.h"

struct kit_run {
	struct kit_port a, b;
	uint32_t bytes_min, bytes_max; /* of frames, in turn */
	uint32_t flows, window;
	bool lossy;                 /* frames may be lost: a window that stands still is given up */
	uint32_t peers;             /* RC: that a sends to, a multiple of its queues; 0: one each */
	uint64_t sent, echoed, bad; /* by a */
};

void kit_open(struct kit_run *run, const struct kit_conf *a, const struct kit_conf *b);
void kit_close(struct kit_run *run);

/* A few frames from a, as many as it has slots for, 8 at most. */
void kit_send(struct kit_run *run);
/* b's part of a turn: it sends back what it gets. */
void kit_echo(struct kit_run *run);
/* One frame from a, as it is. */
void kit_send_bytes(struct kit_run *run, const uint8_t *frame, uint32_t bytes);
/* The next frame of any queue of p; its slot is returned at once. Fails after KIT_WAIT_S. */
void kit_receive(struct kit_port *p, struct spw_desc *desc_out);
/* The same; its bytes go to bytes_out, which has room for the longest frame. */
void kit_receive_bytes(struct kit_port *p, struct spw_desc *desc_out, uint8_t *bytes_out);
/* One turn of everything: a sends as its window allows, b echoes, a checks the echoes; events are
 * counted. */
void kit_turn(struct kit_run *run, bool send);
/* Its halves: a takes its echoes and events; a port takes its events alone. */
void kit_turn_a(struct kit_run *run);
void kit_events(struct kit_port *p);
/* Turns until a has cnt more echoes; frames that were lost are not waited for. Fails after
 * KIT_WAIT_S. */
void kit_pump(struct kit_run *run, uint64_t cnt);
/* Turns without new frames, until all that was sent came back, or the time is over. */
void kit_settle(struct kit_run *run);
/* Turns (frames flow) until the condition holds, or fails after KIT_WAIT_S. */
void kit_pump_until(struct kit_run *run, bool (*done)(struct kit_run *run, void *arg), void *arg);

#endif
