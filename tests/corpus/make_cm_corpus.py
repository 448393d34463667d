#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_cm_corpus.py FOLDER: sessions with rdma_cm, as librdmacm holds them, and datagrams of its peers, for fuzz_cm.
Layouts: <rdma/rdma_user_cm.h>; InfiniBand Architecture Specification 1.3, 12.6."""
import os
import struct
import sys

RESP = 0x200000000000
OWN = bytes((10, 0, 0, 1))  # of the stub's device
PEER = bytes((10, 0, 0, 2))
PORT = 7174
TCP, UDP = 0x106, 0x111


def record(kind, body, which=0):
    return struct.pack('<BBH', kind, which, len(body)) + body


def command(number, body, out=0, which=0):
    return record(0, struct.pack('<IHH', number, len(body), out) + body, which)


def address(ip, port=0):
    return (struct.pack('<H', 2) + struct.pack('>H', port) + ip).ljust(28, b'\0')


def create(ps=TCP, uid=0x77, kind=2):
    return command(0, struct.pack('<QQHB5x', uid, RESP, ps, kind), 4)


def bind(handle, ip, port):
    return command(2, struct.pack('<Q', RESP) + address(ip, port) + struct.pack('<I', handle))


def resolve(handle, ip, port=PORT):
    return command(3, bytes(28) + address(ip, port) + struct.pack('<II', handle, 1000)) + time()


def on(number, handle, *more):
    return command(number, struct.pack('<I', handle) + b''.join(struct.pack('<I', m) for m in more))


def answered(number, handle, more=0, out=512, which=0):
    return command(number, struct.pack('<QII', RESP, handle, more), out, which)


def event():
    return command(12, struct.pack('<Q', RESP), 336)


def param(valid=1):
    return struct.pack('<II256s8B', 0x41, 0, b'private', 7, 0, 1, 1, 0, 7, 7, valid)


def connect(handle):
    return command(6, param() + struct.pack('<II', handle, 0) + bytes(8))


def accept(handle, valid=1):
    return command(8, struct.pack('<Q', 0x99) + param(valid) + struct.pack('<II', handle, 0) + bytes(8))


def time():
    return record(2, b'')


def mad(attribute, fields, private=b'', at=0, which=2):
    """fields: {offset: bytes}."""
    data = bytearray(232)
    for offset, value in fields.items():
        data[offset:offset + len(value)] = value
    data[at:at + len(private)] = private
    head = struct.pack('>BBBBHHQHHI', 1, 7, 2, 3, 0, 0, 5, attribute, 0, 0)
    return record(1, head + bytes(data), which)


def ids(own, peer):
    return {0: struct.pack('>I', peer), 4: struct.pack('>I', own)}


def header():
    return bytes((0, 4 << 4)) + struct.pack('>H', 4000) + bytes(12) + PEER + bytes(12) + OWN


def request(number, ps=TCP, port=PORT, qpn=0x10041):
    return mad(0x10, {0: struct.pack('>I', number), 8: struct.pack('>Q', ps << 16 | port), 16: bytes(range(8)),
                      32: struct.pack('>I', qpn << 8), 43: b'\xa0', 47: b'\xa7', 50: b'\x57', 51: b'\xf0', 95: b'\x90',
                      56: bytes(10) + b'\xff\xff' + PEER}, header(), 140)


def reply(own, peer):
    return mad(0x13, {**ids(own, peer), 12: b'\0\0\x52', 26: b'\x80', 28: bytes(range(8))}, b'yes', 36)


def dreq(own, peer, qpn=0x41):
    return mad(0x15, {**ids(own, peer), 8: struct.pack('>I', qpn << 8)})


def listener(ps=TCP, kind=2):
    return create(ps, kind=kind) + bind(0, bytes(4), PORT) + on(7, 0, 4)


def active():
    return create() + resolve(0, PEER) + event() + on(4, 0) + event() + answered(5, 0) + connect(0)


def sessions():
    wanted = listener() + request(9) + event()
    yield 'passive', (wanted + answered(11, 1, 1) + answered(11, 1, 2) + answered(11, 1, 3) + accept(1) + time() +
                      mad(0x14, ids(0, 9)) + event() + dreq(0, 9) + event() + on(10, 1) + answered(1, 1) +
                      answered(1, 0))
    yield 'active', (active() + time() + reply(1, 9) + event() + answered(11, 0, 2) + answered(11, 0, 3) +
                     accept(0, 0) + reply(1, 9) + on(10, 0) + mad(0x16, ids(1, 9)) + event() + answered(1, 0))
    yield 'rejected', active() + mad(0x12, {**ids(1, 0), 8: b'\0', 10: b'\0\x1c'}, b'no', 84) + event() + answered(1, 0)
    yield 'mra', active() + mad(0x11, {**ids(1, 9), 8: b'\0', 9: b'\xf8'}) + time() + answered(1, 0)
    yield 'twice', wanted + request(9) + accept(1) + request(9) + request(10) + answered(1, 1) + request(9)
    yield 'flood', listener() + b''.join(request(n, qpn=0x10041 + n) for n in range(12)) + event() + answered(1, 0)
    yield 'nobody', create() + request(9) + dreq(44, 9) + reply(44, 9)
    yield 'gone', wanted + mad(0x12, {0: struct.pack('>I', 9), 8: b'\x80', 9: b'\x10', 10: b'\0\x04',
                                      12: bytes(range(8))})
    yield 'reject', wanted + command(9, struct.pack('<IBB2x256s', 1, 5, 28, b'later')) + answered(1, 1)
    sidr = mad(0x17, {0: struct.pack('>I', 9), 4: b'\xff\xff', 8: struct.pack('>Q', UDP << 16 | PORT)}, header(), 16)
    yield 'sidr', listener(UDP) + sidr + sidr + event() + accept(1) + answered(1, 1)
    yield 'sidr_asks', (create(UDP) + resolve(0, PEER) + on(4, 0) + connect(0) +
                        mad(0x18, {0: struct.pack('>I', 1), 9: b'\0\x41'}) + event() + event() + event())
    group = command(16, struct.pack('<QQ', RESP, 0x55) + address(bytes((239, 1, 1, 1))) + struct.pack('<I', 0), 4)
    yield 'group', create(UDP) + bind(0, OWN, 0) + group + event() + answered(17, 0) + group + answered(1, 0)
    yield 'migrate', wanted + command(18, struct.pack('<QII', RESP, 1, 0), 4, 1) + answered(1, 1, which=1)
    yield 'migrate_event', (listener() + request(9) + command(18, struct.pack('<QII', RESP, 0, 0), 4, 1) +
                            command(12, struct.pack('<Q', RESP), 336, 1))
    yield 'options', create() + b''.join(
        command(14, struct.pack('<QIIII', RESP, 0, 0, name, size))
        for name, size in ((0, 1), (1, 4), (2, 4), (3, 1), (9, 1)))
    yield 'af_ib', create(0x13f) + command(20, struct.pack('<IHH', 0, 48, 0) + struct.pack('<H', 27) + bytes(126))
    yield 'query', create() + answered(19, 0, 0) + answered(19, 0, 1) + answered(19, 0, 2) + answered(5, 0)


folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
for name, data in sessions():
    with open(os.path.join(folder, name), 'wb') as f:
        f.write(data)
