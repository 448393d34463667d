#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""nic_threads.py PROGRAM THREADS: copy_test with so many threads of the NIC."""
import os
import sys
import tempfile

import peers


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'control')
        print(peers.run(peers.Fabric([], ['--control', path, '--nic-threads',
                                          sys.argv[2]]).argv([sys.argv[1], path, sys.argv[2]]), 200))


peers.main(main)
