/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which GPUs an executor takes, and what it says of the others: the real check of lib/exec over a
 * driver and a CUDA module whose runtime only answers questions (gpu_check_runtime.c), so that no
 * GPU is needed.
 */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/spw_err.h"
#include "exec/exec.h"
#include "exec/spw_exec.h"
#include "exec/spw_handler.h"
#include "exec/spw_kernel.h"
#include "exec/spw_litmus.h"
#include "plat/spw_plat.h"
#include "../unit_test.h"
#include "gpu_check.h"

static struct gpu_check_machine *machine; /* of a test; in the module */

int spw_plat_gpu_read(uint32_t ordinal, struct spw_plat_gpu *gpu_out)
{
	if (!machine->name)
		return spw_err(ENODEV, "no CUDA driver library (libcuda.so.1)");
	memset(gpu_out, 0, sizeof(*gpu_out));
	gpu_out->ordinal = ordinal;
	snprintf(gpu_out->name, sizeof(gpu_out->name), "%s", machine->name);
	gpu_out->attr[SPW_PLAT_GPU_COMPUTE_CAPABILITY_MAJOR] = machine->major;
	gpu_out->attr[SPW_PLAT_GPU_COMPUTE_CAPABILITY_MINOR] = machine->minor;
	return 0;
}

static int load(uint32_t threads SPW_UNUSED, struct spw_kernel_info *info_out)
{
	machine->loads++;
	info_out->cta_max = machine->ctas;
	return machine->load_rc;
}

static const char *error_text(int rc)
{
	return rc == cudaErrorNoKernelImageForDevice ? "no kernel image is available" : "?";
}

static const struct spw_handler_cuda device_code = {.load = load, .error_text = error_text};
static const struct spw_handler with = {.name = "with", .cuda = &device_code},
				without = {.name = "without"};

static void machine_is(const char *name, int major, int minor)
{
	memset(machine, 0, sizeof(*machine));
	machine->name = name;
	machine->major = major;
	machine->minor = minor;
	machine->driver = CUDART_VERSION;
	machine->ctas = 16;
}

/* AUTO takes kind, and the reason has each word. */
static void takes(const struct spw_handler *handler, enum spw_exec_kind kind,
		  const char *const word[4])
{
	char why[SPW_EXEC_WHY_BYTES];

	assert_int_equal(spw_exec_choose(handler, 2, 1, why, sizeof(why)), kind);
	for (int i = 0; i < 4 && word[i]; i++)
		if (!strstr(why, word[i]))
			fail_msg("\"%s\" is not in: %s", word[i], why);
}

/* AUTO takes a thread of the CPU; a CUDA executor that is asked for is refused with that text. */
static void refuses(const struct spw_handler *handler, const char *const word[4])
{
	struct spw_exec_conf conf = {
		.kind = SPW_EXEC_CUDA_PERSISTENT, .handler = handler, .ring_cnt = 2};
	char why[SPW_EXEC_WHY_BYTES], text[SPW_EXEC_WHY_BYTES];
	struct spw_exec *exec;

	takes(handler, SPW_EXEC_CPU, word);
	assert_int_equal(spw_exec_check(conf.kind, handler, 2), -ENOTSUP);
	snprintf(text, sizeof(text), "%s", spw_err_text());
	spw_exec_choose(handler, 2, 0, why, sizeof(why));
	assert_non_null(strstr(why, text));
	assert_int_equal(spw_exec_open(&conf, &exec), -ENOTSUP);
	assert_non_null(strstr(spw_err_text(), text));
}

static void gpus_from_turing_on(void **state SPW_UNUSED)
{
	machine_is("NVIDIA GeForce RTX 4090", 8, 9);
	takes(&with, SPW_EXEC_CUDA_PERSISTENT, (const char *[4]){"NVIDIA GeForce RTX 4090"});
	machine_is("Quadro RTX 6000", 7, 5);
	takes(&with, SPW_EXEC_CUDA_PERSISTENT, (const char *[4]){"Quadro RTX 6000"});
	assert_int_equal(machine->loads, 1);
	machine_is("NVIDIA TITAN V", 7, 0);
	refuses(&with, (const char *[4]){"NVIDIA TITAN V", "7.0", "7.5 or later"});
	assert_int_equal(machine->loads, 0);
	machine_is(NULL, 0, 0);
	refuses(&with, (const char *[4]){"no usable GPU", "libcuda.so.1"});
}

static void no_code_for_it(void **state SPW_UNUSED)
{
	machine_is("NVIDIA GeForce RTX 4090", 8, 9);
	machine->load_rc = cudaErrorNoKernelImageForDevice;
	refuses(&with, (const char *[4]){"handler with does not load on NVIDIA GeForce RTX 4090",
					 "8.9", "the module has " SPW_CUDA_BUILT, "-Dgpu_arch=89"});
	machine->load_rc = 0;
	machine->clock_rc = cudaErrorNoKernelImageForDevice;
	refuses(&with, (const char *[4]){"no kernel image", "-Dgpu_arch=89"});
}

static void driver_too_old(void **state SPW_UNUSED)
{
	machine_is("NVIDIA GeForce RTX 4090", 8, 9);
	machine->driver = 11040;
	refuses(&with, (const char *[4]){"NVIDIA GeForce RTX 4090", "CUDA 11.4", "newer driver"});
}

static void handler_for_cpus(void **state SPW_UNUSED)
{
	machine_is("NVIDIA GeForce RTX 4090", 8, 9);
}

static void too_many_rings(void **state SPW_UNUSED)
{
	machine_is("NVIDIA GeForce MX450", 7, 5);
	machine->ctas = 1;
	refuses(&with, (const char *[4]){"only 1 CTAs", "NVIDIA GeForce MX450", "2 rings"});
}

static void no_module(void **state SPW_UNUSED)
{
	char module[4096];

	snprintf(module, sizeof(module), "%s", getenv("SPW_CUDA_MODULE"));
	machine_is("NVIDIA GeForce RTX 4090", 8, 9);
	setenv("SPW_CUDA_MODULE", "/nowhere", 1);
	refuses(&with, (const char *[4]){"NVIDIA GeForce RTX 4090 cannot be used", "/nowhere",
					 "install spinwire-cuda", "ninja -C build"});
	setenv("SPW_CUDA_MODULE", module, 1);
	refuses(&without, (const char *[4]){"handler without has no device code", "nvcc"});
}

/* The built-in handlers have their device code in the module. */
static void built_in_handlers(void **state SPW_UNUSED)
{
	struct spw_handler copy = *spw_handler_find("sum");
	struct spw_exec_gpu gpu, last;

	machine_is("NVIDIA GeForce RTX 4090", 8, 9);
	refuses(&copy, (const char *[4]){"handler sum has no device code"});
	assert_int_equal(spw_exec_gpu_find(&spw_litmus_handler, &last), 0);
	for (uint32_t i = 0; spw_handler_builtin(i); i++) {
		assert_int_equal(spw_exec_gpu_find(spw_handler_builtin(i), &gpu), 0);
		assert_true(gpu.code < last.code && gpu.code->load != last.code->load);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_module), /* first: the module is opened once */
		cmocka_unit_test(gpus_from_turing_on), cmocka_unit_test(no_code_for_it),
		cmocka_unit_test(driver_too_old),      cmocka_unit_test(handler_for_cpus),
		cmocka_unit_test(too_many_rings),      cmocka_unit_test(built_in_handlers),
	};
	void *module = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;

	if (!module) {
		fprintf(stderr, "usage: gpu_check_test MODULE: %s\n", dlerror());
		return 1;
	}
	setenv("SPW_CUDA_MODULE", argv[1], 1);
	machine = dlsym(module, "gpu_check_machine");

	return cmocka_run_group_tests(tests, NULL, NULL);
}
