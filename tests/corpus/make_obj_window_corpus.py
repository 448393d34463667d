#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_obj_window_corpus.py FOLDER: streams of hits for fuzz_obj_window (its head has the steps)."""
import os
import random
import sys

PUSH, RETIRE, CONSUME, OTHER, BUSY, HIT = range(6)


def conf(bits=32, flags=0, size=200, granule=16, buffers=4, opened=2, deadline=0):
    return bytes([bits - 2, flags, (size - 1) >> 8, (size - 1) & 255, granule - 1, buffers - 2, opened - 1, deadline])


def granule(key, index, how=0x40):
    """One piece of one granule; how: the flags of fuzz_obj_window's step_hit."""
    return bytes([HIT, key, how, index, 15, 9])


def whole(key, granules=13, order=None):
    return b"".join(granule(key, i) for i in order or range(granules))


def turn(push=16, retire=8, consume=1):
    return bytes([PUSH, push, RETIRE, retire, CONSUME, consume])


def shuffled(objects, seed, lose=0.0):
    dice = random.Random(seed)
    out = b""
    for key in range(objects):
        order = [i for i in range(13) if dice.random() >= lose]
        dice.shuffle(order)
        out += whole(key, order=order) + turn(push=dice.randrange(8), retire=dice.randrange(3))
    return out


INPUTS = {
    "in_order": conf() + b"".join(whole(k) + turn() for k in range(6)),
    "wraps": conf(bits=4, buffers=8) + b"".join(whole(k) + turn() for k in range(20)),
    "lost": conf(opened=3) + shuffled(12, 1, lose=0.3) + bytes([OTHER, 255]) + turn(),
    "deadline": conf() + granule(1, 3) + bytes([OTHER, 200]) + turn(push=2) + turn() + granule(1, 4),
    "held": conf(buffers=3) + b"".join(whole(k) + turn(consume=0) for k in range(8)),
    "taken_back": conf(flags=2, buffers=3) + b"".join(whole(k) + bytes([PUSH, 200, RETIRE, 8]) for k in range(8)),
    "busy": conf() + bytes([BUSY, 200]) + whole(1) + bytes([BUSY, 0]) + whole(2) + turn(),
    "restart": conf(bits=16) + whole(1) + granule(9, 0, 0xc0) + granule(9, 1, 0xc0) + whole(1) + turn(),
    "ended": conf(flags=1) + granule(1, 0) + bytes([HIT, 1, 1, 1, 8, 9, HIT, 2, 6, 30, 9]) + whole(2, 8) + turn(),
    "pieces": conf(granule=1, size=600) + bytes([HIT, 1, 0x18, 0, 90, 50, 90, 150, 90, 60, 90, 9]) * 3 + turn(),
    "many_gaps": conf(granule=2) + b"".join(granule(1, i) for i in range(0, 100, 2)) + bytes([OTHER, 1]) + turn(push=7),
}


def main():
    for name, data in INPUTS.items():
        with open(os.path.join(sys.argv[1], name), "wb") as file:
            file.write(data)


if __name__ == "__main__":
    main()
