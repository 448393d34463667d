/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Messages of the communication manager as they travel: management datagrams of 256 bytes to QP 1.
 * Source: InfiniBand Architecture Specification 1.3, 12.6 and 12.11 (tables 106 to 120), 13.4.3
 * (common header); layout as Linux include/rdma/ibta_vol1_c12.h names it.
 */
#ifndef SPW_SOFTHCA_CM_MAD_H
#define SPW_SOFTHCA_CM_MAD_H

#include "base/spw_types.h"

#define CM_MAD_BYTES  256u
#define CM_PRIV_BYTES 224u /* the most private data of any message */

enum cm_attr {
	CM_REQ = 0x10,
	CM_MRA,
	CM_REJ,
	CM_REP,
	CM_RTU,
	CM_DREQ,
	CM_DREP,
	CM_SIDR_REQ,
	CM_SIDR_REP,
	CM_ATTR_END
};

/* Which message an MRA or REJ answers. */
enum { CM_ANSWERS_REQ, CM_ANSWERS_REP, CM_ANSWERS_OTHER };

enum {
	CM_REJ_TIMEOUT = 4,
	CM_REJ_NO_SERVICE = 8,
	CM_REJ_STALE = 10,
	CM_REJ_CONSUMER = 28,
	CM_REJ_VENDOR_OPTION = 35,
};
enum { CM_SIDR_SUCCESS, CM_SIDR_UNSUPPORTED, CM_SIDR_REJECTED };

/* One message in host byte order. A field that its kind does not have is 0. */
struct cm_msg {
	uint32_t attr; /* enum cm_attr */
	uint64_t tid;
	uint32_t local_id,
		remote_id; /* of its sender, and of its receiver; SIDR: request in local */
	uint64_t service_id;
	uint8_t guid[8];         /* of the sender's device; in a REJ only with info_bytes */
	uint32_t qpn, psn, qkey; /* qpn: the sender's; of a DREQ: the receiver's */
	uint32_t responder_resources, initiator_depth;
	uint32_t flow_control, retry_cnt, rnr_retry, srq, transport;
	uint32_t remote_timeout, local_timeout, max_retries; /* 4.096 us << n; of CM messages */
	uint32_t ack_timeout, ack_delay, service_timeout;    /* 4.096 us << n */
	uint32_t pkey, path_mtu, flow_label, tclass, hop_limit, rate, subnet_local;
	uint8_t sgid[16], dgid[16]; /* of the path, from the sender of a REQ */
	uint32_t answers;           /* CM_ANSWERS_* */
	uint32_t reason;            /* REJ: CM_REJ_*; SIDR_REP: CM_SIDR_* */
	uint32_t info_bytes;        /* REJ */
	uint8_t priv[CM_PRIV_BYTES];
};

/* Purpose: reads a datagram.
 * Shape:   reads CM_MAD_BYTES; any bytes will do.
 * Returns: false: none of these messages (another class, version, method or attribute).
 * Thread:  any. */
bool cm_mad_parse(const uint8_t mad[CM_MAD_BYTES], struct cm_msg *msg_out);

/* Purpose: writes the datagram of msg, whose attr is one of enum cm_attr.
 * Thread:  any. */
void cm_mad_build(const struct cm_msg *msg, uint8_t mad_out[CM_MAD_BYTES]);

/* Returns: bytes of private data that a message of this kind has; 0: no such kind. Thread: any. */
uint32_t cm_mad_priv_bytes(uint32_t attr);

#endif
