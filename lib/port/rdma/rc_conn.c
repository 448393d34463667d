/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "port/rdma/rc_conn_impl.h"

static void link_open(struct rc_conn *conn, uint32_t i)
{
	struct rc_peer *p = &conn->peer[i];
	struct rc_link *link = &conn->link[i];

	p->index = i;
	p->queue = (uint16_t)(i % conn->queue_cnt);
	p->op = conn->conf.op;
	link->peer = p;
	link->conn = conn;
	link->fd = -1;
	link->told = -1;
	link->connects = i < conn->conf.connect_cnt;
	if (link->connects)
		link->addr = conn->conf.connect_addr[i];
}

int rc_conn_open(const struct rc_conf *conf, const struct rc_dev *dev, uint16_t queue_cnt, struct rc_conn **conn_out)
{
	struct rc_conn *conn = calloc(1, sizeof(*conn));
	struct rdma_ctl_client client = {.arg = conn, .prepare = rc_turn_prepare, .turn = rc_turn, .async = rc_turn_async};
	int rc;

	*conn_out = NULL;
	if (!conn)
		return spw_err(ENOMEM, "no memory for connections");
	conn->conf = *conf;
	conn->dev = *dev;
	conn->queue_cnt = queue_cnt;
	conn->listen_fd = -1;
	pthread_mutex_init(&conn->turn, NULL);
	conn->link = calloc(conf->peer_max, sizeof(*conn->link));
	conn->peer = aligned_alloc(_Alignof(struct rc_peer), conf->peer_max * sizeof(*conn->peer));
	rc = conn->link && conn->peer ? 0 : spw_err(ENOMEM, "no memory for %u peers", conf->peer_max);
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

struct rc_peer *rc_conn_peer(struct rc_conn *conn, uint32_t peer)
{
	return &conn->peer[peer];
}

uint32_t rc_conn_peer_cnt(const struct rc_conn *conn)
{
	return conn->conf.peer_max;
}

static const char *listen_hint(int error)
{
	switch (error) {
	case EADDRINUSE: return "; somebody listens there: use another port";
	case EADDRNOTAVAIL: return "; no interface has this address (ip addr shows them)";
	case EACCES: return "; ports below 1024 are root's: use another port";
	default: return "";
	}
}

int rc_conn_start(struct rc_conn *conn)
{
	char addr[64];

	if (conn->conf.listen) {
		conn->listen_fd = rc_socket_listen(&conn->conf.listen_addr);
		if (conn->listen_fd < 0)
			return spw_err(-conn->listen_fd, "listen=%s: %s%s", rc_addr_text(&conn->conf.listen_addr, addr),
				       strerror(-conn->listen_fd), listen_hint(-conn->listen_fd));
	}
	return rdma_ctl_start(conn->ctl);
}

static void link_stop(struct rc_link *link)
{
	const enum rc_state state = rc_peer_state(link->peer);

	if (link->client.used && link->client.x.fd >= 0)
		close(link->client.x.fd);
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
	link->client.used = false;
	link->half = NULL;
	if (state == RC_DOWN || state == RC_DRAIN || state == RC_DRAINED)
		return;
	rc_qp_error(link);
	spw_thr_store_rel(&link->peer->state, RC_DRAIN); /* [RC1 release, pairs with rc_peer_state] */
}

static void say_refused(const struct rc_conn *conn)
{
	for (unsigned i = 0; i < RC_REFUSED_CNT; i++)
		if (conn->count.refused[i])
			spw_info("%s: %" PRIu64 " exchanges refused, %s: %s", conn->dev.name, conn->count.refused[i],
				 rc_refused_name((enum rc_refused)i), rc_refused_text((enum rc_refused)i));
}

void rc_conn_stop(struct rc_conn *conn)
{
	rdma_ctl_stop(conn->ctl);
	for (uint32_t i = 0; i < RC_HALF_MAX; i++) {
		if (conn->half[i].used)
			close(conn->half[i].x.fd);
		conn->half[i].used = false;
	}
	if (conn->listen_fd >= 0)
		close(conn->listen_fd);
	conn->listen_fd = -1;
	for (uint32_t i = 0; i < conn->conf.peer_max; i++)
		link_stop(&conn->link[i]);
}

void rc_conn_close(struct rc_conn *conn)
{
	if (!conn)
		return;
	rc_conn_stop(conn);
	say_refused(conn);
	rdma_ctl_close(conn->ctl);
	for (uint32_t i = 0; i < conn->conf.peer_max; i++)
		rc_peer_free(&conn->link[i]);
	rc_secret_wipe(&conn->conf.secret);
	free(conn->link);
	free(conn->peer);
	free(conn);
}

void rc_conn_hold(struct rc_conn *conn)
{
	pthread_mutex_lock(&conn->turn);
}

void rc_conn_let(struct rc_conn *conn)
{
	pthread_mutex_unlock(&conn->turn);
}

/* ---- the owner's side ----------------------------------------------------------------------------- */

void rc_peer_posted(struct rc_conn *conn, struct rc_peer *peer)
{
	spw_thr_store_rel(&peer->state, RC_POSTED); /* [RC1 release, pairs with rc_peer_state in rc_turn.c] */
	rdma_ctl_wake(conn->ctl);
}

void rc_peer_fail(struct rc_conn *conn, struct rc_peer *peer, enum rc_why why, uint32_t code)
{
	uint32_t up = RC_UP;

	peer->why = why;
	peer->code = code;
	if (spw_thr_cas(&peer->state, &up, (uint32_t)RC_FAIL))
		rdma_ctl_wake(conn->ctl);
}

void rc_peer_drained(struct rc_conn *conn, struct rc_peer *peer)
{
	spw_thr_store_rel(&peer->state, RC_DRAINED); /* [RC1 release, pairs with rc_peer_state in rc_link.c] */
	rdma_ctl_wake(conn->ctl);
}

uint16_t rc_conn_events(struct rc_conn *conn, uint16_t queue, struct spw_port_event *event, uint16_t cnt)
{
	return rdma_ctl_events(conn->ctl, queue, event, cnt);
}

void rc_conn_stat(const struct rc_conn *conn, struct spw_port_stat *stat)
{
	stat->err[SPW_PORT_ERR_peer_gone] += spw_thr_load_rlx(&conn->count.peer_gone);
	stat->err[SPW_PORT_ERR_protocol] += spw_thr_load_rlx(&conn->count.protocol);
	stat->err[SPW_PORT_ERR_queue_reset] += spw_thr_load_rlx(&conn->count.reset);
	stat->err[SPW_PORT_ERR_link_down] += spw_thr_load_rlx(&conn->dev.rdma->link_down_cnt);
	for (unsigned i = 0; i < RC_REFUSED_CNT; i++)
		if (i != RC_REFUSED_system)
			stat->err[SPW_PORT_ERR_refused] += spw_thr_load_rlx(&conn->count.refused[i]);
}
