#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""triangle_test.py TRIANGLE one|halves: three machines (network namespaces), each with a cable to both others and no
way between the cables: TCP and RDMA reach a machine only over the cable to it. Each two find the rails that they
share."""
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
RANKS = 3
# Of each machine, in the order of its devices: the cable, and the subnets of its halves, 192.168.N.
CABLES = {0: ('ab', 'ac'), 1: ('ab', 'bc'), 2: ('ac', 'bc')}
SUBNETS = {'ab': (101, 111), 'ac': (100, 110), 'bc': (102, 112)}


def run(*args):
    subprocess.run(args, check=True)


def devices(rank, halves):
    """(cable of each half, address) in the order of devices."""
    return [(f'{cable}{half}', f'192.168.{SUBNETS[cable][half]}.{rank + 1}') for half in range(halves)
            for cable in CABLES[rank]]


@contextlib.contextmanager
def machines(halves):
    if os.getuid() or not shutil.which('ip'):
        peers.skip('three network namespaces need root and iproute2')
    names = [f'spwt{os.getpid()}{side}' for side in 'abc']
    try:
        for name in names:
            if subprocess.run(['ip', 'netns', 'add', name], capture_output=True).returncode:
                peers.skip('network namespaces cannot be made here')
            run('ip', '-n', name, 'link', 'set', 'lo', 'up')
        for half in range(halves):
            for cable, (one, two) in {'ab': (0, 1), 'ac': (0, 2), 'bc': (1, 2)}.items():
                dev = f'{cable}{half}'
                run('ip', 'link', 'add', dev, 'netns', names[one], 'type', 'veth', 'peer', 'name', dev, 'netns',
                    names[two])
        for rank, name in enumerate(names):
            for dev, address in devices(rank, halves):
                run('ip', '-n', name, 'addr', 'add', f'{address}/24', 'dev', dev)
                run('ip', '-n', name, 'link', 'set', dev, 'up')
        yield names
    finally:
        for name in names:
            subprocess.run(['ip', 'netns', 'del', name], capture_output=True)


def start(folder, rank, name, halves):
    ends = devices(rank, halves)
    rdma = [f'mlx5_{i}' for i in range(len(ends))]
    cable = '+'.join(f'shm:spwt-{os.getpid()}-{cable}' for cable, _ in ends)
    argv = peers.Fabric(cable=cable).argv([sys.argv[1], str(rank), folder, '+'.join(rdma)], '--name', ','.join(rdma),
                                          '--ip', ','.join(address for _, address in ends))
    return peers.Proc(['ip', 'netns', 'exec', name, *argv], f'machine {rank}', peers.env(), stdin=subprocess.PIPE)


def check(proc, rank, halves):
    """The rails with both others, and one line for each that says which devices are left out."""
    out = proc.output()
    for other in set(range(RANKS)) - {rank}:
        if f'peer {other} rails {halves}\n' not in out:
            raise peers.Failed(f'machine {rank}: not {halves} rails to {other}:\n{out}')
    lines = re.findall('^log .*devices carry it.*', out, re.M)
    if len(lines) != 2 or any(f'{halves} of {2 * halves} devices carry it' not in line or
                              line.count('the peer has no address in its subnet') != halves for line in lines):
        raise peers.Failed(f'machine {rank} says {lines}')


def main():
    halves = {'one': 1, 'halves': 2}[sys.argv[2]]
    try:
        with tempfile.TemporaryDirectory(prefix='spw-') as folder, peers.together(), machines(halves) as names:
            procs = [start(folder, rank, name, halves) for rank, name in enumerate(names)]
            for rank, proc in enumerate(procs):
                proc.wait_for(lambda p=proc: re.search('^(done|wrong)', p.output(), re.M), time.monotonic() + WAIT_S)
                if 'wrong' in proc.output():
                    raise peers.Failed(proc.output())
                check(proc, rank, halves)
            peers.stop_all()
    finally:
        for cable in SUBNETS:
            for half in range(halves):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f'/dev/shm/spinwire-{os.getuid()}-spwt-{os.getpid()}-{cable}{half}')


if __name__ == '__main__':
    peers.main(main)
