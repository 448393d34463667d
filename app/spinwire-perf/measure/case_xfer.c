/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * One case over a lane. The client gives orders, one answer each:
 *
 *   prepare   fill slots of the source with a pattern, clear the destination
 *   one       take a message of its own into slot 0 (SEND)
 *   verify    compare slots with the pattern of the other end
 *   run       be the other end of the timed part; answered at once
 *   stop      end of it; answered with the flow and what the PHY counters moved by
 *   end, abort
 *
 * prepare, one, verify │ prepare, run ... stop, verify │ prepare, one, verify, end
 *   the first message  │           timed               │   the last message
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_err.h"
#include "measure/bytes.h"
#include "measure/echo.h"
#include "result/phy.h"
#include "measure/pump.h"
#include "session.h"

#define ORDER_MS  30000u
#define FLAG_LOG2 32u

/* For all cases, not this one alone: session.h declares it. */
int perf_ask(struct perf_session *s, json_t *json, uint32_t timeout_ms, json_t **answer_out)
{
	json_t *answer = NULL;
	int rc = perf_ctl_send(&s->ctl, json);

	if (rc == 0)
		rc = perf_ctl_recv(&s->ctl, timeout_ms, &answer);
	if (rc == 0 && answer_out)
		*answer_out = answer;
	else if (rc == 0)
		json_decref(answer);
	return rc;
}

/* ---- bytes ---- */

/* What an end sends has this seed. */
static uint64_t seed_of(uint64_t seed, bool of_server)
{
	return of_server ? ~seed : seed;
}

/* ---- the client's end ---- */

/* One form for all orders; a field that an order does not use is 0. */
json_t *perf_xfer_order(const char *name, uint64_t seed, uint64_t slots)
{
	return json_pack("{s:s,s:I,s:I}", "do", name, "seed", (json_int_t)seed, "slots",
			 (json_int_t)slots);
}

/* Whether this end, or the other one, gets messages of this case. */
static bool arrives_here(const struct perf_case *what)
{
	return what->both || what->op == PERF_READ || what->latency;
}

static bool arrives_there(const struct perf_case *what)
{
	return what->both || what->op != PERF_READ;
}

/* Both ends are ready when this returns: no message may arrive in a destination that is cleared
 * afterwards. */
static int prepare_both(struct perf_session *s, const struct perf_case *what, uint64_t seed,
			uint32_t slots)
{
	int rc = perf_bytes_prepare(&s->lane, what, seed_of(seed, false), slots);

	if (rc < 0)
		return rc;
	return perf_ask(s, perf_xfer_order("prepare", seed, slots), ORDER_MS, NULL);
}

/* One message outside of the timed part, every byte of it compared. */
static int xfer_measure_one(struct perf_session *s, const struct perf_case *what, uint64_t seed)
{
	int rc = prepare_both(s, what, seed, 1);

	if (rc == 0 && what->op == PERF_SEND)
		rc = perf_ctl_send(&s->ctl, perf_xfer_order("one", seed, 1));
	if (rc == 0)
		rc = perf_pump_one(&s->lane, what, &s->ctl, false);
	if (rc == 0 && what->op == PERF_SEND) {
		json_t *answer = NULL;

		rc = perf_ctl_recv(&s->ctl, ORDER_MS, &answer);
		if (rc == 0)
			json_decref(answer);
	}
	if (rc == 0)
		rc = what->op == PERF_READ
			     ? perf_bytes_verify(&s->lane, what, seed_of(seed, true), 1)
			     : perf_ask(s, perf_xfer_order("verify", seed, 1), ORDER_MS, NULL);
	return rc;
}

/* Every slot that the timed part used. */
static int verify_both(struct perf_session *s, const struct perf_result *result, uint64_t seed)
{
	const struct perf_case *what = &result->what;
	uint64_t slots = perf_lane_slots(&s->lane, what);
	uint64_t there = SPW_MIN(slots, result->own.total);
	uint64_t here =
		SPW_MIN(slots, what->op == PERF_READ ? result->own.total : result->peer.total);
	int rc = 0;

	if (arrives_here(what))
		rc = perf_bytes_verify(&s->lane, what, seed_of(seed, true), (uint32_t)here);
	if (rc == 0 && arrives_there(what)) {
		there = what->op == PERF_READ ? SPW_MIN(slots, result->peer.total) : there;
		rc = perf_ask(s, perf_xfer_order("verify", seed, there), ORDER_MS, NULL);
	}
	return rc;
}

/* Of a WRITE or READ both ways each end sends by itself; only a SEND needs receives at this end. */
static int xfer_time(struct perf_session *s, struct perf_result *result, uint64_t flag)
{
	const struct perf_case *what = &result->what;

	if (what->latency)
		return perf_echo_client(&s->lane, what, &s->tsc, flag, result);
	return perf_pump(&s->lane, what, true, what->both && what->op == PERF_SEND, &result->own);
}

/* Adds what the rails have done since the connection began; sign -1: takes it away again. */
static void carried_add(const struct spw_xfer_conn *conn, struct perf_result *result, int sign)
{
	struct spw_xfer_rail_stat stat;
	uint32_t i = 0;

	for (; i < PERF_RAIL_MAX && spw_xfer_conn_rail_stat(conn, i, &stat); i++) {
		struct perf_carried *c = &result->carried[i];

		memcpy(c->device, stat.device, sizeof(c->device));
		c->bytes += (uint64_t)sign * stat.tx_bytes;
		c->resent_chunks += (uint64_t)sign * stat.resent_chunks;
		c->outages += (uint64_t)sign * stat.outages;
	}
	result->carried_cnt = i;
}

/* Counters are read just outside the timed part; reading them opens sockets (phy.h). */
static int xfer_run(struct perf_session *s, struct perf_result *result)
{
	struct perf_phy before, own, peer;
	uint64_t flag = s->serial << FLAG_LOG2;
	json_t *answer = NULL;
	int rc;

	perf_phy_read(&s->own, s->lane.rails, &before);
	carried_add(s->lane.conn, result, -1);
	rc = perf_ask(s, perf_xfer_order("run", flag, 0), ORDER_MS, NULL);
	if (rc == 0)
		rc = xfer_time(s, result, flag);
	carried_add(s->lane.conn, result, 1);
	if (rc == 0)
		rc = perf_ask(s, perf_xfer_order("stop", 0, 0), ORDER_MS, &answer);
	if (rc < 0)
		return rc;
	perf_phy_since(&s->own, s->lane.rails, &before, &own);
	rc = perf_flow_parse(json_object_get(answer, "flow"), &result->peer);
	if (rc == 0 && (rc = perf_phy_parse(json_object_get(answer, "phy"), &peer)) == 0)
		perf_phy_judge(&own, &peer, result);
	json_decref(answer);
	return rc;
}

/* The three parts use seeds PERF_SLOT_MAX apart, so bytes that an earlier part left are wrong in
 * the next one. */
int perf_xfer_client(struct perf_session *s, struct perf_result *result)
{
	const struct perf_case *what = &result->what;
	uint64_t seed = s->serial << 40;
	char own[160], theirs[160];
	uint32_t slots;
	int rc;

	perf_rails_text(&s->rails, what->rails, what->streams, false, own, sizeof(own));
	perf_rails_text(&s->rails, what->rails, what->streams, true, theirs, sizeof(theirs));
	if ((rc = perf_lane_client(&s->lane, &s->ctl, what, own, theirs)) < 0)
		return rc;
	if (what->gpu)
		snprintf(result->path, sizeof(result->path), "%s memory to %s memory",
			 spw_mem_kind_name(s->lane.region.kind), s->lane.there);
	slots = perf_lane_slots(&s->lane, what);
	if ((rc = xfer_measure_one(s, what, seed)) == 0 &&
	    (rc = prepare_both(s, what, seed + PERF_SLOT_MAX, slots)) == 0 &&
	    (rc = xfer_run(s, result)) == 0 &&
	    (rc = verify_both(s, result, seed + PERF_SLOT_MAX)) == 0 &&
	    (rc = xfer_measure_one(s, what, seed + 2 * PERF_SLOT_MAX)) == 0)
		return perf_ask(s, perf_xfer_order("end", 0, 0), ORDER_MS, NULL);
	return perf_lane_give_up(&s->lane, &s->ctl, rc);
}

/* ---- the server's end ---- */

/* One case at the server. */
struct served {
	const struct perf_case *what;
	struct perf_flow flow;
	struct perf_phy before;
	bool over;
};

/* The client's READs and, one way, its WRITEs need no work of this end but progress. */
static int xfer_serve(struct perf_session *s, struct served *c, uint64_t flag)
{
	const struct perf_case *what = c->what;
	bool sends = what->both, receives = what->op == PERF_SEND;
	int rc = 0;

	if (what->latency && what->op != PERF_READ)
		rc = perf_echo_server(&s->lane, what, &s->ctl, flag, &c->flow);
	else if (!what->latency && (sends || receives))
		rc = perf_pump(&s->lane, what, sends, receives, &c->flow);
	return rc ? rc : perf_pump_idle(&s->lane, &s->ctl);
}

/* Counters are read once the client has reported that it is done: by then all messages are. */
static json_t *xfer_stopped(struct perf_session *s, struct served *c)
{
	struct perf_phy moved;

	perf_phy_since(&s->own, s->lane.rails, &c->before, &moved);
	return json_pack("{s:o,s:o}", "flow", perf_flow_json(&c->flow), "phy",
			 perf_phy_json(&moved));
}

/* Answers an order. Returns: 0, or the error of the case or the connection. */
static int xfer_command_run(struct perf_session *s, struct served *c, const json_t *msg)
{
	uint32_t most = perf_lane_slots(&s->lane, c->what);
	uint64_t seed, slots;
	char name[16];
	int rc = perf_number(msg, "seed", INT64_MAX, &seed);

	perf_text(msg, "do", name, sizeof(name));
	if (rc == 0 && (rc = perf_number(msg, "slots", most, &slots)) < 0)
		return rc;
	if (!strcmp(name, "prepare"))
		rc = perf_bytes_prepare(&s->lane, c->what, seed_of(seed, true), (uint32_t)slots);
	else if (!strcmp(name, "one"))
		rc = perf_pump_one(&s->lane, c->what, &s->ctl, true);
	else if (!strcmp(name, "verify"))
		rc = perf_bytes_verify(&s->lane, c->what, seed_of(seed, false), (uint32_t)slots);
	else if (!strcmp(name, "stop"))
		return perf_ctl_send(&s->ctl, xfer_stopped(s, c));
	else if (!strcmp(name, "run")) {
		perf_phy_read(&s->own, s->lane.rails, &c->before);
		rc = perf_ctl_send(&s->ctl, json_pack("{s:s}", "did", name));
		return rc ? rc : xfer_serve(s, c, seed);
	} else
		c->over = true;
	return rc ? rc : perf_ctl_send(&s->ctl, json_pack("{s:s}", "did", name));
}

/* An error is the answer to the order that met it; the client then aborts. */
static int xfer_failed(struct perf_session *s, int rc, bool *over)
{
	char text[PERF_TEXT_BYTES];

	snprintf(text, sizeof(text), "%.300s", spw_err_text());
	perf_lane_close(&s->lane);
	*over = true;
	spw_err(-rc, "%s", text);
	return perf_ctl_refuse(&s->ctl, rc);
}

/* Returns 0 as well when the case failed but the client knows: the session goes on with the next
 * case. */
int perf_xfer_server(struct perf_session *s, const struct perf_case *what, const json_t *request)
{
	struct served c = {.what = what};
	int rc = perf_lane_server(&s->lane, &s->ctl, what, request);

	if (rc < 0)
		return 0; /* the client knows */
	while (!c.over) {
		json_t *msg;

		rc = perf_ctl_order(&s->ctl, s->ctl.order_ms, &msg);
		if (rc < 0 && rc != -ECANCELED)
			return rc;
		rc = rc ? rc : xfer_command_run(s, &c, msg);
		json_decref(msg);
		if (rc < 0)
			rc = xfer_failed(s, rc, &c.over);
		if (rc < 0)
			return rc;
	}
	return 0;
}
