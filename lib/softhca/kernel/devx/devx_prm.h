/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The formats of firmware commands: every field that the DEVX commands read or write, each once. A
 * row names the structure, the field, its first bit from the structure's start (most significant
 * bit first, as the vendor counts) and its width in bits. A mailbox is big-endian.
 *
 * Sources: DPDK 22.11 drivers/common/mlx5/mlx5_prm.h, rdma-core v44 providers/mlx5/mlx5_ifc.h, UCX
 * 1.13 src/uct/ib/mlx5/ib_mlx5_ifc.h.
 */
#ifndef SPW_SOFTHCA_DEVX_PRM_H
#define SPW_SOFTHCA_DEVX_PRM_H

#include "base/spw_types.h"

#define DEVX_FIELDS(F)                              \
	F(IN, OPCODE, 0x00, 16)                     \
	F(IN, OP_MOD, 0x30, 16)                     \
	F(IN, NUMBER, 0x48, 24) /* of the object */ \
	F(IN, OLD_STATE, 0x40, 4)                   \
	F(IN, MODIFY_MASK, 0x80, 64)                \
	F(OUT, STATUS, 0x00, 8)                     \
	F(OUT, SYNDROME, 0x20, 32)                  \
	F(OUT, NUMBER, 0x48, 24)                    \
                                                    \
	F(CQC, CQE_SZ, 0x08, 3)                     \
	F(CQC, CC, 0x0b, 1)                         \
	F(CQC, OI, 0x0e, 1)                         \
	F(CQC, COMP_EN, 0x11, 1)                    \
	F(CQC, MINI_FORMAT, 0x12, 2)                \
	F(CQC, COMP_LAYOUT, 0x19, 7)                \
	F(CQC, DBR_UMEM_ID, 0x20, 32)               \
	F(CQC, PAGE_OFFSET, 0x54, 6)                \
	F(CQC, MINI_FORMAT_EXT, 0x5c, 2)            \
	F(CQC, TS_FORMAT, 0x5e, 2)                  \
	F(CQC, LOG_SIZE, 0x63, 5)                   \
	F(CQC, UAR_PAGE, 0x68, 24)                  \
	F(CQC, PERIOD, 0x84, 12)                    \
	F(CQC, MAX_COUNT, 0x90, 16)                 \
	F(CQC, EQN, 0xb8, 8)                        \
	F(CQC, DBR_ADDR, 0x1c0, 64)                 \
	F(CREATE_CQ, UMEM_OFFSET, 0x280, 64)        \
	F(CREATE_CQ, UMEM_ID, 0x2c0, 32)            \
                                                    \
	F(WQ, TYPE, 0x00, 4)                        \
	F(WQ, SIGNATURE, 0x04, 1)                   \
	F(WQ, CD_SLAVE, 0x07, 1)                    \
	F(WQ, HDS_SIZE, 0x21, 3)                    \
	F(WQ, PAGE_OFFSET, 0x2b, 5)                 \
	F(WQ, LWM, 0x30, 16)                        \
	F(WQ, PD, 0x48, 24)                         \
	F(WQ, UAR_PAGE, 0x68, 24)                   \
	F(WQ, DBR_ADDR, 0x80, 64)                   \
	F(WQ, LOG_STRIDE, 0x10c, 4)                 \
	F(WQ, LOG_SIZE, 0x11b, 5)                   \
	F(WQ, LOG_STRIDES, 0x134, 4)                \
	F(WQ, TWO_BYTE_SHIFT, 0x138, 1)             \
	F(WQ, LOG_STRIDE_BYTES, 0x13d, 3)           \
	F(WQ, DBR_UMEM_ID, 0x140, 32)               \
	F(WQ, UMEM_ID, 0x160, 32)                   \
	F(WQ, UMEM_OFFSET, 0x180, 64)               \
                                                    \
	F(RQC, RLKY, 0x00, 1)                       \
	F(RQC, DELAY_DROP, 0x01, 1)                 \
	F(RQC, SCATTER_FCS, 0x02, 1)                \
	F(RQC, VSD, 0x03, 1)                        \
	F(RQC, MEM_TYPE, 0x04, 4)                   \
	F(RQC, STATE, 0x08, 4)                      \
	F(RQC, FLUSH, 0x0d, 1)                      \
	F(RQC, HAIRPIN, 0x0e, 1)                    \
	F(RQC, TS_FORMAT, 0x1a, 2)                  \
	F(RQC, USER_INDEX, 0x28, 24)                \
	F(RQC, CQN, 0x48, 24)                       \
	F(RQC, COUNTER_SET, 0x60, 8)                \
                                                    \
	F(SQC, RLKY, 0x00, 1)                       \
	F(SQC, CD_MASTER, 0x01, 1)                  \
	F(SQC, FRE, 0x02, 1)                        \
	F(SQC, FLUSH, 0x03, 1)                      \
	F(SQC, ALLOW_MPW, 0x04, 1)                  \
	F(SQC, MIN_INLINE, 0x05, 3)                 \
	F(SQC, STATE, 0x08, 4)                      \
	F(SQC, REG_UMR, 0x0c, 1)                    \
	F(SQC, ALLOW_SWP, 0x0d, 1)                  \
	F(SQC, HAIRPIN, 0x0e, 1)                    \
	F(SQC, NON_WIRE, 0x0f, 1)                   \
	F(SQC, STATIC_WQ, 0x10, 1)                  \
	F(SQC, TS_FORMAT, 0x1a, 2)                  \
	F(SQC, USER_INDEX, 0x28, 24)                \
	F(SQC, CQN, 0x48, 24)                       \
	F(SQC, PACING_INDEX, 0xf0, 16)              \
	F(SQC, TIS_CNT, 0x100, 16)                  \
	F(SQC, TIS, 0x168, 24)                      \
                                                    \
	F(TISC, TD, 0x128, 24)                      \
                                                    \
	F(RQTC, LIST_TYPE, 0xa5, 3)                 \
	F(RQTC, MAX, 0xb0, 16)                      \
	F(RQTC, ACTUAL, 0xd0, 16)                   \
                                                    \
	F(TIRC, TYPE, 0x20, 4)                      \
	F(TIRC, LRO, 0x84, 28)                      \
	F(TIRC, INLINE_RQN, 0xe8, 24)               \
	F(TIRC, SYMMETRIC, 0x100, 1)                \
	F(TIRC, TUNNELED, 0x102, 1)                 \
	F(TIRC, TABLE, 0x108, 24)                   \
	F(TIRC, HASH_FN, 0x120, 4)                  \
	F(TIRC, SELF_LB, 0x126, 2)                  \
	F(TIRC, TD, 0x128, 24)                      \
	F(TIRC, OUTER_IPV6, 0x280, 1)               \
	F(TIRC, OUTER_UDP, 0x281, 1)                \
	F(TIRC, OUTER_FIELDS, 0x282, 30)            \
	F(TIRC, INNER_FIELDS, 0x2a2, 30)            \
                                                    \
	F(ALLOC_Q_CNT, OUT_ID, 0x58, 8)             \
	F(QUERY_Q_CNT, CLEAR, 0xc0, 1)              \
	F(QUERY_Q_CNT, ID, 0xf8, 8)                 \
	F(QUERY_Q_CNT, OUT_OF_BUFFER, 0x180, 32)    \
                                                    \
	F(ALLOC_FLOW_CNT, BULK, 0x73, 13)           \
	F(QUERY_FLOW_CNT, CLEAR, 0xc0, 1)           \
	F(QUERY_FLOW_CNT, BULK, 0xc1, 31)           \
	F(QUERY_FLOW_CNT, ID, 0xe0, 32)             \
	F(QUERY_FLOW_CNT, OUT_FRAMES, 0x80, 64)     \
	F(QUERY_FLOW_CNT, OUT_BYTES, 0xc0, 64)      \
                                                    \
	F(QUERY_QP, OUT_DATA_IN_ORDER, 0x11a, 1)    \
                                                    \
	F(EQE, TYPE, 0x08, 8)                       \
	F(EQE, SUB_TYPE, 0x18, 8)                   \
	F(EQE, CQ_ERR_CQN, 0x108, 24)               \
	F(EQE, CQ_ERR_SYNDROME, 0x158, 8)           \
	F(EQE, PORT, 0x140, 4)                      \
	F(EQE, KIND, 0x1a0, 8)                      \
	F(EQE, NUMBER, 0x1c8, 24)                   \
                                                    \
	F(VPORT, MIN_INLINE, 0x05, 3)               \
	F(VPORT, ROCE_EN, 0x1f, 1)                  \
                                                    \
	F(CAP, VHCA_ID, 0x30, 16)                   \
	F(CAP, DATA_IN_ORDER, 0x62, 1)              \
	F(CAP, LOG_MAX_SRQ_SZ, 0x80, 8)             \
	F(CAP, LOG_MAX_QP_SZ, 0x88, 8)              \
	F(CAP, LOG_MAX_QP, 0x9b, 5)                 \
	F(CAP, LOG_MAX_SRQ, 0xab, 5)                \
	F(CAP, LOG_MAX_CQ_SZ, 0xc8, 8)              \
	F(CAP, LOG_MAX_CQ, 0xdb, 5)                 \
	F(CAP, LOG_MAX_MKEY, 0xea, 6)               \
	F(CAP, LOG_MAX_MRW_SZ, 0x109, 7)            \
	F(CAP, LOG_MAX_RA_REQ_QP, 0x14a, 6)         \
	F(CAP, LOG_MAX_RA_RES_QP, 0x15a, 6)         \
	F(CAP, GID_TABLE_SIZE, 0x170, 16)           \
	F(CAP, NIC_FLOW_TABLE, 0x1a6, 1)            \
	F(CAP, PORT_TYPE, 0x1b6, 2)                 \
	F(CAP, NUM_PORTS, 0x1b8, 8)                 \
	F(CAP, CQE_VERSION, 0x1fc, 4)               \
	F(CAP, COMPACT_AV, 0x200, 1)                \
	F(CAP, STRIDING_RQ, 0x201, 1)               \
	F(CAP, ETH_NET_OFFLOADS, 0x21c, 1)          \
	F(CAP, ROCE, 0x21d, 1)                      \
	F(CAP, CQ_OI, 0x220, 1)                     \
	F(CAP, CQ_MODERATION, 0x222, 1)             \
	F(CAP, UD, 0x23d, 1)                        \
	F(CAP, UC, 0x23e, 1)                        \
	F(CAP, RC, 0x23f, 1)                        \
	F(CAP, UAR_4K, 0x240, 1)                    \
	F(CAP, BF, 0x260, 1)                        \
	F(CAP, LOG_BF_REG_SIZE, 0x26b, 5)           \
	F(CAP, MAX_WQE_SZ_SQ, 0x290, 16)            \
	F(CAP, MAX_WQE_SZ_RQ, 0x2b0, 16)            \
	F(CAP, LOG_MAX_TD, 0x323, 5)                \
	F(CAP, LOG_MAX_PD, 0x32b, 5)                \
	F(CAP, LOG_MAX_RQ, 0x363, 5)                \
	F(CAP, LOG_MAX_SQ, 0x36b, 5)                \
	F(CAP, LOG_MAX_TIR, 0x373, 5)               \
	F(CAP, LOG_MAX_TIS, 0x37b, 5)               \
	F(CAP, LOG_MAX_RQT, 0x38b, 5)               \
	F(CAP, LOG_MAX_RQT_SIZE, 0x393, 5)          \
	F(CAP, EXT_STRIDE_RANGE, 0x3a0, 1)          \
	F(CAP, LOG_MAX_STRIDE_SZ_RQ, 0x3a3, 5)      \
	F(CAP, LOG_MIN_STRIDE_SZ_RQ, 0x3ab, 5)      \
	F(CAP, LOG_MAX_STRIDE_SZ_SQ, 0x3b3, 5)      \
	F(CAP, LOG_MIN_STRIDE_SZ_SQ, 0x3bb, 5)      \
	F(CAP, LOG_MAX_WQ_SZ, 0x3db, 5)             \
	F(CAP, SQ_TS_FORMAT, 0x440, 2)              \
	F(CAP, RQ_TS_FORMAT, 0x442, 2)              \
	F(CAP, FREQUENCY_MHZ, 0x4c0, 32)            \
	F(CAP, FREQUENCY_KHZ, 0x4e0, 32)            \
	F(CAP, ENHANCED_COMP, 0x5bb, 1)             \
	F(CAP, MINI_STRIDX, 0x5bc, 1)               \
	F(CAP, CQE_COMPRESSION, 0x5bf, 1)           \
	F(CAP, CQE_COMP_MAX, 0x5d0, 16)             \
                                                    \
	F(ETH, CSUM, 0x00, 1)                       \
	F(ETH, VLAN, 0x01, 1)                       \
	F(ETH, VLAN_INSERT, 0x07, 1)                \
	F(ETH, INLINE_MODE, 0x12, 2)                \
	F(ETH, RSS_TABLE, 0x14, 4)                  \
	F(ETH, SCATTER_FCS, 0x19, 1)                \
                                                    \
	F(ROCE, QP_TS_FORMAT, 0x1e, 2)

/* A field as a number: what a syndrome names (devx.h). */
#define DEVX_FIELD_ENUM(s, name, bit, width) DEVX_##s##_##name = (bit) << 8 | (width),
enum devx_field { DEVX_FIELDS(DEVX_FIELD_ENUM) };
#undef DEVX_FIELD_ENUM

/* Purpose: the field of the structure that begins at p. No alignment is needed. */
SPW_INLINE uint64_t devx_get(const uint8_t *p, uint32_t field)
{
	const uint32_t width = field & 0xff, end = (field >> 8) + width;
	uint64_t v = 0;

	for (uint32_t at = field >> 8; at < end;) {
		const uint32_t take = SPW_MIN(8 - at % 8, end - at);

		v = v << take | (p[at / 8] >> (8 - at % 8 - take) & ((1u << take) - 1));
		at += take;
	}
	return v;
}

SPW_INLINE void devx_put(uint8_t *p, uint32_t field, uint64_t v)
{
	const uint32_t width = field & 0xff, end = (field >> 8) + width;

	for (uint32_t at = field >> 8; at < end;) {
		const uint32_t take = SPW_MIN(8 - at % 8, end - at), shift = 8 - at % 8 - take;
		const uint32_t mask = ((1u << take) - 1) << shift;

		p[at / 8] =
			(uint8_t)((p[at / 8] & ~mask) | ((v >> (end - at - take)) << shift & mask));
		at += take;
	}
}

#endif
