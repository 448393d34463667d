#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A cable file that is not ours: another version, cut short, noise. The device must be refused with a text
that says so; nothing may crash, and the file stays as it was."""
import os
import random
import struct
import time

import peers

VERSION_AT = 8 # after the magic


def expect_refused(fabric, name, data):
    with open(fabric.shm_path(), 'wb') as f:
        f.write(data)
    proc = peers.Proc(fabric.argv(['ibv_devinfo']), name, peers.env())
    status = proc.wait(time.monotonic() + 30)
    text = proc.output()
    print(f'{name}: exit {status}: {text.strip()}')
    if status < 0:
        raise peers.Failed(f'{name}: ended by a signal')
    if 'hca_id' in text:
        raise peers.Failed(f'{name}: a device came up on it')
    if fabric.cable.split(':', 1)[1] not in text:
        raise peers.Failed(f'{name}: no text names the cable')
    with open(fabric.shm_path(), 'rb') as f:
        if f.read(len(data)) != data:
            raise peers.Failed(f'{name}: the file was changed')


def main():
    peers.need('ibv_devinfo')
    fabric = peers.Fabric()
    port = peers.free_port() # a server that waits has a NIC on the cable, and so the file
    server = peers.Proc(fabric.argv(['ibv_rc_pingpong', '-g', '3', '-p', str(port)]), 'server', peers.env())
    server.wait_for(lambda: peers.listening(port), time.monotonic() + 30)
    with open(fabric.shm_path(), 'rb') as f:
        good = f.read(1 << 20)
    server.stop()
    version, = struct.unpack_from('<I', good, VERSION_AT)
    rng = random.Random(5)
    expect_refused(fabric, 'next version', good[:VERSION_AT] + struct.pack('<I', version + 1) + good[VERSION_AT + 4:])
    expect_refused(fabric, 'other magic', b'whatever' + good[8:])
    expect_refused(fabric, 'noise', rng.randbytes(1 << 20))
    expect_refused(fabric, 'cut', good[:100])


peers.main(main)
