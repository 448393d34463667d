/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The fixture of tests about what an application does wrong: two connected RC QPs, a and b, of one
 * device, made anew for each test.
 */
#ifndef SPW_SOFTHCA_PAIR_KIT_H
#define SPW_SOFTHCA_PAIR_KIT_H

#include "verbs_kit.h"

static struct kit k;
static struct kit_end a, b;
static uint8_t *far; /* end b's half of the buffer */

static inline int open_pair(void **state)
{
	(void)state;
	kit_open(&k);
	kit_pair_open(&k, &a, &b, NULL);
	far = k.buf + KIT_BUF_BYTES / 2;
	return 0;
}

static inline int close_pair(void **state)
{
	(void)state;
	kit_end_close(&a);
	kit_end_close(&b);
	kit_close(&k);
	return 0;
}

static inline void reopen(const struct kit_how *how)
{
	kit_end_close(&a);
	kit_end_close(&b);
	kit_pair_open(&k, &a, &b, how);
}

static inline void expect_dead(struct kit_end *e)
{
	assert_int_equal(kit_state(e->qp), IBV_QPS_ERR);
	assert_int_equal(kit_post(e, IBV_WR_SEND, k.buf, 8, k.mr->lkey, 0, 0), 0);
	kit_expect(e->cq, IBV_WC_WR_FLUSH_ERR, NULL);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, open_pair, close_pair)

#endif
