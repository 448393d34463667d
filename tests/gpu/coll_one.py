#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""coll_one.py PORT: one-shot collectives between two ranks on one GPU, in one process: each rank has a group, a
software device and a stream of its own. First every bit: three types, lengths around cells and CTAs, aligned and not,
both kinds of call. Then how long an all_reduce of bf16 takes in a captured graph of calls: launched one by one they
would wait for Python. At last two ranks that call for different operations. Run it under `tools/with-softhca --devices
2`."""
import os
import statistics
import sys
import threading

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import spinwire_coll  # noqa: E402  (found by the line above)

RANKS = (0, 1)
ROW, WARM, ROUNDS = 20, 6, 30
COUNTS = [1, 7, 8, 511, 512, 513, 4096, 8192, 8193, 16384, 40000, 262144]
SIZES = [1 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10]


def both(what):
    """what(rank) in a thread each: ranks wait for each other."""
    threads = [threading.Thread(target=what, args=(rank,)) for rank in RANKS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Pair:
    def __init__(self, port):
        self.groups = [None, None]
        both(lambda rank: self.open(rank, port))
        if None in self.groups:
            raise SystemExit('no group')
        self.streams = [torch.cuda.Stream() for _ in RANKS]

    def open(self, rank, port):
        torch.cuda.set_device(0)
        self.groups[rank] = spinwire_coll.Group(rank, 2, root=f'127.0.0.1:{port}', device='cuda', rails=f'mlx5_{rank}',
                                                bind='127.0.0.1:0')

    def call(self, kind, out, data):
        for rank in RANKS:
            with torch.cuda.stream(self.streams[rank]):
                if kind == 'reduce':
                    self.groups[rank].all_reduce(data[rank], out=out[rank])
                else:
                    self.groups[rank].all_gather(out[rank], data[rank])

    def done(self):
        torch.cuda.synchronize()
        for group in self.groups:
            group.check()

    def close(self):
        both(lambda rank: self.groups[rank].close())


def bits(pair, kind, dtype, count, shift):
    """One call on tensors that begin `shift` elements behind an aligned address."""
    data = [torch.randn(count + shift, device='cuda').to(dtype)[shift:] for _ in RANKS]
    want = (data[0].float() + data[1].float()).to(dtype) if kind == 'reduce' else torch.cat(data)
    out = [torch.zeros(want.numel() + shift, dtype=dtype, device='cuda')[shift:] for _ in RANKS]
    torch.cuda.synchronize()
    pair.call(kind, out, data)
    pair.done()
    for rank in RANKS:
        if not torch.equal(out[rank], want):
            raise SystemExit(f'WRONG BITS: {kind} of {count} {dtype}, shifted by {shift}, rank {rank}')


def differ(pair, count):
    """Ranks that ask for different things learn it, and nothing is written."""
    data = [torch.ones(count, device='cuda') for _ in RANKS]
    out = [torch.zeros(count, device='cuda') for _ in RANKS]
    torch.cuda.synchronize()
    for rank, op in zip(RANKS, ('sum', 'max')):
        with torch.cuda.stream(pair.streams[rank]):
            pair.groups[rank].all_reduce(data[rank], out=out[rank], op=op)
    torch.cuda.synchronize()
    for rank in RANKS:
        try:
            pair.groups[rank].check()
            raise SystemExit(f'rank {rank}: a sum and a maximum, and no error')
        except spinwire_coll.Error as why:
            print(f'rank {rank}, {count} elements: {why}', flush=True)
        if out[rank].any():
            raise SystemExit(f'rank {rank}: the output of a call that failed was written')


def captured(pair, out, data):
    graphs = [torch.cuda.CUDAGraph() for _ in RANKS]
    for rank in RANKS:
        with torch.cuda.graph(graphs[rank], stream=pair.streams[rank], capture_error_mode='thread_local'):
            for _ in range(ROW):
                pair.groups[rank].all_reduce(data[rank], out=out[rank])
    torch.cuda.synchronize()
    return graphs


def replay(pair, graphs):
    """Microseconds a call, by the GPU's clock on rank 0's stream."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record(pair.streams[0])
    for rank in RANKS:
        with torch.cuda.stream(pair.streams[rank]):
            graphs[rank].replay()
    end.record(pair.streams[0])
    pair.done()
    return begin.elapsed_time(end) * 1e3 / ROW


def time_of(pair, size):
    data = [torch.full((size // 2,), 1 + rank, dtype=torch.bfloat16, device='cuda') for rank in RANKS]
    out = [torch.zeros_like(one) for one in data]
    torch.cuda.synchronize()
    graphs = captured(pair, out, data)
    return statistics.median([replay(pair, graphs) for _ in range(ROUNDS)][WARM:])


def main():
    torch.cuda.set_device(0)
    torch.zeros(1, device='cuda')
    pair, calls = Pair(int(sys.argv[1])), 0
    for kind in ('reduce', 'gather'):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            for count in COUNTS:
                for shift in (0, 1):
                    bits(pair, kind, dtype, count, shift)
                    calls += 1
    print(f'{calls} calls, every bit right on both ranks', flush=True)
    for size in SIZES:
        print(f'{size:8} bytes: {time_of(pair, size):6.1f} us a call', flush=True)
    pair.close()
    for i, count in enumerate((100, 40000)):  # one CTA, and many
        pair = Pair(int(sys.argv[1]) + 1 + i)
        differ(pair, count)
        pair.close()


main()
