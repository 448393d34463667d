#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""exit.py PROGRAM malloc|verbs: a program whose signal handler calls exit() ends at once, whatever the signal interrupted, and
leaves neither a folder nor a cable."""
import glob
import os
import sys
import time

import peers

RUNS, SECONDS = 30, 20


def left(fabric, pid):
    return glob.glob(f'/dev/shm/spw-softhca-{os.geteuid()}-{pid}-*') + glob.glob(fabric.shm_path())


def main():
    program, loop = sys.argv[1:]
    for turn in range(RUNS):
        fabric = peers.Fabric()
        proc = peers.Proc(fabric.argv([program, loop, str(2000 + turn * 137)]), f'turn {turn}', peers.env())
        with peers.together():
            status = proc.wait(time.monotonic() + SECONDS)
            behind = left(fabric, proc.p.pid)
            if status or behind:
                raise peers.Failed(f'turn {turn}: status {status}, left behind: {behind}')


peers.main(main)
