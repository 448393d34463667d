#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rank.py RANK RANKS DEVICE PORT PORT_AGAIN SECRET: a rank that reduces until its group ends, says how, and opens
another with the ranks that are left. Every bit of every sum is compared. ranks_test.py does harm to some of them."""
import array
import ctypes
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', 'lib', 'coll', 'python'))
import spinwire_coll  # noqa: E402  (found by the line above)

COUNT, AGAIN = 37, 200
F32 = ctypes.c_float


def numbers(rank, turn):
    """Thirds, so that sums are rounded and their order matters."""
    return array.array('f', [(rank + 1) * (turn % 1000 + i + 1) / 3 for i in range(COUNT)])


def total(ranks, turn):
    parts = [numbers(rank, turn) for rank in range(ranks)]
    sums = list(parts[0])
    for part in parts[1:]:
        sums = [F32(a + b).value for a, b in zip(sums, part)]
    return array.array('f', sums)


def turns(group, count, said=lambda turn: None):
    turn = 0
    while turn != count:
        data = numbers(group.rank, turn)
        group.all_reduce(data, dtype='f32')
        if data != total(group.ranks, turn):
            print(f'WRONG in turn {turn}: {data[0]} {total(group.ranks, turn)[0]}', flush=True)
            sys.exit(1)
        turn += 1
        said(turn)


def open_group(rank, ranks, device, port, secret):
    return spinwire_coll.Group(rank, ranks, root=f'127.0.0.1:{port}', rails=device, bind='127.0.0.1:0', secret=secret,
                               timeout_ms=5000,
                               join_ms=20000, bytes_max=65536)


def main():
    rank, ranks = map(int, sys.argv[1:3])
    device, port, again, secret = sys.argv[3:7]
    last = [time.monotonic()]

    def said(turn):
        last[0] = time.monotonic()
        if turn == 50:
            print('under way', flush=True)

    try:
        with open_group(rank, ranks, device, port, secret) as group:
            turns(group, -1, said)
    except spinwire_coll.Error as why:
        print(f'ended after {time.monotonic() - last[0]:.2f} s, lost {why.lost}: {why}', flush=True)
        left = [r for r in range(ranks) if r not in why.lost]
        if rank in left and why.lost:
            with open_group(left.index(rank), len(left), device, again, secret) as group:
                turns(group, AGAIN)
            print('again', flush=True)


main()
