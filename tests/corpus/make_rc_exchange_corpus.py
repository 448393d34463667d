#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_rc_exchange_corpus.py FOLDER: one input for each way an exchange can go (lib/peer/message.h)."""
import os
import struct
import sys

OFFER, ACCEPT, REJECT, READY_TYPE = range(1, 5)
MAC = bytes(32)


def greeting(version=3, secret=False):
    return struct.pack('>4sHH', b'SPWR', version, secret) + bytes(range(32))


def message(kind, body=b''):
    return struct.pack('>IB3x', 4 + len(body), kind) + body + MAC


def gid(*ipv4):
    return bytes(10) + b'\xff\xff' + bytes(ipv4)


def params(op=1, mtu=1024, credits=16, addr=gid(10, 0, 0, 9)):
    write = (4096, 5, 0x10000, 0x20000, 6, 4096) if op else (0,) * 6
    return struct.pack('>II16sHBBIIIIQQII', 3, 4, addr, mtu, op, 0, credits, 4096, *write)


def server(how, *messages, **greet):
    return bytes(how) + greeting(**greet) + b''.join(messages)


def client(how, *messages, **greet):
    return bytes((how[0] | 1, how[1])) + greeting(**greet) + b''.join(messages)


def reject(reason, value=0):
    return message(REJECT, struct.pack('>HHI', reason, 0, value))


def offer(**how):
    return message(OFFER, params(**how))


READY = message(READY_TYPE)
CORPUS = {
    'server': server((0, 0), offer(), READY),
    'server-bytes': server((0, 1), offer(), READY),
    'server-secret': server((2, 0), offer(), READY, secret=True),
    'server-secret-absent': server((2, 0), offer(), READY),
    'server-mtu': server((0, 0), offer(mtu=4096)),
    'server-op': server((0, 0), offer(op=0)),
    'server-version': server((0, 0), version=1),
    'server-not-offer': server((0, 0), READY),
    'server-long': server((0, 0), struct.pack('>I', 257) + bytes(300)),
    'server-more': server((0, 0), offer(), READY, b'more'),
    'server-gid': server((0, 0), offer(addr=gid(11, 0, 0, 9))),
    'server-gid-v6': server((0, 0), offer(addr=bytes(range(16)))),
    'server-gid-loopback': server((8, 0), offer(addr=bytes(range(16))), READY),
    'server-gids': server((4, 0), offer(addr=gid(10, 1, 2, 3)), READY),
    'server-gids-not': server((12, 0), offer(), READY),
    'client': client((0, 0), message(ACCEPT, params())),
    'client-pieces': client((0, 7), message(ACCEPT, params())),
    'client-denied': client((2, 0), b'\xff' * 4, secret=True),
    'client-reject-gid': client((0, 0), reject(5)),
    'client-reject-host': client((0, 0), reject(6, 2)),
    'client-reject': client((0, 0), reject(1, 4096)),
    'client-version': client((0, 0), version=4),
}

for name, data in CORPUS.items():
    with open(os.path.join(sys.argv[1], name), 'wb') as f:
        f.write(data)
