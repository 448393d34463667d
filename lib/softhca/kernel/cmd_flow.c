/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Commands on flow rules: folds the specs of a request into one value and mask (hca_flow.h). The
 * NIC matches frames against dev->flows, which stays sorted by priority (nic/eth/flow.c). Source:
 * Linux drivers/infiniband/core/uverbs_cmd.c (create_flow), ibv_create_flow(3).
 *
 *   request: attr | spec | spec | ...     each spec: type, size, value, mask
 *      specs_read --> spec_match_add --> spec_filter_put: one value and one mask per header
 *   dev->flows --> rule (priority 0, oldest) --> rule --> ...        in this order
 *
 * A field that the NIC does not compare is refused, never ignored: a rule that matches more than it
 * names would take frames from others.
 */
#include <errno.h>
#include <linux/capability.h>
#include <string.h>

#include "softhca/hca_flow.h"
#include "softhca/kernel/cmd.h"
#include "softhca/kernel/ctl.h"

#define SPEC_ETH         0x20u
#define SPEC_IPV4        0x30u
#define SPEC_IPV6        0x31u
#define SPEC_TCP         0x40u
#define SPEC_UDP         0x41u
#define SPEC_ACTION_TAG  0x1000u
#define SPEC_ACTION_DROP 0x1001u
#define SPECS_MAX        10u
#define PRIORITY_CNT     16u
#define TAG_MAX          0xffffffu
enum { FLAG_DONT_TRAP = 2, FLAG_EGRESS = 4, FLAG_ALL = 6 };

/* Copies value and mask of one spec; the value is masked. The filter of an older or newer library
 * may be shorter or longer than ours; mask bytes beyond ours must be 0. */
static int spec_filter_put(void *val, void *mask, const struct ib_uverbs_flow_spec_hdr *h,
			   size_t bytes)
{
	size_t sent = (h->size - sizeof(*h)) / 2;
	const uint8_t *v = (const uint8_t *)h + sizeof(*h), *m = v + sent;
	uint8_t *vo = val, *mo = mask;

	if (!sent || h->size != sizeof(*h) + 2 * sent)
		return -EINVAL;
	for (size_t i = 0; i < sent; i++) {
		if (i >= bytes && m[i])
			return -EOPNOTSUPP;
		if (i < bytes) {
			mo[i] = m[i];
			vo[i] = v[i] & m[i];
		}
	}
	return 0;
}

#define PUT(f, h, member)                                                     \
	spec_filter_put(&(f)->match.val.member, &(f)->match.mask.member, (h), \
			sizeof((f)->match.val.member))

/* One network header per rule. Fields that the NIC does not compare are EOPNOTSUPP unless their
 * mask is 0. */
static int spec_l3(struct hca_flow *f, const struct ib_uverbs_flow_spec_hdr *h)
{
	int rc;

	if (f->match.l3)
		return -EINVAL;
	if (h->type == SPEC_IPV4) {
		f->match.l3 = FLOW_L3_IPV4;
		rc = PUT(f, h, ipv4);
		return !rc && (f->match.mask.ipv4.ttl || f->match.mask.ipv4.flags) ? -EOPNOTSUPP
										   : rc;
	}
	f->match.l3 = FLOW_L3_IPV6;
	rc = PUT(f, h, ipv6);
	return !rc && f->match.mask.ipv6.hop_limit ? -EOPNOTSUPP : rc;
}

static int spec_match_add(struct hca_flow *f, const struct ib_uverbs_flow_spec_hdr *h)
{
	const struct ib_uverbs_flow_spec_action_tag *tag = (const void *)h;

	switch (h->type) {
	case SPEC_ETH:
		return PUT(f, h, eth);
	case SPEC_IPV4:
	case SPEC_IPV6:
		return spec_l3(f, h);
	case SPEC_TCP:
	case SPEC_UDP:
		if (f->match.l4)
			return -EINVAL;
		f->match.l4 = h->type == SPEC_TCP ? FLOW_L4_TCP : FLOW_L4_UDP;
		return PUT(f, h, l4);
	case SPEC_ACTION_TAG:
		if (h->size != sizeof(*tag) || tag->tag_id > TAG_MAX)
			return -EINVAL;
		f->tag = tag->tag_id;
		return 0;
	case SPEC_ACTION_DROP:
		f->drop = true;
		return h->size == sizeof(*h) ? 0 : -EINVAL;
	default: /* tunnels, counters, actions */
		return -EOPNOTSUPP;
	}
}

/* num_of_specs and the sizes inside must agree with attr->size, and that with what the application
 * sent (room): all three are the application's numbers. Each spec begins at a multiple of 8. */
static int specs_read(struct hca_flow *f, const struct ib_uverbs_flow_attr *attr, uint32_t room)
{
	const uint8_t *at = (const uint8_t *)(attr + 1);
	uint32_t left = attr->size;
	int rc = 0;

	if (left > room)
		return -EINVAL;
	for (uint32_t i = 0; i < attr->num_of_specs && !rc; i++) {
		const struct ib_uverbs_flow_spec_hdr *h = (const void *)at;

		if (left < sizeof(*h) || h->size < sizeof(*h) || h->size > left || h->reserved)
			return -EINVAL;
		rc = spec_match_add(f, h);
		at += SPW_ALIGN_UP((uint32_t)h->size, 8u);
		left -= SPW_MIN(left, SPW_ALIGN_UP((uint32_t)h->size, 8u));
	}
	return rc ? rc : left ? -EINVAL : 0;
}

/* What Linux refuses, what mlx5 does not have, and priorities without a table. */
static int flow_attr_check(const struct ib_uverbs_flow_attr *a)
{
	bool dflt = a->type == FLOW_ALL_DEFAULT || a->type == FLOW_MC_DEFAULT;

	if (a->type > FLOW_SNIFFER || a->flags & ~(uint32_t)FLAG_ALL ||
	    a->num_of_specs > SPECS_MAX || a->port != 1)
		return -EINVAL;
	if (a->flags & FLAG_EGRESS)
		return -EOPNOTSUPP;
	if (dflt && (a->flags & FLAG_DONT_TRAP || a->num_of_specs))
		return -EINVAL;
	return a->priority >= PRIORITY_CNT ? -ENOMEM : 0; /* as mlx5, which has no table for it */
}

/* Behind all rules of the same priority: of two that match, the older one wins. */
static void flow_insert(struct hca_dev *dev, struct hca_flow *f)
{
	struct hca_flow **at = &dev->flows;

	while (*at && (*at)->priority <= f->priority)
		at = &(*at)->next;
	f->next = *at;
	*at = f;
}

/* Steering takes frames from others, so it needs CAP_NET_RAW, as in Linux. The rule is visible to
 * the NIC as soon as the lock is released. */
int cmd_ex_create_flow(struct uv_call *c)
{
	const struct ib_uverbs_create_flow *req = c->in;
	struct ib_uverbs_create_flow_resp *resp = c->out;
	struct hca_qp *qp = hca_obj_find(c->ctx, HCA_QP, req->qp_handle);
	struct hca_flow *f;
	int rc = flow_attr_check(&req->flow_attr);

	if (req->comp_mask)
		return -EINVAL;
	if (!hca_capable(CAP_NET_RAW))
		return -EPERM;
	if (!qp)
		return -EINVAL;
	if (qp->qp_type != IB_UVERBS_QPT_RAW_PACKET)
		return qp->qp_type == IB_UVERBS_QPT_UD ? -EOPNOTSUPP : -EINVAL;
	if (rc)
		return rc;
	f = hca_obj_new(c->ctx, HCA_FLOW, sizeof(*f), 0);
	if (!f)
		return -ENOMEM;
	f->tir = &qp->tir;
	f->type = (uint8_t)req->flow_attr.type;
	f->priority = req->flow_attr.priority;
	f->dont_trap = req->flow_attr.flags & FLAG_DONT_TRAP;
	rc = specs_read(f, &req->flow_attr, c->in_bytes - (uint32_t)sizeof(*req));
	if (rc) {
		hca_obj_free(&f->o);
		return rc;
	}
	f->tir->o.use_cnt++;
	flow_insert(c->ctx->dev, f);
	resp->flow_handle = f->o.handle;
	return 0;
}

/* Out of the list first: the next frame is not matched against it. */
void hca_flow_free(struct hca_obj *o)
{
	struct hca_flow *f = (struct hca_flow *)o;

	HCA_UNLINK(o->ctx->dev->flows, f, next);
	f->tir->o.use_cnt--;
	hca_obj_free(o);
}

/* A rule raises no events, so there is nothing to wait for. */
int cmd_ex_destroy_flow(struct uv_call *c)
{
	const struct ib_uverbs_destroy_flow *req = c->in;
	struct hca_obj *f;
	int rc;

	if (req->comp_mask)
		return -EINVAL;
	rc = hca_obj_find_destroy(c->ctx, HCA_FLOW, req->flow_handle, &f);
	if (!rc)
		hca_flow_free(f);
	return rc;
}
