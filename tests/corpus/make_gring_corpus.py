#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_gring_corpus.py FOLDER: batches and completions for fuzz_gring (exec/spw_gring.h has the words)."""
import os
import struct
import sys

PUSH, EXECUTE, COMPLETE, RAW = range(4)
NULL, SUM, CRC32C, ECHO = range(4)


def conf(handler, batches_log2=2, units=2):
    return bytes([batches_log2 - 1, units - 1, handler, 0])


def frame(slot, length, offset=0, flags=3, meta=0x1234):
    """The slot is taken modulo 8, the length less one modulo what is left of it."""
    return struct.pack('<Q', slot | offset << 8 | flags << 24 | meta << 32 | (length - 1) << 48)


def push(*frames):
    return bytes([PUSH, len(frames) - 1]) + b''.join(frames)


def complete(words, op=COMPLETE):
    mask = sum(1 << i for i in words)
    return bytes([op, mask]) + b''.join(struct.pack('<Q', words[i]) for i in sorted(words))


def udp(payload):
    datagram = struct.pack('>HHHH', 4000, 4001, 8 + len(payload), 0) + payload
    ip = struct.pack('>BBHHHBBHII', 0x45, 0, 20 + len(datagram), 0, 0, 64, 17, 0, 0x0a000001, 0x0a000002)
    return b'\2' * 6 + b'\4' * 6 + b'\x08\0' + ip + datagram


def w2(cnt, unit=0, verdicts=0):
    return verdicts | cnt << 16 | unit << 40


INPUTS = {
    'execute_' + name: conf(handler) + (push(frame(7, 60, 452)) + bytes([EXECUTE, 0])) * 6 + udp(b'payload of a frame')
    for name, handler in (('null', NULL), ('sum', SUM), ('crc32c', CRC32C), ('echo', ECHO))}
INPUTS |= {
    'full_batch': conf(SUM) + push(*[frame(i % 8, 1 + 7 * i) for i in range(64)]) + bytes([EXECUTE, 0]),
    'good': conf(NULL) + push(frame(0, 60), frame(1, 60)) + complete({0: 0b1001, 2: w2(2), 5: 1, 7: 2}),
    'echo_all': conf(NULL) + push(*[frame(0, 60)] * 64) + complete({0: 0x55555555555555, 1: 0x55555555555555,
                                                                    2: w2(64, 1, 0x5555)}),
    'unit_beyond': conf(NULL) + push(frame(0, 60)) + complete({2: w2(1, 0xffff), 7: 1}),
    'cnt_wrong': conf(NULL) + push(frame(0, 60)) + complete({2: w2(64)}),
    'verdict_beyond': conf(NULL) + push(frame(0, 60)) + complete({1: 1, 2: w2(1)}),
    'two_verdicts': conf(NULL) + push(frame(0, 60)) + complete({0: 3, 2: w2(1), 5: 1}),
    'reason_alone': conf(NULL) + push(frame(0, 60)) + complete({5: 0x7f, 2: w2(1)}),
    'ring_full': conf(NULL, 1, 1) + push(frame(0, 60)) * 4 + bytes([EXECUTE, 0]) * 4,
    'raw': conf(NULL) + push(frame(0, 60)) + complete({i: (1 << 56) | (w2(1) if i == 2 else 0) for i in range(8)}, RAW),
    'stale': conf(NULL) + push(frame(0, 60)) + complete({i: 5 << 56 for i in range(8)}, RAW) + bytes([EXECUTE, 0]),
}


def main():
    for name, data in INPUTS.items():
        with open(os.path.join(sys.argv[1], name), 'wb') as f:
            f.write(data)


if __name__ == '__main__':
    main()
