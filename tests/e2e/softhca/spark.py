#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spark.py PROGRAM GROUP [OPTION VALUE]...: a group of spark_test under --as dgx-spark, with the options that it
wants."""
import os
import sys
import tempfile

import peers


def main():
    program, group, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix='spw-') as folder:
        path = os.path.join(folder, 'c')
        fabric = peers.Fabric(extra=['--as', 'dgx-spark', '--control', path, *options])
        if group == 'apart':
            fabric.cable += f'+{fabric.cable}-1'
        print(peers.run(fabric.argv([program, path, group]), 200))


peers.main(main)
