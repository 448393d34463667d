/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 the spinwire authors
 *
 * The rules, one row each, in the order in which they are asked of a sink (graph.h). A test answers
 * yes, no or unknown. It may say no only if the facts that could make it yes are known, since the
 * rules behind it count on that. judge.c asks; the tests are in host.c, net.c and calls.c.
 */
#include "hang/rules.h"

/* ---- the table ---- */

#define MORE_QUOTA "a larger cpu.max (--cpus of a container), or a cpuset in its place"
#define MORE_CPU   "taskset -p, chrt -p: move what runs on that CPU, or the rank"
#define RUNS       "/proc of each process (same user, or root)"

const struct hang_rule hang_rule[] = {
	/* A process that cannot run: nothing that its page says counts any more, and all who wait
	 * for it wait for this. Asked of every rank first. */
	{"ended", HANG_SINK_DOWN | HANG_SINK_BARE, 0, SPW_HANG_LAYER_process, RUNS, hang_test_ended,
	 "its process has ended", "it is", "dmesg | grep -i -e oom -e segfault; its last output"},
	{"stopped", HANG_SINK_DOWN | HANG_SINK_BARE | HANG_ALONE, 0, SPW_HANG_LAYER_process, RUNS,
	 hang_test_stopped, "its process is stopped, by a signal or a tracer", "it is",
	 "kill -CONT PID, or end the debugger that holds it"},
	{"frozen", HANG_SINK_DOWN | HANG_SINK_BARE | HANG_ALONE, 0, SPW_HANG_LAYER_quota,
	 "its control group (cgroup.freeze)", hang_test_frozen, "its control group is frozen",
	 "it is", "cat /proc/PID/cgroup, and thaw it: echo 0 > .../cgroup.freeze; docker unpause"},
	/* A proxy thread that does not call: from what keeps it off its core to NCCL itself. */
	{"throttled", HANG_SINK_SELF | HANG_SINK_ABSENT | HANG_SINK_UNBEGUN, 0,
	 SPW_HANG_LAYER_quota, "its control group (cpu.stat)", hang_test_throttled,
	 "its CPU quota is used up", "it is", MORE_QUOTA},
	{"kernel", HANG_SINK_SELF, 0, SPW_HANG_LAYER_kernel, "NCCL's proxy thread in /proc",
	 hang_test_kernel_proxy, "NCCL's proxy thread waits in the kernel",
	 "cat /proc/PID/task/TID/stack", "dmesg: a device or a file system that does not answer"},
	{"kernel", HANG_SINK_ABSENT | HANG_SINK_UNBEGUN | HANG_SINK_BARE, 1, SPW_HANG_LAYER_kernel,
	 RUNS, hang_test_kernel_main, "its main thread waits in the kernel", "cat /proc/PID/stack",
	 "dmesg: a device or a file system that does not answer"},
	{"loop", HANG_SINK_SELF, 0, SPW_HANG_LAYER_nccl, "run times of NCCL's proxy thread",
	 hang_test_loop, "NCCL's proxy thread runs and asks for nothing: a loop in NCCL",
	 "eu-stack -p PID, of the proxy thread", "another NCCL version"},
	{"starved", HANG_SINK_SELF, 0, SPW_HANG_LAYER_scheduler,
	 "run and wait times of NCCL's proxy thread", hang_test_starved,
	 "NCCL's proxy thread gets no CPU", "it is", MORE_CPU},
	/* Nothing is under way on a rank for which others wait. First what the ranks called, then
	 * what may stand before the call, from the outside in: another rank of the host, NCCL's
	 * pool of operations, the GPU; and only then the program. */
	{"diverged", HANG_SINK_ABSENT | HANG_SINK_OWES | HANG_SINK_CYCLE | HANG_NOBODY, 0,
	 SPW_HANG_LAYER_program, "NCCL's profiler calls of each rank", hang_test_diverged,
	 "ranks of one communicator call different things",
	 "PyTorch's flight recorder: both call sites",
	 "compare the program's branches: which rank is wrong cannot be known here"},
	{"neighbour", HANG_SINK_ABSENT | HANG_SINK_OWES | HANG_SINK_LATE, 0, SPW_HANG_LAYER_nccl,
	 "the ranks beside it on its host: what NCCL moves inside a host is on no page",
	 hang_test_neighbour, "", "", ""},
	{"dry", HANG_SINK_ABSENT, 0, SPW_HANG_LAYER_nccl,
	 "a stack of the thread that yields (eu-stack -p PID: ncclLocalOpAppend?)", hang_test_dry,
	 "NCCL's proxy has no operation left to give out", "freeOps is -1 in gdb",
	 "another NCCL (2.28.9 and 2.29.2 built for aarch64 by GCC before 10 lose operations)"},
	{"gpu-busy", HANG_SINK_ABSENT | HANG_SINK_OWES, 0, SPW_HANG_LAYER_gpu,
	 "what its GPU does (NVML), and that no other process is on it", hang_test_gpu_busy,
	 "a kernel runs on its GPU before NCCL's", "cuda-gdb -p PID: info cuda kernels",
	 "find the kernel that does not end; NCCL waits behind it"},
	{"gpu-idle", HANG_SINK_OWES, 0, SPW_HANG_LAYER_gpu, "what its GPU does (NVML)",
	 hang_test_gpu_idle, "its stream waits for an event, a stream or a host callback",
	 "eu-stack -p PID, for host callbacks", "look for an event that is never recorded"},
	{"not-come", HANG_SINK_ABSENT, 0, SPW_HANG_LAYER_program,
	 "NCCL's profiler calls of each rank", hang_test_absent,
	 "its program has not come to the operation in which the others wait",
	 "py-spy dump --pid PID, or eu-stack -p PID", "look at what its main thread does"},
	{"not-begun", HANG_SINK_UNBEGUN, 0, SPW_HANG_LAYER_program, RUNS, hang_test_not_begun,
	 "its program has not come to the first operation, in which the others wait",
	 "py-spy dump --pid PID, or eu-stack -p PID", "look at what its main thread does"},
	/* Bytes that are with the NICs. A port that is down explains the errors of its queue pairs,
	 * and a loss those of its peers', so the causes come before their effects. */
	{"link", HANG_SINK_NET | HANG_SINK_LIMPS, 0, SPW_HANG_LAYER_link,
	 "states of the ports at both ends", hang_test_link, "a port is down", "it is",
	 "ip link; ethtool: the cable and the other end"},
	{"loss", HANG_SINK_NET | HANG_SINK_LIMPS, 0, SPW_HANG_LAYER_loss,
	 "counters of the ports at both ends (hw_counters)", hang_test_loss,
	 "packets are sent and not acknowledged", "spinwire-perf between the two hosts",
	 "spinwire-doctor at both ends: MTU, PFC, cable"},
	{"qp", HANG_SINK_NET | HANG_SINK_LIMPS, 0, SPW_HANG_LAYER_qp, "why its rails are down",
	 hang_test_qp, "a queue pair is in error", "it is",
	 "the log of both ranks (NCCL_DEBUG=WARN); spinwire-doctor"},
	/* Only what moves: nobody is held up, so these are answers about time lost. */
	{"slow-rail", HANG_SINK_SLOW, 0, SPW_HANG_LAYER_link, "bytes of each rail",
	 hang_test_slow_rail, "a rail is slow",
	 "spinwire-perf between the two hosts over that rail",
	 "ethtool: speed and errors of that port; on a DGX Spark pull the power cord"},
	{"throttled-slow", HANG_SINK_STARVED, 0, SPW_HANG_LAYER_quota,
	 "its control group (cpu.stat)", hang_test_throttled_slow, "its CPU quota is used up",
	 "it is", MORE_QUOTA},
	{"throttled", HANG_SINK_LATE, 0, SPW_HANG_LAYER_quota, "its control group (cpu.stat)",
	 hang_test_throttled_late, "its CPU quota is used up", "it is", MORE_QUOTA},
	{"slow-clock", HANG_SINK_LATE, 0, SPW_HANG_LAYER_gpu,
	 "the clocks of all ranks' GPUs (NVML)", hang_test_clock, "its GPU's clock is low",
	 "nvidia-smi -q -d CLOCK,PERFORMANCE",
	 "cooling, power; nvidia-smi -rgc; on a DGX Spark pull the power cord"},
	{"starved-slow", HANG_SINK_LATE, 0, SPW_HANG_LAYER_scheduler,
	 "run and wait times of each rank's proxy thread", hang_test_starved_late,
	 "NCCL's proxy thread waits for its CPU", "it is", MORE_CPU},
	{"starved-slow", HANG_SINK_STARVED, 0, SPW_HANG_LAYER_scheduler,
	 "run and wait times of NCCL's proxy thread", hang_test_starved_slow,
	 "NCCL's proxy thread gets little CPU", "it is", MORE_CPU},
	{"start", HANG_SINK_START, 0, SPW_HANG_LAYER_bootstrap, "the address that it dials",
	 hang_test_start, "a connection is not made", "ping, and ip route get, of that address",
	 "NCCL_SOCKET_IFNAME: the interface that both hosts reach; a firewall"},
	/* Without a page nothing shows who waits. What is left are facts that stop a rank for
	 * certain, in the order in which the sources can be had. */
	{"link", HANG_SINK_BARE, 2, SPW_HANG_LAYER_link,
	 "its queue pairs (netlink) and the states of their ports", hang_test_bare_link,
	 "a port that it uses is down", "it is", "ip link; ethtool: the cable and the other end"},
	{"qp", HANG_SINK_BARE, 3, SPW_HANG_LAYER_qp, "its queue pairs (netlink)", hang_test_bare_qp,
	 "a queue pair is in error", "it is", "the log of both ranks (NCCL_DEBUG=WARN)"},
	{"start", HANG_SINK_BARE, 4, SPW_HANG_LAYER_bootstrap, RUNS, hang_test_dial,
	 "a TCP connection is not made", "ping, and ip route get, of that address",
	 "NCCL_SOCKET_IFNAME: the interface that both hosts reach; a firewall"},
	{"diverged", HANG_SINK_BARE | HANG_NOBODY, 5, SPW_HANG_LAYER_program,
	 "PyTorch's flight recorder of each rank", hang_test_recorder,
	 "ranks of one group call different things", "fr_trace of PyTorch",
	 "compare the program's branches: which rank is wrong cannot be known here"},
};
const uint32_t hang_rule_cnt = SPW_ARRAY_CNT(hang_rule);

enum hang_tri hang_rules_ask(const struct hang_sink *sink, uint32_t kind, uint32_t order,
			     uint32_t *at_out)
{
	for (uint32_t i = 0; i < hang_rule_cnt; i++) {
		enum hang_tri holds;

		if (!(hang_rule[i].sinks & kind) ||
		    (kind == HANG_SINK_BARE && hang_rule[i].order != order))
			continue;
		holds = hang_rule[i].test(sink);
		if (holds == HANG_NO)
			continue;
		*at_out = i;
		return holds;
	}
	return HANG_NO;
}
