#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""two_test.py PEER CASE: two agents as processes (peer.c) on two rails, which stream to each other and compare every
byte; one of them is killed and returns under its name, or a rail of it is cut or slow."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'softhca'))
import peers  # noqa: E402  (found by the line above)

PEER = sys.argv[1]
WAIT_S = 60


class Agent:
    """An agent under the software ConnectX, with a control socket."""

    def __init__(self, world, name):
        self.name = name
        self.control = os.path.join(world.folder, f'{name}{world.started}')
        world.started += 1
        side = ['--name', 'mlx5_0,mlx5_1', '--control', self.control]
        argv = world.fabric.argv([PEER, 'mlx5_0+mlx5_1', name], *side)
        self.proc = peers.Proc(argv, name, {**peers.env(), 'SPW_TEST_GONE_MS': '3000'}, stdin=subprocess.PIPE)
        self.facts = self.wait(r'^agent (\w+ \w+)$')

    def said(self, pattern):
        return re.findall(pattern, self.proc.output(), re.M)

    def wait(self, pattern, count=1):
        """Until so many lines match; the last match."""
        self.proc.wait_for(lambda: len(self.said(pattern)) >= count, time.monotonic() + WAIT_S)
        if self.said('^wrong'):
            raise peers.Failed(f'{self.name}: {self.said("^wrong.*")[0]}')
        return self.said(pattern)[-1]

    def meet(self, other):
        self.proc.say(f'peer {other.name} {other.facts}')

    def rounds(self):
        return int(self.wait(r'^rounds (\d+)'))

    def wait_rounds(self, more=5):
        """Until so many more rounds are complete; of the last meeting, whose count begins at 0."""
        self.wait(r'^rounds')
        begin = len(self.said(r'^rounds'))
        first = self.rounds()

        def enough():
            later = [int(n) for n in self.said(r'^rounds (\d+)')[begin:]]
            return bool(later) and later[-1] >= (first if later[-1] >= first else 0) + more
        self.proc.wait_for(enough, time.monotonic() + WAIT_S)
        self.wait(r'^rounds')

    def ended(self, error, text, count=1):
        """Until what it asked failed for the count-th time, with this error, described by this text."""
        line = self.wait(r'^ended .*', count)
        if not line.startswith(f'ended {error} ') or text not in line:
            raise peers.Failed(f'{self.name}: "{line}", not {error} and "{text}"')

    def fault(self, device, line):
        path = self.control if device == 'mlx5_0' else f'{self.control}.{device}.{self.proc.p.pid}'
        peers.spwlab.nic_ask(path, line)


class World:
    """A cable, and agents that come and go."""

    def __init__(self, folder):
        self.folder, self.started = folder, 0
        self.fabric = peers.Fabric()

    def pair(self):
        """Two agents that stream to each other."""
        a, b = Agent(self, 'a'), Agent(self, 'b')
        a.meet(b)
        b.meet(a)
        a.wait_rounds()
        b.wait_rounds()
        return a, b


def killed_and_returns(world):
    a, b = world.pair()
    for count in (1, 2):
        os.killpg(b.proc.p.pid, signal.SIGKILL)
        a.ended(104, 'agent b: ', count)
        b = Agent(world, 'b')
        a.meet(b)
        b.meet(a)
        a.wait_rounds()
        b.wait_rounds()


def killed_before_it_is_met(world):
    a, b = Agent(world, 'a'), Agent(world, 'b')
    os.killpg(b.proc.p.pid, signal.SIGKILL)
    b.proc.wait(time.monotonic() + WAIT_S)
    a.meet(b)
    a.ended(111, 'agent b: ')
    b = Agent(world, 'b')
    a.meet(b)
    b.meet(a)
    a.wait_rounds()


def one_rail_cut(world):
    a, b = world.pair()
    b.fault('mlx5_1', 'fault loss=1')
    a.wait_rounds(20)
    b.wait_rounds(20)
    b.fault('mlx5_1', 'fault loss=0')
    b.fault('mlx5_0', 'link-down=100ms')
    a.wait_rounds(20)
    b.wait_rounds(20)
    for agent in (a, b):
        if agent.said('^ended'):
            raise peers.Failed(f'{agent.name} ended')


def one_rail_slow(world):
    a, b = world.pair()
    b.fault('mlx5_1', 'fault port-rate=0.05')
    a.wait_rounds()
    b.wait_rounds()
    for agent in (a, b):
        if agent.said('^ended'):
            raise peers.Failed(f'{agent.name} ended')


CASES = {f.__name__: f for f in (killed_and_returns, killed_before_it_is_met, one_rail_cut, one_rail_slow)}


def main():
    with tempfile.TemporaryDirectory(prefix='spw-') as folder, peers.together():
        CASES[sys.argv[2]](World(folder))


if __name__ == '__main__':
    peers.main(main)
