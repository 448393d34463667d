/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which function faces which, where the subnets leave it open: lib/xfer brings up a connection over
 * all functions that come into question, and its probes decide. client.c calls this once, before
 * the plan is made, so that rows of one rail take functions that do face each other.
 */
#include <stdio.h>
#include <string.h>

#include "base/spw_monotonic.h"
#include "session.h"

#define PROVE_MS 5000u /* for every rail to come up; reached only if a cable leads elsewhere */
#define ORDER_MS 30000u

static void candidates_text(const struct perf_nic *const *nic, uint32_t cnt, char *out,
			    size_t bytes)
{
	size_t used = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < cnt && used < bytes; i++)
		used += (size_t)snprintf(out + used, bytes - used, "%s%s", i ? "+" : "",
					 nic[i]->rdma);
}

static bool all_are_up(const struct spw_xfer_conn *conn)
{
	struct spw_xfer_rail_stat stat;

	for (uint32_t i = 0; spw_xfer_conn_rail_stat(conn, i, &stat); i++)
		if (stat.state != SPW_XFER_RAIL_UP)
			return false;
	return true;
}

/* The other end advances the connection too, until the order to stop. */
static int prove_wait(struct perf_session *s)
{
	const uint64_t deadline_ns = spw_monotonic_ns() + PROVE_MS * 1000000ull;
	int rc = perf_ask(s, perf_xfer_order("run", 0, 0), ORDER_MS, NULL);

	while (rc == 0 && !all_are_up(s->lane.conn) && spw_monotonic_ns() < deadline_ns) {
		spw_xfer_progress(s->lane.x);
		perf_lane_idle(&s->lane);
	}
	return rc ? rc : perf_ask(s, perf_xfer_order("stop", 0, 0), ORDER_MS, NULL);
}

/* Rails that are not up stay without a peer. */
static void prove_read(const struct spw_xfer_conn *conn, const struct perf_nic *const *peer,
		       uint32_t peer_cnt, struct perf_facing *facing)
{
	struct spw_xfer_rail_stat stat;

	for (uint32_t k = 0; spw_xfer_conn_rail_stat(conn, k, &stat); k++)
		for (uint32_t i = 0; i < facing->cnt; i++)
			if (stat.state == SPW_XFER_RAIL_UP && stat.peer_idx < peer_cnt &&
			    !strcmp(stat.device, facing->own[i]->rdma))
				facing->peer[i] = peer[stat.peer_idx];
}

/* A connection that does not come up is no error here: the rows over these rails say so. */
int perf_prove(struct perf_session *s, struct perf_facing *facing_out)
{
	const struct perf_case what = {
		.op = PERF_WRITE, .bytes = 8, .rails = 1, .streams = 1, .ms = 1};
	char own[sizeof(s->lane.rails)], theirs[sizeof(s->lane.rails)];
	const struct perf_nic *peer[PERF_RAIL_MAX]; /* lib/xfer numbers them in this order */
	uint32_t own_cnt, peer_cnt;
	int rc;

	memset(facing_out, 0, sizeof(*facing_out));
	own_cnt = perf_pair_candidates(&s->own, &s->peer, facing_out->own);
	peer_cnt = perf_pair_candidates(&s->peer, &s->own, peer);
	candidates_text(facing_out->own, own_cnt, own, sizeof(own));
	candidates_text(peer, peer_cnt, theirs, sizeof(theirs));
	rc = perf_lane_client(&s->lane, &s->ctl, &what, own, theirs);
	if (rc < 0)
		return s->ctl.fd < 0 ? rc : 0;
	if ((rc = prove_wait(s)) == 0) {
		facing_out->cnt = own_cnt;
		prove_read(s->lane.conn, peer, peer_cnt, facing_out);
		return perf_ask(s, perf_xfer_order("end", 0, 0), ORDER_MS, NULL);
	}
	rc = perf_lane_give_up(&s->lane, &s->ctl, rc);
	return s->ctl.fd < 0 ? rc : 0;
}
