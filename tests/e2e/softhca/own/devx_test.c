/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Queues made by firmware commands (DEVX), driven by hand: capabilities against query_device,
 * frames through an SQ, what is refused and how.
 */
#include "devx_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>

#include "base/spw_order.h"
#include "prm/spw_prm.h"

#define LEN      200u
#define FRAMES   100u /* several laps of each ring */
#define WR_ID    0x1122334455667788ull
#define BOX_LONG 65535u

enum { BAD_OP = 2, BAD_PARAM = 3, BAD_RES = 5, BAD_RES_STATE = 9, BAD_INP_LEN = 0x50 };

static struct rig g;

static int open_all(void **state)
{
	(void)state;
	rig_open(&g);
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	rig_close(&g);
	return 0;
}

/* ---- sending ---- */

/* Every frame is received by verbs, its payload compared. */
static void send_laps(void **state)
{
	struct raw_done d;
	uint8_t cqe[64];

	(void)state;
	assert_int_equal(rig_to_state(&g.sq, 0x905, RST, RDY), 0);
	for (uint32_t i = 0; i < FRAMES; i++) {
		raw_post(&g.r, 0);
		raw_frame(&g.r, 0, LEN + i, i);
		rig_post_frame(&g, LEN + i);
		assert_int_equal(rig_next_cqe(&g, cqe), SPW_PRM_CQE_REQ);
		assert_int_equal(spw_prm_cqe64_get_srqn_uidx(cqe), 0x1234);
		assert_int_equal(spw_prm_cqe64_get_wqe_counter(cqe), i);
		raw_next(&g.r, &d);
		assert_int_equal(d.byte_cnt, LEN + i);
		assert_memory_equal(raw_slot(&g.r, g.r.posted - 1), raw_frame_at(&g.r, 0), LEN + i);
	}
}

/* A wrong key moves the SQ to ERR, from which DPDK's way of recovering works. */
static void recover_sq(void **state)
{
	const uint32_t lkey = g.r.k.mr->lkey;
	struct raw_done d;
	uint8_t cqe[64];

	(void)state;
	assert_int_equal(rig_to_state(&g.sq, 0x905, RST, RDY), 0);
	g.r.k.mr->lkey ^= 1;
	raw_frame(&g.r, 0, LEN, 1);
	rig_post_frame(&g, LEN);
	g.r.k.mr->lkey = lkey;
	assert_int_equal(rig_next_cqe(&g, cqe), SPW_PRM_CQE_REQ_ERR);
	assert_int_equal(spw_prm_cqe_err_get_syndrome(cqe), SPW_PRM_SYN_LOCAL_PROT_ERR);
	assert_int_equal(rig_to_state(&g.sq, 0x905, RST, RDY), EREFUSED); /* it is not in RST */
	assert_int_equal(rig_to_state(&g.sq, 0x905, RDY, RST), 0);
	assert_int_equal(rig_to_state(&g.sq, 0x905, RST, RDY), 0);
	g.sq_pi = 0;
	raw_post(&g.r, 0);
	rig_post_frame(&g, LEN);
	assert_int_equal(rig_next_cqe(&g, cqe), SPW_PRM_CQE_REQ);
	raw_next(&g.r, &d);
	assert_memory_equal(raw_slot(&g.r, 0), raw_frame_at(&g.r, 0), LEN);
}

/* ---- capabilities ---- */

static int query_caps(struct ibv_context *ctx, uint32_t page, uint8_t out[4112])
{
	uint8_t in[16] = {0};

	memset(out, 0, 4112);
	box_put(in, 0, 16, 0x100);
	box_put(in, 0x30, 16, page << 1 | 1);
	return mlx5dv_devx_general_cmd(ctx, in, sizeof(in), out, 4112);
}

/* What query_device says and what the pages say is the same. */
static void caps_compare(struct ibv_context *ctx)
{
	struct mlx5dv_context dv = {.comp_mask = MLX5DV_CONTEXT_MASK_CQE_COMPRESION |
						 MLX5DV_CONTEXT_MASK_STRIDING_RQ |
						 MLX5DV_CONTEXT_MASK_HCA_CORE_CLOCK};
	struct ibv_device_attr_ex a;
	uint8_t gen[4112], eth[4112];

	assert_int_equal(ibv_query_device_ex(ctx, NULL, &a), 0);
	assert_int_equal(mlx5dv_query_device(ctx, &dv), 0);
	assert_int_equal(query_caps(ctx, 0, gen), 0);
	assert_int_equal(query_caps(ctx, 1, eth), 0);
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

static void caps_of_card(void **state)
{
	struct kit k;

	(void)state;
	kit_open(&k);
	caps_compare(k.ctx);
	kit_close(&k);
}

/* A context without DEVX on a card without: the kernel refuses. */
static void no_caps(void **state)
{
	uint8_t out[4112];
	struct kit k;
	struct box b;
	struct thing none;

	(void)state;
	kit_open(&k);
	assert_int_equal(query_caps(k.ctx, 0, out), EOPNOTSUPP);
	box_start(&b, 0x800);
	assert_int_equal(thing_try(k.ctx, &b, 16, &none), EINVAL);
	kit_close(&k);
}

/* ---- transport domains ---- */

/* As net_mlx5 asks, of a TIS and of a packet QP of verbs, which has one of its own. */
static void query_tis(void **state)
{
	struct box b;

	(void)state;
	box_start(&b, 0x915);
	box_put(b.in, 0x48, 24, g.tis.number);
	assert_int_equal(mlx5dv_devx_obj_query(g.tis.obj, b.in, 16, b.out, 176), 0);
	assert_int_equal(box_get(b.out, 0x80 + 0x128, 24), g.td.number);
	box_put(b.in, 0x48, 24, g.r.tx.qp->qp_num);
	assert_int_equal(mlx5dv_devx_qp_query(g.r.tx.qp, b.in, 16, b.out, 176), 0);
	assert_int_equal(box_get(b.out, 0x80 + 0x128, 24), 0);
	box_put(b.in, 0x48, 24, g.r.tx.qp->qp_num + 1);
	assert_int_equal(mlx5dv_devx_qp_query(g.r.tx.qp, b.in, 16, b.out, 176), EINVAL);
}

/* ---- asynchronous queries ---- */

static void rq_query_box(struct box *b)
{
	box_start(b, 0x90b);
	box_put(b->in, 0x48, 24, g.rq.number);
}

static int query_async(struct box *b, size_t out_bytes, uint64_t wr_id,
		       struct mlx5dv_devx_cmd_comp *c)
{
	return mlx5dv_devx_obj_query_async(g.rq.obj, b->in, sizeof(b->in), out_bytes, wr_id, c);
}

/* The same answer as that of the query itself, and refusals of the firmware in it. */
static void async_answers(void **state)
{
	struct mlx5dv_devx_cmd_comp *c = mlx5dv_devx_create_cmd_comp(g.r.k.ctx);
	union {
		struct mlx5dv_devx_async_cmd_hdr hdr;
		uint8_t byte[2048];
	} got;
	struct box b;

	(void)state;
	assert_non_null(c);
	rq_query_box(&b);
	assert_int_equal(query_async(&b, 272, WR_ID, c), 0);
	assert_int_equal(query_async(&b, 64, WR_ID + 1, c), 0); /* the answer has 272 bytes */
	assert_int_equal(mlx5dv_devx_obj_query(g.rq.obj, b.in, sizeof(b.in), b.out, 272), 0);
	assert_int_equal(mlx5dv_devx_get_async_cmd_comp(c, &got.hdr, 8 + 271), ENOSPC);
	assert_int_equal(mlx5dv_devx_get_async_cmd_comp(c, &got.hdr, sizeof(got)), 0);
	assert_int_equal(got.hdr.wr_id, WR_ID);
	assert_memory_equal(got.byte + 8, b.out, 272);
	assert_int_equal(mlx5dv_devx_get_async_cmd_comp(c, &got.hdr, 8 + 64), 0);
	assert_int_equal(got.hdr.wr_id, WR_ID + 1);
	assert_int_equal(got.byte[8], 0x51); /* BAD_OUTP_LEN */
	assert_int_equal(fcntl(c->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(mlx5dv_devx_get_async_cmd_comp(c, &got.hdr, sizeof(got)), EAGAIN);
	mlx5dv_devx_destroy_cmd_comp(c);
}

static void async_refusals(void **state)
{
	struct mlx5dv_devx_event_channel *ch = mlx5dv_devx_create_event_channel(g.r.k.ctx, 0);
	struct mlx5dv_devx_cmd_comp *c = mlx5dv_devx_create_cmd_comp(g.r.k.ctx), wrong = {ch->fd};
	static struct {
		struct mlx5dv_devx_async_cmd_hdr hdr;
		uint8_t out[BOX_LONG];
	} got;
	uint32_t cnt = 0;
	struct box b;

	(void)state;
	rq_query_box(&b);
	assert_int_equal(query_async(&b, 272, 0, &wrong), EBADF);
	box_put(b.in, 0x48, 24, g.rq.number + 1);
	assert_int_equal(query_async(&b, 272, 0, c), EINVAL);
	box_put(b.in, 0, 16, 0x909); /* no query */
	box_put(b.in, 0x48, 24, g.rq.number);
	assert_int_equal(query_async(&b, 272, 0, c), EINVAL);
	assert_int_equal(poll(&(struct pollfd){c->fd, POLLIN, 0}, 1, 0), 0);
	rq_query_box(&b);
	while (cnt < 100 && query_async(&b, BOX_LONG, cnt, c) == 0)
		cnt++;
	assert_int_equal(cnt, (1 << 20) / BOX_LONG);
	assert_int_equal(query_async(&b, BOX_LONG, 0, c), EAGAIN);
	assert_int_equal(mlx5dv_devx_get_async_cmd_comp(c, &got.hdr, sizeof(got)), 0);
	assert_int_equal(query_async(&b, BOX_LONG, 0, c), 0);
	assert_int_equal(query_async(&b, BOX_LONG, 0, c), EAGAIN);
	mlx5dv_devx_destroy_event_channel(ch);
	mlx5dv_devx_destroy_cmd_comp(c);
}

/* ---- what is refused ---- */

/* The mailbox says why. */
static void expect_status(struct box *b, uint8_t status)
{
	struct thing t = {0};

	assert_int_equal(thing_try(g.r.k.ctx, b, sizeof(b->in), &t), EREFUSED);
	assert_int_equal(b->out[0], status);
	assert_int_not_equal(box_get(b->out, 0x20, 32), 0);
}

static void refuse_values(void **state)
{
	struct thing t = {0}, none = {0};
	struct box b;

	(void)state;
	thing_memory(g.r.k.ctx, &t, (64u << RIG_SQ_LOG2) + 64);
	rig_sq_box(&g, &b, &t);
	box_put(b.in, 0x100 + 0x0d, 1, 1); /* software parser: query_device has none */
	expect_status(&b, BAD_PARAM);
	rig_sq_box(&g, &b, &t);
	box_put(b.in, 0x100 + 0x48, 24, g.cq.number + 1);
	expect_status(&b, BAD_RES);
	rig_sq_box(&g, &b, &t);
	box_put(b.in, 0x100 + 0x180 + 0x11b, 5, RIG_SQ_LOG2 + 1); /* beyond the umem */
	expect_status(&b, BAD_RES);
	rig_sq_box(&g, &b, &t);
	box_put(b.in, 0x100 + 0x180 + 0x80, 64, UINT64_MAX - 3);
	expect_status(&b, BAD_RES);
	rig_sq_box(&g, &b, &t);
	assert_int_equal(thing_try(g.r.k.ctx, &b, 64, &none), EREFUSED); /* cut short */
	assert_int_equal(b.out[0], BAD_INP_LEN);
	box_start(&b, 0x710); /* a DCT: the kernel knows it, this firmware does not */
	expect_status(&b, BAD_OP);
	box_start(&b, 0x903); /* a query */
	assert_int_equal(thing_try(g.r.k.ctx, &b, sizeof(b.in), &none), EINVAL);
	thing_free(&t);
}

/* Objects of another context are not there. */
static void refuse_foreign(void **state)
{
	struct ibv_context *other = ibv_open_device(g.r.k.ctx->device);
	struct thing t = {0}, none = {0};
	struct box b;

	(void)state;
	assert_non_null(other);
	thing_memory(other, &t, (64u << RIG_SQ_LOG2) + 64);
	rig_sq_box(&g, &b, &t);
	assert_int_equal(thing_try(other, &b, sizeof(b.in), &none), EREFUSED);
	assert_int_equal(b.out[0], BAD_RES);
	thing_free(&t);
	assert_int_equal(ibv_close_device(other), 0);
}

static void refuse_busy(void **state)
{
	(void)state;
	assert_int_equal(mlx5dv_devx_obj_destroy(g.cq.obj), EBUSY);
	assert_int_equal(mlx5dv_devx_obj_destroy(g.tis.obj), EBUSY);
	assert_int_equal(mlx5dv_devx_obj_destroy(g.td.obj), EBUSY);
	assert_int_equal(mlx5dv_devx_umem_dereg(g.sq.umem), EBUSY);
	errno = 0;
	assert_null(mlx5dv_devx_umem_reg(g.r.k.ctx, NULL, 4096, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EFAULT);
	assert_null(mlx5dv_devx_umem_reg(g.r.k.ctx, g.sq.mem, 4096, IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EINVAL);
}

static void refuse_states(void **state)
{
	struct box b;

	(void)state;
	assert_int_equal(rig_to_state(&g.rq, 0x909, RDY, RDY), EREFUSED);
	assert_int_equal(rig_to_state(&g.rq, 0x909, RST, ERR), EREFUSED);
	assert_int_equal(rig_to_state(&g.rq, 0x909, RST, RDY), 0);
	assert_int_equal(rig_to_state(&g.rq, 0x909, RDY, ERR), 0);
	assert_int_equal(rig_to_state(&g.rq, 0x909, ERR, RDY), EREFUSED);
	assert_int_equal(rig_to_state(&g.rq, 0x909, ERR, RST), 0);
	box_start(&b, 0x909);
	box_put(b.in, 0x48, 24, g.rq.number + 1); /* not the handle's */
	assert_int_equal(mlx5dv_devx_obj_modify(g.rq.obj, b.in, sizeof(b.in), b.out, sizeof(b.out)),
			 EINVAL);
}

/* --fault fail=devx-900:8 */
static void refuse_injected(void **state)
{
	struct box b;

	(void)state;
	box_start(&b, 0x900);
	box_put(b.in, 0x100 + 0xe8, 24, g.rq.number);
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
	t.umem = mlx5dv_devx_umem_reg(g.r.k.ctx, t.mem, 8192, IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(t.umem);
	rig_sq_box(&g, &b, &t);
	box_put(b.in, 0x100 + 0x180 + 0x80, 64, 4096);
	thing_make(g.r.k.ctx, &b, &t);
	assert_int_equal(munmap(t.mem, 4096), 0);
	assert_int_equal(rig_to_state(&t, 0x905, RST, RDY), 0);
	spw_dma_store((spw_be32 *)(void *)(t.mem + 4096 + 4), spw_cpu_to_be32(1));
	assert_int_equal(rig_to_state(&g.sq, 0x905, RST, RDY), 0);
	raw_post(&g.r, 0);
	raw_frame(&g.r, 0, LEN, 1);
	rig_post_frame(&g, LEN); /* rings the page of both */
	assert_int_equal(rig_next_cqe(&g, cqe) == SPW_PRM_CQE_REQ_ERR ? rig_next_cqe(&g, cqe)
								      : SPW_PRM_CQE_REQ,
			 SPW_PRM_CQE_REQ);
	raw_next(&g.r, &d);
	assert_memory_equal(raw_slot(&g.r, 0), raw_frame_at(&g.r, 0), LEN);
	assert_int_equal(mlx5dv_devx_obj_destroy(t.obj), 0);
	assert_int_equal(mlx5dv_devx_umem_dereg(t.umem), 0);
	assert_int_equal(munmap(t.mem + 4096, 4096), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest caps[] = {cmocka_unit_test(caps_of_card)};
	const struct CMUnitTest without[] = {cmocka_unit_test(no_caps)};
	const struct CMUnitTest injected[] = {
		cmocka_unit_test_setup_teardown(refuse_injected, open_all, close_all),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(send_laps, open_all, close_all),
		cmocka_unit_test_setup_teardown(recover_sq, open_all, close_all),
		cmocka_unit_test(caps_of_card),
		cmocka_unit_test_setup_teardown(query_tis, open_all, close_all),
		cmocka_unit_test_setup_teardown(async_answers, open_all, close_all),
		cmocka_unit_test_setup_teardown(async_refusals, open_all, close_all),
		cmocka_unit_test_setup_teardown(refuse_values, open_all, close_all),
		cmocka_unit_test_setup_teardown(refuse_foreign, open_all, close_all),
		cmocka_unit_test_setup_teardown(refuse_busy, open_all, close_all),
		cmocka_unit_test_setup_teardown(refuse_states, open_all, close_all),
		cmocka_unit_test_setup_teardown(unmap_ring, open_all, close_all),
	};

	if (argc > 1 && strcmp(argv[1], "injected") == 0)
		return cmocka_run_group_tests(injected, NULL, NULL);
	if (argc > 1)
		return strcmp(argv[1], "caps") ? cmocka_run_group_tests(without, NULL, NULL)
					       : cmocka_run_group_tests(caps, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
