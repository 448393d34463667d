/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The connections of a port as their users see them: open, start, stop, close for setup, and the
 * calls by which an owner passes the turn back (spw_peer.h has the contracts and the table of
 * states). The work itself is done by turn.c in the control thread.
 *
 * Who may touch what, from set-up to close:
 *
 *   open  peer_setup  start ............................. stop  close
 *   <----- setup ----><- control: links, halves, QPs  ---><- setup ->
 *                     <- owner: spw_peer_posted, _fail, _drained, _events, _hold ->
 *
 * Owners and control share struct spw_peer, by the turns of its state, and the event rings. An
 * owner that needs more, to re-create QPs, suspends control with spw_peer_conn_hold.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "peer/conn.h"

/* Entries below connect_cnt are bound to an address of connect= for ever; the others are for
 * whoever connects, and a client takes the first free one (turn.c). */
static void link_open(struct spw_peer_conn *conn, uint32_t i)
{
	struct spw_peer *p = &conn->peer[i];
	struct peer_link *link = &conn->link[i];

	p->index = i;
	p->queue = (uint16_t)(i % conn->queue_cnt);
	p->op = conn->conf.op;
	link->peer = p;
	link->conn = conn;
	link->fd = -1;
	link->reported = -1;
	link->connects = i < conn->conf.connect_cnt;
	if (link->connects)
		link->addr = conn->conf.connect_addr[i];
}

/* Nothing is listened on and no thread runs until spw_peer_conn_start, so the litmus can drive the
 * same states first (loop.c). */
int spw_peer_conn_open(const struct spw_peer_conf *conf, const struct spw_peer_dev *dev,
		       uint16_t queue_cnt, struct spw_peer_conn **conn_out)
{
	struct spw_peer_conn *conn = calloc(1, sizeof(*conn));
	struct rdma_ctl_client client = {.arg = conn,
					 .prepare = peer_turn_prepare,
					 .turn = peer_turn,
					 .async = peer_turn_async};
	int rc;

	*conn_out = NULL;
	if (!conn)
		return spw_err(ENOMEM, "no memory for connections");
	conn->conf = *conf;
	conn->dev = *dev;
	conn->queue_cnt = queue_cnt;
	pthread_mutex_init(&conn->turn, NULL);
	conn->link = calloc(conf->peer_max, sizeof(*conn->link));
	conn->peer = aligned_alloc(_Alignof(struct spw_peer), conf->peer_max * sizeof(*conn->peer));
	rc = conn->link && conn->peer ? 0
				      : spw_err(ENOMEM, "no memory for %u peers", conf->peer_max);
	rc = rc ? rc : rdma_ctl_open(dev->rdma, queue_cnt, &client, &conn->ctl);
	if (rc) {
		free(conn->link);
		free(conn->peer);
		free(conn);
		return rc;
	}
	memset(conn->peer, 0, conf->peer_max * sizeof(*conn->peer));
	for (uint32_t i = 0; i < conf->peer_max; i++)
		link_open(conn, i);
	*conn_out = conn;
	return 0;
}

struct spw_peer *spw_peer_conn_peer(struct spw_peer_conn *conn, uint32_t peer)
{
	return &conn->peer[peer];
}

static const char *listen_hint(int error)
{
	switch (error) {
	case EADDRINUSE:
		return "; somebody listens there: use another port";
	case EADDRNOTAVAIL:
		return "; no interface has this address (ip addr shows them)";
	case EACCES:
		return "; ports below 1024 are root's: use another port";
	default:
		return "";
	}
}

/* Without a secret, peers= is the only barrier, and a source address proves little. */
static void peer_warn_open(const struct spw_peer_conn *conn)
{
	char addr[64];

	if (!conn->conf.secret.len && !spw_oob_addr_is_loopback(&conn->conf.listen_addr.sin6_addr))
		spw_warn("%s: listen=%s without secret=: whoever can use an address of peers= may "
			 "connect and take up to %u of %u "
			 "entries; give both sides secret=FILE",
			 conn->dev.name, spw_oob_addr_text(&conn->conf.listen_addr, addr),
			 spw_peer_host_max(&conn->conf),
			 conn->conf.peer_max - conn->conf.connect_cnt);
}

/* A client that is silent at the door for as long as an exchange may take is refused. */
static int peer_listen(struct spw_peer_conn *conn)
{
	const struct spw_oob_door_conf door = {.proto = &peer_proto,
					       .secret = &conn->conf.secret,
					       .allow = conn->conf.allow,
					       .allow_cnt = conn->conf.allow_cnt,
					       .seat_cnt = PEER_HALF_MAX,
					       .host_max = PEER_HALF_PER_ADDR,
					       .first_ms = conn->conf.exchange_ms};
	char addr[64];
	int rc = spw_oob_door_open(&door, &conn->door);

	if (rc)
		return rc;
	rc = spw_oob_door_listen(conn->door, &conn->conf.listen_addr);
	if (rc)
		return spw_err(-rc, "listen=%s: %s%s",
			       spw_oob_addr_text(&conn->conf.listen_addr, addr), strerror(-rc),
			       listen_hint(-rc));
	peer_warn_open(conn);
	return 0;
}

int spw_peer_conn_start(struct spw_peer_conn *conn)
{
	int rc = conn->conf.listen ? peer_listen(conn) : 0;

	return rc ? rc : rdma_ctl_start(conn->ctl);
}

/* A QP that was in use goes to ERR, so that its flush appears; the owner's half of the way down,
 * DRAIN, is left to the driver. The QP of a peer in DRAIN or DRAINED has been moved to ERR
 * before. */
static void link_stop(struct peer_link *link)
{
	const enum spw_peer_state state = spw_peer_state(link->peer);

	if (link->client.used && link->client.x.ch.fd >= 0)
		close(link->client.x.ch.fd);
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
	link->client.used = false;
	link->half = NULL;
	if (state == SPW_PEER_DOWN || state == SPW_PEER_DRAIN || state == SPW_PEER_DRAINED)
		return;
	peer_qp_error(link->peer->qp);
	spw_thr_store_rel(&link->peer->state,
			  SPW_PEER_DRAIN); /* [RC1 release, pairs with spw_peer_state] */
}

/* One line per reason at the end of a run: a line per attempt would let a stranger fill the log. */
static void log_refused(const struct spw_peer_conn *conn)
{
	for (unsigned i = 0; i < PEER_REFUSED_CNT; i++)
		if (conn->count.refused[i])
			spw_info("%s: %" PRIu64 " exchanges without a connection (%s): %s",
				 conn->dev.name, conn->count.refused[i],
				 peer_refused_name((enum peer_refused)i),
				 i == PEER_REFUSED_system
					 ? strerror(conn->count.error)
					 : peer_refused_text((enum peer_refused)i));
}

/* The thread ends first: after that this function alone owns sockets and links. Idempotent, since
 * close calls it too. */
void spw_peer_conn_stop(struct spw_peer_conn *conn)
{
	rdma_ctl_stop(conn->ctl);
	for (uint32_t i = 0; i < PEER_HALF_MAX; i++) {
		if (conn->half[i].used)
			close(conn->half[i].x.ch.fd);
		conn->half[i].used = false;
	}
	spw_oob_door_close(conn->door);
	conn->door = NULL;
	for (uint32_t i = 0; i < conn->conf.peer_max; i++)
		link_stop(&conn->link[i]);
}

void spw_peer_conn_close(struct spw_peer_conn *conn)
{
	if (!conn)
		return;
	spw_peer_conn_stop(conn);
	log_refused(conn);
	rdma_ctl_close(conn->ctl);
	for (uint32_t i = 0; i < conn->conf.peer_max; i++)
		peer_link_free(&conn->link[i]);
	spw_oob_secret_wipe(&conn->conf.secret);
	free(conn->link);
	free(conn->peer);
	free(conn);
}

bool spw_peer_conn_hold(struct spw_peer_conn *conn)
{
	return !pthread_mutex_trylock(&conn->turn);
}

void spw_peer_conn_release(struct spw_peer_conn *conn)
{
	pthread_mutex_unlock(&conn->turn);
}

/* ---- the owner's side ---- */

/* `heard` is cleared before the state is stored: whatever the peer sends on this connection is then
 * counted as of this connection. */
void spw_peer_posted(struct spw_peer_conn *conn, struct spw_peer *peer)
{
	spw_thr_store_rlx(&peer->heard, 0);
	spw_thr_store_rel(
		&peer->state,
		SPW_PEER_POSTED); /* [RC1 release, pairs with spw_peer_state in peer/turn.c] */
	rdma_ctl_wake(conn->ctl);
}

/* why and code are the owner's; control keeps its own reason in peer_link.lost_why, so the two
 * never write the same word. If the compare-and-swap fails, control has ended the connection and
 * its own reason counts. */
void spw_peer_fail(struct spw_peer_conn *conn, struct spw_peer *peer, enum spw_peer_why why,
		   uint32_t code)
{
	uint32_t up = SPW_PEER_UP;

	peer->why = why;
	peer->code = code;
	if (spw_thr_cas(&peer->state, &up, (uint32_t)SPW_PEER_FAIL))
		rdma_ctl_wake(conn->ctl);
}

void spw_peer_drained(struct spw_peer_conn *conn, struct spw_peer *peer)
{
	spw_thr_store_rel(
		&peer->state,
		SPW_PEER_DRAINED); /* [RC1 release, pairs with spw_peer_state in peer/link.c] */
	rdma_ctl_wake(conn->ctl);
}

uint16_t spw_peer_conn_events(struct spw_peer_conn *conn, uint16_t queue,
			      struct spw_port_event *event, uint16_t cnt)
{
	return rdma_ctl_events(conn->ctl, queue, event, cnt);
}

void spw_peer_conn_stat(const struct spw_peer_conn *conn, struct spw_port_stat *stat)
{
	stat->err[SPW_PORT_ERR_peer_gone] += spw_thr_load_rlx(&conn->count.peer_gone);
	stat->err[SPW_PORT_ERR_protocol] += spw_thr_load_rlx(&conn->count.protocol);
	stat->err[SPW_PORT_ERR_queue_reset] += spw_thr_load_rlx(&conn->count.reset);
	stat->err[SPW_PORT_ERR_link_down] += spw_thr_load_rlx(&conn->dev.rdma->link_down_cnt);
	for (unsigned i = 0; i < PEER_REFUSED_CNT; i++)
		if (peer_refused_is_theirs((enum peer_refused)i))
			stat->err[SPW_PORT_ERR_refused] +=
				spw_thr_load_rlx(&conn->count.refused[i]);
}
