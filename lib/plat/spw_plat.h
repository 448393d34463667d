/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What this machine is, read without changing anything: cores and their kinds, NUMA nodes and
 * hugepages, limits, NIC ports and the PCIe functions that share one, GPUs and their abilities. And
 * findings: what will hurt a spinning data plane, by how much, and what to do.
 *
 * Facts, affinity and limits included, come from sysfs and procfs below roots that the caller may
 * replace by recorded trees, and from the CUDA driver library, which is opened at run time. A fact
 * that cannot be read is unknown (-1 or 0, as stated), never an error.
 */
#ifndef SPW_PLAT_H
#define SPW_PLAT_H

#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_PLAT_CORE_MAX    1024u /* cores with higher numbers are ignored */
#define SPW_PLAT_NODE_MAX    64u
#define SPW_PLAT_HUGE_MAX    8u
#define SPW_PLAT_NIC_MAX     32u
#define SPW_PLAT_GPU_MAX     16u
#define SPW_PLAT_FINDING_MAX 64u

/* Where to read. NULL fields: the running machine ("/sys", "/proc", "libcuda.so.1"). */
struct spw_plat_from {
	const char *sys, *proc;
	const char *cuda_lib; /* "": skip GPUs */
};

enum spw_plat_core_kind {
	SPW_PLAT_CORE_ONLY,   /* all cores are alike */
	SPW_PLAT_CORE_BIG,    /* of the fastest kind */
	SPW_PLAT_CORE_LITTLE, /* slower than the fastest */
};

struct spw_plat_core {
	uint32_t cpu; /* its number in affinity masks and EAL */
	enum spw_plat_core_kind kind;
	uint32_t capacity;        /* cpu_capacity, 1024 is the fastest; 0 unknown */
	uint32_t max_khz;         /* cpuinfo_max_freq; 0 unknown */
	uint32_t midr;            /* aarch64 MIDR_EL1; 0 elsewhere */
	char model[24];           /* "Cortex-X925"; "" unknown */
	int32_t node;             /* NUMA node; -1 unknown */
	int32_t package, core_id; /* -1 unknown */
	uint32_t sibling;         /* lowest cpu of its physical core, which may be itself */
	uint32_t l3_bytes;        /* of the L3 it shares; 0 none or unknown */
	int32_t l3_id;            /* lowest cpu that shares this L3; -1 unknown */
	bool allowed;             /* in this process's affinity mask */
	bool isolated;            /* isolcpus */
	char governor[16];        /* cpufreq: "performance"; "" none or unknown */
};

struct spw_plat_huge {
	uint64_t page_bytes;
	uint64_t total_cnt, free_cnt;
};

struct spw_plat_node {
	int32_t node;
	uint64_t mem_bytes, mem_free_bytes; /* 0 unknown */
	struct spw_plat_huge huge[SPW_PLAT_HUGE_MAX];
	uint32_t huge_cnt;
};

/* One Ethernet or RDMA function. */
struct spw_plat_nic {
	char pci[16];              /* "0000:01:00.0"; "" not PCI */
	char netdev[16], rdma[32]; /* "enp1s0f0np0", "mlx5_0"; "" none */
	char driver[24];           /* "mlx5_core"; "" none */
	uint16_t vendor, device;   /* 0 unknown */
	int32_t node;
	char iommu[16]; /* of its IOMMU group: "DMA", "DMA-FQ", "identity"; "" none or unknown */
	char switch_id[40], port_name[16]; /* phys_switch_id, phys_port_name; "" unknown */
	/* RDMA sys_image_guid, the same for all functions of one adapter; "" unknown. */
	char serial_guid[24];
	char mac[18];
	/* Index of the first function of the same physical port; -1: it has the port alone. */
	int32_t half_of;
	uint32_t mtu;                        /* 0 unknown */
	int32_t carrier;                     /* 1 link, 0 none, -1 unknown */
	int64_t speed_mbit;                  /* -1 unknown */
	uint32_t pcie_width, pcie_width_max; /* lanes; 0 unknown */
	uint32_t pcie_mtps, pcie_mtps_max;   /* 32000 is Gen5; 0 unknown */
};

/* The attributes on which the choice of memory and kernels depends. Names and numbers are those of
 * the CUDA driver API. X(name, number) */
#define SPW_PLAT_GPU_ATTR_LIST(X)                            \
	X(MULTIPROCESSOR_COUNT, 16)                          \
	X(KERNEL_EXEC_TIMEOUT, 17)                           \
	X(INTEGRATED, 18)                                    \
	X(CAN_MAP_HOST_MEMORY, 19)                           \
	X(COMPUTE_MODE, 20)                                  \
	X(PCI_BUS_ID, 33)                                    \
	X(PCI_DEVICE_ID, 34)                                 \
	X(PCI_DOMAIN_ID, 50)                                 \
	X(COMPUTE_CAPABILITY_MAJOR, 75)                      \
	X(COMPUTE_CAPABILITY_MINOR, 76)                      \
	X(HOST_NATIVE_ATOMIC_SUPPORTED, 86)                  \
	X(PAGEABLE_MEMORY_ACCESS, 88)                        \
	X(CONCURRENT_MANAGED_ACCESS, 89)                     \
	X(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 91)       \
	X(HOST_REGISTER_SUPPORTED, 99)                       \
	X(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 100) \
	X(GPU_DIRECT_RDMA_SUPPORTED, 116)                    \
	X(GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 117)         \
	X(GPU_DIRECT_RDMA_WRITES_ORDERING, 118)              \
	X(DMA_BUF_SUPPORTED, 124)

enum spw_plat_gpu_attr {
#define X(name, id) SPW_PLAT_GPU_##name,
	SPW_PLAT_GPU_ATTR_LIST(X)
#undef X
		SPW_PLAT_GPU_ATTR_CNT
};

struct spw_plat_gpu {
	uint32_t ordinal;
	char name[96];
	uint64_t mem_bytes;
	char pci[16];
	int32_t node;                        /* of its PCI function; -1 unknown */
	int32_t attr[SPW_PLAT_GPU_ATTR_CNT]; /* -1: unknown to the driver */
};

/* STOP: spinwire cannot run like this. WARN: it runs worse than it could. NOTE: to know. */
enum spw_plat_severity { SPW_PLAT_NOTE, SPW_PLAT_WARN, SPW_PLAT_STOP };

struct spw_plat_finding {
	enum spw_plat_severity severity;
	const char *code; /* stable, for scripts: "nic-halves-differ" */
	char what[192];   /* what was found, with the figures */
	char todo[192];   /* what to do; "": nothing */
};

struct spw_plat {
	char machine[64]; /* DMI or device-tree product; "" unknown */
	char kernel[96];  /* os release; "" unknown */
	char arch[16];
	struct spw_plat_core *core; /* [core_cnt], online ones, by number */
	uint32_t core_cnt;
	uint32_t allowed_cnt; /* of them, in the affinity mask */
	bool autogroup;       /* the scheduler groups tasks by session (sched_autogroup_enabled) */
	struct spw_plat_node node[SPW_PLAT_NODE_MAX];
	uint32_t node_cnt;
	uint64_t page_bytes;    /* base page size of the running kernel */
	uint64_t memlock_bytes; /* RLIMIT_MEMLOCK, soft; UINT64_MAX unlimited */
	struct spw_plat_nic nic[SPW_PLAT_NIC_MAX];
	uint32_t nic_cnt;
	struct spw_plat_gpu gpu[SPW_PLAT_GPU_MAX];
	uint32_t gpu_cnt;
	int32_t cuda_driver; /* 13000 is 13.0; 0: none */
	char cuda_why[160];  /* why there is no GPU; "" if there is one */
	struct spw_plat_finding finding[SPW_PLAT_FINDING_MAX];
	uint32_t finding_cnt;
};

/* Purpose: reads all facts, and derives the findings. Opening the CUDA driver can take a second; no
 *   context is created.
 * Shape: from NULL: the running machine.
 * Owner: the caller, until spw_plat_free.
 * Thread: setup.
 * Errors: -ENOENT the root is not a sysfs tree (the text names it); -ENOMEM.
 */
int spw_plat_read(const struct spw_plat_from *from, struct spw_plat **plat_out);

/* Purpose: frees the facts. NULL is allowed.
 * Thread: setup.
 */
void spw_plat_free(struct spw_plat *plat);

/* Purpose: a core by the number that affinity masks use.
 * Returns: NULL if it is not online.
 * Lifetime: that of plat.
 * Thread: any.
 */
const struct spw_plat_core *spw_plat_core_by_cpu(const struct spw_plat *plat, uint32_t cpu);

/* Purpose: a NUMA node by its number.
 * Returns: NULL if there is none.
 * Lifetime: that of plat.
 * Thread: any.
 */
const struct spw_plat_node *spw_plat_node_by_id(const struct spw_plat *plat, int32_t node);

/* Purpose: the facts of one GPU alone, for lib/mem; its NUMA node is not read. Cheap after the
 *   first call in a process.
 * Thread: setup.
 * Errors: -ENODEV with the reason: no driver library, no such device.
 */
int spw_plat_gpu_read(uint32_t ordinal, struct spw_plat_gpu *gpu_out);

/* Purpose: names as they are printed: "note", "big", "INTEGRATED".
 * Shape: a value of the enum.
 * Returns: static text.
 * Thread: any.
 */
const char *spw_plat_severity_name(enum spw_plat_severity severity);
const char *spw_plat_core_kind_name(enum spw_plat_core_kind kind);
const char *spw_plat_gpu_attr_name(enum spw_plat_gpu_attr attr);

#ifdef __cplusplus
}
#endif
#endif
