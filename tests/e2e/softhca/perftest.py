#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""perftest.py [--fault F]... PROGRAM [ARGS]: a perftest pair over a private cable. With -a, a result
line is wanted for each size from 2 B to 8 MB; the client's numbers must be above zero."""
import argparse
import re
import time

import peers


def sizes(program):
    if '-a' in program:
        return [1 << n for n in range(1, 13 if 'UD' in program else 24)]
    if '-s' in program:
        return [int(program[program.index('-s') + 1])]
    return [None]


def check(text, program):
    rows = re.findall(peers.PERFTEST_ROW, text, re.M)
    if not rows:
        raise peers.Failed('no result line:\n' + text)
    seen = {int(row[0]) for row in rows}
    missing = [s for s in sizes(program) if s is not None and s not in seen]
    if missing:
        raise peers.Failed(f'no result for sizes {missing}:\n' + text)
    if 'Correlation coefficient' in text:
        return # its times mean nothing, its counts do
    if any(row[n] in ('inf', 'nan', '-nan') for row in rows for n in (2, 3)) or float(rows[-1][3]) <= 0:
        raise peers.Failed('a result is no number, or the last one is zero:\n' + text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--fault', action='append', default=[])
    parser.add_argument('--cores', type=int, default=0)
    parser.add_argument('--seconds', type=float, default=240)
    parser.add_argument('program', nargs=argparse.REMAINDER)
    opt = parser.parse_args()
    peers.need(opt.program[0], 'ibv_devinfo')
    peers.cpus(opt.cores)
    fabric = peers.Fabric(opt.fault)
    program = [opt.program[0], '-F', '-x', peers.roce_gid(fabric), *opt.program[1:]]
    _, client = peers.pair(fabric, program, time.monotonic() + opt.seconds)
    print(client)
    check(client, program)


peers.main(main)
