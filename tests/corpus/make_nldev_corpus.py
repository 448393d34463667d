#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_nldev_corpus.py FOLDER: questions of NETLINK_RDMA, as iproute2's rdma and libibverbs ask them, for fuzz_nldev.
Layouts and numbers: <linux/netlink.h>, <rdma/rdma_netlink.h>."""
import os
import struct
import sys

REQUEST, ACK, DUMP = 1, 4, 0x300
NLDEV = 5
DEV, PORT, LQPN, PDN, CHARDEV, STAT_MODE, STAT_RES = 1, 3, 21, 60, 69, 74, 75
QP, MR = 19, 47
COMMANDS = range(0, 28)


def attr(number, value):
    body = value if isinstance(value, bytes) else struct.pack('<I', value)
    return (struct.pack('<HH', 4 + len(body), number) + body).ljust(-(-(4 + len(body)) // 4) * 4, b'\0')


def question(command, *attrs, flags=REQUEST, client=NLDEV):
    body = b''.join(attrs)
    return struct.pack('<IHHII', 16 + len(body), client << 10 | command, flags, 7, 0) + body


def seeds():
    for command in COMMANDS:
        yield f'one_{command}', question(command, attr(DEV, 0), attr(PORT, 1))
        yield f'dump_{command}', question(command, attr(DEV, 0), flags=REQUEST | DUMP)
    for number in range(9, 28):
        yield f'number_{number}', b''.join(question(number, attr(DEV, 0), *port, *(attr(n, 3) for n in range(1, 100)
                                                                                  if n not in (DEV, PORT)))
                                           for port in ((), (attr(PORT, 1),)))
    yield 'listing', question(1, flags=REQUEST | DUMP) + question(9, flags=REQUEST | ACK)
    yield 'chardev', question(15, attr(DEV, 0), attr(CHARDEV, b'uverbs\0')) + question(15, attr(CHARDEV, b'rdma_cm\0'))
    yield 'stat', b''.join(question(17, attr(DEV, 0), attr(PORT, 1), *more, flags=flags)
                           for more in ((), (attr(STAT_RES, QP), attr(STAT_MODE, 0)), (attr(STAT_RES, MR),))
                           for flags in (REQUEST, REQUEST | DUMP, REQUEST | ACK))
    yield 'bind', question(16, attr(DEV, 0), attr(PORT, 1), attr(STAT_RES, QP), attr(STAT_MODE, 2), attr(LQPN, 3))
    yield 'wrong', question(12, attr(DEV, b'\0')) + question(1023, client=2) + question(7, attr(0xfff, 1))
    yield 'cut', question(14, attr(DEV, 0), attr(PDN, 1))[:-3]


folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
for name, data in seeds():
    with open(os.path.join(folder, name), 'wb') as f:
        f.write(data)
