/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Two ends, joined by lib/xfer and by hand (xfer_pair.h).
 */
#include "xfer_pair.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/spw_err.h"

#define INLINE_BYTES 28u
#define JOIN_S       10

/* ---- lib/xfer ---- */

static int end_open(struct pair_end *end, const char *device)
{
	const struct spw_xfer_conf conf = {.rails = device, .bind = "127.0.0.1:0"};
	const struct spw_xfer_mem_req req = {
		.kind = SPW_XFER_HOST, .addr = end->bytes, .bytes = PAIR_BYTES};
	int rc = spw_xfer_open(&conf, &end->x);

	return rc ? rc : spw_xfer_mem_reg(end->x, &req, &end->mem);
}

/* One turn of setting up. Returns: 0: all is there; -EAGAIN. */
static int join_turn(struct pair_end end[2], struct spw_xfer_listener *listener,
		     const struct spw_xfer_handle *handle, bool *connected)
{
	int rc = 0;

	if (!end[1].conn)
		rc = spw_xfer_accept(listener, &end[1].conn);
	if (!*connected && (!rc || rc == -EAGAIN)) {
		rc = spw_xfer_connect(end[0].x, handle, &end[0].conn);
		*connected = !rc;
	}
	if (rc || !end[1].conn)
		return rc ? rc : -EAGAIN;
	for (uint32_t i = 0; i < 2 && !rc; i++)
		if (!end[i].there)
			rc = spw_xfer_window_remote(end[i].conn, 0, &end[i].there);
	return rc;
}

static time_t now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static int join(struct pair_end end[2])
{
	const time_t until = now_s() + JOIN_S;
	struct spw_xfer_listener *listener;
	struct spw_xfer_handle handle;
	bool connected = false, exposed = false;
	int rc = spw_xfer_listen(end[1].x, &handle, &listener);

	while (!rc && (rc = join_turn(end, listener, &handle, &connected)) == -EAGAIN) {
		rc = now_s() > until ? spw_err(ETIMEDOUT, "no connection in %d s", JOIN_S) : 0;
		for (uint32_t i = 0; connected && end[1].conn && !exposed && i < 2 && !rc; i++)
			rc = spw_xfer_window_expose(end[i].conn, end[i].mem,
						    end[i].bytes + PAIR_HALF,
						    PAIR_BYTES - PAIR_HALF);
		exposed |= connected && end[1].conn;
	}
	return rc;
}

/* ---- by hand ---- */

static int hand_open(struct pair_end *end, const char *device)
{
	static const struct ibv_qp_cap cap = {.max_send_wr = 2 * PAIR_DEPTH,
					      .max_recv_wr = 1,
					      .max_send_sge = 1,
					      .max_recv_sge = 1,
					      .max_inline_data = INLINE_BYTES};

	return hand_qp_open(&end->hand, device, end->bytes, PAIR_BYTES, &cap);
}

bool pair_write(struct pair_end *end, const uint8_t *from, uint64_t to_offset, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)from, len, end->hand.mr->lkey};
	struct ibv_send_wr *bad,
		wr = {.sg_list = &sge,
		      .num_sge = 1,
		      .opcode = IBV_WR_RDMA_WRITE,
		      .send_flags = len <= INLINE_BYTES ? IBV_SEND_SIGNALED | IBV_SEND_INLINE
							: IBV_SEND_SIGNALED,
		      .wr.rdma = {end->hand.there + to_offset, end->hand.there_rkey}};

	return !ibv_post_send(end->hand.qp, &wr, &bad);
}

int pair_written(struct pair_end *end)
{
	struct ibv_wc wc[PAIR_DEPTH];
	const int n = ibv_poll_cq(end->hand.tx_cq, (int)PAIR_DEPTH, wc);

	for (int i = 0; i < n; i++)
		if (wc[i].status != IBV_WC_SUCCESS)
			return -1;
	return n;
}

/* ---- both ---- */

int pair_open(struct pair_end end[2], const char *const device[2])
{
	int rc = 0;

	for (uint32_t i = 0; i < 2 && !rc; i++) {
		rc = end_open(&end[i], device[i]);
		rc = rc ? rc : hand_open(&end[i], device[i]);
	}
	rc = rc ? rc : join(end);
	for (uint32_t i = 0; i < 2 && !rc; i++)
		rc = hand_qp_join(&end[i].hand, &end[!i].hand);
	return rc;
}

void pair_close(struct pair_end end[2])
{
	for (uint32_t i = 0; i < 2; i++) {
		spw_xfer_close(end[i].x);
		hand_qp_close(&end[i].hand);
	}
}
