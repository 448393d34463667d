#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""nccl_ranks.py RANK RANKS PORT JSON: one rank of torch.distributed; each has a GPU of its own. Every network is a
communicator of its own in the same processes, so that they take turns: `nets` of JSON are [NAME, NCCL's name of the
network, rails or null].

  pairs    {"ops": {op: [bytes...]}, "rounds": N}: medians of each net's times, in turn; all bytes compared first
  endure   {"op", "bytes", "seconds"}: all nets at the same time, back to back, all bytes compared each time; when each
  took how long.
           "neighbours": RULE, and the library's PATH in "library": UCX and a raw port with that flow rule on rank 0's
           devices meanwhile
  cpu      {"op", "bytes", "calls"}: each net back to back; CPU time of each thread over elapsed time

Rank 0 prints one JSON object a line."""
import ctypes
import glob
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

RANKS = int(sys.argv[2])


def say(**what):
    print(json.dumps(what), flush=True)


def pattern(rank, count, salt=0):
    return (torch.arange(count, dtype=torch.int32, device='cuda') * 2654435 + (rank + 1) * 77777 + salt
            * 1299721).to(torch.int32)


def same(have, want, what):
    if not torch.equal(have, want):
        bad = (have != want).nonzero()[0].item()
        raise SystemExit(f'WRONG BYTES: {what}, element {bad}: {have[bad].item()} instead of {want[bad].item()}')


# Each op: (buffers of its size, the call, the check, bus bandwidth over algorithm bandwidth as nccl-tests defines it).
class Op:
    def __init__(self, name, size, rank, group):
        self.name, self.rank, self.group = name, rank, group
        self.count = max(size // 4 // RANKS, 1) * RANKS
        self.part = self.count // RANKS
        self.mine = pattern(rank, self.part if name == 'all_gather' else self.count)
        self.out = torch.zeros(self.part if name == 'reduce_scatter' else self.count, dtype=torch.int32, device='cuda')
        self.bytes = self.count * 4
        self.factor = {'all_reduce': 2 * (RANKS - 1) / RANKS, 'broadcast': 1,
                       'sendrecv': 1}.get(name, (RANKS - 1) / RANKS)
        self.next, self.previous = (rank + 1) % RANKS, (rank - 1) % RANKS
        self.fence = torch.zeros(1, device='cuda')

    def salt(self, salt):
        self.mine = pattern(self.rank, self.mine.numel(), salt)
        self.out.zero_()

    def call(self):
        if self.name == 'all_gather':
            dist.all_gather_into_tensor(self.out, self.mine, group=self.group)
        elif self.name == 'all_reduce':
            dist.all_reduce(self.out, group=self.group)
        elif self.name == 'broadcast':
            dist.broadcast(self.out, 0, group=self.group)
        elif self.name == 'reduce_scatter':
            dist.reduce_scatter_tensor(self.out, self.mine, group=self.group)
        elif self.name == 'all_to_all':
            dist.all_to_all_single(self.out, self.mine, group=self.group)
        else:
            for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, self.mine, self.next, group=self.group),
                                                dist.P2POp(dist.irecv, self.out, self.previous, group=self.group)]):
                work.wait()

    def before(self):
        """all_reduce and broadcast work in place."""
        if self.name == 'all_reduce' or (self.name == 'broadcast' and self.rank == 0):
            self.out.copy_(self.mine)
        else:
            self.out.zero_()

    def check(self, salt=0):
        own = [pattern(r, self.mine.numel(), salt) for r in range(RANKS)]
        total, part = sum(own[1:], own[0]), slice(self.rank * self.part, (self.rank + 1) * self.part)
        want = {'all_gather': lambda: torch.cat(own), 'all_reduce': lambda: total,
                'broadcast': lambda: own[0],
                'reduce_scatter': lambda: total[part],
                'all_to_all': lambda: torch.cat([o[part] for o in own]),
                'sendrecv': lambda: own[self.previous]}[self.name]()
        same(self.out, want, f'{self.name}, {self.bytes} bytes, rank {self.rank}')

    def prove(self, salt=0):
        self.salt(salt)
        self.before()
        self.call()
        torch.cuda.synchronize()
        self.check(salt)


def repeats(size):
    return 20 if size <= 65536 else 10 if size <= 1 << 20 else 4 if size <= 8 << 20 else 2 if size <= 32 << 20 else 1


def timed(op, cnt):
    """The time of the slowest rank, from a common start. The root of a broadcast is done when NCCL's buffers hold the
    bytes, of which the network may have sent nothing: what it leaves behind would count for the network that is
    measured next."""
    op.call()
    dist.all_reduce(op.fence, group=op.group) # done at each rank only when all have come to it
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(cnt):
        op.call()
    torch.cuda.synchronize()
    took = torch.tensor((time.perf_counter() - start) / cnt, dtype=torch.float64)
    dist.all_reduce(took, op=dist.ReduceOp.MAX) # over the default group, which is gloo
    return took.item()


def pairs(rank, groups, todo):
    for name, sizes in todo['ops'].items():
        for size in sizes:
            ops = {net: Op(name, size, rank, group) for net, group in groups.items()}
            times = {net: [] for net in ops}
            for op in ops.values():
                op.prove(size)
            for _ in range(todo['rounds']):
                for net, op in ops.items():
                    op.before()
                    times[net].append(timed(op, repeats(size)))
            for net, op in ops.items():
                mid = statistics.median(times[net])
                if rank == 0:
                    say(kind='pairs', op=name, bytes=op.bytes, net=net, us=mid * 1e6, least_us=min(times[net]) * 1e6,
                        most_us=max(times[net]) * 1e6, busbw=op.bytes * op.factor / mid / 1e9)
            base = next(iter(ops))
            if rank == 0: # the ratio of each round's pair: what the machine does in a round hits both
                for net in list(ops)[1:]:
                    ratio = [b / a for a, b in zip(times[base], times[net])]
                    say(kind='ratio', op=name, bytes=ops[base].bytes, net=base, over=net,
                        busbw_ratio=statistics.median(ratio),
                        least=min(ratio), most=max(ratio))


class Neighbours:
    """UCX and two raw Ethernet ports in a thread of this process (tests/e2e/ncclnet/neighbours_thread.c)."""
    def __init__(self, todo):
        self.lib, self.rule = ctypes.CDLL(todo['library']), todo['neighbours'].encode()
        if self.lib.neighbours_thread_start(self.rule):
            raise SystemExit('no thread for the neighbours')

    def stop(self):
        passed = (ctypes.c_uint64 * 3)()
        if self.lib.neighbours_thread_stop(passed):
            raise SystemExit(f'neighbours, {self.rule.decode()}: what they sent and what arrived differ')
        say(kind='neighbours', rule=self.rule.decode(), frames=passed[0], messages=passed[1], message_bytes=passed[2])


def together(ops, streams):
    """A call of each net, all under way at the same time."""
    for op, stream in zip(ops, streams):
        with torch.cuda.stream(stream):
            op.call()
    torch.cuda.synchronize()


def endure(rank, groups, todo):
    ops = [Op(todo['op'], todo['bytes'], rank, group) for group in groups.values()]
    streams = [torch.cuda.Stream() for _ in ops]
    for op in ops:
        op.prove()
    neighbours = Neighbours(todo) if rank == 0 and 'neighbours' in todo else None
    if rank == 0:
        say(kind='ready', at=time.time())
    rows, salt, go = [], 0, torch.ones(1, dtype=torch.int32, device='cuda')
    end = time.time() + todo['seconds']
    while True:
        for op in ops:
            salt += 1
            op.salt(salt)
            op.before()
        torch.cuda.synchronize()
        at, start = time.time(), time.perf_counter()
        together(ops, streams)
        rows.append((at, time.perf_counter() - start))
        for i, op in enumerate(ops):
            op.check(salt + 1 - len(ops) + i)
        go.fill_(int(time.time() < end)) # rank 0 decides for all
        dist.broadcast(go, 0, group=ops[0].group)
        if not go.item():
            break
    if rank == 0:
        say(kind='endured', nets=list(groups), op=ops[0].name, bytes=ops[0].bytes, calls=len(rows), rows=rows)
    if neighbours:
        neighbours.stop()


def thread_cpu():
    total = {}
    for path in glob.glob('/proc/self/task/*/stat'):
        try:
            with open(path, encoding='utf8') as f:
                text = f.read()
        except OSError:
            continue
        name, rest = text[text.index('(') + 1:text.rindex(')')], text[text.rindex(')') + 2:].split()
        total[f'{name} {path.split("/")[4]}'] = (int(rest[11]) + int(rest[12])) / os.sysconf('SC_CLK_TCK')
    return total


def cpu(rank, groups, todo):
    for net, group in groups.items():
        op = Op(todo['op'], todo['bytes'], rank, group)
        op.prove()
        before, start = thread_cpu(), time.perf_counter()
        for _ in range(max(1, int(todo['calls']))):
            op.call()
        torch.cuda.synchronize()
        after, took = thread_cpu(), time.perf_counter() - start
        used = {name: after[name] - before.get(name, 0) for name in after if after[name] - before.get(name, 0) > 0.02
                * took}
        if rank == 0:
            say(kind='cpu', net=net, op=op.name, bytes=op.bytes, seconds=took,
                threads={name: value / took for name, value in used.items()})


def groups_of(nets):
    """A communicator each. The plugin reads its variables when one begins."""
    groups = {}
    for name, net, rails in nets:
        os.environ.pop('NCCL_SPINWIRE_RAILS', None)
        if rails:
            os.environ['NCCL_SPINWIRE_RAILS'] = rails
        options = dist.ProcessGroupNCCL.Options()
        options.config.net_name = net
        groups[name] = dist.new_group(list(range(RANKS)), backend='nccl', pg_options=options)
        first = torch.ones(4, device='cuda')
        dist.all_reduce(first, group=groups[name])
        torch.cuda.synchronize()
        assert first[0].item() == RANKS
    return groups


def main():
    rank, port, todo = int(sys.argv[1]), sys.argv[3], json.loads(sys.argv[4])
    torch.cuda.set_device(rank)
    dist.init_process_group('gloo', init_method=f'tcp://127.0.0.1:{port}', rank=rank, world_size=RANKS)
    groups = groups_of(todo['nets'])
    for step in todo['steps']:
        {'pairs': pairs, 'endure': endure, 'cpu': cpu}[step['do']](rank, groups, step)
    dist.destroy_process_group()
    if rank == 0:
        say(kind='end')


main()
