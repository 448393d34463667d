/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Tests of rules.c about connections: their rails and ports at both ends, and connections that are
 * not made.
 *
 * Called by hang_rules_ask through the table of rules.c. A test may write evidence and then say no:
 * nobody reads it.
 */
#include <stdio.h>
#include <string.h>

#include "hang/rules.h"

#define LAST    (SPW_HANG_SNAP_CNT - 1)
#define SLOW_OF 4 /* a rail is slow that lacks one part in so many of its share */

/* ---- network ---- */

/* A rail and its port in each snapshot; NULL where there was none. */
struct rail {
	const struct spw_hang_rail_row *row[SPW_HANG_SNAP_CNT];
	const struct spw_hang_port_row *port[SPW_HANG_SNAP_CNT];
};

/* Rail `at` of a connection, in all snapshots; false: not known in one. */
static bool rail_find(const struct hang_graph *g, const struct hang_conn *conn, int64_t at,
		      struct rail *rail_out)
{
	bool found = true;

	for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT; s++) {
		const struct spw_hang_snap *snap = hang_snap(g, conn->rank, s);

		rail_out->row[s] = hang_rail_find(snap, g->rank[conn->rank].pid,
						  conn->row[LAST]->entry.value, at);
		rail_out->port[s] =
			rail_out->row[s] ? hang_port_find(snap, rail_out->row[s]->device) : NULL;
		found = found && rail_out->row[s];
	}
	return found;
}

/* A port's link; what sysfs says of it. */
static enum hang_tri port_down(const struct spw_hang_port_row *port)
{
	if (!port || (!port->state[0] && !port->carrier.known))
		return HANG_UNKNOWN;
	if ((port->state[0] && strcmp(port->state, "ACTIVE")) ||
	    hang_is(port->carrier, 0) == HANG_YES)
		return HANG_YES;
	return HANG_NO;
}

/* Down in both of the last snapshots, so that a link that comes back is not blamed. */
static enum hang_tri rail_link(const struct hang_sink *sink, const struct rail *rail)
{
	const enum hang_tri down = hang_and(port_down(rail->port[1]), port_down(rail->port[LAST]));

	if (down == HANG_YES)
		snprintf(sink->evidence, sink->room, "%s: port %s, carrier %ld; rail %ld is %s",
			 rail->row[LAST]->device, rail->port[LAST]->state,
			 rail->port[LAST]->carrier.known ? (long)rail->port[LAST]->carrier.value
							 : -1L,
			 (long)rail->row[LAST]->rail.value, rail->row[LAST]->state);
	return down;
}

/* Texts of lib/xfer for a rail whose packets are not acknowledged, and for its other end. */
static bool why_is_loss(const char *why)
{
	return strstr(why, "retry counter exceeded") || strstr(why, "probe was not answered");
}

/* What the other end of such a rail says: nothing, that this end left, or the same. */
static bool why_is_end(const char *why)
{
	return !why[0] || strstr(why, "the peer took it out of service") || why_is_loss(why);
}

static bool why_is_error(const char *why)
{
	return !why_is_end(why);
}

/* The last snapshot in which a rail that is down said so: a rail that is tried again and again
 * forgets its first reason. NULL: none, or it is up. */
static const struct spw_hang_rail_row *rail_why_find(const struct rail *rail,
						     bool (*is)(const char *))
{
	for (uint32_t s = SPW_HANG_SNAP_CNT; s-- > 0 && strcmp(rail->row[LAST]->state, "up");)
		if (strcmp(rail->row[s]->state, "up") && is(rail->row[s]->why))
			return rail->row[s];
	return NULL;
}

/* Bytes that stand still, and a counter of losses that moves, on either end. Counters alone prove
 * nothing: they move on a healthy link too. */
static enum hang_tri rail_counts(const struct rail *rail)
{
	const struct spw_hang_port_row *a = rail->port[1], *b = rail->port[LAST];

	if (!a || !b)
		return HANG_UNKNOWN;
	return hang_or(hang_or(hang_changed(a->packet_seq_err, b->packet_seq_err),
			       hang_changed(a->local_ack_timeout_err, b->local_ack_timeout_err)),
		       hang_changed(a->out_of_sequence, b->out_of_sequence));
}

/* A rail that is up needs bytes that stand still; one that was left says itself why. */
static enum hang_tri rail_loss(const struct hang_sink *sink, const struct rail *rail)
{
	const struct spw_hang_rail_row *row = rail->row[LAST],
				       *left = rail_why_find(rail, why_is_loss);
	enum hang_tri stays, lost;

	if (left)
		snprintf(sink->evidence, sink->room, "%s: rail %ld is down: %s", row->device,
			 (long)row->rail.value, left->why);
	if (strcmp(row->state, "up"))
		return left ? HANG_YES : HANG_NO;
	stays = hang_and(hang_not(hang_changed(rail->row[1]->acked_bytes, row->acked_bytes)),
			 !row->open_bytes.known      ? HANG_UNKNOWN
			 : row->open_bytes.value > 0 ? HANG_YES
						     : HANG_NO);
	lost = hang_and(stays, rail_counts(rail));
	if (lost == HANG_YES)
		snprintf(sink->evidence, sink->room,
			 "%s: %ld bytes of rail %ld are not acknowledged, and its loss counters "
			 "move",
			 row->device, (long)row->open_bytes.value, (long)row->rail.value);
	return lost;
}

static bool qp_is_in_error(const struct spw_hang_qp_row *qp)
{
	return !strcmp(qp->state, "ERR") || !strcmp(qp->state, "SQE");
}

/* By netlink, or by why lib/xfer left the rail: any status of a completion but the one of a loss.
 */
static enum hang_tri rail_qp(const struct hang_sink *sink, const struct rail *rail)
{
	const struct spw_hang_rail_row *row = rail->row[LAST], *failed;
	const struct spw_hang_snap *snap = hang_snap(sink->g, sink->rank, LAST);

	for (uint32_t i = 0; i < snap->qp_cnt; i++)
		if (!strcmp(snap->qp[i].device, row->device) && row->qpn.known &&
		    hang_is(snap->qp[i].qpn, row->qpn.value) == HANG_YES &&
		    qp_is_in_error(&snap->qp[i])) {
			snprintf(sink->evidence, sink->room, "%s: QP %ld is in state %s",
				 row->device, (long)row->qpn.value, snap->qp[i].state);
			return HANG_YES;
		}
	failed = rail_why_find(rail, why_is_error);
	if (failed)
		snprintf(sink->evidence, sink->room, "%s: rail %ld is down: %s", row->device,
			 (long)row->rail.value, failed->why);
	return failed ? HANG_YES : HANG_NO;
}

/* Whether a rail of that connection is up. */
static bool rails_are_up(const struct hang_graph *g, const struct hang_conn *conn)
{
	const struct spw_hang_snap *snap = hang_snap(g, conn->rank, LAST);

	for (uint32_t i = 0; i < snap->rail_cnt; i++)
		if (hang_rail_is_of(&snap->rail[i], conn->row[LAST]) &&
		    !strcmp(snap->rail[i].state, "up"))
			return true;
	return false;
}

/* A test of each rail at both ends; one that holds is enough. A rail that is down explains nothing
 * where another is up and stands still. */
static enum hang_tri rails_ask(const struct hang_sink *sink,
			       enum hang_tri (*test)(const struct hang_sink *, const struct rail *))
{
	const struct hang_graph *g = sink->g;
	const struct hang_conn *end[2] = {&g->conn[sink->conn], NULL};
	enum hang_tri any = HANG_NO;

	if (end[0]->peer != HANG_NONE)
		end[1] = &g->conn[end[0]->peer];
	for (uint32_t e = 0; e < 2; e++) {
		const struct spw_hang_snap *snap;
		uint32_t found = 0;
		bool up;

		if (!end[e] || !end[e]->row[LAST])
			return HANG_UNKNOWN;
		snap = hang_snap(g, end[e]->rank, LAST);
		up = !g->rank[end[e]->rank].moves && rails_are_up(g, end[e]);
		for (uint32_t i = 0; i < snap->rail_cnt; i++) {
			struct hang_sink at = *sink;
			enum hang_tri holds = HANG_UNKNOWN;
			struct rail rail;

			if (!hang_rail_is_of(&snap->rail[i], end[e]->row[LAST]))
				continue;
			found++;
			if (up && strcmp(snap->rail[i].state, "up"))
				continue;
			at.rank = end[e]->rank;
			if (rail_find(g, end[e], snap->rail[i].rail.value, &rail))
				holds = test(&at, &rail);
			if (holds == HANG_YES && sink->who)
				*sink->who = at.rank;
			if (holds == HANG_YES)
				return HANG_YES;
			any = hang_or(any, holds);
		}
		any = found ? any : HANG_UNKNOWN;
	}
	return any;
}

enum hang_tri hang_test_link(const struct hang_sink *sink)
{
	return rails_ask(sink, rail_link);
}

/* A rail that left for lack of acknowledgements is a loss only if neither end has an error of its
 * own: the QP that does not answer may be in error at the other end. Where packets are lost between
 * two ports is not known: the sender is named. */
enum hang_tri hang_test_loss(const struct hang_sink *sink)
{
	char loss[320];
	struct hang_sink at = *sink;

	at.evidence = loss;
	at.room = sizeof(loss);
	at.who = NULL;
	if (rails_ask(&at, rail_qp) == HANG_YES)
		return HANG_NO;
	at.evidence = sink->evidence;
	at.room = sink->room;
	return rails_ask(&at, rail_loss);
}

enum hang_tri hang_test_qp(const struct hang_sink *sink)
{
	return rails_ask(sink, rail_qp);
}

/* Of a connection that moves: a rail that has chunks under way in each snapshot and moved less than
 * three quarters of what its port's rate is of all rails' rates. A message waits for its slowest
 * rail, so rails of one speed move alike. */
enum hang_tri hang_test_slow_rail(const struct hang_sink *sink)
{
	const struct hang_graph *g = sink->g;
	const struct hang_conn *conn = &g->conn[sink->conn];
	int64_t moved[4] = {0}, mbps[4] = {0}, sum = 0, rates = 0;

	for (int64_t r = 0; r < 4; r++) {
		struct rail rail;

		if (!rail_find(g, conn, r, &rail))
			continue;
		if (!rail.row[1]->acked_bytes.known || !rail.row[LAST]->acked_bytes.known ||
		    !rail.row[LAST]->mbps.known)
			return HANG_UNKNOWN;
		moved[r] = rail.row[LAST]->acked_bytes.value - rail.row[1]->acked_bytes.value;
		mbps[r] = SPW_MAX(rail.row[LAST]->mbps.value, 0);
		sum += moved[r];
		rates += mbps[r];
	}
	for (int64_t r = 0; r < 4 && sum >= 16 << 20 && rates > 0; r++) {
		struct rail rail;
		bool busy = mbps[r] > 0 && rail_find(g, conn, r, &rail);
		const int64_t share = sum / rates * mbps[r];

		for (uint32_t s = 0; s < SPW_HANG_SNAP_CNT && busy; s++)
			busy = rail.row[s]->open_bytes.known && rail.row[s]->open_bytes.value > 0;
		if (!busy || moved[r] >= share - share / SLOW_OF)
			continue;
		snprintf(sink->evidence, sink->room,
			 "%s: rail %ld moved %ld of %ld MB in 4.5 s, its share is %ld",
			 rail.row[LAST]->device, (long)r, (long)(moved[r] / 1000000),
			 (long)(sum / 1000000), (long)(share / 1000000));
		return HANG_YES;
	}
	return HANG_NO;
}

bool hang_conn_limps(const struct hang_graph *g, const struct hang_conn *conn)
{
	const struct spw_hang_snap *was = hang_snap(g, conn->rank, 1);
	const struct spw_hang_snap *is = hang_snap(g, conn->rank, LAST);

	for (uint32_t i = 0; i < is->rail_cnt; i++) {
		const struct spw_hang_rail_row *rail = &is->rail[i], *before;

		if (!hang_rail_is_of(rail, conn->row[LAST]) || strcmp(rail->state, "trying"))
			continue;
		before = hang_rail_find(was, rail->pid.value, rail->entry.value, rail->rail.value);
		if (before && !strcmp(before->state, "trying"))
			return true;
	}
	return false;
}

/* ---- start, and jobs without pages ---- */

const struct hang_conn *hang_listener_find(const struct hang_graph *g, const char *peer)
{
	for (uint32_t i = 0; i < g->conn_cnt; i++) {
		const struct spw_hang_conn_row *row = g->conn[i].row[LAST];
		const size_t n = row ? strlen(row->peer) : 0;

		/* "192.0.2.2:7000", and on the page of who dials perhaps ": why" behind it */
		if (n && !strcmp(row->state, "listening") && !strncmp(row->peer, peer, n) &&
		    (!peer[n] || peer[n] == ':'))
			return &g->conn[i];
	}
	return NULL;
}

/* Whether a first packet to that address is not answered. */
static enum hang_tri start_dials(const struct hang_sink *sink, const char *peer)
{
	const struct spw_hang_snap *snap = hang_snap(sink->g, sink->rank, LAST);

	for (uint32_t i = 0; i < snap->dial_cnt; i++)
		if (hang_is(snap->dial[i].pid, sink->g->rank[sink->rank].pid) == HANG_YES &&
		    !strncmp(snap->dial[i].remote, peer, strlen(snap->dial[i].remote)))
			return HANG_YES;
	return HANG_UNKNOWN;
}

/* If the rank that listens there asks for a connection, none reaches it; else it has not come. The
 * side that listens cannot say who should have come. */
enum hang_tri hang_test_start(const struct hang_sink *sink)
{
	const struct spw_hang_conn_row *row = sink->g->conn[sink->conn].row[LAST];
	const long since = row->state_ns.known ? (long)(row->state_ns.value / 1000000000) : -1L;
	const struct hang_conn *to = hang_listener_find(sink->g, row->peer);
	enum hang_tri asks = HANG_UNKNOWN;

	if (to && to->row[1])
		asks = hang_changed(to->row[1]->calls, to->row[LAST]->calls);
	if (asks == HANG_NO && sink->who) {
		*sink->who = to->rank;
		snprintf(sink->evidence, sink->room,
			 "it listens at %s and accepts nothing; rank %ld has been connecting for "
			 "%ld s",
			 to->row[LAST]->peer, (long)sink->g->rank[sink->rank].rank, since);
		return HANG_YES;
	}
	snprintf(sink->evidence, sink->room, "it has been %s for %ld s; the other end is %s",
		 row->state, since, row->peer[0] ? row->peer : "not known");
	return to ? asks : start_dials(sink, row->peer);
}

/* The same connection for 5 s: its first packet is dropped, or nobody is there. */
enum hang_tri hang_test_dial(const struct hang_sink *sink)
{
	const struct spw_hang_snap *first = hang_snap(sink->g, sink->rank, 0);
	const struct spw_hang_snap *last = hang_snap(sink->g, sink->rank, LAST);
	const int64_t pid = sink->g->rank[sink->rank].pid;

	for (uint32_t i = 0; i < last->dial_cnt; i++)
		for (uint32_t j = 0; j < first->dial_cnt; j++)
			if (hang_is(last->dial[i].pid, pid) == HANG_YES &&
			    hang_is(first->dial[j].pid, pid) == HANG_YES &&
			    !strcmp(last->dial[i].local, first->dial[j].local) &&
			    !strcmp(last->dial[i].remote, first->dial[j].remote)) {
				snprintf(sink->evidence, sink->room,
					 "its TCP connection from %s to %s gets no answer (%s)",
					 last->dial[i].local, last->dial[i].remote,
					 last->dial[i].state);
				return HANG_YES;
			}
	return HANG_NO;
}

/* QPs of this process by netlink, each with its port. */
static enum hang_tri bare_qps(const struct hang_sink *sink, bool link)
{
	const struct spw_hang_snap *snap = hang_snap(sink->g, sink->rank, LAST);
	enum hang_tri any = snap->why[SPW_HANG_SOURCE_qp][0] ? HANG_UNKNOWN : HANG_NO;

	for (uint32_t i = 0; i < snap->qp_cnt; i++) {
		const struct spw_hang_qp_row *qp = &snap->qp[i];
		const enum hang_tri down = port_down(hang_port_find(snap, qp->device));
		const enum hang_tri holds = link ? down : qp_is_in_error(qp) ? HANG_YES : HANG_NO;

		if (hang_is(qp->pid, sink->g->rank[sink->rank].pid) != HANG_YES)
			continue;
		if (holds == HANG_YES) {
			snprintf(sink->evidence, sink->room, "%s: QP %ld is in state %s%s",
				 qp->device, (long)qp->qpn.value, qp->state,
				 link ? ", and its port is down" : "");
			return HANG_YES;
		}
		any = hang_or(any, holds);
	}
	return any;
}

enum hang_tri hang_test_bare_link(const struct hang_sink *sink)
{
	return bare_qps(sink, true);
}

enum hang_tri hang_test_bare_qp(const struct hang_sink *sink)
{
	return bare_qps(sink, false);
}
