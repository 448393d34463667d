/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * When which pair of devices is tried. The client decides, and names the pair in each RAIL frame.
 *
 *   xfer_round_start ─► best matching ─► an attempt of each pair (rail.c) ─► UP
 *                           ▲                        │
 *                           └── all attempts ended ──┘ failed: another matching, which prefers
 *                                                      pairs that have failed less often
 *
 * A pair that carried messages is abandoned after KEEP attempts in a row have failed. Waits between
 * attempts of one pair double, up to WAIT_MAX_MS; without any rail up to WAIT_BARE_MS, because the
 * connection waits too. A pair that was never tried is tried at once, and so is all when a link
 * comes up. Rails are as many as the first matching has, until the connection ends.
 *
 * Called by exchange.c (start), conn.c (turn, RAIL frames, report), rail.c and fail.c (an attempt
 * ended) and endpoint.c (a link is up). The server only checks what the client names.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/spw_log.h"
#include "xfer/connection.h"
#include "xfer/endpoint.h"
#include "xfer/round.h"

#define KEEP         3u
#define WAIT_MAX_MS  60000u
#define WAIT_BARE_MS 1000u
#define LINE_BYTES   512u

static uint32_t round_failed(const struct xfer_rail *rail)
{
	return rail->conn->pairs.failed[rail->dev_idx][rail->peer_idx];
}

/* A rail that was up keeps its pair for some attempts: the cable may only have been unplugged. */
static bool keeps_pair(const struct xfer_rail *rail)
{
	return rail->state != XFER_OFF || (rail->proven && round_failed(rail) < KEEP);
}

static bool is_on_trial(const struct xfer_rail *rail)
{
	return rail->state != XFER_OFF && rail->state != XFER_UP;
}

static bool any_on_trial(const struct spw_xfer_conn *conn)
{
	bool any = false;

	for (uint32_t i = 0; i < conn->rail_cnt; i++)
		any |= is_on_trial(conn->rail[i]);
	return any;
}

/* ---- choose ---- */

/* Devices that no rail holds, as masks. */
static void find_free(const struct spw_xfer_conn *conn, uint8_t *mine, uint8_t *theirs)
{
	*mine = (uint8_t)((1u << conn->pairs.mine_cnt) - 1);
	*theirs = (uint8_t)((1u << conn->pairs.theirs_cnt) - 1);
	for (uint32_t i = 0; i < conn->rail_cnt; i++) {
		const struct xfer_rail *rail = conn->rail[i];

		if (!keeps_pair(rail))
			continue;
		*mine &= (uint8_t) ~(1u << rail->dev_idx);
		*theirs &= (uint8_t) ~(1u << rail->peer_idx);
	}
	for (uint32_t i = 0; i < conn->pairs.mine_cnt; i++)
		if (!conn->x->dev[i].link_up)
			*mine &= (uint8_t) ~(1u << i);
}

/* Subnets that differ are tried where there is nothing else, or all else has failed. */
static void check_routed(struct spw_xfer_conn *conn)
{
	struct xfer_pairs *p = &conn->pairs;

	p->routed |= !xfer_pairs_left(p, XFER_PAIR_BLIND, false) ||
		     (conn->state == XFER_CONN_RAILS && !conn->up &&
		      !xfer_pairs_left(p, XFER_PAIR_BLIND, true));
}

/* Returns: the first rail from *at on that has no pair of its own; NULL: none is left. */
static struct xfer_rail *next_rail(struct spw_xfer_conn *conn, uint32_t *at)
{
	while (*at < conn->rail_cnt) {
		struct xfer_rail *rail = conn->rail[(*at)++];

		if (!keeps_pair(rail))
			return rail;
	}
	return NULL;
}

/* Rails that keep their pair are left alone, so that a new matching disturbs no messages. */
static void round_choose(struct spw_xfer_conn *conn)
{
	int8_t theirs[SPW_XFER_RAIL_MAX];
	uint8_t mine_free, theirs_free;
	struct xfer_rail *rail;
	uint32_t at = 0;

	conn->rechoose = false;
	check_routed(conn);
	find_free(conn, &mine_free, &theirs_free);
	xfer_pairs_match(&conn->pairs, mine_free, theirs_free, theirs);
	for (uint32_t i = 0; i < conn->pairs.mine_cnt; i++) {
		if (theirs[i] == XFER_NO_PAIR || !(rail = next_rail(conn, &at)))
			continue;
		if (rail->dev_idx != i || rail->peer_idx != theirs[i])
			xfer_rail_join(rail, i, (uint32_t)theirs[i]);
		rail->paired = true;
	}
	while ((rail = next_rail(conn, &at)))
		rail->paired = false;
}

/* The server's rails are made when their RAIL frames come (xfer_round_on_rail). */
void xfer_round_start(struct spw_xfer_conn *conn, uint64_t now_ms)
{
	int8_t theirs[SPW_XFER_RAIL_MAX];
	uint32_t cnt;

	check_routed(conn);
	cnt = xfer_pairs_match(&conn->pairs, UINT8_MAX, UINT8_MAX, theirs);
	while (conn->rail_cnt < cnt)
		if (xfer_rail_add(conn)) {
			xfer_conn_fail(conn, ENOMEM, "no memory for its rails");
			return;
		}
	round_choose(conn);
	for (uint32_t i = 0; i < conn->rail_cnt && conn->state == XFER_CONN_RAILS; i++)
		xfer_rail_turn(conn->rail[i], now_ms);
}

void xfer_round_turn(struct spw_xfer_conn *conn, uint64_t now_ms SPW_UNUSED)
{
	if (conn->rechoose && !any_on_trial(conn))
		round_choose(conn);
}

/* ---- attempts ---- */

/* The client alone chooses again, and not after an attempt of which the peer knows nothing. */
void xfer_round_ended(struct xfer_rail *rail, bool counts, uint64_t now_ms)
{
	rail->ended_ms = now_ms;
	if (!counts || !rail->conn->is_client)
		return;
	rail->paired = keeps_pair(rail);
	rail->conn->rechoose |= !rail->paired;
}

/* Doubling begins with the second failure. A pair that worked is tried again after
 * SPW_XFER_REJOIN_MS. */
static uint64_t wait_ms(const struct xfer_rail *rail)
{
	const uint32_t n = round_failed(rail);
	const uint64_t max = rail->conn->up ? WAIT_MAX_MS : WAIT_BARE_MS;

	if (!n)
		return rail->proven ? SPW_XFER_REJOIN_MS : 0;
	return SPW_MIN((uint64_t)SPW_XFER_REJOIN_MS << SPW_MIN(n - 1, 16u), max);
}

bool xfer_round_is_due(const struct xfer_rail *rail, uint64_t now_ms)
{
	return rail->paired && now_ms >= rail->hold_ms && now_ms >= rail->ended_ms + wait_ms(rail);
}

void xfer_round_link_up(struct spw_xfer_conn *conn, uint32_t dev_idx)
{
	memset(conn->pairs.failed[dev_idx], 0, sizeof(conn->pairs.failed[dev_idx]));
	conn->rechoose |= conn->is_client;
}

/* The client: every pair of the present matching was tried, and no better one is waiting. The
 * server: every rail that it knows of was tried. */
bool xfer_round_is_settled(const struct spw_xfer_conn *conn)
{
	if (any_on_trial(conn) || conn->rechoose)
		return false;
	for (uint32_t i = 0; i < conn->rail_cnt; i++) {
		const struct xfer_rail *rail = conn->rail[i];

		if (!rail->tried && (conn->is_client ? rail->paired : rail->qp_generation > 0))
			return false;
	}
	return true;
}

/* ---- the server ---- */

/* At the client the devices must be those that it named; at the server no other rail may use them.
 */
bool xfer_round_on_rail(struct spw_xfer_conn *conn, const struct xfer_frame *f)
{
	const uint32_t mine = conn->is_client ? f->rail.client_dev : f->rail.peer_dev;
	const uint32_t theirs = conn->is_client ? f->rail.peer_dev : f->rail.client_dev;
	struct xfer_rail *rail;

	if (mine >= conn->pairs.mine_cnt || theirs >= conn->pairs.theirs_cnt ||
	    xfer_pair_kind(&conn->pairs.mine[mine], &conn->pairs.theirs[theirs]) == XFER_PAIR_NEVER)
		return false;
	while (!conn->is_client && conn->rail_cnt < f->rail.rail_cnt)
		if (xfer_rail_add(conn))
			return false;
	if (f->rail.rail >= conn->rail_cnt)
		return false;
	rail = conn->rail[f->rail.rail];
	if (conn->is_client)
		return rail->dev_idx == mine && rail->peer_idx == theirs;
	for (uint32_t i = 0; i < conn->rail_cnt; i++) {
		const struct xfer_rail *other = conn->rail[i];

		if (other->state != XFER_OFF &&
		    (other->dev_idx == mine || other->peer_idx == theirs))
			return false;
	}
	if (rail->dev_idx != mine || rail->peer_idx != theirs || !rail->qp_generation)
		xfer_rail_join(rail, mine, theirs);
	return true;
}

/* ---- what is left out ---- */

/* "10.0.0.1/24" */
static int end_text(const struct xfer_end *end, char *text, size_t bytes)
{
	const bool v4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)end->gid);
	char ip[INET6_ADDRSTRLEN];

	inet_ntop(v4 ? AF_INET : AF_INET6, end->gid + (v4 ? 12 : 0), ip, sizeof(ip));
	return end->prefix ? snprintf(text, bytes, "%s/%u", ip, end->prefix - (v4 ? 96u : 0))
			   : snprintf(text, bytes, "%s", ip);
}

/* The best kind of pair that a device of ours could make. */
static enum xfer_pair_kind best_kind(const struct xfer_pairs *p, uint32_t mine)
{
	enum xfer_pair_kind best = XFER_PAIR_NEVER;

	for (uint32_t i = 0; i < p->theirs_cnt; i++)
		best = SPW_MAX(best, xfer_pair_kind(&p->mine[mine], &p->theirs[i]));
	return best;
}

static const char *why_left(const struct spw_xfer_conn *conn, uint32_t dev)
{
	if (xfer_dev_is_gone(&conn->x->dev[dev]))
		return RDMA_GONE_TEXT;
	switch (best_kind(&conn->pairs, dev)) {
	case XFER_PAIR_NEVER:
		return "the peer has no address of this kind";
	case XFER_PAIR_ROUTED:
		if (!conn->pairs.routed)
			return "the peer has no address in its subnet";
		break;
	default:
		break;
	}
	return "the peer has no device left for it";
}

/* NULL: no rail of this connection uses the device. */
static const struct xfer_rail *round_rail_of(const struct spw_xfer_conn *conn, uint32_t dev)
{
	for (uint32_t i = 0; i < conn->rail_cnt; i++) {
		const struct xfer_rail *rail = conn->rail[i];

		if (rail->dev_idx == dev &&
		    (conn->is_client ? rail->paired : rail->qp_generation > 0))
			return rail;
	}
	return NULL;
}

/* Cut short if it is too long. */
static void round_line_add(char *line, const char *what)
{
	const size_t n = strlen(line);

	snprintf(line + n, LINE_BYTES - n, "%s", what);
}

static void add_device(char *line, const struct spw_xfer_conn *conn, uint32_t dev, const char *why)
{
	char text[64 + INET6_ADDRSTRLEN + 192], ip[INET6_ADDRSTRLEN + 8];

	end_text(&conn->pairs.mine[dev], ip, sizeof(ip));
	snprintf(text, sizeof(text), "%s%s (%s): %s", *line ? "; " : "",
		 conn->x->dev[dev].rdma.name, ip, why);
	round_line_add(line, text);
}

/* "10.0.0.1/24, 10.0.1.1/24" */
static void theirs_text(const struct spw_xfer_conn *conn, char *line)
{
	char ip[INET6_ADDRSTRLEN + 8];

	for (uint32_t i = 0; i < conn->pairs.theirs_cnt; i++) {
		end_text(&conn->pairs.theirs[i], ip, sizeof(ip));
		round_line_add(line, i ? ", " : "");
		round_line_add(line, ip);
	}
}

void xfer_round_why_none(const struct spw_xfer_conn *conn, char *text, size_t bytes)
{
	char theirs[LINE_BYTES] = "";

	*text = '\0';
	for (uint32_t dev = 0; dev < conn->pairs.mine_cnt; dev++)
		if (best_kind(&conn->pairs, dev) > XFER_PAIR_ROUTED)
			return;
	theirs_text(conn, theirs);
	if (*theirs)
		snprintf(text, bytes,
			 "; it has %s, in none of our subnets: no cable joins the two machines, or "
			 "its ends need addresses of one subnet",
			 theirs);
}

void xfer_round_report(struct spw_xfer_conn *conn)
{
	char line[LINE_BYTES] = "", theirs[LINE_BYTES] = "";

	for (uint32_t dev = 0; dev < conn->pairs.mine_cnt; dev++) {
		const struct xfer_rail *rail = round_rail_of(conn, dev);

		if (rail && rail->state != XFER_UP)
			add_device(line, conn, dev,
				   *rail->stat.why ? rail->stat.why : "not yet tried");
		else if (!rail)
			add_device(line, conn, dev, why_left(conn, dev));
	}
	if (!*line)
		return;
	theirs_text(conn, theirs);
	spw_log_limited(&conn->x->limit, SPW_LOG_WARN,
			"xfer: %s: %u of %u devices carry it; left out: %s (the peer has %s)",
			conn->text, (uint32_t)__builtin_popcount(conn->up), conn->pairs.mine_cnt,
			line, theirs);
}
