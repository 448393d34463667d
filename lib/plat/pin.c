/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Why memory could not be pinned. A driver that registers memory answers ENOMEM, and no more, for
 * causes with different remedies; what the kernel shows of each is compared. Called by lib/rdma
 * when a registration has failed, and for the finding about CMA.
 *
 *   limit    RLIMIT_MEMLOCK < VmPin + what was asked for. Not for CAP_IPC_LOCK of the first user
 *            namespace. Source: Linux drivers/infiniband/core/umem.c, ib_umem_get().
 *   CMA      pages of a contiguous area cannot stay where they are while they are pinned, so they
 *            are moved away first (mm/gup.c, FOLL_LONGTERM). Kernels that keep memory for a kexec
 *            (KHO) were observed to count more free pages in such areas than they have, on DGX
 *            Sparks with 7.0.0-1019-nvidia and 7.0.0-31; the move then fails.
 *   memory   little is left, in the machine or below the control group's limit.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/spw_err.h"
#include "plat/plat_impl.h"

#define CAP_IPC_LOCK 14

bool plat_cma_is_lost(const struct spw_plat *plat)
{
	return plat->cma_free_bytes > plat->cma_total_bytes;
}

/* "64 KiB", "64 KiB, lifted by CAP_IPC_LOCK", "unlimited". Returns: whether there is one. */
static bool pin_limit_text(const struct spw_plat *plat, char *out, size_t bytes)
{
	bool lifted = plat->cap_known && plat->cap >> CAP_IPC_LOCK & 1 && !plat->user_namespace;

	if (plat->memlock_bytes == UINT64_MAX)
		plat_copy(out, bytes, "unlimited");
	else
		snprintf(out, bytes, "%" PRIu64 " KiB%s", plat->memlock_bytes >> 10,
			 lifted ? ", lifted by CAP_IPC_LOCK" : "");
	return plat->memlock_bytes != UINT64_MAX && !lifted;
}

static void pin_judge(const struct spw_plat *plat, uint64_t wanted_bytes, char *out, size_t bytes)
{
	uint64_t left = SPW_MIN(plat->available_bytes, plat->mem_left_bytes);
	char limit[64];
	bool limited = pin_limit_text(plat, limit, sizeof(limit));
	bool beyond = limited && wanted_bytes + plat->pinned_bytes > plat->memlock_bytes;

	if (!beyond && plat_cma_is_lost(plat))
		snprintf(out, bytes,
			 "CmaFree (%" PRIu64 " KiB) is above CmaTotal (%" PRIu64 " KiB), so the "
			 "kernel cannot move pages out of its contiguous areas (known of kexec "
			 "handover, KHO): kho=off on the kernel command line, if "
			 "/sys/kernel/kexec_crash_size is 0, and a reboot; limit of locked "
			 "memory: %s",
			 plat->cma_free_bytes >> 10, plat->cma_total_bytes >> 10, limit);
	else if (limited)
		snprintf(out, bytes,
			 "limit of locked memory: %s, %" PRIu64 " KiB are pinned: ulimit -l "
			 "unlimited, or \"* - memlock unlimited\" in /etc/security/limits.conf and "
			 "a new login, or CAP_IPC_LOCK, or fewer --slots",
			 limit, plat->pinned_bytes >> 10);
	else if (left < wanted_bytes)
		snprintf(out, bytes,
			 "%" PRIu64 " KiB of memory are left (MemAvailable, limit of the control "
			 "group): free memory, or fewer --slots; limit of locked memory: %s",
			 left >> 10, limit);
	else
		snprintf(out, bytes,
			 "neither the limit of locked memory (%s) nor the memory that is left "
			 "(%" PRIu64
			 " KiB) explains it: dmesg shows what the driver lacks; fewer --slots need "
			 "less",
			 limit, left >> 10);
}

void spw_plat_pin_blame(const struct spw_plat *plat, uint64_t wanted_bytes, char *out, size_t bytes)
{
	const struct spw_plat_from from = {.cuda_lib = "", .nvml_lib = "", .skip_hwloc = true};
	struct spw_plat *now = NULL;

	if (!plat && spw_plat_read(&from, &now) < 0)
		plat_copy(out, bytes, spw_err_text());
	else
		pin_judge(plat ? plat : now, wanted_bytes, out, bytes);
	spw_plat_free(now);
}
