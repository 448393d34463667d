/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Two endpoints, a and b, in one thread, joined by one connection: `ab` as a has it, `ba` as b has
 * it. They lie on devices of the software ConnectX, whose control socket is $SPW_TEST_CONTROL.
 */
#ifndef SPW_XFER_KIT_H
#define SPW_XFER_KIT_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../unit/unit_control.h"
#include "base/spw_err.h"
#include "xfer/spw_xfer.h"

#define KIT_WAIT_MS 20000u

struct kit {
	struct spw_xfer *a, *b;
	struct spw_xfer_listener *listener;
	struct spw_xfer_conn *ab, *ba;
	uint8_t *buf_a, *buf_b;
	size_t bytes;
	struct spw_xfer_mem *mem_a, *mem_b;
};

uint64_t kit_now_ms(void);
/* Opens both endpoints on these rails; conf is of both, without rails; NULL: the defaults. */
void kit_open(struct kit *k, const char *rails_a, const char *rails_b,
	      const struct spw_xfer_conf *conf);
/* b listens, a connects. */
void kit_connect(struct kit *k);
/* Another connection, of a to a listener of b. */
void kit_join(struct kit *k, const struct spw_xfer_handle *handle,
	      struct spw_xfer_listener *listener, struct spw_xfer_conn **ab,
	      struct spw_xfer_conn **ba);
/* Buffers of so many bytes at both ends, registered. */
void kit_memory(struct kit *k, size_t bytes);
void kit_close(struct kit *k);

/* One turn of both endpoints. */
void kit_turn(struct kit *k);
void kit_turn_for(struct kit *k, uint32_t ms);
/* Turns until the request is done. Returns: what spw_xfer_test returned. */
int kit_finish(struct kit *k, struct spw_xfer_req *req, uint64_t *bytes_out);
/* Expects success. */
void kit_done(struct kit *k, struct spw_xfer_req *req);

/* Waits until so many rails of both ends are up. */
void kit_wait_up(struct kit *k, uint32_t rails);
uint32_t kit_up_cnt(const struct spw_xfer_conn *conn);

void kit_fill(uint8_t *at, size_t len, uint64_t seed);
void kit_expect_bytes(const uint8_t *at, size_t len, uint64_t seed);

/* Sends `bytes` from a to b, from the start of the buffers, and checks them. */
void kit_pass(struct kit *k, uint64_t bytes, uint64_t seed);

/* A line to the control socket of a software ConnectX of this process. answer: NULL, or where its
 * answer goes. */
#define KIT_ANSWER UNIT_ANSWER_BYTES
void kit_control(const char *dev, char answer[KIT_ANSWER], const char *fmt, ...) SPW_PRINTF(3, 4);

/* The QPs of a device, by number, oldest first. Returns: how many. */
#define KIT_QPS 64u
uint32_t kit_qps(const char *dev, uint32_t qpn[KIT_QPS]);

#endif
