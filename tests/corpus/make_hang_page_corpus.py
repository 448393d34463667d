#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_hang_page_corpus.py FOLDER: entries of a live page (lib/hang/spw_hang_page.h) for fuzz_hang_page."""
import os
import struct
import sys


def padded(text, size):
    return text.encode().ljust(size, b"\0")


def op(sequence, function):
    return struct.pack("<QQQiI", sequence, 4096, 900, 0, 0) + padded(function, 24) + padded("ncclFloat32", 16) + padded(
        "RING", 16) + padded("LL", 8)


def comm(used=1, name="world", mark=0):
    return struct.pack("<8QIIiiiIQQ", mark, 9, 0, 5, 4, 5, 4, 0, used, 6, 1, 2, 2, 0, 0xabcdef, 500) + padded(
        name, 88) + op(8, "AllReduce") + op(0, "Send")


def rail(state, device="rocep1s0f0"):
    return struct.pack("<4I5Q", state, 77, 200000, 0, 4096, 1 << 20, 3, 1, 0 if state == 2 else 800) + padded(
        device, 24) + padded("" if state == 2 else "timeout", 48)


def conn(state, waiting=0, receiving=0, rails=2, mark=0):
    view = struct.pack("<IIIi9Q8I", state, 1, 13, 0, 0xabcdef, 0x1122, 600, 990, 640, 5, 3, 700, 800, waiting, 0, 0, 0,
                       receiving, 0, 0, rails)
    words = struct.pack("<8Q", mark, 640, 5, 3, 800, 900, 0, 0)
    return words + view + padded("192.0.2.2:7000", 72) + rail(2) + rail(1) + rail(0) + rail(9)


HEAD = struct.pack("<QQ", 1000000000, 1000)
INPUTS = {
    "ready": HEAD + comm() + conn(3, waiting=2),
    "connecting": HEAD + comm(used=0) + conn(2),
    "failed": HEAD + comm() + conn(4, receiving=1, rails=4),
    "torn": HEAD + comm(mark=1) + conn(3, mark=3),
    "too_many_rails": HEAD + comm(name="x" * 88) + conn(3, rails=4000000000),
    "no_rate": bytes(8) + HEAD[8:] + comm() + conn(3),
}


def main():
    for name, data in INPUTS.items():
        with open(os.path.join(sys.argv[1], name), "wb") as file:
            file.write(data)


if __name__ == "__main__":
    main()
