/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * An endpoint: opens the devices of its rails, and once a millisecond looks after what is not the
 * data path: sockets, events of the devices, deadlines (xfer_house).
 *
 *   spw_xfer_open       conf ─► rails found (find.c), unless named ─► devices: GID, register, order
 *   spw_xfer_progress   the house, if a millisecond has passed ─► data of all connections
 *   spw_xfer_test       the house likewise ─► data of the request's connection
 *   the house           QPs of resolve.c ─► devices' events ─► listeners ─► connections
 *   spw_xfer_close      connections ─► listeners ─► QPs of resolve.c ─► memories ─► devices
 *
 * An endpoint is one thread's, and shares nothing with another endpoint: no call needs a lock.
 */
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "base/spw_log.h"
#include "base/spw_monotonic.h"
#include "xfer/connection.h"
#include "xfer/endpoint.h"
#include "xfer/reach.h"
#include "xfer/round.h"

#define RAILS_TEXT_MAX 256u
#define EVENTS_MAX     16u
#define WAIT_LOOKS     8u /* turns of a wait at least */

uint64_t xfer_now_ns(void)
{
	return spw_monotonic_ns();
}

/* A thread that stood still (SIGSTOP, a frozen container, a paused machine) gives up nobody for it:
 * of a pause between two turns the clock counts an eighth of the shortest wait. What it showed
 * before is what waits are judged by: since then sockets and completion queues have been read.
 *
 *   turn ── turn ── stopped for long ── turn ───────── turn ── turn
 *           +1 ms                       +1/8, judged   +1 ms, judged with the eighth
 *                                       without it
 */
uint64_t xfer_clock_turn(struct spw_xfer *x)
{
	const uint64_t was_ms = x->clock_ms, now_ms = xfer_now_ns() / 1000000u;

	x->clock_ms += SPW_MIN(now_ms - x->looked_ms, x->step_ms);
	x->looked_ms = now_ms;
	return was_ms;
}

/* ---- configuration ---- */

static int check_conf(const struct spw_xfer_conf *c)
{
	if (!SPW_IS_POW2(c->chunk_bytes) || !spw_in_range(c->chunk_bytes, 4096, 1u << 30))
		return spw_err(EINVAL, "chunk_bytes=%u: use a power of 2, 4096 .. 2^30",
			       c->chunk_bytes);
	if (!spw_in_range(c->exchange_ms, 10, 60000))
		return spw_err(EINVAL, "exchange_ms=%u: 10 .. 60000", c->exchange_ms);
	if (!spw_in_range(c->timeout, 1, 31) || !spw_in_range(c->retry, 1, 7))
		return spw_err(EINVAL, "timeout=%u retry=%u: 1 .. 31 and 1 .. 7", c->timeout,
			       c->retry);
	return 0;
}

/* Texts are read here: the caller may free them after open. */
static int take_conf(struct spw_xfer *x, const struct spw_xfer_conf *conf)
{
	struct spw_xfer_conf *c = &x->conf;
	int rc;

	*c = *conf;
	c->chunk_bytes = c->chunk_bytes ? c->chunk_bytes : 512u << 10;
	c->exchange_ms = c->exchange_ms ? c->exchange_ms : 5000;
	c->gone_ms = c->gone_ms ? c->gone_ms : 10000;
	c->timeout = c->timeout ? c->timeout : 14;
	c->retry = c->retry ? c->retry : 7;
	rc = check_conf(c);
	if (!rc && conf->bind) {
		x->bind_given = true;
		rc = spw_oob_addr_parse(conf->bind, &x->bind);
	}
	if (!rc && conf->secret)
		rc = spw_oob_secret_read(conf->secret, &x->secret);
	return rc;
}

/* ---- devices ---- */

/* Direct verbs need CQEs of version 1, as every card since ConnectX-4 makes them. */
static bool can_direct(const struct xfer_dev *dev)
{
	struct mlx5dv_context dv = {0};

	return mlx5dv_is_supported(dev->rdma.ctx->device) &&
	       !mlx5dv_query_device(dev->rdma.ctx, &dv) && dv.flags & MLX5DV_CONTEXT_FLAGS_CQE_V1;
}

/* The endpoint has one thread, so all of its QPs on a device share a doorbell register of their
 * own. Without one, rdma-core's default register serves, and no WQE goes by BlueFlame. */
static void endpoint_own_register(struct xfer_dev *dev)
{
	struct ibv_td_init_attr td_attr = {0};
	struct ibv_parent_domain_init_attr pd_attr = {.pd = dev->rdma.pd};

	dev->domain = dev->rdma.pd;
	if (!dev->direct)
		return;
	pd_attr.td = dev->td = ibv_alloc_td(dev->rdma.ctx, &td_attr);
	if (!dev->td)
		return;
	dev->domain = ibv_alloc_parent_domain(dev->rdma.ctx, &pd_attr);
	if (dev->domain)
		return;
	ibv_dealloc_td(dev->td);
	dev->td = NULL;
	dev->domain = dev->rdma.pd;
}

/* On an error nothing is left open. */
static int endpoint_dev_open(const struct spw_xfer *x, const char *name, struct xfer_dev *dev)
{
	const bool plain = !strncmp(name, "verbs:", 6);
	int rc = rdma_dev_open(name + (plain ? 6 : 0), 1, &dev->rdma);

	if (rc)
		return rc;
	rc = rdma_dev_check_link(&dev->rdma);
	rc = rc ? rc : rdma_dev_channel_open(&dev->rdma);
	rc = rc ? rc : rdma_dev_gid(&dev->rdma, x->conf.gid, &dev->gid);
	if (rc) {
		rdma_dev_close(&dev->rdma);
		return rc;
	}
	dev->prefix = xfer_gid_prefix(dev->gid.gid.raw, xfer_local_prefix(dev->gid.gid.raw));
	dev->mtu = (uint16_t)rdma_dev_mtu_bytes(&dev->rdma);
	dev->read_max = (uint8_t)SPW_MAX(
		1, SPW_MIN(dev->rdma.attr.orig_attr.max_qp_rd_atom, (int)XFER_READ_MAX));
	dev->link_up = true;
	dev->direct = !plain && can_direct(dev);
	endpoint_own_register(dev);
	dev->atomics = dev->rdma.attr.orig_attr.atomic_cap != IBV_ATOMIC_NONE;
	dev->in_order = xfer_loop_in_order(x, dev);
	spw_info("xfer: %s %s the bytes of a WRITE in order: small puts to it are %s", name,
		 dev->in_order ? "stores" : "does not promise to store",
		 dev->in_order ? "one WRITE with their flag" : "a WRITE and an atomic");
	return 0;
}

static void dev_close(struct xfer_dev *dev)
{
	xfer_loop_close(dev);
	if (dev->td) {
		ibv_dealloc_pd(dev->domain);
		ibv_dealloc_td(dev->td);
	}
	rdma_dev_close(&dev->rdma);
}

/* The descriptor of events is watched together with the sockets. Its epoll entry ends with the
 * descriptor. */
static int endpoint_watch(struct spw_xfer *x, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	return epoll_ctl(x->epoll_fd, EPOLL_CTL_ADD, fd, &ev)
		       ? spw_err(errno, "epoll_ctl: %s", strerror(errno))
		       : 0;
}

/* The files of a device that is gone report an error for ever. */
static void endpoint_unwatch(struct spw_xfer *x, const struct xfer_dev *dev)
{
	(void)epoll_ctl(x->epoll_fd, EPOLL_CTL_DEL, dev->rdma.ctx->async_fd, NULL);
	(void)epoll_ctl(x->epoll_fd, EPOLL_CTL_DEL, dev->rdma.channel->fd, NULL);
}

/* One that was found by itself and cannot be opened is left out. */
static int devs_open(struct spw_xfer *x, const char *rails, bool found)
{
	char text[RAILS_TEXT_MAX], *at = text, *name;
	int rc = 0;

	if (strlen(rails) >= sizeof(text))
		return spw_err(EINVAL, "rails=%.32s... is longer than %u characters", rails,
			       RAILS_TEXT_MAX - 1);
	strcpy(text, rails);
	while (!rc && (name = strsep(&at, "+"))) {
		if (x->dev_cnt == SPW_XFER_RAIL_MAX)
			return spw_err(EINVAL, "rails=%s names more than %u devices", rails,
				       SPW_XFER_RAIL_MAX);
		rc = endpoint_dev_open(x, name, &x->dev[x->dev_cnt]);
		if (rc && found) {
			xfer_leave_out(x, name, spw_err_text());
			rc = 0;
			continue;
		}
		if (rc)
			return spw_err_ctx(rc, "rail %s", *name ? name : "''");
		rc = endpoint_watch(x, x->dev[x->dev_cnt].rdma.ctx->async_fd);
		rc = rc ? rc : endpoint_watch(x, x->dev[x->dev_cnt].rdma.channel->fd);
		x->dev_cnt++;
	}
	return rc || x->dev_cnt ? rc : xfer_found_nothing(x);
}

int spw_xfer_open(const struct spw_xfer_conf *conf, struct spw_xfer **x_out)
{
	struct spw_xfer *x = calloc(1, sizeof(*x));
	uint8_t chance[SPW_OOB_NONCE_BYTES] = {0};
	char found[RAILS_TEXT_MAX];
	int rc;

	*x_out = NULL;
	if (!x)
		return spw_err(ENOMEM, "no memory for an endpoint");
	xfer_list_init(&x->conns);
	xfer_list_init(&x->listeners);
	xfer_list_init(&x->mems);
	xfer_list_init(&x->resolves);
	x->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	rc = x->epoll_fd < 0 ? spw_err(errno, "epoll_create1: %s", strerror(errno))
			     : take_conf(x, conf);
	rc = rc ? rc : spw_oob_nonce(chance);
	memcpy(x->export_key, chance, sizeof(x->export_key));
	if (!rc && !conf->rails)
		rc = xfer_find(x, conf->hca, found, sizeof(found));
	if (!rc)
		rc = devs_open(x, conf->rails ? conf->rails : found, !conf->rails);
	x->conf.rails = x->conf.hca = x->conf.bind = x->conf.secret = x->conf.gid = NULL;
	if (rc) {
		spw_xfer_close(x);
		return rc;
	}
	x->step_ms = SPW_MAX(SPW_MIN(x->conf.exchange_ms, x->conf.gone_ms) / WAIT_LOOKS, 1u);
	x->house_every_tsc = spw_tsc_from_ns(&x->dev[0].rdma.tsc, SPW_XFER_HOUSE_US * 1000ull);
	*x_out = x;
	return 0;
}

/* What the caller has not closed ends here; its pointers are of no use afterwards. */
void spw_xfer_close(struct spw_xfer *x)
{
	if (!x)
		return;
	while (x->conns.next != &x->conns)
		spw_xfer_conn_close(
			spw_container_of(x->conns.next, struct spw_xfer_conn, link_all));
	while (x->listeners.next != &x->listeners)
		spw_xfer_listener_close(
			spw_container_of(x->listeners.next, struct spw_xfer_listener, link));
	xfer_resolve_reap(x, true);
	while (x->mems.next != &x->mems)
		spw_xfer_mem_dereg(spw_container_of(x->mems.next, struct spw_xfer_mem, link));
	for (uint32_t i = 0; i < x->dev_cnt; i++)
		dev_close(&x->dev[i]);
	if (x->epoll_fd >= 0)
		close(x->epoll_fd);
	spw_log_limit_end(&x->limit);
	spw_oob_secret_wipe(&x->secret);
	free(x);
}

/* ---- the house ---- */

/* qp NULL: every rail on this device. Nothing is freed here, so the list stays as it is. */
static void on_rail(struct spw_xfer *x, uint32_t dev_idx, const struct ibv_qp *qp, const char *what)
{
	for (struct xfer_list *l = x->conns.next; l != &x->conns; l = l->next) {
		struct spw_xfer_conn *conn = spw_container_of(l, struct spw_xfer_conn, link_all);

		for (uint32_t i = 0; i < conn->rail_cnt; i++)
			if (conn->rail[i]->dev_idx == dev_idx && (!qp || conn->rail[i]->qp == qp))
				xfer_rail_fail(conn->rail[i], "%s", what);
	}
}

static void on_link_up(struct spw_xfer *x, uint32_t dev_idx)
{
	for (struct xfer_list *l = x->conns.next; l != &x->conns; l = l->next)
		xfer_round_link_up(spw_container_of(l, struct spw_xfer_conn, link_all), dev_idx);
}

/* QPs that an event named. They are destroyed only after the events were acknowledged:
 * ibv_destroy_qp waits for that. */
struct named {
	struct {
		const struct ibv_qp *qp;
		const char *what;
	} entry[EVENTS_MAX];
	uint32_t cnt;
};

/* A peer's request that the device refuses causes no completion, only one of these events. */
static void object_event(void *arg, const struct ibv_async_event *event)
{
	struct named *named = arg;

	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		if (named->cnt == EVENTS_MAX)
			return; /* the sender's completion shows it, too */
		named->entry[named->cnt].qp = event->element.qp;
		named->entry[named->cnt++].what = ibv_event_type_str(event->event_type);
		break;
	default:
		break;
	}
}

/* Rails fail after all events were read and acknowledged (struct named). */
static void dev_turn(struct spw_xfer *x, uint32_t idx)
{
	struct named named = {.cnt = 0};
	struct spw_port_event event[EVENTS_MAX];
	uint16_t n =
		rdma_dev_events_read(&x->dev[idx].rdma, object_event, &named, event, EVENTS_MAX);

	for (uint32_t i = 0; i < named.cnt; i++)
		on_rail(x, idx, named.entry[i].qp, named.entry[i].what);
	for (uint16_t i = 0; i < n; i++) {
		if (event[i].kind == SPW_PORT_EVENT_DEVICE_GONE) {
			spw_warn("xfer: %s", event[i].text);
			endpoint_unwatch(x, &x->dev[idx]);
		}
		x->dev[idx].link_up = event[i].kind == SPW_PORT_EVENT_LINK_UP;
		if (x->dev[idx].link_up)
			on_link_up(x, idx);
		else
			on_rail(x, idx, NULL, event[i].text);
	}
}

/* The epoll descriptor only says whether there is anything to look at; deadlines are looked at each
 * time. A connection may free itself in its turn, so the next one is read before. */
uint32_t xfer_house(struct spw_xfer *x)
{
	struct epoll_event ev[EVENTS_MAX];
	const uint64_t now_ms = xfer_clock_turn(x);
	const int n = epoll_wait(x->epoll_fd, ev, EVENTS_MAX, 0);
	struct xfer_list *next;

	x->house_tsc = spw_tsc_now() + x->house_every_tsc;
	xfer_resolve_reap(x, false);
	for (uint32_t i = 0; n > 0 && i < x->dev_cnt; i++) {
		dev_turn(x, i);
		xfer_channel_turn(&x->dev[i]);
	}
	for (struct xfer_list *l = x->listeners.next; l != &x->listeners; l = l->next)
		xfer_listener_turn(spw_container_of(l, struct spw_xfer_listener, link), now_ms,
				   n > 0);
	for (struct xfer_list *l = x->conns.next; l != &x->conns; l = next) {
		next = l->next;
		xfer_conn_turn(spw_container_of(l, struct spw_xfer_conn, link_all), now_ms, n > 0);
	}
	return n > 0 ? (uint32_t)n : 0;
}

uint32_t xfer_data_turn(struct spw_xfer *x)
{
	uint32_t n = 0;

	for (struct xfer_list *l = x->conns.next; l != &x->conns; l = l->next)
		n += xfer_conn_progress(spw_container_of(l, struct spw_xfer_conn, link_all));
	return n;
}

uint32_t spw_xfer_progress(struct spw_xfer *x)
{
	if (spw_unlikely((int64_t)(spw_tsc_now() - x->house_tsc) >= 0))
		xfer_house(x);
	return xfer_data_turn(x);
}
