/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * What this machine is, read without changing anything: cores and their kinds, NUMA nodes and
 * hugepages, limits, NIC ports and the PCIe functions that share one, GPUs and their abilities. And
 * findings: what will hurt a spinning data plane, by how much, and what to do.
 *
 * Facts come from sysfs, procfs, ethtool's ioctl, hwloc for what sysfs does not say and, opened at
 * run time, the CUDA driver library and NVML. All that was read can be saved as one JSON document
 * (spw_plat_record) and read again on another machine (lib/plat/tree.h has its format). Each fact
 * names its source. One that cannot be read is unknown (-1 or 0, as stated) with the reason, never
 * an error and never a guess.
 */
#ifndef SPW_PLAT_H
#define SPW_PLAT_H

#include "base/spw_enum.h"
#include "base/spw_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPW_PLAT_CORE_MAX    8192u /* the most that Linux can be built for (NR_CPUS) */
#define SPW_PLAT_NODE_MAX    64u
#define SPW_PLAT_HUGE_MAX    8u
#define SPW_PLAT_NIC_MAX     32u
#define SPW_PLAT_RDMA_MAX    8u
#define SPW_PLAT_GPU_MAX     16u
#define SPW_PLAT_FINDING_MAX 64u
#define SPW_PLAT_COUNT_MAX   40u
#define SPW_PLAT_NAME_MAX    48u
#define SPW_PLAT_PAIR_MAX    40u
#define SPW_PLAT_NCCL_MAX    16u
#define SPW_PLAT_GPU_PID_MAX 32u /* processes on a GPU */

struct json_t; /* jansson's json_t */

/* Where to read. */
struct spw_plat_from {
	/* A recorded machine (spw_plat_record); NULL: the running one. They are taken one after the
	 * other, so that a later one changes what an earlier one says. */
	const struct json_t *record[4];
	const char *name[4]; /* for error texts */
	/* NULL: of the running machine "libcuda.so.1" and "libnvidia-ml.so.1", of a recorded one
	 * what it recorded; "": skip */
	const char *cuda_lib, *nvml_lib;
	/* hwloc is not asked, which takes longer than all the rest: of cores, caches and places of
	 * PCI functions only what sysfs says is known. spw_plat_pick wants more than that. */
	bool skip_hwloc;
	/* Processes of the running machine that have loaded NCCL are looked at as well: those of
	 * this user, or as root all. */
	bool nccl;
	/* Counters are read, and again this long after the first time; 0: not at all, since only
	 * how they move says something. Of a recorded machine: as they were recorded. */
	uint32_t sample_ms;
};

/* One fact as text: what was read, from where, or why not. */
struct spw_plat_fact {
	char of[SPW_PLAT_NAME_MAX]; /* "core 3", "nic enp1s0f0np0", "host" */
	char name[SPW_PLAT_NAME_MAX];
	char value[160];
	char source[192]; /* a path; of what is not a file, the call that answers */
	char why[64];     /* "": value is known */
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
	int32_t l3_id;            /* lowest cpu that shares this L3, by hwloc where sysfs has none;
				     -1 unknown */
	bool allowed;             /* this process may use it (cores.c) */
	bool isolated;            /* isolcpus */
	bool tickless;            /* nohz_full */
	bool rcu_free;            /* rcu_nocbs of the kernel command line */
	int32_t idle_us;          /* exit latency of its deepest enabled idle state; -1 unknown */
	char governor[16];        /* cpufreq: "performance"; "" none or unknown */
};

struct spw_plat_huge {
	uint64_t page_bytes;
	uint64_t total_cnt, free_cnt;
};

struct spw_plat_node {
	int32_t node;
	uint64_t mem_bytes, mem_free_bytes; /* 0 unknown */
	uint64_t mem_cache_bytes;           /* of its memory-side cache; 0 none or unknown */
	struct spw_plat_huge huge[SPW_PLAT_HUGE_MAX];
	uint32_t huge_cnt;
};

/* A counter of a port. Only how it moves is judged: many count since the machine was started. */
struct spw_plat_count {
	char name[40];
	uint64_t first, later; /* later is first where there is no second reading */
};

/* One Ethernet or RDMA function. */
struct spw_plat_nic {
	char pci[16];              /* "0000:01:00.0"; "" not PCI */
	char netdev[16], rdma[32]; /* "enp1s0f0np0", "mlx5_0"; "" none */
	char driver[24];           /* "mlx5_core"; "" none */
	uint16_t vendor, device;   /* 0 unknown */
	int32_t node;              /* by hwloc where sysfs has -1; -1 unknown */
	char near_cpus[96];        /* list of the cores next to it, by hwloc; "" unknown */
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
	int64_t speed_max_mbit;              /* the fastest mode that it supports; -1 unknown */
	uint32_t pcie_width, pcie_width_max; /* lanes; 0 unknown */
	uint32_t pcie_mtps, pcie_mtps_max;   /* 32000 is Gen5; 0 unknown */
	int32_t relaxed_ordering;            /* enabled in the PCIe function: 1, 0; -1 unknown */
	int64_t aer_correctable, aer_nonfatal, aer_fatal; /* errors so far; -1 unknown */
	bool is_vf;
	bool is_software;   /* the software ConnectX: no link or PCIe promises anything */
	char firmware[32];  /* "28.45.1020"; "" unknown */
	char irq_cpus[128]; /* list of the cores that serve its interrupts; "" unknown */
	int32_t pfc;        /* priorities with flow control, a bit each; -1 unknown */
	char ipv4[64];      /* addresses with their prefix, "10.0.0.1/24 ..."; "" none or unknown */
	bool ipv4_known;
	bool default_route;
	char bond[16]; /* the bond, or another interface, that it belongs to; "" none */
	/* Of the RDMA port; a function without one leaves them unknown. */
	int32_t port_active;                       /* 1 ACTIVE, 0 any other state, -1 unknown */
	bool link_is_ethernet, link_is_infiniband; /* neither: unknown */
	uint32_t path_mtu;   /* largest RDMA packet that the MTU allows; 0 unknown */
	int32_t gid_v2_ipv4; /* index of the first RoCE v2 GID over IPv4; -1 none */
	bool gids_known;
	char gid_ipv4[16];        /* its address */
	uint32_t gid_v2_ipv4_cnt; /* how many there are */
	int32_t gid_routable;     /* index of the first that is not link-local; -1 none */
	bool gid_v2_ipv6;         /* there is one over IPv6 that is not link-local */
	char uverbs[16];          /* "uverbs0"; "" none */
	int32_t uverbs_error;     /* 0: may be opened; an errno; -1 unknown */
	struct spw_plat_count count[SPW_PLAT_COUNT_MAX];
	uint32_t count_cnt;
};

/* An RDMA device that is no NIC: software of the kernel (rxe, siw), or of a bus other than PCI. */
struct spw_plat_rdma {
	char rdma[32];   /* "rxe0" */
	char desc[64];   /* its node_desc: "rxe", "Software iWARP stack"; "" unknown */
	char netdev[16]; /* that carries its frames; "" unknown */
	bool software;
};

/* A PCIe network function of NVIDIA (Mellanox), with or without a driver. */
struct spw_plat_pci {
	char pci[16];
	uint16_t device;
	char driver[24]; /* "" none */
};

/* The attributes on which the choice of memory and kernels depends. Names and numbers are those of
 * the CUDA driver API. name, number */
#define SPW_PLAT_GPU_ATTR_LIST(X, P)                            \
	X(P, MULTIPROCESSOR_COUNT, 16)                          \
	X(P, KERNEL_EXEC_TIMEOUT, 17)                           \
	X(P, INTEGRATED, 18)                                    \
	X(P, CAN_MAP_HOST_MEMORY, 19)                           \
	X(P, COMPUTE_MODE, 20)                                  \
	X(P, PCI_BUS_ID, 33)                                    \
	X(P, PCI_DEVICE_ID, 34)                                 \
	X(P, PCI_DOMAIN_ID, 50)                                 \
	X(P, COMPUTE_CAPABILITY_MAJOR, 75)                      \
	X(P, COMPUTE_CAPABILITY_MINOR, 76)                      \
	X(P, HOST_NATIVE_ATOMIC_SUPPORTED, 86)                  \
	X(P, PAGEABLE_MEMORY_ACCESS, 88)                        \
	X(P, CONCURRENT_MANAGED_ACCESS, 89)                     \
	X(P, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 91)       \
	X(P, HOST_REGISTER_SUPPORTED, 99)                       \
	X(P, PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 100) \
	X(P, VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 102)          \
	X(P, HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 103)  \
	X(P, GPU_DIRECT_RDMA_SUPPORTED, 116)                    \
	X(P, GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 117)         \
	X(P, GPU_DIRECT_RDMA_WRITES_ORDERING, 118)              \
	X(P, DMA_BUF_SUPPORTED, 124)

/* 10 * major + minor of the oldest GPU that the device code runs on (exec/spwd_order.cuh). */
#define SPW_PLAT_GPU_CAPABILITY_MIN 75

enum spw_plat_gpu_attr {
	SPW_PLAT_GPU_ATTR_LIST(SPW_ENUM_VALUE, SPW_PLAT_GPU_) SPW_PLAT_GPU_ATTR_CNT
};

/* A GPU while it copies; -1 unknown. MB/s. */
struct spw_plat_gpu_load {
	int64_t memory_mbs;   /* within its memory, read and written bytes */
	int64_t promised_mbs; /* memory clock by bus width */
	int64_t host_mbs;     /* from pinned host memory */
	int64_t clock_mhz, throttle;
};

struct spw_plat_gpu {
	uint32_t ordinal;
	char name[96];
	uint64_t mem_bytes;
	char pci[16];
	int32_t node;                        /* of its PCI function; -1 unknown */
	int32_t attr[SPW_PLAT_GPU_ATTR_CNT]; /* -1: unknown to the driver */
	/* By NVML; -1: unknown, or it answers "Not Supported" (GB10 has no memory clock). */
	int32_t clock_sm_mhz, clock_sm_max_mhz;
	int32_t power_mw; /* drawn by the board; NVML's mean of the last second on most */
	int64_t throttle; /* bits of nvmlClocksThrottleReasons */
	int32_t pcie_width, pcie_width_max;
	struct spw_plat_gpu_load load;
};

/* A pair of RDMA ports, and what was measured between them. */
struct spw_plat_pair {
	/* Devices: "rocep1s0f0"; of another machine "HOST/rocep1s0f0"; several at once are joined
	 * by
	 * "+". No white space. */
	char from[80], to[80];
	bool cable;           /* a cable should lie between them; else they are one function */
	int64_t mbps;         /* payload carried; -1: no write was acknowledged */
	int64_t nominal_mbps; /* what ports and PCIe links promise; -1 unknown */
	int64_t packets;      /* sent; an estimate from bytes and path MTU */
	int64_t wire;         /* counted by the sender's physical port meanwhile; -1 unknown */
};

/* Whether the packets of a pair crossed a cable, by the counters of the physical port. */
enum spw_plat_wire { SPW_PLAT_WIRE_UNVERIFIED, SPW_PLAT_WIRE_CABLE, SPW_PLAT_WIRE_INSIDE };

/* A process that has loaded NCCL. NULL: unknown, or none. */
struct spw_plat_nccl {
	char id[16];         /* "4711"; "self": a program that is started as this one was */
	int64_t parent;      /* process id; 0 unknown */
	int64_t library_cnt; /* different files of NCCL that it has mapped; 0 unknown */
	int64_t gcc;         /* major number of the oldest GCC that compiled the first; 0 unknown */
	const char *path;    /* of the first */
	const char *version; /* "2.28.9" */
	const char *build_id; /* hexadecimal */
	const char *env;      /* "NCCL_DEBUG=INFO", one a line */
	const char *conf;     /* the files of settings that it reads, one a line */
	const char *set;      /* what they set, as env; of two lines for one name the first holds */
};

/* ERROR: RDMA or spinwire cannot run like this. WARN: it runs worse than it could. NOTE: a setting
 * that a measurement may or may not prove to matter. */
enum spw_plat_severity { SPW_PLAT_NOTE, SPW_PLAT_WARN, SPW_PLAT_ERROR };

struct spw_plat_finding {
	enum spw_plat_severity severity;
	const char *code; /* stable, for scripts: "nic-halves-differ" */
	char what[256];   /* what was found, with the figures */
	char todo[320];   /* the command that changes it, and what to know; "": nothing */
};

struct spw_plat {
	char machine[64]; /* DMI or device-tree product; "" unknown */
	char kernel[96];  /* os release; "" unknown */
	char arch[16];
	struct spw_plat_core *core; /* [core_cnt], online ones, by number */
	uint32_t core_cnt;
	uint32_t allowed_cnt; /* of them, those that this process may use */
	/* CPU time that the tightest control group may take in each period (CFS quota); 0: no
	 * limit. How many periods there were, in how many it was stopped, and the file that says
	 * so. */
	uint32_t quota_us, period_us;
	uint64_t quota_period_cnt, quota_throttled_cnt;
	char quota_stat[224];
	uint64_t mem_limit_bytes; /* of the tightest control group; UINT64_MAX none */
	uint64_t mem_left_bytes;  /* below the limits of all groups; UINT64_MAX no limit */
	bool autogroup; /* the scheduler groups tasks by session (sched_autogroup_enabled) */
	struct spw_plat_node node[SPW_PLAT_NODE_MAX];
	uint32_t node_cnt;
	uint64_t page_bytes;                      /* base page size of the running kernel */
	uint64_t memlock_bytes;                   /* RLIMIT_MEMLOCK, soft; UINT64_MAX unlimited */
	uint64_t pinned_bytes;                    /* of this process, by drivers (VmPin) */
	uint64_t available_bytes;                 /* MemAvailable; UINT64_MAX unknown */
	uint64_t cma_total_bytes, cma_free_bytes; /* of areas that must be contiguous; 0: none */
	struct spw_plat_nic nic[SPW_PLAT_NIC_MAX];
	uint32_t nic_cnt;
	struct spw_plat_rdma rdma[SPW_PLAT_RDMA_MAX]; /* those that are not in nic */
	uint32_t rdma_cnt;
	struct spw_plat_gpu gpu[SPW_PLAT_GPU_MAX];
	uint32_t gpu_cnt;
	int32_t cuda_driver; /* 13000 is 13.0; 0: none */
	char cuda_why[160];  /* why there is no GPU; "" if there is one */
	int32_t cuda_built;  /* whether the CUDA module was there; -1 unknown */
	struct spw_plat_pci pci[SPW_PLAT_NIC_MAX]; /* network functions of vendor 15b3 */
	uint32_t pci_cnt;
	bool mlx5_core, mlx5_ib;      /* the modules are there */
	bool peermem, peermem_wanted; /* nvidia_peermem is loaded; modules-load.d names it */
	char container[24];           /* "docker", "podman"...; "" none was recognised */
	uint64_t cap;                 /* effective capabilities, by bit */
	bool cap_known;
	bool user_namespace; /* not the first one, where alone drivers honour capabilities */
	uint32_t uid;
	int32_t nccl_gid, ucx_gid; /* NCCL_IB_GID_INDEX, UCX_IB_GID_INDEX; -1 not set */
	char set_name[256];        /* names that netplan files set, separated by spaces */
	char boot_mtu[256];        /* "9000 1500", of all files that are read at boot */
	bool boot_known;           /* all of them could be read */
	bool boot_pfc;             /* one of them names flow control of priorities */
	struct spw_plat_nccl nccl[SPW_PLAT_NCCL_MAX]; /* by process id; texts are the tree's */
	uint32_t nccl_cnt;
	uint32_t sample_ms; /* between the two readings of counters; 0: one only */
	struct spw_plat_pair pair[SPW_PLAT_PAIR_MAX]; /* what was measured */
	uint32_t pair_cnt;
	struct spw_plat_finding finding[SPW_PLAT_FINDING_MAX];
	uint32_t finding_cnt;
	struct spw_plat_fact *fact; /* [fact_cnt], in the order in which they were read */
	uint32_t fact_cnt, fact_room;
	struct plat_tree *tree; /* all that was read */
};

/* Purpose: reads all facts, and derives the findings. Opening the CUDA driver can take a second; no
 *   context is created.
 * Shape: from NULL: the running machine, without counters.
 * Owner: the caller, until spw_plat_free. The documents of from are not needed afterwards.
 * Thread: setup.
 * Errors: -ENOENT no core is known, so it is no machine; -EINVAL, -E2BIG a document is no recorded
 *   machine (with name and path); -ENOMEM.
 */
int spw_plat_read(const struct spw_plat_from *from, struct spw_plat **plat_out);

/* Returns: Mbit/s of payload that a PCIe link carries: bits after line coding, less the heads of
 * packets of 256 bytes. Shape: mtps in megatransfers a second, 32000 is Gen5. Thread: any. */
uint32_t spw_plat_pcie_mbps(uint32_t lanes, uint32_t mtps);
/* Returns: whether two functions, "0000:01:00.0", are of one PCIe link. Thread: any. */
bool spw_plat_same_pcie(const char *a, const char *b);

/* A function that carries something. */
struct spw_plat_carry {
	const char *rdma; /* name of its RDMA device */
	uint32_t mbps;    /* of its port */
};

/* Returns: Mbit/s that they carry together. Ports and PCIe links that several share count once; a
 *   function that the machine does not list has its port alone.
 * Shape: cnt 0 .. 16. Thread: any. */
uint32_t spw_plat_carry_mbps(const struct spw_plat *plat, const struct spw_plat_carry *rail,
			     uint32_t cnt);

/* Purpose: all that was read, as the document that struct spw_plat_from takes.
 * Owner: the reference passes to the caller, who does not change the document.
 * Thread: setup.
 */
struct json_t *spw_plat_record(const struct spw_plat *plat);

/* What an lcore wants, for spw_plat_pick. */
struct spw_plat_pick {
	uint32_t cnt; /* cores to pick, the main lcore among them */
	const char
		*nic; /* "mlx5_0", "enp1s0f0np0" or a PCI address: cores near it first; NULL: any */
};

/* Purpose: chooses cores for a main lcore and workers. Workers get fast, isolated cores, near the
 *   NIC and sharing one L3, each on a physical core of its own as far as there are enough; the main
 *   lcore, which only controls, gets a core that no worker needs.
 * Shape: cpu_out[pick->cnt], the main lcore first, then the workers, best first.
 * Thread: setup.
 * Errors: -ENOENT this process may use fewer cores; the text names both numbers.
 */
int spw_plat_pick(const struct spw_plat *plat, const struct spw_plat_pick *pick, uint32_t *cpu_out);

/* Purpose: how many cores this process may use all the time: those that it may use, cut to what the
 *   CPU quota of its control group is worth, at least 1.
 * Thread: any.
 */
uint32_t spw_plat_core_cnt(const struct spw_plat *plat);

/* Purpose: how much memory the control groups of this process leave it, now; beyond that it is
 *   killed. limit_out: the tightest limit.
 * Returns: bytes; UINT64_MAX if there is no limit.
 * Thread: any; some files are read.
 */
uint64_t spw_plat_memory_left(uint64_t *limit_out);

/* How often a CPU quota stopped this process's control group, since the group was made. */
struct spw_plat_quota {
	uint64_t periods, throttled; /* all; those in which it was stopped */
	uint64_t stopped_ns;         /* in all, summed over cores */
};

/* Purpose: reads the file that spw_plat.quota_stat names. "": there is no quota.
 * Returns: false, and zeros, if there is none or it cannot be read.
 * Thread: any.
 */
bool spw_plat_quota_read(const char *stat, struct spw_plat_quota *quota_out);

/* Purpose: why wanted_bytes of memory could not be pinned for a device (a registration failed with
 *   ENOMEM), by what the kernel shows: the limit of locked memory, contiguous areas that the kernel
 *   lost count of, memory that is left. A clause with the figures and the remedy.
 * Shape: plat as it is after the failure, NULL: this machine now; out of SPW_PLAT_PIN_BYTES holds
 *   every answer.
 * Thread: any; it may take milliseconds.
 */
#define SPW_PLAT_PIN_BYTES 512u
void spw_plat_pin_blame(const struct spw_plat *plat, uint64_t wanted_bytes, char *out,
			size_t bytes);

/* Purpose: why a core is not good for an lcore: "it is of the slower kind", "it is not isolated".
 * Returns: false, and out is "", if it is good.
 * Thread: any.
 */
bool spw_plat_core_blame(const struct spw_plat *plat, uint32_t cpu, char *out, size_t bytes);

/* Purpose: sets set[n] for each number of a list as the kernel writes it, "0-3,8"; numbers from cnt
 *   on are ignored.
 * Returns: how many were newly set; -EINVAL, without a text, if it is not a list.
 * Thread: any.
 */
int spw_plat_list_parse(const char *text, bool *set, uint32_t cnt);

/* Purpose: the reverse of spw_plat_list_parse; a text that is too long ends with "..." in place of
 *   what does not fit.
 * Shape: bytes at least 8.
 * Thread: any.
 */
void spw_plat_list_text(const bool *set, uint32_t cnt, char *out, size_t bytes);

/* Purpose: sets set[n] for each core on which the kernel lets this process's threads run: those of
 *   its cpuset, whatever its affinity mask is.
 * Shape: set[SPW_PLAT_CORE_MAX].
 * Returns: how many; 0 if the kernel does not say.
 * Thread: setup. A thread of its own asks, so the caller's affinity does not change.
 */
uint32_t spw_plat_cores_accepted(bool *set);

/* Purpose: the payload that one function should carry: the smaller of its port's speed and what its
 *   PCIe link leaves after headers.
 * Returns: Mbit/s; -1 if both are unknown.
 * Thread: any.
 */
int64_t spw_plat_nic_nominal_mbps(const struct spw_plat_nic *nic);

/* Purpose: adds what was measured to the machine, as facts that spw_plat_record keeps, and the
 *   findings that follow from it.
 * Shape: pair[cnt], at most SPW_PLAT_PAIR_MAX; once for a machine.
 * Thread: setup.
 */
void spw_plat_pairs_put(struct spw_plat *plat, const struct spw_plat_pair *pair, uint32_t cnt);

/* Purpose: puts each GPU under load for about a second and adds what it did, as facts and findings.
 * Shape: libraries as in struct spw_plat_from; NULL: those of the running machine.
 * Thread: setup. It creates a CUDA context and releases it.
 */
void spw_plat_gpus_load(struct spw_plat *plat, const char *cuda_lib, const char *nvml_lib);

/* Purpose: whether a pair crossed a cable, and that in words: "cable", "inside the NIC",
 *   "unverified".
 * Thread: any.
 */
enum spw_plat_wire spw_plat_pair_wire(const struct spw_plat_pair *pair);
const char *spw_plat_wire_name(enum spw_plat_wire wire);

/* Purpose: whether a pair carried clearly less (below 60 %) than is promised; false if either is
 *   unknown.
 * Thread: any.
 */
bool spw_plat_pair_is_slow(const struct spw_plat_pair *pair);

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

/* Purpose: what CUDA answers of one GPU alone; its PCI address, NUMA node and what NVML answers are
 * not read. Cheap after the first call in a process. Thread: setup. Errors: -ENODEV with the
 * reason: no driver library, no such device.
 */
int spw_plat_gpu_read(uint32_t ordinal, struct spw_plat_gpu *gpu_out);

/* A GPU while it works, by NVML. -1: unknown, or it answers "Not Supported". */
struct spw_plat_gpu_now {
	int64_t busy, memory_busy; /* percent of the last sample, at most a second */
	int64_t power_mw;
	int64_t sm_mhz, sm_max_mhz;
	int64_t reasons; /* bits of nvmlClocksThrottleReasons */
	/* Processes that compute, as this process's PID namespace has them; -1: unknown. */
	int32_t pid_cnt;
	uint32_t pid[SPW_PLAT_GPU_PID_MAX];
};

/* Purpose: what every GPU does now, and which processes are on it. Creates nothing on the GPU.
 * Shape: lib: the library, NULL: the machine's; gpu_out[SPW_PLAT_GPU_MAX].
 * Returns: how many there are; -ENODEV, with a text: no NVML.
 * Thread: control; milliseconds, a second when it opens NVML.
 */
int spw_plat_gpus_now(const char *lib, struct spw_plat_gpu_now *gpu_out);

struct spw_cuda_module; /* cuda/spw_cuda.h */

/* Purpose: the first GPU, read by spw_plat_gpu_read, and the CUDA module to use it with. Creates
 * nothing on the GPU. Thread: setup. Errors: -ENODEV there is no GPU; -ENOTSUP it is older than
 * what the module has code for, or those of spw_cuda_open; each with the reason.
 */
int spw_plat_gpu_open(struct spw_plat_gpu *gpu_out, const struct spw_cuda_module **module_out);

/* Purpose: one counter of a network interface, now, by the name that ethtool -S prints.
 * Thread: any. Some 0.1 ms: all counters of the interface are read.
 * Errors: -ENOENT, without a text: no such interface, or it has no such counter.
 */
int spw_plat_count_read(const char *netdev, const char *name, uint64_t *value_out);

/* Purpose: names as they are printed: "note", "INTEGRATED".
 * Shape: a value of the enum.
 * Returns: static text.
 * Thread: any.
 */
const char *spw_plat_severity_name(enum spw_plat_severity severity);
const char *spw_plat_gpu_attr_name(enum spw_plat_gpu_attr attr);

#ifdef __cplusplus
}
#endif
#endif
