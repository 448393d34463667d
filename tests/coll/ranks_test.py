#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""ranks_test.py RANKS: ranks as processes, through the Python module and the exchange over TCP. One is killed, or stopped and continued
later: the others name it in bounded time and go on without it; the stopped one learns that it is late, and never gets a sum."""
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'softhca'))
import peers  # noqa: E402  (found by the line above)

RANK = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'rank.py')
SECONDS = 60
ENDED = r'ended after ([\d.]+) s, lost \[([\d, ]*)\]: (.*)'


def start(ranks):
    fabric = peers.Fabric()
    ports = [str(peers.free_port()), str(peers.free_port())]
    return [peers.Proc(fabric.argv([sys.executable, RANK, str(rank), str(ranks), 'mlx5_0', *ports]), f'rank {rank}', peers.env())
            for rank in range(ranks)]


def expect_named(proc, victim, deadline, limit_s):
    proc.wait_for(ENDED, deadline)
    took, lost, text = re.search(ENDED, proc.output()).groups()
    if lost != str(victim) or f'rank {victim} (' not in text or float(took) > limit_s:
        raise peers.Failed(f'{proc.name}: after {took} s, lost [{lost}]: {text}')


def harm(ranks, victim, sig):
    deadline = time.monotonic() + SECONDS
    with peers.together():
        procs = start(ranks)
        for proc in procs:
            proc.wait_for('under way', deadline)
        os.kill(procs[victim].p.pid, sig)
        others = [proc for proc in procs if proc is not procs[victim]]
        for proc in others:
            expect_named(proc, victim, deadline, 8)
        peers.both_end(*others, deadline=deadline)
        for proc in others:
            proc.wait_for('again', deadline)
        if sig == signal.SIGSTOP:
            os.kill(procs[victim].p.pid, signal.SIGCONT)
            procs[victim].wait_for(ENDED, deadline)
            procs[victim].wait(deadline)
        for proc in procs:
            if 'WRONG' in proc.output():
                raise peers.Failed(f'{proc.name} got a wrong sum')
        print(f'{ranks} ranks, {sig.name} to rank {victim}:', *(re.search(ENDED, proc.output()).group(0) for proc in others), sep='\n  ')


def main():
    ranks = int(sys.argv[1])
    harm(ranks, ranks - 1, signal.SIGKILL)
    harm(ranks, 0, signal.SIGKILL)
    harm(ranks, 1, signal.SIGSTOP)


peers.main(main)
