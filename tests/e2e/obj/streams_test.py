#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every shipped format on captures made by script: what the plan finds in a frame is what a model written from the
standard finds, on good streams and on those that lost, doubled, reordered, cut, restarted and broke frames. tshark's
dissectors judge the captures themselves.

  streams_test.py OBJ_HITS plan FORMAT | bytes FORMAT | tshark FORMAT | uhd chdr"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import documents
import streams
from stream_formats import FORMATS, frame_mark

SKIP = 77
HERE = os.path.dirname(os.path.abspath(__file__))
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


def asked(what, lines):
    done = subprocess.run(["/usr/bin/python3", os.path.join(HERE, "uhd_chdr.py"), what], text=True, capture_output=True,
                          input="".join(json.dumps(line) + "\n" for line in lines), timeout=60, check=False)
    if "No module named 'uhd'" in done.stderr:
        print("python3-uhd is not installed (tools/deps all)")
        sys.exit(SKIP)
    assert not done.returncode, done.stderr
    return [documents.foreign(line) for line in done.stdout.splitlines()]


def uhd(hits, name, folder):
    """UHD reads our packets field by field, and the description finds the payload of those that UHD makes."""
    frames = list(FORMATS[name]().frames(3, 3))
    for n, fields in enumerate(asked("read", [{"packet": frame[42:].hex(), "width": 64} for frame in frames])):
        stamped, words, tick = n % 7 != 6, n % 3, 3 * 256 + 100 + n * 32
        want = {"vc": 0, "eob": n % 8 == 7, "eov": 0, "num_mdata": words, "seq_num": n, "dst_epid": 5,
                "length": 8 + 8 * stamped + 8 * words + 128, "type": "DATA_WITH_TS" if stamped else "DATA_NO_TS",
                "timestamp": tick if stamped else None, "metadata": [0] * words}
        assert fields.pop("payload") == streams.payload(1, 0, n * 128, 128).hex(), f"payload {n}"
        assert fields == want, f"packet {n}: UHD reads {fields}, sent as {want}"
    for bits, order in ((64, "little"), (64, "big"), (128, "little"), (256, "little"), (512, "big")):
        uhd_makes(hits, folder, bits, order)


def uhd_makes(hits, folder, bits, order):
    lines = [{"vc": n, "eob": n == 7, "seq_num": 500 + n, "dst_epid": 9, "width": bits, "order": order,
              "timestamp": 5000 + n * 32, "metadata": [n] * (n % 3 * bits // 64), "type": "DATA_WITH_TS",
              "payload": streams.payload(2, 0, n * 128, 128).hex()} for n in range(8)]
    fmt = FORMATS["chdr"]()
    fmt.settings = {**fmt.settings, "width": bits // 8, "pad": max(0, bits // 8 - 16)}
    if order == "big":
        with open(os.path.join(HERE, "../../../share/streams/chdr.yaml"), encoding="utf-8") as file:
            header = file.read().partition("header:")[2].partition("only:")[0]
        fmt.extra = f"header:{header.replace('little', 'big')}"
    frames = [streams.udp(bytes.fromhex(line["packet"]), 49153) for line in asked("make", lines)]
    _, got = plan_of(hits, fmt, frames, folder)
    for n, (miss, key, _, end, pieces) in enumerate(got):
        (pos, skip, count), = pieces
        assert (miss, key, pos, end) == (None, 5000 // 256, n * 128, n == 7), f"{bits} {order} {n}: {got[n]}"
        assert frames[n][skip:skip + count].hex() == lines[n]["payload"], f"{bits} {order} {n}: {got[n]}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        {"plan": plan, "bytes": whole, "tshark": tshark, "uhd": uhd}[sys.argv[2]](sys.argv[1], sys.argv[3], scratch)
