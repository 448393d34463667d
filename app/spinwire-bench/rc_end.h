/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One end of a reliable connection, as bench_rc moves it: a port of ours, or plain verbs by hand, as perftest does it.
 */
#ifndef SPW_BENCH_RC_END_H
#define SPW_BENCH_RC_END_H

#include "port/rdma/rdma_dev.h"
#include "port/spw_port.h"

#define RC_BYTES      64u   /* of a message */
#define RC_SLOTS      2048u
#define RC_SLOT_BYTES 256u
#define RC_END_BYTES  ((size_t)RC_SLOTS * RC_SLOT_BYTES)
#define RC_WINDOW     1024u /* messages that may be under way: credits, or receives by hand */

struct rc_end;

struct rc_calls {
	/* Sends up to cnt messages. Returns: how many were taken, 0 .. SPW_BURST_MAX. */
	uint32_t (*send)(struct rc_end *end, uint32_t cnt);
	/* One burst: takes what came, and gives it back to be received into again. */
	uint32_t (*take)(struct rc_end *end);
	/* The same, and as many messages go back. */
	uint32_t (*echo)(struct rc_end *end);
	/* What is due now and then: events, completions of sends. */
	void (*attend)(struct rc_end *end);
	/* Has all that was sent arrived? */
	bool (*is_quiet)(struct rc_end *end);
};

struct rc_end {
	const struct rc_calls *calls;
	uint8_t *bytes;      /* RC_END_BYTES of the region */
	/* a port */
	struct spw_port *port;
	struct spw_pool pool;
	uint32_t up;
	/* by hand */
	struct rdma_dev dev;
	struct ibv_mr *mr;
	struct ibv_cq *rx_cq, *tx_cq;
	struct ibv_qp *qp;
	uint64_t sent, done;
	uint64_t there;      /* op=write: the other end's memory */
	uint32_t there_rkey;
	bool write;
};

/* What two ends are to be. */
struct rc_ends_conf {
	const char *device[2];
	const char *driver;  /* "mlx5" or "verbs"; NULL: by hand */
	const char *profile; /* of a driver's queue */
	bool write;
	const struct spw_region *region; /* RC_END_BYTES for each from `at` on */
	size_t at;
};

/* Purpose: two ends, connected, each with RC_WINDOW slots posted or granted.
 * Errors: -errno with a text. Owner: rc_ends_close; the region outlives them. Thread: setup. */
int rc_ends_open(struct rc_end *a, struct rc_end *b, const struct rc_ends_conf *conf);
/* Zeroed ones are fine. */
void rc_ends_close(struct rc_end *a, struct rc_end *b);

/* rc_hand.c, by hand. */
int rc_hand_open(struct rc_end *end, const char *device, const struct rc_ends_conf *conf);
int rc_hand_join(struct rc_end *end, const struct rc_end *other);
void rc_hand_close(struct rc_end *end);

#endif
