/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * A GPU under a short load: copies within its memory and from pinned host memory, by the CUDA
 * driver library, and the clock and throttle reasons that NVML reports meanwhile. An idle GPU
 * lowers its clocks, so only under load do they say something. Put into a live tree:
 *
 *   measured/gpu/0000:01:00.0 = memory 2600000 promised 3350000 host 55000 clock 1980 throttle 0
 *
 * Rates in MB/s (a copy within the memory reads and writes: both count), -1 unknown. Source of
 * names and numbers: CUDA driver API, cuda.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/spw_monotonic.h"
#include "cuda/spw_cuda_library.h"
#include "plat/plat_impl.h"

#define COPY_BYTES  (64ull << 20)
#define HOST_COPIES 16u
#define LOAD_MS     300u
#define LOAD_TRIES  3u /* each twice as long: NVML may take its time */

#define ATTR_PCI_BUS    33
#define ATTR_PCI_DEVICE 34
#define ATTR_MEM_KHZ    36
#define ATTR_MEM_BITS   37
#define ATTR_PCI_DOMAIN 50

/* No CUDA is needed to build this: the names are those of the driver library's ABI. */
#define LOAD_FUNCTIONS(X)                                                               \
	X(init, cuInit, (unsigned int flags))                                           \
	X(device_cnt, cuDeviceGetCount, (int *cnt))                                     \
	X(device, cuDeviceGet, (int *device, int ordinal))                              \
	X(attr, cuDeviceGetAttribute, (int *value, int attr, int device))               \
	X(retain, cuDevicePrimaryCtxRetain, (void **ctx, int device))                   \
	X(release, cuDevicePrimaryCtxRelease_v2, (int device))                          \
	X(use, cuCtxSetCurrent, (void *ctx))                                            \
	X(alloc, cuMemAlloc_v2, (unsigned long long *ptr, size_t bytes))                \
	X(free, cuMemFree_v2, (unsigned long long ptr))                                 \
	X(host_alloc, cuMemHostAlloc, (void **ptr, size_t bytes, unsigned int flags))   \
	X(host_free, cuMemFreeHost, (void *ptr))                                        \
	X(copy, cuMemcpyAsync,                                                          \
	  (unsigned long long to, unsigned long long from, size_t bytes, void *stream)) \
	X(wait, cuCtxSynchronize, (void))

struct load {
	LOAD_FUNCTIONS(SPW_CUDA_LIBRARY_MEMBER)
	const char *nvml;
};

static bool probe_load_open(const char *path, struct load *of)
{
	const struct spw_cuda_symbol wanted[] = {LOAD_FUNCTIONS(SPW_CUDA_LIBRARY_SYMBOL)};

	return spw_cuda_library_open(path, "CUDA driver", wanted, SPW_ARRAY_CNT(wanted)) == 0 &&
	       of->init(0) == 0;
}

static double load_now_s(void)
{
	return (double)spw_monotonic_ns() * 1e-9;
}

/* ---- one GPU ---- */

struct loaded {
	int device;
	char pci[16];
	unsigned long long from, to;
	void *host;
	int64_t memory_mbs, promised_mbs, host_mbs, clock_mhz, throttle;
};

static int load_attr(const struct load *l, const struct loaded *g, int attr)
{
	int value = -1;

	return l->attr(&value, attr, g->device) ? -1 : value;
}

/* Asynchronous: the caller waits for all of them at once. */
static int load_copies(const struct load *l, unsigned long long to, unsigned long long from,
		       uint32_t cnt)
{
	int rc = 0;

	for (uint32_t i = 0; i < cnt && !rc; i++)
		rc = l->copy(to, from, COPY_BYTES, NULL);
	return rc;
}

/* Returns: seconds of cnt copies; -1: they failed. */
static double load_time_copies(const struct load *l, unsigned long long to, unsigned long long from,
			       uint32_t cnt)
{
	double start = load_now_s();

	if (load_copies(l, to, from, cnt) || l->wait())
		return -1;
	return SPW_MAX(load_now_s() - start, 1e-6);
}

static int64_t load_mbs(double seconds, uint32_t cnt)
{
	return seconds < 0 ? -1 : (int64_t)((double)COPY_BYTES * cnt / seconds * 1e-6);
}

static int64_t load_nvml_number(struct plat_tree *tree, const char *pci, const char *name)
{
	char path[64], *end;
	const char *text;
	int64_t value;

	snprintf(path, sizeof(path), "nvml/%s/%s", pci, name);
	if (plat_tree_read(tree, path, &text))
		return -1;
	value = strtoll(text, &end, 10);
	return end == text ? -1 : value;
}

/* While the copies run. */
static void load_clocks_read(const struct load *l, struct loaded *g)
{
	struct plat_tree *tree;

	if (!l->nvml[0] || plat_tree_new(true, &tree))
		return;
	plat_probe_nvml(tree, l->nvml);
	g->clock_mhz = load_nvml_number(tree, g->pci, "clock_sm");
	g->throttle = load_nvml_number(tree, g->pci, "throttle");
	plat_tree_free(tree);
}

/* Copies within the memory, and clocks meanwhile. Clocks that were read after the load had ended
 * say nothing: they stay unknown. Returns: whether they were read in time, or nothing can be. */
static bool load_run(const struct load *l, struct loaded *g, double one, uint32_t cnt)
{
	double start = load_now_s(), answered;

	if (load_copies(l, g->to, g->from, cnt))
		return true;
	load_clocks_read(l, g);
	answered = load_now_s() - start;
	if (l->wait())
		return true;
	g->memory_mbs = SPW_MAX(g->memory_mbs, 2 * load_mbs(load_now_s() - start, cnt));
	if (answered < one * cnt)
		return true;
	g->clock_mhz = g->throttle = -1;
	return false;
}

/* Host copies first; then as many copies within the memory as take LOAD_MS, with clocks read
 * meanwhile. */
static void load_gpu_run(const struct load *l, struct loaded *g)
{
	unsigned long long host = (uintptr_t)g->host;
	uint32_t cnt;
	double one;

	load_time_copies(l, g->to, host, 1); /* the first copy sets things up */
	g->host_mbs = load_mbs(load_time_copies(l, g->to, host, HOST_COPIES), HOST_COPIES);
	one = load_time_copies(l, g->to, g->from, 4) / 4;
	if (one < 0)
		return;
	cnt = (uint32_t)SPW_MIN(LOAD_MS * 1e-3 / one + 1, 4000.0);
	for (uint32_t try = 0; try < LOAD_TRIES && !load_run(l, g, one, cnt); try++)
		cnt *= 2;
	g->memory_mbs =
		SPW_MAX(g->memory_mbs, 2 * load_mbs(load_time_copies(l, g->to, g->from, cnt), cnt));
}

/* The primary context is the one that the program's own CUDA code would use. */
static bool load_gpu_open(const struct load *l, struct loaded *g)
{
	void *ctx = NULL;

	return l->retain(&ctx, g->device) == 0 && l->use(ctx) == 0 &&
	       l->alloc(&g->from, COPY_BYTES) == 0 && l->alloc(&g->to, COPY_BYTES) == 0 &&
	       l->host_alloc(&g->host, COPY_BYTES, 0) == 0;
}

/* Also after load_gpu_open has failed half-way: what is 0 was not allocated. */
static void load_gpu_close(const struct load *l, const struct loaded *g)
{
	if (g->host)
		l->host_free(g->host);
	if (g->to)
		l->free(g->to);
	if (g->from)
		l->free(g->from);
	l->use(NULL);
	l->release(g->device);
}

/* A GPU that cannot be loaded is put with -1 everywhere, so a recorded machine shows that it was
 * tried. */
static void load_gpu(struct plat_tree *tree, const struct load *l, int ordinal)
{
	struct loaded g = {.memory_mbs = -1,
			   .promised_mbs = -1,
			   .host_mbs = -1,
			   .clock_mhz = -1,
			   .throttle = -1};
	char path[48], text[160];
	int64_t khz, bits;

	if (l->device(&g.device, ordinal))
		return;
	snprintf(g.pci, sizeof(g.pci), "%04x:%02x:%02x.0",
		 (unsigned int)load_attr(l, &g, ATTR_PCI_DOMAIN) & 0xffff,
		 (unsigned int)load_attr(l, &g, ATTR_PCI_BUS) & 0xff,
		 (unsigned int)load_attr(l, &g, ATTR_PCI_DEVICE) & 0x1f);
	khz = load_attr(l, &g, ATTR_MEM_KHZ);
	bits = load_attr(l, &g, ATTR_MEM_BITS);
	if (khz > 0 && bits > 0)
		g.promised_mbs = khz * 2 * bits / 8 / 1000; /* double data rate */
	if (load_gpu_open(l, &g))
		load_gpu_run(l, &g);
	load_gpu_close(l, &g);
	snprintf(path, sizeof(path), "measured/gpu/%s", g.pci);
	snprintf(text, sizeof(text), "memory %lld promised %lld host %lld clock %lld throttle %lld",
		 (long long)g.memory_mbs, (long long)g.promised_mbs, (long long)g.host_mbs,
		 (long long)g.clock_mhz, (long long)g.throttle);
	plat_tree_put(tree, path, text);
}

/* One GPU after the other: together they would share the host's memory. */
void plat_probe_load(struct plat_tree *tree, const char *cuda, const char *nvml)
{
	struct load l = {.nvml = nvml};
	int cnt = 0;

	if (!probe_load_open(cuda, &l) || l.device_cnt(&cnt))
		return;
	for (int i = 0; i < cnt && i < (int)SPW_PLAT_GPU_MAX; i++)
		load_gpu(tree, &l, i);
}
