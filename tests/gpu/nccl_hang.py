#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""hang [CASE...] [--net NET] [--keep FOLDER]: two ranks of torch.distributed, a GPU each, over the software ConnectX,
that hang for a known cause; spinwire-doctor hang must name the rank and the layer, or say that it does not know, and
never name another. NET is NCCL's: spinwire (default), IB, Socket; with the last two no live page exists.

  healthy   all_reduce for ever
  skipped   rank 1 does not come to the last all_reduce
  stopped   rank 1 gets SIGSTOP
  absent    rank 1 has joined and makes no call
  size      the last all_reduce is of unlike sizes
  unlike    rank 1's last call is another
  swapped   the last two calls come in another order on rank 1
  kernel    a kernel that takes a minute runs before rank 1's last all_reduce
  graph     the same, both in a captured graph
  event     rank 1's stream waits before its last all_reduce for what nobody does"""
import argparse
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from nccl_pair import ENV, HERE, free_port

# outcome, and what a culprit must be: (rank, layers)
CASES = {"healthy": ("moves", None), "skipped": ("culprit", (1, "program")), "stopped": ("culprit", (1, "process")),
         "absent": ("culprit", (1, "program")), "size": ("culprit", (None, "program")),
         "unlike": ("culprit", (None, "program")), "swapped": ("culprit", (None, "program")),
         "kernel": ("culprit", (1, "gpu")), "graph": ("culprit", (1, "gpu")), "event": ("culprit", (1, "gpu"))}
SETTLE_S = 3
LISTEN_S = 8  # a connection that is not made after 10 s is missing
MINUTE_CYCLES = 60 * 1_700_000_000


def stream_wait(torch):
    """The current stream waits for a word of host memory that nobody writes."""
    word = torch.zeros(1, dtype=torch.int32).pin_memory()
    wait = ctypes.CDLL("libcuda.so.1").cuStreamWaitValue32_v2
    wait.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint]
    if wait(torch.cuda.current_stream().cuda_stream, word.data_ptr(), 1, 0):
        raise RuntimeError("cuStreamWaitValue32")
    return word


def last_graph(torch, dist, data, first):
    """A graph of the last call is captured and launched; what first() enqueues stands before it."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first()
        dist.all_reduce(data)
    graph.replay()
    torch.cuda.synchronize()


def last_calls(torch, dist, rank, case, data):
    gathered = torch.empty(2 * data.numel(), device="cuda")
    small = data[:1024]
    calls = [lambda: dist.all_reduce(small if case == "swapped" else data),
             lambda: dist.all_gather_into_tensor(gathered, data)]
    if case == "size":
        calls = [lambda: dist.all_reduce(data[:1 << 16 + rank])]
    elif case == "unlike":
        calls = [calls[rank]]
    elif case == "swapped":
        calls = calls[::-1] if rank else calls
    else:
        calls = calls[:1]
    for call in calls:
        call()


def rank_main(rank, case):
    import torch
    import torch.distributed as dist
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    data = torch.ones(1 << 18, device="cuda")
    for _ in range(0 if case == "absent" else 5):
        dist.all_reduce(data)
    torch.cuda.synchronize()
    print("ready", flush=True)
    until = time.monotonic() + 60
    while case in ("healthy", "stopped") and time.monotonic() < until:
        dist.all_reduce(data)
        torch.cuda.synchronize()
    if case in ("skipped", "absent") and rank == 1:
        time.sleep(60)
    if case == "graph":
        last_graph(torch, dist, data, (lambda: torch.cuda._sleep(MINUTE_CYCLES)) if rank else lambda: None)
        return
    if case == "kernel" and rank == 1:
        torch.cuda._sleep(MINUTE_CYCLES)  # it ends by itself
    word = stream_wait(torch) if case == "event" and rank == 1 else None
    last_calls(torch, dist, rank, case, data)
    if word is None:
        torch.cuda.synchronize()
    time.sleep(60)  # also where the call came back, with bytes of another
    if word is not None:
        word[0] = 1


def start(rank, port, case, net, folder):
    """The process of a rank, in a group of its own."""
    words = [os.path.join(HERE, "with-softhca"), "--cable", f"shm:hang{port}", "--devices", "1", sys.executable,
             os.path.abspath(__file__), "--rank", str(rank), "--port", port, case]
    with open(os.path.join(folder, f"{case}.{rank}.log"), "w", encoding="utf-8") as log:
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True, env={
            **os.environ, **ENV, "NCCL_NET": net, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": str(rank),
            "WORLD_SIZE": "2", "SPW_SOFTHCA_LIB": os.path.join(HERE, "new.so"),
            "NCCL_DEBUG_FILE": os.path.join(folder, f"{case}.{rank}.nccl"),  # else it goes to stdout
            "LD_LIBRARY_PATH": f"{HERE}/lib:{os.environ.get('LD_LIBRARY_PATH', '')}"})


def log_tail(folder, case):
    texts = []
    for rank in (0, 1):
        with open(os.path.join(folder, f"{case}.{rank}.log"), encoding="utf-8", errors="replace") as log:
            texts.append(log.read()[-1500:])
    return "\n".join(texts)


def stop_rank(port):
    """The process that is rank 1, not the shell that started it."""
    found = subprocess.run(["pgrep", "-f", f"nccl_hang.py --rank 1 --port {port}"], capture_output=True, text=True,
                           check=True)
    for pid in found.stdout.split():
        os.kill(int(pid), signal.SIGSTOP)


def ask(folder, case):
    path = os.path.join(folder, f"{case}.json")
    subprocess.run([os.path.join(HERE, "spinwire-doctor"), "hang", "--save", os.path.join(folder, f"{case}.case"),
                    "--json", path], check=False, env={**os.environ, "LD_LIBRARY_PATH": f"{HERE}/lib"})
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def judge(case, answer):
    """"right", "unknown", or "WRONG"."""
    outcome, culprit = CASES[case]
    if answer["outcome"] == "unknown":
        return "unknown"
    if answer["outcome"] != outcome:
        return "WRONG"
    named = [(one["rank"], one["layer"]) for one in answer["verdicts"]] if culprit else []
    right = all(layer in culprit[1].split() and culprit[0] in (None, rank) for rank, layer in named)
    return "right" if right else "WRONG"


def run(case, net, folder):
    port = free_port()
    ranks = [start(rank, port, case, net, folder) for rank in (0, 1)]
    try:
        for process in ranks:
            if process.stdout.readline().strip() != "ready":
                print(log_tail(folder, case))
                return "did not start"
        time.sleep(LISTEN_S if case == "absent" else SETTLE_S)
        if case == "stopped":
            stop_rank(port)
            time.sleep(SETTLE_S)
        return judge(case, ask(folder, case))
    finally:
        for process in ranks:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="*", default=list(CASES))
    parser.add_argument("--net", default="spinwire", choices=["spinwire", "IB", "Socket"])
    parser.add_argument("--keep", help="a folder for the saved cases and the logs")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank is not None:
        rank_main(args.rank, args.case[0])
        os._exit(0)  # a communicator that hangs is not waited for
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the ranks are in groups of their own
    got = {}
    if args.keep:
        os.makedirs(args.keep, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="spw-hang-") as folder:
        for case in args.case:
            print(f"-- {case}, {args.net}", flush=True)
            got[case] = run(case, args.net, args.keep or folder)
    print(f"{args.net}: " + ", ".join(f"{case} {result}" for case, result in got.items()))
    return 1 if {"WRONG", "did not start"} & set(got.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
