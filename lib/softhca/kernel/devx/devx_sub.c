/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Subscriptions: which events of the device go to which file, and the event queue entries (EQE)
 * that they are.
 *
 *   the NIC raises          EQE type   number in it at         of
 *   a completion            00         38 cqn                  an armed CQ (its event 0)
 *   CQ_ERR                  04         20 cqn, 2b why          CQ
 *   QP_*, WQ_FATAL          events[]   38, kind at 34          RQ 1, SQ 2
 *   PORT_ACTIVE, PORT_ERR   09         28 port, 07 sub type    the device
 *
 *   subscribe ──► list of the object, or of the device ──► object destroyed: off that list
 *            └──► list of the file ─────────────────────► file ended: freed
 *
 * Events of verbs objects go to libibverbs (events.c) and to nobody here: a subscription names an
 * object of DEVX.
 *
 * Source: Linux include/linux/mlx5/device.h (struct mlx5_eqe and its types), drivers/infiniband/hw/
 * mlx5/devx.c (devx_event_notifier, and which types may be asked for when the general page has no
 * event_cap, as ours).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "softhca/hca_real.h"
#include "softhca/kernel/ctl.h"
#include "softhca/kernel/devx/devx.h"
#include "softhca/kernel/devx/devx_ev.h"

#define TYPES_MAX 16u /* of one call */

enum {
	EQE_COMP = 0x00,
	EQE_COMM_EST = 0x02,
	EQE_SQ_DRAINED = 0x03,
	EQE_CQ_ERROR = 0x04,
	EQE_WQ_CATAS_ERROR = 0x05,
	EQE_PORT_CHANGE = 0x09,
	EQE_WQ_INVAL_REQ_ERROR = 0x10,
	EQE_WQ_ACCESS_ERROR = 0x11,
	EQE_LAST_WQE = 0x13,
};
enum { PORT_DOWN = 1, PORT_UP = 4 }; /* sub types of PORT_CHANGE */
enum { KIND_RQ = 1, KIND_SQ = 2 };
#define CQ_OVERRUN 1u

static const uint8_t events[] = {
	[HCA_EVENT_CQ_ERR] = EQE_CQ_ERROR,
	[HCA_EVENT_QP_FATAL] = EQE_WQ_CATAS_ERROR,
	[HCA_EVENT_QP_REQ_ERR] = EQE_WQ_INVAL_REQ_ERROR,
	[HCA_EVENT_QP_ACCESS_ERR] = EQE_WQ_ACCESS_ERROR,
	[HCA_EVENT_COMM_EST] = EQE_COMM_EST,
	[HCA_EVENT_SQ_DRAINED] = EQE_SQ_DRAINED,
	[HCA_EVENT_QP_LAST_WQE_REACHED] = EQE_LAST_WQE,
	[HCA_EVENT_WQ_FATAL] = EQE_WQ_CATAS_ERROR,
};

/* ---- delivery ---- */

/* An eventfd whose count is at its limit would block the NIC thread: it is readable already. */
static void sub_signal(const struct devx_sub *s)
{
	const uint64_t one = 1;
	struct pollfd p = {.fd = s->event_fd, .events = POLLOUT};

	if (poll(&p, 1, 0) == 1 && p.revents & POLLOUT)
		real_write(s->event_fd, &one, sizeof(one));
}

static void sub_deliver(struct devx_sub *s, const uint8_t eqe[DEVX_EQE_BYTES])
{
	struct devx_file *f = s->file;
	struct devx_event *e;

	if (s->event_fd >= 0) {
		sub_signal(s);
		return;
	}
	e = devx_event_new(s->cookie, f->omit_data ? 0 : DEVX_EQE_BYTES);
	if (e && f->omit_data)
		e->sub = s;
	else if (e)
		memcpy(&e->data[1], eqe, DEVX_EQE_BYTES);
	devx_file_post(f, e);
}

static void eqe_dispatch(struct devx_sub *list, const uint8_t eqe[DEVX_EQE_BYTES])
{
	for (; list; list = list->next)
		if (list->type == devx_get(eqe, DEVX_EQE_TYPE))
			sub_deliver(list, eqe);
}

/* The card makes one for every armed CQ; here none is made for which nobody waits. */
void devx_event_comp(struct hca_cq *cq)
{
	uint8_t eqe[DEVX_EQE_BYTES] = {0};

	devx_put(eqe, DEVX_EQE_TYPE, EQE_COMP);
	devx_put(eqe, DEVX_EQE_NUMBER, cq->cqn);
	eqe_dispatch(cq->o.devx_subs, eqe);
}

void devx_event_object(struct hca_obj *o, enum hca_event type)
{
	uint8_t eqe[DEVX_EQE_BYTES] = {0};

	devx_put(eqe, DEVX_EQE_TYPE, events[type]);
	if (o->type == HCA_CQ) {
		devx_put(eqe, DEVX_EQE_CQ_ERR_CQN, ((struct hca_cq *)o)->cqn);
		devx_put(eqe, DEVX_EQE_CQ_ERR_SYNDROME, CQ_OVERRUN);
	} else {
		devx_put(eqe, DEVX_EQE_KIND, o->type == HCA_WQ ? KIND_RQ : KIND_SQ);
		devx_put(eqe, DEVX_EQE_NUMBER, devx_obj_number(o));
	}
	eqe_dispatch(o->devx_subs, eqe);
}

void devx_event_port(struct hca_dev *dev, enum hca_event type)
{
	uint8_t eqe[DEVX_EQE_BYTES] = {0};

	devx_put(eqe, DEVX_EQE_TYPE, EQE_PORT_CHANGE);
	devx_put(eqe, DEVX_EQE_SUB_TYPE, type == HCA_EVENT_PORT_ACTIVE ? PORT_UP : PORT_DOWN);
	devx_put(eqe, DEVX_EQE_PORT, 1);
	eqe_dispatch(dev->devx_subs, eqe);
}

/* ---- life ---- */

static void sub_detach(struct devx_sub *s)
{
	if (!s->at)
		return;
	*s->at = s->next;
	if (s->next)
		s->next->at = s->at;
	s->at = NULL;
}

void devx_subs_detach(struct hca_obj *o)
{
	while (o->devx_subs)
		sub_detach(o->devx_subs);
}

/* The one that was made last. */
static void sub_free_last(struct devx_file *f)
{
	struct devx_sub *s = f->subs;

	f->subs = s->file_next;
	sub_detach(s);
	real_close(s->event_fd);
	free(s);
}

void devx_subs_free(struct devx_file *f)
{
	while (f->subs)
		sub_free_last(f);
}

/* Those who came first get their event first. */
static void sub_attach(struct devx_sub *s, struct devx_sub **list)
{
	while (*list)
		list = &(*list)->next;
	s->at = list;
	*list = s;
	s->file_next = s->file->subs;
	s->file->subs = s;
}

/* ---- the method ---- */

/* Of an object all but a call's end and those of the device; of the device, its port. */
static bool type_ok(const struct hca_obj *o, uint16_t type)
{
	switch (type) {
	case EQE_PORT_CHANGE:
		return !o;
	case EQE_COMP ... EQE_WQ_CATAS_ERROR:
	case 0x07:                            /* a path did not migrate */
	case EQE_WQ_INVAL_REQ_ERROR ... 0x14: /* SRQs among them */
	case 0x18:                            /* an XRQ */
	case 0x1c ... 0x1d:                   /* DCTs */
		return o;
	default:
		return false;
	}
}

/* The types, as many as fit the attribute. */
static int sub_get_types(const struct uv_ioctl *io, const struct hca_obj *o,
			 uint16_t type_out[TYPES_MAX], uint32_t *cnt_out)
{
	const uint16_t id = MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST;
	const struct ib_uverbs_attr *a = uv_ioctl_attr(io, id);
	int rc = uv_attr_bytes(io, id, type_out, sizeof(type_out[0]),
			       TYPES_MAX * sizeof(type_out[0]));

	if (rc)
		return rc;
	if (a->len % sizeof(type_out[0]))
		return -EINVAL;
	*cnt_out = a->len / sizeof(type_out[0]);
	for (uint32_t i = 0; i < *cnt_out; i++)
		if (!type_ok(o, type_out[i]))
			return -EINVAL;
	return 0;
}

/* The object is optional. */
static int sub_get_object(const struct uv_ioctl *io, struct hca_obj **o_out)
{
	uint32_t handle;
	int rc;

	*o_out = NULL;
	if (!uv_ioctl_attr(io, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE))
		return 0;
	rc = uv_attr_handle(io, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE, &handle);
	if (rc)
		return rc;
	*o_out = hca_tbl_get(&io->ctx->objs, handle);
	if (!*o_out)
		return -ENOENT;
	return !(*o_out)->devx || (*o_out)->type == HCA_UMEM ? -EINVAL : 0;
}

static bool fd_is_eventfd(int fd)
{
	static const char name[] = "anon_inode:[eventfd]";
	char path[64], link[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, link, sizeof(link));
	return n == (ssize_t)sizeof(name) - 1 && memcmp(link, name, sizeof(name) - 1) == 0;
}

/* Either a cookie, which the file returns, or an eventfd, which is written to in its place. */
static int sub_get_target(const struct uv_ioctl *io, struct devx_sub *want)
{
	const bool has_fd = uv_ioctl_attr(io, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM);
	uint64_t fd;
	int rc;

	want->event_fd = -1;
	if (uv_ioctl_attr(io, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE)) {
		if (has_fd)
			return -EINVAL;
		return uv_attr_num(io, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE, UINT64_MAX,
				   &want->cookie);
	}
	if (!has_fd)
		return 0;
	rc = uv_attr_num(io, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM, UINT32_MAX, &fd);
	if (rc)
		return rc;
	want->event_fd = (int)fd;
	if (fd > INT32_MAX || fcntl((int)fd, F_GETFD) < 0)
		return -EBADF;
	return fd_is_eventfd((int)fd) ? 0 : -EINVAL;
}

/* The application may close its eventfd: each subscription has a copy of its own. */
static int sub_make(const struct devx_sub *want, uint16_t type, struct devx_sub **list)
{
	struct devx_sub *s = malloc(sizeof(*s));

	if (!s)
		return -ENOMEM;
	*s = *want;
	s->type = type;
	if (want->event_fd >= 0) {
		s->event_fd = fcntl(want->event_fd, F_DUPFD_CLOEXEC, 0);
		if (s->event_fd < 0) {
			free(s);
			return -EMFILE;
		}
	}
	sub_attach(s, list);
	return 0;
}

/* All types or none. No event comes between: the NIC needs the lock for it. */
int do_devx_subscribe(struct uv_ioctl *io)
{
	struct devx_sub want = {0};
	uint16_t type[TYPES_MAX];
	struct hca_obj *o;
	uint32_t cnt, i;
	int rc;

	want.file = devx_file_named(io, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE, false);
	if (!want.file)
		return -EBADF;
	rc = sub_get_object(io, &o);
	rc = rc ? rc : io->ctx->devx ? sub_get_target(io, &want) : -EINVAL;
	rc = rc ? rc : sub_get_types(io, o, type, &cnt);
	if (rc)
		return rc;
	for (i = 0; i < cnt && !rc; i++)
		rc = sub_make(&want, type[i], o ? &o->devx_subs : &io->ctx->dev->devx_subs);
	for (; rc && i > 1; i--)
		sub_free_last(want.file);
	return rc;
}
