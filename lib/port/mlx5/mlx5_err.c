/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Errors are events. A burst that meets an error CQE, or one that makes no sense, leaves it where it is and notes the time;
 * events then takes the queue through reset to ready, off the burst path: every CQE of the old life is counted, every slot
 * that the NIC had comes home, the rings start anew, and the outage is measured.
 */
#include <stdio.h>

#include "base/spw_err.h"
#include "port/mlx5/mlx5_cqe.h"

#define MLX5_RECOVER_TRIES 100u /* then the device is taken for gone */

static void err_begin(struct spw_mlx5_err *err, uint32_t syndrome, const char *what)
{
	if (err->state == MLX5_ERR_NONE)
		*err = (struct spw_mlx5_err){
			.state = MLX5_ERR_SEEN, .syndrome = syndrome, .what = what, .since_tsc = spw_cpu_counter() };
}

void spw_mlx5_rx_told(struct spw_mlx5_queue *q, const char *what)
{
	err_begin(&q->rx_err, 0, what);
}

void spw_mlx5_tx_told(struct spw_mlx5_queue *q, const char *what)
{
	err_begin(&q->tx_err, 0, what);
}

/* An asynchronous event may come before the CQE that says why: ops.rq_ready (sq_ready) wants to know. */
static void err_count(struct spw_mlx5_queue *q, struct spw_mlx5_err *err, const uint8_t *cqe)
{
	uint32_t syndrome = (uint32_t)spw_prm_cqe_err_get_syndrome(cqe);

	if (!err->syndrome && syndrome != SPW_PRM_SYN_WR_FLUSH_ERR)
		err->syndrome = syndrome;
	mlx5_count_err(q, SPW_PORT_ERR_cqe_error, 1);
	spw_thr_count(&q->syndrome[syndrome < MLX5_SYNDROME_CNT ? syndrome : 0], 1);
}

static bool cqe_is_error(const uint8_t *cqe)
{
	uint64_t opcode = spw_prm_cqe64_get_opcode(cqe);

	return opcode == SPW_PRM_CQE_REQ_ERR || opcode == SPW_PRM_CQE_RESP_ERR;
}

void spw_mlx5_rx_fault(struct spw_mlx5_queue *q, uint32_t syndrome)
{
	err_begin(&q->rx_err, syndrome, NULL);
}

/* A CQE may come between the burst's own look and this one; the next burst would take it. */
static bool rx_came_since(const struct spw_mlx5_queue *q, const uint8_t *cqe)
{
	bool posted = q->flags & MLX5_F_STRIDING || q->rq_pi != q->rq_ci;
	bool zipped = q->flags & MLX5_F_ZIP && spw_prm_cqe64_get_format(cqe) == SPW_PRM_CQE_FORMAT_COMPRESSED &&
		      (q->flags & MLX5_F_ENHANCED || spw_prm_cqe64_get_opcode(cqe) == SPW_PRM_CQE_RESP_SEND);
	uint32_t want = mlx5_own_want(q->cq_ci >> q->cq_log2, SPW_PRM_CQE_RESP_SEND, q->flags);

	return posted && !q->zip.left && (zipped || mlx5_cqe_plain(cqe, want, q->flags));
}

void spw_mlx5_rx_look(struct spw_mlx5_queue *q)
{
	const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, q->cq_ci);

	spw_dma_from_device(); /* [M1] */
	if (q->rx_err.state != MLX5_ERR_NONE || rx_came_since(q, cqe))
		return;
	err_begin(&q->rx_err, cqe_is_error(cqe) ? (uint32_t)spw_prm_cqe_err_get_syndrome(cqe) : 0, NULL);
}

void spw_mlx5_tx_fault(struct spw_mlx5_queue *q, const uint8_t *cqe)
{
	spw_dma_from_device(); /* [M1] */
	if (cqe && mlx5_cqe_plain(cqe, mlx5_own_want(q->tx_cq_ci >> q->tx_cq_log2, SPW_PRM_CQE_REQ, 0), 0))
		return; /* it came since tx_reap looked */
	err_begin(&q->tx_err, cqe && cqe_is_error(cqe) ? (uint32_t)spw_prm_cqe_err_get_syndrome(cqe) : 0, NULL);
}

/* ---- receive ------------------------------------------------------------------------------------------ */

/* How many frames, and slots of the ring, one CQE stands for; a lying count is cut to the ring. */
static uint32_t rx_cqe_span(const struct spw_mlx5_queue *q, const uint8_t *cqe)
{
	if (spw_prm_cqe64_get_format(cqe) != SPW_PRM_CQE_FORMAT_COMPRESSED || !(q->flags & MLX5_F_ZIP))
		return 1;
	uint32_t cnt = q->flags & MLX5_F_ENHANCED ? (uint32_t)spw_prm_cqe64_get_opcode(cqe) + 1
						  : (uint32_t)spw_prm_cqe64_get_byte_cnt(cqe);

	return cnt - 1 > q->cq_mask ? 1 : cnt;
}

/* One CQE of the old life. The frame of a good one, and the one that an error hit, are lost; a flush had none.
 * Returns: its span. */
static uint32_t rx_bury(struct spw_mlx5_queue *q, const uint8_t *cqe)
{
	uint32_t span = rx_cqe_span(q, cqe);

	if (span > 1 || !cqe_is_error(cqe)) {
		mlx5_count_drop(q, SPW_PORT_DROP_rx_flushed, span);
		return span;
	}
	err_count(q, &q->rx_err, cqe);
	switch (spw_prm_cqe_err_get_syndrome(cqe)) {
	case SPW_PRM_SYN_WR_FLUSH_ERR:
		break;
	case SPW_PRM_SYN_LOCAL_LENGTH_ERR:
		mlx5_count_drop(q, SPW_PORT_DROP_too_long, 1);
		break;
	default:
		mlx5_count_drop(q, SPW_PORT_DROP_rx_error, 1);
	}
	return 1;
}

/* What the ring still holds, a session under way included; bounded by the ring. */
static void rx_drain(struct spw_mlx5_queue *q)
{
	mlx5_count_drop(q, SPW_PORT_DROP_rx_flushed, q->zip.left);
	q->cq_ci += q->zip.left;
	q->zip.left = 0;
	for (uint32_t i = 0, span; i <= q->cq_mask; i += span, q->cq_ci += span) {
		const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, q->cq_ci);

		if (!mlx5_cqe_owned(cqe, q->cq_ci >> q->cq_log2, q->flags))
			break;
		spw_dma_from_device(); /* [M1] */
		span = rx_bury(q, cqe);
	}
}

/* Bytes of a session's end and slots that it left unwritten must not look like CQEs of the new life. No CQE arrives while
 * the queue is reset, so the whole ring is made as new. */
static void rx_wipe(struct spw_mlx5_queue *q)
{
	uint8_t stale_lap = (uint8_t)((q->cq_ci >> q->cq_log2) - 1);

	for (uint32_t i = 0; i <= q->cq_mask; i++) {
		uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, q->cq_ci + i);

		spw_dma_store(&cqe[MLX5_CQE_OP_OWN], (uint8_t)MLX5_OP_INVALID);
		if (q->flags & MLX5_F_ENHANCED)
			spw_dma_store(&cqe[MLX5_CQE_VALIDITY], stale_lap);
	}
}

static int rx_recover(struct spw_mlx5_queue *q)
{
	int rc = q->ops.rq_reset(q->ops.obj);

	if (rc)
		return rc;
	rx_drain(q);
	rx_wipe(q);
	spw_mlx5_rx_home(q);
	rc = q->ops.rq_ready(q->ops.obj);
	if (rc)
		return rc;
	spw_mlx5_refill(q);
	return 0;
}

/* ---- send ----------------------------------------------------------------------------------------------- */

/* Frames go out in order: all before the WQE that a CQE names were sent, and that one too unless it failed. Whatever the CQE
 * says, no more than are under way. */
static void tx_settle(struct spw_mlx5_queue *q, const uint8_t *cqe)
{
	uint32_t done = (uint16_t)(spw_prm_cqe64_get_wqe_counter(cqe) + (cqe_is_error(cqe) ? 0 : 1) - q->sq_ci);

	if (done <= q->sq_pi - q->sq_ci)
		spw_mlx5_tx_sent(q, q->sq_ci + done);
}

/* After the first error CQE only flushes follow. */
static void tx_drain(struct spw_mlx5_queue *q)
{
	bool failed = false;

	for (uint32_t i = 0; i <= q->tx_cq_mask; i++, q->tx_cq_ci++) {
		const uint8_t *cqe = mlx5_cqe_at(q->tx_cqe, q->tx_cq_mask, q->tx_cq_ci);

		if (!mlx5_cqe_owned(cqe, q->tx_cq_ci >> q->tx_cq_log2, 0))
			break;
		spw_dma_from_device(); /* [M1] */
		if (!failed)
			tx_settle(q, cqe);
		if (cqe_is_error(cqe)) {
			failed = true;
			err_count(q, &q->tx_err, cqe);
		}
	}
	spw_dma_to_device(); /* [M2] */
	spw_dma_store(q->tx_cq_db, spw_cpu_to_be32(q->tx_cq_ci & 0xffffffu));
}

static int tx_recover(struct spw_mlx5_queue *q)
{
	int rc = q->ops.sq_reset(q->ops.obj);

	if (rc)
		return rc;
	tx_drain(q);
	spw_mlx5_tx_home(q);
	return q->ops.sq_ready(q->ops.obj);
}

void spw_mlx5_queue_drain(struct spw_mlx5_queue *q)
{
	if (!q->slot_of)
		return;
	rx_drain(q);
	if (q->sq)
		tx_drain(q);
}

/* ---- events ----------------------------------------------------------------------------------------------- */

static const char *err_text(const struct spw_mlx5_err *err)
{
	if (err->what)
		return err->what;
	return err->syndrome ? spw_prm_syndrome_text(err->syndrome) : "a completion that makes no sense";
}

static uint16_t event_put(struct spw_port_event *event, enum spw_port_event_kind kind, const struct spw_mlx5_queue *q,
			  const struct spw_mlx5_err *err, const char *what)
{
	*event = (struct spw_port_event){ .kind = kind, .queue = q->index, .code = err->syndrome };
	switch (kind) {
	case SPW_PORT_EVENT_QUEUE_BACK:
		event->outage_ns = q->ops.tsc_to_ns(q->ops.obj, spw_cpu_counter() - err->since_tsc);
		snprintf(event->text, sizeof(event->text), "%s queue: back after %llu us", what,
			 (unsigned long long)event->outage_ns / 1000);
		break;
	case SPW_PORT_EVENT_DEVICE_GONE:
		snprintf(event->text, sizeof(event->text), "%s queue cannot be mended: %.60s", what, spw_err_text());
		break;
	default:
		snprintf(event->text, sizeof(event->text), "%s queue: %s", what, err_text(err));
	}
	return 1;
}

/* Told first, mended next; a reset that fails is tried again on the next call. */
static uint16_t err_step(struct spw_mlx5_queue *q, struct spw_mlx5_err *err, int (*recover)(struct spw_mlx5_queue *),
			 const char *what, struct spw_port_event *event, uint16_t cnt)
{
	uint16_t n = 0;

	if (err->state == MLX5_ERR_SEEN && n < cnt) {
		n += event_put(&event[n], SPW_PORT_EVENT_QUEUE_ERROR, q, err, what);
		err->state = MLX5_ERR_TOLD;
	}
	if (err->state != MLX5_ERR_TOLD || n == cnt || err->tries > MLX5_RECOVER_TRIES)
		return n;
	if (recover(q)) {
		if (++err->tries > MLX5_RECOVER_TRIES)
			n += event_put(&event[n], SPW_PORT_EVENT_DEVICE_GONE, q, err, what);
		return n;
	}
	mlx5_count_err(q, SPW_PORT_ERR_queue_reset, 1);
	n += event_put(&event[n], SPW_PORT_EVENT_QUEUE_BACK, q, err, what);
	err->state = MLX5_ERR_NONE;
	return n;
}

uint16_t spw_mlx5_events(void *vq, struct spw_port_event *event, uint16_t cnt)
{
	struct spw_mlx5_queue *q = vq;
	uint16_t n = 0;

	if (q->sq && q->tx_err.state == MLX5_ERR_NONE)
		spw_mlx5_tx_reap(q);
	if (q->rx_err.state != MLX5_ERR_NONE)
		n += err_step(q, &q->rx_err, rx_recover, "receive", event, cnt);
	if (q->tx_err.state != MLX5_ERR_NONE)
		n += err_step(q, &q->tx_err, tx_recover, "send", event + n, (uint16_t)(cnt - n));
	if (q->ops.async && n < cnt)
		n += q->ops.async(q->ops.obj, event + n, (uint16_t)(cnt - n));
	return n;
}
