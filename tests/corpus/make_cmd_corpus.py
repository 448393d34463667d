#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_cmd_corpus.py FOLDER: sessions with the uverbs device, as libmlx5 holds them, for fuzz_cmd. Layouts:
<rdma/ib_user_verbs.h>, <rdma/rdma_user_ioctl_cmds.h>, <rdma/mlx5-abi.h>, <rdma/mlx5_user_ioctl_cmds.h>."""
import os
import struct
import sys

ARENA = 0x200000000000
RESP, BUF, DBREC, IN = ARENA, ARENA + 0x10000, ARENA + 0x8000, ARENA + 0x80000
EX = 0x80000000
UCONTEXT = struct.pack('<4IBBHIQ', 16, 4, 0, 0, 1, 0, 0, 0, 3)  # CQE version 1; 4 KB and dynamic UARs


def record(kind, body):
    return struct.pack('<BBH', kind, 0, len(body)) + body


def old(cmd, core, drv=b'', out=64):
    """write(): header in 4-byte words; commands with an answer start with its address."""
    body = core + drv
    body += bytes(-len(body) % 4)
    return record(0, struct.pack('<IHH', cmd, (8 + len(body)) // 4, out // 4) + body)


def extended(cmd, core, drv=b'', out=64, drv_out=64):
    core += bytes(-len(core) % 8)
    drv += bytes(-len(drv) % 8)
    return record(0, struct.pack('<IHHQHHI', cmd | EX, len(core) // 8, out // 8, RESP, len(drv) // 8, drv_out // 8,
                                 0) + core + drv)


def ioctl(obj, method, attrs):
    """attrs: (id, length, flags, data)."""
    body = b''.join(struct.pack('<HHHHQ', a, n, f, 0, d & (1 << 64) - 1) for a, n, f, d in attrs)
    return record(1, struct.pack('<HHHHQII', 24 + len(body), obj, method, len(attrs), 0, 1, 0) + body)


def invoke(cmd, core, drv=b'', out=64, drv_out=72):
    """The same command as an ioctl; its buffers lie behind the attributes, in the arena's upper half."""
    head = 24 + 5 * 16
    core_at, drv_at = IN + head, IN + head + len(core)
    body = ioctl(0, 0, [(0, len(core), 1, core_at), (1, out, 1, RESP), (2, 4, 1, cmd), (0x1000, len(drv), 0, drv_at),
                        (0x1001, drv_out, 0, RESP + 0x400)])[4:]
    return record(1, body + core + drv)


def q(*values):
    return struct.pack(f'<{len(values)}Q', *values)


def w(*values):
    return struct.pack(f'<{len(values)}I', *values)


def context():
    return old(0, q(RESP), UCONTEXT, out=8 + 72)


def pd():
    return old(3, q(RESP), out=8)


def mr(handle=1):
    return old(9, q(RESP, BUF, 0x1000, BUF) + w(handle, 0xf), out=12)


def cq(entries=15, channel=0xffffffff):
    return old(18, q(RESP, 0x77) + w(entries, 0, channel, 0),
               q(BUF, DBREC) + struct.pack('<IBBHHHI', 64, 0, 0, 2, 1, 0, 0), out=16)


def qp(kind=2, pd_handle=1, cq_handle=3, srq=0, is_srq=0):
    return old(24, q(RESP, 0x55) + w(pd_handle, cq_handle, cq_handle, srq, 16, 16, 1, 1, 64) +
               struct.pack('<BBBB', 0, kind, is_srq, 0),
               q(BUF + 0x2000, DBREC + 64) + w(16, 16, 6, 1 << 10, 1, 1) + q(BUF + 0x4000) + bytes(8), out=72)


def modify(handle, state, mask):
    body = bytearray(112)
    struct.pack_into('<II', body, 64, handle, mask)
    body[96], body[104] = state, 1
    return old(26, bytes(body), out=0)


def uar(kind):
    """Object UAR of the driver's namespace: allocate."""
    return ioctl(0x1008, 0x1000, [(0x1000, 0, 1, 0), (0x1001, 8, 1, kind), (0x1002, 8, 1, RESP),
                                  (0x1003, 4, 1, RESP + 8),
                                  (0x1004, 4, 1, RESP + 16)])


def probe():
    return ioctl(0, 0, [(2, 8, 1, 1)])


def start():
    """Handles: PD 1, register page 2 (index 1), CQ 3."""
    return context() + pd() + uar(0) + cq()


def sessions():
    yield 'context', context()
    yield 'query', context() + old(1, q(RESP), out=176 + 8) + old(2, q(RESP) + struct.pack('<B7x', 1), out=40)
    yield 'ex-query', context() + extended(1, w(0, 0), out=304, drv_out=104)
    yield 'mr', context() + pd() + mr() + old(13, w(2), out=0) + old(4, w(1), out=0)
    yield 'rc', start() + qp(2) + qp(2) + modify(4, 1, 0x39) + old(27, q(RESP) + w(4, 0), out=4)
    yield 'ud', start() + qp(4) + old(25, q(RESP) + w(4, 0xffff), out=128)
    yield 'raw', start() + qp(8) + extended(50, w(0, 4) + struct.pack('<IHHBBBBI', 0, 16, 0, 0, 0, 0, 1, 0), out=8,
                                            drv=b'', drv_out=0)
    yield 'srq', start() + old(32, q(RESP, 1) + w(1, 15, 1, 0), q(BUF, DBREC) + w(0, 0, 0, 0),
                               out=16) + qp(2, 1, 3, 4, 1)
    yield 'wq', (start() + extended(52, w(0, 0) + q(1) + w(1, 3, 16, 1, 0, 0),
                                    q(BUF, DBREC) + w(16, 4, 0, 0, 0, 0, 0, 0), out=24, drv_out=8) +
                 extended(53, w(1, 4, 1, 0, 0, 0), out=0, drv_out=0) + extended(55, w(0, 0, 4, 0), out=16, drv_out=8))
    yield 'order', qp() + cq() + pd() + context() + context() + old(4, w(9), out=0)
    yield 'probe', probe() + context() + probe()
    yield 'invoke', (invoke(0, q(RESP), UCONTEXT, out=8) + invoke(3, q(RESP), out=4, drv_out=4) +
                     invoke(9, q(RESP, BUF, 0x1000, BUF) + w(1, 0xf), out=12) +
                     invoke(18, q(RESP, 0x77) + w(15, 0, 0xffffffff, 0), q(BUF, DBREC) + w(64, 0) + bytes(16), out=8,
                            drv_out=8))
    yield 'channel', start() + old(17, q(RESP), out=12) + old(20, q(RESP) + w(3, 0), out=16)
    yield 'resize', start() + old(19, q(RESP) + w(3, 31), q(BUF + 0x800) + w(64, 0, 0, 0), out=16)
    yield 'mcast', start() + qp(4) + old(30, bytes(16) + w(4, 0) + q(0),
                                         out=0) + old(31, bytes(16) + w(4, 0) + q(0), out=0)
    yield 'ah', start() + old(5, q(RESP, 1) + w(1, 0) + bytes(32), out=12)
    yield 'busy', start() + qp(2) + old(4, w(1), out=0) + old(20, q(RESP) + w(3, 0), out=16)
    yield 'twice', context() + pd() + old(4, w(1), out=0) + old(4, w(1), out=0) + mr(1) + mr(77)


folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
for name, data in sessions():
    with open(os.path.join(folder, name), 'wb') as f:
        f.write(data)
