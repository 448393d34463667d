/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Completion queues on a device that refuses to ignore overrun: the port publishes its index
 * instead, and many laps of the rings pass. Where the index stood still, the software ConnectX
 * would end the queue with an overrun.
 */
#include <dlfcn.h>
#include <errno.h>

#include "port/mlx5/eth/eth.h"
#include "port_kit.h"

#define LAPS_FRAMES 30000u

static struct kit_run run;
static bool refuse;
static uint32_t refused, ignored;

/* In front of libmlx5's. */
struct ibv_cq_ex *mlx5dv_create_cq(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr,
				   struct mlx5dv_cq_init_attr *dv)
{
	struct ibv_cq_ex *(*real)(struct ibv_context *, struct ibv_cq_init_attr_ex *,
				  struct mlx5dv_cq_init_attr *);
	bool ignore = attr->flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

	*(void **)&real = dlsym(RTLD_NEXT, "mlx5dv_create_cq");
	ignored += ignore;
	if (!ignore || !refuse)
		return real(ctx, attr, dv);
	refused++;
	errno = EOPNOTSUPP;
	return NULL;
}

static const char *const profile[] = {"latency", "throughput"};

static void test_laps(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct kit_conf a = {.spec = "mlx5:mlx5_0", .queues = 1, .profile = profile[i & 1]},
				b = a;

		refuse = i >= 2;
		refused = ignored = 0;
		b.spec = "mlx5:mlx5_1";
		kit_open(&run, &a, &b);
		kit_pump(&run, LAPS_FRAMES);
		assert_int_equal(refused, refuse ? ignored : 0);
		assert_true(ignored > 0); /* send queues at least */
		for (unsigned k = 0; k < 2; k++) {
			struct mlx5_eth_queue_ctl *eq =
				&mlx5_eth_of(k ? run.b.port : run.a.port)->queue[0];

			assert_int_equal(eq->rx.cqmem.dbrec != NULL,
					 refuse || eq->plan.flags & MLX5_F_COMPRESSED);
			assert_int_equal(eq->tx.cqmem.dbrec != NULL, refuse);
		}
		kit_close(&run);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_laps)};

	(void)argc;
	(void)argv;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
