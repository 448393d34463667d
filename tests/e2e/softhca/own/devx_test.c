/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Queues made by firmware commands (DEVX), driven by hand: capabilities against query_device,
 * frames through an SQ, what is refused and how.
 */
#include "devx_kit.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/spw_order.h"
#include "prm/spw_prm.h"

#define CQ_LOG2  4u
#define SQ_LOG2  4u
#define RQ_LOG2  3u
#define LEN      200u
#define FRAMES   100u /* several laps of each ring */
#define EREFUSED 121  /* EREMOTEIO */

enum { RST = 0, RDY = 1, ERR = 3 };
enum { BAD_OP = 2, BAD_PARAM = 3, BAD_RES = 5, BAD_RES_STATE = 9, BAD_INP_LEN = 0x50 };

static struct raw r;
static struct mlx5dv_devx_uar *uar;
static uint32_t pdn, eqn;
static struct thing td, tis, cq, sq, rq;
static uint32_t sq_pi, cq_ci;

/* ---- set-up ---- */

static void make_domains(void)
{
	struct box b;

	box_start(&b, 0x816);
	thing_make(r.k.ctx, &b, &td);
	box_start(&b, 0x912);
	box_put(b.in, 0x100 + 0x128, 24, td.number);
	thing_make(r.k.ctx, &b, &tis);
}

static void make_cq(struct thing *t)
{
	struct box b;

	thing_memory(r.k.ctx, t, CQ_RECORDS(CQ_LOG2) + 64);
	for (uint32_t i = 0; i < 1u << CQ_LOG2; i++)
		t->mem[64 * i + 63] = SPW_PRM_CQE_INVALID << 4 | 1;
	cq_box(&b, t, CQ_LOG2, uar->page_id, eqn);
	thing_make(r.k.ctx, &b, t);
	assert_int_equal(t->mem[63], SPW_PRM_CQE_INVALID << 4 | 1); /* CREATE leaves CQEs alone */
}

/* A wq structure: cyclic, with its record behind the ring. */
static void wq_put(uint8_t *wq, const struct thing *t, uint32_t log_stride, uint32_t log_size)
{
	box_put(wq, 0, 4, 1);
	box_put(wq, 0x48, 24, pdn);
	box_put(wq, 0x68, 24, uar->page_id);
	box_put(wq, 0x80, 64, 1ull << (log_stride + log_size));
	box_put(wq, 0x10c, 4, log_stride);
	box_put(wq, 0x11b, 5, log_size);
	box_put(wq, 0x140, 32, t->umem->umem_id);
	box_put(wq, 0x160, 32, t->umem->umem_id);
}

static void sq_box(struct box *b, const struct thing *t)
{
	uint8_t *sqc = b->in + 0x20;

	box_start(b, 0x904);
	box_put(sqc, 3, 1, 1); /* flush in error */
	box_put(sqc, 0x28, 24, 0x1234);
	box_put(sqc, 0x48, 24, cq.number);
	box_put(sqc, 0x100, 16, 1);
	box_put(sqc, 0x168, 24, tis.number);
	wq_put(sqc + 0x30, t, 6, SQ_LOG2);
}

static void rq_box(struct box *b, const struct thing *t)
{
	uint8_t *rqc = b->in + 0x20;

	box_start(b, 0x908);
	box_put(rqc, 3, 1, 1);   /* keep VLAN tags */
	box_put(rqc, 0xd, 1, 1); /* flush in error */
	box_put(rqc, 0x48, 24, cq.number);
	wq_put(rqc + 0x30, t, 4, RQ_LOG2);
}

static int to_state(struct thing *t, uint32_t opcode, uint32_t from, uint32_t to)
{
	struct box b;

	box_start(&b, opcode);
	box_put(b.in, 0x40, 4, from);
	box_put(b.in, 0x100 + 8, 4, to);
	return thing_modify(t, &b, opcode);
}

static int open_all(void **state)
{
	struct mlx5dv_pd dv;
	struct mlx5dv_obj obj;
	struct box b;

	(void)state;
	raw_open(&r, &(struct raw_how){0});
	obj = (struct mlx5dv_obj){.pd = {.in = r.k.pd, .out = &dv}};
	assert_int_equal(mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD), 0);
	pdn = dv.pdn;
	uar = mlx5dv_devx_alloc_uar(r.k.ctx, MLX5DV_UAR_ALLOC_TYPE_NC);
	assert_non_null(uar);
	assert_int_equal(mlx5dv_devx_query_eqn(r.k.ctx, 0, &eqn), 0);
	make_domains();
	make_cq(&cq);
	thing_memory(r.k.ctx, &sq, (64u << SQ_LOG2) + 64);
	sq_box(&b, &sq);
	thing_make(r.k.ctx, &b, &sq);
	thing_memory(r.k.ctx, &rq, (16u << RQ_LOG2) + 64);
	rq_box(&b, &rq);
	thing_make(r.k.ctx, &b, &rq);
	sq_pi = cq_ci = 0;
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	thing_free(&rq);
	thing_free(&sq);
	thing_free(&cq);
	thing_free(&tis);
	thing_free(&td);
	mlx5dv_devx_free_uar(uar);
	raw_close(&r);
	return 0;
}

/* ---- sending ---- */

/* One frame of place 0: no bytes of it in the WQE. */
static void post_frame(uint32_t len)
{
	uint8_t *wqe = sq.mem + 64ull * (sq_pi & ((1u << SQ_LOG2) - 1));
	spw_be64 first;

	memset(wqe, 0, 64);
	spw_prm_wqe_ctrl_set_opcode(wqe, SPW_PRM_OP_SEND);
	spw_prm_wqe_ctrl_set_wqe_index(wqe, sq_pi);
	spw_prm_wqe_ctrl_set_qpn(wqe, sq.number);
	spw_prm_wqe_ctrl_set_ds(wqe, 3);
	spw_prm_wqe_ctrl_set_ce(wqe, SPW_PRM_CTRL_CE_CQE);
	spw_prm_wqe_data_set_byte_count(wqe + 32, len);
	spw_prm_wqe_data_set_lkey(wqe + 32, r.k.mr->lkey);
	spw_prm_wqe_data_set_addr(wqe + 32, (uintptr_t)raw_frame_at(&r, 0));
	memcpy(&first, wqe, sizeof(first));
	sq_pi++;
	spw_dma_to_device(); /* WQE before record; partner: the NIC's read of SND_DBR */
	spw_dma_store((spw_be32 *)(void *)(sq.mem + (64u << SQ_LOG2) + 4),
		      spw_cpu_to_be32(sq_pi & 0xffff));
	spw_mmio_wc_start(); /* record before register; partner: the NIC's read of the register */
	spw_mmio_write64_be(uar->reg_addr, first);
	spw_mmio_wc_flush();
}

/* The next CQE, within KIT_WAIT_MS; consumed by the record. Returns its opcode. */
static uint8_t next_cqe(uint8_t cqe_out[64])
{
	const uint8_t *cqe = cq.mem + 64ull * (cq_ci & ((1u << CQ_LOG2) - 1));
	uint8_t own;

	for (uint32_t i = 0;; i++) {
		own = spw_dma_load(cqe + 63);
		if (own >> 4 != SPW_PRM_CQE_INVALID && (own & 1) == (cq_ci >> CQ_LOG2 & 1))
			break;
		assert_true(i < KIT_WAIT_MS * 10);
		usleep(100);
	}
	spw_dma_from_device(); /* owner before the rest; partner: the NIC's release of the CQE */
	memcpy(cqe_out, cqe, 64);
	cq_ci++;
	spw_dma_store((spw_be32 *)(void *)(cq.mem + CQ_RECORDS(CQ_LOG2)),
		      spw_cpu_to_be32(cq_ci & 0xffffff));
	return own >> 4;
}

/* Every frame is received by verbs, its payload compared. */
static void send_laps(void **state)
{
	struct raw_done d;
	uint8_t cqe[64];

	(void)state;
	assert_int_equal(to_state(&sq, 0x905, RST, RDY), 0);
	for (uint32_t i = 0; i < FRAMES; i++) {
		raw_post(&r, 0);
		raw_frame(&r, 0, LEN + i, i);
		post_frame(LEN + i);
		assert_int_equal(next_cqe(cqe), SPW_PRM_CQE_REQ);
		assert_int_equal(spw_prm_cqe64_get_srqn_uidx(cqe), 0x1234);
		assert_int_equal(spw_prm_cqe64_get_wqe_counter(cqe), i);
		raw_next(&r, &d);
		assert_int_equal(d.byte_cnt, LEN + i);
		assert_memory_equal(raw_slot(&r, r.posted - 1), raw_frame_at(&r, 0), LEN + i);
	}
}

/* A wrong key moves the SQ to ERR, from which DPDK's way of recovering works. */
static void recover_sq(void **state)
{
	const uint32_t lkey = r.k.mr->lkey;
	struct raw_done d;
	uint8_t cqe[64];

	(void)state;
	assert_int_equal(to_state(&sq, 0x905, RST, RDY), 0);
	r.k.mr->lkey ^= 1;
	raw_frame(&r, 0, LEN, 1);
	post_frame(LEN);
	r.k.mr->lkey = lkey;
	assert_int_equal(next_cqe(cqe), SPW_PRM_CQE_REQ_ERR);
	assert_int_equal(spw_prm_cqe_err_get_syndrome(cqe), SPW_PRM_SYN_LOCAL_PROT_ERR);
	assert_int_equal(to_state(&sq, 0x905, RST, RDY), EREFUSED); /* it is not in RST */
	assert_int_equal(to_state(&sq, 0x905, RDY, RST), 0);
	assert_int_equal(to_state(&sq, 0x905, RST, RDY), 0);
	sq_pi = 0;
	raw_post(&r, 0);
	post_frame(LEN);
	assert_int_equal(next_cqe(cqe), SPW_PRM_CQE_REQ);
	raw_next(&r, &d);
	assert_memory_equal(raw_slot(&r, 0), raw_frame_at(&r, 0), LEN);
}

/* ---- capabilities ---- */

static void query_caps(uint32_t page, uint8_t out[4112])
{
	uint8_t in[16] = {0};

	memset(out, 0, 4112);
	box_put(in, 0, 16, 0x100);
	box_put(in, 0x30, 16, page << 1 | 1);
	assert_int_equal(mlx5dv_devx_general_cmd(r.k.ctx, in, sizeof(in), out, 4112), 0);
}

/* What query_device says and what the pages say is the same. */
static void caps_as_query_device(void **state)
{
	struct mlx5dv_context dv = {.comp_mask = MLX5DV_CONTEXT_MASK_CQE_COMPRESION |
						 MLX5DV_CONTEXT_MASK_STRIDING_RQ |
						 MLX5DV_CONTEXT_MASK_HCA_CORE_CLOCK};
	struct ibv_device_attr_ex a;
	uint8_t gen[4112], eth[4112];

	(void)state;
	assert_int_equal(ibv_query_device_ex(r.k.ctx, NULL, &a), 0);
	assert_int_equal(mlx5dv_query_device(r.k.ctx, &dv), 0);
	query_caps(0, gen);
	query_caps(1, eth);
	assert_int_equal(1u << box_get(gen, 0x80 + 0x9b, 5), a.orig_attr.max_qp);
	assert_int_equal(1u << box_get(gen, 0x80 + 0x88, 8), a.orig_attr.max_qp_wr);
	assert_int_equal(1u << box_get(gen, 0x80 + 0xdb, 5), a.orig_attr.max_cq);
	assert_int_equal((1u << box_get(gen, 0x80 + 0xc8, 8)) - 1, a.orig_attr.max_cqe);
	assert_int_equal(1u << box_get(gen, 0x80 + 0x32b, 5), a.orig_attr.max_pd);
	assert_int_equal(1u << box_get(gen, 0x80 + 0x393, 5),
			 a.rss_caps.max_rwq_indirection_table_size);
	assert_int_equal(box_get(gen, 0x80 + 0x4e0, 32), a.hca_core_clock);
	assert_int_equal(box_get(gen, 0x80 + 0x1b8, 8), a.orig_attr.phys_port_cnt);
	assert_int_equal(box_get(gen, 0x80 + 0x5bf, 1), dv.cqe_comp_caps.max_num != 0);
	assert_int_equal(box_get(gen, 0x80 + 0x201, 1),
			 dv.striding_rq_caps.max_single_wqe_log_num_of_strides != 0);
	assert_int_equal(box_get(eth, 0x80 + 0x19, 1),
			 !!(a.raw_packet_caps & IBV_RAW_PACKET_CAP_SCATTER_FCS));
	assert_int_equal(box_get(eth, 0x80 + 0x01, 1),
			 !!(a.raw_packet_caps & IBV_RAW_PACKET_CAP_CVLAN_STRIPPING));
	assert_int_equal(box_get(eth, 0x80 + 0x00, 1),
			 !!(a.raw_packet_caps & IBV_RAW_PACKET_CAP_IP_CSUM));
	assert_int_equal(box_get(eth, 0x80 + 0x0b, 5) != 0, a.tso_caps.max_tso != 0);
}

/* ---- what is refused ---- */

/* The mailbox says why. */
static void expect_status(struct box *b, uint8_t status)
{
	struct thing t = {0};

	assert_int_equal(thing_try(r.k.ctx, b, sizeof(b->in), &t), EREFUSED);
	assert_int_equal(b->out[0], status);
	assert_int_not_equal(box_get(b->out, 0x20, 32), 0);
}

static void refuse_values(void **state)
{
	struct thing t = {0}, none = {0};
	struct box b;

	(void)state;
	thing_memory(r.k.ctx, &t, (64u << SQ_LOG2) + 64);
	sq_box(&b, &t);
	box_put(b.in, 0x100 + 0x0d, 1, 1); /* software parser: query_device has none */
	expect_status(&b, BAD_PARAM);
	sq_box(&b, &t);
	box_put(b.in, 0x100 + 0x48, 24, cq.number + 1);
	expect_status(&b, BAD_RES);
	sq_box(&b, &t);
	box_put(b.in, 0x100 + 0x180 + 0x11b, 5, SQ_LOG2 + 1); /* beyond the umem */
	expect_status(&b, BAD_RES);
	sq_box(&b, &t);
	box_put(b.in, 0x100 + 0x180 + 0x80, 64, UINT64_MAX - 3);
	expect_status(&b, BAD_RES);
	sq_box(&b, &t);
	assert_int_equal(thing_try(r.k.ctx, &b, 64, &none), EREFUSED); /* cut short */
	assert_int_equal(b.out[0], BAD_INP_LEN);
	box_start(&b, 0x710); /* a DCT: the kernel knows it, this firmware does not */
	expect_status(&b, BAD_OP);
	box_start(&b, 0x902); /* a query */
	assert_int_equal(thing_try(r.k.ctx, &b, sizeof(b.in), &none), EINVAL);
	thing_free(&t);
}

/* Objects of another context are not there. */
static void refuse_foreign(void **state)
{
	struct ibv_context *other = ibv_open_device(r.k.ctx->device);
	struct thing t = {0}, none = {0};
	struct box b;

	(void)state;
	assert_non_null(other);
	thing_memory(other, &t, (64u << SQ_LOG2) + 64);
	sq_box(&b, &t);
	assert_int_equal(thing_try(other, &b, sizeof(b.in), &none), EREFUSED);
	assert_int_equal(b.out[0], BAD_RES);
	thing_free(&t);
	assert_int_equal(ibv_close_device(other), 0);
}

static void refuse_busy(void **state)
{
	(void)state;
	assert_int_equal(mlx5dv_devx_obj_destroy(cq.obj), EBUSY);
	assert_int_equal(mlx5dv_devx_obj_destroy(tis.obj), EBUSY);
	assert_int_equal(mlx5dv_devx_obj_destroy(td.obj), EBUSY);
	assert_int_equal(mlx5dv_devx_umem_dereg(sq.umem), EBUSY);
	errno = 0;
	assert_null(mlx5dv_devx_umem_reg(r.k.ctx, NULL, 4096, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EFAULT);
	assert_null(mlx5dv_devx_umem_reg(r.k.ctx, sq.mem, 4096, IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EINVAL);
}

static void refuse_states(void **state)
{
	struct box b;

	(void)state;
	assert_int_equal(to_state(&rq, 0x909, RDY, RDY), EREFUSED);
	assert_int_equal(to_state(&rq, 0x909, RST, ERR), EREFUSED);
	assert_int_equal(to_state(&rq, 0x909, RST, RDY), 0);
	assert_int_equal(to_state(&rq, 0x909, RDY, ERR), 0);
	assert_int_equal(to_state(&rq, 0x909, ERR, RDY), EREFUSED);
	assert_int_equal(to_state(&rq, 0x909, ERR, RST), 0);
	box_start(&b, 0x909);
	box_put(b.in, 0x48, 24, rq.number + 1); /* not the handle's */
	assert_int_equal(mlx5dv_devx_obj_modify(rq.obj, b.in, sizeof(b.in), b.out, sizeof(b.out)),
			 EINVAL);
}

/* --fault fail=devx-900:8 */
static void refuse_injected(void **state)
{
	struct box b;

	(void)state;
	box_start(&b, 0x900);
	box_put(b.in, 0x100 + 0xe8, 24, rq.number);
	expect_status(&b, 8);
}

/* A ring whose memory goes away under it: the NIC survives, and so do its other queues. */
static void unmap_ring(void **state)
{
	struct thing t = {0};
	struct raw_done d;
	uint8_t cqe[64];
	struct box b;

	(void)state;
	t.mem = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(t.mem, MAP_FAILED);
	t.umem = mlx5dv_devx_umem_reg(r.k.ctx, t.mem, 8192, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(t.umem);
	sq_box(&b, &t);
	box_put(b.in, 0x100 + 0x180 + 0x80, 64, 4096);
	thing_make(r.k.ctx, &b, &t);
	assert_int_equal(munmap(t.mem, 4096), 0);
	assert_int_equal(to_state(&t, 0x905, RST, RDY), 0);
	spw_dma_store((spw_be32 *)(void *)(t.mem + 4096 + 4), spw_cpu_to_be32(1));
	assert_int_equal(to_state(&sq, 0x905, RST, RDY), 0);
	raw_post(&r, 0);
	raw_frame(&r, 0, LEN, 1);
	post_frame(LEN); /* rings the page of both */
	assert_int_equal(next_cqe(cqe) == SPW_PRM_CQE_REQ_ERR ? next_cqe(cqe) : SPW_PRM_CQE_REQ,
			 SPW_PRM_CQE_REQ);
	raw_next(&r, &d);
	assert_memory_equal(raw_slot(&r, 0), raw_frame_at(&r, 0), LEN);
	assert_int_equal(mlx5dv_devx_obj_destroy(t.obj), 0);
	assert_int_equal(mlx5dv_devx_umem_dereg(t.umem), 0);
	assert_int_equal(munmap(t.mem + 4096, 4096), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest injected[] = {
		cmocka_unit_test_setup_teardown(refuse_injected, open_all, close_all),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(send_laps, open_all, close_all),
		cmocka_unit_test_setup_teardown(recover_sq, open_all, close_all),
		cmocka_unit_test_setup_teardown(caps_as_query_device, open_all, close_all),
		cmocka_unit_test_setup_teardown(refuse_values, open_all, close_all),
		cmocka_unit_test_setup_teardown(refuse_foreign, open_all, close_all),
		cmocka_unit_test_setup_teardown(refuse_busy, open_all, close_all),
		cmocka_unit_test_setup_teardown(refuse_states, open_all, close_all),
		cmocka_unit_test_setup_teardown(unmap_ring, open_all, close_all),
	};

	if (argc > 1 && strcmp(argv[1], "injected") == 0)
		return cmocka_run_group_tests(injected, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
