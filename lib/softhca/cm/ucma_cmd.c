/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The commands of /dev/infiniband/rdma_cm: what they check of their structure, and what they
 * answer. What they do is in cm_id.c and cm_addr.c. ucma.c has the table that calls them.
 *
 * Answers that count events (destroy, leave, migrate) let librdmacm wait until the program has
 * acknowledged as many: a number too high, and rdma_destroy_id never returns. So an event counts
 * when GET_EVENT has handed it out, and what is purged unread never counts.
 *
 * What to know before changing it: a wrong structure is refused before its identifier is looked
 * for, in Linux's order, since programs are written by the errno that they got. Source: Linux
 * drivers/infiniband/core/ucma.c.
 */
#include <errno.h>
#include <string.h>

#include "softhca/cm/ucma_impl.h"
#include "softhca/kernel/ctl.h"

/* ---- identifiers ---- */

static int ucma_qp_type(const struct rdma_ucm_create_id *in, uint8_t *type_out)
{
	switch (in->ps) {
	case RDMA_PS_TCP:
		*type_out = IB_UVERBS_QPT_RC;
		return 0;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		*type_out = IB_UVERBS_QPT_UD;
		return 0;
	case RDMA_PS_IB:
		*type_out = in->qp_type;
		return in->qp_type >= IB_UVERBS_QPT_RC && in->qp_type <= IB_UVERBS_QPT_UD ? 0
											  : -EINVAL;
	default:
		return -EINVAL;
	}
}

int ucma_create(struct ucma_call *c)
{
	struct cm_id *id;
	uint8_t type;
	int rc = ucma_qp_type(&c->in.create, &type);

	if (rc)
		return rc;
	id = cm_id_new(c->file, c->in.create.uid, c->in.create.ps, type);
	if (!id)
		return -ENOMEM;
	c->out.id.id = id->handle;
	return 0;
}

/* Its groups and unread events go with it. */
void ucma_drop(struct cm_id *id)
{
	struct cm_mcast *m, *next;

	ucma_event_purge(id->file, id, NULL);
	for (m = cm_all.groups; m; m = next) {
		next = m->next;
		if (m->id == id)
			cm_addr_leave(m);
	}
	cm_id_drop(id);
}

/* librdmacm waits until the program has acknowledged as many events as are reported here. */
int ucma_destroy(struct ucma_call *c)
{
	struct cm_id *id;
	int rc = cm_id_find(c->file, c->in.destroy.id, &id);

	if (rc && rc != -EIO)
		return rc;
	c->out.destroy.events_reported = id->reported;
	ucma_drop(id);
	return 0;
}

int ucma_migrate(struct ucma_call *c)
{
	struct cm_id *id;
	int rc = cm_id_find(c->other, c->in.migrate.id, &id);

	if (rc)
		return rc;
	c->out.migrate.events_reported = id->reported;
	if (c->other != c->file)
		ucma_event_move(id, c->file);
	return 0;
}

/* ---- addresses ---- */

static union cm_addr ucma_addr(const void *from)
{
	union cm_addr a = {.in6 = {0}};

	memcpy(&a.sa.sa_family, from, sizeof(a.sa.sa_family));
	memcpy(&a, from, SPW_MIN(cm_addr_bytes(a.sa.sa_family), (uint32_t)sizeof(a)));
	return a;
}

/* In the old commands there is room for IPv6 and nothing longer. */
static bool ucma_addr_fits(const struct sockaddr_in6 *a)
{
	const uint32_t bytes = cm_addr_bytes(a->sin6_family);

	return bytes && bytes <= sizeof(*a);
}

int ucma_bind_ip(struct ucma_call *c)
{
	const union cm_addr a = ucma_addr(&c->in.bind_ip.addr);
	struct cm_id *id;
	int rc = ucma_addr_fits(&c->in.bind_ip.addr) ? cm_id_find(c->file, c->in.bind_ip.id, &id)
						     : -EINVAL;

	return rc ? rc : cm_addr_bind(id, &a);
}

int ucma_bind(struct ucma_call *c)
{
	const struct rdma_ucm_bind *in = &c->in.bind;
	const union cm_addr a = ucma_addr(&in->addr);
	struct cm_id *id;
	int rc;

	if (in->reserved || !in->addr_size || in->addr_size != cm_addr_bytes(a.sa.sa_family))
		return -EINVAL;
	rc = cm_id_find(c->file, in->id, &id);
	return rc ? rc : cm_addr_bind(id, &a);
}

int ucma_resolve_ip(struct ucma_call *c)
{
	const struct rdma_ucm_resolve_ip *in = &c->in.resolve_ip;
	const union cm_addr src = ucma_addr(&in->src_addr), dst = ucma_addr(&in->dst_addr);
	struct cm_id *id;
	int rc;

	if ((in->src_addr.sin6_family && !ucma_addr_fits(&in->src_addr)) ||
	    !ucma_addr_fits(&in->dst_addr))
		return -EINVAL;
	rc = cm_id_find(c->file, in->id, &id);
	return rc ? rc
		  : cm_addr_resolve(id, in->src_addr.sin6_family ? &src : NULL, &dst,
				    in->timeout_ms);
}

int ucma_resolve_addr(struct ucma_call *c)
{
	const struct rdma_ucm_resolve_addr *in = &c->in.resolve_addr;
	const union cm_addr src = ucma_addr(&in->src_addr), dst = ucma_addr(&in->dst_addr);
	struct cm_id *id;
	int rc;

	if (in->reserved || (in->src_size && in->src_size != cm_addr_bytes(src.sa.sa_family)) ||
	    !in->dst_size || in->dst_size != cm_addr_bytes(dst.sa.sa_family))
		return -EINVAL;
	rc = cm_id_find(c->file, in->id, &id);
	return rc ? rc : cm_addr_resolve(id, in->src_size ? &src : NULL, &dst, in->timeout_ms);
}

int ucma_resolve_route(struct ucma_call *c)
{
	struct cm_id *id;
	int rc = cm_id_find(c->file, c->in.route.id, &id);

	return rc ? rc : cm_id_route(id);
}

/* With a device librdmacm opens it, by the GUID; without one there is nothing to open yet. */
int ucma_query_route(struct ucma_call *c)
{
	struct rdma_ucm_query_route_resp *r = &c->out.route;
	struct cm_id *id;
	int rc = cm_id_find(c->file, c->in.query.id, &id);

	if (rc)
		return rc;
	memcpy(&r->src_addr, &id->src, cm_addr_bytes(id->src.sa.sa_family));
	memcpy(&r->dst_addr, &id->dst, cm_addr_bytes(id->dst.sa.sa_family));
	if (!id->dev)
		return 0;
	hca_node_guid(id->dev, (uint8_t *)&r->node_guid);
	r->port_num = 1;
	cm_id_path(id, &r->ib_route[0]);
	r->num_paths = r->ib_route[0].numb_path;
	return 0;
}

int ucma_query(struct ucma_call *c)
{
	struct rdma_ucm_query_addr_resp *r = &c->out.addr;
	struct cm_id *id;
	int rc = cm_id_find(c->file, c->in.query.id, &id);

	if (rc)
		return rc;
	if (c->in.query.option != RDMA_USER_CM_QUERY_ADDR)
		return -ENOSYS; /* who asks for these has bound an AF_IB address */
	r->src_size = (uint16_t)cm_addr_bytes(id->src.sa.sa_family);
	r->dst_size = (uint16_t)cm_addr_bytes(id->dst.sa.sa_family);
	memcpy(&r->src_addr, &id->src, r->src_size);
	memcpy(&r->dst_addr, &id->dst, r->dst_size);
	if (!id->dev)
		return 0;
	hca_node_guid(id->dev, (uint8_t *)&r->node_guid);
	r->port_num = 1;
	r->pkey = 0xffff;
	return 0;
}

/* ---- connections ---- */

int ucma_connect(struct ucma_call *c)
{
	struct cm_id *id;
	int rc = c->in.connect.conn_param.valid ? cm_id_find(c->file, c->in.connect.id, &id)
						: -EINVAL;

	return rc ? rc : cm_id_connect(id, &c->in.connect.conn_param);
}

int ucma_listen(struct ucma_call *c)
{
	struct cm_id *id;
	int rc = cm_id_find(c->file, c->in.listen.id, &id);

	return rc ? rc : cm_id_listen(id, c->in.listen.backlog);
}

/* From here on events of a new connection have somebody to go to. */
int ucma_accept(struct ucma_call *c)
{
	const struct rdma_ucm_accept *in = &c->in.accept;
	struct cm_id *id;
	int rc = cm_id_find(c->file, in->id, &id);

	rc = rc ? rc : cm_id_accept(id, in->conn_param.valid ? &in->conn_param : NULL);
	if (!rc && in->conn_param.valid)
		id->uid = in->uid;
	return rc;
}

int ucma_reject(struct ucma_call *c)
{
	struct cm_id *id;
	int rc = cm_id_find(c->file, c->in.reject.id, &id);

	return rc ? rc : cm_id_reject(id, &c->in.reject);
}

int ucma_disconnect(struct ucma_call *c)
{
	struct cm_id *id;
	int rc = cm_id_find(c->file, c->in.disconnect.id, &id);

	return rc ? rc : cm_id_disconnect(id);
}

int ucma_init_qp_attr(struct ucma_call *c)
{
	struct cm_id *id;
	int rc = cm_id_find(c->file, c->in.qp_attr.id, &id);

	return rc ? rc : cm_id_qp_attr(id, c->in.qp_attr.qp_state, &c->out.qp_attr);
}

int ucma_set_option(struct ucma_call *c)
{
	const struct rdma_ucm_set_option *in = &c->in.option;
	struct cm_id *id;
	int rc = cm_id_find(c->file, in->id, &id);

	return rc ? rc : cm_id_option(id, in->level, in->optname, c->value, in->optlen);
}

int ucma_notify(struct ucma_call *c)
{
	struct cm_id *id;
	int rc = cm_id_find(c->file, c->in.notify.id, &id);

	return rc ? rc : cm_id_notify(id, c->in.notify.event);
}

/* ---- multicast ---- */

static int ucma_join_group(struct ucma_call *c, uint32_t handle, uint64_t uid,
			   const union cm_addr *group)
{
	struct cm_mcast *m;
	struct cm_id *id;
	int rc = cm_id_find(c->file, handle, &id);

	rc = rc ? rc : cm_addr_join(id, group, uid, &m);
	if (!rc)
		c->out.id.id = m->handle;
	return rc;
}

int ucma_join_ip(struct ucma_call *c)
{
	const union cm_addr group = ucma_addr(&c->in.join_ip.addr);

	return ucma_addr_fits(&c->in.join_ip.addr)
		       ? ucma_join_group(c, c->in.join_ip.id, c->in.join_ip.uid, &group)
		       : -EINVAL;
}

int ucma_join(struct ucma_call *c)
{
	const struct rdma_ucm_join_mcast *in = &c->in.join;
	const union cm_addr group = ucma_addr(&in->addr);

	if (!in->addr_size || in->addr_size != cm_addr_bytes(group.sa.sa_family) ||
	    in->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED || in->addr_size > sizeof(group))
		return -EINVAL;
	return ucma_join_group(c, in->id, in->uid, &group);
}

/* The event of its join may still be unread: it goes with the membership. */
int ucma_leave(struct ucma_call *c)
{
	struct cm_mcast *m = hca_tbl_get(&cm_all.mcasts, c->in.destroy.id);

	if (!m)
		return -ENOENT;
	if (m->id->file != c->file)
		return -EINVAL;
	ucma_event_purge(c->file, NULL, m);
	c->out.destroy.events_reported = m->reported;
	cm_addr_leave(m);
	return 0;
}
