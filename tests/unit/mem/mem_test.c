/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Regions: host memory on this machine, and the choice of a kind on machines that the test makes
 * up.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "unit_machine.h"
#include "base/spw_log.h"
#include "mem/mem_impl.h"

static char log_text[4096];

static void keep_log(enum spw_log_level level SPW_UNUSED, const char *text, void *arg SPW_UNUSED)
{
	size_t n = strlen(log_text);

	snprintf(log_text + n, sizeof(log_text) - n, "%s\n", text);
}

static int set_up(void **state SPW_UNUSED)
{
	log_text[0] = '\0';
	spw_log_sink_set(keep_log, NULL);
	return 0;
}

static struct spw_mem_req request(enum spw_mem_kind kind, size_t bytes)
{
	return (struct spw_mem_req){.kind = kind, .bytes = bytes, .numa_node = -1};
}

/* KernelPageSize of the mapping at va, as the kernel reports it. */
static size_t kernel_page_bytes(const void *va)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	unsigned long from, to, kib;
	bool here = false;
	char line[256];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			here = (uintptr_t)va >= from && (uintptr_t)va < to;
		if (here && sscanf(line, "KernelPageSize: %lu", &kib) == 1)
			break;
	}
	fclose(f);
	return kib << 10;
}

/* Through /proc, as another process does; its size is nobody's to change. */
static void shared_memory_is_mapped_elsewhere(void **state SPW_UNUSED)
{
	struct spw_mem_req req = request(SPW_MEM_AUTO, 3u << 20);
	struct spw_region region;
	char path[64];
	uint8_t *other;
	int fd;

	req.shared = true;
	assert_int_equal(spw_region_alloc(&req, &region), 0);
	assert_int_equal(region.kind, SPW_MEM_HOST);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", region.shared_fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	other = mmap(NULL, region.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(other, MAP_FAILED);
	region.host_va[region.bytes - 1] = 7;
	assert_int_equal(other[region.bytes - 1], 7);
	assert_int_equal(ftruncate(fd, 4096), -1);
	munmap(other, region.bytes);
	close(fd);
	fd = region.shared_fd;
	spw_region_free(&region);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void small_shared_memory(void **state SPW_UNUSED)
{
	size_t bytes;
	void *va;
	int fd;

	assert_int_equal(spw_mem_share(5000, &va, &bytes, &fd), 0);
	assert_true(bytes >= 5000 && bytes % 4096 == 0);
	memset(va, 1, bytes);
	assert_int_equal(ftruncate(fd, 1), -1);
	spw_mem_share_free(va, bytes, fd);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void host_memory_is_there_and_touched(void **state SPW_UNUSED)
{
	struct spw_mem_req req = request(SPW_MEM_HOST, (3 << 20) + 1);
	struct spw_region r;
	unsigned char *resident;
	size_t base = (size_t)sysconf(_SC_PAGESIZE), pages;

	assert_int_equal(spw_region_alloc(&req, &r), 0);
	assert_true(r.bytes >= req.bytes && r.bytes % r.page_bytes == 0);
	assert_int_equal(r.page_bytes, kernel_page_bytes(r.host_va));
	assert_int_equal(r.dev_va, (uintptr_t)r.host_va);
	assert_int_equal(r.kind, SPW_MEM_HOST);
	pages = r.bytes / base;
	resident = malloc(pages);
	assert_int_equal(mincore(r.host_va, r.bytes, resident), 0);
	for (size_t i = 0; i < pages; i++)
		assert_true(resident[i] & 1);
	free(resident);
	memset(r.host_va, 0xff, r.bytes);
	assert_non_null(strstr(log_text, "memory: host, "));
	if (r.page_bytes == base)
		assert_non_null(strstr(log_text, "no free hugepages"));
	spw_region_free(&r);
	assert_null(r.host_va);
	spw_region_free(&r);
}

static void the_node_is_reported(void **state SPW_UNUSED)
{
	struct spw_mem_req req = request(SPW_MEM_HOST, 1 << 20);
	struct spw_region r;

	req.numa_node = 0;
	assert_int_equal(spw_region_alloc(&req, &r), 0);
	assert_true(r.numa_node == 0 || r.numa_node == -1); /* -1: a kernel without NUMA */
	spw_region_free(&r);
	req.numa_node = 63; /* no such node: any will do */
	assert_int_equal(spw_region_alloc(&req, &r), 0);
	spw_region_free(&r);
}

static void more_than_there_is_is_refused_at_once(void **state SPW_UNUSED)
{
	const size_t too_much[] = {1ull << 46, SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX / 2 + 2};
	struct rusage before, after;
	struct spw_region r;

	getrusage(RUSAGE_SELF, &before);
	for (size_t i = 0; i < SPW_ARRAY_CNT(too_much); i++) {
		struct spw_mem_req req = request(SPW_MEM_HOST, too_much[i]);

		assert_int_equal(spw_region_alloc(&req, &r), -ENOMEM);
		assert_non_null(strstr(spw_err_text(), "MiB are available"));
		assert_null(r.host_va);
	}
	getrusage(RUSAGE_SELF, &after);
	assert_true(after.ru_maxrss - before.ru_maxrss < 8192); /* KiB: nothing was touched */
}

static void ids_are_unique_and_reused(void **state SPW_UNUSED)
{
	struct spw_mem_req req = request(SPW_MEM_HOST, 4096);
	struct spw_region r[SPW_REGION_MAX], more;
	uint32_t id_mask = 0;

	for (int i = 0; i < SPW_REGION_MAX; i++) {
		assert_int_equal(spw_region_alloc(&req, &r[i]), 0);
		assert_true(r[i].id < SPW_REGION_MAX);
		id_mask |= 1u << r[i].id;
	}
	assert_int_equal(id_mask, (1u << SPW_REGION_MAX) - 1);
	assert_int_equal(spw_region_alloc(&req, &more), -ENOSPC);
	spw_region_free(&r[5]);
	assert_int_equal(spw_region_alloc(&req, &r[5]), 0);
	for (int i = 0; i < SPW_REGION_MAX; i++)
		spw_region_free(&r[i]);
}

static void names_go_both_ways(void **state SPW_UNUSED)
{
	enum spw_mem_kind kind;

	for (int i = SPW_MEM_AUTO; i <= SPW_MEM_GPU; i++) {
		assert_int_equal(spw_mem_kind_parse(spw_mem_kind_name((enum spw_mem_kind)i), &kind),
				 0);
		assert_int_equal(kind, i);
	}
	assert_int_equal(spw_mem_kind_parse("vram", &kind), -EINVAL);
	assert_non_null(strstr(spw_err_text(), "cuda-reg"));
}

struct choice {
	struct mem_gpu gpu;
	enum spw_mem_kind asked;
	bool gpu_executor;
	int rc;
	enum spw_mem_kind kind;
	const char *says;
};

#define GB10                                                               \
	{                                                                  \
		.usable = true, .integrated = true, .host_register = true, \
		.pageable_access = true, .shareable = true, .name = "GB10" \
	}
#define H100                                                                             \
	{                                                                                \
		.usable = true, .host_register = true, .dma_buf = true, .ordered = true, \
		.shareable = true, .name = "H100"                                        \
	}
#define LOOSE                                                                           \
	{                                                                               \
		.usable = true, .host_register = true, .dma_buf = true, .name = "LOOSE" \
	}
#define GH200                                                                                   \
	{                                                                                       \
		.usable = true, .host_register = true, .pageable_access = true, .name = "GH200" \
	}
#define FLUSHED                                                                            \
	{                                                                                  \
		.usable = true, .host_register = true, .dma_buf = true, .can_flush = true, \
		.shareable = true, .name = "FLUSHED"                                       \
	}
#define OLD                                   \
	{                                     \
		.usable = true, .name = "OLD" \
	}
#define NONE                           \
	{                              \
		.why_not = "no driver" \
	}

static void choices_check(const struct choice *table, size_t cnt, bool shared)
{
	for (size_t i = 0; i < cnt; i++) {
		struct spw_mem_req req = {.kind = table[i].asked,
					  .bytes = 1,
					  .executor_is_gpu = table[i].gpu_executor,
					  .shared = shared};
		struct spw_region r = {0};
		int rc = mem_choose(&req, &table[i].gpu, &r);

		assert_int_equal(rc, table[i].rc);
		if (!rc)
			assert_int_equal(r.kind, table[i].kind);
		assert_int_equal(r.flush, !rc && strstr(r.why, "flushed") != NULL);
		if (!strstr(rc ? spw_err_text() : r.why, table[i].says))
			fail_msg("row %zu: the text is: %s", i, rc ? spw_err_text() : r.why);
	}
}

static void every_machine_gets_its_kind(void **state SPW_UNUSED)
{
	static const struct choice table[] = {
		{GB10, SPW_MEM_AUTO, true, 0, SPW_MEM_CUDA_HOST, "integrated"},
		{H100, SPW_MEM_AUTO, true, 0, SPW_MEM_CUDA_REG, "discrete"},
		{GH200, SPW_MEM_AUTO, true, 0, SPW_MEM_CUDA_REG, "discrete"},
		{OLD, SPW_MEM_AUTO, true, 0, SPW_MEM_CUDA_HOST, "HOST_REGISTER_SUPPORTED 0"},
		{NONE, SPW_MEM_AUTO, true, 0, SPW_MEM_HOST, "no driver"},
		{NONE, SPW_MEM_AUTO, false, 0, SPW_MEM_HOST, "on the CPU"},
		{H100, SPW_MEM_AUTO, false, 0, SPW_MEM_HOST, "on the CPU"},
		{NONE, SPW_MEM_CUDA_HOST, true, -ENOTSUP, 0, "no driver): use host"},
		{NONE, SPW_MEM_CUDA_REG, false, -ENOTSUP, 0, "no driver): use host"},
		{OLD, SPW_MEM_CUDA_REG, true, -ENOTSUP, 0, "use cuda-host"},
		{OLD, SPW_MEM_CUDA_HOST, true, 0, SPW_MEM_CUDA_HOST, "asked for"},
		{H100, SPW_MEM_HOST, true, -ENOTSUP, 0, "PAGEABLE_MEMORY_ACCESS 0): use cuda-reg"},
		{OLD, SPW_MEM_HOST, true, -ENOTSUP, 0, "use cuda-host"},
		{H100, SPW_MEM_HOST, false, 0, SPW_MEM_HOST, "asked for"},
		{GB10, SPW_MEM_HOST, true, 0, SPW_MEM_HOST, "asked for"},
		{H100, SPW_MEM_GPU, true, 0, SPW_MEM_GPU, "asked for"},
		{H100, SPW_MEM_GPU, false, -ENOTSUP, 0, "the executor runs on the CPU"},
		{GB10, SPW_MEM_GPU, true, -ENOTSUP, 0,
		 "DMA_BUF_SUPPORTED 0, so no NIC reaches its memory: use cuda-host"},
		{GH200, SPW_MEM_GPU, true, -ENOTSUP, 0, "use cuda-reg"},
		{LOOSE, SPW_MEM_GPU, true, -ENOTSUP, 0, "WRITES_ORDERING 0"},
		{FLUSHED, SPW_MEM_GPU, true, 0, SPW_MEM_GPU, "each batch is flushed"},
		{NONE, SPW_MEM_GPU, true, -ENOTSUP, 0, "no driver): use host"},
		{H100, (enum spw_mem_kind)9, true, -EINVAL, 0, "not known"},
	};

	choices_check(table, SPW_ARRAY_CNT(table), false);
}

static void shared_memory_is_a_memfd_or_a_gpus(void **state SPW_UNUSED)
{
	static const struct choice table[] = {
		{NONE, SPW_MEM_AUTO, false, 0, SPW_MEM_HOST, "on the CPU"},
		{H100, SPW_MEM_AUTO, true, 0, SPW_MEM_CUDA_REG, "other processes"},
		{GB10, SPW_MEM_AUTO, true, 0, SPW_MEM_CUDA_REG, "other processes"},
		{OLD, SPW_MEM_AUTO, true, -ENOTSUP, 0, "use a CPU executor"},
		{H100, SPW_MEM_CUDA_HOST, true, -ENOTSUP, 0, "cannot be shared"},
		{H100, SPW_MEM_GPU, true, 0, SPW_MEM_GPU, "asked for"},
		{FLUSHED, SPW_MEM_GPU, true, 0, SPW_MEM_GPU, "asked for"}, /* no NIC: no flush */
		{H100, SPW_MEM_GPU, false, -ENOTSUP, 0, "the executor runs on the CPU"},
		{GB10, SPW_MEM_GPU, true, -ENOTSUP, 0, "is integrated"},
		{GH200, SPW_MEM_GPU, true, -ENOTSUP, 0, "HANDLE_TYPE_POSIX_FILE_DESCRIPTOR"},
		{NONE, SPW_MEM_GPU, true, -ENOTSUP, 0, "no driver): use host"},
	};

	choices_check(table, SPW_ARRAY_CNT(table), true);
}

/* ---- recorded machines, through lib/plat ---- */

/* The first GPU of a recorded machine. */
static struct mem_gpu recorded(const char *machine)
{
	struct mem_gpu gpu = {.why_not = "no GPU"};
	struct spw_plat *plat;

	assert_int_equal(unit_machine(machine, "", (struct spw_plat_from){0}, &plat), 0);
	if (plat->gpu_cnt)
		mem_gpu_of(&plat->gpu[0], &gpu);
	spw_plat_free(plat);
	return gpu;
}

static void recorded_machines_get_their_kind(void **state SPW_UNUSED)
{
	static const struct {
		const char *machine;
		enum spw_mem_kind asked;
		int rc;
		enum spw_mem_kind kind;
		const char *says;
	} table[] = {
		{"dgx-spark", SPW_MEM_AUTO, 0, SPW_MEM_CUDA_HOST, "GB10 is integrated"},
		{"dgx-spark", SPW_MEM_HOST, 0, SPW_MEM_HOST, "asked for"},
		{"dgx-spark", SPW_MEM_CUDA_REG, 0, SPW_MEM_CUDA_REG, "asked for"},
		{"dgx-spark", SPW_MEM_GPU, -ENOTSUP, 0, "DMA_BUF_SUPPORTED 0"},
		{"grace-hopper", SPW_MEM_AUTO, 0, SPW_MEM_CUDA_REG, "is discrete"},
		{"grace-hopper", SPW_MEM_HOST, 0, SPW_MEM_HOST, "asked for"},
		{"grace-hopper", SPW_MEM_GPU, 0, SPW_MEM_GPU, "asked for"},
		{"x86-connectx5", SPW_MEM_AUTO, 0, SPW_MEM_HOST, "there is no GPU"},
		{"x86-connectx5", SPW_MEM_CUDA_HOST, -ENOTSUP, 0, "needs a CUDA GPU"},
		{"bare-vm", SPW_MEM_AUTO, 0, SPW_MEM_HOST, "there is no GPU"},
		{"bare-vm", SPW_MEM_GPU, -ENOTSUP, 0, "needs a CUDA GPU"},
	};

	for (size_t i = 0; i < SPW_ARRAY_CNT(table); i++) {
		struct spw_mem_req req = {
			.kind = table[i].asked, .bytes = 1, .executor_is_gpu = true};
		struct mem_gpu gpu = recorded(table[i].machine);
		struct spw_region r = {0};
		int rc = mem_choose(&req, &gpu, &r);

		if (rc != table[i].rc || (!rc && r.kind != table[i].kind) || r.flush ||
		    !strstr(rc ? spw_err_text() : r.why, table[i].says))
			fail_msg("row %zu, %s: %d, kind %s, %s", i, table[i].machine, rc,
				 spw_mem_kind_name(r.kind), rc ? spw_err_text() : r.why);
	}
}

static void managed_memory_is_refused(void **state SPW_UNUSED)
{
	enum spw_mem_kind kind;

	assert_int_equal(spw_mem_kind_parse("managed", &kind), -EINVAL);
	assert_non_null(strstr(spw_err_text(), "move between CPU and GPU"));
	assert_non_null(strstr(spw_err_text(), "use cuda-host"));
}

/* On this machine, what needs a GPU works or is refused with the reason; a refusal takes no id. */
static void this_machine_does_it_or_says_why(void **state SPW_UNUSED)
{
	const enum spw_mem_kind kinds[] = {SPW_MEM_CUDA_HOST, SPW_MEM_CUDA_REG, SPW_MEM_AUTO};

	for (size_t i = 0; i < SPW_ARRAY_CNT(kinds); i++) {
		struct spw_mem_req req = request(kinds[i], 1 << 20);
		struct spw_region r;
		struct mem_gpu gpu;
		int rc;

		req.executor_is_gpu = true;
		mem_gpu_probe(&gpu);
		rc = spw_region_alloc(&req, &r);
		if (gpu.usable || kinds[i] == SPW_MEM_AUTO) {
			assert_int_equal(rc, 0);
			memset(r.host_va, 1, r.bytes);
			assert_true(r.dev_va != 0);
			assert_int_equal(r.id, 0);
			spw_region_free(&r);
		} else {
			assert_int_equal(rc, -ENOTSUP);
			assert_non_null(strstr(spw_err_text(), "use host"));
		}
	}
}

/* A GPU's own memory has no address for the CPU, and a dma-buf for the NIC. */
static void a_gpu_gives_its_own_memory_or_says_why(void **state SPW_UNUSED)
{
	struct spw_mem_req req = request(SPW_MEM_GPU, 1 << 20);
	struct spw_region r;
	struct mem_gpu gpu;
	int rc;

	req.executor_is_gpu = true;
	mem_gpu_probe(&gpu);
	rc = spw_region_alloc(&req, &r);
	if (rc) {
		assert_int_equal(rc, -ENOTSUP);
		assert_non_null(strstr(spw_err_text(), ": use "));
		print_message("no dma-buf here: %s\n", spw_err_text());
		return;
	}
	assert_true(gpu.dma_buf && (gpu.ordered || gpu.can_flush));
	assert_int_equal(r.flush, !gpu.ordered);
	assert_null(r.host_va);
	assert_int_equal(r.dev_va % r.page_bytes, 0);
	assert_true(r.bytes >= 1 << 20 && fcntl(r.dmabuf_fd, F_GETFD) >= 0);
	/* lseek() reports the length of a dma-buf */
	assert_int_equal(lseek(r.dmabuf_fd, 0, SEEK_END), r.bytes);
	rc = r.dmabuf_fd;
	spw_region_free(&r);
	assert_int_equal(fcntl(rc, F_GETFD), -1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest test[] = {
		cmocka_unit_test_setup(host_memory_is_there_and_touched, set_up),
		cmocka_unit_test_setup(shared_memory_is_mapped_elsewhere, set_up),
		cmocka_unit_test_setup(small_shared_memory, set_up),
		cmocka_unit_test_setup(the_node_is_reported, set_up),
		cmocka_unit_test_setup(more_than_there_is_is_refused_at_once, set_up),
		cmocka_unit_test_setup(ids_are_unique_and_reused, set_up),
		cmocka_unit_test_setup(names_go_both_ways, set_up),
		cmocka_unit_test_setup(every_machine_gets_its_kind, set_up),
		cmocka_unit_test_setup(shared_memory_is_a_memfd_or_a_gpus, set_up),
		cmocka_unit_test_setup(recorded_machines_get_their_kind, set_up),
		cmocka_unit_test_setup(managed_memory_is_refused, set_up),
		cmocka_unit_test_setup(this_machine_does_it_or_says_why, set_up),
		cmocka_unit_test_setup(a_gpu_gives_its_own_memory_or_says_why, set_up),
	};

	platforms = argc > 1 ? argv[1] : "config/platforms";
	return cmocka_run_group_tests_name("mem", test, NULL, NULL);
}
