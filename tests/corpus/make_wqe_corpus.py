#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_wqe_corpus.py FOLDER: rings as an application fills them, for fuzz_wqe. Layouts: rdma-core's mlx5dv.h."""
import os
import struct
import sys

MR = 0x200000040000
KEY = b'KEY!'
RC, UC, UD, RAW = range(4)


def data(length=64, at=0):
    return struct.pack('>I4sQ', length, KEY, MR + at)


def inline(text):
    return (struct.pack('>I', 1 << 31 | len(text)) + text).ljust((len(text) + 19) // 16 * 16, b'\0')


def raddr(at=2048):
    return struct.pack('>Q4sI', MR + at, KEY, 0)


def wqe(opcode, *segments):
    body = b''.join(segments)
    head = struct.pack('>IIII', opcode, 1 + len(body) // 16, 2 << 2, 0x01020304)
    return (head + body).ljust((16 + len(body) + 63) // 64 * 64, b'\0')


def receive(*segments):
    return (b''.join(segments) + struct.pack('>I4sQ', 0, b'\0\0\1\0', 0)).ljust(64, b'\0')[:64]


def av():
    gid = bytes(10) + b'\xff\xff\x0a\x35\x00\x01'
    return struct.pack('>IIIIIHHBBxx', 0x1111, 0, 1 << 31, 0, 0, 0xffff, 0xffff, 0,
                       64)[:28].ljust(28, b'\0') + struct.pack('>I', 1 << 30 | 3 << 20) + gid


def eth(header=b''):
    return (struct.pack('>IIIH', 0, 0, 0, len(header)) + header).ljust((14 + max(len(header), 2) + 15) // 16 * 16,
                                                                       b'\0')


def ring(kind, *wqes, receives=8):
    body = b''.join(wqes)
    rq = receive(data(64), data(512, 512)) * 8
    return bytes([kind, 1, len(body) // 64, receives]) + rq + body


frame = b'\xff' * 6 + b'\2\0\0\0\0\1' + b'\x88\xb5' + b'four'
cases = {
    'send': ring(RC, wqe(0x0a, data(100))),
    'send-imm': ring(RC, wqe(0x0b, data(600))),
    'send-long': ring(RC, wqe(0x0a, data(2000), data(1000, 100))),
    'send-inline': ring(RC, wqe(0x0a, inline(b'abcdefghij'))),
    'write': ring(RC, wqe(0x08, raddr(), data(300))),
    'write-imm': ring(RC, wqe(0x09, raddr(), data(300))),
    'read': ring(RC, wqe(0x10, raddr(), data(900))),
    'cas': ring(RC, wqe(0x11, raddr(), struct.pack('>QQ', 7, 0), data(8))),
    'add': ring(RC, wqe(0x12, raddr(), struct.pack('>QQ', 7, 0), data(8))),
    'nop': ring(RC, wqe(0x00), wqe(0x0a, data(8))),
    'many': ring(RC, *[wqe(0x0a, data(64)) for _ in range(8)]),
    'no-receive': ring(RC, wqe(0x0a, data(64)), receives=0),
    'uc': ring(UC, wqe(0x0a, data(700)), wqe(0x08, raddr(), data(10))),
    'ud': ring(UD, wqe(0x0a, av(), data(100))),
    'raw': ring(RAW, wqe(0x0a, eth(frame), data(100))),
    'raw-no-inline': ring(RAW, wqe(0x0a, eth(), data(100))),
}
folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
for name, case in cases.items():
    with open(os.path.join(folder, name), 'wb') as f:
        f.write(case)
