/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Errors and recovery of a raw Ethernet queue. Called by rx.c and tx.c for a CQE that is not a
 * frame, and by the pipe through spw_port_queue.events; calls ops (eth/recover.c) for the objects.
 *
 *   burst:  error CQE ─► leave it in place, note the time (err state NOTED)
 *   events: report QUEUE_ERROR (REPORTED) ─► ops reset ─► drain ─► recycle ─► ops ready ─► refill
 *           ─► report QUEUE_BACK with the outage (NONE); a failed attempt is repeated next call
 *
 * drain counts every CQE written before the reset, recycle returns every slot that the NIC owned,
 * and the rings start again at index 0. After MLX5_RECOVER_TRIES attempts the port reports
 * DEVICE_GONE.
 *
 * A receive queue survives most error CQEs: it enters its error state after QP_OP, PROT and FLUSH
 * only; any other error (a frame longer than its WQE) costs the frame and its WQE.
 *
 * Sources: Linux en_rx.c [K], cqe_syndrome_needs_recover and mlx5e_handle_rx_cqe_mpwrq, which takes
 * the strides of an error CQE from byte_cnt too; DPDK commits aa67ed3084, ef296e8f61.
 */
#include <stdio.h>

#include "base/spw_err.h"
#include "port/mlx5/eth/raw.h"

#define MLX5_RECOVER_TRIES 100u /* then the device is reported as gone */

static void mlx5_eth_err_begin(struct mlx5_err *err, uint32_t syndrome, const char *what)
{
	if (err->state == MLX5_ERR_NONE)
		*err = (struct mlx5_err){.state = MLX5_ERR_NOTED,
					 .syndrome = syndrome,
					 .what = what,
					 .since_tsc = spw_cpu_counter()};
}

void mlx5_eth_rx_failed(struct mlx5_eth_queue *q, const char *what)
{
	mlx5_eth_err_begin(&q->rx_err, 0, what);
}

void mlx5_eth_tx_failed(struct mlx5_eth_queue *q, const char *what)
{
	mlx5_eth_err_begin(&q->tx_err, 0, what);
}

/* Adds the cause to an error that an asynchronous event noted before its CQE was read: ops.rq_ready
 * (sq_ready) acts on it. */
static void mlx5_eth_err_name(struct mlx5_err *err, uint32_t syndrome)
{
	if (!err->syndrome && syndrome != SPW_PRM_SYN_WR_FLUSH_ERR)
		err->syndrome = syndrome;
}

/* Counts by syndrome; unknown ones are counted as 0. */
static void mlx5_eth_err_count(struct mlx5_eth_queue *q, uint32_t syndrome)
{
	mlx5_eth_count_err(q, SPW_PORT_ERR_cqe_error, 1);
	spw_thr_count(&q->syndrome[syndrome < MLX5_SYNDROME_CNT ? syndrome : 0], 1);
}

static uint32_t mlx5_eth_cqe_syndrome(const uint8_t *cqe)
{
	return spw_prm_cqe_err_get_syndrome(cqe);
}

/* Only these two opcodes carry a syndrome. */
static bool mlx5_eth_cqe_is_error(const uint8_t *cqe)
{
	uint64_t opcode = spw_prm_cqe64_get_opcode(cqe);

	return opcode == SPW_PRM_CQE_REQ_ERR || opcode == SPW_PRM_CQE_RESP_ERR;
}

void mlx5_eth_rx_fault(struct mlx5_eth_queue *q, uint32_t syndrome)
{
	mlx5_eth_err_begin(&q->rx_err, syndrome, NULL);
}

/* Whether a good CQE arrived after the burst's scan; the next burst takes it. */
static bool mlx5_eth_rx_came_since(const struct mlx5_eth_queue *q, const uint8_t *cqe)
{
	bool posted = q->flags & MLX5_F_STRIDING || q->rq_pi != q->rq_ci;
	bool compressed = q->flags & MLX5_F_COMPRESSED &&
			  spw_prm_cqe64_get_format(cqe) == SPW_PRM_CQE_FORMAT_COMPRESSED &&
			  (q->flags & MLX5_F_ENHANCED ||
			   spw_prm_cqe64_get_opcode(cqe) == SPW_PRM_CQE_RESP_SEND);
	uint32_t want = mlx5_own_want(q->cq_ci >> q->cq_log2, SPW_PRM_CQE_RESP_SEND, q->flags);

	return posted && !q->session.left && (compressed || mlx5_cqe_plain(cqe, want, q->flags));
}

/* Counts the frame that an error hit; a flush had none. */
static void mlx5_eth_rx_bad(struct mlx5_eth_queue *q, uint32_t syndrome)
{
	mlx5_eth_err_count(q, syndrome);
	if (syndrome == SPW_PRM_SYN_LOCAL_LENGTH_ERR)
		mlx5_eth_count_drop(q, SPW_PORT_DROP_too_long, 1);
	else if (syndrome != SPW_PRM_SYN_WR_FLUSH_ERR)
		mlx5_eth_count_drop(q, SPW_PORT_DROP_rx_error, 1);
}

/* Whether the queue is still in its ready state after this error. */
static bool mlx5_eth_rx_survives(uint32_t syndrome)
{
	return syndrome != SPW_PRM_SYN_LOCAL_QP_OP_ERR && syndrome != SPW_PRM_SYN_LOCAL_PROT_ERR &&
	       syndrome != SPW_PRM_SYN_WR_FLUSH_ERR;
}

/* Returns the slots that the NIC consumed for a failed frame: a WQE, or the strides that the CQE
 * names. Returns: false if nothing was posted or the strides are out of range; then only a reset
 * makes both sides agree again. */
static bool mlx5_eth_rx_return(struct mlx5_eth_queue *q, const uint8_t *cqe)
{
	uint32_t slot = q->slot_of[q->rq_ci & q->rq_mask],
		 strides = spw_prm_mprq_strides(spw_prm_cqe64_get_byte_cnt(cqe));

	if (q->rq_ci == q->rq_pi)
		return false;
	if (!(q->flags & MLX5_F_STRIDING)) {
		spw_pool_put(q->pool, &slot, 1);
		q->rq_ci++;
		return true;
	}
	if (!strides || q->stride_pos + strides > 1u << q->group_log2)
		return false;
	mlx5_eth_strides_done(q, &q->rq_ci, &q->stride_pos, strides);
	mlx5_eth_group_unref(q, slot >> q->group_log2, strides);
	return true;
}

/* Keeps the CQE at the consumer index, which no burst lent a frame for. */
static void mlx5_eth_rx_keep_odd(struct mlx5_eth_queue *q)
{
	if (!q->raw)
		return;
	mlx5_eth_raw_begin(q, SPW_BURST_MAX);
	mlx5_eth_raw_put(q, q->cq_ci);
}

/* Consumes the error CQE at the consumer index if the queue survives it. */
static bool mlx5_eth_rx_skip(struct mlx5_eth_queue *q)
{
	const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, q->cq_ci);

	if (q->session.left || !mlx5_cqe_owned(cqe, q->cq_ci >> q->cq_log2, q->flags))
		return false;
	spw_dma_from_device(); /* [M1] */
	if (!mlx5_eth_cqe_is_error(cqe) || !mlx5_eth_rx_survives(mlx5_eth_cqe_syndrome(cqe)) ||
	    !mlx5_eth_rx_return(q, cqe))
		return false;
	mlx5_eth_rx_keep_odd(q);
	mlx5_eth_rx_bad(q, mlx5_eth_cqe_syndrome(cqe));
	q->cq_ci++;
	return true;
}

/* Called by a burst that found nothing plain. Between its scan and this read a good CQE may have
 * arrived: then nothing is wrong. */
void mlx5_eth_rx_odd(struct mlx5_eth_queue *q)
{
	const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, q->cq_ci);
	uint32_t n = 0;

	spw_dma_from_device(); /* [M1] */
	if (q->rx_err.state != MLX5_ERR_NONE || mlx5_eth_rx_came_since(q, cqe))
		return;
	while (n < SPW_BURST_MAX && mlx5_eth_rx_skip(q))
		n++;
	if (n)
		return;
	mlx5_eth_rx_keep_odd(q);
	mlx5_eth_err_begin(&q->rx_err, mlx5_eth_cqe_is_error(cqe) ? mlx5_eth_cqe_syndrome(cqe) : 0,
			   NULL);
}

void mlx5_eth_tx_fault(struct mlx5_eth_queue *q, const uint8_t *cqe)
{
	spw_dma_from_device(); /* [M1] */
	if (cqe &&
	    mlx5_cqe_plain(cqe, mlx5_own_want(q->tx_cq_ci >> q->tx_cq_log2, SPW_PRM_CQE_REQ, 0), 0))
		return; /* a good CQE that arrived after the scan of mlx5_eth_tx_reap */
	mlx5_eth_err_begin(&q->tx_err,
			   cqe && mlx5_eth_cqe_is_error(cqe) ? mlx5_eth_cqe_syndrome(cqe) : 0,
			   NULL);
}

/* ---- receive ---- */

/* How many frames, and entries of the ring, one CQE stands for; 1 if its count is out of range. */
static uint32_t mlx5_eth_rx_cqe_span(const struct mlx5_eth_queue *q, const uint8_t *cqe)
{
	if (spw_prm_cqe64_get_format(cqe) != SPW_PRM_CQE_FORMAT_COMPRESSED ||
	    !(q->flags & MLX5_F_COMPRESSED))
		return 1;
	uint32_t cnt = q->flags & MLX5_F_ENHANCED ? spw_prm_cqe64_get_opcode(cqe) + 1u
						  : spw_prm_cqe64_get_byte_cnt(cqe);

	return cnt - 1 > q->cq_mask ? 1 : cnt;
}

/* Counts one CQE from before the reset, whose frames are lost. Returns: its span. */
static uint32_t mlx5_eth_rx_discard(struct mlx5_eth_queue *q, const uint8_t *cqe)
{
	uint32_t span = mlx5_eth_rx_cqe_span(q, cqe);

	if (span > 1 || !mlx5_eth_cqe_is_error(cqe)) {
		mlx5_eth_count_drop(q, SPW_PORT_DROP_rx_flushed, span);
		return span;
	}
	mlx5_eth_err_name(&q->rx_err, mlx5_eth_cqe_syndrome(cqe));
	mlx5_eth_rx_bad(q, mlx5_eth_cqe_syndrome(cqe));
	return 1;
}

/* Counts what is left in the ring, an open session included; bounded by the ring. */
static void mlx5_eth_rx_drain(struct mlx5_eth_queue *q)
{
	mlx5_eth_count_drop(q, SPW_PORT_DROP_rx_flushed, q->session.left);
	q->cq_ci += q->session.left;
	q->session.left = 0;
	for (uint32_t i = 0, span; i <= q->cq_mask; i += span, q->cq_ci += span) {
		const uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, q->cq_ci);

		if (!mlx5_cqe_owned(cqe, q->cq_ci >> q->cq_log2, q->flags))
			break;
		spw_dma_from_device(); /* [M1] */
		span = mlx5_eth_rx_discard(q, cqe);
	}
}

/* Marks the whole ring as never written: bytes of mini-CQEs and entries that a session skipped must
 * not pass for CQEs after the reset. No CQE arrives while the queue is reset. */
static void mlx5_eth_rx_wipe(struct mlx5_eth_queue *q)
{
	uint8_t stale_lap = (uint8_t)((q->cq_ci >> q->cq_log2) - 1);

	for (uint32_t i = 0; i <= q->cq_mask; i++) {
		uint8_t *cqe = mlx5_cqe_at(q->cqe, q->cq_mask, q->cq_ci + i);

		spw_dma_store(&cqe[MLX5_CQE_OP_OWN], (uint8_t)MLX5_OP_INVALID);
		if (q->flags & MLX5_F_ENHANCED)
			spw_dma_store(&cqe[MLX5_CQE_VALIDITY], stale_lap);
	}
}

/* In this order: stop the NIC, count what it wrote, make the ring look fresh, return the slots,
 * start the NIC, post. */
static int mlx5_eth_rx_recover(struct mlx5_eth_queue *q)
{
	int rc = q->ops.rq_reset(q->ops.obj);

	if (rc)
		return rc;
	mlx5_eth_rx_drain(q);
	mlx5_eth_rx_wipe(q);
	mlx5_eth_rx_recycle(q);
	rc = q->ops.rq_ready(q->ops.obj);
	if (rc)
		return rc;
	mlx5_eth_refill(q);
	return 0;
}

/* ---- send ---- */

/* Settles the frames that a CQE covers. Frames are sent in order: all before the WQE it names were
 * sent, and that one too unless it failed. A counter beyond what was posted is ignored. */
static void mlx5_eth_tx_settle(struct mlx5_eth_queue *q, const uint8_t *cqe)
{
	uint32_t done = (uint16_t)(spw_prm_cqe64_get_wqe_counter(cqe) +
				   (mlx5_eth_cqe_is_error(cqe) ? 0 : 1) - q->sq_ci);

	if (done <= q->sq_pi - q->sq_ci)
		mlx5_eth_tx_sent(q, q->sq_ci + done, cqe);
}

/* After the first error CQE only flushes follow. */
static void mlx5_eth_tx_drain(struct mlx5_eth_queue *q)
{
	bool failed = false;

	for (uint32_t i = 0; i <= q->tx_cq_mask; i++, q->tx_cq_ci++) {
		const uint8_t *cqe = mlx5_cqe_at(q->tx_cqe, q->tx_cq_mask, q->tx_cq_ci);

		if (!mlx5_cqe_owned(cqe, q->tx_cq_ci >> q->tx_cq_log2, 0))
			break;
		spw_dma_from_device(); /* [M1] */
		if (!failed)
			mlx5_eth_tx_settle(q, cqe);
		if (mlx5_eth_cqe_is_error(cqe)) {
			failed = true;
			mlx5_eth_err_name(&q->tx_err, mlx5_eth_cqe_syndrome(cqe));
			mlx5_eth_err_count(q, mlx5_eth_cqe_syndrome(cqe));
		}
	}
	spw_dma_to_device(); /* [M2] */
	mlx5_cq_record_put(q->tx_cq_db, q->tx_cq_ci);
}

/* As mlx5_eth_rx_recover; a send ring needs no wiping, since its CQ has no arrays of mini-CQEs. */
static int mlx5_eth_tx_recover(struct mlx5_eth_queue *q)
{
	int rc = q->ops.sq_reset(q->ops.obj);

	if (rc)
		return rc;
	mlx5_eth_tx_drain(q);
	mlx5_eth_tx_recycle(q);
	return q->ops.sq_ready(q->ops.obj);
}

/* At stop, after the reset: the same counting as in a recovery. */
void mlx5_eth_queue_drain(struct mlx5_eth_queue *q)
{
	if (!q->slot_of)
		return;
	mlx5_eth_rx_drain(q);
	if (q->sq)
		mlx5_eth_tx_drain(q);
}

/* ---- events ---- */

static const char *mlx5_eth_err_text(const struct mlx5_err *err)
{
	if (err->what)
		return err->what;
	return err->syndrome ? spw_prm_syndrome_text(err->syndrome) : "a malformed completion";
}

/* The device's own event may come before the completion that says why; what was reported then
 * lacked the cause, which the recovery has found. */
static const char *mlx5_eth_err_found(const struct mlx5_err *err)
{
	return err->what && err->syndrome ? spw_prm_syndrome_text(err->syndrome) : NULL;
}

static uint16_t mlx5_eth_event_put(struct spw_port_event *event, enum spw_port_event_kind kind,
				   const struct mlx5_eth_queue *q, const struct mlx5_err *err,
				   const char *what)
{
	const char *found;

	*event = (struct spw_port_event){.kind = kind, .queue = q->index, .code = err->syndrome};
	switch (kind) {
	case SPW_PORT_EVENT_QUEUE_BACK:
		event->outage_ns = q->ops.tsc_to_ns(q->ops.obj, spw_cpu_counter() - err->since_tsc);
		found = mlx5_eth_err_found(err);
		snprintf(event->text, sizeof(event->text), "%s queue: back after %llu us%s%s", what,
			 (unsigned long long)event->outage_ns / 1000, found ? "; it was " : "",
			 found ? found : "");
		break;
	case SPW_PORT_EVENT_DEVICE_GONE:
		snprintf(event->text, sizeof(event->text), "%s queue cannot be recovered: %.120s",
			 what, spw_err_text());
		break;
	default:
		snprintf(event->text, sizeof(event->text), "%s queue: %s", what,
			 mlx5_eth_err_text(err));
	}
	return 1;
}

/* Reports first, recovers next; a recovery that fails is tried again on the next call. */
static uint16_t mlx5_eth_err_step(struct mlx5_eth_queue *q, struct mlx5_err *err,
				  int (*recover)(struct mlx5_eth_queue *), const char *what,
				  struct spw_port_event *event, uint16_t cnt)
{
	uint16_t n = 0;

	if (err->state == MLX5_ERR_NOTED && n < cnt) {
		n += mlx5_eth_event_put(&event[n], SPW_PORT_EVENT_QUEUE_ERROR, q, err, what);
		err->state = MLX5_ERR_REPORTED;
	}
	if (err->state != MLX5_ERR_REPORTED || n == cnt || err->tries > MLX5_RECOVER_TRIES)
		return n;
	if (recover(q)) {
		if (++err->tries > MLX5_RECOVER_TRIES)
			n += mlx5_eth_event_put(&event[n], SPW_PORT_EVENT_DEVICE_GONE, q, err,
						what);
		return n;
	}
	mlx5_eth_count_err(q, SPW_PORT_ERR_queue_reset, 1);
	n += mlx5_eth_event_put(&event[n], SPW_PORT_EVENT_QUEUE_BACK, q, err, what);
	err->state = MLX5_ERR_NONE;
	return n;
}

/* Each direction recovers by itself; frames are still received while sending recovers. */
uint16_t mlx5_eth_events(void *vq, struct spw_port_event *event, uint16_t cnt)
{
	struct mlx5_eth_queue *q = vq;
	uint16_t n = 0;

	if (q->sq && q->tx_err.state == MLX5_ERR_NONE)
		mlx5_eth_tx_reap(q);
	if (q->rx_err.state != MLX5_ERR_NONE)
		n += mlx5_eth_err_step(q, &q->rx_err, mlx5_eth_rx_recover, "receive", event, cnt);
	if (q->tx_err.state != MLX5_ERR_NONE)
		n += mlx5_eth_err_step(q, &q->tx_err, mlx5_eth_tx_recover, "send", event + n,
				       (uint16_t)(cnt - n));
	if (q->ops.async && n < cnt)
		n += q->ops.async(q->ops.obj, event + n, (uint16_t)(cnt - n));
	return n;
}
