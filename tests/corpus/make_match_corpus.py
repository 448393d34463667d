#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_match_corpus.py FOLDER: sessions of flow rules and frames, for fuzz_match (whose head has the format)."""
import os
import struct
import sys

ADD, REMOVE, FRAME = range(3)
DROP, MISS, TAG, BARE = 2 << 2, 3 << 2, 0x10, 0x80


def add(seed, how=0, *edits):
    return struct.pack('<BBQB', ADD, how, seed, len(edits)) + b''.join(bytes(e) for e in edits)


def remove(rule):
    return bytes((REMOVE, rule))


def frame(seed, cut=0, *edits):
    return struct.pack('<BQBB', FRAME, seed, cut, len(edits)) + b''.join(bytes(e) for e in edits)


def sessions():
    seeds = range(1, 25)
    yield 'alike', b''.join(add(s, s % 4) + frame(s) for s in seeds) + b''.join(frame(s) for s in range(100))
    yield 'priorities', b''.join(add(s, s % 3 | (s % 4) << 5 | TAG) for s in seeds) + b''.join(frame(s) for s in seeds)
    yield 'equal', (b''.join(add(7, q) for q in (0, 1, 2, 2)) + frame(7) + remove(0) + frame(7) +
                    add(7, DROP) + frame(7))
    yield 'actions', (add(3, DROP) + frame(3) + add(4, MISS) + frame(4) +
                      add(5, BARE, (8, 1, 1)) + frame(5) + remove(0) + frame(3))
    yield 'ages', (b''.join(add(s) for s in seeds) +
                   b''.join(remove(0) + frame(s) + add(s, TAG) + frame(s) for s in seeds))
    # A rule of the second mask that is younger than the best of the first, in a group that is older.
    yield 'groups', (add(0, BARE, (0x10, 0xff, 6)) + add(0, BARE, (0x12, 0x1e, 12)) +
                     add(0, BARE | 1, (0x10, 0xff, 17)) + add(0, BARE | 2, (0x12, 0x1e, 8)) +
                     b''.join(frame(s) for s in range(40)))
    yield 'fields', b''.join(add(s) + frame(s) + remove(0) for s in range(100, 500))
    yield 'one mask', (b''.join(add(0, BARE, (0x3f, 3, n % 4), (0x1f, 7, n // 4)) for n in range(24)) +
                       b''.join(frame(s) for s in seeds))
    yield 'refused', b''.join(add(s, 0, (at, 0xff, 0xff)) for s, at in enumerate((0x18, 0x1a, 0x40, 0x46, 0x7f, 0x98)))
    yield 'hostile', (b''.join(add(s) for s in seeds) +
                      b''.join(frame(s, s * 5 % 90) + frame(s, 0, (12 + s, 0xff), (s, 1)) for s in range(60)))


folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
for name, data in sessions():
    with open(os.path.join(folder, name), 'wb') as f:
        f.write(data)
