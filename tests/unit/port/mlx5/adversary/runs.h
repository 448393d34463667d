/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The data path of port/mlx5 in one process with the NIC model and its adversary (rig.h).
 */
#ifndef SPW_TEST_ADVERSARY_RUNS_H
#define SPW_TEST_ADVERSARY_RUNS_H

#include "base/spw_types.h"

struct run_conf {
	uint32_t turns; /* a turn sends, lets the NIC work, and receives */
	uint32_t steps; /* every n-th turn the NIC works between instructions too; 0: none */
	bool resets;    /* queues are reset now and then */
};

/* Each fails the test where bytes, order, slots or counts are wrong. options: of with-softhca.
 * flags: enum mlx5_flag, enum mlx5_rc_flag. */
void run_eth(uint64_t seed, const char *options, unsigned flags, const struct run_conf *conf);
void run_rc(uint64_t seed, const char *options, unsigned flags, const struct run_conf *conf);

#endif
