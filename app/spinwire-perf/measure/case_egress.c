/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Egress: from the moment at which a message was due (open loop), or was posted (closed loop), to
 * the NIC's stamp of its send completion, over one rail. What the program, the doorbell and the
 * NIC's queue cost, without the wire and the other end.
 *
 *   client  pair clocks ─ closed loop ─ open loop ─ pair clocks        stamps become CPU ticks by
 *   NIC     clock ──────────●────●───────●●──●──────── clock            the line through both pairs
 *
 *   client   {"case", "rail", "seed"}   ->   server  opens a UD queue pair, posts receives
 *                                       <-           {"qpn", "gid"}
 *            sends                      ...          takes, compares
 *            {"do": "stop"}             ->
 *                                       <-           {"flow", "phy"}
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "base/spw_monotonic.h"
#include "measure/datagram.h"
#include "measure/open_loop.h"
#include "result/phy.h"
#include "session.h"

#define ANSWER_MS     30000u
#define SAMPLE_MAX    65536u
#define GAP_CLOSED    8u /* mean gap of the open loop, in times of the closed one */
#define STUCK_NS      5000000000ull
#define QUIET_NS      50000000ull /* after the last message nothing more is under way */
#define CLOCK_NS      300000000ull
#define CLOCK_GOOD_NS 2000u  /* no need to read again */
#define CLOCK_MAX_NS  20000u /* more says little about a NIC's queue */
#define LOOK_MASK     255u
#define RANDOM_SEED   0x2545f4914f6cdd1dull

struct sample {
	uint64_t due, stamp; /* ticks of the CPU; of the NIC */
};

/* The two clocks at one moment, and by how much that may be wrong. */
struct clock_pair {
	uint64_t nic, tsc, unc_ns;
};

/* One row at the client; too large for a stack, so it is allocated. */
struct egress {
	struct perf_datagram d;
	const struct spw_tsc *tsc;
	struct sample *sample; /* [SAMPLE_MAX] */
	uint64_t posted, stamped;
};

/* Completions of one QP come in the order of its sends, so a stamp belongs to the oldest sample
 * without one. */
static int egress_stamps_take(struct egress *e)
{
	uint64_t stamp[PERF_DATAGRAM_AHEAD];
	int cnt = perf_datagram_sent(&e->d, stamp);

	for (int i = 0; i < cnt; i++)
		e->sample[e->stamped++].stamp = stamp[i];
	if (cnt == 0)
		sched_yield();
	return cnt;
}

/* The sample is noted only if the send was taken: after -EAGAIN the caller tries again with the
 * same due time. */
static int egress_post_due(struct egress *e, uint64_t due)
{
	int rc = perf_datagram_post(&e->d);

	if (rc == 0)
		e->sample[e->posted++].due = due;
	return rc;
}

/* Waits until every send has its stamp; the open loop begins and ends with an empty queue. */
static int egress_settle(struct egress *e)
{
	uint64_t last_ns = spw_monotonic_ns(), spent_ns = 0;
	int rc = 0;

	while (rc >= 0 && e->stamped != e->posted) {
		rc = egress_stamps_take(e);
		spent_ns += perf_ran_ns(&last_ns);
		if (rc == 0 && spent_ns > STUCK_NS)
			rc = spw_err(ETIMEDOUT, "%s: a datagram was not sent in 5 s",
				     e->d.dev.name);
	}
	return SPW_MIN(rc, 0);
}

/* Gives the mean time of one message, in ticks: the open loop takes its gap from it. */
static int egress_closed_loop(struct egress *e, uint32_t ms, uint64_t *each_out)
{
	uint64_t start = spw_tsc_now(), span = spw_tsc_from_ns(e->tsc, ms * 1000000ull);
	int rc = 0;

	while (rc == 0 && e->posted < SAMPLE_MAX / 2 &&
	       (spw_tsc_now() - start < span || e->posted < 3))
		if ((rc = egress_post_due(e, spw_tsc_now())) == 0)
			rc = egress_settle(e);
	*each_out = (spw_tsc_now() - start) / SPW_MAX(e->posted, 1ull);
	return rc;
}

/* Due times do not depend on what the NIC does: a message that cannot be posted in time counts
 * from when it was due. */
static int egress_open_loop(struct egress *e, double gap, uint32_t ms)
{
	uint64_t start = spw_tsc_now(), span = spw_tsc_from_ns(e->tsc, ms * 1000000ull);
	uint64_t random = RANDOM_SEED;
	double at = 0;
	int rc = 0;

	while (rc >= 0 && at < (double)span && e->posted < SAMPLE_MAX) {
		if ((double)(spw_tsc_now() - start) >= at &&
		    (rc = egress_post_due(e, start + (uint64_t)at)) == 0)
			at += gap * perf_exponential(&random);
		if (rc == 0 || rc == -EAGAIN)
			rc = egress_stamps_take(e);
	}
	return rc < 0 ? rc : egress_settle(e);
}

/* A software device shows its clock now and then only, when it naps: the best of some readings. */
static int egress_clocks_run(struct egress *e, struct clock_pair *pair)
{
	uint64_t start = spw_monotonic_ns();
	struct clock_pair now;
	int rc = -ETIME, again;

	pair->unc_ns = UINT64_MAX;
	do {
		again = rdma_dev_pair_clock(&e->d.dev, &now.nic, &now.tsc, &now.unc_ns);
		if (again == 0 && now.unc_ns < pair->unc_ns)
			*pair = now;
		rc = again == 0 ? 0 : rc;
	} while ((again == 0 || again == -ETIME) && pair->unc_ns > CLOCK_GOOD_NS &&
		 spw_monotonic_ns() - start < CLOCK_NS);
	return rc ? again : 0;
}

/* What passed between due and stamp, of samples [from, to), as a histogram. */
static int egress_summarise(const struct egress *e, const struct clock_pair pair[2],
			    const uint64_t at[2], struct spw_hist_summary *out)
{
	double slope = (double)(pair[1].tsc - pair[0].tsc) / (double)(pair[1].nic - pair[0].nic);
	struct spw_hist *hist = aligned_alloc(SPW_CACHE_LINE, sizeof(*hist));

	if (!hist)
		return spw_err(ENOMEM, "no memory for a histogram");
	memset(hist, 0, sizeof(*hist));
	for (uint64_t i = at[0]; i < at[1]; i++) {
		const struct sample *s = &e->sample[i];
		double tsc = slope * (double)(int64_t)(s->stamp - pair[0].nic);
		double ticks = tsc - (double)(int64_t)(s->due - pair[0].tsc);

		if (s->stamp < pair[0].nic || s->stamp > pair[1].nic) {
			free(hist);
			return spw_err(ENOTSUP,
				       "%s: its stamps are not of the clock that it lets read",
				       e->d.dev.name);
		}
		spw_hist_record(hist, ticks > 0 ? spw_tsc_to_ns(e->tsc, (uint64_t)ticks) : 0, 1);
	}
	spw_hist_summary(hist, 0, out);
	free(hist);
	return 0;
}

/* The clocks are paired before the first and after the last message, so that every stamp lies
 * between two readings and is interpolated, never extrapolated. */
static int egress_measure(struct egress *e, struct perf_result *result)
{
	const struct perf_case *what = &result->what;
	uint64_t cpu = perf_cpu_ns(), start = spw_monotonic_ns(), each = 0, closed, unc_ns;
	struct clock_pair pair[2];
	int rc = egress_clocks_run(e, &pair[0]);

	rc = rc ? rc : egress_closed_loop(e, what->ms / 3, &each);
	closed = e->posted;
	rc = rc ? rc : egress_open_loop(e, (double)(GAP_CLOSED * each), what->ms - what->ms / 3);
	result->own = (struct perf_flow){.messages = e->posted,
					 .bytes = e->posted * what->bytes,
					 .total = e->posted,
					 .ns = spw_monotonic_ns() - start,
					 .cpu_ns = perf_cpu_ns() - cpu};
	rc = rc ? rc : egress_clocks_run(e, &pair[1]);
	rc = rc ? rc : egress_summarise(e, pair, (uint64_t[]){0, closed}, &result->lat.closed);
	rc = rc ? rc
		: egress_summarise(e, pair, (uint64_t[]){closed, e->posted}, &result->lat.open);
	if (rc < 0)
		return rc;
	unc_ns = SPW_MAX(pair[0].unc_ns, pair[1].unc_ns);
	if (unc_ns > CLOCK_MAX_NS)
		perf_mark(result, PERF_UNVERIFIED, "the clocks of NIC and CPU agree within %llu us",
			  (unsigned long long)(unc_ns / 1000));
	result->lat.interval_ns = spw_tsc_to_ns(e->tsc, GAP_CLOSED * each);
	result->lat.intended = e->posted - closed;
	snprintf(result->path, sizeof(result->path), "clocks within %llu ns",
		 (unsigned long long)unc_ns);
	return 0;
}

/* ---- the client's end ---- */

/* Egress rows are of one rail: its number is the mask's only bit. */
static const struct perf_rail *egress_rail_of(const struct perf_session *s,
					      const struct perf_case *what)
{
	return &s->rails.rail[__builtin_ctz(what->rails)];
}

/* The PHY counters of both ends are compared after the server has stopped: by then all that will
 * arrive has. */
static int egress_finish(struct perf_session *s, const struct perf_phy *before,
			 struct perf_result *result)
{
	const char *device = egress_rail_of(s, &result->what)->own->rdma;
	struct perf_phy own, peer;
	json_t *answer = NULL;
	int rc = perf_ask(s, json_pack("{s:s}", "do", "stop"), ANSWER_MS, &answer);

	if (rc < 0)
		return rc;
	perf_phy_since(&s->own, device, before, &own);
	rc = perf_flow_parse(json_object_get(answer, "flow"), &result->peer);
	rc = rc ? rc : perf_phy_parse(json_object_get(answer, "phy"), &peer);
	json_decref(answer);
	if (rc == 0 && result->peer.total == 0)
		perf_mark(result, PERF_INVALID, "none of %llu datagrams arrived",
			  (unsigned long long)result->own.total);
	if (rc == 0)
		perf_phy_judge(&own, &peer, result);
	return rc;
}

/* Whatever fails after the request ends with an abort, so that the server does not wait for
 * datagrams. */
int perf_egress_client(struct perf_session *s, struct perf_result *result)
{
	const struct perf_case *what = &result->what;
	const struct perf_rail *rail = egress_rail_of(s, what);
	struct egress *e = calloc(1, sizeof(*e));
	struct perf_phy before;
	json_t *answer = NULL;
	int rc;

	if (!e || !(e->sample = calloc(SAMPLE_MAX, sizeof(*e->sample)))) {
		free(e);
		return spw_err(ENOMEM, "no memory for samples");
	}
	e->tsc = &s->tsc;
	perf_phy_read(&s->own, rail->own->rdma, &before);
	rc = perf_ask(s,
		      json_pack("{s:o,s:s,s:I}", "case", perf_case_json(what), "rail",
				rail->peer->rdma, "seed", (json_int_t)s->serial),
		      ANSWER_MS, &answer);
	if (rc == 0) {
		rc = perf_datagram_open(rail->own->rdma, (uint32_t)what->bytes, s->serial, &e->d);
		rc = rc ? rc : perf_datagram_reach(&e->d, answer);
		rc = rc ? rc : egress_measure(e, result);
		rc = rc ? rc : egress_finish(s, &before, result);
		json_decref(answer);
		rc = rc ? perf_ctl_give_up(&s->ctl, rc) : 0;
	}
	perf_datagram_close(&e->d);
	free(e->sample);
	free(e);
	return rc;
}

/* ---- the server's end ---- */

/* Until the client has something to say, and then until nothing more comes. */
static int egress_take_all(struct perf_session *s, struct perf_datagram *d, uint64_t seed)
{
	uint64_t last_ns = 0, quiet_ns = 0;
	uint32_t turn = 0;
	int rc = 0;

	while (rc >= 0) {
		rc = perf_datagram_take(d, seed);
		if (rc != 0)
			continue;
		perf_lane_idle(&s->lane);
		if ((++turn & LOOK_MASK) || !perf_ctl_pending(&s->ctl))
			continue;
		if (!last_ns)
			last_ns = spw_monotonic_ns();
		quiet_ns += perf_ran_ns(&last_ns);
		if (quiet_ns > QUIET_NS)
			break;
	}
	return SPW_MIN(rc, 0);
}

/* Answers the order that ended the flow; status: how the flow went. */
static int egress_stopped(struct perf_session *s, int status, const struct perf_datagram *d,
			  json_t *phy_moved)
{
	struct perf_flow flow = {
		.messages = d->came, .bytes = d->came * d->bytes, .total = d->came};
	json_t *answer = json_pack("{s:o,s:o}", "flow", perf_flow_json(&flow), "phy", phy_moved);
	json_t *msg = NULL;
	int rc = perf_ctl_recv(&s->ctl, ANSWER_MS, &msg);
	const char *order = json_string_value(json_object_get(msg, "do"));

	if (rc == 0 && (!order || strcmp(order, "stop")))
		rc = perf_ctl_send(&s->ctl, json_pack("{s:b}", "aborted", 1));
	else if (rc == 0 && status < 0)
		rc = perf_ctl_error(&s->ctl, status);
	else if (rc == 0)
		rc = perf_ctl_send(&s->ctl, json_incref(answer));
	json_decref(answer);
	json_decref(msg);
	return rc;
}

/* Answers exactly one message for each order, also after an error: the client waits for it. */
int perf_egress_server(struct perf_session *s, const struct perf_case *what, const json_t *request)
{
	struct perf_datagram *d = calloc(1, sizeof(*d));
	struct perf_phy before, moved;
	char device[32];
	uint64_t seed;
	int rc = d ? perf_number(request, "seed", INT64_MAX, &seed) : spw_err(ENOMEM, "no memory");

	perf_text(request, "rail", device, sizeof(device));
	perf_phy_read(&s->own, device, &before);
	/* Beyond any MTU; the length is cut to 32 bits below. */
	if (rc == 0 && what->bytes > UINT16_MAX)
		rc = spw_err(EPROTO, "a datagram of %llu bytes", (unsigned long long)what->bytes);
	if (rc == 0 && (rc = perf_datagram_open(device, (uint32_t)what->bytes, seed, d)) == 0)
		rc = perf_datagram_listen(d);
	if (rc < 0) {
		rc = perf_ctl_error(&s->ctl, rc);
	} else if ((rc = perf_ctl_send(&s->ctl, perf_datagram_json(d))) == 0) {
		rc = egress_take_all(s, d, seed);
		perf_phy_since(&s->own, device, &before, &moved);
		if (rc == 0 && d->wrong)
			rc = spw_err(EBADMSG, "a datagram carried wrong bytes");
		rc = egress_stopped(s, rc, d, perf_phy_json(&moved));
	}
	if (d)
		perf_datagram_close(d);
	free(d);
	return rc;
}
