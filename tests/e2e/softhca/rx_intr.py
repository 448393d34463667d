#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rx_intr.py CARD PROGRAM: a program on DPDK (own/rx_intr_test.c) sleeps until net_mlx5 interrupts it. With DEVX the
interrupt is an event channel, without it a completion channel."""
import atexit
import os
import shutil
import subprocess
import sys

import peers
import spwtel
import testpmd

MAC = '02:00:00:00:00:77'  # of the interface as well: net_mlx5 takes it from there


def main():
    card, program = sys.argv[1:]
    peers.need('unshare', 'ip')
    peers.enter_netns('net_mlx5 needs')
    subprocess.run(['ip', 'link', 'set', 'spwt0', 'address', MAC], check=True)
    prefix = f'spw{os.getpid()}intr'
    atexit.register(shutil.rmtree, spwtel.runtime_folder(prefix), ignore_errors=True)
    fabric = peers.Fabric([], ['--as', card, '--mac', MAC])
    text = peers.run(fabric.argv([
        program, '--log-level=pmd.common.mlx5:debug', '--no-huge', '-m', '128', '--no-telemetry',
        '--file-prefix', prefix, '-l', str(min(os.sched_getaffinity(0))), '-a', testpmd.PCI], '--netdev', 'spwt0'), 100)
    if ('DevX is supported' in text) != (card != 'no-devx'):
        raise peers.Failed('net_mlx5 made its queues in the other way')


peers.main(main)
