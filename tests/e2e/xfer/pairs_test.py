#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""pairs_test.py PEER CASE: two processes of lib/xfer (peer.c) whose devices face each other in another order than that
of their numbers, or not at all. The rails that there are come up; one line of each end says what is left out, and
why."""
import contextlib
import os
import re
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'softhca'))
import peers  # noqa: E402  (found by the line above)

PEER = sys.argv[1]
WAIT_S = 60


class End:
    """A peer whose device i is on the i-th of these cables (letters), with the i-th of these addresses."""

    def __init__(self, folder, cables, ips, role, *args):
        names = '+'.join(f'shm:spwt-{os.getpid()}-{c}' for c in cables)
        devices = [f'mlx5_{i}' for i in range(len(cables))]
        argv = peers.Fabric(cable=names).argv([PEER, role, '+'.join(devices), *args], '--name', ','.join(devices),
                                              '--ip', ips,
                                              '--control', os.path.join(folder, role))
        self.control = os.path.join(folder, role)
        self.proc = peers.Proc(argv, role, {**peers.env(), 'SPW_TEST_EXCHANGE_MS': '20000'})

    def said(self, pattern):
        return re.findall(pattern, self.proc.output(), re.M)

    def wait(self, pattern):
        self.proc.wait_for(lambda: self.said(pattern), time.monotonic() + WAIT_S)
        if self.said('^wrong'):
            raise peers.Failed(self.said('^wrong.*')[0])
        return self.said(pattern)[-1]

    def wait_messages(self, cnt):
        self.proc.wait_for(lambda: int((self.said(r'^messages (\d+)') or [0])[-1]) >= cnt, time.monotonic() + WAIT_S)


def pair(folder, server, client, rails):
    """Both ends, as (cables, addresses); messages flow over so many rails."""
    ends = [End(folder, *server, 'serve', '127.0.0.1:0')]
    ends.append(End(folder, *client, 'connect', ends[0].wait(r'^handle (\w+)')))
    for end in ends:
        end.wait(f'^up {rails}$')
        end.wait_messages(50)
    return ends


def expect(end, pattern):
    """One line, and no other, says what is left out."""
    lines = end.said('^log .*left out.*')
    if len(lines) != 1 or not re.search(pattern, lines[0]):
        raise peers.Failed(f'{end.proc.name} says {lines}, not "{pattern}"')


def link_local_crossed(folder):
    """The cable of the first device leads to the second one; the nearest addresses are those of the wrong pairs."""
    ends = pair(folder, ('ab', '169.254.1.1,169.254.1.4'), ('ba', '169.254.1.2,169.254.1.5'), 2)
    for end in ends:
        if end.said('^log .*left out'):
            raise peers.Failed('a device was left out')


def one_subnet_crossed(folder):
    """Two cables, and all four addresses in one subnet."""
    pair(folder, ('ab', '10.0.0.1,10.0.0.4'), ('ba', '10.0.0.2,10.0.0.5'), 2)


def lan_first(folder):
    """The first port of a workstation is the LAN; the Spark's other half is free."""
    server, client = pair(folder, ('lc', '192.168.1.5,10.0.1.1'), ('cd', '10.0.1.2,10.0.2.2'), 1)
    expect(server,
           r'1 of 2 devices carry it; left out: mlx5_0 \(192.168.1.5/24\): the peer has no address in its subnet '
                   r'\(the peer has 10.0.1.2/24, 10.0.2.2/24\)')
    expect(client, r'left out: mlx5_1 \(10.0.2.2/24\): the peer has no address in its subnet')


def routed(folder):
    """No two addresses are of one subnet, but they reach each other."""
    pair(folder, ('ab', '10.1.0.1,10.2.0.1'), ('ba', '10.2.1.1,10.1.1.1'), 2)


def one_cable_of_two(folder):
    """Link-local addresses, and one cable leads elsewhere: the other carries all."""
    server, client = pair(folder, ('xb', '169.254.1.1,169.254.1.2'), ('by', '169.254.1.3,169.254.1.4'), 1)
    expect(client, r'1 of 2 devices carry it; left out: mlx5_1 \(169.254.1.4\): ')
    expect(server, r'1 of 2 devices carry it; left out: mlx5_0 \(169.254.1.1\): ')


CASES = {f.__name__: f for f in (link_local_crossed, one_subnet_crossed, lan_first, routed, one_cable_of_two)}


def clean():
    for letter in 'abcdlxy':
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f'/dev/shm/spinwire-{os.getuid()}-spwt-{os.getpid()}-{letter}')


def main():
    try:
        with tempfile.TemporaryDirectory(prefix='spw-') as folder, peers.together():
            CASES[sys.argv[2]](folder)
    finally:
        clean()


if __name__ == '__main__':
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    peers.main(main)
