/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What a port counts, and the events it reports outside of the bursts. Here, below lib/port,
 * because RDMA devices and peers fill them too. The ledger (rec/spw_ledger.h) compares these
 * counters with what the pipe counted itself, so none of them may be derived from the pipe's.
 */
#ifndef SPW_FRAME_PORT_EVENT_H
#define SPW_FRAME_PORT_EVENT_H

#include "base/spw_enum.h"
#include "base/spw_types.h"

/* ---- counters ---- */

/* Why frames that reached the driver were not lent; the slot of each is back in the pool.
 * name, meaning */
#define SPW_PORT_DROP_LIST(X, P)                                                           \
	X(P, too_long, "frame in several segments, or longer than a slot")                 \
	X(P, no_slot,                                                                      \
	  "no free slot to copy a frame into that arrived in a foreign buffer (net_ring)") \
	X(P, rx_error, "device delivered the frame marked as damaged")                     \
	X(P, rx_flushed,                                                                   \
	  "receive torn down with frames in it, or an error completion without data")      \
	X(P, late, "rails: came after its number had been given up")                       \
	X(P, duplicate, "rails: a frame of this number had come before")

enum spw_port_drop { SPW_ENUM(SPW_PORT_DROP) };

/* Errors of the device that are not frames. name, meaning */
#define SPW_PORT_ERR_LIST(X, P)                                                                  \
	X(P, no_slot, "the pool was empty when the driver wanted to refill")                     \
	X(P, cqe_error, "error completions")                                                     \
	X(P, queue_reset, "queues or QPs taken through reset to ready")                          \
	X(P, link_down, "times the link went down")                                              \
	X(P, peer_gone, "RDMA peers lost")                                                       \
	X(P, protocol, "peers or frames that broke the protocol")                                \
	X(P, refused, "RDMA connections that were refused, or failed before they were up")       \
	X(P, no_credit, "messages not sent: the peer was down, or had granted no room for them") \
	X(P, gap, "rails: numbers of the source that did not come in time")                      \
	X(P, gap_down, "rails: of them, those given up while a rail was down")                   \
	X(P, rail_down, "rails: times that a rail went down")                                    \
	X(P, rail_moved, "rails: frames sent over another rail because theirs was down")

enum spw_port_err { SPW_ENUM(SPW_PORT_ERR) };

/* Totals since start, counted by the device or the driver. */
struct spw_port_stat {
	/* Frames that arrived, lost ones included, as far as the device counts them. */
	uint64_t wire_frames;
	/* Arrived, and lost before the driver could read them. */
	uint64_t missed_frames;
	bool missed_known;            /* false: the device has no such count; printed as unknown */
	uint64_t rx_frames, rx_bytes; /* lent by rx_burst */
	uint64_t tx_frames, tx_bytes; /* sent, by the device's count where it has one */
	/* Of the link, each direction; 0: unknown, or no link at all. Rails: their sum. */
	uint64_t link_bps;
	/* Frames that the physical port discarded because NIC or bus were congested, whatever their
	 * destination. All functions of the port report the same ones; none is in wire_frames. */
	uint64_t port_discards;
	bool port_discards_known; /* false: no such counter, or not readable; printed as unknown */
	/* Packets that the physical port took from the cable and put on it, of all its functions.
	 * Frames that turn round inside the NIC are not among them. */
	uint64_t phy_rx_packets, phy_tx_packets;
	bool phy_known; /* false: no such counters, or not readable; printed as unknown */
	/* Requests that RC QPs of the device sent again: after a NAK, an RNR NAK or a timeout.
	 * Those of all programs that use the device; exceeded retries are not among them. */
	uint64_t retransmits;
	bool retransmits_known; /* false: no RC, or no such counters; printed as unknown */
	/* Taken by tx_burst, then flushed unsent: a send queue failed, or the port stopped. */
	uint64_t tx_flushed;
	/* Frames that the driver or PMD copied into the slot itself (memif, af_packet). */
	uint64_t port_copies;
	uint64_t dropped[SPW_PORT_DROP_CNT];
	uint64_t err[SPW_PORT_ERR_CNT];
};

/* ---- events ---- */

/* What a port reports, in order, through its `events` call; each is also counted where it has a
 * counter above. Thread: the owner of the queue reads them; control logs them. */
enum spw_port_event_kind {
	SPW_PORT_EVENT_LINK_UP,
	SPW_PORT_EVENT_LINK_DOWN,
	SPW_PORT_EVENT_QUEUE_ERROR, /* code: syndrome; the driver is recovering the queue */
	SPW_PORT_EVENT_QUEUE_BACK,  /* recovered; outage_ns: time without service */
	SPW_PORT_EVENT_PEER_UP,
	SPW_PORT_EVENT_PEER_DOWN,
	SPW_PORT_EVENT_RAIL_UP,     /* rails: one of several, and at least one other was up */
	SPW_PORT_EVENT_RAIL_DOWN,   /* rails: frames go over the others */
	SPW_PORT_EVENT_DEVICE_GONE, /* the program stops in order, with exit status 4 */
};

/* A copy: the port keeps nothing of it once it was read. */
struct spw_port_event {
	enum spw_port_event_kind kind;
	uint16_t queue;
	uint32_t code; /* syndrome, or index of the peer; 0 if none */
	uint64_t outage_ns;
	char text[160]; /* one clause to print */
};

#endif
