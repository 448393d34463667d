/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The RES commands of NETLINK_RDMA: objects of a device, counted, one by its number, or all.
 * Source: Linux drivers/infiniband/core/nldev.c (fill_res_*, res_get_common_*).
 *
 *   message of a dump   DEV_INDEX  DEV_NAME  table [ entry [ ... ]  entry [ ... ] ... ]
 *
 * A table goes on in the next message when a datagram is full.
 */
#include <errno.h>
#include <linux/capability.h>
#include <string.h>

#include "softhca/kernel/ctl.h"
#include "softhca/kernel/nldev/nl_impl.h"

/* ---- entries ---- */

/* Keys are shown to administrators only. */
struct entry {
	struct nl_out *out;
	const struct nl_rows *rows; /* all of them */
	bool admin;
};

static void entry_pid(struct entry *e, const struct nl_row *r)
{
	if (r->pid)
		nl_u32(e->out, RDMA_NLDEV_ATTR_RES_PID, r->pid);
}

static void entry_pd(struct entry *e, const struct nl_row *r)
{
	if (e->admin)
		nl_u32(e->out, RDMA_NLDEV_ATTR_RES_LOCAL_DMA_LKEY, 0);
	nl_u64(e->out, RDMA_NLDEV_ATTR_RES_USECNT, r->use_cnt);
	nl_u32(e->out, RDMA_NLDEV_ATTR_RES_PDN, r->id);
	nl_u32(e->out, RDMA_NLDEV_ATTR_RES_CTXN, r->ctxn);
	entry_pid(e, r);
}

static void entry_cq(struct entry *e, const struct nl_row *r)
{
	nl_u32(e->out, RDMA_NLDEV_ATTR_RES_CQE, r->cqe);
	nl_u64(e->out, RDMA_NLDEV_ATTR_RES_USECNT, r->use_cnt);
	nl_u8(e->out, RDMA_NLDEV_ATTR_DEV_DIM, 0);
	nl_u32(e->out, RDMA_NLDEV_ATTR_RES_CQN, r->id);
	nl_u32(e->out, RDMA_NLDEV_ATTR_RES_CTXN, r->ctxn);
	entry_pid(e, r);
}

static void entry_qp(struct entry *e, const struct nl_row *r)
{
	const bool connected = r->type == IB_UVERBS_QPT_RC || r->type == IB_UVERBS_QPT_UC;

	if (r->port)
		nl_u32(e->out, RDMA_NLDEV_ATTR_PORT_INDEX, r->port);
	nl_u32(e->out, RDMA_NLDEV_ATTR_RES_LQPN, r->id);
	nl_u32(e->out, RDMA_NLDEV_ATTR_RES_PDN, r->pdn);
	entry_pid(e, r);
	if (connected) {
		nl_u32(e->out, RDMA_NLDEV_ATTR_RES_RQPN, r->rqpn);
		nl_u32(e->out, RDMA_NLDEV_ATTR_RES_RQ_PSN, r->rq_psn);
	}
	nl_u32(e->out, RDMA_NLDEV_ATTR_RES_SQ_PSN, r->sq_psn);
	if (connected)
		nl_u8(e->out, RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, r->mig_state);
	nl_u8(e->out, RDMA_NLDEV_ATTR_RES_TYPE, r->type);
	nl_u8(e->out, RDMA_NLDEV_ATTR_RES_STATE, r->state);
}

/* The kernel's attribute is as long as a sockaddr_storage. */
static void entry_addr(struct entry *e, uint16_t attr, const struct sockaddr_in6 *a)
{
	struct sockaddr_storage all = {0};

	if (!a->sin6_family)
		return;
	memcpy(&all, a, sizeof(*a));
	nl_put(e->out, attr, &all, sizeof(all));
}

static void entry_cm_id(struct entry *e, const struct nl_row *r)
{
	nl_u32(e->out, RDMA_NLDEV_ATTR_PORT_INDEX, r->port);
	if (r->qpn) {
		nl_u32(e->out, RDMA_NLDEV_ATTR_RES_LQPN, r->qpn);
		nl_u8(e->out, RDMA_NLDEV_ATTR_RES_TYPE, r->type);
	}
	nl_u32(e->out, RDMA_NLDEV_ATTR_RES_PS, r->ps);
	nl_u8(e->out, RDMA_NLDEV_ATTR_RES_STATE, r->state);
	entry_addr(e, RDMA_NLDEV_ATTR_RES_SRC_ADDR, &r->src);
	entry_addr(e, RDMA_NLDEV_ATTR_RES_DST_ADDR, &r->dst);
	nl_u32(e->out, RDMA_NLDEV_ATTR_RES_CM_IDN, r->id);
	entry_pid(e, r);
}

static void entry_mr(struct entry *e, const struct nl_row *r)
{
	if (e->admin) {
		nl_u32(e->out, RDMA_NLDEV_ATTR_RES_RKEY, r->key);
		nl_u32(e->out, RDMA_NLDEV_ATTR_RES_LKEY, r->key);
	}
	nl_u64(e->out, RDMA_NLDEV_ATTR_RES_MRLEN, r->bytes);
	nl_u32(e->out, RDMA_NLDEV_ATTR_RES_MRN, r->id);
	nl_u32(e->out, RDMA_NLDEV_ATTR_RES_PDN, r->pdn);
	entry_pid(e, r);
}

static void entry_mr_stat(struct entry *e, const struct nl_row *r)
{
	nl_u32(e->out, RDMA_NLDEV_ATTR_RES_MRN, r->id);
}

static void entry_ctx(struct entry *e, const struct nl_row *r)
{
	nl_u32(e->out, RDMA_NLDEV_ATTR_RES_CTXN, r->id);
	entry_pid(e, r);
}

static void entry_range(struct entry *e, uint32_t first, uint32_t last)
{
	const uint32_t at = nl_nest(e->out, RDMA_NLDEV_ATTR_RES_QP_ENTRY | NLA_F_NESTED);

	if (first == last) {
		nl_u32(e->out, RDMA_NLDEV_ATTR_RES_LQPN, first);
	} else {
		nl_u32(e->out, RDMA_NLDEV_ATTR_MIN_RANGE, first);
		nl_u32(e->out, RDMA_NLDEV_ATTR_MAX_RANGE, last);
	}
	nl_nest_end(e->out, at);
}

/* Its QPs, as ranges of numbers that follow each other. */
static void entry_srq(struct entry *e, const struct nl_row *srq)
{
	uint32_t table, first = 0, last = 0;

	nl_u32(e->out, RDMA_NLDEV_ATTR_RES_SRQN, srq->id);
	nl_u8(e->out, RDMA_NLDEV_ATTR_RES_TYPE, 0); /* IB_SRQT_BASIC */
	nl_u32(e->out, RDMA_NLDEV_ATTR_RES_PDN, srq->pdn);
	table = nl_nest(e->out, RDMA_NLDEV_ATTR_RES_QP | NLA_F_NESTED);
	for (uint32_t i = 0; i < e->rows->cnt; i++) {
		const struct nl_row *r = &e->rows->row[i];

		if (r->kind != NL_QP || r->dev != srq->dev || r->srqn != srq->id)
			continue;
		if (first && r->id != last + 1) {
			entry_range(e, first, last);
			first = 0;
		}
		first = first ? first : r->id;
		last = r->id;
	}
	if (first)
		entry_range(e, first, last);
	nl_nest_end(e->out, table);
	entry_pid(e, srq);
}

/* ---- kinds ---- */

struct kind {
	const char *name; /* in the summary */
	void (*fill)(struct entry *e, const struct nl_row *r);
	uint16_t op, table, entry;
	enum nl_arg number;
	bool of_port; /* one of them is asked for with a port, all others without */
};

static const struct kind kinds[NL_KINDS] = {
	[NL_PD] = {"pd", entry_pd, RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_ATTR_RES_PD,
		   RDMA_NLDEV_ATTR_RES_PD_ENTRY, NL_PDN, false},
	[NL_CQ] = {"cq", entry_cq, RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_ATTR_RES_CQ,
		   RDMA_NLDEV_ATTR_RES_CQ_ENTRY, NL_CQN, false},
	[NL_QP] = {"qp", entry_qp, RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP,
		   RDMA_NLDEV_ATTR_RES_QP_ENTRY, NL_LQPN, true},
	[NL_CM_ID] = {"cm_id", entry_cm_id, RDMA_NLDEV_CMD_RES_CM_ID_GET, RDMA_NLDEV_ATTR_RES_CM_ID,
		      RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY, NL_CM_IDN, true},
	[NL_MR] = {"mr", entry_mr, RDMA_NLDEV_CMD_RES_MR_GET, RDMA_NLDEV_ATTR_RES_MR,
		   RDMA_NLDEV_ATTR_RES_MR_ENTRY, NL_MRN, false},
	[NL_CTX] = {"ctx", entry_ctx, RDMA_NLDEV_CMD_RES_CTX_GET, RDMA_NLDEV_ATTR_RES_CTX,
		    RDMA_NLDEV_ATTR_RES_CTX_ENTRY, NL_CTXN, false},
	[NL_SRQ] = {"srq", entry_srq, RDMA_NLDEV_CMD_RES_SRQ_GET, RDMA_NLDEV_ATTR_RES_SRQ,
		    RDMA_NLDEV_ATTR_RES_SRQ_ENTRY, NL_SRQN, false},
};

/* What a command asks for; STAT_GET comes here for regions. */
static enum nl_kind nl_kind_of(uint16_t op)
{
	for (uint32_t i = 0; i < NL_KINDS; i++)
		if (kinds[i].op == op)
			return i;
	return NL_MR;
}

static bool row_is_wanted(const struct nl_row *r, const struct hca_dev *dev, enum nl_kind kind,
			  uint32_t port)
{
	return r->dev == dev->idx && r->kind == kind &&
	       (!port || !kinds[kind].of_port || r->port == port);
}

/* Returns: false: there is no such port; *port_out 0: none was named. */
static bool nl_port_of(const struct nl_call *c, uint32_t *port_out)
{
	*port_out = nl_has(&c->req, NL_PORT) ? c->req.arg[NL_PORT] : 0;
	return !nl_has(&c->req, NL_PORT) || *port_out == NL_THE_PORT;
}

/* ---- commands ---- */

int nl_res_one(struct nl_call *c)
{
	const enum nl_kind kind = nl_kind_of(c->op);
	const struct kind *k = &kinds[kind];
	const struct hca_dev *dev = nl_device(c);
	struct entry e = {&c->out, &c->rows, hca_capable(CAP_NET_ADMIN)};
	uint32_t port;

	if (!dev || !nl_has(&c->req, k->number) || !nl_port_of(c, &port) || !port == k->of_port)
		return -EINVAL;
	nl_rows_all(c->file->devs, c->file->dev_cnt, &c->rows);
	for (uint32_t i = 0; i < c->rows.cnt; i++) {
		const struct nl_row *r = &c->rows.row[i];

		if (!row_is_wanted(r, dev, kind, 0) || r->id != c->req.arg[k->number])
			continue;
		if (!row_is_wanted(r, dev, kind, port))
			return -EAGAIN;
		nl_answer(c, c->op, 0);
		nl_put_device(c, dev);
		k->fill(&e, r);
		return 0;
	}
	return -ENOENT;
}

static uint32_t nl_table_begin(struct nl_call *c, const struct hca_dev *dev, const struct kind *k)
{
	nl_answer(c, c->op, NLM_F_MULTI);
	nl_put_device(c, dev);
	return nl_nest(&c->out, k->table);
}

static void nl_table_end(struct nl_call *c, uint32_t table)
{
	nl_nest_end(&c->out, table);
	nl_end(&c->out);
	nl_flush(&c->out);
}

/* Returns: false: no room for it, and it is taken back. */
static bool nl_entry(struct nl_call *c, const struct kind *k, struct entry *e,
		     const struct nl_row *r)
{
	const uint32_t at = nl_nest(&c->out, k->entry);

	if (c->op == RDMA_NLDEV_CMD_STAT_GET)
		entry_mr_stat(e, r);
	else
		k->fill(e, r);
	nl_nest_end(&c->out, at);
	if (!c->out.full)
		return true;
	c->out.used = at;
	c->out.full = false;
	return false;
}

/* An entry that no datagram can hold ends the dump: an SRQ with some hundred ranges of QPs. */
static int nl_res_table(struct nl_call *c, const struct hca_dev *dev, uint32_t port)
{
	const enum nl_kind kind = nl_kind_of(c->op);
	const struct kind *k = &kinds[kind];
	struct entry e = {&c->out, &c->rows, hca_capable(CAP_NET_ADMIN)};
	uint32_t table = 0;
	bool open = false;

	for (uint32_t i = 0; i < c->rows.cnt; i++) {
		const struct nl_row *r = &c->rows.row[i];

		if (!row_is_wanted(r, dev, kind, port))
			continue;
		table = open ? table : nl_table_begin(c, dev, k);
		open = true;
		if (nl_entry(c, k, &e, r))
			continue;
		nl_table_end(c, table);
		table = nl_table_begin(c, dev, k);
		if (!nl_entry(c, k, &e, r))
			return -EMSGSIZE;
	}
	if (open)
		nl_table_end(c, table);
	return 0;
}

int nl_res_dump(struct nl_call *c)
{
	const struct hca_dev *dev = nl_device(c);
	uint32_t port;

	if (!dev || !nl_port_of(c, &port))
		return -EINVAL;
	nl_rows_all(c->file->devs, c->file->dev_cnt, &c->rows);
	return nl_res_table(c, dev, port);
}

/* ---- the summary ---- */

static void nl_fill_summary(struct nl_call *c, const struct hca_dev *dev, uint16_t flags)
{
	uint32_t table, entry;

	nl_answer(c, RDMA_NLDEV_CMD_RES_GET, flags);
	nl_put_device(c, dev);
	table = nl_nest(&c->out, RDMA_NLDEV_ATTR_RES_SUMMARY);
	for (uint32_t i = 0; i < NL_KINDS; i++) {
		uint64_t cnt = 0;

		for (uint32_t k = 0; k < c->rows.cnt; k++)
			cnt += row_is_wanted(&c->rows.row[k], dev, i, 0);
		entry = nl_nest(&c->out, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);
		nl_str(&c->out, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, kinds[i].name);
		nl_u64(&c->out, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, cnt);
		nl_nest_end(&c->out, entry);
	}
	nl_nest_end(&c->out, table);
}

int nl_res_get(struct nl_call *c)
{
	const struct hca_dev *dev = nl_device(c);

	if (dev)
		nl_rows_all(c->file->devs, c->file->dev_cnt, &c->rows);
	return nl_one(c, dev, nl_fill_summary);
}

int nl_res_get_dump(struct nl_call *c)
{
	nl_rows_all(c->file->devs, c->file->dev_cnt, &c->rows);
	return nl_dump_all(c, nl_fill_summary);
}
