/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A cable carries whole Ethernet frames (without FCS) between NICs, and to anything else that
 * speaks Ethernet. Each device has one end. The NIC thread alone sends and receives, in bursts:
 *
 *   p = cable_tx_reserve(c, dmac, dqpn, len);   NULL: no room now; try again in the next round
 *   ... write len bytes at p ...
 *   cable_tx_commit(c, flags);                  one reservation at a time
 *   cable_tx_flush(c);                          once per round: now the peer gets the frames
 *
 *   n = cable_rx_burst(c, frames, max);   frames are lent until
 *   cable_rx_release(c, k);               the first k are consumed; the next burst repeats the rest
 *
 * dqpn: the QP that a RoCE frame is for, which finds the process where several have this MAC; 0: a
 * frame without one.
 *
 * Four kinds: shared memory (shm*.c, fast), AF_PACKET (afpacket.c, any netdev), AF_UNIX datagrams
 * (unix.c, a VM), UDP (udp.c, another host); the last three share sock.c.
 *
 * What arrives is hostile: `data` may change while it is read (shared memory), so every length is
 * read once into a local, checked, and used.
 *
 * Thread: open in setup; burst calls, tick and lookup with the device lock held.
 */
#ifndef SPW_SOFTHCA_CABLE_H
#define SPW_SOFTHCA_CABLE_H

#include <string.h>

#include "base/spw_types.h"

#define CABLE_FRAME_MAX 16384u /* longest frame of any cable */
#define CABLE_FRAME_MIN 14u
#define CABLE_BURST     64u

enum {
	/* RoCE: the frame is valid by construction; its ICRC field was not computed. */
	CABLE_F_ICRC_VALID = 1u << 0,
};

#define CABLE_FROM_ANY UINT32_MAX

struct cable_frame {
	const uint8_t *data;
	uint32_t len;
	uint32_t flags;
	uint32_t from; /* the sender's cable_id.port; CABLE_FROM_ANY: the cable does not know */
};

struct cable_id { /* filled in by open where the caller left 0 */
	uint8_t mac[6];
	uint8_t ip[4];
	uint32_t port; /* 0..255: the QPN's bits 16..23 */
	/* The function of a card that several processes use; 0: of no other. shm: ends of one
	 * function share its addresses, which are made from the low 16 bits. */
	uint64_t func;
};

/* Purpose: an address that the options left open. Each kind of cable has a network of its own: shm
 *          10.53.0.0/24 and 10.54.0.0/16, unix 10.53.1.0/24, afpacket 10.53.2.0/24, udp
 *          10.53.3.0/24; a MAC that begins with 0x02 is locally administered, unicast.
 * Thread:  setup. */
SPW_INLINE void cable_id_mac(struct cable_id *id, const uint8_t mac[6])
{
	static const uint8_t none[6];

	if (memcmp(id->mac, none, sizeof(none)) == 0)
		memcpy(id->mac, mac, sizeof(id->mac));
}
SPW_INLINE void cable_id_ip(struct cable_id *id, const uint8_t ip[4])
{
	static const uint8_t none[4];

	if (memcmp(id->ip, none, sizeof(none)) == 0)
		memcpy(id->ip, ip, sizeof(id->ip));
}

struct cable_stat {          /* written by the NIC thread */
	uint64_t tx_dropped; /* receiver gone or stuck, or the link is down */
	uint64_t rx_bad;     /* malformed records or datagrams */
	uint64_t tx_wait;    /* reserve returned NULL */
};

struct cable;
struct cable_ops {
	uint8_t *(*tx_reserve)(struct cable *c, const uint8_t *dmac, uint32_t dqpn, uint32_t len);
	void (*tx_commit)(struct cable *c, uint32_t flags);
	void (*tx_flush)(struct cable *c);
	uint32_t (*rx_burst)(struct cable *c, struct cable_frame *frames_out, uint32_t max);
	void (*rx_release)(struct cable *c, uint32_t cnt);
	/* About every 20 ms: time passes, and peers that died are noticed. */
	void (*tick)(struct cable *c, uint64_t now_ns);
	/* The MAC of an IPv4 address, if the cable itself knows it. */
	bool (*lookup)(struct cable *c, const uint8_t ip[4], uint8_t mac_out[6]);
	/* How many turns the NIC of this MAC and QP has begun, each of which looks for frames and
	 * sends what it has to; 0: it cannot be known, or it has taken none for CABLE_STUCK_NS. */
	uint64_t (*turns)(struct cable *c, const uint8_t *dmac, uint32_t dqpn);
	/* This end stops taking turns on purpose: nobody is to wait for them. */
	void (*stalls)(struct cable *c);
	/* Whether a NIC on the cable has this MAC. NULL: the cable cannot know. */
	bool (*has)(struct cable *c, const uint8_t mac[6]);
	/* Removes what others see of this end. Async-signal-safe. */
	void (*leave)(struct cable *c);
	/* Leaves, if that was not done, and frees. */
	void (*close)(struct cable *c);
	/* In a forked child: closes descriptors; the end stays the parent's. */
	void (*forked)(struct cable *c);
	/* Is there a carrier? One system call at most; asked in each tick and when `changed` is
	 * set. `own`: the ends that are halves of the asking port, as bits. NULL: always. */
	bool (*link_up)(struct cable *c, uint32_t own);
	/* Shows the other ends whether this one is up. NULL: they cannot see it. */
	void (*link_set)(struct cable *c, bool up);
};

struct cable {
	const struct cable_ops *ops;
	bool trusts;  /* every end is a NIC model: CABLE_F_ICRC_VALID may be set and is believed */
	bool pending; /* flushed frames still wait for room: flush again soon */
	bool lost;    /* its file was truncated: no frame comes or goes any more */
	bool changed; /* an end came, left, went up or down: ask for the carrier, and clear this */
	uint32_t twins; /* ends of the same function in other processes, as bits */
	struct cable_stat stat;
};

/* Purpose: opens "shm:NAME", "afpacket:IFACE", "unix:MINE,PEER" or "udp:MINE,PEER".
 * Shape:   fields of *id that are 0 are chosen by the cable (shm: by port; afpacket: the
 *          interface's MAC; unix: from the name; udp: from both ends' addresses).
 * Owner:   the caller; ops->close frees it.
 * Errors:  -errno with a text that says what to do.
 * Thread:  setup. */
int cable_open(const char *spec, struct cable_id *id, struct cable **cable_out);
int cable_shm_open(const char *name, struct cable_id *id, struct cable **cable_out);
int cable_afpacket_open(const char *iface, struct cable_id *id, struct cable **cable_out);
int cable_unix_open(const char *paths, struct cable_id *id, struct cable **cable_out);
int cable_udp_open(const char *ends, struct cable_id *id, struct cable **cable_out);

/* Purpose: for a SIGBUS handler: makes addr accessible again if it lies in a cable whose file was
 *          truncated; that cable is then lost.
 * Returns: false if addr is in no cable.
 * Thread:  any; async-signal-safe. */
bool cable_shm_repair(const void *addr);

/* How long a receiver's queue has been full, in time in which its reader could have run. */
struct cable_full {
	uint64_t looked_ns, for_ns; /* both 0: it is not full */
};

#define CABLE_STUCK_NS 200000000ull /* full for longer: frames are dropped, not held back */
#define CABLE_LOOK_NS  40000000ull  /* two ticks; of a longer step the sender itself had no core */

/* Purpose: notes that the queue is full. A sender that stood still, perhaps with the whole machine,
 *          knows nothing of a receiver that did the same: such a step counts as two ticks.
 * Returns: whether to wait on. */
SPW_INLINE bool cable_waits(struct cable_full *full, uint64_t now_ns)
{
	if (full->looked_ns)
		full->for_ns += SPW_MIN(now_ns - full->looked_ns, CABLE_LOOK_NS);
	full->looked_ns = now_ns;
	return full->for_ns < CABLE_STUCK_NS;
}

SPW_INLINE uint8_t *cable_tx_reserve(struct cable *c, const uint8_t *dmac, uint32_t dqpn,
				     uint32_t len)
{
	return c->ops->tx_reserve(c, dmac, dqpn, len);
}
SPW_INLINE void cable_tx_commit(struct cable *c, uint32_t flags)
{
	c->ops->tx_commit(c, flags);
}
SPW_INLINE void cable_tx_flush(struct cable *c)
{
	c->ops->tx_flush(c);
}
SPW_INLINE uint32_t cable_rx_burst(struct cable *c, struct cable_frame *f, uint32_t max)
{
	return c->ops->rx_burst(c, f, max);
}
SPW_INLINE bool cable_link_up(struct cable *c, uint32_t own)
{
	return !c->ops->link_up || c->ops->link_up(c, own);
}
SPW_INLINE void cable_link_set(struct cable *c, bool up)
{
	if (c->ops->link_set)
		c->ops->link_set(c, up);
}
SPW_INLINE uint64_t cable_turns(struct cable *c, const uint8_t *dmac, uint32_t dqpn)
{
	return c->ops->turns ? c->ops->turns(c, dmac, dqpn) : 0;
}
SPW_INLINE void cable_stalls(struct cable *c)
{
	if (c->ops->stalls)
		c->ops->stalls(c);
}
SPW_INLINE void cable_rx_release(struct cable *c, uint32_t cnt)
{
	c->ops->rx_release(c, cnt);
}

#endif
