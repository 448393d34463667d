#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""--trace with several devices and processes: each writes its own complete pcapng, in a folder or beside the file."""
import glob
import os
import struct
import tempfile
import time

import peers


def blocks(path):
    """The block types of a pcapng file, which ends with a whole block and has one section."""
    with open(path, 'rb') as f:
        data = f.read()
    kinds, at = [], 0
    while at < len(data):
        kind, length = struct.unpack_from('<II', data, at)
        if length < 12 or at + length > len(data) or struct.unpack_from('<I', data, at + length - 4)[0] != length:
            raise peers.Failed(f'{path}: no whole block at byte {at}')
        kinds.append(kind)
        at += length
    if kinds.count(0x0a0d0d0a) != 1 or kinds.count(1) != 3:
        raise peers.Failed(f'{path}: {kinds.count(0x0a0d0d0a)} sections, {kinds.count(1)} interfaces')
    return kinds


def must_be(got, want):
    if got != want:
        raise peers.Failed(f'{got}, not {want}')
    for path in got:
        blocks(path)


def two_devices(folder):
    path = os.path.join(folder, 'one.pcapng')
    proc = peers.Proc(peers.Fabric(extra=['--devices', '2', '--trace', path]).argv(['ibv_devinfo']), 'two devices',
                      peers.env())
    with peers.together():
        proc.wait(time.monotonic() + 60)
        must_be(sorted(glob.glob(path + '*')), [path, f'{path}.mlx5_1.{proc.p.pid}'])


def two_processes(folder):
    path = os.path.join(folder, 'pair.pcapng')
    peers.pair(peers.Fabric(extra=['--trace', path]), ['ibv_rc_pingpong', '-g', '3', '-n', '100'],
               time.monotonic() + 60)
    found = sorted(glob.glob(path + '*'))
    if len(found) != 2 or found[0] != path or not found[1].startswith(path + '.mlx5_0.'):
        raise peers.Failed(f'traces of two processes: {found}')
    for trace in found:
        if blocks(trace).count(6) < 200:
            raise peers.Failed(f'{trace} has {blocks(trace).count(6)} packets')


def a_folder(folder):
    proc = peers.Proc(peers.Fabric(extra=['--devices', '2', '--trace', folder]).argv(['ibv_devinfo']), 'folder',
                      peers.env())
    with peers.together():
        proc.wait(time.monotonic() + 60)
        must_be(sorted(glob.glob(folder + '/*')), [f'{folder}/mlx5_{i}-{proc.p.pid}.pcapng' for i in (0, 1)])


def main():
    peers.need('ibv_devinfo', 'ibv_rc_pingpong')
    for test in (two_devices, two_processes, a_folder):
        with tempfile.TemporaryDirectory() as folder:
            test(folder)


peers.main(main)
