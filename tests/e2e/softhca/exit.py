#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""exit.py PROGRAM malloc|verbs: a program whose signal handler calls exit() ends at once, whatever the signal
interrupted, and leaves neither a folder nor a cable."""
import glob
import os
import sys
import time

import peers

RUNS, SECONDS = 30, 20


def folders():
    return set(glob.glob(f'/dev/shm/spw-softhca-{os.geteuid()}-*'))


def left(fabric, pid, before):
    """Another process may have had this number, and been killed."""
    return [path for path in folders() - before if f'-{pid}-' in path] + glob.glob(fabric.shm_path())


def main():
    program, loop = sys.argv[1:]
    for turn in range(RUNS):
        fabric, before = peers.Fabric(), folders()
        proc = peers.Proc(fabric.argv([program, loop, str(2000 + turn * 137)]), f'turn {turn}', peers.env())
        with peers.together():
            status = proc.wait(time.monotonic() + SECONDS)
            behind = left(fabric, proc.p.pid, before)
            if status or behind:
                raise peers.Failed(f'turn {turn}: status {status}, left behind: {behind}')


peers.main(main)
