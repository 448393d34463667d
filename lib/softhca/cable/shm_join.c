/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The shared-memory switch: joining, leaving, and ports whose owner died. Not in the data path.
 *
 *   join    table lock; lock the first free port byte; refuse addresses in use; skip old frames in
 *           the rings to this port; live = 1, epoch + 1; unlock the table
 *   leave   table lock; live = 0, epoch + 1; unlock the port; the last one unlinks the file
 *   death   the kernel drops the port's lock; shm_reap_dead() of any other port sets live = 0
 *
 * What to know before changing it: other processes read the port table without a lock. So `live` is
 * written after the fields that it makes valid and before the epoch, which makes readers look; and
 * each ring's head is set before its port is live. The lock on a port's byte is what decides who
 * owns it: `live` is what that owner, or whoever found the lock free, wrote last.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/spw_err.h"
#include "softhca/cable/shm_impl.h"

/* The epoch changes with every join and leave: senders drop their cached target, receivers look for
 * new rings. */
static void shm_port_set(struct cable_shm *s, uint32_t p, uint32_t live)
{
	spw_thr_store_rel(&s->hdr->port[p].live, live);
	spw_thr_fetch_add(&s->hdr->epoch, 1u);
}

/* Only a change counts up the epoch, since each new one makes all ends look at the whole table. */
void shm_link_set(struct cable *c, bool up)
{
	struct cable_shm *s = (struct cable_shm *)c;
	struct shm_port *port = &s->hdr->port[s->id.port];

	if (spw_thr_load_rlx(&port->down) == !up)
		return;
	spw_thr_store_rlx(&port->down, up ? 0u : 1u);
	spw_thr_fetch_add(&s->hdr->epoch, 1u);
}

/* Two NICs are at the two ends of one cable: either one takes it down for both. With more there is
 * a switch between them, which keeps the carrier of each while it has somebody to talk to. */
bool shm_link_up(struct cable *c, uint32_t own)
{
	const struct cable_shm *s = (struct cable_shm *)c;
	bool alone = true;

	for (uint32_t p = 0; p < SHM_PORTS; p++) {
		const struct shm_port *port = &s->hdr->port[p];

		/* Halves of the asking port are no other end. */
		if (p == s->id.port || own >> p & 1 || !spw_thr_load_rlx(&port->live))
			continue;
		if (!spw_thr_load_rlx(&port->down))
			return true;
		alone = false;
	}
	return alone;
}

void shm_use(struct cable_shm *s)
{
	spw_thr_store_rlx(&s->hdr->port[s->id.port].used, 1u);
	spw_thr_fetch_add(&s->hdr->epoch, 1u);
}

/* Ports of the same function, which one card has once. */
static bool shm_is_twin(const struct cable_shm *s, const struct cable_id *id, uint32_t p)
{
	return id->func && p != id->port && spw_thr_load_rlx(&s->hdr->port[p].func) == id->func;
}

/* A ring that is known stays known, even if its sender left: what it sent before is still taken. */
void shm_rx_refresh(struct cable_shm *s, uint32_t epoch)
{
	s->rx_epoch = epoch;
	s->c.changed = true;
	s->c.twins = 0;
	for (uint32_t p = 0; p < SHM_PORTS; p++) {
		struct shm_rx *r;

		if (!spw_thr_load_acq(&s->hdr->port[p].live))
			continue;
		s->c.twins |= (uint32_t)shm_is_twin(s, &s->id, p) << p;
		if (s->rx_known & 1u << p)
			continue;
		s->rx_known |= 1u << p;
		r = &s->rx[s->rx_cnt++];
		r->from = p;
		r->ring = (struct shm_ring *)(s->base + SHM_RING_AT(s->id.port, p));
		r->head = spw_thr_load_rlx(&r->ring->head); /* set when this port was joined */
	}
}

/* A lock that can be taken has no owner: its process died without leaving. */
void shm_reap_dead(struct cable_shm *s)
{
	shm_check(s);
	for (uint32_t p = 0; p < SHM_PORTS; p++) {
		if (p == s->id.port || !spw_thr_load_rlx(&s->hdr->port[p].live))
			continue;
		if (shm_lock(s->fd, F_OFD_GETLK, F_WRLCK, (off_t)p) == 0)
			shm_port_set(s, p, 0);
	}
}

/* The last one out removes the file; whether it is the last is decided under the table's lock. */
void shm_leave(struct cable *c)
{
	struct cable_shm *s = (struct cable_shm *)c;

	shm_check(s);
	if (s->fd >= 0 && shm_lock_table(s) == 0) {
		shm_port_set(s, s->id.port, 0);
		/* The port leaves the table before its lock goes: live and without a lock it would
		 * look dead. */
		shm_lock(s->fd, F_OFD_SETLK, F_UNLCK, (off_t)s->id.port);
		shm_unlink_if_alone(s->fd, s->path);
		/* close() does not: the mapping keeps the file description alive */
		shm_lock(s->fd, F_OFD_SETLK, F_UNLCK, SHM_LOCK_TABLE);
	}
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

/* The mapping goes last: leaving still writes to the table. */
void shm_close(struct cable *c)
{
	struct cable_shm *s = (struct cable_shm *)c;

	shm_leave(c);
	shm_unmap(s);
	free(s);
}

/* Refuses a MAC or IPv4 address that another live NIC has, other than the same function's: frames
 * for one would reach the other, or both. */
static int shm_address_check(const struct cable_shm *s, const struct cable_id *id, uint64_t mac)
{
	uint32_t ip;

	memcpy(&ip, id->ip, 4);
	for (uint32_t p = 0; p < SHM_PORTS; p++) {
		const struct shm_port *port = &s->hdr->port[p];
		const bool same_mac = port->mac == mac, same_ip = port->ip == ip;

		if (p == id->port || !port->live || !(same_mac || same_ip) ||
		    shm_is_twin(s, id, p) || shm_lock(s->fd, F_OFD_GETLK, F_WRLCK, (off_t)p) == 0)
			continue;
		if (same_mac)
			return spw_err(EADDRINUSE,
				       "cable %s: process %u (port %u) has the MAC "
				       "%02x:%02x:%02x:%02x:%02x:%02x already; "
				       "give each NIC its own --mac",
				       s->path, port->pid, p, id->mac[0], id->mac[1], id->mac[2],
				       id->mac[3], id->mac[4], id->mac[5]);
		return spw_err(
			EADDRINUSE,
			"cable %s: process %u (port %u) has the address %u.%u.%u.%u already; "
			"give each NIC its own --ip",
			s->path, port->pid, p, id->ip[0], id->ip[1], id->ip[2], id->ip[3]);
	}
	return 0;
}

/* MAC and IPv4 default to numbers: the function's, which all its ports have, or else the port's.
 * Either way NICs without options differ. */
static void shm_choose_id(struct cable_id *id)
{
	const uint32_t n = id->func ? (uint32_t)id->func & 0xffff : id->port + 1;
	const uint8_t lo = (uint8_t)n, hi = (uint8_t)(n >> 8);

	cable_id_mac(id, (const uint8_t[6]){0x02, 0x53, 0x57, id->func != 0, hi, lo});
	cable_id_ip(id, (const uint8_t[4]){10, id->func ? 54 : 53, hi, lo});
}

/* Takes the first free port, and skips the frames that were sent to its last owner. */
static int shm_take_port(struct cable_shm *s, struct cable_id *id)
{
	uint32_t p = 0;
	uint64_t mac = 0;
	int rc;

	while (p < SHM_PORTS && shm_lock(s->fd, F_OFD_SETLK, F_WRLCK, (off_t)p))
		p++;
	if (p == SHM_PORTS)
		return spw_err(ENOSPC, "cable %s: all %u ports are taken; use another name",
			       s->path, SHM_PORTS);
	id->port = p;
	shm_choose_id(id);
	memcpy(&mac, id->mac, 6);
	rc = shm_address_check(s, id, mac);
	if (rc)
		return rc;
	/* The first page of each ring to this port, which has its head, gets memory now: polling
	 * must not fault later. */
	for (uint32_t from = 0; from < SHM_PORTS; from++) {
		struct shm_ring *ring = (struct shm_ring *)(s->base + SHM_RING_AT(p, from));

		if (posix_fallocate(s->fd, (off_t)SHM_RING_AT(p, from), 4096))
			return spw_err(ENOSPC, "cable %s: no room; free some of /dev/shm", s->path);
		spw_thr_store_rel(&ring->head, spw_thr_load_acq(&ring->tail) & ~15ull);
	}
	s->hdr->port[p].pid = (uint32_t)getpid();
	spw_thr_store_rlx(&s->hdr->port[p].mac, mac);
	memcpy(&s->hdr->port[p].ip, id->ip, 4);
	spw_thr_store_rlx(&s->hdr->port[p].down, 0u);
	spw_thr_store_rlx(&s->hdr->port[p].func, id->func);
	spw_thr_store_rlx(&s->hdr->port[p].used, 0u);
	s->id = *id;
	shm_port_set(s, p, 1);
	return 0;
}

int cable_shm_open(const char *name, struct cable_id *id, struct cable **cable_out)
{
	struct cable_shm *s;
	int rc;

	if (!*name || strlen(name) > 64 || strchr(name, '/'))
		return spw_err(EINVAL, "cable shm:%s: the name has 1 to 64 characters and no slash",
			       name);
	s = aligned_alloc(128, SPW_ALIGN_UP(sizeof(*s), (size_t)128));
	if (!s)
		return spw_err(ENOMEM, "cable shm:%s: no memory", name);
	memset(s, 0, sizeof(*s));
	s->fd = -1;
	s->c.ops = &shm_ops;
	s->c.trusts = true;
	shm_path(name, s->path, sizeof(s->path));
	shm_sweep(s->path);
	rc = shm_open_locked(s);
	if (!rc)
		rc = shm_map(s);
	if (!rc)
		rc = shm_take_port(s, id);
	if (s->fd >= 0)
		shm_lock(s->fd, F_OFD_SETLK, F_UNLCK, SHM_LOCK_TABLE);
	if (rc) {
		shm_unmap(s);
		if (s->fd >= 0)
			close(s->fd);
		free(s);
		return rc;
	}
	*cable_out = &s->c;
	return 0;
}
