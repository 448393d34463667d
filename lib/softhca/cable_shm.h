/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The shared-memory switch: the file's layout. /dev/shm/spinwire-UID-NAME holds a header with 16 ports
 * and one ring per ordered pair of ports, written by the sender alone and drained by the receiver alone.
 *
 *   offset 0        struct shm_hdr
 *   SHM_RING_AT(r,s) struct shm_ring, what port s sent to port r; memory is taken at first use
 *
 * A ring is SHM_RING_BYTES of records, at multiples of 16: struct shm_rec, then the frame. head and tail
 * count bytes since ever. A record never wraps: one with len SHM_SKIP fills the end.
 *
 *   tail  written by the sender, release  [N1, pairs with N2]: records before it are complete
 *   head  written by the receiver, release [N3, pairs with N4]: room before it may be written again
 *
 * A port is held by an open-file-description lock on byte `port` of the file: the kernel drops it when
 * the holder dies, so that others can tell (and take the port over). A new holder of port p skips what
 * lies in rings to p, and goes on at the published tail in rings from p. Nothing needs repair.
 */
#ifndef SPW_SOFTHCA_CABLE_SHM_H
#define SPW_SOFTHCA_CABLE_SHM_H

#include "base/spw_types.h"

#define SHM_MAGIC 0x656c626163777073ull /* "spwcable" */
#define SHM_VERSION 1u
#define SHM_PORTS 16u
#define SHM_RING_BYTES (1u << 20)
#define SHM_SKIP 0xffffffffu
#define SHM_LOCK_TABLE 4096 /* the byte whose lock guards joining and leaving */

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
	uint32_t live; /* 1 while held; the lock is the truth */
	uint32_t pid;  /* for people */
	uint64_t mac;  /* 6 bytes, first byte least significant */
	uint32_t ip;   /* 4 bytes in wire order */
	uint32_t rsvd;
} SPW_ALIGNED(64);

struct shm_hdr {
	uint64_t magic;
	uint32_t version;
	uint32_t hdr_bytes, port_cnt, ring_bytes;
	uint32_t epoch; /* changes whenever a port does */
	struct shm_port port[SHM_PORTS];
};
#define SHM_HDR_SPAN 4096u
#define SHM_RING_AT(rx, tx) (SHM_HDR_SPAN + ((uint64_t)(rx) * SHM_PORTS + (tx)) * SHM_RING_SPAN)
#define SHM_FILE_BYTES SHM_RING_AT(SHM_PORTS, 0)

#endif
