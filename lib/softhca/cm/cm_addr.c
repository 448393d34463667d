/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Addresses of identifiers: which device an address is on, ports, the resolution of a target, and
 * multicast groups.
 *
 * An address is a device's if it is its GID (IPv4-mapped, or link-local). A target without a source
 * is on the device in whose network it lies: the longest common prefix, NET_BITS at least, since
 * --ip has no prefix of its own. Its neighbour's MAC is then asked for by the NIC thread until it
 * answers or the time is over:
 *
 *   cm_addr_resolve   bind, choose the device --> CM_ID_ADDR_QUERY
 *   cm_addr_retry     nic_resolve: 0 --> ADDR_RESOLVED; -EAGAIN --> again; else ADDR_ERROR
 *
 * Errors of an address: -EADDRNOTAVAIL: nobody here has it; -ENODEV: an interface without a device
 * of ours has it, or no device has the target's network; -ETIMEDOUT: the target does not answer.
 *
 * Source: Linux drivers/infiniband/core/cma.c (states, errno, ports, the header of a request), and
 * core/addr.c. Annex A11 (service ids, the header).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/capability.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/spw_monotonic.h"
#include "prm/spw_prm.h"
#include "softhca/cm/cm_impl.h"
#include "softhca/hca_real.h"
#include "softhca/kernel/ctl.h"

#define NET_BITS       16u
#define PORT_FIRST     32768u /* Linux net.ipv4.ip_local_port_range */
#define PORT_LAST      60999u
#define PORT_ORDINARY  1024u
#define MLID           0xc000u
#define QPN_GROUP      0xffffffu
#define SIZE_AF_IB     48u
#define FAMILY_IB      27u /* AF_IB */
#define SGID_V4        3u  /* RoCE v2 */
#define SGID_LINKLOCAL 1u

uint32_t cm_addr_bytes(uint32_t family)
{
	return family == AF_INET     ? sizeof(struct sockaddr_in)
	       : family == AF_INET6  ? sizeof(struct sockaddr_in6)
	       : family == FAMILY_IB ? SIZE_AF_IB
				     : 0;
}

/* Loopback addresses too, as in Linux (cma_any_addr): no device has them, so they mean this
 * machine. */
bool cm_addr_is_any(const union cm_addr *a)
{
	const uint32_t ip4 = ntohl(a->in.sin_addr.s_addr);

	return a->sa.sa_family == AF_INET ? !ip4 || ip4 >> 24 == IN_LOOPBACKNET
					  : IN6_IS_ADDR_UNSPECIFIED(&a->in6.sin6_addr) ||
						    IN6_IS_ADDR_LOOPBACK(&a->in6.sin6_addr);
}

in_port_t *cm_addr_port(union cm_addr *a)
{
	return a->sa.sa_family == AF_INET ? &a->in.sin_port : &a->in6.sin6_port;
}

void cm_addr_gid(const union cm_addr *a, uint8_t gid[16])
{
	if (a->sa.sa_family == AF_INET6) {
		memcpy(gid, &a->in6.sin6_addr, 16);
		return;
	}
	memset(gid, 0, 16);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, &a->in.sin_addr, 4);
}

/* The address of a GID, with the port of what is there. */
static void addr_from_gid(union cm_addr *a, const uint8_t gid[16])
{
	const in_port_t port = *cm_addr_port(a);

	memset(a, 0, sizeof(*a));
	if (hca_gid_is_ip4(gid)) {
		a->in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port};
		memcpy(&a->in.sin_addr, gid + 12, 4);
	} else {
		a->in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = port};
		memcpy(&a->in6.sin6_addr, gid, 16);
	}
}

static bool addr_same_host(const union cm_addr *a, const union cm_addr *b)
{
	uint8_t x[16], y[16];

	cm_addr_gid(a, x);
	cm_addr_gid(b, y);
	return a->sa.sa_family == b->sa.sa_family && memcmp(x, y, 16) == 0;
}

/* ---- devices ---- */

/* Addresses of IPv6 are link-local: a device has no others. */
static uint8_t addr_sgid_index(const union cm_addr *a)
{
	return a->sa.sa_family == AF_INET ? SGID_V4 : SGID_LINKLOCAL;
}

/* The device that has the address itself. */
static struct hca_dev *addr_owner(const union cm_addr *a)
{
	uint8_t gid[16];

	cm_addr_gid(a, gid);
	for (uint32_t i = 0; i < cm_all.dev_cnt; i++) {
		struct hca_dev *dev = &cm_all.devs[i];

		if (!hca_is_gone(dev) && memcmp(dev->gid[addr_sgid_index(a)], gid, 16) == 0)
			return dev;
	}
	return NULL;
}

static uint32_t gid_common_bits(const uint8_t a[16], const uint8_t b[16])
{
	uint32_t i = 0;

	while (i < 16 && a[i] == b[i])
		i++;
	return i == 16 ? 128 : i * 8 + (uint32_t)__builtin_clz((uint32_t)(a[i] ^ b[i])) - 24;
}

/* The device in whose network the target is; NULL: none. */
static struct hca_dev *addr_route(const union cm_addr *dst)
{
	const uint32_t index = addr_sgid_index(dst);
	uint32_t best = index == SGID_V4 ? 96 + NET_BITS : 64;
	struct hca_dev *found = NULL;
	uint8_t gid[16];

	cm_addr_gid(dst, gid);
	for (uint32_t i = 0; i < cm_all.dev_cnt; i++) {
		struct hca_dev *dev = &cm_all.devs[i];
		const uint32_t bits = gid_common_bits(dev->gid[index], gid);

		if (hca_is_gone(dev) || bits < best)
			continue;
		best = bits + 1; /* the first of equals */
		found = dev;
	}
	return found;
}

static bool addr_is_group(const union cm_addr *a)
{
	uint8_t gid[16];

	cm_addr_gid(a, gid);
	return gid[0] == 0xff || hca_gid_is_ip4_group(gid);
}

/* The machine's other interfaces have no RDMA device; an address of nobody here is another error.
 */
static int addr_not_ours(const union cm_addr *a)
{
	union cm_addr at = *a;
	int fd = socket(a->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc = -EADDRNOTAVAIL;

	*cm_addr_port(&at) = 0;
	if (fd >= 0 && bind(fd, &at.sa, cm_addr_bytes(a->sa.sa_family)) == 0)
		rc = -ENODEV;
	real_close(fd);
	return rc;
}

/* ---- ports ---- */

/* Two identifiers share a port if their addresses differ, or both allow it and none listens. The
 * errors are those of Linux. */
static int port_conflict(struct cm_id *a, struct cm_id *b, bool listens)
{
	if (a == b || !b->file || b->state == CM_ID_IDLE || a->ps != b->ps ||
	    *cm_addr_port(&a->src) != *cm_addr_port(&b->src) || b->has_cm)
		return 0;
	if (a->reuse && b->reuse && !listens && b->state != CM_ID_LISTEN)
		return 0;
	if (a->src.sa.sa_family != b->src.sa.sa_family && (a->afonly || b->afonly))
		return 0;
	if (cm_addr_is_any(&a->src) || cm_addr_is_any(&b->src))
		return -EADDRNOTAVAIL;
	return addr_same_host(&a->src, &b->src) ? -EADDRINUSE : 0;
}

/* Looks through all identifiers: commands are rare. */
static int port_find_conflict(struct cm_id *id, bool listens)
{
	int rc = 0;

	for (struct cm_id *b = cm_all.list; b && !rc; b = b->next)
		rc = port_conflict(id, b, listens);
	return rc;
}

/* Port 0: the next free one of the range that Linux takes them from. */
static int port_take(struct cm_id *id)
{
	static uint32_t next;
	const uint32_t cnt = PORT_LAST - PORT_FIRST + 1;
	in_port_t *port = cm_addr_port(&id->src);

	if (*port) {
		if (ntohs(*port) < PORT_ORDINARY && !hca_capable(CAP_NET_BIND_SERVICE))
			return -EACCES;
		return port_find_conflict(id, false);
	}
	if (!next)
		next = cm_all.operand;
	for (uint32_t i = 0; i < cnt; i++) {
		*port = htons((uint16_t)(PORT_FIRST + next++ % cnt));
		if (!port_find_conflict(id, false))
			return 0;
	}
	*port = 0;
	return -EADDRNOTAVAIL;
}

/* ---- the other processes of the machine ---- */

/* A listener is known to them by an abstract socket of its name, which goes with its process.
 * 0.0.0.0 and :: are one name: any. */
static socklen_t machine_name(struct sockaddr_un *un, uint64_t service_id, const union cm_addr *a)
{
	uint8_t gid[16] = {0};
	int n;

	if (!cm_addr_is_any(a))
		cm_addr_gid(a, gid);
	*un = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(
		un->sun_path + 1, sizeof(un->sun_path) - 1, "spinwire-cm-%llx-%llx-%016llx%016llx",
		(unsigned long long)cm_all.devs->cfg->machine, (unsigned long long)service_id,
		(unsigned long long)spw_prm_ld64(gid), (unsigned long long)spw_prm_ld64(gid + 8));
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* Returns: a descriptor; -EADDRINUSE: another process has the name; -1: there are no others. */
static int machine_claim(uint64_t service_id, const union cm_addr *a)
{
	struct sockaddr_un un;
	socklen_t bytes;
	int fd, rc;

	if (!cm_all.devs->cfg->machine)
		return -1;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bytes = machine_name(&un, service_id, a);
	if (fd < 0 || bind(fd, (struct sockaddr *)&un, bytes) == 0)
		return fd;
	rc = errno == EADDRINUSE ? -EADDRINUSE : -1;
	real_close(fd);
	return rc;
}

/* The name is given back at once: a question must not keep it from a listener. */
static bool machine_has(uint64_t service_id, const union cm_addr *a)
{
	const int fd = machine_claim(service_id, a);

	if (fd >= 0)
		real_close(fd);
	return fd == -EADDRINUSE;
}

bool cm_addr_is_taken(uint64_t service_id, const union cm_addr *to)
{
	const union cm_addr any = {.sa.sa_family = AF_INET};

	return machine_has(service_id, &any) || machine_has(service_id, to);
}

int cm_addr_listen(struct cm_id *id)
{
	int rc = port_find_conflict(id, true), fd;

	if (rc)
		return rc;
	fd = machine_claim(cm_addr_service(id, &id->src), &id->src);
	if (fd == -EADDRINUSE)
		return cm_addr_is_any(&id->src) ? -EADDRNOTAVAIL : fd;
	id->claim1 = SPW_MAX(fd, -1) + 1;
	return 0;
}

/* With any address the device stays open: a listener is then one of all devices. */
int cm_addr_bind(struct cm_id *id, const union cm_addr *src)
{
	const union cm_addr before = id->src;
	struct hca_dev *dev = NULL;
	int rc;

	if (src->sa.sa_family != AF_INET && src->sa.sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	if (id->state != CM_ID_IDLE)
		return -EINVAL;
	if (!cm_addr_is_any(src)) {
		dev = addr_owner(src);
		if (!dev)
			return addr_not_ours(src);
	}
	id->src = *src;
	rc = port_take(id);
	if (rc) {
		id->src = before;
		return rc;
	}
	id->dev = dev;
	id->sgid_index = addr_sgid_index(src);
	id->dst.sa.sa_family = src->sa.sa_family;
	id->state = CM_ID_ADDR_BOUND;
	return 0;
}

/* ---- resolution ---- */

/* After a failure the program may try another target. */
static void addr_done(struct cm_id *id, int status)
{
	struct ucma_event *e;

	id->resolve_due_ms = CM_NEVER;
	id->state = status ? CM_ID_ADDR_BOUND : CM_ID_ADDR_RESOLVED;
	e = ucma_event_new(id, status ? CM_EV_ADDR_ERROR : CM_EV_ADDR_RESOLVED, status);
	if (e)
		(void)ucma_event_put(e);
}

int cm_addr_resolve(struct cm_id *id, const union cm_addr *src, const union cm_addr *dst,
		    uint32_t timeout_ms)
{
	const union cm_addr any = {.sa.sa_family = dst->sa.sa_family};
	int rc;

	if (dst->sa.sa_family != AF_INET && dst->sa.sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	rc = id->state == CM_ID_IDLE ? cm_addr_bind(id, src ? src : &any) : 0;
	if (rc)
		return rc;
	if (id->state != CM_ID_ADDR_BOUND || id->src.sa.sa_family != dst->sa.sa_family)
		return -EINVAL;
	id->dst = *dst;
	if (!id->dev)
		id->dev = cm_addr_is_any(dst) || addr_is_group(dst) ? cm_all.devs : addr_route(dst);
	id->state = CM_ID_ADDR_QUERY;
	if (!id->dev) {
		addr_done(id, -ENODEV);
		return 0;
	}
	if (cm_addr_is_any(dst)) /* the machine itself */
		addr_from_gid(&id->dst, id->dev->gid[id->sgid_index]);
	cm_addr_gid(&id->dst, id->dgid);
	addr_from_gid(&id->src, id->dev->gid[id->sgid_index]);
	id->resolve_due_ms = spw_monotonic_ms() + timeout_ms;
	spw_thr_store_rlx(&id->dev->cm_work, 1u);
	return 0;
}

/* The NIC asks for the MAC once a second, however often this looks. */
void cm_addr_retry(struct cm_id *id, uint64_t now_ms)
{
	uint8_t mac[6];
	int rc = nic_resolve(id->dev, id->sgid_index, id->dgid, mac);

	if (rc == -EAGAIN && now_ms < id->resolve_due_ms)
		return;
	addr_done(id, rc == -EAGAIN ? -ETIMEDOUT : rc);
}

/* ---- services, and the header of a request ---- */

uint64_t cm_addr_service(struct cm_id *id, union cm_addr *a)
{
	return (uint64_t)id->ps << 16 | ntohs(*cm_addr_port(a));
}

/* A listener on :: takes IPv4 as well, unless AFONLY is set; one that is bound to an
 * address is meant only by requests to that. */
struct cm_id *cm_addr_listener(const struct hca_dev *dev, uint64_t service_id,
			       const union cm_addr *to)
{
	for (struct cm_id *id = cm_all.list; id; id = id->next) {
		if (id->state != CM_ID_LISTEN || !id->file || id->removed ||
		    cm_addr_service(id, &id->src) != service_id || (id->dev && id->dev != dev))
			continue;
		if (cm_addr_is_any(&id->src)
			    ? id->src.sa.sa_family == to->sa.sa_family ||
				      (id->src.sa.sa_family == AF_INET6 && !id->afonly)
			    : addr_same_host(&id->src, to))
			return id;
	}
	return NULL;
}

/* Before the program's private data of a request (Annex A11): */
/*   0 version  1 IP version << 4  2 port of the asker  4 its address  20 ours (IPv4: the last 4) */
bool cm_addr_parse(const uint8_t *priv, uint64_t service_id, union cm_addr *src, union cm_addr *dst)
{
	const uint32_t ip = priv[1] >> 4;

	if (priv[0] || (ip != 4 && ip != 6))
		return false;
	memset(src, 0, sizeof(*src));
	memset(dst, 0, sizeof(*dst));
	if (ip == 4) {
		src->in.sin_family = dst->in.sin_family = AF_INET;
		memcpy(&dst->in.sin_addr, priv + 16, 4);
		memcpy(&src->in.sin_addr, priv + 32, 4);
	} else {
		src->in6.sin6_family = dst->in6.sin6_family = AF_INET6;
		memcpy(&dst->in6.sin6_addr, priv + 4, 16);
		memcpy(&src->in6.sin6_addr, priv + 20, 16);
	}
	*cm_addr_port(src) = htons((uint16_t)service_id);
	memcpy(cm_addr_port(dst), priv + 2, 2);
	return true;
}

void cm_addr_build(struct cm_id *id, uint8_t *priv)
{
	memset(priv, 0, CM_ADDR_HDR_BYTES);
	memcpy(priv + 2, cm_addr_port(&id->src), 2);
	if (id->src.sa.sa_family == AF_INET) {
		priv[1] = 4 << 4;
		memcpy(priv + 16, &id->src.in.sin_addr, 4);
		memcpy(priv + 32, &id->dst.in.sin_addr, 4);
	} else {
		priv[1] = 6 << 4;
		memcpy(priv + 4, &id->src.in6.sin6_addr, 16);
		memcpy(priv + 20, &id->dst.in6.sin6_addr, 16);
	}
}

/* ---- groups ---- */

/* Nobody is asked on Ethernet: the group is its address, and the event comes at once. */
int cm_addr_join(struct cm_id *id, const union cm_addr *group, uint64_t uid,
		 struct cm_mcast **mcast_out)
{
	struct cm_mcast *m;
	struct ucma_event *e;

	if (!id->dev || (id->state != CM_ID_ADDR_BOUND && id->state != CM_ID_ADDR_RESOLVED) ||
	    id->qp_type != IB_UVERBS_QPT_UD || !addr_is_group(group))
		return -EINVAL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	if (hca_tbl_add(&cm_all.mcasts, m, 0, CM_ID_LOG2, &m->handle)) {
		free(m);
		return -ENOMEM;
	}
	m->id = id;
	m->uid = uid;
	m->addr = *group;
	m->next = cm_all.groups;
	cm_all.groups = m;
	e = ucma_event_new(id, CM_EV_MULTICAST_JOIN, 0);
	if (e) {
		e->mcast = m;
		e->resp.uid = uid;
		e->resp.id = m->handle;
		cm_id_ah(id, &e->resp.param.ud.ah_attr);
		cm_addr_gid(group, e->resp.param.ud.ah_attr.grh.dgid);
		e->resp.param.ud.ah_attr.dlid = MLID;
		e->resp.param.ud.qp_num = QPN_GROUP;
		e->resp.param.ud.qkey = id->qkey;
		(void)ucma_event_put(e);
	}
	*mcast_out = m;
	return 0;
}

void cm_addr_leave(struct cm_mcast *m)
{
	HCA_UNLINK(cm_all.groups, m, next);
	hca_tbl_del(&cm_all.mcasts, m->handle);
	free(m);
}
