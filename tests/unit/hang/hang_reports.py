# SPDX-License-Identifier: BSD-3-Clause
"""Public reports of hanging collectives as recorded cases, each with the answer that it must get. Facts that a report
does not give are as a healthy job has them."""
from hang_case import SECOND, Case, lossy, thread, vector


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
    c.dial(0, "198.51.100.7:7000")
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


@vector("culprit -1 program", "ROCm/rccl#429: three ranks in AllReduce 28c, one in AllGather 28c")
def another_function_at_one_place():
    c = rank_local_branch()
    c.set(2, "comm", sequence=28, count=59205120, datatype="ncclInt8")
    return c


@vector("culprit -1 program", "pytorch/pytorch#97191: rank 0 reduces twice as many elements")
def twice_the_elements():
    c = Case()
    for rank in (0, 1):
        c.waits(rank)
        c.set(rank, "comm", count=(2 - rank) * 104857600)
    return c


@vector("culprit -1 program", "pytorch/pytorch#140563: the recorders of two ranks have other sizes at entry 38")
def sizes_in_the_recorders():
    c = Case(page=0)
    c.qps()
    c.recorded(0, "nccl:all_reduce", "[[1025]]", 39)
    c.recorded(1, "nccl:all_reduce", "[[262144]]", 39)
    return c


@vector("unknown", "vllm-project/vllm#23448: all have enqueued 6464, one is at broadcast 5729, the others at 5730")
def as_many_enqueued():
    c = Case(4)
    c.absent(3)
    for rank in range(4):
        c.set(rank, "comm", colls=6464, function="Broadcast", sequence=5730)
    c.idle(3, 40)
    return c


@vector("unknown", "vllm-project/vllm#5484: a gather ran out of time on one rank; its log is all there is")
def timeout_of_one_rank():
    c = Case(page=0)
    c.drop(0, "gpu", "gpu")
    c.recorded(1, "nccl:gather", "[[2867200]]", 158046)
    return c


@vector("culprit 2 gpu", "vllm-project/vllm#8410: the custom all-reduce kernel of rank 2 does not end")
def custom_kernel_spins():
    c = Case(4)
    c.absent(2)
    c.set(2, "comm", colls=8, sequence=7)
    return c


@vector("unknown", "NVIDIA/TensorRT-LLM#2560: rank 3 is in another place; what its GPU does, nobody looked")
def custom_kernel_unseen():
    c = Case(4)
    c.absent(3)
    c.drop(3, "gpu", "gpu")
    return c


@vector("culprit 1 process", "pytorch/pytorch#17113: one process dies, the others wait for ever")
def one_process_dies():
    c = Case()
    c.waits(0)
    c.fails(0, 0)
    c.fails(0, 1)
    c.vanish(1)
    return c


@vector("culprit 1 program", "pytorch/pytorch#50820: out of memory on one device; the others stand at 100 %")
def error_swallowed():
    c = Case()
    c.absent(1)
    c.idle(1)
    return c


@vector("culprit 1 program", "marin-community/marin#7344: one of the ranks is out of step: its main thread is idle")
def main_thread_elsewhere():
    c = Case(4)
    c.absent(1)
    c.idle(1)
    return c


@vector("culprit 1 link", "NVIDIA/nccl#905: error 12, and a log full of port errors: a link that flaps")
def link_flaps():
    c = lossy(False)
    for at in (0, 1):
        c.set(1, "port", at, state="DOWN", carrier=0)
        c.grow(1, "port", at, local_ack_timeout_err=9)
    return c


@vector("culprit 0 qp 1 qp", "NVIDIA/nccl#1405, #902: status 12 over NET/IB: both ends of a queue pair are in error")
def retries_exceeded_without_pages():
    c = Case(page=0)
    c.qps()
    for rank in (0, 1):
        c.set(rank, "qp", state="ERR")
    return c


@vector("culprit 1 qp", "NVIDIA/nccl#1737: GPUDirect: work requests are flushed (error 5)")
def flushed_with_gpudirect():
    c = Case()
    c.sends(1, "posted")
    c.receives(0)
    for at in (0, 1):
        c.set(1, "rail", at, state="trying", why="work request flushed", down_ns=40 * SECOND)
    return c


@vector("culprit 0 bootstrap", "NVIDIA/nccl-tests#15: connection timed out, although an interface was named")
def connection_times_out():
    c = Case(page=0)
    c.qps()
    c.dial(0, "203.0.113.103:40123")
    return c


@vector("unknown", "horovod/horovod#310: connections to docker0 are refused at once, so none is open")
def connection_refused():
    c = Case(page=0)
    c.qps()
    return c


@vector("unknown", "NVIDIA/nccl#582: out of memory in the init of one rank, the others wait in the bootstrap")
def memory_in_init():
    c = Case(4)
    for rank in range(4):
        for table in ("conn", "rail", "comm"):
            c.rows(rank, table).clear()
    return c


@vector("unknown", "NVIDIA/nccl#899: two communicators; threads of several ranks stand in the driver's lock")
def driver_lock():
    c = Case(4)
    for rank in range(4):
        c.receives(rank)
        c.waits_sent(rank)
        c.set(rank, "thread", 0, state="S", wchan="futex_wait_queue")
    return c


@vector("culprit 1 gpu", "NVIDIA/nccl#893: one GPU lags behind all the others; heat is suspected")
def hot_gpu():
    c = Case(4)
    c.late(1)
    c.clock(1, 1100, reasons=0x40)
    return c


@vector("culprit 1 gpu", "Blackwellboy/model-serving-minefield PR 55: a GB10 at 799 MHz, and no bit is set")
def slow_gpu_without_a_reason():
    c = Case()
    c.late(1)
    c.clock(1, 799)
    return c


@vector("moves", "NVIDIA/nccl#329: one rank has a long tail of work after each all-reduce, its GPU is as fast")
def uneven_work():
    c = Case()
    c.late(1)
    return c
