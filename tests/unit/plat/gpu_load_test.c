/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * GPUs of the running machine under load, by a CUDA driver and an NVML of the tests' own.
 * Usage: gpu_load_test CUDA NVML
 */
#include "plat/spw_plat.h"
#include "unit_test.h"

static const char *cuda_lib, *nvml_lib;

static bool is_found(const struct spw_plat *plat, const char *code)
{
	for (uint32_t i = 0; i < plat->finding_cnt; i++)
		if (!strcmp(plat->finding[i].code, code))
			return true;
	return false;
}

#define COPY_MBS 67109 /* of the driver: a copy a ms */

static struct spw_plat *plat_loaded(const char *nvml)
{
	struct spw_plat *plat;

	assert_int_equal(
		spw_plat_read(&(struct spw_plat_from){.cuda_lib = cuda_lib, .nvml_lib = nvml},
			      &plat),
		0);
	assert_int_equal(plat->gpu_cnt, 1); /* of the running machine */
	assert_int_equal(plat->gpu[0].load.memory_mbs, -1);
	spw_plat_gpus_load(plat, cuda_lib, nvml);
	return plat;
}

/* The same GPU with NVML's hot answers and without NVML: the copies are the same. One stall of the
 * machine makes them slow: three times in a row is the code's fault. */
static void a_gpu_is_measured_under_load(void **state)
{
	struct spw_plat *plat;
	struct spw_plat_gpu_load load;

	(void)state;
	for (int hot = 0; hot < 2; hot++) {
		for (int i = 0;; i++) {
			plat = plat_loaded(hot ? nvml_lib : "");
			load = plat->gpu[0].load;
			if (i == 2 ||
			    (load.memory_mbs >= COPY_MBS / 10 && load.host_mbs >= COPY_MBS / 20))
				break;
			spw_plat_free(plat);
		}
		assert_int_equal(load.promised_mbs, 273024);
		assert_in_range(load.memory_mbs, COPY_MBS / 10, 2 * COPY_MBS);
		assert_in_range(load.host_mbs, COPY_MBS / 20, COPY_MBS);
		assert_int_equal(load.clock_mhz, hot ? 500 : -1);
		assert_int_equal(load.throttle, hot ? 0x40 : -1);
		if (hot)
			assert_true(is_found(plat, "measured-gpu"));
		spw_plat_free(plat);
	}
	assert_int_equal(
		spw_plat_read(&(struct spw_plat_from){.cuda_lib = "", .nvml_lib = ""}, &plat), 0);
	spw_plat_gpus_load(plat, "/nonexistent", "");
	assert_int_equal(plat->gpu_cnt, 0);
	spw_plat_free(plat);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_gpu_is_measured_under_load)};

	if (argc != 3)
		return 2;
	cuda_lib = argv[1];
	nvml_lib = argv[2];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
