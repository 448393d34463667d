#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""nccl_gather.py RANK PORT BYTES...: one of two ranks of NCCL's all_gather; each has a GPU of its own. BYTES is the
size of the gathered tensor. All bytes are compared once. Rank 0 prints a line a size: bytes, microseconds (median), bus
bandwidth in GB/s."""
import statistics
import sys
import time

import torch
import torch.distributed as dist

RANKS, WARM, TIMED = 2, 5, 20


def pattern(rank, count):
    return (torch.arange(count, dtype=torch.int32, device='cuda') * 2654435 + rank * 77777).to(torch.int32)


def main():
    rank, port = int(sys.argv[1]), sys.argv[2]
    torch.cuda.set_device(rank)
    dist.init_process_group('nccl', init_method=f'tcp://127.0.0.1:{port}', rank=rank, world_size=RANKS)
    for size in map(int, sys.argv[3:]):
        count = size // RANKS // 4
        mine = pattern(rank, count)
        whole = torch.zeros(count * RANKS, dtype=torch.int32, device='cuda')
        times = []
        for i in range(WARM + TIMED):
            dist.barrier()
            torch.cuda.synchronize()
            start = time.perf_counter()
            dist.all_gather_into_tensor(whole, mine)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        for peer in range(RANKS):
            assert torch.equal(whole[peer * count:(peer + 1) * count],
                               pattern(peer, count)), f'wrong bytes from rank {peer}'
        mid = statistics.median(times[WARM:])
        if rank == 0:
            print(f'{size} {mid * 1e6:.1f} {size * (RANKS - 1) / RANKS / mid / 1e9:.3f}', flush=True)
    dist.destroy_process_group()


main()
