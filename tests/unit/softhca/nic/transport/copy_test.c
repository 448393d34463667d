/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The list of copies alone, with helpers: every byte arrives, in lists shorter and longer than it
 * holds, and the last packet of a message after the others. For the sanitizers too, which cannot be
 * put before the programs of tests/e2e/softhca.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>

#include "softhca/nic/transport/copy.h"
#include "softhca/nic/transport/qp.h"
#include "softhca/nic/up.h"

#define HELPERS 3u
#define COPIES  600u /* more than a list holds */
#define BYTES   4096u
#define TURNS   50u
#define LONG    8u /* fewer copies the NIC thread keeps for itself */

static void copies(struct nic_dev *nd, struct nic_qp *q, uint8_t *to, const uint8_t *from,
		   uint32_t cnt, uint32_t bytes)
{
	for (uint32_t i = 0; i < cnt; i++) {
		copy_received(nd->copier, q, i, false);
		nic_copy(nd, to + (size_t)i * BYTES, from + (size_t)i * BYTES, bytes);
	}
	copy_wait(nd);
	for (uint32_t i = 0; i < cnt; i++)
		assert_memory_equal(to + (size_t)i * BYTES, from + (size_t)i * BYTES, bytes);
	assert_false(nd->copy_failed);
}

struct fix {
	struct nic_dev nd;
	struct nic_qp q;
	struct hca_dev dev;
	uint8_t *from, *to;
};

static int setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	*state = f;
	f->from = malloc((size_t)COPIES * BYTES);
	f->to = malloc((size_t)COPIES * BYTES);
	f->q.nd = &f->nd;
	f->nd.dev = &f->dev;
	f->dev.nic = &f->nd;
	f->nd.copier = copier_open(HELPERS, 1000000);
	return !(f->from && f->to && f->nd.copier);
}

static int teardown(void **state)
{
	struct fix *f = *state;

	copier_close(f->nd.copier);
	free(f->from);
	free(f->to);
	free(f);
	return 0;
}

static void test_copies(void **state)
{
	struct fix *f = *state;
	uint32_t turn = 0;

	do {
		for (uint32_t i = 0; i < COPIES * BYTES; i++)
			f->from[i] = (uint8_t)(i * 31 + i / BYTES + turn);
		memset(f->to, 0, (size_t)COPIES * BYTES);
		copies(&f->nd, &f->q, f->to, f->from, turn % 2 ? COPIES : turn % 40,
		       BYTES - turn * 61 % 4000);
		turn++;
	} while (turn < TURNS || (!copier_helped(f->nd.copier) && turn < 100 * TURNS));
	assert_true(copier_helped(f->nd.copier) > 0);
}

/* Long copies, of which a helper takes the first four together, and a short one that is the last:
 * whoever makes that one waits for the helper. */
static void test_last(void **state)
{
	struct fix *f = *state;
	const uint32_t len = COPIES / 10 * BYTES;
	uint64_t before;
	uint32_t turn = 0, shared = 0;

	while (shared < 20 && ++turn < 10000) {
		before = copier_helped(f->nd.copier);
		memset(f->from, (int)turn, (size_t)COPIES * BYTES);
		for (uint32_t i = 0; i < LONG; i++) {
			copy_received(f->nd.copier, &f->q, i, false);
			nic_copy(&f->nd, f->to + (size_t)i * len, f->from + (size_t)i * len, len);
		}
		copy_received(f->nd.copier, &f->q, LONG, true);
		/* Its source is the end of what a helper copies: only then is it new. */
		nic_copy(&f->nd, f->to + (size_t)LONG * len, f->to + (size_t)4 * len - BYTES,
			 BYTES);
		copy_wait(&f->nd);
		assert_int_equal(f->to[(size_t)LONG * len], (uint8_t)turn);
		assert_int_equal(f->to[(size_t)LONG * len + BYTES - 1], (uint8_t)turn);
		shared += copier_helped(f->nd.copier) != before;
	}
	assert_int_equal(shared, 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_copies, setup, teardown),
		cmocka_unit_test_setup_teardown(test_last, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
