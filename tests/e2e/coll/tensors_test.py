#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tensors_test.py SCRIPT RANKS: ranks as processes that run SCRIPT, which needs NumPy and takes torch where there is
one, on devices of the software ConnectX; each has to end with a line "good: ..."."""
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'softhca'))
import peers  # noqa: E402  (found by the line above)

PYTHON = '/usr/bin/python3'  # has Debian's modules
SECONDS = 100


def main():
    script, ranks = os.path.join(HERE, sys.argv[1]), int(sys.argv[2])
    if subprocess.run([PYTHON, '-c', 'import numpy'], capture_output=True, check=False).returncode:
        peers.skip('python3-numpy is not installed')
    fabric, port, deadline = peers.Fabric(), str(peers.free_port()), time.monotonic() + SECONDS
    with peers.together():
        procs = [peers.Proc(fabric.argv([PYTHON, script, str(rank), str(ranks), 'mlx5_0', port]), f'rank {rank}',
                            peers.env()) for rank in range(ranks)]
        peers.both_end(*procs, deadline=deadline)
        for proc in procs:
            found = re.search('^good: .*', proc.output(), re.M)
            if not found:
                raise peers.Failed(f'{proc.name} does not say how it went')
            print(f'{proc.name}: {found.group(0)}')


peers.main(main)
