#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_rx_corpus.py FOLDER: receive rings and frames as they come from a cable, for fuzz_rx. Packets: InfiniBand
Architecture Specification, chapters 9 and A17; rings: rdma-core's mlx5dv.h."""
import os
import struct
import sys

MR = 0x200000040000
KEY = b'KEY!'
RC, UC, UD, RSS = range(4)
SRQ = STRIDING = 4
SHIFT, HASH, CSUM, STRIDX, ENHANCED, ROUNDS = 8, 0x10, 0x20, 0x30, 0x40, 0x80
TRANSPORT = {RC: 0x00, UC: 0x20, UD: 0x60}
SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMM, SEND_ONLY, SEND_ONLY_IMM = range(6)
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM, READ_REQUEST = range(6, 13)
READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ACK, ATOMIC_ACK, COMPARE_SWAP, FETCH_ADD = range(13, 21)
SEND_LAST_INV, SEND_ONLY_INV = 0x16, 0x17
ACK_REQUEST = 0x80000000


def udp(payload, dport, sport=0xc123):
    datagram = struct.pack('>HHHH', sport, dport, 8 + len(payload), 0) + payload
    ip = struct.pack('>BBHHHBBHBBBBBBBB', 0x45, 0, 20 + len(datagram), 0, 0, 64, 17, 0, 10, 53, 0, 9, 10, 53, 0, 1)
    total = sum(struct.unpack('>10H', ip))
    total = (total & 0xffff) + (total >> 16)
    ip = ip[:10] + struct.pack('>H', ~total & 0xffff) + ip[12:]
    return b'\xff' * 6 + b'\2\0\0\0\0\x09' + b'\x08\0' + ip + datagram


def roce(kind, op, *rest, psn=0):
    bth = struct.pack('>BBHII', TRANSPORT[kind] | op, 0x40, 0xffff, 0, ACK_REQUEST | psn)
    return udp(bth + b''.join(rest) + b'\0\0\0\0', 4791)


def reth(length, at=1024):
    return struct.pack('>Q4sI', MR + at, KEY, length)


def atomic(at=64):
    return struct.pack('>Q4sQQ', MR + at, KEY, 5, 0)


def tagged(frame):
    return frame[:12] + b'\x81\0\x20\7' + frame[12:]


def fill(n):
    return bytes(i & 0xff for i in range(n))


def plain_ring():
    data = struct.pack('>I4sQ', 128, KEY, MR) + struct.pack('>I4sQ', 2048, KEY, MR + 256)
    return (data + struct.pack('>I4sQ', 0, b'\0\0\1\0', 0)).ljust(64, b'\0') * 8


def linked_ring(length):
    """16 bytes of link first: shared queues, which follow it, and striding ones, which do not."""
    return b''.join((struct.pack('>HHIQ', 0, (i + 1) % 8, 0, 0) + struct.pack('>I4sQ', length, KEY, MR + (i % 4) * 1024)
                     + struct.pack('>I4sQ', 0, b'\0\0\1\0', 0)).ljust(64, b'\0') for i in range(8))


def case(how, *frames, receives=8, fix=7):
    link = how & 4
    ring = linked_ring(1024) if link else plain_ring()
    body = b''.join(struct.pack('>H', len(f)) + f for f in frames)
    return bytes([how, fix, receives]) + ring + body


imm = b'\1\2\3\4'
deth = struct.pack('>II', 0, 77)
aeth = struct.pack('>I', 0x1f000001)
messages = [roce(RC, SEND_ONLY, fill(100)), roce(RC, SEND_ONLY_IMM, imm, fill(64)),
            roce(RC, SEND_FIRST, fill(256)), roce(RC, SEND_MIDDLE, fill(256)), roce(RC, SEND_LAST, fill(20))]
sizes = [udp(fill(n), 99, sport=n) for n in (18, 60, 200, 700, 900, 20, 21, 22, 23, 24, 25, 26, 500, 30, 31)]
cases = {
    'rc-send': case(RC, *messages),
    'rc-send-compressed': case(RC | HASH, *[roce(RC, SEND_ONLY, fill(8 * n)) for n in range(1, 9)]),
    'rc-srq': case(RC | SRQ, *messages),
    'rc-srq-rounds': case(RC | SRQ | ROUNDS, *messages, receives=3),
    'rc-write': case(RC, roce(RC, WRITE_ONLY, reth(64), fill(64)), roce(RC, WRITE_FIRST, reth(300), fill(256)),
                     roce(RC, WRITE_LAST_IMM, imm, fill(44))),
    'rc-read-atomic': case(RC | ROUNDS, roce(RC, READ_REQUEST, reth(900)), roce(RC, COMPARE_SWAP, atomic()),
                           roce(RC, FETCH_ADD, atomic())),
    'rc-invalidate': case(RC, roce(RC, SEND_ONLY_INV, KEY, fill(16))),
    'rc-no-receive': case(RC | ROUNDS, *messages, receives=0),
    'rc-out-of-order': case(RC, roce(RC, SEND_LAST, fill(16)), roce(RC, WRITE_MIDDLE, fill(256))),
    'rc-again': case(RC | ROUNDS, roce(RC, SEND_ONLY, fill(40)), roce(RC, SEND_ONLY, fill(40)),
                     roce(RC, READ_REQUEST, reth(600), psn=1),
                     roce(RC, READ_REQUEST, reth(600), psn=1), roce(RC, FETCH_ADD, atomic(), psn=4),
                     roce(RC, FETCH_ADD, atomic(), psn=4), roce(RC, SEND_ONLY, fill(40), psn=9), fix=3),
    'rc-answers': case(RC, roce(RC, ACK, aeth), roce(RC, READ_ONLY, aeth, fill(64)),
                       roce(RC, ATOMIC_ACK, aeth, fill(8))),
    'uc': case(UC, roce(UC, SEND_ONLY, fill(99 + 1)), roce(UC, SEND_FIRST, fill(256)), roce(UC, SEND_LAST, fill(8)),
               roce(UC, WRITE_ONLY, reth(32), fill(32))),
    'ud': case(UD, roce(UD, SEND_ONLY, deth, fill(128)), roce(UD, SEND_ONLY_IMM, deth, imm, fill(64))),
    'ud-srq': case(UD | SRQ, roce(UD, SEND_ONLY, deth, fill(128)), roce(UD, SEND_ONLY, deth, fill(64))),
    'raw': case(RSS, *sizes),
    'raw-compressed': case(RSS | HASH, *sizes),
    'raw-checksum-enhanced': case(RSS | CSUM | ENHANCED, *sizes),
    'striding': case(RSS | STRIDING, *sizes),
    'striding-shift': case(RSS | STRIDING | SHIFT, *sizes, receives=2),
    'striding-compressed': case(RSS | STRIDING | HASH, *sizes),
    'striding-index': case(RSS | STRIDING | STRIDX | ROUNDS, *sizes),
    'raw-stripped': case(RSS, *map(tagged, sizes), fix=31),
    'striding-stripped': case(RSS | STRIDING | HASH, *map(tagged, sizes), *sizes[:3], fix=15),
    'striding-enhanced': case(RSS | STRIDING | STRIDX | ENHANCED, *sizes),
}
folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
for name, content in cases.items():
    with open(os.path.join(folder, name), 'wb') as f:
        f.write(content)
