/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Commands that are refused, with the kernel's errno; keys; events, and their numbers in the answer
 * of a destroy command.
 */
#include "kit.h"

#include <poll.h>

#include "softhca/kernel/events.h"
#include "softhca/kernel/kernel.h"

#define DESTROY(k, cmd, type, field, handle)                              \
	({                                                                \
		struct ib_uverbs_##type req_ = {.field = (handle)};       \
		uint32_t out_[4];                                         \
		kit_cmd(k, cmd, &req_, sizeof(req_), out_, sizeof(out_)); \
	})

static int reg(struct kit *k, void *addr, uint64_t len, uint32_t access,
	       struct ib_uverbs_reg_mr_resp *out)
{
	const struct ib_uverbs_reg_mr req = {.start = (uintptr_t)addr,
					     .length = len,
					     .hca_va = (uintptr_t)addr,
					     .pd_handle = k->pd,
					     .access_flags = access};

	return kit_cmd(k, IB_USER_VERBS_CMD_REG_MR, &req, sizeof(req), out, sizeof(*out));
}

static void handles(void **state)
{
	struct kit k;
	uint32_t cq;

	(void)state;
	kit_open(&k);
	assert_int_equal(kit_cq(&k, -1, &cq), 0);
	assert_int_equal(DESTROY(&k, IB_USER_VERBS_CMD_DEALLOC_PD, dealloc_pd, pd_handle, 0x7777),
			 -ENOENT);
	assert_int_equal(DESTROY(&k, IB_USER_VERBS_CMD_DEALLOC_PD, dealloc_pd, pd_handle, cq),
			 -EINVAL);
	assert_int_equal(DESTROY(&k, IB_USER_VERBS_CMD_DESTROY_CQ, destroy_cq, cq_handle, k.pd),
			 -EINVAL);
	assert_int_equal(
		DESTROY(&k, IB_USER_VERBS_CMD_DESTROY_QP, destroy_qp, qp_handle, UINT32_MAX),
		-ENOENT);
	kit_close(&k);
}

static void busy(void **state)
{
	struct ib_uverbs_create_qp_resp qp;
	struct kit k;
	uint32_t cq;

	(void)state;
	kit_open(&k);
	assert_int_equal(kit_cq(&k, -1, &cq), 0);
	assert_int_equal(kit_qp(&k, IB_UVERBS_QPT_RC, cq, &qp), 0);
	assert_int_equal(DESTROY(&k, IB_USER_VERBS_CMD_DESTROY_CQ, destroy_cq, cq_handle, cq),
			 -EBUSY);
	assert_int_equal(DESTROY(&k, IB_USER_VERBS_CMD_DEALLOC_PD, dealloc_pd, pd_handle, k.pd),
			 -EBUSY);
	assert_int_equal(
		DESTROY(&k, IB_USER_VERBS_CMD_DESTROY_QP, destroy_qp, qp_handle, qp.qp_handle), 0);
	assert_int_equal(DESTROY(&k, IB_USER_VERBS_CMD_DESTROY_CQ, destroy_cq, cq_handle, cq), 0);
	assert_int_equal(DESTROY(&k, IB_USER_VERBS_CMD_DEALLOC_PD, dealloc_pd, pd_handle, k.pd), 0);
	kit_close(&k);
}

static void transport(void **state)
{
	struct kit k;
	uint8_t zeros[64] = {0};
	struct ib_uverbs_cmd_hdr h = {IB_USER_VERBS_CMD_ALLOC_PD, 4, 3};
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		uint64_t response;
	} pd = {{IB_USER_VERBS_CMD_ALLOC_PD, 4, 2}, 8};
	struct ib_uverbs_ioctl_hdr io = {
		.length = sizeof(io), .object_id = UVERBS_OBJECT_DM, .driver_id = 1};

	(void)state;
	if (getenv("MESON_EXE_WRAPPER"))
		skip(); /* qemu-user has no process_vm_readv: wild addresses fault */
	kit_open(&k);
	assert_int_equal(kit_cmd(&k, IB_USER_VERBS_CMD_QUERY_PORT, zeros, 4, zeros, 40), -ENOSPC);
	assert_int_equal(kit_cmd(&k, IB_USER_VERBS_CMD_QUERY_PORT, zeros, 16, zeros, 8), -ENOSPC);
	assert_int_equal(kit_cmd(&k, IB_USER_VERBS_CMD_ALLOC_MW, zeros, 64, zeros, 64),
			 -EOPNOTSUPP);
	assert_int_equal(kit_cmd(&k, 0x12345, zeros, 64, zeros, 64), -EINVAL);
	assert_int_equal(uv_write(k.ctx, NULL, 64), -EFAULT);
	assert_int_equal(uv_write(k.ctx, &h, 4), -EINVAL);
	assert_int_equal(uv_write(k.ctx, &h, sizeof(h)), -EINVAL);
	assert_int_equal(uv_write(k.ctx, &pd, sizeof(pd)),
			 -EFAULT); /* the response goes to address 8 */
	pd.response = (uintptr_t)zeros;
	assert_int_equal(uv_write(k.ctx, &pd, sizeof(pd)), sizeof(pd));
	assert_int_equal(uv_ioctl(k.ctx, NULL), -EFAULT);
	assert_int_equal(uv_ioctl(k.ctx, &io), -EPROTONOSUPPORT);
	io.length = 2;
	assert_int_equal(uv_ioctl(k.ctx, &io), -EINVAL);
	kit_close(&k);
}

static void contexts(void **state)
{
	const struct ib_uverbs_get_context req = {0};
	struct mlx5_ib_alloc_ucontext_req_v2 drv = {.total_num_bfregs = 16,
						    .flags = MLX5_IB_ALLOC_UCTX_DEVX,
						    .lib_caps = MLX5_LIB_CAP_DYN_UAR};
	struct ib_uverbs_get_context_resp resp;
	struct kit k;
	struct hca_ctx *first;
	uint8_t out[128];
	int fd;

	(void)state;
	kit_open(&k);
	first = k.ctx;
	assert_int_equal(hca_ctx_open(k.dev, &k.ctx), 0);
	assert_int_equal(kit_cmd(&k, IB_USER_VERBS_CMD_ALLOC_PD, &req, sizeof(req), out, 8),
			 -EINVAL); /* before GET_CONTEXT */
	k.cfg.card = hca_card_find("no-devx");
	assert_int_equal(kit_call(&k, IB_USER_VERBS_CMD_GET_CONTEXT,
				  (struct kit_part){&req, sizeof(req), &resp, sizeof(resp)},
				  (struct kit_part){&drv, sizeof(drv), out, 72}),
			 -EINVAL); /* DEVX */
	drv.flags = 0;
	drv.lib_caps = 0;
	assert_int_equal(kit_call(&k, IB_USER_VERBS_CMD_GET_CONTEXT,
				  (struct kit_part){&req, sizeof(req), &resp, sizeof(resp)},
				  (struct kit_part){&drv, sizeof(drv), out, 72}),
			 -EINVAL); /* no dynamic register pages */
	fd = k.ctx->fd;
	hca_ctx_close(k.ctx);
	close(fd);
	k.ctx = first;
	/* A context cannot name another context's objects. */
	kit_close(&k);
}

static void regions(void **state)
{
	struct ib_uverbs_reg_mr_resp a, b;
	const uint32_t rw = IB_UVERBS_ACCESS_LOCAL_WRITE;
	static uint32_t keys[1000]; /* several rounds of the table */
	struct kit k;
	uint8_t *ro;

	(void)state;
	kit_open(&k);
	ro = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(reg(&k, ro, 8192, rw, &a), -EFAULT);
	assert_int_equal(reg(&k, ro, 8192, 0, &a), 0);
	munmap(ro, 8192);
	assert_int_equal(reg(&k, ro, 8192, 0, &b), -EFAULT);
	assert_int_equal(reg(&k, k.mem, 0, rw, &b), -EINVAL);
	assert_int_equal(reg(&k, k.mem, UINT64_MAX, rw, &b), -EINVAL);
	assert_int_equal(reg(&k, k.mem, 4096, IB_UVERBS_ACCESS_REMOTE_WRITE, &b), -EINVAL);
	assert_int_equal(reg(&k, k.mem, 4096, IB_UVERBS_ACCESS_ON_DEMAND, &b), -EOPNOTSUPP);
	/* A key does not come back for 256 rounds, and never is the one that ends a list of
	 * segments. */
	for (uint32_t i = 0; i < SPW_ARRAY_CNT(keys); i++) {
		assert_int_equal(reg(&k, k.mem, 4096, rw, &b), 0);
		assert_true(b.lkey != 0x100 && b.lkey == b.rkey);
		for (uint32_t j = 0; j < i; j++)
			assert_int_not_equal(keys[j], b.lkey);
		keys[i] = b.lkey;
		assert_non_null(hca_mr_get(k.dev, b.lkey));
		assert_int_equal(
			DESTROY(&k, IB_USER_VERBS_CMD_DEREG_MR, dereg_mr, mr_handle, b.mr_handle),
			0);
		assert_null(hca_mr_get(k.dev, b.lkey));
	}
	kit_close(&k);
}

static void region_bounds(void **state)
{
	struct ib_uverbs_reg_mr_resp r;
	struct hca_mr *mr;
	struct kit k;
	uint64_t va;

	(void)state;
	kit_open(&k);
	va = (uintptr_t)k.mem;
	assert_int_equal(reg(&k, k.mem, 4096, 0, &r), 0);
	mr = hca_mr_get(k.dev, r.lkey);
	assert_ptr_equal(hca_mr_at(mr, mr->pd, va + 10, 4086, 0), k.mem + 10);
	assert_null(hca_mr_at(mr, mr->pd, va + 10, 4087, 0));
	assert_null(hca_mr_at(mr, mr->pd, va - 1, 2, 0));
	assert_null(hca_mr_at(mr, mr->pd, va + 1, UINT64_MAX, 0));
	assert_null(hca_mr_at(mr, mr->pd, va, 1, IB_UVERBS_ACCESS_LOCAL_WRITE));
	assert_null(hca_mr_at(mr, NULL, va, 1, 0));
	kit_close(&k);
}

/* A destroy command reports the events that were read and withdraws the others. */
static void events(void **state)
{
	const struct ib_uverbs_create_comp_channel creq = {0};
	struct ib_uverbs_create_comp_channel_resp ch;
	struct ib_uverbs_comp_event_desc ev;
	struct ib_uverbs_destroy_cq dreq = {0};
	struct ib_uverbs_destroy_cq_resp dresp;
	struct pollfd pfd = {.events = POLLIN};
	struct hca_cq *a, *b;
	uint32_t ha, hb;
	struct kit k;

	(void)state;
	kit_open(&k);
	assert_int_equal(kit_cmd(&k, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, &creq, sizeof(creq),
				 &ch, sizeof(ch)),
			 0);
	assert_int_equal(kit_cq(&k, (int)ch.fd, &ha), 0);
	assert_int_equal(kit_cq(&k, (int)ch.fd, &hb), 0);
	a = hca_obj_find(k.ctx, HCA_CQ, ha);
	b = hca_obj_find(k.ctx, HCA_CQ, hb);
	hca_lock(k.dev);
	hca_event_comp(a);
	hca_event_comp(b);
	hca_event_comp(a);
	hca_event_comp(a);
	hca_unlock(k.dev);
	assert_int_equal(read((int)ch.fd, &ev, sizeof(ev)), sizeof(ev));
	assert_int_equal(ev.cq_handle, a->o.user_handle);
	dreq.cq_handle = ha;
	assert_int_equal(kit_cmd(&k, IB_USER_VERBS_CMD_DESTROY_CQ, &dreq, sizeof(dreq), &dresp,
				 sizeof(dresp)),
			 0);
	assert_int_equal(dresp.comp_events_reported, 1);
	/* only b's event is left */
	assert_int_equal(read((int)ch.fd, &ev, sizeof(ev)), sizeof(ev));
	assert_int_equal(ev.cq_handle, b->o.user_handle);
	pfd.fd = (int)ch.fd;
	assert_int_equal(poll(&pfd, 1, 0), 0);
	close((int)ch.fd);
	kit_close(&k);
}

/* A thread that waits for an event goes on waiting when the device is closed, as in Linux: its end
 * reports no end of file, and what was sent before stays readable. */
static void events_after_close(void **state)
{
	const struct ib_uverbs_async_event_desc sent = {.element = 7, .event_type = 3};
	struct ib_uverbs_async_event_desc got;
	struct pollfd pfd = {.events = POLLIN};
	struct hca_evq q;

	(void)state;
	assert_int_equal(hca_evq_open(&q, sizeof(sent)), 0);
	assert_true(hca_evq_send(&q, &sent));
	hca_evq_close(&q);
	pfd.fd = q.app_fd;
	assert_int_equal(read(q.app_fd, &got, sizeof(got)), sizeof(got));
	assert_memory_equal(&got, &sent, sizeof(got));
	assert_int_equal(poll(&pfd, 1, 20), 0);
	close(q.app_fd);
}

static void srq_limits(void **state)
{
	struct ib_uverbs_modify_srq m = {.attr_mask = 2, .srq_limit = 5};
	struct ib_uverbs_query_srq q = {0};
	struct ib_uverbs_query_srq_resp r;
	struct kit k;
	uint32_t srq;

	(void)state;
	kit_open(&k);
	assert_int_equal(kit_srq(&k, &srq), 0);
	m.srq_handle = q.srq_handle = srq;
	assert_int_equal(kit_cmd(&k, IB_USER_VERBS_CMD_MODIFY_SRQ, &m, sizeof(m), NULL, 0), 0);
	assert_int_equal(kit_cmd(&k, IB_USER_VERBS_CMD_QUERY_SRQ, &q, sizeof(q), &r, sizeof(r)), 0);
	assert_int_equal(r.max_wr, 15);
	assert_int_equal(r.srq_limit, 5);
	m.srq_limit = 16;
	assert_int_equal(kit_cmd(&k, IB_USER_VERBS_CMD_MODIFY_SRQ, &m, sizeof(m), NULL, 0),
			 -EINVAL);
	m.attr_mask = 1;
	assert_int_equal(kit_cmd(&k, IB_USER_VERBS_CMD_MODIFY_SRQ, &m, sizeof(m), NULL, 0),
			 -EINVAL);
	kit_close(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(handles),   cmocka_unit_test(busy),
		cmocka_unit_test(transport), cmocka_unit_test(contexts),
		cmocka_unit_test(regions),   cmocka_unit_test(region_bounds),
		cmocka_unit_test(events),    cmocka_unit_test(events_after_close),
		cmocka_unit_test(srq_limits)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
