/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * mlx5 hardware formats, once. Each format is one list of rows F(byte, msb, lsb, name): the field is
 * bits msb..lsb of the big-endian word that starts at byte offset `byte` (4 bytes if msb < 32, else 8;
 * bit 0 is the least significant bit of that word, as in the vendor's manual). From the lists come
 * inline accessors (this file), and a table for encoders, dumpers, tests and fuzzers (prm_table.c).
 *
 * Accessors: spw_prm_<fmt>_get_<field>(const void *p), spw_prm_<fmt>_set_<field>(void *p, v).
 *   All arguments but p and v fold to constants: a whole word, half or byte is one load or store
 *   (and a swap); an odd bit field is a load, a shift and a mask. p needs 4 (8) byte alignment only
 *   where the machine does. `set` of an odd bit field reads the word first.
 * Thread: any; they order nothing. Ownership words are read through base/spw_order.h.
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

/* ---- completion queue entries: 64 bytes each ---------------------------------------------------- */

/* [DV] struct mlx5_cqe64, [PRM] 8.18. The last 8 bytes (56..63) are the ownership word. */
#define SPW_PRM_CQE64(F) \
	F(0, 15, 0, wqe_id)               /* striding RQ: index of the WQE */ \
	F(12, 31, 0, rx_hash_result) \
	F(16, 31, 24, rx_hash_type) \
	F(20, 31, 16, check_sum)          /* ones' complement sum of all behind the Ethernet header, [K] */ \
	F(20, 15, 0, slid)                /* [DV] places slid at 22 */ \
	F(24, 31, 0, flags_rqpn) \
	F(24, 29, 28, grh) \
	F(24, 25, 24, pkt_type)           /* UD: 0 GRH, 1 IPv6, 2 IPv4 */ \
	F(24, 23, 0, rqpn)                /* UD: source QP */ \
	F(28, 31, 24, hds_ip_ext) \
	F(28, 26, 26, l4_ok) \
	F(28, 25, 25, l3_ok) \
	F(28, 24, 24, l2_ok) \
	F(28, 23, 16, l4_hdr_type_etc) \
	F(28, 22, 20, l4_hdr_type) \
	F(28, 19, 18, l3_hdr_type) \
	F(28, 17, 17, ip_frag) \
	F(28, 16, 16, cvlan_stripped) \
	F(28, 15, 0, vlan_info) \
	F(32, 31, 0, srqn_uidx) \
	F(32, 23, 0, uidx) \
	F(36, 31, 0, imm_inval_pkey) \
	F(40, 31, 24, app) \
	F(40, 23, 16, app_op) \
	F(40, 15, 0, app_info) \
	F(44, 31, 0, byte_cnt) \
	F(44, 31, 31, mprq_filler)        /* striding RQ */ \
	F(44, 30, 16, mprq_strides) \
	F(44, 15, 0, mprq_len) \
	F(48, 63, 0, timestamp) \
	F(56, 31, 0, sop_drop_qpn) \
	F(56, 31, 24, send_opcode)        /* requester: opcode of the WQE; receiver: drops so far */ \
	F(56, 23, 0, qpn) \
	F(60, 31, 16, wqe_counter) \
	F(60, 15, 8, signature) \
	F(60, 7, 0, op_own) \
	F(60, 7, 4, opcode) \
	F(60, 3, 2, format)               /* 0: no inline data, 1: 32 B, 2: 64 B, 3: compressed */ \
	F(60, 1, 1, se) \
	F(60, 0, 0, owner)

/* [DV] struct mlx5_err_cqe. */
#define SPW_PRM_CQE_ERR(F) \
	F(32, 31, 0, srqn) \
	F(52, 31, 24, hw_err_synd)        /* [K] mlx5_err_cqe_ex names these two */ \
	F(52, 23, 16, hw_synd_type) \
	F(52, 15, 8, vendor_err_synd) \
	F(52, 7, 0, syndrome) \
	F(56, 31, 24, send_opcode) \
	F(56, 23, 0, qpn) \
	F(60, 31, 16, wqe_counter) \
	F(60, 15, 8, signature) \
	F(60, 7, 4, opcode) \
	F(60, 0, 0, owner)

/* A compressed block: the title CQE has format 3 and the number of completions in byte_cnt; the slot behind it
 * holds minis 0..7, slot 8 of the block minis 8..15, slot 16 the next eight; the block takes as many slots as it
 * has completions. [K] drivers/net/ethernet/mellanox/mlx5/core/en_rx.c, [PMD].
 * Enhanced layout: up to 7 minis in one slot (bytes 0..55), their number less 1 where the opcode would be, format 3; the title is
 * the plain CQE before. Byte 62 of every CQE counts the laps of the ring, mod 256 (0xff before the first), and tells who owns
 * it. [K] en_rx.c, wq.h, struct mlx5_cqe64.
 * Result formats: the first word is hash or checksum (and stride index); the second is the length. */
#define SPW_PRM_MINI_HASH(F) \
	F(0, 31, 0, rx_hash_result) \
	F(4, 31, 0, byte_cnt)
#define SPW_PRM_MINI_CSUM(F) \
	F(0, 31, 16, checksum) \
	F(0, 15, 0, rsvd0) \
	F(4, 31, 0, byte_cnt)
#define SPW_PRM_MINI_CSUM_STRIDX(F) \
	F(0, 31, 16, checksum) \
	F(0, 15, 0, stride_idx) \
	F(4, 31, 0, byte_cnt)
/* Responder of a send queue ([DV] name: mlx5_mini_cqe8 of requester CQEs). */
#define SPW_PRM_MINI_REQ(F) \
	F(0, 31, 16, wqe_counter) \
	F(0, 15, 8, s_wqe_opcode) \
	F(4, 31, 0, byte_cnt)

/* ---- work queue entries -------------------------------------------------------------------------- */

/* [DV] struct mlx5_wqe_ctrl_seg. */
#define SPW_PRM_WQE_CTRL(F) \
	F(0, 31, 24, opmod) \
	F(0, 23, 8, wqe_index) \
	F(0, 7, 0, opcode) \
	F(4, 31, 8, qpn) \
	F(4, 5, 0, ds)                    /* size in 16-byte units */ \
	F(8, 31, 24, signature) \
	F(8, 7, 5, fm)                    /* fence mode */ \
	F(8, 3, 2, ce)                    /* 2: a CQE, always; 0: only on error */ \
	F(8, 1, 1, se)                    /* solicited */ \
	F(12, 31, 0, imm)

/* [DV] struct mlx5_wqe_raddr_seg. */
#define SPW_PRM_WQE_RADDR(F) \
	F(0, 63, 0, raddr) \
	F(8, 31, 0, rkey)

/* [DV] struct mlx5_wqe_atomic_seg. */
#define SPW_PRM_WQE_ATOMIC(F) \
	F(0, 63, 0, swap_add) \
	F(8, 63, 0, compare)

/* [DV] struct mlx5_wqe_data_seg. */
#define SPW_PRM_WQE_DATA(F) \
	F(0, 31, 31, inline_seg) \
	F(0, 30, 0, byte_count) \
	F(4, 31, 0, lkey) \
	F(8, 63, 0, addr)

/* [DV] struct mlx5_wqe_inl_data_seg: this word, then the bytes, padded to 16. */
#define SPW_PRM_WQE_INLINE(F) \
	F(0, 31, 31, inline_seg) \
	F(0, 9, 0, byte_count)

/* [DV] struct mlx5_wqe_eth_seg up to the inline header; the header's bytes start at 14. */
#define SPW_PRM_WQE_ETH(F) \
	F(4, 31, 31, l4_csum) \
	F(4, 30, 30, l3_csum) \
	F(4, 29, 29, l4_inner_csum) \
	F(4, 28, 28, l3_inner_csum) \
	F(4, 15, 0, mss) \
	F(8, 31, 0, flow_table_metadata) \
	F(12, 31, 31, vlan_insert) \
	F(12, 30, 30, vlan_s)             /* 88a8, not 8100 */ \
	F(12, 15, 0, vlan_tci)            /* with vlan_insert, in place of the inline header */ \
	F(12, 25, 16, inline_hdr_sz) \
	F(12, 15, 0, inline_hdr_start)

/* [DV] struct mlx5_wqe_av, 48 bytes with the extended part. */
#define SPW_PRM_WQE_AV(F) \
	F(0, 31, 0, qkey) \
	F(8, 31, 31, ext) \
	F(8, 23, 0, dqpn) \
	F(12, 31, 28, stat_rate) \
	F(12, 27, 24, sl) \
	F(12, 23, 23, fl) \
	F(12, 22, 16, mlid) \
	F(12, 15, 0, udp_sport)           /* InfiniBand: remote LID */ \
	F(20, 31, 0, rmac_47_16) \
	F(24, 31, 16, rmac_15_0) \
	F(24, 15, 8, tclass) \
	F(24, 7, 0, hop_limit) \
	F(28, 30, 30, grh) \
	F(28, 27, 20, src_addr_index) \
	F(28, 19, 0, flow_label) \
	F(32, 63, 0, rgid_hi) \
	F(40, 63, 0, rgid_lo)

/* [DV] struct mlx5_wqe_srq_next_seg. */
#define SPW_PRM_WQE_SRQ_NEXT(F) \
	F(0, 15, 0, next_wqe_index) \
	F(4, 31, 24, signature)

/* Doorbell records, [PRM] 8.3 and 8.18: two big-endian words each. */
#define SPW_PRM_DBREC_QP(F) \
	F(0, 15, 0, rcv_counter) \
	F(4, 15, 0, snd_counter)
#define SPW_PRM_DBREC_CQ(F) \
	F(0, 23, 0, update_ci) \
	F(4, 29, 28, arm_sn) \
	F(4, 24, 24, arm_cmd)             /* 1: solicited only */ \
	F(4, 23, 0, arm_ci)

/* Every format: X(name, upper case, bytes). */
#define SPW_PRM_FORMATS(X) \
	X(cqe64, SPW_PRM_CQE64, 64) \
	X(cqe_err, SPW_PRM_CQE_ERR, 64) \
	X(mini_hash, SPW_PRM_MINI_HASH, 8) \
	X(mini_csum, SPW_PRM_MINI_CSUM, 8) \
	X(mini_csum_stridx, SPW_PRM_MINI_CSUM_STRIDX, 8) \
	X(mini_req, SPW_PRM_MINI_REQ, 8) \
	X(wqe_ctrl, SPW_PRM_WQE_CTRL, 16) \
	X(wqe_raddr, SPW_PRM_WQE_RADDR, 16) \
	X(wqe_atomic, SPW_PRM_WQE_ATOMIC, 16) \
	X(wqe_data, SPW_PRM_WQE_DATA, 16) \
	X(wqe_inline, SPW_PRM_WQE_INLINE, 4) \
	X(wqe_eth, SPW_PRM_WQE_ETH, 16) \
	X(wqe_av, SPW_PRM_WQE_AV, 48) \
	X(wqe_srq_next, SPW_PRM_WQE_SRQ_NEXT, 16) \
	X(dbrec_qp, SPW_PRM_DBREC_QP, 8) \
	X(dbrec_cq, SPW_PRM_DBREC_CQ, 8)

/* ---- accessors ------------------------------------------------------------------------------------ */

SPW_INLINE uint8_t spw_prm_ld8(const void *p) { return *(const uint8_t *)p; }
SPW_INLINE uint16_t spw_prm_ld16(const void *p)
{
	uint16_t v;
	memcpy(&v, p, sizeof(v));
	return SPW_SWAP16(v);
}
SPW_INLINE uint32_t spw_prm_ld32(const void *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof(v));
	return SPW_SWAP32(v);
}
SPW_INLINE uint64_t spw_prm_ld64(const void *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof(v));
	return SPW_SWAP64(v);
}
SPW_INLINE void spw_prm_st8(void *p, uint8_t v) { *(uint8_t *)p = v; }
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

/* Any field of any format; what the generated accessors are made of. */
SPW_INLINE uint64_t spw_prm_get(const void *p, unsigned byte, unsigned msb, unsigned lsb)
{
	const unsigned bits = msb - lsb + 1;
	const char *b = (const char *)p + byte;

	if (msb > 31)
		return bits == 64 ? spw_prm_ld64(b) : (spw_prm_ld64(b) >> lsb) & ((1ull << bits) - 1);
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

#define SPW_PRM_ACC_(fmt, byte, msb, lsb, name) \
	SPW_INLINE uint64_t spw_prm_##fmt##_get_##name(const void *p) { return spw_prm_get(p, byte, msb, lsb); } \
	SPW_INLINE void spw_prm_##fmt##_set_##name(void *p, uint64_t v) { spw_prm_put(p, byte, msb, lsb, v); }

/* One macro per format, because a list cannot pass the format's name to its rows. */
#define SPW_PRM_A_cqe64(byte, msb, lsb, name) SPW_PRM_ACC_(cqe64, byte, msb, lsb, name)
#define SPW_PRM_A_cqe_err(byte, msb, lsb, name) SPW_PRM_ACC_(cqe_err, byte, msb, lsb, name)
#define SPW_PRM_A_mini_hash(byte, msb, lsb, name) SPW_PRM_ACC_(mini_hash, byte, msb, lsb, name)
#define SPW_PRM_A_mini_csum(byte, msb, lsb, name) SPW_PRM_ACC_(mini_csum, byte, msb, lsb, name)
#define SPW_PRM_A_mini_csum_stridx(byte, msb, lsb, name) SPW_PRM_ACC_(mini_csum_stridx, byte, msb, lsb, name)
#define SPW_PRM_A_mini_req(byte, msb, lsb, name) SPW_PRM_ACC_(mini_req, byte, msb, lsb, name)
#define SPW_PRM_A_wqe_ctrl(byte, msb, lsb, name) SPW_PRM_ACC_(wqe_ctrl, byte, msb, lsb, name)
#define SPW_PRM_A_wqe_raddr(byte, msb, lsb, name) SPW_PRM_ACC_(wqe_raddr, byte, msb, lsb, name)
#define SPW_PRM_A_wqe_atomic(byte, msb, lsb, name) SPW_PRM_ACC_(wqe_atomic, byte, msb, lsb, name)
#define SPW_PRM_A_wqe_data(byte, msb, lsb, name) SPW_PRM_ACC_(wqe_data, byte, msb, lsb, name)
#define SPW_PRM_A_wqe_inline(byte, msb, lsb, name) SPW_PRM_ACC_(wqe_inline, byte, msb, lsb, name)
#define SPW_PRM_A_wqe_eth(byte, msb, lsb, name) SPW_PRM_ACC_(wqe_eth, byte, msb, lsb, name)
#define SPW_PRM_A_wqe_av(byte, msb, lsb, name) SPW_PRM_ACC_(wqe_av, byte, msb, lsb, name)
#define SPW_PRM_A_wqe_srq_next(byte, msb, lsb, name) SPW_PRM_ACC_(wqe_srq_next, byte, msb, lsb, name)
#define SPW_PRM_A_dbrec_qp(byte, msb, lsb, name) SPW_PRM_ACC_(dbrec_qp, byte, msb, lsb, name)
#define SPW_PRM_A_dbrec_cq(byte, msb, lsb, name) SPW_PRM_ACC_(dbrec_cq, byte, msb, lsb, name)
SPW_PRM_CQE64(SPW_PRM_A_cqe64)
SPW_PRM_CQE_ERR(SPW_PRM_A_cqe_err)
SPW_PRM_MINI_HASH(SPW_PRM_A_mini_hash)
SPW_PRM_MINI_CSUM(SPW_PRM_A_mini_csum)
SPW_PRM_MINI_CSUM_STRIDX(SPW_PRM_A_mini_csum_stridx)
SPW_PRM_MINI_REQ(SPW_PRM_A_mini_req)
SPW_PRM_WQE_CTRL(SPW_PRM_A_wqe_ctrl)
SPW_PRM_WQE_RADDR(SPW_PRM_A_wqe_raddr)
SPW_PRM_WQE_ATOMIC(SPW_PRM_A_wqe_atomic)
SPW_PRM_WQE_DATA(SPW_PRM_A_wqe_data)
SPW_PRM_WQE_INLINE(SPW_PRM_A_wqe_inline)
SPW_PRM_WQE_ETH(SPW_PRM_A_wqe_eth)
SPW_PRM_WQE_AV(SPW_PRM_A_wqe_av)
SPW_PRM_WQE_SRQ_NEXT(SPW_PRM_A_wqe_srq_next)
SPW_PRM_DBREC_QP(SPW_PRM_A_dbrec_qp)
SPW_PRM_DBREC_CQ(SPW_PRM_A_dbrec_cq)

/* ---- values ---------------------------------------------------------------------------------------- */

/* [DV]. X(value, name). */
#define SPW_PRM_CQE_OPCODES(X) \
	X(0, REQ) X(1, RESP_WR_IMM) X(2, RESP_SEND) X(3, RESP_SEND_IMM) X(4, RESP_SEND_INV) \
	X(5, RESIZE_CQ) X(6, NO_PACKET) X(12, SIG_ERR) X(13, REQ_ERR) X(14, RESP_ERR) X(15, INVALID)

#define SPW_PRM_WQE_OPCODES(X) \
	X(0x00, NOP) X(0x01, SEND_INVAL) X(0x08, RDMA_WRITE) X(0x09, RDMA_WRITE_IMM) X(0x0a, SEND) \
	X(0x0b, SEND_IMM) X(0x0e, TSO) X(0x10, RDMA_READ) X(0x11, ATOMIC_CS) X(0x12, ATOMIC_FA) \
	X(0x14, ATOMIC_MASKED_CS) X(0x15, ATOMIC_MASKED_FA) X(0x19, FMR) X(0x1b, LOCAL_INVAL) \
	X(0x1f, CONFIG_CMD) X(0x20, SET_PSV) X(0x25, UMR) X(0x28, TAG_MATCHING) X(0x29, ENHANCED_MPSW) \
	X(0x2c, FLOW_TBL_ACCESS) X(0x2f, MMO)

/* [DV] MLX5_CQE_SYNDROME_*; text as ibv_wc_status_str() of libibverbs names the status it becomes.
 * X(value, name, ibv_wc_status value, text). */
#define SPW_PRM_SYNDROMES(X) \
	X(0x01, LOCAL_LENGTH_ERR, 1, "local length error") \
	X(0x02, LOCAL_QP_OP_ERR, 2, "local QP operation error") \
	X(0x04, LOCAL_PROT_ERR, 4, "local protection error") \
	X(0x05, WR_FLUSH_ERR, 5, "Work Request Flushed Error") \
	X(0x06, MW_BIND_ERR, 6, "memory management operation error") \
	X(0x10, BAD_RESP_ERR, 7, "bad response error") \
	X(0x11, LOCAL_ACCESS_ERR, 8, "local access error") \
	X(0x12, REMOTE_INVAL_REQ_ERR, 9, "remote invalid request error") \
	X(0x13, REMOTE_ACCESS_ERR, 10, "remote access error") \
	X(0x14, REMOTE_OP_ERR, 11, "remote operation error") \
	X(0x15, TRANSPORT_RETRY_EXC_ERR, 12, "transport retry counter exceeded") \
	X(0x16, RNR_RETRY_EXC_ERR, 13, "RNR retry counter exceeded") \
	X(0x22, REMOTE_ABORTED_ERR, 16, "remote aborted error")

#define SPW_PRM_E_CQE(v, n) SPW_PRM_CQE_##n = (v),
#define SPW_PRM_E_WQE(v, n) SPW_PRM_OP_##n = (v),
#define SPW_PRM_E_SYN(v, n, st, text) SPW_PRM_SYN_##n = (v),
enum spw_prm_cqe_opcode { SPW_PRM_CQE_OPCODES(SPW_PRM_E_CQE) };
enum spw_prm_wqe_opcode { SPW_PRM_WQE_OPCODES(SPW_PRM_E_WQE) };
enum spw_prm_syndrome { SPW_PRM_SYNDROMES(SPW_PRM_E_SYN) };

enum {
	SPW_PRM_WQE_BB_BYTES = 64,          /* a send WQE starts at a multiple of this */
	SPW_PRM_INVALID_LKEY = 0x100,       /* ends the list of a receive WQE */
	SPW_PRM_CTRL_CE_CQE = 2,
	SPW_PRM_CTRL_FM_SMALL = 1,          /* initiator small fence: orders UMR and invalidate only */
	SPW_PRM_CQE_FORMAT_COMPRESSED = 3,
	SPW_PRM_MINI_PER_CQE = 8,
	SPW_PRM_MINI_ENHANCED_MAX = 7,
	SPW_PRM_UAR_BF_OFFSET = 0x800,      /* BlueFlame registers in a UAR page */
	SPW_PRM_UAR_CQ_ARM_OFFSET = 0x20,
	SPW_PRM_L3_NONE = 0,
	SPW_PRM_L3_IPV6 = 1,
	SPW_PRM_L3_IPV4 = 2,
	SPW_PRM_L4_NONE = 0,                /* [K] enum cqe_l4_hdr_type */
	SPW_PRM_L4_TCP_NO_ACK = 1,
	SPW_PRM_L4_UDP = 2,
	SPW_PRM_L4_TCP_ACK_NO_DATA = 3,
	SPW_PRM_L4_TCP_ACK_AND_DATA = 4,
};

/* ---- tables, names, text (prm_table.c, prm_dump.c) -------------------------------------------------- */

struct spw_prm_field {
	const char *name;
	uint8_t byte, msb, lsb;
};

struct spw_prm_format {
	const char *name;
	uint16_t bytes, field_cnt;
	const struct spw_prm_field *fields;
};

/* Purpose: the table of a format. Shape: name as in SPW_PRM_FORMATS. Returns: NULL if there is none.
 * Lifetime: static. Thread: any. */
const struct spw_prm_format *spw_prm_format(const char *name);
const struct spw_prm_format *spw_prm_format_at(unsigned idx); /* NULL past the last */
const struct spw_prm_field *spw_prm_field(const struct spw_prm_format *fmt, const char *name);

/* Purpose: one field, by table. Shape: p has fmt->bytes. For tests, dumpers and tools, not hot code. */
uint64_t spw_prm_field_get(const struct spw_prm_field *field, const void *p);
void spw_prm_field_set(const struct spw_prm_field *field, void *p, uint64_t v);

/* Names; "?" for values that have none. */
const char *spw_prm_cqe_opcode_name(unsigned opcode);
const char *spw_prm_wqe_opcode_name(unsigned opcode);
const char *spw_prm_syndrome_name(unsigned syndrome);
/* The ibv_wc_status that a syndrome becomes in libmlx5 ([DV] cq.c handle_error_cqe); its text. Unknown
 * syndromes become IBV_WC_GENERAL_ERR (21). */
unsigned spw_prm_syndrome_wc_status(unsigned syndrome);
const char *spw_prm_syndrome_text(unsigned syndrome);

/* Purpose: text of one object as "name=value" words, non-zero fields only, no newline.
 * Shape:   p has fmt->bytes; text is cut to size and always ends with 0. Returns: length it wanted. */
int spw_prm_dump(const struct spw_prm_format *fmt, const void *p, char *text, size_t size);
/* Picks the right format by opcode and puts names in words: "REQ_ERR qpn=0x.. LOCAL_PROT_ERR ...". */
int spw_prm_dump_cqe(const void *cqe, char *text, size_t size);
/* A whole send WQE: ctrl, then each segment. wqe is contiguous (unwrapped) and has `bytes` valid bytes,
 * of which the ctrl segment's ds says how many belong to it. is_ud / is_raw: what follows ctrl. */
enum spw_prm_transport { SPW_PRM_RC, SPW_PRM_UC, SPW_PRM_UD, SPW_PRM_RAW };
int spw_prm_dump_wqe(const void *wqe, size_t bytes, enum spw_prm_transport transport, char *text, size_t size);
/* The 16-byte-per-line hex that kernels and libraries print of a WQE or CQE, back to bytes: takes
 * "00000000: de ad be ef ..." as well as bare "deadbeef 00112233 ..." big-endian words.
 * Returns: bytes filled, or -EINVAL. */
int spw_prm_parse_hex(const char *text, void *out, size_t size);

#ifdef __cplusplus
}
#endif
#endif
