#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""vectors.py [FOLDER]: recorded cases of hanging collectives, each with the answer that it must get: "outcome", or
"outcome rank layer". Prints them as one JSON array; with FOLDER, some as files there, for tests/corpus/hang.tar.
Those with a source follow a public report; facts that a report does not give are as a healthy job has them."""
import json
import os
import sys

import vectors_network # registers more of them
from hang_case import COMM, SECOND, VECTORS, Case, login_node, thread, vector

# ---- public reports ----

@vector("culprit 1 nccl", "NVIDIA/nccl#2353, sgl-project/sglang#33289: operations of the proxy are lost on aarch64")
def proxy_operations_lost():
    c = Case()
    c.absent(1)
    c.set(1, "comm", colls=8, sequence=7)
    c.set(1, "thread", 1, state="S", **{"run_ns+": 0})
    c.rows(1, "thread").append(thread(4001, 4099, "R", run=99, stime=60, frame="ncclLocalOpAppend"))
    return c


@vector("unknown", "vllm-project/vllm#42354: the same, before anyone looked at a stack")
def proxy_operations_lost_without_stack():
    c = Case()
    c.absent(1)
    c.set(1, "comm", colls=8, sequence=7)
    c.set(1, "thread", 1, state="S", **{"run_ns+": 0})
    c.rows(1, "thread").append(thread(4001, 4099, "R", run=99, stime=60))
    return c


@vector("culprit 1 gpu", "vllm-project/vllm#48720, #49026: a prefill kernel spins on an mbarrier")
def kernel_spins_before_nccl():
    c = Case()
    c.absent(1)
    return c


@vector("unknown", "MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks PR 115: counters move, nothing else is known")
def counters_alone():
    c = Case(page=0)
    for rank in (0, 1):
        c.grow(rank, "port", packet_seq_err=40, out_of_sequence=42)
    return c


@vector("culprit 1 gpu", "the same with the pages: the moving counters are no loss, as no byte is unacknowledged")
def counters_beside_a_kernel():
    c = kernel_spins_before_nccl()
    for rank in (0, 1):
        c.grow(rank, "port", packet_seq_err=40, out_of_sequence=42)
    return c


@vector("culprit -1 program", "vllm-project/vllm#46097: three ranks in all_reduce, one a block ahead")
def rank_local_branch():
    c = Case(4)
    for rank in range(4):
        c.receives(rank)
        c.waits_sent(rank)
    c.set(2, "comm", function="AllGather", sequence=3)
    return c


@vector("unknown", "model-serving-minefield#89: one in all_gather, one before it; GPU and program both work")
def one_before_it():
    c = Case()
    c.absent(1)
    c.set(1, "comm", colls=7, sequence=6)
    c.idle(1, 40)
    return c


@vector("culprit 1 nccl", "NVIDIA/nccl#2389, #1983: the proxy burns CPU and calls nothing")
def proxy_loops():
    c = Case()
    c.waits(0)
    c.receives(1)
    c.sends(1, "acked")
    c.calls_nothing(1)
    return c


@vector("culprit 1 qp", "NVIDIA/nccl#1822, #2383: an error completion is not passed on")
def error_not_passed_on():
    c = Case()
    c.sends(1, "posted")
    c.receives(0)
    for at in (0, 1):
        c.set(1, "rail", at, state="trying", why="local protection error", down_ns=40 * SECOND)
    return c


@vector("culprit 0 bootstrap", "MiaAI-Lab/Qwen3.8-Flash-Next-Dual-DGX-Sparks#3: SGLang advertised the Wi-Fi address")
def wrong_interface():
    c = Case()
    for rank in (0, 1):
        c.rows(rank, "conn").clear()
        c.rows(rank, "rail").clear()
    c.rows(0, "conn").append(dict(c.conn(0, 0, 1, "", 1), state="connecting", begun=0, ended=0, tid=0,
                                  state_ns=60 * SECOND, peer="198.51.100.7:7000"))
    c.rows(0, "dial").append({"pid": 4000, "local": "192.0.2.1:40000", "remote": "198.51.100.7:7000",
                              "state": "SYN_SENT"})
    return c


@vector("culprit 0 bootstrap", "NVIDIA/nccl#1808 and the like, over sockets: no answer to the first packet")
def dial_without_answer():
    c = Case(page=0)
    c.qps()
    c.rows(0, "dial").append({"pid": 4000, "local": "192.0.2.1:40000", "remote": "198.51.100.7:7000",
                              "state": "SYN_SENT"})
    return c


@vector("unknown", "NVIDIA/nccl#1730: neither a page nor the profiler; NCCL's RAS would only count what was launched")
def neither_page_nor_profiler():
    c = Case(page=0)
    c.qps()
    return c


@vector("unknown", "vllm-project/vllm#46097: with captured graphs counts stand still while it works")
def captured_graphs():
    c = Case()
    c.absent(1)
    c.set(1, "comm", colls=8, sequence=7)
    c.idle(1)
    return c


@vector("unknown", "vllm-project/vllm#51921: under a jammed queue each host stops at another kernel's launch")
def everybody_is_a_victim():
    c = Case(4)
    for rank in range(4):
        c.receives(rank)
        c.waits_sent(rank)
    return c


# ---- more of them ----

@vector("culprit 1 process")
def stopped():
    c = Case()
    c.waits(0)
    c.receives(1)
    for at in (0, 1):
        c.set(1, "thread", at, state="T", **{"run_ns+": 0})
        c.grow(1, "conn", at, calls=0)
    return c


@vector("culprit 1 process")
def stopped_by_a_debugger():
    c = stopped()
    for at in (0, 1):
        c.set(1, "thread", at, state="t")
    c.set(1, "proc", tracer=777)
    return c


@vector("culprit 1 process")
def stopped_without_pages():
    c = Case(page=0)
    c.set(1, "thread", 0, state="T")
    return c


def joining(calls):
    """Rank 0 connects to rank 1, which listens and calls accept so often."""
    c = Case()
    for rank in (0, 1):
        c.rows(rank, "conn").clear()
        c.rows(rank, "rail").clear()
    for rank, state in ((0, "connecting"), (1, "listening")):
        c.rows(rank, "conn").append({**c.conn(rank, 0, 1 - rank, "", 1), "state": state, "begun": 0, "ended": 0,
                                     "tid": 0, "state_ns": 60 * SECOND, "calls+": 1000 if rank == 0 else calls})
    return c


@vector("culprit 1 bootstrap")
def rank_does_not_accept():
    return joining(0)


@vector("culprit 0 bootstrap")
def nothing_reaches_a_rank_that_accepts():
    return joining(1000)


@vector("culprit 1 process")
def stopped_before_it_accepts():
    c = joining(0)
    c.rows(1, "thread")[0]["state"] = "T"
    return c


@vector("culprit 2 process")
def killed():
    c = Case(3)
    c.waits(0)
    c.waits(1)
    c.fails(0, 1)
    c.fails(1, 0)
    c.vanish(2)
    return c


@vector("unknown")
def rank_without_page_not_recognized():
    """It has NCCL linked into it: its connections stand, so it has not ended."""
    c = Case(3)
    c.waits(0)
    c.waits(1)
    c.vanish(2)
    return c


@vector("unknown")
def killed_on_a_host_that_was_not_asked():
    c = killed()
    del c.hosts[2]
    return c


@vector("culprit 1 process")
def killed_while_asked():
    c = Case()
    c.waits(0)
    c.set(1, "proc", gone=1)
    return c


@vector("culprit 1 quota")
def frozen():
    c = Case()
    c.waits(0)
    c.receives(1)
    c.set(1, "proc", frozen=1)
    c.calls_nothing(1)
    return c


@vector("culprit 1 quota")
def throttled():
    c = Case()
    c.absent(1)
    c.grow(1, "proc", throttled_us=450000)
    return c


@vector("culprit 1 quota")
def throttled_and_moves():
    c = Case()
    c.moves()
    c.grow(1, "proc", throttled_us=450000)
    return c


@vector("moves")
def slow_beside_a_rank_without_page():
    """That one may be what slows the job."""
    c = throttled_and_moves()
    c.vanish(0)
    return c


@vector("moves")
def all_throttled_and_move():
    """Those that wait spin, and use up their quota too."""
    c = throttled_and_moves()
    c.grow(0, "proc", throttled_us=450000)
    return c


@vector("culprit 1 program")
def victim_is_throttled():
    """It waits and spins, which uses its quota up: it holds nobody up."""
    c = Case(cuda=0)
    c.absent(1)
    c.grow(0, "proc", throttled_us=450000)
    return c


@vector("culprit 1 kernel")
def proxy_in_the_kernel():
    c = Case()
    c.waits(0)
    c.receives(1)
    c.set(1, "thread", 1, state="D", wchan="mlx5_cmd_exec", **{"run_ns+": 0})
    c.calls_nothing(1)
    return c


@vector("culprit 1 scheduler")
def proxy_starved():
    c = Case(cuda=0)
    c.waits(0)
    c.receives(1)
    c.set(1, "thread", 1, rival="hog (pid 5)", **{"run_ns+": SECOND // 200, "wait_ns+": 99 * SECOND // 200})
    c.calls_nothing(1)
    return c


@vector("culprit 1 program")
def call_skipped():
    c = Case(cuda=0)
    c.absent(1)
    return c


@vector("culprit 2 program")
def call_skipped_of_four():
    c = Case(4, cuda=0)
    c.absent(2)
    return c


@vector("unknown")
def call_skipped_no_profiler():
    """Another rank may have made a longer call in its place."""
    c = Case(cuda=0)
    c.absent(1)
    for rank in (0, 1):
        c.rows(rank, "comm").clear()
        c.set(rank, "proc", profiler=0)
    return c


@vector("culprit -1 program")
def sizes_differ():
    c = Case(cuda=0)
    c.absent(1)
    c.set(1, "comm", colls=8, sequence=7, count=1 << 10)
    return c


@vector("culprit 1 gpu")
def event_never_recorded():
    c = Case()
    c.waits(0)
    c.receives(1)
    c.set(1, "conn", 0, moved_ns=60 * SECOND)
    c.idle(1)
    return c


@vector("culprit 1 gpu")
def kernel_before_the_first_send():
    c = event_never_recorded()
    c.idle(1, 96)
    return c


@vector("culprit 0 gpu")
def broadcast_that_hangs_before_an_all_reduce():
    """No rank but its root sends in it: that rank 1 has not sent says nothing."""
    c = event_never_recorded()
    for at in (0, 1):
        c.rows(0, "conn")[at].update(begun=70, ended=70, receiving=0)
    return c


@vector("unknown")
def ranks_behind_nvlink():
    """Two ranks a host: the one without a network connection may be the one that the other waits for."""
    c = Case()
    c.absent(1)
    for rank in (0, 1):
        c.set(rank, "comm", rank_cnt=4)
    return c


@vector("culprit -1 program")
def recorders_differ():
    c = Case(page=0)
    for rank in (0, 1):
        c.rows(rank, "qp").append({"device": "rocep1s0f0", "qpn": 9, "pid": 4000 + rank, "state": "RTS"})
        c.rows(rank, "op").append({"pid": 4000 + rank, "group": "0", "sequence": 41, "is_p2p": 0, "rank": rank,
                                   "function": "nccl:all_gather" if rank else "nccl:all_reduce", "sizes": "[8]",
                                   "state": "scheduled", "site": f"train.py:{10 + rank} step"})
    return c


@vector("moves")
def healthy():
    c = Case()
    c.moves()
    return c


@vector("moves")
def healthy_and_loaded():
    c = Case()
    c.moves()
    for rank in (0, 1):
        c.set(rank, "thread", 1, **{"run_ns+": 10 * SECOND // 200, "wait_ns+": 88 * SECOND // 200})
    return c


@vector("unknown")
def healthy_pause():
    return Case()


@vector("moves")
def counters_move_and_so_does_the_job():
    c = Case()
    c.moves()
    for rank in (0, 1):
        c.grow(rank, "port", packet_seq_err=400, out_of_sequence=420, local_ack_timeout_err=1)
    return c


@vector("culprit 1 link")
def rail_slow():
    c = Case()
    c.moves()
    c.grow(1, "rail", 0, acked_bytes=10 << 20)
    return c


@vector("culprit 1 link")
def rail_down_and_it_moves():
    c = Case()
    c.moves()
    c.set(1, "rail", 0, state="trying", why="transport retry counter exceeded")
    c.set(1, "port", 0, state="DOWN", carrier=0)
    return c


@vector("unknown")
def two_unlike():
    c = Case(3)
    c.waits(0)
    c.receives(1)
    c.set(1, "thread", 0, state="T")
    c.sends(2, "posted")
    for at in (0, 1):
        c.set(2, "rail", at, state="trying", why="local protection error")
    return c


@vector("unknown")
def two_unlike_processes():
    c = Case(3)
    c.waits(0)
    c.set(1, "thread", 0, state="T")
    c.set(2, "proc", frozen=1)
    return c


@vector("unknown")
def samples_differ():
    c = stopped()
    for at in (0, 1):
        c.set(1, "thread", at, state="S")
    c.idle(1, 50)
    return c


@vector("unknown")
def host_silent():
    c = stopped()
    c.hosts[0]["silent"] = "no answer in 5 s"
    return c


@vector("culprit 1 process")
def a_host_by_two_names():
    c = stopped()
    c.hosts.append(c.hosts[1])
    return c


@vector("culprit 1 process")
def asked_from_a_login_node():
    c = stopped()
    c.hosts.insert(0, login_node())
    return c


@vector("unknown")
def asked_from_a_login_node_that_may_run_a_rank():
    c = stopped()
    c.hosts[0] = login_node()
    return c


@vector("unknown")
def killed_and_two_hosts_have_its_address():
    c = killed()
    for rank in range(3):
        c.rows(rank, "addr").append({"addr": "127.0.0.1"})
    c.set(0, "conn", 1, peer="127.0.0.1:7000: the peer closed the connection, or died")
    c.set(1, "conn", 0, peer="127.0.0.1:7000: the peer closed the connection, or died")
    return c


@vector("unknown")
def nobody():
    c = Case()
    for rank in (0, 1):
        c.vanish(rank)
    return c


SEEDS = ["stopped", "killed", "packets-lost", "port-down", "qp-error-without-pages", "recorders-differ", "rail-slow",
         "sizes-differ", "wrong-interface", "event-never-recorded", "proxy-operations-lost"]

if __name__ == "__main__":
    if len(sys.argv) > 1:
        for case in VECTORS:
            if case["name"] in SEEDS:
                with open(os.path.join(sys.argv[1], case["name"]), "w", encoding="utf-8") as out:
                    json.dump(case, out, separators=(",", ":"))
    else:
        json.dump(VECTORS, sys.stdout)
