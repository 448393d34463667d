/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The report's file: "schema": "spinwire.ncclnet/1", described by share/schema/ncclnet.json. Names
 * and units are those of spinwire's other summaries; docs/110-nccl.md shows one.
 *
 *   NCCL_SPINWIRE_REPORT=FILE (%p process, %h host)
 *   { schema, version, host, pid, communicators: [
 *     { id, seconds, threshold_ns, peers: [
 *       { peer, connections, sent, received, rails, latency, causes, worst } ] } ] }
 *
 * The file is written as a whole whenever a context ends: communicators that ended before are kept
 * as JSON in nnet_report_end, so the last file has all of them. Times are converted from ticks here
 * and nowhere before. Called by context.c with the context's lock, or when nobody uses the context
 * any more.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_file.h"
#include "base/spw_log.h"
#include "base/spw_text.h"
#include "ncclnet/report.h"

static json_t *json_number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

/* A name or a reason, which may have been cut inside a character: JSON would not have it. */
static json_t *json_text(const char *of)
{
	char shown[256];

	spw_text_show(of, shown, sizeof(shown));
	return json_string(shown);
}

/* ---- a peer ---- */

/* Returns: one stage's percentiles; null in place of those for which there were too few samples;
 * NULL without any sample. */
static json_t *json_row(const struct spw_hist *hist, const char *stage, const struct spw_tsc *tsc)
{
	struct spw_hist_summary sum;
	json_t *out;

	spw_hist_summary(hist, 0, &sum);
	if (!sum.count)
		return NULL;
	out = json_pack("{s:s,s:I}", "stage", stage, "count", (json_int_t)sum.count);
	for (int p = 0; p < SPW_HIST_POINT_CNT; p++) {
		char key[24];

		snprintf(key, sizeof(key), "%s_ns", spw_hist_point_name((enum spw_hist_point)p));
		json_object_set_new(out, key,
				    sum.answer[p] == SPW_HIST_VALUE
					    ? json_number(spw_tsc_to_ns(tsc, sum.value[p]))
					    : json_null());
	}
	return out;
}

static json_t *json_latency(const struct spw_stamps_rec *rec, const struct spw_tsc *tsc)
{
	json_t *rows = json_array();

	for (int s = 0; s < SPW_STAMPS_STAGE_CNT; s++) {
		json_t *one = json_row(&rec->stage[s],
				       spw_stamps_stage_name((enum spw_stamps_stage)s), tsc);

		if (one)
			json_array_append_new(rows, one);
	}
	return rows;
}

static json_t *json_causes(const struct spw_stamps_rec *rec, const struct spw_tsc *tsc)
{
	json_t *all = json_object();

	for (int c = 0; c < SPW_STAMPS_CAUSE_CNT; c++)
		if (rec->cause_cnt[c])
			json_object_set_new(
				all, spw_stamps_cause_name((enum spw_stamps_cause)c),
				json_pack("{s:I,s:I}", "messages", (json_int_t)rec->cause_cnt[c],
					  "max_ns",
					  (json_int_t)spw_tsc_to_ns(tsc, rec->cause_max[c])));
	return all;
}

/* One slow message: when it was sent after the start of the recording, how long it took, and how
 * much of that each cause is blamed for. */
static json_t *json_worst(const struct spw_stamps_slow *slow, const struct nnet_report *report)
{
	const struct spw_stamps_send *s = &slow->send;
	json_t *blame = json_object(), *rails = json_array();

	for (int c = 0; c < SPW_STAMPS_CAUSE_CNT; c++)
		if (slow->blame[c])
			json_object_set_new(
				blame, spw_stamps_cause_name((enum spw_stamps_cause)c),
				json_number(spw_tsc_to_ns(&report->tsc, slow->blame[c])));
	for (uint32_t i = 0; i < SPW_XFER_RAIL_MAX; i++)
		if (s->rails >> i & 1)
			json_array_append_new(rails, json_number(i));
	return json_pack("{s:I,s:I,s:I,s:s,s:o,s:o}", "at_ns",
			 (json_int_t)spw_tsc_to_ns(&report->tsc, s->started - report->start_tsc),
			 "bytes", (json_int_t)s->bytes, "whole_ns",
			 (json_int_t)spw_tsc_to_ns(&report->tsc, s->taken - s->started), "cause",
			 spw_stamps_cause_name(slow->cause), "blame_ns", blame, "rails", rails);
}

/* Sums over connections that ended; of the last one the reason why a rail was not up. */
static json_t *json_rails(const struct nnet_peer *peer)
{
	json_t *all = json_array();

	for (uint32_t i = 0; i < peer->rail_cnt; i++) {
		const struct spw_xfer_rail_stat *s = &peer->rail[i];

		json_array_append_new(
			all,
			json_pack("{s:o,s:I,s:I,s:I,s:I,s:I,s:o}", "device", json_text(s->device),
				  "tx_bytes", (json_int_t)s->tx_bytes, "tx_chunks",
				  (json_int_t)s->tx_chunks, "resent_chunks",
				  (json_int_t)s->resent_chunks, "outages", (json_int_t)s->outages,
				  "outage_ns", (json_int_t)s->outage_ns, "why", json_text(s->why)));
	}
	return all;
}

static json_t *peer_json(const struct nnet_peer *peer, const struct nnet_report *report)
{
	const struct spw_stamps_rec *rec = &peer->rec;
	json_t *slowest = json_array();

	for (uint32_t i = 0; i < rec->worst_cnt; i++)
		json_array_append_new(slowest, json_worst(&rec->worst[i], report));
	return json_pack("{s:s,s:I,s:{s:I,s:I},s:{s:I,s:I},s:o,s:o,s:o,s:o}", "peer", peer->addr,
			 "connections", (json_int_t)peer->conn_cnt, "sent", "messages",
			 (json_int_t)rec->send_cnt, "bytes", (json_int_t)rec->send_bytes,
			 "received", "messages", (json_int_t)rec->recv_cnt, "bytes",
			 (json_int_t)rec->recv_bytes, "rails", json_rails(peer), "latency",
			 json_latency(rec, &report->tsc), "causes", json_causes(rec, &report->tsc),
			 "worst", slowest);
}

/* ---- a communicator ---- */

/* The id is NCCL's, the same at every rank of the communicator; 0 for versions without one. */
static json_t *json_communicator(const struct nnet_ctx *ctx)
{
	const struct nnet_report *report = ctx->report;
	json_t *peers = json_array();
	char id[24];

	for (const struct nnet_peer *p = report->peers; p; p = p->next)
		json_array_append_new(peers, peer_json(p, report));
	snprintf(id, sizeof(id), "%#llx", (unsigned long long)ctx->comm_id);
	return json_pack(
		"{s:s,s:f,s:I,s:o}", "id", id, "seconds",
		(double)spw_tsc_to_ns(&report->tsc, spw_tsc_now() - report->start_tsc) / 1e9,
		"threshold_ns",
		(json_int_t)(report->peers
				     ? spw_tsc_to_ns(&report->tsc, report->peers->rec.slow_tsc)
				     : 0),
		"peers", peers);
}

/* ---- the file ---- */

/* %p is the process, %h the host. */
static void path_expand(const char *path, char *out, size_t bytes)
{
	char host[64] = "";
	size_t n = 0;

	gethostname(host, sizeof(host) - 1);
	for (const char *c = path; *c && n + 1 < bytes; c++) {
		if (c[0] == '%' && c[1] == 'p')
			n += (size_t)snprintf(out + n, bytes - n, "%d", (int)getpid());
		else if (c[0] == '%' && c[1] == 'h')
			n += (size_t)snprintf(out + n, bytes - n, "%s", host);
		else {
			out[n++] = *c;
			continue;
		}
		c++;
	}
	out[SPW_MIN(n, bytes - 1)] = '\0';
}

/* A report that cannot be written is a warning: it must not fail the program that NCCL serves. Mode
 * 0600, since it names the addresses of peers. */
static void write_file(const json_t *all)
{
	char path[512], host[64] = "";
	struct spw_file file;
	json_t *top;
	int rc;

	path_expand(getenv("NCCL_SPINWIRE_REPORT"), path, sizeof(path));
	rc = spw_file_begin(path, 0600, &file);
	if (rc) {
		spw_warn("report: %s (%%p in the name stands for the process)", spw_err_text());
		return;
	}
	gethostname(host, sizeof(host) - 1);
	top = json_pack("{s:s,s:s,s:o,s:I,s:O}", "schema", "spinwire.ncclnet/1", "version",
			SPW_VERSION, "host", json_text(host), "pid", (json_int_t)getpid(),
			"communicators", all);
	rc = !top ? ENOMEM : json_dumpfd(top, file.fd, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	json_decref(top);
	if (spw_file_end(&file, rc < 0 ? EIO : rc))
		spw_warn("report: %s", spw_err_text());
}

/* Idempotent: a context that was reported at exit is not reported again. */
void nnet_report_end(struct nnet_ctx *ctx)
{
	static json_t *all; /* under the lock of the process */
	struct nnet_peer *next;

	if (!ctx->report)
		return;
	for (struct nnet_comm *comm = ctx->comms; comm; comm = comm->next)
		nnet_report_conn_end(comm);
	if (!all)
		all = json_array();
	json_array_append_new(all, json_communicator(ctx));
	if (getenv("NCCL_SPINWIRE_REPORT"))
		write_file(all);
	for (struct nnet_peer *p = ctx->report->peers; p; p = next) {
		next = p->next;
		free(p);
	}
	free(ctx->report);
	ctx->report = NULL;
}
