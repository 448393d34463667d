#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_rc_exchange_corpus.py FOLDER: one input for each way an exchange can go (rc_hello.h)."""
import os
import struct
import sys

HELLO, CHALLENGE, OFFER, ACCEPT, REJECT, READY = range(1, 7)
MAC = bytes(32)


def message(kind, body, version=2):
    return struct.pack('>4sHBBHH', b'SPWR', version, kind, 0, 12 + len(body), 0) + body


def gid(*ipv4):
    return bytes(10) + b'\xff\xff' + bytes(ipv4)


def params(op=1, mtu=1024, credits=16, addr=gid(10, 0, 0, 9)):
    write = (4096, 5, 0x10000, 0x20000, 6, 4096) if op else (0,) * 6
    return struct.pack('>II16sHBBIIIIQQII', 3, 4, addr, mtu, op, 0, credits, 4096, *write)


NONCE = bytes(range(32))
SERVER = message(HELLO, NONCE), message(OFFER, params() + MAC), message(READY, MAC)
CORPUS = {
    'server': b'\0\0' + b''.join(SERVER),
    'server-bytes': b'\0\1' + b''.join(SERVER),
    'server-secret': b'\2\0' + b''.join(SERVER),
    'server-mtu': b'\0\0' + SERVER[0] + message(OFFER, params(mtu=4096) + MAC),
    'server-op': b'\0\0' + SERVER[0] + message(OFFER, params(op=0) + MAC),
    'server-version': b'\0\0' + message(HELLO, NONCE, version=0),
    'server-more': b'\0\0' + b''.join(SERVER) + b'more',
    'server-gid': b'\0\0' + SERVER[0] + message(OFFER, params(addr=gid(11, 0, 0, 9)) + MAC),
    'server-gid-v6': b'\0\0' + SERVER[0] + message(OFFER, params(addr=bytes(range(16))) + MAC),
    'server-gid-loopback': b'\x08\0' + SERVER[0] + message(OFFER, params(addr=bytes(range(16))) + MAC) + SERVER[2],
    'server-gids': b'\4\0' + SERVER[0] + message(OFFER, params(addr=gid(10, 1, 2, 3)) + MAC) + SERVER[2],
    'server-gids-not': b'\x0c\0' + b''.join(SERVER),
    'client-reject-gid': b'\1\0' + message(CHALLENGE, NONCE) + message(REJECT, struct.pack('>HHI', 5, 0, 0) + MAC),
    'client-reject-host': b'\1\0' + message(CHALLENGE, NONCE) + message(REJECT, struct.pack('>HHI', 6, 0, 2) + MAC),
    'client': b'\1\0' + message(CHALLENGE, NONCE) + message(ACCEPT, params() + MAC),
    'client-pieces': b'\1\7' + message(CHALLENGE, NONCE) + message(ACCEPT, params() + MAC),
    'client-reject': b'\1\0' + message(CHALLENGE, NONCE) + message(REJECT, struct.pack('>HHI', 1, 0, 4096) + MAC),
    'client-version': b'\1\0' + message(CHALLENGE, NONCE, version=3),
}

for name, data in CORPUS.items():
    with open(os.path.join(sys.argv[1], name), 'wb') as f:
        f.write(data)
