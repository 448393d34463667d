/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * mlx5 hardware formats: completions, work requests and their values, each described once.
 *
 * A format is one list of rows F(fmt, byte, msb, lsb, name). The field `name` is bits msb .. lsb of
 * the big-endian word that starts at offset `byte`: a word of 4 bytes if msb < 32, else of 8. Bit 0
 * is the least significant bit of that word, as in the vendor's manual:
 *
 *   byte   0        1        2        3
 *   bit    31 .. 24 23 .. 16 15 .. 8  7 .. 0        F(cqe64, 60, 15, 8, signature) is byte 62
 *
 * From each list come inline accessors (here) and a table for dumpers, tests and fuzzers
 * (prm_table.c). Rows may overlap where a word has several meanings.
 *
 * Accessors: spw_prm_<fmt>_get_<field>(const void *p), spw_prm_<fmt>_set_<field>(void *p, v).
 *   get returns the smallest unsigned type that holds the field. All arguments but p and v fold to
 *   constants: a whole word, half or byte is one load or store (and a byte swap); an odd bit field
 *   is a load, a shift and a mask. set of an odd bit field reads the word first. p may have any
 *   alignment.
 * Order: none. Ownership bytes are read and written through base/spw_order.h only.
 * Thread: any.
 *
 * Sources: [DV] rdma-core v44 providers/mlx5/mlx5dv.h; [K] Linux include/linux/mlx5/{device,qp}.h;
 * [PRM] "Mellanox Adapters Programmer's Reference Manual" rev 0.40, chapters 7 and 8;
 * [PMD] DPDK 22.11 drivers/common/mlx5/mlx5_prm.h (mini CQE result formats).
 */
#ifndef SPW_PRM_H
#define SPW_PRM_H

#include <string.h>

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- completion queue entries: 64 bytes each ---- */

/* [DV] struct mlx5_cqe64, [PRM] 8.18.
 *
 *   0 .. 27       receive side: WQE of a striding queue, RSS hash, checksum, remote QP
 *   28 .. 31      checksum and header verdicts, VLAN tag
 *   32 .. 47      user index, immediate, byte count
 *   48 .. 55      timestamp
 *   56 .. 61      QP number, WQE counter
 *   62            signature; lap count with enhanced compression
 *   63            opcode, format, solicited, owner: the NIC writes it last
 */
#define SPW_PRM_CQE64(F, T)                                                                      \
	F(T, 0, 15, 0, wqe_id) /* striding RQ: index of the WQE */                               \
	F(T, 12, 31, 0, rx_hash_result)                                                          \
	F(T, 16, 31, 24, rx_hash_type)                                                           \
	F(T, 20, 31, 16, check_sum) /* ones' complement, from byte 14 of the frame on, [K] */    \
	F(T, 24, 31, 0, flags_rqpn)                                                              \
	F(T, 24, 29, 28, grh)                                                                    \
	F(T, 24, 25, 24, pkt_type) /* UD: 0 GRH, 1 IPv6, 2 IPv4 */                               \
	F(T, 24, 23, 0, rqpn)      /* UD: source QP */                                           \
	F(T, 28, 31, 24, hds_ip_ext)                                                             \
	F(T, 28, 26, 25, l4_l3_ok) /* both at once: bit 1 l4_ok, bit 0 l3_ok */                  \
	F(T, 28, 24, 24, l2_ok)                                                                  \
	F(T, 28, 23, 16, l4_hdr_type_etc)                                                        \
	F(T, 28, 22, 20, l4_hdr_type)                                                            \
	F(T, 28, 19, 18, l3_hdr_type)                                                            \
	F(T, 28, 17, 17, ip_frag)                                                                \
	F(T, 28, 16, 16, cvlan_stripped)                                                         \
	F(T, 28, 15, 0, vlan_info)                                                               \
	F(T, 32, 31, 0, srqn_uidx)                                                               \
	F(T, 32, 23, 0, uidx)                                                                    \
	F(T, 36, 31, 0, imm_inval_pkey)                                                          \
	F(T, 44, 31, 0, byte_cnt)                                                                \
	F(T, 44, 30, 16, mprq_strides) /* striding RQ */                                         \
	F(T, 48, 63, 0, timestamp)                                                               \
	F(T, 56, 31, 0, sop_drop_qpn)                                                            \
	F(T, 56, 31, 24, send_opcode) /* requester: opcode of the WQE; receiver: drops so far */ \
	F(T, 56, 23, 0, qpn)                                                                     \
	F(T, 60, 31, 16, wqe_counter)                                                            \
	F(T, 60, 15, 8, signature)                                                               \
	F(T, 60, 7, 0, op_own)                                                                   \
	F(T, 60, 7, 4, opcode)                                                                   \
	F(T, 60, 3, 2, format) /* 0: no inline data, 1: 32 B, 2: 64 B, 3: compressed */          \
	F(T, 60, 1, 1, se)                                                                       \
	F(T, 60, 0, 0, owner)

/* [DV] struct mlx5_err_cqe. */
#define SPW_PRM_CQE_ERR(F, T)                                                   \
	F(T, 32, 31, 0, srqn)                                                   \
	F(T, 52, 31, 24, hw_err_synd) /* [K] mlx5_err_cqe_ex names these two */ \
	F(T, 52, 23, 16, hw_synd_type)                                          \
	F(T, 52, 15, 8, vendor_err_synd)                                        \
	F(T, 52, 7, 0, syndrome)                                                \
	F(T, 56, 31, 24, send_opcode)                                           \
	F(T, 56, 23, 0, qpn)                                                    \
	F(T, 60, 31, 16, wqe_counter)                                           \
	F(T, 60, 15, 8, signature)                                              \
	F(T, 60, 7, 4, opcode)                                                  \
	F(T, 60, 0, 0, owner)

/* Compressed CQEs. One session stands for several completions that differ in few fields: the title
 * CQE carries the fields that are the same, mini-CQEs the rest. n completions of a session take n
 * slots of the ring, whatever the NIC writes into them.
 *
 *   basic     slot 0      title: format 3, byte_cnt = n
 *             slot 1      mini-CQEs 0 .. 7
 *             slot 8      mini-CQEs 8 .. 15, then one array every 8 slots
 *             others      not written; the reader marks them invalid before it returns the slots
 *   enhanced  slot -1     the title is the plain CQE before
 *             slot 0      up to 7 mini-CQEs in bytes 0 .. 55; n - 1 where the opcode would be;
 *                         format 3; byte 62, as in every CQE of such a ring, is the number of the
 *                         lap, mod 256 (0xff before the first): it names the owner
 *
 * The first word of a mini-CQE has the format chosen at queue creation; its second is the length.
 * [K] drivers/net/ethernet/mellanox/mlx5/core/en_rx.c, wq.h; [PMD] mini CQE result formats. */
#define SPW_PRM_MINI_HASH(F, T)        \
	F(T, 0, 31, 0, rx_hash_result) \
	F(T, 4, 31, 0, byte_cnt)
#define SPW_PRM_MINI_CSUM(F, T) F(T, 0, 31, 16, checksum)
#define SPW_PRM_MINI_CSUM_STRIDX(F, T) \
	F(T, 0, 31, 16, checksum)      \
	F(T, 0, 15, 0, stride_idx)

/* ---- work queue entries ---- */

/* [DV] struct mlx5_wqe_ctrl_seg. */
#define SPW_PRM_WQE_CTRL(F, T)                                     \
	F(T, 0, 31, 24, opmod)                                     \
	F(T, 0, 23, 8, wqe_index)                                  \
	F(T, 0, 7, 0, opcode)                                      \
	F(T, 4, 31, 8, qpn)                                        \
	F(T, 4, 5, 0, ds) /* size in 16-byte units */              \
	F(T, 8, 31, 24, signature)                                 \
	F(T, 8, 7, 5, fm) /* fence mode */                         \
	F(T, 8, 3, 2, ce) /* 2: a CQE, always; 0: only on error */ \
	F(T, 8, 1, 1, se) /* solicited */                          \
	F(T, 12, 31, 0, imm)

/* [DV] struct mlx5_wqe_raddr_seg. */
#define SPW_PRM_WQE_RADDR(F, T) \
	F(T, 0, 63, 0, raddr)   \
	F(T, 8, 31, 0, rkey)

/* [DV] struct mlx5_wqe_atomic_seg. */
#define SPW_PRM_WQE_ATOMIC(F, T) \
	F(T, 0, 63, 0, swap_add) \
	F(T, 8, 63, 0, compare)

/* [DV] struct mlx5_wqe_data_seg. */
#define SPW_PRM_WQE_DATA(F, T)      \
	F(T, 0, 31, 31, inline_seg) \
	F(T, 0, 30, 0, byte_count)  \
	F(T, 4, 31, 0, lkey)        \
	F(T, 8, 63, 0, addr)

/* [DV] struct mlx5_wqe_inl_data_seg: this word, then the bytes, padded to 16. */
#define SPW_PRM_WQE_INLINE(F, T)    \
	F(T, 0, 31, 31, inline_seg) \
	F(T, 0, 9, 0, byte_count)

/* [DV] struct mlx5_wqe_eth_seg up to the inline header; the header's bytes start at 14. */
#define SPW_PRM_WQE_ETH(F, T)                                                           \
	F(T, 4, 31, 31, l4_csum)                                                        \
	F(T, 4, 30, 30, l3_csum)                                                        \
	F(T, 4, 29, 29, l4_inner_csum)                                                  \
	F(T, 4, 28, 28, l3_inner_csum)                                                  \
	F(T, 4, 15, 0, mss)                                                             \
	F(T, 8, 31, 0, flow_table_metadata)                                             \
	F(T, 12, 31, 31, vlan_insert)                                                   \
	F(T, 12, 30, 30, vlan_s)  /* 88a8, not 8100 */                                  \
	F(T, 12, 15, 0, vlan_tci) /* with vlan_insert, in place of the inline header */ \
	F(T, 12, 25, 16, inline_hdr_sz)

/* [DV] struct mlx5_wqe_av, 48 bytes with the extended part. */
#define SPW_PRM_WQE_AV(F, T)                                    \
	F(T, 0, 31, 0, qkey)                                    \
	F(T, 8, 31, 31, ext)                                    \
	F(T, 8, 23, 0, dqpn)                                    \
	F(T, 12, 31, 28, stat_rate)                             \
	F(T, 12, 27, 24, sl)                                    \
	F(T, 12, 23, 23, fl)                                    \
	F(T, 12, 22, 16, mlid)                                  \
	F(T, 12, 15, 0, udp_sport) /* InfiniBand: remote LID */ \
	F(T, 20, 31, 0, rmac_47_16)                             \
	F(T, 24, 31, 16, rmac_15_0)                             \
	F(T, 24, 15, 8, tclass)                                 \
	F(T, 24, 7, 0, hop_limit)                               \
	F(T, 28, 30, 30, grh)                                   \
	F(T, 28, 27, 20, src_addr_index)                        \
	F(T, 28, 19, 0, flow_label)                             \
	F(T, 32, 63, 0, rgid_hi)                                \
	F(T, 40, 63, 0, rgid_lo)

/* [DV] struct mlx5_wqe_srq_next_seg. */
#define SPW_PRM_WQE_SRQ_NEXT(F, T) F(T, 0, 15, 0, next_wqe_index)

/* Doorbell record of a CQ, [PRM] 8.18: the consumer index, and the word that arms an event. */
#define SPW_PRM_DBREC_CQ(F, T)                           \
	F(T, 0, 23, 0, update_ci)                        \
	F(T, 4, 29, 28, arm_sn)                          \
	F(T, 4, 24, 24, arm_cmd) /* 1: solicited only */ \
	F(T, 4, 23, 0, arm_ci)

/* Every format: X(name, upper case, bytes). */
#define SPW_PRM_FORMATS(X)                               \
	X(cqe64, SPW_PRM_CQE64, 64)                      \
	X(cqe_err, SPW_PRM_CQE_ERR, 64)                  \
	X(mini_hash, SPW_PRM_MINI_HASH, 8)               \
	X(mini_csum, SPW_PRM_MINI_CSUM, 8)               \
	X(mini_csum_stridx, SPW_PRM_MINI_CSUM_STRIDX, 8) \
	X(wqe_ctrl, SPW_PRM_WQE_CTRL, 16)                \
	X(wqe_raddr, SPW_PRM_WQE_RADDR, 16)              \
	X(wqe_atomic, SPW_PRM_WQE_ATOMIC, 16)            \
	X(wqe_data, SPW_PRM_WQE_DATA, 16)                \
	X(wqe_inline, SPW_PRM_WQE_INLINE, 4)             \
	X(wqe_eth, SPW_PRM_WQE_ETH, 16)                  \
	X(wqe_av, SPW_PRM_WQE_AV, 48)                    \
	X(wqe_srq_next, SPW_PRM_WQE_SRQ_NEXT, 16)        \
	X(dbrec_cq, SPW_PRM_DBREC_CQ, 8)

/* ---- accessors ---- */

/* Big-endian loads and stores of any alignment. */
SPW_INLINE uint8_t spw_prm_ld8(const void *p)
{
	return *(const uint8_t *)p;
}
SPW_INLINE uint16_t spw_prm_ld16(const void *p)
{
	uint16_t v;
	memcpy(&v, p, sizeof(v));
	return SPW_SWAP16(v);
}
SPW_INLINE uint32_t spw_prm_ld32(const void *p)
{
	return spw_be32_load(p);
}
SPW_INLINE uint64_t spw_prm_ld64(const void *p)
{
	return spw_be64_load(p);
}
SPW_INLINE void spw_prm_st8(void *p, uint8_t v)
{
	*(uint8_t *)p = v;
}
SPW_INLINE void spw_prm_st16(void *p, uint16_t v)
{
	v = SPW_SWAP16(v);
	memcpy(p, &v, sizeof(v));
}
SPW_INLINE void spw_prm_st32(void *p, uint32_t v)
{
	v = SPW_SWAP32(v);
	memcpy(p, &v, sizeof(v));
}
SPW_INLINE void spw_prm_st64(void *p, uint64_t v)
{
	v = SPW_SWAP64(v);
	memcpy(p, &v, sizeof(v));
}

/* Purpose: reads or writes the field of bits msb .. lsb in the word at `byte`. The generated
 *   accessors call these with constants; the tables' functions with values from a table.
 * Shape: as a row of a list (see the top); bits of v above the field are dropped.
 */
SPW_INLINE uint64_t spw_prm_get(const void *p, unsigned byte, unsigned msb, unsigned lsb)
{
	const unsigned bits = msb - lsb + 1;
	const char *b = (const char *)p + byte;

	if (msb > 31)
		return bits == 64 ? spw_prm_ld64(b)
				  : (spw_prm_ld64(b) >> lsb) & ((1ull << bits) - 1);
	if (bits == 32)
		return spw_prm_ld32(b);
	if (bits == 16 && lsb % 16 == 0)
		return spw_prm_ld16(b + (lsb ? 0 : 2));
	if (bits == 8 && lsb % 8 == 0)
		return spw_prm_ld8(b + 3 - lsb / 8);
	if (lsb / 8 == msb / 8)
		return (spw_prm_ld8(b + 3 - lsb / 8) >> lsb % 8) & ((1u << bits) - 1);
	return (spw_prm_ld32(b) >> lsb) & ((1u << bits) - 1);
}

SPW_INLINE void spw_prm_put(void *p, unsigned byte, unsigned msb, unsigned lsb, uint64_t v)
{
	const unsigned bits = msb - lsb + 1;
	char *b = (char *)p + byte;

	if (bits == 64) {
		spw_prm_st64(b, v);
	} else if (msb > 31) {
		const uint64_t mask = ((1ull << bits) - 1) << lsb;
		spw_prm_st64(b, (spw_prm_ld64(b) & ~mask) | ((v << lsb) & mask));
	} else if (bits == 32) {
		spw_prm_st32(b, (uint32_t)v);
	} else if (bits == 16 && lsb % 16 == 0) {
		spw_prm_st16(b + (lsb ? 0 : 2), (uint16_t)v);
	} else if (bits == 8 && lsb % 8 == 0) {
		spw_prm_st8(b + 3 - lsb / 8, (uint8_t)v);
	} else {
		const uint32_t mask = ((1u << bits) - 1) << lsb;
		spw_prm_st32(b, (spw_prm_ld32(b) & ~mask) | (((uint32_t)v << lsb) & mask));
	}
}

/* The smallest unsigned type of `bits` bits: what a get returns, so that no caller needs a cast.
 * C++ lacks __builtin_choose_expr and gets the widest. */
#ifdef __cplusplus
#define SPW_PRM_UINT(bits) uint64_t
#else
#define SPW_PRM_UINT(bits)                         \
	__typeof__(__builtin_choose_expr(          \
		(bits) <= 8, (uint8_t)0,           \
		__builtin_choose_expr(             \
			(bits) <= 16, (uint16_t)0, \
			__builtin_choose_expr((bits) <= 32, (uint32_t)0, (uint64_t)0))))
#endif

#define SPW_PRM_ACCESSORS(fmt, byte, msb, lsb, name)                                         \
	SPW_INLINE SPW_PRM_UINT((msb) - (lsb) + 1) spw_prm_##fmt##_get_##name(const void *p) \
	{                                                                                    \
		return (SPW_PRM_UINT((msb) - (lsb) + 1)) spw_prm_get(p, byte, msb, lsb);     \
	}                                                                                    \
	SPW_INLINE void spw_prm_##fmt##_set_##name(void *p, uint64_t v)                      \
	{                                                                                    \
		spw_prm_put(p, byte, msb, lsb, v);                                           \
	}
#define SPW_PRM_FORMAT_ACCESSORS(fmt, LIST, bytes) LIST(SPW_PRM_ACCESSORS, fmt)
SPW_PRM_FORMATS(SPW_PRM_FORMAT_ACCESSORS)

/* Striding receive: what a byte_cnt word (of a CQE or of a mini) holds. Taken from the word, since
 * the burst has it in a register. [PRM] 8.18.
 *
 *   31      30 .. 16   15 .. 0
 *   filler  strides    len
 */
SPW_INLINE uint32_t spw_prm_mprq_len(uint32_t byte_cnt)
{
	return byte_cnt & 0xffffu;
}
SPW_INLINE uint32_t spw_prm_mprq_strides(uint32_t byte_cnt)
{
	return byte_cnt >> 16 & 0x7fffu;
}
/* A filler CQE uses up the last strides of a buffer and carries no frame. */
SPW_INLINE bool spw_prm_mprq_is_filler(uint32_t byte_cnt)
{
	return byte_cnt >> 31;
}

/* ---- values ---- */

/* [DV] enum mlx5dv CQE opcodes, MLX5_OPCODE_*. X(value, name). */
#define SPW_PRM_CQE_OPCODES(X) \
	X(0, REQ)              \
	X(1, RESP_WR_IMM)      \
	X(2, RESP_SEND)        \
	X(3, RESP_SEND_IMM)    \
	X(4, RESP_SEND_INV)    \
	X(5, RESIZE_CQ)        \
	X(6, NO_PACKET)        \
	X(12, SIG_ERR)         \
	X(13, REQ_ERR)         \
	X(14, RESP_ERR)        \
	X(15, INVALID)

#define SPW_PRM_WQE_OPCODES(X)    \
	X(0x00, NOP)              \
	X(0x01, SEND_INVAL)       \
	X(0x08, RDMA_WRITE)       \
	X(0x09, RDMA_WRITE_IMM)   \
	X(0x0a, SEND)             \
	X(0x0b, SEND_IMM)         \
	X(0x0e, TSO)              \
	X(0x10, RDMA_READ)        \
	X(0x11, ATOMIC_CS)        \
	X(0x12, ATOMIC_FA)        \
	X(0x14, ATOMIC_MASKED_CS) \
	X(0x15, ATOMIC_MASKED_FA) \
	X(0x19, FMR)              \
	X(0x1b, LOCAL_INVAL)      \
	X(0x1f, CONFIG_CMD)       \
	X(0x20, SET_PSV)          \
	X(0x25, UMR)              \
	X(0x28, TAG_MATCHING)     \
	X(0x29, ENHANCED_MPSW)    \
	X(0x2c, FLOW_TBL_ACCESS)  \
	X(0x2f, MMO)

/* [DV] MLX5_CQE_SYNDROME_*. X(value, name, ibv_wc_status, text): the status that libmlx5 reports
 * for it, and the text of that status as libibverbs' ibv_wc_status_str() returns it. */
#define SPW_PRM_SYNDROMES(X)                                                     \
	X(0x01, LOCAL_LENGTH_ERR, 1, "local length error")                       \
	X(0x02, LOCAL_QP_OP_ERR, 2, "local QP operation error")                  \
	X(0x04, LOCAL_PROT_ERR, 4, "local protection error")                     \
	X(0x05, WR_FLUSH_ERR, 5, "Work Request Flushed Error")                   \
	X(0x06, MW_BIND_ERR, 6, "memory management operation error")             \
	X(0x10, BAD_RESP_ERR, 7, "bad response error")                           \
	X(0x11, LOCAL_ACCESS_ERR, 8, "local access error")                       \
	X(0x12, REMOTE_INVAL_REQ_ERR, 9, "remote invalid request error")         \
	X(0x13, REMOTE_ACCESS_ERR, 10, "remote access error")                    \
	X(0x14, REMOTE_OP_ERR, 11, "remote operation error")                     \
	X(0x15, TRANSPORT_RETRY_EXC_ERR, 12, "transport retry counter exceeded") \
	X(0x16, RNR_RETRY_EXC_ERR, 13, "RNR retry counter exceeded")             \
	X(0x22, REMOTE_ABORTED_ERR, 16, "remote aborted error")

#define SPW_PRM_E_CQE(v, n)           SPW_PRM_CQE_##n = (v),
#define SPW_PRM_E_WQE(v, n)           SPW_PRM_OP_##n = (v),
#define SPW_PRM_E_SYN(v, n, st, text) SPW_PRM_SYN_##n = (v),
enum spw_prm_cqe_opcode { SPW_PRM_CQE_OPCODES(SPW_PRM_E_CQE) };
enum spw_prm_wqe_opcode { SPW_PRM_WQE_OPCODES(SPW_PRM_E_WQE) };
enum spw_prm_syndrome { SPW_PRM_SYNDROMES(SPW_PRM_E_SYN) };

enum {
	SPW_PRM_WQE_BB_BYTES = 64,    /* a send WQE starts at a multiple of this */
	SPW_PRM_INVALID_LKEY = 0x100, /* ends the list of a receive WQE */
	SPW_PRM_CTRL_CE_CQE = 2,      /* ce: write a CQE for this WQE, always */
	SPW_PRM_CTRL_FM_SMALL = 1,    /* initiator small fence: orders UMR and invalidate only */
	SPW_PRM_CQE_FORMAT_COMPRESSED = 3,
	SPW_PRM_MINI_PER_CQE = 8,
	SPW_PRM_MINI_ENHANCED_MAX = 7,
	SPW_PRM_UAR_BF_OFFSET = 0x800, /* BlueFlame registers in a UAR page */
	SPW_PRM_UAR_CQ_ARM_OFFSET = 0x20,
	SPW_PRM_L3_IPV6 = 1,
	SPW_PRM_L3_IPV4 = 2,
	SPW_PRM_L4_TCP_NO_ACK = 1, /* [K] enum cqe_l4_hdr_type */
	SPW_PRM_L4_UDP = 2,
};

/* ---- tables, names, text (prm_table.c, prm_dump.c) ---- */

/* One row of a list. */
struct spw_prm_field {
	const char *name;
	uint8_t byte, msb, lsb;
};

/* One list. Fields stand in the list's order; they may overlap. */
struct spw_prm_format {
	const char *name;
	uint16_t bytes, field_cnt;
	const struct spw_prm_field *fields;
};

/* Purpose: looks a format up by its name in SPW_PRM_FORMATS.
 * Returns: NULL if there is none; else static data.
 * Thread: any.
 */
const struct spw_prm_format *spw_prm_format(const char *name);

/* Purpose: looks a field of a format up by its name.
 * Returns: NULL if there is none; else static data.
 * Thread: any.
 */
const struct spw_prm_field *spw_prm_field(const struct spw_prm_format *fmt, const char *name);

/* Purpose: reads one field by its table row. For tests, dumpers and tools; hot code uses
 *   the accessors.
 * Shape: p has the bytes of the field's format.
 * Thread: any.
 */
uint64_t spw_prm_field_get(const struct spw_prm_field *field, const void *p);

/* Purpose: the name of a value as the lists spell it, without prefix.
 * Returns: "?" for a value without a name; static text.
 * Thread: any.
 */
const char *spw_prm_cqe_opcode_name(unsigned opcode);
const char *spw_prm_wqe_opcode_name(unsigned opcode);
const char *spw_prm_syndrome_name(unsigned syndrome);

/* Purpose: the ibv_wc_status that libmlx5 reports for a syndrome, and its text.
 * Returns: IBV_WC_GENERAL_ERR (21), "general error" for an unknown syndrome.
 * Source: [DV] cq.c, handle_error_cqe().
 * Thread: any.
 */
unsigned spw_prm_syndrome_wc_status(unsigned syndrome);
const char *spw_prm_syndrome_text(unsigned syndrome);

/* Purpose: a CQE as "name=0xvalue" words, the fields that are not zero, no newline: chooses the
 *   format by the opcode and spells out opcode and syndrome: "REQ_ERR LOCAL_PROT_ERR (local
 *   protection error) of SEND qpn=0x...".
 * Shape: cqe has 64 bytes; the text is cut to size and, if size > 0, always terminated.
 * Returns: the length that the whole text needs, without the terminator.
 * Thread: any.
 */
int spw_prm_dump_cqe(const void *cqe, char *text, size_t size);

/* The kind of QP decides which segments follow ctrl in a send WQE. */
enum spw_prm_transport { SPW_PRM_RC, SPW_PRM_UC, SPW_PRM_UD, SPW_PRM_RAW };

/* Purpose: a whole send WQE: one line for ctrl, then one line for each segment.
 * Shape: wqe is contiguous (does not wrap at the end of its ring) and has `bytes` valid bytes; no
 *   more than ctrl's ds are shown. A segment beyond `bytes` is shown as "cut".
 * Returns, Thread: as spw_prm_dump_cqe.
 */
int spw_prm_dump_wqe(const void *wqe, size_t bytes, enum spw_prm_transport transport, char *text,
		     size_t size);

#ifdef __cplusplus
}
#endif
#endif
