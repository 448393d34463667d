/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Private to lib/plat: reading a file of the tree as a fact, and one reader for each kind of fact.
 * A reader first says of what it reads (plat_of), then reads file by file; each call notes the fact
 * with its source, or why it is unknown.
 */
#ifndef PLAT_IMPL_H
#define PLAT_IMPL_H

#include "plat/spw_plat.h"
#include "plat/tree.h"

/* What every reader works on. */
struct plat_read {
	struct plat_tree *tree;
	struct spw_plat *plat;
	char of[SPW_PLAT_NAME_MAX];
};

/* ---- facts ---- */

/* Purpose: names what the next facts are of: "nic enp1s0f0np0". */
void plat_of(struct plat_read *r, const char *fmt, ...) SPW_PRINTF(2, 3);

/* Purpose: notes a fact. why NULL: it is known. Without memory it is not noted. */
void plat_note(struct plat_read *r, const char *name, const char *value, const char *source,
	       const char *why);

/* Purpose: the first line of a file, without white space at its ends, and notes it as a fact.
 * Shape: name "": no fact is noted.
 * Returns: false, and out is "", if it cannot be read.
 */
bool plat_text(struct plat_read *r, const char *name, char *out, size_t bytes, const char *fmt, ...)
	SPW_PRINTF(5, 6);

/* Purpose: the number in a file, decimal or, with 0x, hexadecimal, and notes it as a fact.
 * Returns: dflt if the file cannot be read, or holds anything else.
 */
int64_t plat_number(struct plat_read *r, const char *name, int64_t dflt, const char *fmt, ...)
	SPW_PRINTF(4, 5);

/* Purpose: as plat_number, of what cannot be negative.
 * Returns: 0 if the file cannot be read, or holds anything else.
 */
uint64_t plat_count(struct plat_read *r, const char *name, const char *fmt, ...) SPW_PRINTF(3, 4);

/* Purpose: the text after `label` to the end of its line, without white space at its ends, and
 *   notes it as a fact.
 * Returns: false, and out is "", if there is no such line.
 */
bool plat_label_text(struct plat_read *r, const char *name, char *out, size_t bytes,
		     const char *path, const char *label);

/* Purpose: as plat_label_text, the number that the text begins with. */
int64_t plat_labelled(struct plat_read *r, const char *name, int64_t dflt, const char *path,
		      const char *label);

/* Purpose: the last component of a link's target, and notes it as a fact; "" if it is no link. */
void plat_link_name(struct plat_read *r, const char *name, char *out, size_t bytes, const char *fmt,
		    ...) SPW_PRINTF(5, 6);

/* Purpose: whether a file or folder is there. */
bool plat_is_there(struct plat_read *r, const char *fmt, ...) SPW_PRINTF(2, 3);

/* Purpose: copies text, cut to `bytes` with its terminator. */
void plat_copy(char *out, size_t bytes, const char *text);

/* ---- probes: put into a live tree what no file has ---- */

/* hwloc/...: what hwloc knows of cores, nodes and PCI functions. */
void plat_probe_hwloc(struct plat_tree *tree);

/* ethtool/DEV/...: link, pause, driver; addr/DEV: IPv4 addresses. */
void plat_probe_netdev(struct plat_tree *tree, const char *netdev);
/* ethtool/DEV/stats; a card is asked for all of them, which may take milliseconds. */
void plat_probe_stats(struct plat_tree *tree, const char *netdev);

/* sysconf/pagesize, sysconf/uid, sysconf/cores (spw_plat_cores_accepted), env/NAME for the
 * variables that matter, and uname of arch. */
void plat_probe_process(struct plat_tree *tree);

/* dcb/DEV/...: flow control of priorities; boot/...: what files that are read at boot set. */
void plat_probe_dcb(struct plat_tree *tree, const char *dev);
void plat_probe_boot(struct plat_tree *tree);

/* nccl/...: processes that have loaded NCCL. */
void plat_probe_nccl(struct plat_tree *tree);

/* access/dev/infiniband/NAME: whether this process may open it. */
void plat_probe_access(struct plat_tree *tree, const char *path);

/* cuda/..., nvml/...: lib is the path of the library. Where CUDA's is there, also build/cuda: 1 if
 * there is a CUDA module that fits this program (cuda/spw_cuda.h). */
void plat_probe_cuda(struct plat_tree *tree, const char *lib);
void plat_probe_nvml(struct plat_tree *tree, const char *lib);

/* measured/gpu/...: each GPU under a load of about a second. */
void plat_probe_load(struct plat_tree *tree, const char *cuda, const char *nvml);

/* ---- readers: each fills its part of plat ---- */

int plat_cores_read(struct plat_read *r);

/* Purpose: sets set[n] for each core of this process's cpuset, as its control group says.
 * Returns: false if it does not say.
 */
bool plat_cgroup_cores(struct plat_read *r, bool *set);
/* Limits of CPU time and of memory. */
void plat_cgroup_read(struct plat_read *r);
void plat_nodes_read(struct plat_read *r);
void plat_host_read(struct plat_read *r);
void plat_nics_read(struct plat_read *r);
void plat_gpus_read(struct plat_read *r);
void plat_nccl_read(struct plat_read *r);

/* The parts of one function (nics.c): its PCIe function and its network interface, each in the
 * folder dir, and its RDMA port. */
void plat_nic_pci_read(struct plat_read *r, struct spw_plat_nic *nic, const char *dir);
void plat_nic_eth_read(struct plat_read *r, struct spw_plat_nic *nic, const char *dir);
void plat_nic_rdma_read(struct plat_read *r, struct spw_plat_nic *nic);

/* Purpose: reads the counters of all NICs, or, `later`, reads them again. */
void plat_counts_read(struct plat_read *r, bool later);

/* Purpose: reads what was measured (spw_plat_pairs_put). */
void plat_pairs_read(struct plat_read *r);

/* ---- findings ---- */

/* Purpose: whether more of the kernel's contiguous memory is free than there is (pin.c). */
bool plat_cma_is_lost(const struct spw_plat *plat);

/* Purpose: adds a finding (plat_find of findings.h). When the table is full, it is dropped.
 * Shape: fmt is the sentence, a newline, and the remedy.
 */
struct spw_plat_finding *plat_finding_add(struct spw_plat *plat, enum spw_plat_severity severity,
					  const char *code, const char *fmt, ...) SPW_PRINTF(4, 5);

void plat_cores_judge(struct spw_plat *plat);
void plat_host_judge(struct spw_plat *plat);
void plat_nics_judge(struct spw_plat *plat);
void plat_rdma_judge(struct spw_plat *plat);
void plat_counts_judge(struct spw_plat *plat);
void plat_pairs_judge(struct spw_plat *plat);
void plat_gpus_judge(struct spw_plat *plat);
void plat_nccl_judge(struct spw_plat *plat);
void plat_load_judge(struct spw_plat *plat, const struct spw_plat_gpu *gpu);

#endif
