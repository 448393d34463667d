#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""pingpong.py [--fault F]... [--cores N] [--limit-us US] [--no-root] PROGRAM [ARGS]: an ibv_*_pingpong pair over a
private cable. With -c the program checks every byte; its report must name all the iterations."""
import argparse
import re
import time

import peers


def one(fabric, program, seconds):
    out = peers.pair(fabric, program, time.monotonic() + seconds)
    for text in out:
        if 'invalid data' in text:
            raise peers.Failed('wrong bytes:\n' + text)
        if not re.search(r'(\d+) iters in ([\d.]+) seconds = ([\d.]+) usec/iter', text):
            raise peers.Failed('no result line:\n' + text)
    return float(re.search(r'= ([\d.]+) usec/iter', out[1]).group(1))


def lost_the_last_ack(why):
    """One side has all it wanted and is gone; the ACK of the other's last message was among the lost frames. That is so
    on any fabric that loses frames: these programs do not tear down their connection."""
    return any(status == 0 for status, _ in why.ends) and any('transport retry counter exceeded' in text
                                                              for _, text in why.ends)


def under_faults(fabric, program, seconds):
    for seed in range(1, 6):
        try:
            fabric.extra = ['--seed', str(seed)]
            return one(fabric, program, seconds)
        except peers.Failed as why:
            if not lost_the_last_ack(why):
                raise
    raise peers.Failed('five times the last ACK was lost')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--fault', action='append', default=[])
    parser.add_argument('--mtu', help='largest IP packet of the port')
    parser.add_argument('--cores', type=int, default=0)
    parser.add_argument('--limit-us', type=float, default=0, help='best of five must be faster')
    parser.add_argument('--seconds', type=float, default=60)
    parser.add_argument('--no-root', action='store_true')
    parser.add_argument('program', nargs=argparse.REMAINDER)
    opt = parser.parse_args()
    peers.need(opt.program[0], 'ibv_devinfo')
    peers.cpus(opt.cores)
    if opt.no_root:
        peers.drop_root()
    fabric = peers.Fabric(opt.fault, ['--mtu', opt.mtu] if opt.mtu else [])
    program = [opt.program[0], '-g', peers.roce_gid(fabric), *opt.program[1:]]
    if opt.fault:
        print(under_faults(fabric, program, opt.seconds), 'us per iteration')
        return
    best = one(fabric, program, opt.seconds)
    for _ in range(4):
        if not opt.limit_us or best <= opt.limit_us:
            break
        best = min(best, one(fabric, program, opt.seconds))
    print(f'{best} us per iteration')
    if opt.limit_us and best > opt.limit_us:
        raise peers.Failed(f'{best} us per iteration, limit {opt.limit_us}')


peers.main(main)
