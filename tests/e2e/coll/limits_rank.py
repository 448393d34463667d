#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""limits_rank.py RANK RANKS DEVICE PORT: one rank of tensors_test.py. Ranks vote before they use a group, and agree on
the size up to which it is faster, although one of them cannot, or measures something else."""
import os
import sys

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', 'lib', 'coll', 'python'))
import spinwire_coll  # noqa: E402  (found by the line above)
import spinwire_limits  # noqa: E402


class Rank:
    def __init__(self, rank, ranks, device, exchange):
        self.rank, self.ranks, self.device, self.exchange = rank, ranks, device, exchange

    def group(self, exchange, **more):
        conf = {'exchange': exchange, 'rails': self.device, 'bind': '127.0.0.1:0', 'timeout_ms': 20000, **more}
        return spinwire_coll.Group(self.rank, self.ranks, **conf)

    def alike(self, what):
        """The same on every rank."""
        everyone = self.exchange(repr(what).encode())
        if len(set(everyone)) != 1:
            raise SystemExit(f'WRONG: ranks differ: {everyone}')
        return what

    def refused(self, open_group, text):
        """All fall back for the same reason, and can vote again."""
        group, why = spinwire_limits.open_together(open_group, self.exchange)
        if group or text not in self.alike(why):
            raise SystemExit(f'WRONG: {group}, {why}')


def early(one):
    """Rank 1 cannot even begin."""
    def open_group(exchange):
        if one.rank == 1:
            raise OSError('no library here')
        return one.group(exchange)
    one.refused(open_group, 'rank 1: no library here')


def between(one):
    """Rank 1 has no such device, which it finds before it exchanges anything; or fails when it has exchanged addresses,
    and the others wait for it."""
    one.refused(lambda exchange: one.group(exchange, rails='mlx5_99' if one.rank == 1 else one.device),
                'rank 1: rank 1 of')

    def failing(exchange):
        def call(mine):
            exchange(mine)
            raise OSError('no memory')
        return call
    one.refused(lambda exchange: one.group(failing(exchange) if one.rank == 1 else exchange, join_ms=2000), 'rank ')


def late(one):
    """Rank 1 fails when the others' groups are open."""
    closed = []

    class Counted(spinwire_coll.Group):
        def close(self):
            closed.append(self)
            super().close()

    def open_group(exchange):
        with_group = Counted(one.rank, one.ranks, exchange=exchange, rails=one.device, bind='127.0.0.1:0')
        if one.rank == 1:
            with_group.close()
            raise OSError('no kernel loads')
        return with_group
    one.refused(open_group, 'rank 1: no kernel loads')
    if not closed:
        raise SystemExit('WRONG: the group stays open')


class Clock:
    """Real calls that take the time a test says."""

    def __init__(self):
        self.now = 0

    def read(self):
        return self.now

    def spend(self, call, us):
        def spent(x):
            self.now += us(x.nbytes) / 1e6
            return call(x)
        return spent


def limit_by(one, group, ours, other):
    clock = Clock()
    real = group.all_reduced
    group.all_reduced = clock.spend(real, ours)
    try:
        limit, line = spinwire_limits.faster_up_to(group, one.exchange, clock.spend(real, other),
                                                   lambda size: numpy.zeros(size // 4, 'float32'), clock=clock.read)
    finally:
        group.all_reduced = real
    return one.alike(limit), one.alike(line)


def check_limits(one, group):
    def expect(limit, text, ours, other):
        got = limit_by(one, group, ours, other)
        if got[0] != limit or text not in got[1]:
            raise SystemExit(f'WRONG: {got} instead of {limit}, {text}')
    # Alone rank 0 would say 64 KB, the others 16 KB.
    expect(16384, 'up to 16 KB; us, spinwire/other: 1 KB 10/40, ',
           lambda size: 10 if size <= (65536 if one.rank == 0 else 16384) else 50, lambda size: 40)
    # Faster again above: not counted.
    expect(2048, 'up to 2 KB', lambda size: 50 if size == 4096 else 10, lambda size: 40)
    expect(0, 'never', lambda size: 41, lambda size: 40)
    expect(2 << 20, 'up to 2 MB', lambda size: 1, lambda size: 2)


def check_measured(one, group):
    """By the real clock, whatever it finds; then one rank's group ends meanwhile."""
    def make(size):
        return numpy.zeros(size // 4, 'float32')

    def lost(x):
        if one.rank == 1:
            group.abort()
        return group.all_reduced(x)
    limit, line = spinwire_limits.faster_up_to(group, one.exchange, lambda x: [group.all_reduced(x) for _ in 'ab'],
                                               make)
    one.alike((limit, line))
    limit, line = spinwire_limits.faster_up_to(group, one.exchange, lost, make)
    if one.alike(limit) or 'rank' not in one.alike(line):
        raise SystemExit(f'WRONG: {limit}, {line}')


spinwire_limits.ROW, spinwire_limits.TURNS = 2, 1  # of what is measured here only the decision counts


def main():
    rank, ranks = map(int, sys.argv[1:3])
    device, port = sys.argv[3:]
    exchange = spinwire_coll.TcpExchange(f'127.0.0.1:{port}', rank, ranks)
    one = Rank(rank, ranks, device, exchange)
    for case in (early, between, late):
        case(one)
    group, why = spinwire_limits.open_together(one.group, exchange)
    if not group:
        raise SystemExit(f'WRONG: {why}')
    check_limits(one, group)
    check_measured(one, group)
    group.close()
    exchange.close()
    print('good: votes and limits', flush=True)


main()
