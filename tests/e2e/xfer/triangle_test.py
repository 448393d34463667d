#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""triangle_test.py TRIANGLE one|halves|square|square_lan: three machines (network namespaces), or four in a square,
each with a cable to both neighbours and no way between the cables: TCP and RDMA reach a machine only over the cable to
it. Neighbours find the rails that they share; the two that are opposite each other in a square are told that they have
none, also where a LAN joins them."""
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'softhca'))
import peers  # noqa: E402  (found by the line above)

WAIT_S = 80
REFUSED_MS = 15000  # the exchange may take 8 s
# Of each machine, in the order of its devices: the cable, and the subnets of its halves, 192.168.N.
TRIANGLE = {0: ('ab', 'ac'), 1: ('ab', 'bc'), 2: ('ac', 'bc')}
SQUARE = {0: ('ab', 'da'), 1: ('ab', 'bc'), 2: ('bc', 'cd'), 3: ('cd', 'da')}
SUBNETS = {'ab': (101, 111), 'ac': (100, 110), 'bc': (102, 112), 'cd': (103, 113), 'da': (104, 114)}
LAN = '192.168.5.{}'


def run(*args):
    subprocess.run(args, check=True)


class Ring:
    """The machines of a test; halves: of each cable."""

    def __init__(self, cables, halves=1, lan=False):
        self.cables, self.halves, self.lan = cables, halves, lan
        self.names = [f'spwt{os.getpid()}{side}' for side in 'abcd'[:len(cables)]]
        self.bridge = f'spwt{os.getpid()}lan'

    def ends(self):
        """{cable: its two machines}"""
        found = {}
        for rank, cables in self.cables.items():
            for cable in cables:
                found.setdefault(cable, []).append(rank)
        return found

    def devices(self, rank):
        """(cable of each half, address) in the order of devices."""
        return [(f'{cable}{half}', f'192.168.{SUBNETS[cable][half]}.{rank + 1}') for half in range(self.halves)
                for cable in self.cables[rank]]

    def _make(self):
        for name in [*self.names, *([self.bridge] if self.lan else [])]:
            if subprocess.run(['ip', 'netns', 'add', name], capture_output=True).returncode:
                peers.skip('network namespaces cannot be made here')
            run('ip', '-n', name, 'link', 'set', 'lo', 'up')
        for half in range(self.halves):
            for cable, (one, two) in self.ends().items():
                dev = f'{cable}{half}'
                run('ip', 'link', 'add', dev, 'netns', self.names[one], 'type', 'veth', 'peer', 'name', dev, 'netns',
                    self.names[two])
        for rank, name in enumerate(self.names):
            for dev, address in self.devices(rank):
                run('ip', '-n', name, 'addr', 'add', f'{address}/24', 'dev', dev)
                run('ip', '-n', name, 'link', 'set', dev, 'up')
        if self.lan:
            self._join()

    def _join(self):
        run('ip', '-n', self.bridge, 'link', 'add', 'lan', 'type', 'bridge')
        run('ip', '-n', self.bridge, 'link', 'set', 'lan', 'up')
        for rank, name in enumerate(self.names):
            run('ip', 'link', 'add', 'lan', 'netns', name, 'type', 'veth', 'peer', 'name', f'to{rank}', 'netns',
                self.bridge)
            run('ip', '-n', self.bridge, 'link', 'set', f'to{rank}', 'master', 'lan', 'up')
            run('ip', '-n', name, 'addr', 'add', f'{LAN.format(rank + 1)}/24', 'dev', 'lan')
            run('ip', '-n', name, 'link', 'set', 'lan', 'up')

    @contextlib.contextmanager
    def made(self):
        if os.getuid() or not shutil.which('ip'):
            peers.skip('network namespaces need root and iproute2')
        try:
            self._make()
            yield
        finally:
            for name in [*self.names, self.bridge]:
                subprocess.run(['ip', 'netns', 'del', name], capture_output=True)

    def start(self, folder, rank):
        ends = self.devices(rank)
        rdma = [f'mlx5_{i}' for i in range(len(ends))]
        cable = '+'.join(f'shm:spwt-{os.getpid()}-{cable}' for cable, _ in ends)
        bind = [f'{LAN.format(rank + 1)}:0'] if self.lan else []
        argv = peers.Fabric(cable=cable).argv([sys.argv[1], str(rank), str(len(self.names)), folder, '+'.join(rdma),
                                               *bind], '--name', ','.join(rdma), '--ip',
                                              ','.join(address for _, address in ends))
        return peers.Proc(['ip', 'netns', 'exec', self.names[rank], *argv], f'machine {rank}', peers.env(),
                          stdin=subprocess.PIPE)

    def check(self, proc, rank):
        """The rails with both neighbours, one line for each that says which devices are left out, and why there is no
        way to the machine opposite."""
        out, opposite = proc.output(), (rank + 2) % 4 if len(self.names) == 4 else None
        for other in set(range(len(self.names))) - {rank, opposite}:
            if f'peer {other} rails {self.halves}\n' not in out:
                raise peers.Failed(f'machine {rank}: not {self.halves} rails to {other}:\n{out}')
        lines = re.findall('^log .*devices carry it.*', out, re.M)
        if len(lines) != 2 or any(f'{self.halves} of {2 * self.halves} devices carry it' not in line or
                                  line.count('the peer has no address in its subnet') != self.halves for line in lines):
            raise peers.Failed(f'machine {rank} says {lines}')
        if opposite is not None and opposite < rank:
            self._check_refusal(out, opposite)

    def _check_refusal(self, out, opposite):
        took, why = re.search(rf'^peer {opposite} refused after (\d+) ms: (.*)', out, re.M).groups()
        print(f'refused after {took} ms: {why}')
        if int(took) >= REFUSED_MS or ('subnet' if self.lan else 'nreachable') not in why:
            raise peers.Failed(f'after {took} ms: {why}')


RINGS = {'one': Ring(TRIANGLE), 'halves': Ring(TRIANGLE, halves=2), 'square': Ring(SQUARE),
         'square_lan': Ring(SQUARE, lan=True)}


def main():
    ring = RINGS[sys.argv[2]]
    try:
        with tempfile.TemporaryDirectory(prefix='spw-') as folder, peers.together(), ring.made():
            procs = [ring.start(folder, rank) for rank in ring.cables]
            for rank, proc in enumerate(procs):
                proc.wait_for(lambda p=proc: re.search('^(done|wrong)', p.output(), re.M), time.monotonic() + WAIT_S)
                if 'wrong' in proc.output():
                    raise peers.Failed(proc.output())
                ring.check(proc, rank)
            peers.stop_all()
    finally:
        for cable in ring.ends():
            for half in range(ring.halves):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f'/dev/shm/spinwire-{os.getuid()}-spwt-{os.getpid()}-{cable}{half}')


if __name__ == '__main__':
    peers.main(main)
