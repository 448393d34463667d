/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The communication manager: the lock, the tables, messages that leave, time.
 *
 *   application   write() --> ucma.c --> cm_id.c, cm_fsm.c --> queue of the device
 *   NIC thread    cm_round: queue --> QP 1 of the peer; neighbours of addresses being resolved
 *                 cm_rx:    message --> its connection, or a listener (cm_rx.c) --> event
 *                 cm_tick:  resends, the end of TIMEWAIT
 *
 * The life of an identifier:
 *
 *   cm_id_new    by CREATE_ID, or by a request; in a file, under a handle
 *   has_cm       from connect or request on: it has a connection, and messages find it
 *   unfetched    a request until its event is fetched: commands do not find it
 *   removed      its device has left: commands get EIO, nothing is sent
 *   cm_id_drop   by DESTROY_ID, or with its file: out of the file, one last message
 *   cm_id_free   at once, or when TIMEWAIT ends; only then the number is free
 *
 * Order of locks: device, then manager. A command therefore queues what it sends, and the NIC
 * thread, which has the device lock, sends it in its next round. OUT_MAX messages wait for it at
 * most: what does not fit is lost, as on a wire, and sent again in time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/spw_monotonic.h"
#include "softhca/cm/cm_impl.h"
#include "softhca/hca_quiet.h"
#include "softhca/hca_real.h"
#include "softhca/kernel/ctl.h"

#define OUT_MAX      256u
#define LOCK_WAIT_S  1
#define PSN_MASK     0xffffffu
#define QKEY_DEFAULT 0x01234567u /* Linux RDMA_UDP_QKEY */

struct cm_out {
	struct nic_mad to;
	uint8_t mad[CM_MAD_BYTES];
};

struct cm_all cm_all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	struct cm_out *ring; /* OUT_MAX; NULL until the first message */
	uint32_t head, tail;
} queue[HCA_DEV_MAX];

/* ---- the lock ---- */

void cm_enter(sigset_t *old)
{
	hca_quiet_lock(&lock, old);
}

void cm_exit(const sigset_t *old)
{
	hca_quiet_unlock(&lock, old);
}

/* The child has copies of the parent's descriptors. */
void ucma_forked(void)
{
	for (struct cm_id *id = cm_all.list; id; id = id->next)
		if (id->claim1)
			real_close(id->claim1 - 1);
	pthread_mutex_init(&lock, NULL);
	memset(&cm_all, 0, sizeof(cm_all));
	memset(queue, 0, sizeof(queue));
}

/* ---- messages that leave ---- */

/* Queued for the NIC thread: this thread may not have the device lock. */
static void out_put(struct hca_dev *dev, const struct nic_mad *to, const struct cm_msg *msg)
{
	struct cm_out *o;

	if (!queue[dev->idx].ring)
		queue[dev->idx].ring = calloc(OUT_MAX, sizeof(*o));
	if (!queue[dev->idx].ring || queue[dev->idx].tail - queue[dev->idx].head == OUT_MAX)
		return;
	o = &queue[dev->idx].ring[queue[dev->idx].tail++ % OUT_MAX];
	o->to = *to;
	cm_mad_build(msg, o->mad);
	spw_thr_store_rlx(&dev->cm_work, 1u);
}

/* Where the messages of a connection go. */
static struct nic_mad id_address(const struct cm_id *id)
{
	struct nic_mad to = {.sgid_index = id->sgid_index, .tclass = id->tos};

	memcpy(to.dgid, id->dgid, 16);
	return to;
}

void cm_id_send(struct cm_id *id, const struct cm_msg *msg)
{
	const struct nic_mad to = id_address(id);

	out_put(id->dev, &to, msg);
}

void cm_answer(struct hca_dev *dev, uint8_t sgid_index, const uint8_t dgid[16],
	       const struct cm_msg *msg)
{
	struct nic_mad to = {.sgid_index = sgid_index};

	memcpy(to.dgid, dgid, 16);
	out_put(dev, &to, msg);
}

/* Returns: how many were sent; the rest waits for room on the cable. */
static uint32_t out_drain(struct hca_dev *dev)
{
	uint32_t n = 0;

	while (queue[dev->idx].head != queue[dev->idx].tail) {
		const struct cm_out *o = &queue[dev->idx].ring[queue[dev->idx].head % OUT_MAX];

		if (!nic_mad_send(dev, &o->to, o->mad)) {
			spw_thr_store_rlx(&dev->cm_work, 1u);
			break;
		}
		queue[dev->idx].head++;
		n++;
	}
	return n;
}

/* ---- identifiers ---- */

static uint32_t id_random(void)
{
	uint32_t v;

	return getrandom(&v, sizeof(v), GRND_NONBLOCK) == sizeof(v) ? v
								    : (uint32_t)spw_monotonic_ns();
}

struct cm_id *cm_id_new(struct ucma_file *file, uint64_t uid, uint32_t ps, uint8_t qp_type)
{
	struct cm_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	if (hca_tbl_add(&cm_all.ids, id, 0, CM_ID_LOG2, &id->handle)) {
		free(id);
		return NULL;
	}
	if (!cm_all.operand)
		cm_all.operand = id_random() | 1u;
	id->file = file;
	id->uid = uid;
	id->ps = ps;
	id->qp_type = qp_type;
	id->src.sa.sa_family = id->dst.sa.sa_family = AF_INET;
	id->resolve_due_ms = CM_NEVER;
	id->fsm.due_ms = CM_NEVER;
	id->fsm.local_id = id->handle ^ cm_all.operand;
	id->psn = id_random() & PSN_MASK;
	id->qkey = QKEY_DEFAULT;
	id->fsm.tid = (uint64_t)cm_all.operand << 32 | ++cm_all.tid;
	id->next = cm_all.list;
	cm_all.list = id;
	return id;
}

void cm_id_free(struct cm_id *id)
{
	HCA_UNLINK(cm_all.list, id, next);
	hca_tbl_del(&cm_all.ids, id->handle);
	if (id->claim1)
		real_close(id->claim1 - 1);
	free(id);
}

/* In TIMEWAIT the number stays taken, for messages that are still on their way. */
void cm_id_drop(struct cm_id *id)
{
	struct cm_step step;

	id->file = NULL;
	if (id->has_cm && id->dev) {
		cm_fsm_close(&id->fsm, spw_monotonic_ms(), &step);
		cm_id_step(id, &step, NULL);
	}
	if (id->fsm.state != CM_TIMEWAIT)
		cm_id_free(id);
}

int cm_id_find(struct ucma_file *file, uint32_t handle, struct cm_id **id_out)
{
	struct cm_id *id = hca_tbl_get(&cm_all.ids, handle);

	if (!id || !id->file || id->unfetched)
		return -ENOENT;
	if (id->file != file)
		return -EINVAL;
	*id_out = id;
	return id->removed ? -EIO : 0;
}

/* ---- events of a connection ---- */

/* Private data comes whole, with zeros behind what the peer sent: no message has its length. What
 * the peer can serve is what this side may ask for, and the other way round. */
void cm_event_conn(struct rdma_ucm_conn_param *p, const struct cm_msg *m, uint32_t skip)
{
	p->private_data_len = (uint8_t)(cm_mad_priv_bytes(m->attr) - skip);
	memcpy(p->private_data, m->priv + skip, p->private_data_len);
	if (m->attr == CM_REJ)
		return;
	p->responder_resources = (uint8_t)m->initiator_depth;
	p->initiator_depth = (uint8_t)m->responder_resources;
	p->flow_control = (uint8_t)m->flow_control;
	p->retry_count = (uint8_t)m->retry_cnt; /* 0 in a REP, which has none */
	p->rnr_retry_count = (uint8_t)m->rnr_retry;
	p->srq = (uint8_t)m->srq;
	p->qp_num = m->qpn;
}

/* Of a service that refused, the reason is all there is. */
static void event_ud(struct rdma_ucm_ud_param *p, const struct cm_id *id, const struct cm_msg *m)
{
	p->private_data_len = (uint8_t)cm_mad_priv_bytes(m->attr);
	memcpy(p->private_data, m->priv, p->private_data_len);
	if (m->reason != CM_SIDR_SUCCESS)
		return;
	cm_id_ah(id, &p->ah_attr);
	p->qp_num = m->qpn;
	p->qkey = m->qkey;
}

/* An identifier gets events while it connects, and of the end of TIMEWAIT once it is disconnected
 * (Linux cma.c, cma_ib_handler). */
static bool event_is_wanted(struct cm_id *id, enum cm_event event)
{
	if (!id->file)
		return false;
	if (id->state != (event == CM_EV_TIMEWAIT_EXIT ? CM_ID_DISCONNECT : CM_ID_CONNECT))
		return false;
	if (event == CM_EV_DISCONNECTED)
		id->state = CM_ID_DISCONNECT;
	return id->uid;
}

void cm_id_step(struct cm_id *id, const struct cm_step *step, const struct cm_msg *m)
{
	struct ucma_event *e;

	if (step->sends)
		cm_id_send(id, &step->msg);
	if (step->event == CM_EV_NONE || !event_is_wanted(id, step->event))
		return;
	e = ucma_event_new(id, step->event, step->status);
	if (!e)
		return;
	if (m && (m->attr == CM_REP || m->attr == CM_REJ))
		cm_event_conn(&e->resp.param.conn, m, 0);
	else if (m && m->attr == CM_SIDR_REP)
		event_ud(&e->resp.param.ud, id, m);
	(void)ucma_event_put(e);
}

/* ---- what the NIC thread calls ---- */

void cm_rx(struct hca_dev *dev, const uint8_t from[16], const uint8_t to[16], const uint8_t *mad)
{
	struct cm_arrival a = {.dev = dev, .from = from};

	if (!cm_mad_parse(mad, &a.m))
		return;
	a.sgid_index = memcmp(to, dev->gid[3], 16) == 0 ? 3 : 1;
	pthread_mutex_lock(&lock);
	if (cm_all.devs) /* a process without rdma_cm has no manager */
		cm_rx_message(&a);
	pthread_mutex_unlock(&lock);
}

uint32_t cm_round(struct hca_dev *dev)
{
	uint32_t n;

	pthread_mutex_lock(&lock);
	spw_thr_store_rlx(&dev->cm_work, 0u);
	for (struct cm_id *id = cm_all.list; id; id = id->next)
		if (id->dev == dev && id->state == CM_ID_ADDR_QUERY)
			cm_addr_retry(id, spw_monotonic_ms());
	n = out_drain(dev);
	pthread_mutex_unlock(&lock);
	return n;
}

/* The device has left: its identifiers get the event, and every later command EIO. */
static void tick_removed(struct cm_id *id)
{
	struct ucma_event *e = id->uid ? ucma_event_new(id, CM_EV_DEVICE_REMOVAL, 0) : NULL;

	id->removed = true;
	id->fsm.due_ms = CM_NEVER;
	if (e)
		(void)ucma_event_put(e);
}

static void tick_id(struct cm_id *id, uint64_t now_ms)
{
	struct cm_step step;

	if (id->state == CM_ID_ADDR_QUERY)
		cm_addr_retry(id, now_ms);
	if (now_ms < id->fsm.due_ms)
		return;
	cm_fsm_tick(&id->fsm, now_ms, &step);
	cm_id_step(id, &step, NULL);
	if (!id->file && id->fsm.state != CM_TIMEWAIT)
		cm_id_free(id);
}

void cm_tick(struct hca_dev *dev)
{
	const uint64_t now_ms = spw_monotonic_ms();
	const bool gone = hca_is_gone(dev);
	struct cm_id *id, *next;

	if (!spw_thr_load_rlx(&cm_all.devs))
		return;
	pthread_mutex_lock(&lock);
	for (id = cm_all.list; id; id = next) {
		next = id->next;
		if (id->dev != dev)
			continue;
		if (gone && id->file && !id->removed)
			tick_removed(id);
		else
			tick_id(id, now_ms);
	}
	pthread_mutex_unlock(&lock);
}

/* ---- the end ---- */

static bool cm_lock_leaving(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += LOCK_WAIT_S;
	return pthread_mutex_clocklock(&lock, CLOCK_MONOTONIC, &until) == 0;
}

/* Sent at once: there will be no other round. */
void cm_leave(struct hca_dev *dev)
{
	struct cm_step step;

	if (!spw_thr_load_rlx(&cm_all.devs) || !cm_lock_leaving())
		return;
	(void)out_drain(dev);
	for (struct cm_id *id = cm_all.list; id; id = id->next) {
		const struct nic_mad to = id_address(id);
		uint8_t mad[CM_MAD_BYTES];

		if (id->dev != dev || !id->has_cm)
			continue;
		cm_fsm_close(&id->fsm, spw_monotonic_ms(), &step);
		if (!step.sends)
			continue;
		cm_mad_build(&step.msg, mad);
		(void)nic_mad_send(dev, &to, mad);
	}
	pthread_mutex_unlock(&lock);
}
