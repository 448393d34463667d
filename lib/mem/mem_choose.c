/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Which kind of memory a machine should use, and which it can use at all. Pure: the machine is a
 * struct mem_gpu, so tests try every machine.
 *
 *   AUTO   executor on the CPU, or no GPU       host
 *          integrated GPU                       cuda-host
 *          discrete, can register memory        cuda-reg
 *          discrete, cannot                     cuda-host
 *          shared with other processes          cuda-reg: cudaHostAlloc's is its process's
 *
 * A kind that was asked for is taken or refused, never replaced.
 */
#include <errno.h>
#include <stdio.h>

#include "base/spw_err.h"
#include "mem/mem_impl.h"

/* CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER and CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST of the
 * CUDA driver API, for builds without it. */
#define ORDERED_FOR_OWNER 100
#define FLUSH_BY_HOST     1

#define WHY_BYTES sizeof(((struct spw_region *)0)->why)

void mem_gpu_of(const struct spw_plat_gpu *plat, struct mem_gpu *gpu_out)
{
	const int32_t *attr = plat->attr;
	int32_t flush = attr[SPW_PLAT_GPU_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS];

	*gpu_out = (struct mem_gpu){
		.usable = true,
		.integrated = attr[SPW_PLAT_GPU_INTEGRATED] > 0,
		/* where it is unknown, cudaHostRegister decides */
		.host_register = attr[SPW_PLAT_GPU_HOST_REGISTER_SUPPORTED] != 0,
		.pageable_access = attr[SPW_PLAT_GPU_PAGEABLE_MEMORY_ACCESS] > 0,
		.dma_buf = attr[SPW_PLAT_GPU_DMA_BUF_SUPPORTED] > 0,
		.shareable = attr[SPW_PLAT_GPU_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] > 0 &&
			     attr[SPW_PLAT_GPU_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED] > 0,
		.ordered = attr[SPW_PLAT_GPU_GPU_DIRECT_RDMA_WRITES_ORDERING] >= ORDERED_FOR_OWNER,
		.can_flush = flush > 0 && flush & FLUSH_BY_HOST,
	};
	snprintf(gpu_out->name, sizeof(gpu_out->name), "%.63s", plat->name);
}

/* Discrete GPUs get cuda-reg where they can: its hugepages serve NIC and GPU alike, while
 * cudaHostAlloc returns small pages. */
static enum spw_mem_kind mem_choose_auto(const struct spw_mem_req *req, const struct mem_gpu *gpu,
					 char *why)
{
	if (!req->executor_is_gpu) {
		snprintf(why, WHY_BYTES, "the executor runs on the CPU");
		return SPW_MEM_HOST;
	}
	if (!gpu->usable) {
		snprintf(why, WHY_BYTES, "there is no GPU (%.120s)", gpu->why_not);
		return SPW_MEM_HOST;
	}
	if (req->shared) {
		snprintf(why, WHY_BYTES, "other processes map it, and %s is to reach it",
			 gpu->name);
		return SPW_MEM_CUDA_REG;
	}
	if (gpu->integrated) {
		snprintf(why, WHY_BYTES,
			 "%s is integrated: it reads pinned host memory at full speed", gpu->name);
		return SPW_MEM_CUDA_HOST;
	}
	if (!gpu->host_register) {
		snprintf(why, WHY_BYTES,
			 "%s cannot register existing memory (HOST_REGISTER_SUPPORTED 0)",
			 gpu->name);
		return SPW_MEM_CUDA_HOST;
	}
	snprintf(why, WHY_BYTES, "%s is discrete: registered hugepages serve it and the NIC alike",
		 gpu->name);
	return SPW_MEM_CUDA_REG;
}

static const char *mem_gpu_instead(const struct mem_gpu *gpu)
{
	return gpu->integrated || !gpu->host_register ? "cuda-host" : "cuda-reg";
}

/* The NIC must be able to write it in order, or the executor flushes before each batch
 * (spw_region.flush). */
static int mem_check_gpu_nic(const struct mem_gpu *gpu)
{
	if (!gpu->dma_buf)
		return spw_err(ENOTSUP,
			       "memory kind gpu: %s has DMA_BUF_SUPPORTED 0, so no NIC reaches its "
			       "memory: use %s",
			       gpu->name, mem_gpu_instead(gpu));
	if (!gpu->ordered && !gpu->can_flush)
		return spw_err(ENOTSUP,
			       "memory kind gpu: %s has GPU_DIRECT_RDMA_WRITES_ORDERING 0 and no "
			       "flush by the host (FLUSH_WRITES_OPTIONS), so a kernel may read a "
			       "frame before its last bytes are there: use cuda-reg",
			       gpu->name);
	return 0;
}

/* No NIC comes near it. An integrated GPU is refused though its driver may do it: its memory is the
 * CPU's, which then would be shut out for nothing. */
static int mem_check_gpu_shared(const struct mem_gpu *gpu)
{
	if (gpu->integrated)
		return spw_err(ENOTSUP,
			       "memory kind gpu: %s is integrated, its memory is that of the CPU: "
			       "use auto",
			       gpu->name);
	if (!gpu->shareable)
		return spw_err(
			ENOTSUP,
			"memory kind gpu: %s does not share its memory with other processes "
			"(VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED and "
			"HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED are not both 1): use auto",
			gpu->name);
	return 0;
}

/* The GPU's own memory, which the CPU cannot reach. */
static int mem_check_gpu(const struct spw_mem_req *req, const struct mem_gpu *gpu)
{
	if (!req->executor_is_gpu)
		return spw_err(ENOTSUP, "memory kind gpu: the executor runs on the CPU, which "
					"cannot reach it: use host");
	return req->shared ? mem_check_gpu_shared(gpu) : mem_check_gpu_nic(gpu);
}

/* The reason names what to take instead. */
static int mem_check_cuda(const struct spw_mem_req *req, const struct mem_gpu *gpu)
{
	const enum spw_mem_kind kind = req->kind;
	const char *name = spw_mem_kind_name(kind);

	if (!gpu->usable)
		return spw_err(ENOTSUP, "memory kind %s needs a CUDA GPU (%s): use host", name,
			       gpu->why_not);
	if (kind == SPW_MEM_CUDA_REG && !gpu->host_register)
		return spw_err(ENOTSUP,
			       "memory kind %s: %s has HOST_REGISTER_SUPPORTED 0: use cuda-host",
			       name, gpu->name);
	return kind == SPW_MEM_GPU ? mem_check_gpu(req, gpu) : 0;
}

/* A kernel reads pageable memory only on machines where GPU and CPU share page tables (Grace). */
static int mem_check_host(const struct spw_mem_req *req, const struct mem_gpu *gpu)
{
	if (!req->executor_is_gpu || !gpu->usable || gpu->pageable_access)
		return 0;
	return spw_err(ENOTSUP,
		       "memory kind host: %s cannot read pageable memory (PAGEABLE_MEMORY_ACCESS "
		       "0): use %s",
		       gpu->name,
		       gpu->host_register && !gpu->integrated ? "cuda-reg" : "cuda-host");
}

/* What another process maps is a memfd, which CUDA registers, or a GPU's own memory, which has
 * checks of its own; what cudaHostAlloc returns is neither. */
static int mem_check_shared(enum spw_mem_kind kind, const struct mem_gpu *gpu)
{
	if (kind == SPW_MEM_HOST || kind == SPW_MEM_GPU ||
	    (kind == SPW_MEM_CUDA_REG && gpu->host_register))
		return 0;
	return spw_err(ENOTSUP, "memory kind %s cannot be shared with other processes%s: use %s",
		       spw_mem_kind_name(kind),
		       kind == SPW_MEM_CUDA_REG ? " (HOST_REGISTER_SUPPORTED 0)" : "",
		       gpu->host_register ? "cuda-reg" : "a CPU executor");
}

/* Called before anything is allocated, so a kind that is refused has cost nothing. */
int mem_choose(const struct spw_mem_req *req, const struct mem_gpu *gpu, struct spw_region *region)
{
	int rc;

	if ((unsigned)req->kind > SPW_MEM_GPU)
		return spw_err(EINVAL, "memory kind %d is not known", (int)req->kind);
	if (req->kind == SPW_MEM_AUTO) {
		region->kind = mem_choose_auto(req, gpu, region->why);
		return req->shared ? mem_check_shared(region->kind, gpu) : 0;
	}
	region->kind = req->kind;
	if (req->shared && (rc = mem_check_shared(req->kind, gpu)))
		return rc;
	region->flush = req->kind == SPW_MEM_GPU && !req->shared && !gpu->ordered && gpu->can_flush;
	snprintf(region->why, WHY_BYTES, "it was asked for%s",
		 region->flush ? ", and each batch is flushed" : "");
	return req->kind == SPW_MEM_HOST ? mem_check_host(req, gpu) : mem_check_cuda(req, gpu);
}
