/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The shared-memory switch: the layout of its file, /dev/shm/spinwire-UID-NAME. It joins up to 16
 * NICs of one user on one host.
 *
 *   offset 0            struct shm_hdr, with 16 ports
 *   SHM_RING_AT(r, s)   struct shm_ring: what port s sent to port r; allocated at first use
 *
 * One ring per ordered pair of ports, written by the sender and drained by the receiver:
 *
 *   data   | free | lent | published, not lent | committed, not flushed | free |
 *                 ^head  ^shm_rx.pos           ^tail                    ^shm_tx.tail
 *
 * A record is struct shm_rec, then the frame, at a multiple of 16. head and tail count bytes since
 * creation. A record never wraps: one with len SHM_SKIP fills the end.
 *
 *   tail  written by the sender, release   [N1, pairs with N2]: the records before it are complete
 *   head  written by the receiver, release [N3, pairs with N4]: the bytes before it may be reused
 *
 * Ports of one function (cable_id.func), in processes of one machine, have the same addresses. A
 * RoCE frame goes to the one whose number is in its QPN, another to all that are used.
 *
 * A port is owned by an open-file-description lock on byte `port` of the file. The kernel drops the
 * lock when its owner dies, so that others can detect that and take the port. A new owner of port p
 * skips what lies in the rings to p, and continues at the published tail in the rings from p;
 * nothing needs repair.
 */
#ifndef SPW_SOFTHCA_CABLE_SHM_H
#define SPW_SOFTHCA_CABLE_SHM_H

#include "base/spw_types.h"

#define SHM_MAGIC      0x656c626163777073ull /* "spwcable" */
#define SHM_VERSION    3u
#define SHM_PORTS      16u
#define SHM_RING_BYTES (1u << 20)
#define SHM_SKIP       0xffffffffu
#define SHM_LOCK_TABLE 4096 /* the byte whose lock serialises joining and leaving */

struct shm_rec {
	uint32_t len;
	uint32_t flags; /* CABLE_F_* */
	uint64_t rsvd;
};
SPW_ASSERT_SIZE(struct shm_rec, 16);

struct shm_ring {
	uint64_t tail SPW_ALIGNED(128);
	uint64_t head SPW_ALIGNED(128);
	uint8_t data[SHM_RING_BYTES] SPW_ALIGNED(4096);
};
#define SHM_RING_SPAN ((uint64_t)sizeof(struct shm_ring))

struct shm_port {
	uint32_t live; /* 1 while owned; the lock decides */
	uint32_t pid;  /* for messages */
	uint64_t mac;  /* 6 bytes, first byte least significant */
	uint32_t ip;   /* 4 bytes in wire order */
	uint32_t down; /* 1: its owner set its link down */
	uint64_t func; /* cable_id.func */
	uint32_t used; /* 1: its NIC takes turns; 0: nothing there has opened the device */
	/* Turns that its owner has begun; 0: it takes none for a while, on purpose. Written with
	 * release [N15, pairs with N16]: what the turns before sent is in the rings. */
	uint64_t turns SPW_ALIGNED(64);
} SPW_ALIGNED(64);

struct shm_hdr {
	uint64_t magic;
	uint32_t version;
	uint32_t hdr_bytes, port_cnt, ring_bytes;
	uint32_t epoch; /* incremented whenever a port changes, its link too */
	struct shm_port port[SHM_PORTS];
};
#define SHM_HDR_SPAN        4096u
#define SHM_RING_AT(rx, tx) (SHM_HDR_SPAN + ((uint64_t)(rx)*SHM_PORTS + (tx)) * SHM_RING_SPAN)
#define SHM_FILE_BYTES      SHM_RING_AT(SHM_PORTS, 0)

#endif
