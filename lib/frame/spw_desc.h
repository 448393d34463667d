/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The host-side descriptor of one received frame or message. A port lends it, the executor ring
 * encodes it, and the verdict decides whether its slot is echoed or recycled. It is the only type
 * that ports and executors share.
 */
#ifndef SPW_FRAME_DESC_H
#define SPW_FRAME_DESC_H

#include "base/spw_types.h"

/* Bits of spw_desc.flags. The low four travel to the handler (exec/spw_gring.h). */
enum spw_desc_flag {
	SPW_DESC_L3_OK = 1u << 0, /* the port checked the IPv4 header checksum, and it was right */
	SPW_DESC_L4_OK = 1u << 1, /* the port checked the UDP or TCP checksum, and it was right */
	SPW_DESC_IMM = 1u << 2,   /* meta is the RDMA immediate; else the flow hash, 0 if none */
	SPW_DESC_MSG = 1u << 3,   /* an RDMA message, all payload; else an Ethernet frame */
	SPW_DESC_NIC_STAMP = 1u << 4, /* nic_stamp is valid */
};
#define SPW_DESC_HANDLER_FLAGS 0xfu

/* 64 MiB: the longest RDMA message, and what the length field of the executor ring holds. */
#define SPW_DESC_LEN_MAX (1u << 26)

struct spw_desc {
	uint64_t nic_stamp; /* arrival, in ticks of the port's clock (spw_port_caps.nic_clock_hz) */
	uint32_t slot;      /* index in the pool of the queue that lent it */
	uint32_t offset;    /* of the first byte, from the start of the slot, in bytes; of a frame
			       that is split (pool/spw_pool.h): 0, and len counts its head, too */
	uint32_t len;       /* bytes, 1 .. SPW_DESC_LEN_MAX; offset + len stays within the slot */
	uint32_t meta;      /* RSS or flow hash; with SPW_DESC_IMM the immediate, in CPU order */
	uint32_t peer;      /* RDMA: index of the sending peer on this port; Ethernet: 0 */
	uint32_t flags;     /* enum spw_desc_flag */
	uint16_t region;    /* index of the memory region, 0 .. 7 */
	uint16_t port;      /* index of the port that lent it */
	uint32_t reserved;  /* 0 */
};
SPW_ASSERT_SIZE(struct spw_desc, 40);

#endif
