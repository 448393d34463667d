#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""coll_time.py RANK RANKS PORT cuda|cpu: how long an all_reduce of bf16 takes, one-shot and by NCCL, in turn. A rank
has one GPU. Rank 0 prints a JSON line a size: microseconds from the call to the end of a synchronize (p50, p99), and a
call within a row of calls in a stream (median). cpu: one-shot by the cpu executor alone, without torch."""
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import spinwire_coll  # noqa: E402  (found by the line above)

SIZES = [1 << 10, 4 << 10, 8 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20]
WARM, BLOCKS, IN_BLOCK, ROW = 20, 10, 60, 20


def p(times, share):
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


class Cpu:
    """Calls on buffers of the CPU."""
    ways = ['one-shot']

    def __init__(self, group, size):
        self.group, self.data, self.out = group, bytearray(size), bytearray(size)
        self.data[:] = b'\x80\x3f' * (size // 2)  # 1.0

    def call(self, _):
        self.group.all_reduce(self.data, out=self.out, dtype='bf16')

    def sync(self):
        pass

    def check(self):
        assert self.out[:2] == b'\x00\x40' and self.out == self.out[:2] * (len(self.out) // 2), 'wrong sum'

    def row(self, way):
        start = time.perf_counter()
        for _ in range(ROW):
            self.call(way)
        return (time.perf_counter() - start) * 1e6 / ROW


class Cuda:
    """The same in torch's current stream. NCCL reduces in place, so it gets zeros."""
    ways = ['nccl', 'one-shot', 'graph']

    def __init__(self, group, size):
        import torch  # pylint: disable=import-outside-toplevel
        import torch.distributed as dist  # pylint: disable=import-outside-toplevel
        self.torch, self.dist, self.group = torch, dist, group
        self.data = torch.full((size // 2,), 1 + group.rank, dtype=torch.bfloat16, device='cuda')
        self.out = torch.zeros_like(self.data)
        self.zeros = torch.zeros_like(self.data)
        self.sum = sum(range(1, group.ranks + 1))
        self.one_shot()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode='thread_local'):
            self.one_shot()

    def one_shot(self):
        self.group.all_reduce(self.data, out=self.out)

    def call(self, way):
        if way == 'nccl':
            self.dist.all_reduce(self.zeros)
        elif way == 'graph':
            self.graph.replay()
        else:
            self.one_shot()

    def sync(self):
        self.torch.cuda.synchronize()
        self.group.check()

    def check(self):
        again = self.data.clone()
        self.dist.all_reduce(again)
        self.sync()
        assert bool((self.out == self.sum).all()) and bool((again == self.sum).all()), 'wrong sum'
        self.out.zero_()

    def row(self, way):
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(ROW):
            self.call(way)
        end.record()
        self.sync()
        return begin.elapsed_time(end) * 1e3 / ROW


def measure(side):
    times, rows = {way: [] for way in side.ways}, {way: [] for way in side.ways}
    for way in side.ways:
        for _ in range(WARM):
            side.call(way)
        side.sync()
    side.check()
    for _ in range(BLOCKS):
        for way in side.ways:
            for _ in range(IN_BLOCK):
                start = time.perf_counter()
                side.call(way)
                side.sync()
                times[way].append((time.perf_counter() - start) * 1e6)
            rows[way].append(side.row(way))
    side.check()
    return {way: {'p50': p(times[way], 0.5), 'p99': p(times[way], 0.99), 'row': statistics.median(rows[way])}
            for way in side.ways}


def main():
    rank, ranks, port = map(int, sys.argv[1:4])
    device = sys.argv[4]
    if device == 'cuda':
        import torch  # pylint: disable=import-outside-toplevel
        import torch.distributed as dist  # pylint: disable=import-outside-toplevel
        torch.cuda.set_device(0)
        torch.zeros(1, device='cuda')
        dist.init_process_group('nccl', init_method=f'tcp://127.0.0.1:{port}', rank=rank, world_size=ranks)
    with spinwire_coll.Group(rank, ranks, root=f'127.0.0.1:{port + 1}', device=device, rails='mlx5_0',
                             bind='127.0.0.1:0') as group:
        for size in SIZES:
            result = measure((Cuda if device == 'cuda' else Cpu)(group, size))
            if rank == 0:
                print(json.dumps({'bytes': size, **result}), flush=True)
    if device == 'cuda':
        dist.destroy_process_group()


main()
