/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Findings: what the facts mean for a data plane that spins, and what to do about it. Each has a
 * stable code; docs and scripts refer to it. Texts end without a full stop.
 *
 * One function per subject. STOP: spinwire cannot run like this; WARN: it costs performance; NOTE:
 * good to know. `what` states the figures, `todo` the command.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "plat/plat_impl.h"

#define MEMLOCK_WANTED     (64ull << 20)
#define COMPUTE_PROHIBITED 2

/* Adds a finding; advise() adds what to do. When the table is full, the finding is dropped. */
SPW_PRINTF(4, 5)
static struct spw_plat_finding *find(struct spw_plat *plat, enum spw_plat_severity severity,
				     const char *code, const char *fmt, ...)
{
	static struct spw_plat_finding spill;
	struct spw_plat_finding *f = &spill;
	va_list ap;

	if (plat->finding_cnt < SPW_PLAT_FINDING_MAX)
		f = &plat->finding[plat->finding_cnt++];
	f->severity = severity;
	f->code = code;
	f->todo[0] = '\0';
	va_start(ap, fmt);
	vsnprintf(f->what, sizeof(f->what), fmt, ap);
	va_end(ap);
	return f;
}

SPW_PRINTF(2, 3)
static void advise(struct spw_plat_finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->todo, sizeof(f->todo), fmt, ap);
	va_end(ap);
}

/* The numbers of the cores of one kind, as a list. */
static void kind_list(const struct spw_plat *plat, enum spw_plat_core_kind kind, char *out,
		      size_t bytes)
{
	bool set[SPW_PLAT_CORE_MAX] = {false};

	for (uint32_t i = 0; i < plat->core_cnt; i++)
		set[plat->core[i].cpu] = plat->core[i].kind == kind;
	plat_list_text(set, SPW_PLAT_CORE_MAX, out, bytes);
}

/* What the set of cores allows: enough of them, and which are fast. */
static void cores_judge(struct spw_plat *plat)
{
	char big[96], little[96];

	if (plat->allowed_cnt < 2)
		advise(find(plat, SPW_PLAT_WARN, "cores-few", "%u core may be used by this process",
			    plat->allowed_cnt),
		       "give it more (taskset, cpuset): with one core everything runs inline and "
		       "shares it");
	kind_list(plat, SPW_PLAT_CORE_BIG, big, sizeof(big));
	kind_list(plat, SPW_PLAT_CORE_LITTLE, little, sizeof(little));
	if (little[0])
		advise(find(plat, SPW_PLAT_NOTE, "cores-mixed", "fast cores %s, slower cores %s",
			    big, little),
		       "run lcores on the fast ones and the control thread on a slower one");
}

/* What slows a spinning core down, or preempts its thread. */
static void cores_quiet(struct spw_plat *plat)
{
	bool saving[SPW_PLAT_CORE_MAX] = {false}, shared[SPW_PLAT_CORE_MAX] = {false};
	const char *governor = "";
	char text[96];

	for (uint32_t i = 0; i < plat->core_cnt; i++) {
		const struct spw_plat_core *core = &plat->core[i];

		shared[core->cpu] = core->allowed && !core->isolated;
		saving[core->cpu] = core->allowed && core->governor[0] &&
				    strcmp(core->governor, "performance");
		if (saving[core->cpu])
			governor = core->governor;
	}
	plat_list_text(saving, SPW_PLAT_CORE_MAX, text, sizeof(text));
	if (text[0])
		advise(find(plat, SPW_PLAT_WARN, "cores-governor",
			    "cores %s run under the frequency governor %s", text, governor),
		       "cpupower frequency-set -g performance: a core that changes its frequency "
		       "adds to the "
		       "tail");
	plat_list_text(shared, SPW_PLAT_CORE_MAX, text, sizeof(text));
	if (!text[0])
		return;
	advise(find(plat, SPW_PLAT_NOTE, "cores-shared", "cores %s are shared with everything else",
		    text),
	       "isolcpus=, nohz_full= and rcu_nocbs= for the lcores keep other threads and most "
	       "timer "
	       "interrupts away");
	if (plat->autogroup)
		advise(find(plat, SPW_PLAT_NOTE, "cores-autogroup",
			    "the scheduler groups tasks by session, and on a core that an "
			    "lcore shares, one session can keep another's threads waiting for "
			    "seconds (observed on Linux 6.18)"),
		       "sysctl kernel.sched_autogroup_enabled=0, or no other session on the "
		       "lcores' cores");
}

/* Hugepages and the limit of locked memory: the two that every RDMA set-up needs. */
static void memory_judge(struct spw_plat *plat)
{
	uint64_t free_bytes = 0;

	for (uint32_t n = 0; n < plat->node_cnt; n++)
		for (uint32_t h = 0; h < plat->node[n].huge_cnt; h++)
			free_bytes +=
				plat->node[n].huge[h].free_cnt * plat->node[n].huge[h].page_bytes;
	if (free_bytes == 0)
		advise(find(plat, SPW_PLAT_WARN, "hugepages-none", "no free hugepages"),
		       "echo 512 > /proc/sys/vm/nr_hugepages; plain pages cost TLB misses");
	if (plat->memlock_bytes < MEMLOCK_WANTED)
		advise(find(plat, SPW_PLAT_WARN, "memlock-low",
			    "%" PRIu64 " KiB may be locked by this process",
			    plat->memlock_bytes >> 10),
		       "ulimit -l unlimited (LimitMEMLOCK=infinity): memory registration needs it");
}

/* A link that trained narrower than it could is the most common reason for half the rate. */
static void nic_judge(struct spw_plat *plat, const struct spw_plat_nic *nic)
{
	const char *name = nic->netdev[0] ? nic->netdev : nic->pci;
	const struct spw_plat_nic *twin = nic->half_of >= 0 ? &plat->nic[nic->half_of] : NULL;

	if (nic->pcie_width < nic->pcie_width_max || nic->pcie_mtps < nic->pcie_mtps_max)
		advise(find(plat, SPW_PLAT_WARN, "nic-pcie-narrow",
			    "%s: PCIe runs at x%u %u.%u GT/s and could at x%u %u.%u", name,
			    nic->pcie_width, nic->pcie_mtps / 1000, nic->pcie_mtps / 100 % 10,
			    nic->pcie_width_max, nic->pcie_mtps_max / 1000,
			    nic->pcie_mtps_max / 100 % 10),
		       "power the machine off and on; reseat the card; look for a firmware update");
	if (strncmp(nic->iommu, "DMA", 3) == 0)
		advise(find(plat, SPW_PLAT_NOTE, "nic-iommu",
			    "%s: its DMA is translated by the IOMMU (%s)", name, nic->iommu),
		       "iommu.passthrough=1 (x86: iommu=pt) saves a table walk on each miss");
	if (nic->carrier == 0)
		find(plat, SPW_PLAT_NOTE, "nic-no-link", "%s has no link", name);
	if (!twin)
		return;
	advise(find(plat, SPW_PLAT_NOTE, "nic-halves",
		    "%s and %s are two PCIe halves of one physical port", twin->netdev,
		    nic->netdev),
	       "give both to spinwire: one half carries at most half of the port's rate");
	if (twin->mtu != nic->mtu || twin->carrier != nic->carrier)
		advise(find(plat, SPW_PLAT_WARN, "nic-halves-differ",
			    "%s: MTU %u, link %d; %s: MTU %u, link %d", twin->netdev, twin->mtu,
			    twin->carrier, nic->netdev, nic->mtu, nic->carrier),
		       "set both halves alike");
}

/* Facts that decide which memory kind and which executor can work. */
static void gpu_judge(struct spw_plat *plat, const struct spw_plat_gpu *gpu)
{
	if (gpu->attr[SPW_PLAT_GPU_INTEGRATED] == 1 &&
	    gpu->attr[SPW_PLAT_GPU_GPU_DIRECT_RDMA_SUPPORTED] != 1)
		advise(find(plat, SPW_PLAT_NOTE, "gpu-integrated",
			    "%s shares the host's memory and has no GPUDirect RDMA", gpu->name),
		       "memory kind cuda-host: frames are received where the GPU reads them");
	if (gpu->attr[SPW_PLAT_GPU_KERNEL_EXEC_TIMEOUT] == 1)
		advise(find(plat, SPW_PLAT_WARN, "gpu-time-limit",
			    "%s has a time limit for kernels (a display is attached)", gpu->name),
		       "use a GPU without a display: else the resident kernel must be relaunched "
		       "before "
		       "each time limit");
	if (gpu->attr[SPW_PLAT_GPU_COMPUTE_MODE] == COMPUTE_PROHIBITED)
		advise(find(plat, SPW_PLAT_STOP, "gpu-prohibited", "%s refuses compute contexts",
			    gpu->name),
		       "nvidia-smi -c DEFAULT");
	for (uint32_t i = 0; i < plat->nic_cnt && gpu->node >= 0; i++)
		if (plat->nic[i].rdma[0] && plat->nic[i].node >= 0 &&
		    plat->nic[i].node != gpu->node)
			advise(find(plat, SPW_PLAT_NOTE, "gpu-far",
				    "%s is on node %d, %s on node %d", gpu->name, gpu->node,
				    plat->nic[i].rdma, plat->nic[i].node),
			       "choose a NIC and a GPU of one node, if the machine has them");
}

void plat_findings_make(struct spw_plat *plat)
{
	cores_judge(plat);
	cores_quiet(plat);
	memory_judge(plat);
	for (uint32_t i = 0; i < plat->nic_cnt; i++)
		nic_judge(plat, &plat->nic[i]);
	if (plat->gpu_cnt == 0)
		find(plat, SPW_PLAT_NOTE, "gpu-none", "no GPU: %.150s", plat->cuda_why);
	for (uint32_t i = 0; i < plat->gpu_cnt; i++)
		gpu_judge(plat, &plat->gpu[i]);
}
