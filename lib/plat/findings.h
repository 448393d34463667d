/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * Every finding: what it is called in the code, how bad it is, its stable code, to which docs and
 * scripts refer, what was found, and what to do, in one row. plat_find adds one; its arguments are
 * those of the sentence and then those of the remedy. Which facts lead to it is with the judge that
 * names it; findings/findings.c says how to add one.
 *
 * Texts end without a full stop; what to do begins with the command.
 */
#ifndef PLAT_FINDINGS_H
#define PLAT_FINDINGS_H

#include <inttypes.h>

#include "plat/plat_impl.h"

#define PLAT_FINDING(id, severity, code, what, todo)         \
	enum { FIND_##id##_SEVERITY = SPW_PLAT_##severity }; \
	static SPW_UNUSED const char FIND_##id##_CODE[] = code, FIND_##id##_TEXT[] = what "\n" todo

/* Purpose: adds a finding of this list: plat_find(plat, NIC_GONE, arguments). Returns it. */
#define plat_find(plat, id, ...)                                                               \
	plat_finding_add(plat, (enum spw_plat_severity)FIND_##id##_SEVERITY, FIND_##id##_CODE, \
			 FIND_##id##_TEXT, ##__VA_ARGS__)

/* ---- cores and memory (findings.c) ---- */

PLAT_FINDING(CORES_SHARED, NOTE, "cores-shared",
	     "no core is isolated: %s are shared with everything else",
	     "isolcpus=LIST nohz_full=LIST rcu_nocbs=LIST on the kernel command line, with the "
	     "lcores' numbers, keep other threads and most timer interrupts away");
PLAT_FINDING(CORES_AUTOGROUP, NOTE, "cores-autogroup",
	     "the scheduler groups tasks by session, and on a core that an lcore shares, one "
	     "session can keep another's threads waiting for seconds (observed on Linux 6.18)",
	     "sysctl kernel.sched_autogroup_enabled=0, or no other session on the lcores' cores");
PLAT_FINDING(CORES_SLOW, WARN, "cores-slow",
	     "the isolated cores %s are of the slower kind; %s are fast",
	     "isolcpus=, nohz_full= and rcu_nocbs= of the kernel command line with some of %s in "
	     "place of %s");
PLAT_FINDING(CORES_OUTSIDE, WARN, "cores-outside",
	     "this process may use the cores %s, %s; better ones are %s",
	     "taskset -c %s COMMAND, if it was started under a mask; else its cpuset: cpuset.cpus "
	     "of its control group, --cpuset-cpus of a container, AllowedCPUs= of a unit");
PLAT_FINDING(CORES_FAR, WARN, "cores-far",
	     "%s is on NUMA node %d, and none of the isolated cores %s is",
	     "cat /sys/devices/system/node/node%d/cpulist: isolate cores of that list instead");
PLAT_FINDING(HUGEPAGES_NONE, WARN, "hugepages-none", "no free hugepages",
	     "echo 512 > /proc/sys/vm/nr_hugepages; plain pages cost TLB misses");
PLAT_FINDING(MEMLOCK_LOW, ERROR, "memlock-low",
	     "this process may lock %" PRIu64 " KiB and has no CAP_IPC_LOCK",
	     "ulimit -l unlimited (LimitMEMLOCK=infinity in a unit, --ulimit memlock=-1 for a "
	     "container): memory registration fails without it");
PLAT_FINDING(CMA_LOST, WARN, "cma-lost",
	     "CmaFree (%" PRIu64 " KiB) is above CmaTotal (%" PRIu64
	     " KiB): registering memory with a device fails with ENOMEM, whatever the limits are "
	     "(known of kexec handover, KHO, on DGX Sparks)",
	     "kho=off on the kernel command line, if /sys/kernel/kexec_crash_size is 0 (no crash "
	     "kernel is loaded), and a reboot");
PLAT_FINDING(CORES_FEW, WARN, "cores-few", "%s core may be used by this process",
	     "taskset, cpuset: give it more; with one core everything runs inline and shares it");
PLAT_FINDING(CORES_GOVERNOR, WARN, "cores-governor",
	     "cores %s run under a frequency governor other than performance",
	     "cpupower -c %s frequency-set -g performance: a core that changes its frequency adds "
	     "to the tail");
PLAT_FINDING(CORES_TICKS, NOTE, "cores-ticks",
	     "the isolated cores %s still take timer ticks or RCU callbacks",
	     "nohz_full=%s rcu_nocbs=%s on the kernel command line");
PLAT_FINDING(CORES_IDLE, NOTE, "cores-idle",
	     "the isolated cores %s may enter idle states that take %u us or more to leave",
	     "cpupower -c %s idle-set -D 50");

/* ---- drivers, rights, names (host.c) ---- */

PLAT_FINDING(
	NIC_LAG, NOTE, "nic-lag",
	"%s is one RDMA device for the ports %s and %s of %s (RoCE LAG): a QP takes one of them",
	"use several QPs; or, for a rail on each port: ip link set %s nomaster && ip link set %s "
	"nomaster, and a subnet for each");
PLAT_FINDING(MODULES_NOT_BOUND, ERROR, "modules-absent", "%s has no driver (mlx5_core is loaded)",
	     "echo %s > /sys/bus/pci/drivers/mlx5_core/bind");
PLAT_FINDING(MODULES_NOT_LOADED, ERROR, "modules-absent",
	     "%s has no driver (mlx5_core is not loaded)",
	     "modprobe mlx5_core mlx5_ib; it then takes %s");
PLAT_FINDING(MODULES_NO_RDMA, ERROR, "modules-absent", "%s has no RDMA device (mlx5_ib is %s)",
	     "modprobe mlx5_ib ib_uverbs");
PLAT_FINDING(
	NIC_GONE, ERROR, "nic-gone",
	"no ConnectX function is on PCI: on a GB10 (DGX Spark and its like) all four leave when no "
	"cable is plugged in",
	"plug a QSFP cable in; a service (on a DGX Spark below /opt/nvidia/dgx-spark-mlnx-hotplug) "
	"then brings them back (echo 1 > /sys/bus/pci/rescan if it does not)");
PLAT_FINDING(CAP_NET_RAW, WARN, "cap-net-raw",
	     "this process has no CAP_NET_RAW: raw Ethernet queues (mode=eth) are refused, "
	     "reliable connections work",
	     "setcap cap_net_raw,cap_ipc_lock+ep $(command -v spinwire); for a container: "
	     "--cap-add NET_RAW");
PLAT_FINDING(UVERBS_RIGHTS, ERROR, "uverbs-rights", "/dev/infiniband/%s of %s cannot be opened: %s",
	     "chmod 0666 /dev/infiniband/%s (rdma-core's udev rules do so at boot)");
PLAT_FINDING(CONTAINER_NO_DEVICE, ERROR, "container-no-device",
	     "this is a container (%s) without /dev/infiniband/%s of %s",
	     "--device /dev/infiniband, or the RDMA device plugin in Kubernetes");
PLAT_FINDING(UVERBS_ABSENT, ERROR, "uverbs-absent", "%s has no /dev/infiniband/%s",
	     "udevadm trigger --subsystem-match=infiniband_verbs");
PLAT_FINDING(GID_VARIABLE, ERROR, "gid-variable",
	     "%s=%d, but RoCE v2 over IPv4 (%s) is GID %d of %s",
	     "unset %s: it is found by itself since NCCL 2.21 and in UCX; or set it to %d");
PLAT_FINDING(
	NIC_RENAMED, NOTE, "nic-renamed",
	"%s of %s is a name that netplan gives: guides and scripts that use the usual name miss it",
	"grep -l 'set-name: *%s' /etc/netplan/*: remove the line, then netplan apply");
PLAT_FINDING(CORES_QUOTA, WARN, "cores-quota",
	     "the control group may take %u.%u ms of CPU time in each %u.%u ms (%u.%02u of %u "
	     "cores), then all of its threads stop until the next; so far %" PRIu64 " of %" PRIu64
	     " periods",
	     "no --cpus for a container, no limits.cpu in Kubernetes (whole cores by its static "
	     "CPU manager), CPUQuota= of a unit, cpu.max: a thread that spins takes a whole core; "
	     "cores by cpuset limit it without stops");

/* ---- NICs, links, GIDs, counters (nic.c) ---- */

PLAT_FINDING(NIC_PCIE_NARROW, WARN, "nic-pcie-narrow",
	     "%s: PCIe runs at x%u %u.%u GT/s and could at x%u %u.%u",
	     "lspci -vv -s %s | grep LnkSta: power the machine off and on; reseat the card; look "
	     "for a firmware update");
PLAT_FINDING(NIC_IOMMU, NOTE, "nic-iommu", "%s: its DMA is translated by the IOMMU (%s)",
	     "iommu.passthrough=1 (x86: iommu=pt) on the kernel command line saves a table walk on "
	     "each miss");
PLAT_FINDING(
	NIC_RELAXED_ORDERING, NOTE, "nic-relaxed-ordering",
	"%s: relaxed ordering is disabled in the PCIe function: NCCL and UCX ask for it in vain",
	"setpci -s %s CAP_EXP+8.w=0010:0010");
PLAT_FINDING(NIC_AER, WARN, "nic-aer",
	     "%s: %" PRId64 " non-fatal and %" PRId64
	     " fatal PCIe errors since the machine was started",
	     "dmesg | grep -i 'aer.*%s': reseat the card, or replace it");
PLAT_FINDING(NIC_IRQS, WARN, "nic-irqs", "%s: the isolated cores %s serve its interrupts",
	     "systemctl stop irqbalance; for i in $(ls /sys/bus/pci/devices/%s/msi_irqs); do echo "
	     "0 > /proc/irq/$i/smp_affinity_list; done (0: any core without an lcore)");
PLAT_FINDING(LINK_DOWN, WARN, "link-down", "%s has the address %s and no link",
	     "ip link set %s up; ethtool %s: look at the cable and at the other end");
PLAT_FINDING(LINK_SLOW, WARN, "link-slow", "%s runs at %" PRId64 " Gb/s and could at %" PRId64,
	     "ethtool -s %s autoneg on; ethtool %s: what the cable and the other end offer");
PLAT_FINDING(LINK_MTU, WARN, "link-mtu",
	     "%s: MTU %u: RDMA packets carry %u bytes (4096 are the most), others could be of 9000",
	     "ip link set %s mtu %u (for good: spinwire-doctor plan), at both ends");
PLAT_FINDING(LINK_MTU_SOFTWARE, WARN, "link-mtu",
	     "%s: MTU %u: RDMA packets carry %u bytes (4096 are the most)",
	     "with-softhca --mtu %u, at both ends");
PLAT_FINDING(ROCE_VOLATILE, NOTE, "roce-volatile",
	     "%s has %s, which no file that is read at boot sets: after a restart this end may "
	     "differ from the other",
	     "spinwire-doctor plan (an MTU for good); a unit below /etc/systemd/system that calls "
	     "dcb or mlnx_qos (flow control); what differs: spinwire-doctor diff A B");
PLAT_FINDING(LINK_INFINIBAND, ERROR, "link-infiniband",
	     "%s: its port is in InfiniBand mode, in which neither raw Ethernet nor RoCE works",
	     "mlxconfig -d %s set LINK_TYPE_P%d=2, then power the machine off and on (it needs an "
	     "Ethernet cable, and Ethernet at the other end)");
PLAT_FINDING(LINK_NONE, ERROR, "link-none",
	     "no RDMA port has a link (the last one looked at is %s)",
	     "ip link set %s up; ethtool %s: look at the cable and at the other end");
PLAT_FINDING(NIC_HALVES_LINK, WARN, "nic-halves-differ",
	     "%s and %s are halves of one port; link %d and %d",
	     "ip link set %s up; ip link set %s up");
PLAT_FINDING(NIC_HALVES_MTU, WARN, "nic-halves-differ",
	     "%s and %s are halves of one port; MTU %u and %u", "ip link set %s mtu %u");
PLAT_FINDING(NIC_HALF_IDLE, WARN, "nic-half-idle",
	     "%s has an address and %s, the other half of the same port, has none: half of the "
	     "port's rate is lost",
	     "spinwire-doctor plan --peer HOST: give each half an address in a subnet of its own");
PLAT_FINDING(NIC_ONE_SUBNET, WARN, "nic-one-subnet",
	     "%s (%s) and %s (%s) are in one subnet: the kernel sends through one of them and "
	     "answers ARP for both on either",
	     "spinwire-doctor plan --peer HOST: a subnet for each. To keep one: sysctl "
	     "net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2, and 'ip rule add "
	     "from ADDRESS' with a routing table for each");
PLAT_FINDING(NIC_FIRMWARE_MIXED, NOTE, "nic-firmware-mixed",
	     "%s has firmware %s, %s of the same kind has %s",
	     "mlxfwmanager --online -u (on a DGX Spark: fwupdmgr update), then power the machine "
	     "off and on");
PLAT_FINDING(GID_NONE, ERROR, "gid-none",
	     "%s has no GID of RoCE v2 over IPv4: %s has no IPv4 address",
	     "ip addr add 10.10.%u.1/24 dev %s (for good: spinwire-doctor plan)");
PLAT_FINDING(GID_LINK_LOCAL, WARN, "gid-link-local",
	     "%s: NCCL and UCX take GID %d, the link-local %s, before GID %d",
	     "ip addr del %s/16 dev %s (for good: no 'link-local: [ ipv4 ]' in netplan)");
PLAT_FINDING(PORT_PAUSE, WARN, "port-pause", "%s, within %u ms: %s",
	     "ethtool -A %s rx off tx off, at both ends of a point-to-point cable: a paused sender "
	     "shows no drop anywhere");
PLAT_FINDING(PORT_DISCARDS, WARN, "port-discards", "%s, within %u ms: %s",
	     "ethtool -S %s | grep -E 'discard|out_of_buffer': more receive queues, larger rings, "
	     "or less traffic");
PLAT_FINDING(PORT_ECN, WARN, "port-ecn", "%s, within %u ms: %s",
	     "ethtool -S %s | grep -E 'ecn|cnp': a switch marks congestion; between two machines "
	     "on one cable nothing should");
PLAT_FINDING(PORT_ERRORS, WARN, "port-errors", "%s, within %u ms: %s",
	     "ethtool -S %s | grep -E 'err|link_down': clean or replace the cable");

/* ---- GPUs (gpu.c) ---- */

PLAT_FINDING(GPU_TOO_OLD, WARN, "gpu-too-old",
	     "%s has compute capability %d.%d, and CUDA executors need %d.%d or later",
	     "--executor cpu or inline, or a GPU of the Turing generation or later");
PLAT_FINDING(
	GPU_NOT_BUILT, WARN, "gpu-not-built",
	"%s is there, but no libspinwire-cuda.so that fits this spinwire: no executor can use it",
	"install spinwire-cuda of this version; in a source tree an nvcc of CUDA 12.0 or later "
	"(nvidia-cuda-toolkit; CUDA_HOME names its folder), then meson setup --reconfigure build "
	"and ninja -C build; else --executor cpu or inline");
PLAT_FINDING(GPU_TIME_LIMIT, WARN, "gpu-time-limit",
	     "%s has a time limit for kernels (a display is attached)",
	     "systemctl isolate multi-user.target, or a GPU without a display: else the resident "
	     "kernel must be relaunched before each time limit");
PLAT_FINDING(GPU_PROHIBITED, ERROR, "gpu-prohibited", "%s refuses compute contexts",
	     "nvidia-smi -i %u -c DEFAULT");
PLAT_FINDING(GPU_THROTTLED, WARN, "gpu-throttled",
	     "%s is slowed down: clock %d of %d MHz, reasons 0x%llx",
	     "nvidia-smi -i %u -q -d PERFORMANCE,TEMPERATURE: cooling and power supply");
PLAT_FINDING(GPU_PCIE_NARROW, WARN, "gpu-pcie-narrow", "%s: PCIe runs at x%d and could at x%d",
	     "nvidia-smi -i %u -q | grep -A4 'Link Width': reseat the card");
PLAT_FINDING(PEERMEM_USELESS, NOTE, "peermem-useless",
	     "%s shares the host's memory: nvidia-peermem cannot work here (\"Invalid argument\") "
	     "and nothing needs it",
	     "grep -l peermem /etc/modules /etc/modules-load.d/*: remove the line; the memory to "
	     "use is cudaHostAlloc and ibv_reg_mr");
PLAT_FINDING(
	PEERMEM_ABSENT, WARN, "peermem-absent",
	"%s can do GPUDirect RDMA, but neither dma-buf nor nvidia-peermem is there",
	"modprobe nvidia-peermem, or the open kernel modules of the driver, which offer dma-buf");
PLAT_FINDING(GPU_FAR, NOTE, "gpu-far", "%s is on NUMA node %d, and no RDMA device is (%s is on %d)",
	     "nvidia-smi topo -m: choose a NIC and a GPU of one node, if there are");
PLAT_FINDING(MEASURED_GPU, WARN, "measured-gpu",
	     "%s under load: clock %lld of %d MHz, reasons 0x%llx; memory %lld of %lld GB/s",
	     "nvidia-smi -i %u -q -d PERFORMANCE,CLOCK,TEMPERATURE: cooling, power supply, clocks "
	     "that were set (nvidia-smi -rgc); on a DGX Spark pull the power cord");
PLAT_FINDING(GPU_BROKEN, ERROR, "gpu-broken", "%.200s",
	     "nvidia-smi; dmesg | grep -i nvrm: driver and library must be of one version");

/* ---- NCCL (nccl.c) ---- */

PLAT_FINDING(NCCL_HANG_OLD_GCC, ERROR, "nccl-hang-version",
	     "%s %.120s: NCCL %s for aarch64, compiled by GCC %" PRId64
	     ": its proxy can lose operations, and then a collective waits for ever",
	     "pip install 'nvidia-nccl-cu13>=2.29.3' (2.28.7 and older are free of it too), and "
	     "look again: the file that is loaded counts, not NCCL_VERSION of an image");
PLAT_FINDING(
	NCCL_HANG_VERSION, WARN, "nccl-hang-version",
	"%s %.120s: NCCL %s for aarch64, of which some builds hang: the proxy loses operations",
	"pip install 'nvidia-nccl-cu13>=2.29.3' (2.28.7 and older are free of it too), and "
	"look again: the file that is loaded counts, not NCCL_VERSION of an image");
PLAT_FINDING(NCCL_DIFFER_FILE, WARN, "nccl-differ",
	     "process %s has NCCL %s of build %.12s, and process %s of the same parent %s of %.12s",
	     "readlink /proc/%s/exe; grep libnccl /proc/%s/maps: one environment for all ranks");
PLAT_FINDING(NCCL_DIFFER_VARIABLE, WARN, "nccl-differ",
	     "process %s has %.60s, and process %s of the same parent %.60s",
	     "tr '\\0' '\\n' < /proc/%s/environ | grep ^NCCL_: ranks that set it differently may "
	     "choose different algorithms, and wait for each other");
PLAT_FINDING(NCCL_DIFFER_TWICE, WARN, "nccl-differ",
	     "process %s has %" PRId64 " different files of NCCL mapped",
	     "grep libnccl /proc/%s/maps: keep one (pip list | grep nccl; LD_LIBRARY_PATH): each "
	     "has communicators and threads of its own");
PLAT_FINDING(
	NCCL_CONF_INLINE, WARN, "nccl-conf",
	"%s NCCL_IB_USE_INLINE=1 with NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS=1, with which "
	"messages of a few bytes were reported to hang",
	"unset NCCL_IB_USE_INLINE; grep -n NCCL_IB_USE_INLINE ~/.nccl.conf /etc/nccl.conf (and "
	"$NCCL_CONF_FILE): remove the line");
PLAT_FINDING(NCCL_CONF_GID, WARN, "nccl-conf",
	     "%s NCCL_IB_GID_INDEX=%" PRId64 " by a file, for every job: GIDs move when an address "
	     "or a link does",
	     "grep -n NCCL_IB_GID_INDEX ~/.nccl.conf /etc/nccl.conf (and $NCCL_CONF_FILE): remove "
	     "the line; it is found by itself since NCCL 2.21");

/* ---- what was measured (../pairs.c) ---- */

PLAT_FINDING(MEASURED_INSIDE, WARN, "measured-inside",
	     "%s to %s: %" PRId64 " packets were sent, and the physical port counted %" PRId64
	     ": they did not cross the wire",
	     "spinwire-doctor --facts | grep -E 'sys_image_guid|port_name': both ends are "
	     "functions of one port; name the machine at the other end of the cable");
PLAT_FINDING(MEASURED_SLOW, WARN, "measured-slow",
	     "%s to %s: %.3g Gb/s, and link and PCIe promise %.3g",
	     "spinwire-doctor: first what else it finds at both ends (pause, discards, MTU); a "
	     "ConnectX-7 that carries 13 Gb/s while all looks right: shut both machines down, pull "
	     "the power cord, start again");
PLAT_FINDING(MEASURED_PCIE, WARN, "measured-pcie",
	     "%s to %s: %.3g Gb/s, and the PCIe link promises %.3g",
	     "lspci -vv | grep -E 'ConnectX|LnkSta|MaxPayload': the link's real width and speed; "
	     "then shut the machine down and pull the power cord");
PLAT_FINDING(MEASURED_NO_ANSWER, WARN, "measured-no-answer", "%s to %s: no write was acknowledged",
	     "ping -M do -s 8972 the other end's address: the same MTU at both ends, and which "
	     "cable leads where");

#endif
