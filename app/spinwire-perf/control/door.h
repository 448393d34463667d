/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Who may come in to a server: a thread of its own takes the hellos of all connections side by
 * side, so strangers hold up nobody, and a second client learns at once who is being served.
 */
#ifndef PERF_DOOR_H
#define PERF_DOOR_H

#include "control/control.h"

struct perf_door;

/* Purpose: listens on *port of all addresses; 0 becomes the one that the kernel chose.
 * Owner: the caller, until perf_door_close; secret and stop outlive it. Thread: main.
 * Errors: -ENOMEM; -EADDRINUSE, with what to do; those of pthread_create(3). */
int perf_door_open(uint16_t *port, const struct spw_oob_secret *secret, const uint32_t *stop,
		   struct perf_door **door_out);
/* Returns: a descriptor that can be read from while a client waits. Thread: main. */
int perf_door_fd(const struct perf_door *door);
/* Purpose: the client that waits; from then on others hear that it is being served.
 * Owner: the caller, who closes it and then calls perf_door_free. Thread: main.
 * Returns: false: none does. */
bool perf_door_take(struct perf_door *door, struct perf_ctl *ctl_out);
/* Purpose: the next client may come. Thread: main. */
void perf_door_free(struct perf_door *door);
/* Shape: NULL is fine. Thread: main. */
void perf_door_close(struct perf_door *door);

#endif
