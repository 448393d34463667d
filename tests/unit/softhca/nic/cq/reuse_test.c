/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The trap for CQs that ignore overruns (cq/reuse.c): a CQ of 4 entries under a receive queue of 8
 * WQEs counts each completion that is written over one whose WQE has not been posted again.
 */
#include "../../kernel/kit.h"

#include "softhca/nic/cq/cq.h"
#include "softhca/nic/dev.h"
#include "softhca/nic/transport/rq.h"

#define CQES 4u
#define WQES 8u

struct trap {
	struct kit k;
	struct nic_dev *nd;
	struct hca_cq cq;
	struct hca_rq ring, idle_ring;
	struct nic_rq rq, idle;
};

static void open_rq(struct trap *t, struct hca_rq *ring, struct nic_rq *rq)
{
	*ring = (struct hca_rq){.buf = kit_ring(&t->k, WQES * 16),
				.dbrec = kit_ring(&t->k, 8),
				.wqe_cnt = WQES,
				.wqe_shift = 4};
	*rq = (struct nic_rq){.rq = ring, .cq = t->cq.nic};
}

static void open_trap(struct trap *t, bool ignore_overrun, uint8_t comp_format)
{
	memset(t, 0, sizeof(*t));
	kit_open(&t->k);
	t->nd = t->k.dev->nic;
	hca_lock(t->k.dev);
	t->cq = (struct hca_cq){.o.ctx = t->k.ctx,
				.buf = kit_ring(&t->k, CQES * 64),
				.dbrec = kit_ring(&t->k, 8),
				.ncqe = CQES,
				.cqe_bytes = 64,
				.comp_en = comp_format != 0,
				.comp_format = comp_format,
				.ignore_overrun = ignore_overrun};
	assert_int_equal(nic_cq_create(&t->cq), 0);
	open_rq(t, &t->ring, &t->rq);
	open_rq(t, &t->idle_ring, &t->idle);
}

static void close_trap(struct trap *t)
{
	cq_reuse_forget(&t->rq);
	cq_reuse_forget(&t->idle);
	nic_cq_destroy(&t->cq);
	hca_unlock(t->k.dev);
	kit_close(&t->k);
}

static void post_to(struct hca_rq *ring, uint16_t total)
{
	spw_dma_store(ring->dbrec, spw_cpu_to_be32(total));
}

static void post(struct trap *t, uint16_t total)
{
	post_to(&t->ring, total);
}

/* Takes the WQEs of r up to `to` and completes each, as raw.c does. */
static void complete_of(struct nic_rq *r, uint16_t to, uint32_t step)
{
	while (r->ci != to) {
		const uint16_t wqe = r->ci;
		struct nic_cqe e;

		assert_int_not_equal(rq_room(r), 0);
		r->ci++;
		cq_start(&e);
		spw_prm_cqe64_set_wqe_counter(&e, wqe);
		cq_reuse_check(r->cq, r, wqe);
		cq_put(r->cq, &e, SPW_PRM_CQE_RESP_SEND, false, step);
	}
}

static void complete(struct trap *t, uint16_t to, uint32_t step)
{
	complete_of(&t->rq, to, step);
}

static void too_few_entries(uint8_t comp_format, uint32_t step)
{
	struct trap t;

	open_trap(&t, true, comp_format);
	post(&t, WQES);
	complete(&t, CQES, step);
	assert_int_equal(t.nd->strict.cqe_reuse, 0);
	complete(&t, CQES + 2, step); /* over WQEs 0 and 1 */
	assert_int_equal(t.nd->strict.cqe_reuse, 2);
	post(&t, WQES + 4); /* WQEs 0 to 3 again */
	complete(&t, CQES + 4, step);
	assert_int_equal(t.nd->strict.cqe_reuse, 2);
	complete(&t, CQES + 5, step); /* over WQE 4 */
	assert_int_equal(t.nd->strict.cqe_reuse, 3);
	close_trap(&t);
}

static void plain_cqes(void **state)
{
	(void)state;
	too_few_entries(0, 1);
}

static void compressed_cqes(void **state)
{
	(void)state;
	too_few_entries(MLX5_IB_CQE_RES_FORMAT_HASH, 1);
}

/* The index of 16 bits wraps many times, each WQE is posted again in time. */
static void good_application(void **state)
{
	struct trap t;

	(void)state;
	open_trap(&t, true, 0);
	for (uint32_t n = 0; n < 200000; n += 2) {
		post(&t, (uint16_t)(n + WQES));
		complete(&t, (uint16_t)(n + 2), 1);
	}
	assert_int_equal(t.nd->strict.cqe_reuse, 0);
	close_trap(&t);
}

/* Two queues share the CQ. One is idle after its first completion, which was read; its WQE stays
 * unposted, while the other queue goes round and round. */
static void idle_queue(void **state)
{
	struct trap t;

	(void)state;
	open_trap(&t, true, 0);
	post_to(&t.idle_ring, WQES);
	complete_of(&t.idle, 1, 1);
	for (uint16_t n = 0; n < 100; n++) {
		post(&t, (uint16_t)(n + WQES));
		complete(&t, (uint16_t)(n + 1), 1);
		post(&t, (uint16_t)(n + WQES + 1));
	}
	assert_int_equal(t.nd->strict.cqe_reuse, 0);
	close_trap(&t);
}

/* A queue that was reset starts at WQE 0 again: its old completions are not counted. */
static void reset_forgets(void **state)
{
	struct trap t;

	(void)state;
	open_trap(&t, true, 0);
	post(&t, WQES);
	complete(&t, CQES, 1);
	cq_reuse_forget(&t.rq);
	t.rq.ci = t.rq.pi = 0;
	post(&t, CQES);
	complete(&t, CQES, 1);
	assert_int_equal(t.nd->strict.cqe_reuse, 0);
	close_trap(&t);
}

/* A queue's completions that were read show the same of an idle queue's before them, also once the
 * queue was reset. */
static void reset_keeps_what_was_read(void **state)
{
	struct trap t;

	(void)state;
	open_trap(&t, true, 0);
	post_to(&t.idle_ring, WQES);
	complete_of(&t.idle, 1, 1);
	post(&t, WQES);
	complete(&t, 3, 1);
	post(&t, WQES + 2); /* WQEs 0 and 1 again */
	cq_reuse_forget(&t.rq);
	t.rq.ci = t.rq.pi = 0;
	post(&t, WQES);
	complete(&t, 1, 1); /* over the idle queue's */
	assert_int_equal(t.nd->strict.cqe_reuse, 0);
	complete_of(&t.idle, 4, 1);
	assert_int_equal(t.nd->strict.cqe_reuse, 0);
	complete_of(&t.idle, 5, 1); /* over what nobody has shown to be read */
	assert_int_equal(t.nd->strict.cqe_reuse, 1);
	close_trap(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_cqes),       cmocka_unit_test(compressed_cqes),
		cmocka_unit_test(good_application), cmocka_unit_test(idle_queue),
		cmocka_unit_test(reset_forgets),    cmocka_unit_test(reset_keeps_what_was_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
