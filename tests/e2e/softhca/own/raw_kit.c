/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors */
#include "raw_kit.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/spw_order.h"
#include "prm/spw_prm.h"

#define TX_SLOT_BYTES 16384u
#define TX_SLOTS      64u

/* The key of Microsoft's "Verifying the RSS hash calculation". */
static const uint8_t rss_key[40] = {
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
	0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
	0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

/* ---- set-up ---- */

/* The port's address, out of its link-local GID (EUI-64). */
static void find_mac(struct raw *r)
{
	union ibv_gid gid;

	assert_int_equal(ibv_query_gid(r->k.ctx, 1, 0, &gid), 0);
	memcpy(r->mac, gid.raw + 8, 3);
	memcpy(r->mac + 3, gid.raw + 13, 3);
	r->mac[0] ^= 2;
}

static void make_cq(struct raw *r)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = RAW_CQE_CNT - 1,
					   .wc_flags = IBV_WC_EX_WITH_BYTE_LEN};
	struct mlx5dv_cq_init_attr dv = {.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE,
					 .cqe_comp_res_format = r->how.comp_format};
	struct mlx5dv_obj obj = {.cq = {.out = &r->dc}};

	r->cq = r->how.comp_format ? mlx5dv_create_cq(r->k.ctx, &attr, &dv)
				   : ibv_create_cq_ex(r->k.ctx, &attr);
	assert_non_null(r->cq);
	obj.cq.in = ibv_cq_ex_to_cq(r->cq);
	assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
	assert_int_equal(r->dc.cqe_cnt, RAW_CQE_CNT);
	assert_int_equal(r->dc.cqe_size, 64);
}

static void make_wq(struct raw *r)
{
	struct ibv_wq_init_attr attr = {.wq_type = IBV_WQT_RQ,
					.max_wr = r->how.wqe_cnt,
					.max_sge = 1,
					.pd = r->k.pd,
					.cq = ibv_cq_ex_to_cq(r->cq),
					.create_flags = r->how.wq_flags,
					.comp_mask = r->how.wq_flags ? IBV_WQ_INIT_ATTR_FLAGS : 0};
	struct mlx5dv_wq_init_attr dv = {
		.comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ,
		.striding_rq_attrs = {.single_stride_log_num_of_bytes = r->how.stride_log2,
				      .single_wqe_log_num_of_strides = r->how.strides_log2,
				      .two_byte_shift_en = r->how.two_byte_shift},
	};
	struct mlx5dv_obj obj = {.rwq = {.out = &r->rq}};
	struct ibv_wq_attr ready = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};

	r->wq = r->how.striding ? mlx5dv_create_wq(r->k.ctx, &attr, &dv)
				: ibv_create_wq(r->k.ctx, &attr);
	assert_non_null(r->wq);
	obj.rwq.in = r->wq;
	assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_RWQ), 0);
	assert_int_equal(r->rq.wqe_cnt, r->how.wqe_cnt);
	assert_int_equal(ibv_modify_wq(r->wq, &ready), 0);
}

static void make_rss(struct raw *r)
{
	struct ibv_rwq_ind_table_init_attr table = {.log_ind_tbl_size = 0, .ind_tbl = &r->wq};
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE |
			     IBV_QP_INIT_ATTR_RX_HASH,
		.pd = r->k.pd,
		.rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
				 .rx_hash_key_len = sizeof(rss_key),
				 .rx_hash_key = (uint8_t *)(uintptr_t)rss_key,
				 .rx_hash_fields_mask =
					 IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 |
					 IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP},
	};
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} rule = {
		.attr = {.type = IBV_FLOW_ATTR_NORMAL,
			 .size = sizeof(rule),
			 .num_of_specs = 1,
			 .port = 1},
		.eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.eth)},
	};

	r->table = ibv_create_rwq_ind_table(r->k.ctx, &table);
	assert_non_null(r->table);
	init.rwq_ind_tbl = r->table;
	r->rss = ibv_create_qp_ex(r->k.ctx, &init);
	assert_non_null(r->rss);
	memcpy(rule.eth.val.dst_mac, r->mac, 6);
	memset(rule.eth.mask.dst_mac, 0xff, 6);
	r->flow = ibv_create_flow(r->rss, &rule.attr);
	assert_non_null(r->flow);
}

void raw_open(struct raw *r, const struct raw_how *how)
{
	const struct kit_how raw = {.type = IBV_QPT_RAW_PACKET};

	memset(r, 0, sizeof(*r));
	r->how = *how;
	if (!r->how.wqe_cnt)
		r->how.wqe_cnt = RAW_WQE_CNT;
	kit_open(&r->k);
	find_mac(r);
	make_cq(r);
	make_wq(r);
	make_rss(r);
	kit_end_open(&r->k, &r->tx, &raw);
	kit_end_bring(&r->k, &r->tx, 0, &raw, IBV_QPS_RTS);
}

void raw_close(struct raw *r)
{
	assert_int_equal(ibv_destroy_flow(r->flow), 0);
	assert_int_equal(ibv_destroy_qp(r->rss), 0);
	assert_int_equal(ibv_destroy_rwq_ind_table(r->table), 0);
	assert_int_equal(ibv_destroy_wq(r->wq), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(r->cq)), 0);
	kit_end_close(&r->tx);
	kit_close(&r->k);
}

/* ---- posting and sending ---- */

uint8_t *raw_slot(const struct raw *r, uint32_t wqe)
{
	return r->k.buf + KIT_BUF_BYTES / 2 + (size_t)(wqe % r->how.wqe_cnt) * RAW_SLOT_BYTES;
}

void raw_post(struct raw *r, uint32_t lkey)
{
	raw_post_bytes(r, lkey,
		       r->how.striding ? 1u << (r->how.stride_log2 + r->how.strides_log2)
				       : RAW_SLOT_BYTES);
}

void raw_post_bytes(struct raw *r, uint32_t lkey, uint32_t bytes)
{
	uint8_t *wqe =
		(uint8_t *)r->rq.buf + (size_t)(r->posted & (r->rq.wqe_cnt - 1)) * r->rq.stride;

	memset(wqe, 0, r->rq.stride);
	if (r->how.striding)
		wqe += 16; /* a "next" segment, which a cyclic queue does not use */
	spw_prm_wqe_data_set_byte_count(wqe, bytes);
	spw_prm_wqe_data_set_lkey(wqe, lkey ? lkey : r->k.mr->lkey);
	spw_prm_wqe_data_set_addr(wqe, (uintptr_t)raw_slot(r, r->posted));
	if (!r->how.striding && r->rq.stride > 16)
		spw_prm_wqe_data_set_lkey(wqe + 16, SPW_PRM_INVALID_LKEY);
	r->posted++;
	spw_dma_to_device(); /* WQE before record; partner: the NIC's read of the record */
	spw_dma_store((spw_be32 *)(void *)r->rq.dbrec, spw_cpu_to_be32(r->posted & 0xffff));
}

uint8_t *raw_frame_at(const struct raw *r, uint32_t at)
{
	return r->k.buf + (size_t)(at % TX_SLOTS) * TX_SLOT_BYTES;
}

void raw_frame(struct raw *r, uint32_t at, uint32_t len, uint32_t seed)
{
	uint8_t *f = raw_frame_at(r, at);
	const uint16_t ip_len = (uint16_t)(len - 14);

	kit_fill(f, len, seed);
	memcpy(f, r->mac, 6);
	memcpy(f + 6, (uint8_t[]){2, 0, 0, 0, 0, 9, 0x08, 0, 0x45, 0}, 10);
	spw_prm_st16(f + 16, ip_len);
	memcpy(f + 18, (uint8_t[]){0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2}, 16);
	spw_prm_st16(f + 28, (uint16_t)seed); /* source address */
	spw_prm_st16(f + 24, 0);
	spw_prm_st16(f + 24, (uint16_t)~raw_sum(f, 34)); /* IP header checksum: over bytes 14..33 */
	spw_prm_st16(f + 34, (uint16_t)(1000 + seed));
	spw_prm_st16(f + 36, 7);
	spw_prm_st16(f + 38, (uint16_t)(ip_len - 20));
	spw_prm_st16(f + 40, 0); /* no UDP checksum */
}

void raw_send(struct raw *r, uint32_t cnt, const uint32_t *len)
{
	struct ibv_sge sge[TX_SLOTS];
	struct ibv_send_wr wr[TX_SLOTS], *bad;
	struct ibv_wc wc;

	assert_true(cnt && cnt <= KIT_DEPTH && cnt <= TX_SLOTS);
	for (uint32_t i = 0; i < cnt; i++) {
		sge[i] = (struct ibv_sge){(uintptr_t)raw_frame_at(r, i), len[i], r->k.mr->lkey};
		wr[i] = (struct ibv_send_wr){.sg_list = &sge[i],
					     .num_sge = 1,
					     .opcode = IBV_WR_SEND,
					     .next = i + 1 < cnt ? &wr[i + 1] : NULL,
					     .send_flags = r->how.send_flags |
							   (i + 1 < cnt ? 0 : IBV_SEND_SIGNALED)};
	}
	assert_int_equal(ibv_post_send(r->tx.qp, wr, &bad), 0);
	kit_expect(r->tx.cq, IBV_WC_SUCCESS, &wc);
	r->sent += cnt;
}

void raw_send_tagged(struct raw *r, uint32_t len, uint16_t tci, bool service_tag)
{
	struct mlx5dv_qp dv = {0};
	struct mlx5dv_obj obj = {.qp = {.in = r->tx.qp, .out = &dv}};
	const uint32_t pi = r->tagged++;
	uint8_t *wqe;
	spw_be64 first;

	assert_int_equal(r->sent, 0); /* libmlx5 does not know the WQEs that are written here */
	assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), 0);
	wqe = (uint8_t *)dv.sq.buf + (size_t)(pi & (dv.sq.wqe_cnt - 1)) * 64;
	memset(wqe, 0, 64);
	spw_prm_wqe_ctrl_set_opcode(wqe, SPW_PRM_OP_SEND);
	spw_prm_wqe_ctrl_set_wqe_index(wqe, pi);
	spw_prm_wqe_ctrl_set_qpn(
		wqe, dv.comp_mask & MLX5DV_QP_MASK_RAW_QP_HANDLES ? dv.sqn : r->tx.qp->qp_num);
	spw_prm_wqe_ctrl_set_ds(wqe, 3);
	spw_prm_wqe_ctrl_set_ce(wqe, SPW_PRM_CTRL_CE_CQE);
	spw_prm_wqe_eth_set_vlan_insert(wqe + 16, 1);
	spw_prm_wqe_eth_set_vlan_s(wqe + 16, service_tag);
	spw_prm_wqe_eth_set_vlan_tci(wqe + 16, tci);
	spw_prm_wqe_data_set_byte_count(wqe + 32, len);
	spw_prm_wqe_data_set_lkey(wqe + 32, r->k.mr->lkey);
	spw_prm_wqe_data_set_addr(wqe + 32, (uintptr_t)raw_frame_at(r, 0));
	memcpy(&first, wqe, sizeof(first));
	spw_dma_to_device(); /* WQE before record; partner: the NIC's read of SND_DBR */
	spw_dma_store((spw_be32 *)(void *)&dv.dbrec[MLX5_SND_DBR],
		      spw_cpu_to_be32(r->tagged & 0xffff));
	spw_mmio_wc_start(); /* record before register; partner: the NIC's read of the register */
	spw_mmio_write64_be(dv.bf.reg, first);
	spw_mmio_wc_flush();
}

/* ---- completions ---- */

static uint8_t *cqe_at(const struct raw *r, uint32_t ci)
{
	return (uint8_t *)r->dc.buf + (size_t)(ci & (RAW_CQE_CNT - 1)) * 64;
}

static bool is_mine(const struct raw *r, const uint8_t *cqe)
{
	const uint32_t lap = r->ci / RAW_CQE_CNT;
	const uint8_t op_own = spw_dma_load(cqe + 63);

	if (r->how.enhanced)
		return spw_dma_load(cqe + 62) == (lap & 0xff);
	return op_own >> 4 != SPW_PRM_CQE_INVALID && (op_own & 1) == (lap & 1);
}

static void consumed(struct raw *r)
{
	r->ci++;
	spw_dma_store((spw_be32 *)(void *)r->dc.dbrec, spw_cpu_to_be32(r->ci & 0xffffff));
}

static void from_mini(struct raw *r, struct raw_done *d)
{
	const uint8_t *m;

	if (!r->how.enhanced && r->mini_at && r->mini_at % 8 == 0)
		memcpy(r->mini, cqe_at(r, r->mini_first + r->mini_at), 64);
	m = r->mini + (r->mini_at++ % 8) * 8;
	memset(d, 0, sizeof(*d));
	d->mini = true;
	d->opcode = spw_prm_cqe64_get_opcode(r->title);
	d->hds_ip_ext = spw_prm_cqe64_get_hds_ip_ext(r->title);
	d->wqe_id = spw_prm_cqe64_get_wqe_id(r->title);
	d->byte_cnt = spw_prm_mini_hash_get_byte_cnt(m);
	if (r->how.comp_format == MLX5DV_CQE_RES_FORMAT_HASH)
		d->hash = spw_prm_mini_hash_get_rx_hash_result(m);
	else
		d->check_sum = spw_prm_mini_csum_get_checksum(m);
	d->counter = r->counter;
	if (r->how.comp_format == MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX)
		d->counter = spw_prm_mini_csum_stridx_get_stride_idx(m);
	r->counter = (uint16_t)(d->counter + (r->how.striding ? d->byte_cnt >> 16 & 0x7fff : 1));
	r->minis_taken++;
	if (!r->how.enhanced) /* or the reader would own the slot a lap later */
		cqe_at(r, r->ci)[63] = SPW_PRM_CQE_INVALID << 4;
	consumed(r);
}

static void open_session(struct raw *r, const uint8_t *cqe)
{
	r->mini_at = 0;
	r->mini_first = r->ci;
	if (r->how.enhanced) {
		r->mini_cnt = spw_prm_cqe64_get_opcode(cqe) + 1;
		assert_in_range(r->mini_cnt, 1, 7);
		assert_in_range(spw_prm_cqe64_get_opcode(r->title), 1,
				4); /* there was a title before */
		memcpy(r->mini, cqe, 64);
		return;
	}
	memcpy(r->title, cqe, 64);
	r->mini_cnt = spw_prm_cqe64_get_byte_cnt(cqe);
	assert_in_range(r->mini_cnt, 2, 64);
	r->counter = spw_prm_cqe64_get_wqe_counter(cqe);
	memcpy(r->mini, cqe_at(r, r->ci + 1), 64);
}

static void from_cqe(struct raw *r, const uint8_t *cqe, struct raw_done *d)
{
	*d = (struct raw_done){.opcode = spw_prm_cqe64_get_opcode(cqe),
			       .byte_cnt = spw_prm_cqe64_get_byte_cnt(cqe),
			       .hash = spw_prm_cqe64_get_rx_hash_result(cqe),
			       .wqe_id = spw_prm_cqe64_get_wqe_id(cqe),
			       .check_sum = spw_prm_cqe64_get_check_sum(cqe),
			       .counter = spw_prm_cqe64_get_wqe_counter(cqe),
			       .hds_ip_ext = spw_prm_cqe64_get_hds_ip_ext(cqe),
			       .vlan = spw_prm_cqe64_get_vlan_info(cqe),
			       .l4_hdr_type_etc = spw_prm_cqe64_get_l4_hdr_type_etc(cqe),
			       .tag = spw_prm_cqe64_get_sop_drop_qpn(cqe) & 0xffffffu,
			       .drops = (uint8_t)(spw_prm_cqe64_get_sop_drop_qpn(cqe) >> 24),
			       .syndrome = spw_prm_cqe_err_get_syndrome(cqe)};
	memcpy(r->title, cqe, 64);
	r->counter = (uint16_t)(d->counter + (r->how.striding ? d->byte_cnt >> 16 & 0x7fff : 1));
	consumed(r);
}

bool raw_try(struct raw *r, struct raw_done *d)
{
	const uint8_t *cqe = cqe_at(r, r->ci);

	if (r->mini_at == r->mini_cnt) {
		if (!is_mine(r, cqe))
			return false;
		spw_dma_from_device(); /* owner before the rest; partner: the NIC's release of the
					  CQE's last 8 bytes */
		if (spw_prm_cqe64_get_format(cqe) != SPW_PRM_CQE_FORMAT_COMPRESSED) {
			from_cqe(r, cqe, d);
			return true;
		}
		open_session(r, cqe);
	}
	from_mini(r, d);
	return true;
}

void raw_next(struct raw *r, struct raw_done *d)
{
	for (unsigned i = 0; !raw_try(r, d); i++) {
		assert_true(i < KIT_WAIT_MS * 10);
		usleep(100);
	}
}

/* ---- what a card reports of a frame ---- */

uint32_t raw_hash(const uint8_t *frame)
{
	const uint8_t *in = frame + 26; /* addresses, then ports */
	uint32_t hash = 0;

	for (uint32_t bit = 0; bit < 12 * 8; bit++) {
		uint64_t window = 0;

		for (uint32_t i = 0; i < 5; i++)
			window = window << 8 | rss_key[bit / 8 + i];
		if (in[bit / 8] >> (7 - bit % 8) & 1)
			hash ^= (uint32_t)(window >> (8 - bit % 8));
	}
	return hash;
}

uint16_t raw_sum(const uint8_t *frame, uint32_t len)
{
	uint32_t sum = 0;

	for (uint32_t i = 14; i < len; i++)
		sum += i % 2 ? frame[i] : (uint32_t)frame[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}
