/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A cable carries whole Ethernet frames (without FCS) between NICs and to anything else that speaks
 * Ethernet. One end per device. The NIC thread alone sends and receives on it, in bursts:
 *
 *   p = cable_tx_reserve(c, dmac, len, qpn);   NULL: no room now, try again in the next round
 *   ... write len bytes at p ...
 *   cable_tx_commit(c, flags);                 one reservation at a time
 *   cable_tx_flush(c);                         once per round: now the peer sees them
 *
 *   n = cable_rx_burst(c, frames, max);        lent until
 *   cable_rx_release(c, k);                    the first k of them were consumed; the others come again
 *
 * What arrives is hostile: `data` may change while it is read (shared memory), so every length is read
 * once into a local, checked, and used.
 */
#ifndef SPW_SOFTHCA_CABLE_H
#define SPW_SOFTHCA_CABLE_H

#include "base/spw_types.h"

#define CABLE_FRAME_MAX 16384u /* longest frame of any cable */
#define CABLE_FRAME_MIN 14u
#define CABLE_BURST 64u

enum {
	CABLE_F_ICRC_VALID = 1u << 0, /* RoCE: valid by construction, the ICRC field was not computed */
};

struct cable_frame {
	const uint8_t *data;
	uint32_t len;
	uint32_t flags;
};

struct cable_id { /* filled in by open where the caller left 0 */
	uint8_t mac[6];
	uint8_t ip[4];
	uint32_t port; /* 0..255: the QPN's bits 16..23 */
};

struct cable_stat { /* written by the NIC thread */
	uint64_t tx_dropped; /* receiver gone or stuck */
	uint64_t rx_bad;     /* records that cannot be right */
	uint64_t tx_wait;    /* reserve answered "no room" */
};

struct cable;
struct cable_ops {
	uint8_t *(*tx_reserve)(struct cable *c, const uint8_t *dmac, uint32_t len, uint32_t qpn);
	void (*tx_commit)(struct cable *c, uint32_t flags);
	void (*tx_flush)(struct cable *c);
	uint32_t (*rx_burst)(struct cable *c, struct cable_frame *frames_out, uint32_t max);
	void (*rx_release)(struct cable *c, uint32_t cnt);
	/* About every 20 ms: look after peers that died. */
	void (*tick)(struct cable *c, uint64_t now_ns);
	/* MAC of an IPv4 address that the cable itself knows; false otherwise. */
	bool (*lookup)(struct cable *c, const uint8_t ip[4], uint8_t mac_out[6]);
	void (*close)(struct cable *c);
	void (*forked)(struct cable *c);
};

struct cable {
	const struct cable_ops *ops;
	bool trusts; /* both ends are NICs of ours: CABLE_F_ICRC_VALID may be used and believed */
	bool pending; /* frames that were flushed but still wait for room: flush again soon */
	struct cable_stat stat;
};

/* Purpose: opens "shm:NAME", "afpacket:IFACE" or "unix:MINE,PEER". Zero fields of *id are chosen by the
 *          cable (shm: by port; afpacket: the interface's MAC; unix: from the name).
 * Errors:  -errno with a text that says what to do. Thread: setup. */
int cable_open(const char *spec, struct cable_id *id, struct cable **cable_out);
int cable_shm_open(const char *name, struct cable_id *id, struct cable **cable_out);
int cable_afpacket_open(const char *iface, struct cable_id *id, struct cable **cable_out);
int cable_unix_open(const char *paths, struct cable_id *id, struct cable **cable_out);

SPW_INLINE uint8_t *cable_tx_reserve(struct cable *c, const uint8_t *dmac, uint32_t len, uint32_t qpn)
{
	return c->ops->tx_reserve(c, dmac, len, qpn);
}
SPW_INLINE void cable_tx_commit(struct cable *c, uint32_t flags) { c->ops->tx_commit(c, flags); }
SPW_INLINE void cable_tx_flush(struct cable *c) { c->ops->tx_flush(c); }
SPW_INLINE uint32_t cable_rx_burst(struct cable *c, struct cable_frame *f, uint32_t max)
{
	return c->ops->rx_burst(c, f, max);
}
SPW_INLINE void cable_rx_release(struct cable *c, uint32_t cnt) { c->ops->rx_release(c, cnt); }

#endif
