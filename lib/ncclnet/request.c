/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Transfers. A call that finds no room leaves *req_out NULL and succeeds: NCCL makes it again. A
 * request belongs to its connection and is free again once test has reported its end.
 *
 *   isend, irecv   a request ─► one request of lib/xfer ───────────► test: done, its bytes
 *   iflush         a request ─► up to NNET_PART_MAX flushes; those that find no room are started by
 *                  test
 *
 * NCCL drives everything: lib/xfer moves data only within these calls, which run under the
 * context's lock. Called by tables.c.
 */
#include <errno.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "ncclnet/live.h"
#include "ncclnet/report.h"

/* ---- requests ---- */

static struct nnet_req *req_take(struct nnet_comm *comm)
{
	struct nnet_req *req = comm->free_req;

	if (!req)
		return NULL;
	comm->free_req = req->next_free;
	memset(req, 0, offsetof(struct nnet_req, flush));
	req->comm = comm;
	nnet_report_start(req);
	return req;
}

static void req_give(struct nnet_req *req)
{
	req->left = 0;
	req->next_free = req->comm->free_req;
	req->comm->free_req = req;
}

/* What a call that started transfers returns. */
static int request_started(struct nnet_comm *comm, struct nnet_req *req, int rc, void **req_out)
{
	int result;

	if (!rc) {
		*req_out = req;
		nnet_live_begun(comm);
		return NCCL_SUCCESS;
	}
	req_give(req);
	if (rc == -EAGAIN)
		return NCCL_SUCCESS;
	result = nnet_comm_check(comm);
	return result ? result : nnet_fail(rc, comm->is_send ? "isend" : "irecv");
}

/* ---- send ---- */

/* mr NULL: a message of 0 bytes, which has no memory. */
static int send_locked(struct nnet_comm *comm, const void *data, size_t bytes, int tag,
		       struct nnet_mr *mr, void **req_out)
{
	struct nnet_req *req;
	int rc = nnet_comm_check(comm);

	if (rc)
		return rc;
	req = req_take(comm);
	if (!req)
		return NCCL_SUCCESS;
	req->left = req->x_cnt = req->part_cnt = 1;
	req->mr[0] = mr;
	rc = spw_xfer_send(comm->conn, mr ? mr->mem : NULL, data, bytes, (uint32_t)tag, &req->x[0]);
	return request_started(comm, req, rc, req_out);
}

/* NCCL counts bytes in an int, in some versions: what is longer is refused, not cut. */
int nnet_isend(void *send, void *data, size_t bytes, int tag, void *mr, void **req_out)
{
	struct nnet_comm *comm = send;
	int result;

	*req_out = NULL;
	if (nnet_is_forked())
		return NCCL_INVALID_USAGE;
	if (bytes > NNET_BYTES_MAX) {
		spw_warn("isend: %zu bytes: at most 2^30 in one message", bytes);
		return NCCL_INVALID_ARGUMENT;
	}
	pthread_mutex_lock(&comm->ctx->lock);
	result = send_locked(comm, data, bytes, tag, mr, req_out);
	pthread_mutex_unlock(&comm->ctx->lock);
	return result;
}

/* ---- receive ---- */

static int recv_locked(struct nnet_comm *comm, const struct spw_xfer_part *part, uint32_t n,
		       void **mr, void **req_out)
{
	struct nnet_req *req;
	int rc = nnet_comm_check(comm);

	if (rc)
		return rc;
	req = req_take(comm);
	if (!req)
		return NCCL_SUCCESS;
	req->left = req->x_cnt = 1;
	req->part_cnt = n;
	memcpy(req->mr, mr, n * sizeof(mr[0]));
	rc = spw_xfer_recv(comm->conn, part, n, &req->x[0]);
	return request_started(comm, req, rc, req_out);
}

/* One request for a group of up to NNET_PART_MAX receives, matched by their tags. */
int nnet_irecv(void *recv, int n, void **data, const size_t *bytes, const int *tag, void **mr,
	       void **req_out)
{
	struct nnet_comm *comm = recv;
	struct spw_xfer_part part[NNET_PART_MAX];
	int result;

	*req_out = NULL;
	if (nnet_is_forked())
		return NCCL_INVALID_USAGE;
	if (!spw_in_range(n, 1, (int)NNET_PART_MAX)) {
		spw_warn("irecv: a group of %d receives: 1 .. %u", n, NNET_PART_MAX);
		return NCCL_INVALID_ARGUMENT;
	}
	for (int i = 0; i < n; i++) {
		const struct nnet_mr *m = mr[i];

		part[i] = (struct spw_xfer_part){.mem = m ? m->mem : NULL,
						 .addr = data[i],
						 .bytes = bytes[i],
						 .tag = (uint32_t)tag[i]};
	}
	pthread_mutex_lock(&comm->ctx->lock);
	result = recv_locked(comm, part, (uint32_t)n, mr, req_out);
	pthread_mutex_unlock(&comm->ctx->lock);
	return result;
}

/* ---- flush ---- */

/* Only what a NIC wrote into GPU memory may still be on its way when its completion is read. */
static bool request_needs_flush(int n, const int *bytes, void **mr)
{
	for (int i = 0; i < n; i++) {
		const struct nnet_mr *m = mr[i];

		if (m && m->kind == SPW_XFER_DMABUF && bytes[i])
			return true;
	}
	return false;
}

/* Starts what is left of a flush; without room, test goes on with it. Returns: 0 or -errno. */
static int flush_go(struct nnet_req *req)
{
	int rc = 0;

	for (; req->x_cnt < req->flush_cnt && !rc; req->x_cnt += !rc, req->left += !rc) {
		const uint32_t i = req->x_cnt;

		rc = spw_xfer_flush(req->comm->conn, req->mr[i] ? req->mr[i]->mem : NULL,
				    req->flush[i].addr, req->flush[i].bytes, &req->x[i]);
	}
	return rc == -EAGAIN ? 0 : rc;
}

/* NCCL takes a flush without a request for one that is done, so there must be one. */
static int flush_locked(struct nnet_comm *comm, int n, void **data, const int *bytes, void **mr,
			void **req_out)
{
	struct nnet_req *req;
	int rc = nnet_comm_check(comm);

	if (rc)
		return rc;
	req = req_take(comm);
	if (!req) {
		spw_warn("iflush: %u requests of this connection are under way", NNET_REQ_CNT);
		return NCCL_INTERNAL_ERROR;
	}
	req->flush_cnt = (uint32_t)n;
	for (int i = 0; i < n; i++) {
		req->flush[i].addr = data[i];
		req->flush[i].bytes = (uint64_t)bytes[i];
		req->mr[i] = mr[i];
	}
	rc = flush_go(req);
	/* What was started must end before its request is used again: test meets the error too. */
	return request_started(comm, req, req->left ? 0 : rc, req_out);
}

/* Host memory needs none: *req_out stays NULL, and NCCL goes on. */
int nnet_iflush(void *recv, int n, void **data, int *bytes, void **mr, void **req_out)
{
	struct nnet_comm *comm = recv;
	int result;

	*req_out = NULL;
	if (nnet_is_forked())
		return NCCL_INVALID_USAGE;
	if (!spw_in_range(n, 1, (int)NNET_PART_MAX) || !request_needs_flush(n, bytes, mr))
		return NCCL_SUCCESS;
	pthread_mutex_lock(&comm->ctx->lock);
	result = flush_locked(comm, n, data, bytes, mr, req_out);
	pthread_mutex_unlock(&comm->ctx->lock);
	return result;
}

/* ---- test ---- */

/* Returns: NCCL's result. An error of lib/xfer ends the request. */
static int test_locked(struct nnet_req *req, int *done_out, int *bytes_out)
{
	uint64_t bytes[NNET_PART_MAX], sum = 0; /* set when the request is done */
	struct spw_xfer_stamps stamps;
	int rc = 0, result;

	if (!req->comm->conn)
		return NCCL_REMOTE_ERROR;
	nnet_report_poll(req->comm);
	nnet_live_called(req->comm);
	for (uint32_t i = 0; i < req->x_cnt && !rc; i++) {
		bool done = false;

		if (!req->x[i])
			continue;
		rc = spw_xfer_test_stamps(req->x[i], &done, bytes, &stamps);
		if (!done)
			continue;
		req->x[i] = NULL;
		req->left--;
	}
	rc = rc ? rc : flush_go(req);
	if (rc) {
		nnet_live_ended(req->comm, spw_tsc_now());
		req_give(req);
		result = nnet_comm_check(req->comm);
		return result ? result : nnet_fail(rc, "test");
	}
	if (req->left || req->x_cnt < req->flush_cnt)
		return NCCL_SUCCESS;
	*done_out = 1;
	for (uint32_t i = 0; i < req->part_cnt; i++) {
		sum += bytes[i];
		if (bytes_out)
			bytes_out[i] = (int)bytes[i];
	}
	nnet_report_done(req, &stamps, sum);
	nnet_live_ended(req->comm, stamps.done);
	req_give(req);
	return NCCL_SUCCESS;
}

/* Called again and again, also by a thread that only waits: each call is a turn of lib/xfer. */
int nnet_test(void *tested, int *done_out, int *bytes_out)
{
	struct nnet_req *req = tested;
	struct nnet_ctx *ctx = req->comm->ctx;
	int result;

	*done_out = 0;
	if (nnet_is_forked())
		return NCCL_INVALID_USAGE;
	pthread_mutex_lock(&ctx->lock);
	result = test_locked(req, done_out, bytes_out);
	pthread_mutex_unlock(&ctx->lock);
	return result;
}
