/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Recording for the report; report_json.c writes it.
 *
 *   comm.c      connection made ─► a peer, by its address        ended ─► its rails summed up
 *   request.c   starts          ─► time without a call so far
 *               test            ─► time without a call goes on
 *               done            ─► stamps of lib/xfer, and that time since the start, for
 *                                  spw_stamps_send and spw_stamps_recv (lib/rec): stages, causes
 *
 * Without NCCL_SPINWIRE_REPORT a connection has no peer, and each call returns at once. Threads:
 * all calls are made under the context's lock, or while nobody else has the context, so the counts
 * need no order of their own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_log.h"
#include "ncclnet/report.h"

#define SLOW_NS      1000000u /* and twice what the rails need for the bytes */
#define AWAY_NS      50000u
#define CALIBRATE_MS 20u

/* Ticks that all rails together need for a byte. */
static double ticks_per_byte(const struct nnet_ctx *ctx, const struct spw_tsc *tsc)
{
	struct spw_xfer_rail_stat s;
	double mbps = 0;

	for (uint32_t i = 0; spw_xfer_rail_stat(ctx->x, i, &s); i++)
		mbps += s.state == SPW_XFER_RAIL_UP ? s.mbps : 0;
	return mbps > 0 ? (double)tsc->hz * 8 / (mbps * 1e6) : 0;
}

/* Calibration takes CALIBRATE_MS, while the context is made. */
struct nnet_report *nnet_report_open(struct nnet_ctx *ctx)
{
	const char *path = getenv("NCCL_SPINWIRE_REPORT");
	struct nnet_report *report = path && *path ? calloc(1, sizeof(*report)) : NULL;

	if (!report)
		return NULL;
	if (spw_tsc_calibrate(CALIBRATE_MS, &report->tsc)) {
		spw_warn("no report: the tick counter cannot be calibrated");
		free(report);
		return NULL;
	}
	report->start_tsc = spw_tsc_now();
	report->away_tsc = spw_tsc_from_ns(&report->tsc, AWAY_NS);
	report->ticks_per_byte = ticks_per_byte(ctx, &report->tsc);
	return report;
}

/* ---- connections ---- */

/* "192.0.2.2:7000" is of the peer 192.0.2.2. */
static void report_peer_addr(const char *text, char addr_out[64])
{
	const char *port = strrchr(text, ':');

	snprintf(addr_out, 64, "%.*s", port ? (int)(port - text) : 63, text);
}

/* Connections to one address share a peer, since NCCL has several channels to each machine. */
void nnet_report_conn(struct nnet_comm *comm)
{
	struct nnet_report *report = comm->ctx->report;
	struct nnet_peer *peer;
	char addr[64];

	if (!report)
		return;
	report_peer_addr(spw_xfer_conn_text(comm->conn), addr);
	for (peer = report->peers; peer && strcmp(peer->addr, addr); peer = peer->next)
		;
	if (!peer) {
		peer = aligned_alloc(SPW_CACHE_LINE, sizeof(*peer));
		if (!peer)
			return;
		memset(peer, 0, sizeof(*peer));
		peer->rec.slow_tsc = spw_tsc_from_ns(&report->tsc, SLOW_NS);
		peer->rec.ticks_per_byte = report->ticks_per_byte;
		memcpy(peer->addr, addr, sizeof(addr));
		peer->next = report->peers;
		report->peers = peer;
	}
	peer->conn_cnt++;
	comm->peer = peer;
}

void nnet_report_conn_end(struct nnet_comm *comm)
{
	struct nnet_peer *peer = comm->peer;
	struct spw_xfer_rail_stat s;

	if (!peer || !comm->conn)
		return;
	for (uint32_t i = 0; spw_xfer_conn_rail_stat(comm->conn, i, &s); i++) {
		struct spw_xfer_rail_stat *sum = &peer->rail[i];

		s.tx_bytes += sum->tx_bytes;
		s.tx_chunks += sum->tx_chunks;
		s.resent_chunks += sum->resent_chunks;
		s.outages += sum->outages;
		s.outage_ns += sum->outage_ns;
		*sum = s;
		peer->rail_cnt = SPW_MAX(peer->rail_cnt, i + 1);
	}
	comm->peer = NULL;
}

/* ---- messages ---- */

/* A message is done when NCCL asks for it, not before: time without a question is NCCL's, and must
 * not be blamed on rails or peer. */
void nnet_report_polled(struct nnet_comm *comm)
{
	const uint64_t now = spw_tsc_now();

	if (now - comm->polled_tsc > comm->ctx->report->away_tsc)
		comm->away_tsc += now - comm->polled_tsc;
	comm->polled_tsc = now;
}

static uint64_t report_outages(const struct nnet_ctx *ctx)
{
	struct spw_xfer_stat stat;

	spw_xfer_stat(ctx->x, &stat);
	return stat.outages;
}

void nnet_report_start(struct nnet_req *req)
{
	struct nnet_comm *comm = req->comm;

	if (!comm->peer)
		return;
	nnet_report_poll(comm);
	req->away_tsc = comm->away_tsc;
	req->outages = report_outages(comm->ctx);
}

/* Flushes are no messages, and are not recorded. */
void nnet_report_done(const struct nnet_req *req, const struct spw_xfer_stamps *stamps,
		      uint64_t bytes)
{
	const struct nnet_comm *comm = req->comm;
	uint64_t now;

	if (!comm->peer || req->flush_cnt)
		return;
	now = spw_tsc_now();
	if (!comm->is_send) {
		spw_stamps_recv(&comm->peer->rec, stamps->started, stamps->done, now, bytes);
		return;
	}
	spw_stamps_send(&comm->peer->rec,
			&(struct spw_stamps_send){.started = stamps->started,
						  .granted = stamps->granted,
						  .posted = stamps->posted,
						  .acked = stamps->done,
						  .taken = now,
						  .not_polled = comm->away_tsc - req->away_tsc,
						  .bytes = bytes,
						  .rails = stamps->rails,
						  .rail_failed = report_outages(comm->ctx) !=
								 req->outages});
}
