/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * adversary_test FIRST LAST: the mlx5 port, raw Ethernet and RC in all variants, against these
 * seeds of the adversary; one variant of each seed step by step (rig.h). adversary_test SEED
 * VARIANT: one of them, to look for what went wrong.
 */
#include "runs.h"

#include <stdio.h>
#include <stdlib.h>

#include "port/mlx5/rc/queue.h"
#include "unit_test.h"

static const struct variant {
	const char *name;
	void (*run)(uint64_t seed, const char *options, unsigned flags,
		    const struct run_conf *conf);
	unsigned flags;
} variants[] = {
	{"eth", run_eth, MLX5_F_STAMP},
	{"eth-inline", run_eth, MLX5_F_INLINE},
	{"eth-compressed", run_eth, MLX5_F_COMPRESSED},
	{"eth-enhanced", run_eth, MLX5_F_COMPRESSED | MLX5_F_ENHANCED},
	{"eth-striding", run_eth, MLX5_F_STRIDING},
	{"eth-striding-compressed", run_eth, MLX5_F_STRIDING | MLX5_F_COMPRESSED},
	{"eth-striding-enhanced", run_eth, MLX5_F_STRIDING | MLX5_F_COMPRESSED | MLX5_F_ENHANCED},
	{"rc-send", run_rc, MLX5_RC_STAMP},
	{"rc-send-srq", run_rc, PORT_RC_SRQ},
	{"rc-send-compressed", run_rc, MLX5_RC_COMPRESSED},
	{"rc-send-srq-compressed", run_rc, PORT_RC_SRQ | MLX5_RC_COMPRESSED},
	{"rc-write", run_rc, PORT_RC_WRITE | MLX5_RC_STAMP},
	{"rc-write-srq", run_rc, PORT_RC_WRITE | PORT_RC_SRQ},
};

static uint64_t first_seed, last_seed;

/* Steps take a microsecond for each instruction: one variant of each seed has them. */
static void run(const struct variant *v, uint64_t seed)
{
	const bool steps = seed % SPW_ARRAY_CNT(variants) == (size_t)(v - variants);
	const struct run_conf conf = {.turns = 300, .steps = steps ? 50 : 0, .resets = seed & 1};
	const bool enhanced = v->run == run_eth && v->flags & MLX5_F_ENHANCED;
	char options[96];

	snprintf(options, sizeof(options), "adversary=%llu;cqe-layout=%s", (unsigned long long)seed,
		 enhanced ? "enhanced" : "basic");
	printf("seed %llu, %s\n", (unsigned long long)seed, v->name);
	fflush(stdout); /* the last line names what fails */
	v->run(seed, options, v->flags, &conf);
}

static void all_seeds(void **state)
{
	(void)state;
	for (uint64_t seed = first_seed; seed <= last_seed; seed++)
		for (size_t i = 0; i < SPW_ARRAY_CNT(variants); i++)
			run(&variants[i], seed);
}

static const struct variant *one;

static void one_variant(void **state)
{
	(void)state;
	run(one, first_seed);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest all[] = {cmocka_unit_test(all_seeds)},
				single[] = {cmocka_unit_test(one_variant)};

	if (argc != 3)
		return 1;
	first_seed = strtoull(argv[1], NULL, 0);
	last_seed = strtoull(argv[2], NULL, 0);
	for (size_t i = 0; i < SPW_ARRAY_CNT(variants); i++)
		if (strcmp(argv[2], variants[i].name) == 0)
			one = &variants[i];
	return one ? cmocka_run_group_tests(single, NULL, NULL)
		   : cmocka_run_group_tests(all, NULL, NULL);
}
