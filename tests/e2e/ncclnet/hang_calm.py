#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""hang_calm.py RING [--minutes N] (or $SPW_CALM_MINUTES): a healthy job (ring.c, ring.py), asked again and again. No
rank may ever be named: exit status 0 while messages move. While all ranks pause nothing is under way, and no answer is
given: status 2.

  calls     collectives one after the other
  unlike    ranks that come up to 2 s apart
  replays   bursts of launches of one captured graph
  slow      one collective takes longer than the question
  pauses    30 s in which no rank calls anything
  loaded    as calls, beside programs that take every core"""
import argparse
import collections
import contextlib
import os
import signal
import sys
import time

import ring  # noqa: I001  (finds the others)
import peers

NOTHING = 'nothing is under way'
LOAD = 'while True: pass'


def each(job, line):
    for host in job.hosts:
        host.say(line(host.number))


def heard_all(job, count, asking):
    """Until each rank has run `count` commands. asking: whether to ask meanwhile. Returns: outcomes."""
    got = []
    while any(host.rank.output().count('ran\n') < count for host in job.hosts):
        if asking:
            got.append(job.ask(len(got) % job.ranks))
        else:
            time.sleep(0.1)
    return got


# What a rank is told, by phase. Each takes about 20 to 40 s.
PHASES = {
    'calls': lambda rank: ['run 2000 AllReduce 4 5'],
    'unlike': lambda rank: [f'run 1 AllGather 8 {pause}' for pause in (0, 1000, 2000) * 5][rank:] +
              ['run 1 AllGather 8 0'] * rank,
    'replays': lambda rank: ['replay 200 AllReduce 2 0', 'replay 1 AllGather 2 1000'] * 6,
    'slow': lambda rank: ['run 2 AllReduce 3000 0'],
    'pauses': lambda rank: ['run 1 AllReduce 4 30000', 'run 50 AllReduce 4 0'],
    'loaded': lambda rank: ['run 2000 AllReduce 4 5'],
}


def phase(job, name, done, counts):
    cores = os.sched_getaffinity(0) if name == 'loaded' else ()
    load = [peers.Proc([sys.executable, '-c', LOAD], 'load') for _ in cores]
    rows = [PHASES[name](rank) for rank in range(job.ranks)]
    for lines in zip(*rows):
        each(job, lambda rank, lines=lines: lines[rank])
    for document, text, seconds in heard_all(job, done + len(rows[0]), True):
        outcome = document['outcome']
        if outcome == 'unknown' and NOTHING in document['missing']:
            outcome = 'idle'
        counts[name][outcome] += 1
        if outcome not in ('moves', 'idle'):
            print(f'{name}: {outcome} in {seconds:.1f} s\n{text}', flush=True)
    for proc in load:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(proc.p.pid, signal.SIGKILL)
    return done + len(rows[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('ring')
    parser.add_argument('--minutes', type=float, default=float(os.environ.get('SPW_CALM_MINUTES', '3')))
    args = parser.parse_args()
    counts = collections.defaultdict(collections.Counter)
    until = time.monotonic() + args.minutes * 60
    with peers.together():
        job = ring.Job(args.ring, 3, 2)
        job.join()
        done, turn, names = 0, 0, list(PHASES)
        while time.monotonic() < until or turn < len(names):
            done = phase(job, names[turn % len(names)], done, counts)
            turn += 1
        job.end()
    print(f'{"phase":8} {"moves":>6} {"idle":>6} {"unknown":>8} {"ALARM":>6}')
    for name, row in counts.items():
        print(f'{name:8} {row["moves"]:6} {row["idle"]:6} {row["unknown"]:8} {row["culprit"]:6}')
    if any(row['culprit'] for row in counts.values()):
        raise peers.Failed('a rank was named while all was well')


ring.enter()
peers.main(main)
