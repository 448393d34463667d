#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""hostile.py CORPUS: while ibv_rc_pingpong -c runs over a pair of AF_UNIX datagram sockets, both NICs are
showered with frames that are cut, too long, changed at random or simply noise. The pair must end well."""
import os
import random
import socket
import sys
import tarfile
import tempfile
import time

import peers


def frames(corpus, seed):
    rng = random.Random(seed)
    with tarfile.open(corpus) as archive:
        kept = [archive.extractfile(member).read() for member in archive if member.name.startswith('seeds/')
                and member.isfile()]
    while True:
        frame = bytearray(rng.choice(kept))
        kind = rng.randrange(6)
        if kind == 0:
            frame = frame[:rng.randrange(len(frame))]
        elif kind == 1:
            frame += rng.randbytes(rng.randrange(9000))
        elif kind == 2:
            frame = bytearray(rng.randbytes(rng.randrange(1, 2000)))
        elif kind == 3:
            frame[42] = rng.randrange(256)
        else:
            for _ in range(rng.randrange(1, 8)):
                frame[rng.randrange(len(frame))] = rng.randrange(256)
        yield bytes(frame)


def shower(paths, source, proc, deadline):
    sent = 0
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.setblocking(False)
        while proc.p.poll() is None:
            if time.monotonic() > deadline:
                raise peers.Failed('the pair did not end in time')
            for path in paths:
                try:
                    s.sendto(next(source), path)
                    sent += 1
                except (BlockingIOError, ConnectionRefusedError, FileNotFoundError):
                    time.sleep(0.0005)
            if sent % 64 == 0:
                time.sleep(0.001)
    return sent


def run(folder, deadline):
    a, b = os.path.join(folder, 'a'), os.path.join(folder, 'b')
    ends = [peers.Fabric(cable=f'unix:{a},{b}'), peers.Fabric(cable=f'unix:{b},{a}')]
    port = peers.free_port()
    program = ['ibv_rc_pingpong', '-g', '3', '-p', str(port), '-c', '-n', '3000', '-s', '3000']
    server = peers.Proc(ends[0].argv(program), 'server', peers.env())
    server.wait_for(lambda: peers.listening(port), deadline)
    client = peers.Proc(ends[1].argv([*program, '127.0.0.1']), 'client', peers.env())
    sent = shower([a, b], frames(sys.argv[1], 1), client, deadline)
    print(f'{sent} hostile frames')
    peers.both_end(client, server, deadline=deadline)
    if 'invalid data' in client.output() + server.output():
        raise peers.Failed('wrong bytes')
    if sent < 200:
        raise peers.Failed('too few hostile frames to mean anything')


def main():
    peers.need('ibv_rc_pingpong')
    with tempfile.TemporaryDirectory() as folder, peers.together():
        run(folder, time.monotonic() + 120)


peers.main(main)
