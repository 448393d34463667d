#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_devx_corpus.py FOLDER: sessions of firmware commands, for fuzz_devx (whose head has the format). Fields by bit
and width: DPDK 22.11 drivers/common/mlx5/mlx5_prm.h."""
import os
import struct
import sys

(CREATE, MODIFY, QUERY, OTHER, DESTROY, UMEM, UNUMEM, PAGE, EQN, SWAP, CHANNEL, SUBSCRIBE, ASYNC, RAISE, READ,
 CLOSE) = range(16)


def record(step, fields=(), opcode=0, obj=0, size=512):
    """fields: (bit, width, value), or (bit, width, 'o', object)."""
    body = b''.join(struct.pack('<HBBI', f[0], f[1], len(f) == 4, f[-1]) for f in fields)
    return struct.pack('<BBHHH', step, obj, size, opcode, len(fields)) + body


# Objects in this order: 0 PD, 1 TD, 2 TIS, 3 register page, 4 umem, 5 CQ.
def start():
    return (record(CREATE, opcode=0x800) + record(CREATE, opcode=0x816) +
            record(CREATE, [(0x228, 24, 'o', 1)], 0x912) + record(PAGE) + record(EQN) +
            record(UMEM, [(0, 0, 0), (0, 0, 0x10000), (0, 0, 1)]) + cq())


def cq(*more):
    return record(CREATE, [(0xa0, 32, 'o', 4), (0xe3, 5, 4), (0xe8, 24, 'o', 3), (0x138, 8, 1), (0x240, 64, 0x400),
                           (0x2c0, 32, 'o', 4), *more], 0x400)


def wq(at, stride, log2, kind=1):
    return [(at, 4, kind), (at + 0x48, 24, 'o', 0), (at + 0x68, 24, 'o', 3), (at + 0x80, 64, 0x3000),
            (at + 0x10c, 4, stride), (at + 0x11b, 5, log2), (at + 0x140, 32, 'o', 4), (at + 0x160, 32, 'o', 4),
            (at + 0x180, 64, 0x1000)]


def rq(*more, stride=4, kind=1):
    return record(CREATE, [(0x103, 1, 1), (0x10d, 1, 1), (0x148, 24, 'o', 5), *wq(0x280, stride, 3, kind), *more],
                  0x908)


def sq(*more):
    return record(CREATE, [(0x103, 1, 1), (0x148, 24, 'o', 5), (0x200, 16, 1), (0x268, 24, 'o', 2),
                           *wq(0x280, 6, 4), *more], 0x904)


def state(obj, opcode, old, new):
    return record(MODIFY, [(0x48, 24, 'o', obj), (0x40, 4, old), (0x108, 4, new)], opcode, obj)


def rqt(*queues, opcode=0x916, obj=0):
    fields = [(0x1b0, 16, 4), (0x1d0, 16, len(queues))]
    fields += [(0x880 + 32 * i, 32, 'o', q) for i, q in enumerate(queues)]
    if opcode == 0x917:
        fields += [(0x48, 24, 'o', obj), (0x80, 64, 1)]
        return record(MODIFY, fields, opcode, obj)
    return record(CREATE, fields, opcode)


def sessions():
    yield 'caps', b''.join(record(OTHER, [(0x30, 16, page << 1 | 1)], 0x100, size=16) for page in
                           (0, 1, 2, 3, 4, 7, 12, 15, 32, 99)) + record(OTHER, opcode=0x754) + record(OTHER,
                                                                                                      opcode=0x842)
    yield 'sq', start() + sq() + state(6, 0x905, 0, 1) + state(6, 0x905, 1, 3) + state(6, 0x905, 3, 0) + record(
        DESTROY, obj=6)
    yield 'rq', start() + rq() + state(6, 0x909, 0, 1) + record(QUERY, [(0x48, 24, 'o', 6)], 0x90b, 6)
    yield 'striding', start() + rq((0x3b4, 4, 0xa), (0x3b8, 1, 1), (0x3bd, 3, 2), stride=5, kind=3)
    query = record(QUERY, [(0xf8, 8, 1), (0xc0, 1, 1)], 0x773, 6)
    yield 'counter', start() + record(CREATE, opcode=0x771) + rq((0x160, 8, 1)) + query
    count = [(0xe0, 32, 'o', 6), (0xc0, 1, 1)]
    yield 'flow_counter', (start() + record(CREATE, opcode=0x939) + record(CREATE, [(0x78, 8, 4)], 0x939) +
                           record(QUERY, count, 0x93b, 6) + record(QUERY, [*count, (0xc2, 30, 4)], 0x93b, 6) +
                           record(QUERY, count, 0x93b, 6, size=20) + record(DESTROY, obj=6))
    yield 'rss', (start() + rq() + rq() + rqt(6, 7) +
                  record(CREATE, [(0x120, 4, 1), (0x208, 24, 'o', 8), (0x220, 4, 2), (0x228, 24, 'o', 1),
                                  (0x240, 32, 0x6d5a56da), (0x382, 30, 15)], 0x900) + rqt(7, 7, 6, 6, opcode=0x917,
                                                                                          obj=8) +
                  record(DESTROY, obj=8) + record(DESTROY, obj=9) + record(DESTROY, obj=8))
    yield 'direct', start() + rq() + record(CREATE, [(0x1e8, 24, 'o', 6), (0x226, 2, 2)], 0x900)
    yield 'compressed', start() + cq((0x91, 1, 1), (0x92, 2, 3), (0x99, 7, 1), (0x8e, 1, 1))
    yield 'short', start() + b''.join(record(CREATE, opcode=op, size=size) for op in (0x400, 0x904, 0x908, 0x900, 0x916)
                                      for size in (0, 8, 16, 64, 271))
    yield 'foreign', start() + record(SWAP) + rq() + sq() + record(DESTROY, obj=5) + record(UNUMEM, obj=4)
    yield 'busy', start() + sq() + b''.join(record(DESTROY, obj=o) + record(UNUMEM, obj=o) for o in range(7))
    # 6: a channel; of the CQ both events, of the port one. Lists of 10 bytes: up to 8 would not lie in the arena.
    port = [(16 * i, 8, 9) for i in range(5)]
    subscribe = (record(SUBSCRIBE, [(8000, 1, 6), (16, 8, 4)], 0, 5, size=10) +
                 record(SUBSCRIBE, [(8000, 0, 6), *port], 0x0900, size=10) +
                 record(SUBSCRIBE, [(8000, 2, 6), (8000, 0, 1)], 0x0900, size=10))
    events = record(RAISE, opcode=1, obj=5) * 2 + record(RAISE, obj=5) + record(RAISE, obj=31)
    reads = record(READ, obj=6, size=7) + record(READ, obj=6, size=72) * 5
    for name, omit in (('cookies', 1), ('entries', 0)):
        yield name, (start() + record(CHANNEL, opcode=omit) + subscribe + events + reads + record(DESTROY, obj=5) +
                     record(READ, obj=6) + events + record(CLOSE, obj=6) + events)
    yield 'channel_first', start() + record(CHANNEL) + subscribe + events + record(CLOSE, obj=6) + events
    yield 'channel_foreign', start() + record(CHANNEL) + record(SWAP) + subscribe + events + reads
    query = [(0x48, 24, 'o', 6), (272, 0, 7)]
    yield 'async', (start() + rq() + record(CHANNEL, obj=1) + record(ASYNC, query, 0x90b, 6) * 3 +
                    record(ASYNC, [(0x48, 24, 'o', 6), (8, 0, 7)], 0x90b, 6) + record(READ, obj=7, size=20) +
                    record(READ, obj=7, size=280) * 4 + record(ASYNC, query, 0x902, 6) + record(DESTROY, obj=6))
    yield 'unknown', b''.join(record(step, opcode=op) for step in (CREATE, MODIFY, QUERY, OTHER) for op in
                              (0, 0x200, 0x500, 0x710, 0x936, 0xa00, 0xb00, 0xffff))


folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
for name, data in sessions():
    with open(os.path.join(folder, name), 'wb') as f:
        f.write(data)
