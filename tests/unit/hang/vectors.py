#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""vectors.py [FOLDER]: recorded cases of hanging collectives, each with the answer that it must get: "outcome", or
"outcome rank layer". Prints them as one JSON array; with FOLDER, some as files there, for tests/corpus/hang.tar.
Public reports are in hang_reports.py."""
import json
import os
import sys

import vectors_calls  # these two register more of them
import vectors_network
from hang_case import SECOND, VECTORS, Case, login_node, vector
from hang_reports import hot_gpu


@vector("culprit 1 scheduler")
def late_for_lack_of_a_cpu():
    c = Case()
    c.late(1, 20)
    return c


@vector("culprit 1 scheduler")
def late_in_its_own_receives():
    """Its receives are open before its kernel runs, as of each eager collective."""
    c = Case()
    c.late(1, 20)
    c.receives(0, cnt=4)
    c.receives(1, cnt=2)
    return c


@vector("moves")
def both_in_their_receives():
    c = late_in_its_own_receives()
    c.receives(1, cnt=4)
    return c


@vector("moves")
def late_on_a_loaded_host():
    c = Case()
    c.late(1, 20)
    c.set(0, "thread", 1, **{"wait_ns+": 15 * SECOND // 200})
    return c


@vector("culprit 1 quota")
def late_for_lack_of_quota():
    c = Case()
    c.late(1, 20)
    c.grow(1, "proc", throttled_us=100000)
    return c


@vector("moves")
def late_with_an_idle_gpu():
    """A clock that is low because nothing runs is no cause: the program is late."""
    c = Case()
    c.late(1)
    c.clock(1, 210, reasons=1, busy=0)
    return c


@vector("moves")
def gpus_of_two_kinds():
    c = Case()
    c.late(1)
    c.set(1, "gpu", sm_mhz=1300, sm_max_mhz=1410)
    return c


@vector("unknown")
def late_and_one_gpu_unknown():
    c = hot_gpu()
    c.drop(2, "gpu", "gpu")
    return c


@vector("moves")
def slow_clock_and_nobody_waits():
    c = Case()
    c.moves()
    c.clock(1, 799)
    return c


@vector("moves")
def late_once():
    """Between the snapshots the other one was late, too."""
    c = Case()
    c.late(1)
    c.clock(1, 799)
    c.grow(1, "conn", 0, begun=101)
    return c



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


@vector("culprit 1 process")
def stopped_without_pages_and_a_host_silent():
    """What /proc proves of one process needs no other host."""
    c = stopped_without_pages()
    c.hosts[0]["silent"] = "no answer in 5 s"
    return c


@vector("culprit 1 process")
def stopped_without_pages_and_cgroups():
    c = stopped_without_pages()
    c.hosts[0]["snap"]["why"]["cgroup"] = "not mounted"
    del c.rows(0, "proc")[0]["frozen"]
    return c


@vector("culprit 1 quota")
def frozen_without_pages_of_a_job_of_four():
    c = Case(4, page=0)
    c.set(1, "proc", frozen=1)
    del c.hosts[2:]
    return c


@vector("culprit 1 process 2 quota")
def stopped_and_frozen_without_pages():
    """Neither can go on: each stands for itself."""
    c = Case(3, page=0)
    c.set(1, "thread", 0, state="T")
    c.set(2, "proc", frozen=1)
    return c


@vector("unknown")
def stopped_and_no_rank():
    """Each program that imports torch has NCCL mapped: one that waits at a shell's prompt is no rank."""
    c = stopped_without_pages()
    del c.rows(1, "proc")[0]["rank"]
    return c


@vector("culprit 1 process")
def stopped_rank_of_another_job():
    """It cannot go on; that anybody waits for it, the answer does not say."""
    c = stopped_without_pages()
    c.set(1, "proc", world=4)
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


@vector("culprit 2 process")
def killed_and_other_views_are_old():
    """NCCL asks for nothing after the error: a connection that got a request since shows no stages."""
    c = killed()
    row = c.rows(1, "conn")[1]
    for stage in ("waiting", "granted", "posted", "acked", "receiving", "received", "flushing"):
        del row[stage]
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
    c.owes(1)
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
    c.qps()
    c.recorded(0, "nccl:all_reduce")
    c.recorded(1, "nccl:all_gather")
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
