#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every shipped format on captures made by script: what the plan finds in a frame is what a model written from the
standard finds, on good streams and on those that lost, doubled, reordered, cut, restarted and broke frames. tshark's
dissectors judge the captures themselves.

  streams_test.py OBJ_HITS plan FORMAT | bytes FORMAT | tshark FORMAT"""
import os
import shutil
import subprocess
import sys
import tempfile

import documents
import streams
from stream_formats import FORMATS, frame_mark

SKIP = 77
ROUNDS = 6  # of each mutation


def plan_of(hits, fmt, frames, folder):
    """What obj_hits prints for the frames: the description, then a hit for each."""
    description, capture = os.path.join(folder, "d.yaml"), os.path.join(folder, "c.pcap")
    with open(description, "w", encoding="utf-8") as out:
        out.write(fmt.description())
    streams.write_pcap(capture, frames)
    got = subprocess.run([hits, description, capture], capture_output=True, text=True, timeout=60)
    if got.returncode:
        raise AssertionError(f"obj_hits: status {got.returncode}, {got.stderr}")
    lines = [documents.foreign(line) for line in got.stdout.splitlines()]
    return lines[0], [(hit.get("miss"), hit.get("key"), hit.get("size"), hit.get("flags", 0) & 1,
                       [tuple(piece) for piece in hit.get("pieces", [])]) for hit in lines[1:]]


def model_of(fmt, frames):
    out = []
    for frame in frames:
        try:
            key, size, end, pieces = fmt.read(frame)
            out.append((None, key, size, int(end), pieces))
        except streams.Miss as miss:
            out.append((str(miss), None, None, 0, []))
    return out


def plan(hits, name, folder):
    """Mutations, and counters that wrap in the stream."""
    seen = {}
    for mutation in streams.MUTATORS:
        for seed in range(ROUNDS):
            first = (3, -1)[seed % 2] if name not in ("vrt", "difi", "oran") else 3
            fmt = FORMATS[name]()
            frames = streams.mutate(list(fmt.frames(3, first)), mutation, f"{name} {mutation} {seed}")
            about, got = plan_of(hits, fmt, frames, folder)
            assert about["object_bytes"] == fmt.object_bytes and about["granule"] == fmt.granule, about
            for at, (mine, want) in enumerate(zip(got, model_of(fmt, frames), strict=True)):
                if mine != want:
                    raise AssertionError(f"{mutation}, seed {seed}, frame {at}: plan {mine}, model {want}\n"
                                         f"{frames[at].hex()}")
                seen[want[0]] = seen.get(want[0], 0) + 1
    print(f"{name}: {sum(seen.values())} frames as the model says: {seen}")
    assert all(seen.get(miss) for miss in (None, "cut", "not_object")), "a mutation reaches none of a kind"


def whole(hits, name, folder):
    """Put together by the plan, objects have the bytes that were sent, and no others."""
    fmt = FORMATS[name]()
    frames = list(fmt.frames(4, 3))
    _, got = plan_of(hits, fmt, frames, folder)
    objects = {}
    for frame, (miss, key, _, _, pieces) in zip(frames, got, strict=True):
        for pos, skip, count in pieces if not miss else ():
            objects.setdefault(key, bytearray(fmt.object_bytes))[pos:pos + count] = frame[skip:skip + count]
    assert len(objects) >= 2, objects.keys()
    base = min(objects)
    for key, data in objects.items():
        check_object(fmt, key, bytes(data), (key - base) * fmt.object_bytes)


def check_object(fmt, key, data, offset):
    if fmt.name in ("vrt", "difi", "chdr"):  # one endless row of samples
        want = bytearray(streams.payload(fmt.stream, 0, offset, len(data)))
        for at in range(0, len(data), 128):  # chdr: packets without a timestamp are no part
            if fmt.name == "chdr" and (offset + at) // 128 % 7 == 6:
                want[at:at + 128] = bytes(128)
        assert data == want, f"object {key} differs"
    elif fmt.name == "mark":
        for row in range(8):
            body = data[row * 100:row * 100 + 100]
            assert body[:18] == frame_mark(key * 8 + row), f"object {key}, row {row} has another frame's mark"
            assert body[18:] == streams.payload(fmt.stream, key, row * 100, 82), f"object {key}, row {row} differs"
    else:
        size = fmt.size_of(key)
        assert data[:size] == streams.payload(fmt.stream, key, 0, size), f"object {key} differs"


def tshark(_hits, name, folder):
    """The captures are what their standards say, by dissectors that others wrote."""
    if not shutil.which("tshark"):
        print("tshark is not installed (tools/deps test)")
        sys.exit(SKIP)
    fmt, capture = FORMATS[name](), os.path.join(folder, "c.pcap")
    frames = list(fmt.frames(3, 3))
    streams.write_pcap(capture, frames)
    cmd = ["tshark", "-r", capture, "-T", "fields", "-E", "occurrence=f"]
    cmd += ["-d", fmt.decode] if fmt.decode else []
    for field in fmt.tshark:
        cmd += ["-e", field]
    got = subprocess.run(cmd, capture_output=True, text=True, timeout=120, check=True).stdout
    for at, (line, frame) in enumerate(zip(got.splitlines(), frames, strict=True)):
        told = fmt.told(frame)
        mine = told and tuple(int(word, 0) for word in line.rstrip("\t").split("\t"))
        assert mine == told, f"frame {at}: tshark's {fmt.tshark} are {mine}, the frame's {told}"
    print(f"{name}: {len(frames)} frames are what tshark says")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        {"plan": plan, "bytes": whole, "tshark": tshark}[sys.argv[2]](sys.argv[1], sys.argv[3], scratch)
