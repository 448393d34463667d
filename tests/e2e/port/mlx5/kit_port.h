/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * An RDMA port of a test, with memory of its own: opened, closed and counted; and the control
 * sockets of the software ConnectXs under it. Every failure fails the running cmocka test.
 */
#ifndef KIT_PORT_H
#define KIT_PORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "port/spw_port.h"

#define KIT_QUEUE_MAX  4u
#define KIT_TEXT_BYTES sizeof(((struct spw_port_event *)NULL)->text)
#define KIT_WAIT_S     90u /* for what must happen, on a slow and busy machine */

struct kit_conf {
	const char *spec; /* of the port */
	uint16_t queues;
	const char *profile;
	uint32_t slots;      /* per queue; 0: 4096 */
	uint32_t slot_bytes; /* 0: 2048 */
	uint32_t ring;
	const struct spw_region
		*region; /* of the test's own, which outlives the port; NULL: one is made */
	bool keep_sent;  /* every queue keeps its send completions */
	uint32_t split;  /* as in the spec; the heads are host memory */
};

/* Events of a kind that a port reported. */
struct kit_events {
	uint32_t cnt[SPW_PORT_EVENT_DEVICE_GONE + 1];
	uint64_t outage_ns;        /* of the last QUEUE_BACK */
	char text[KIT_TEXT_BYTES]; /* of the last QUEUE_ERROR */
	char up[KIT_TEXT_BYTES];   /* of the last PEER_UP */
	char down[KIT_TEXT_BYTES]; /* of the last PEER_DOWN */
};

struct kit_port {
	struct spw_port *port;
	struct spw_region region, heads;
	bool own_region;
	struct spw_pool pool[KIT_QUEUE_MAX];
	uint64_t rx[KIT_QUEUE_MAX]; /* frames lent */
	uint64_t taken;             /* by tx_burst */
	bool echoes_all; /* an echo that the port refuses is offered again, not dropped */
	const struct spw_port_sent *sent[KIT_QUEUE_MAX]; /* keep_sent; NULL: it keeps none */
	struct kit_events events;
};

/* 0, or what failed, with spw_err_text: nothing is left then. */
int kit_port_open(struct kit_port *p, uint16_t index, const struct kit_conf *conf);
/* The port does not open; rc, and one line with these words in it (NULL at their end). */
void kit_refused(const struct kit_conf *conf, int rc, const char *const *words);
/* The last error's text is one line with these words in it. */
void kit_refused_with(const char *what, const char *const *words);
/* Purpose: stops and closes; every slot has been returned, and what tx_burst took was sent or
 * flushed.
 */
void kit_port_close(struct kit_port *p);

/* Purpose: a command to the control socket of a device (SPW_TEST_CONTROL, or with ".DEVICE.PID");
 * fails unless it is "ok". Returns: the answer, valid until the next call. */
const char *kit_control(uint32_t device, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

double kit_seconds(void);
/* A TCP port number that nobody listens on. */
uint16_t kit_free_port(void);

#endif
