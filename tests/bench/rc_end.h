/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One end of a reliable connection for bench_rc.c: a spinwire port (rc_end.c), or verbs by hand as
 * in perftest (rc_hand.c).
 */
#ifndef SPW_BENCH_RC_END_H
#define SPW_BENCH_RC_END_H

#include "hand_qp.h"
#include "port/spw_port.h"

#define RC_BYTES      64u /* of a message */
#define RC_SLOTS      2048u
#define RC_SLOT_BYTES 256u
#define RC_END_BYTES  ((size_t)RC_SLOTS * RC_SLOT_BYTES)
#define RC_WINDOW     1024u /* messages that may be in flight: credits, or receives by hand */

struct rc_end;

struct rc_calls {
	/* Sends up to cnt messages. Returns: how many were taken, 0 .. SPW_BURST_MAX. */
	uint32_t (*send)(struct rc_end *end, uint32_t cnt);
	/* One burst: takes what has arrived, and returns its slots, which are posted again. */
	uint32_t (*take)(struct rc_end *end);
	/* The same, and sends as many messages back. */
	uint32_t (*echo)(struct rc_end *end);
	/* Housekeeping: events, completions of sends. */
	void (*attend)(struct rc_end *end);
	/* Whether everything that was sent has arrived. */
	bool (*is_quiet)(struct rc_end *end);
};

struct rc_end {
	const struct rc_calls *calls;
	uint8_t *bytes; /* RC_END_BYTES of the region */
	/* a port */
	struct spw_port *port;
	struct spw_pool pool;
	uint32_t up;
	/* by hand */
	struct hand_qp hand;
	uint64_t sent, done;
	bool write;
};

/* How to build two ends. */
struct rc_ends_conf {
	const char *device[2];
	const char *driver;  /* "mlx5" or "verbs"; NULL: by hand */
	const char *profile; /* of a driver's queue */
	bool write;
	const struct spw_region *region; /* RC_END_BYTES for each from `at` on */
	size_t at;
};

/* Purpose: builds two connected ends, each with RC_WINDOW slots posted or granted.
 * Errors:  -errno with a text.
 * Owner:   rc_ends_close; the region outlives them.
 * Thread:  setup. */
int rc_ends_open(struct rc_end *a, struct rc_end *b, const struct rc_ends_conf *conf);
/* Purpose: frees both ends. Zeroed ones are fine. */
void rc_ends_close(struct rc_end *a, struct rc_end *b);

/* rc_hand.c, by hand. */
int rc_hand_open(struct rc_end *end, const char *device, const struct rc_ends_conf *conf);
int rc_hand_join(struct rc_end *end, const struct rc_end *other);
void rc_hand_close(struct rc_end *end);

#endif
