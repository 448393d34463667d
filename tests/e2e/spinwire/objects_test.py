#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Frames become objects: their bytes, as another process maps them, receipts, ledger and summary, against a model."""
import mmap
import os
import struct

import documents
import spwtest
from spwtest import Run, balanced, check, equal, spwlab, udp_frame

PACKETS, PAYLOAD, OBJECTS, FILL = 5, 77, 12, 0xEE
DESCRIPTION = f"""\
format: counter
name: adc
set: {{ port: 9, packets: {PACKETS}, payload: {PAYLOAD} }}
wire: int8
type: float16
shape: [{PACKETS}, {PAYLOAD}]
deadline: 1s
buffers: 32
fill: {FILL}
"""
# Where lib/obj/spw_obj_page.h puts what is read here.
HEAD_AT, BUFFERS_AT, BUFFER_BYTES, READY = 256, 512, 512, 2


def payload(number):
    return bytes((number * 37 + i * 3) & 0xFF for i in range(PAYLOAD))


def frame(number, data=None):
    return udp_frame(struct.pack("!Q", number) + (payload(number) if data is None else data))


def half(byte):
    return struct.pack("<e", byte - 256 if byte > 127 else byte)


def whole(numbers):
    """The bytes of an object whose packets with these numbers came."""
    missing = bytes([FILL]) * 2 * PAYLOAD
    return b"".join(b"".join(map(half, payload(n))) if came else missing for n, came in numbers)


def sent():
    """[frame], {object: [(number, came)]}, the numbers in order. Every third object lacks a packet, some have one
    twice, some neighbours change places."""
    numbers, lost = [], set()
    for number in range(OBJECTS * PACKETS):
        obj, part = divmod(number, PACKETS)
        if obj % 3 == 1 and part == 2:
            lost.add(number)
            continue
        numbers.append(number)
        if obj % 4 == 2 and part == 3:
            numbers.append(number)
    for i in range(0, len(numbers) - 1, 7):
        numbers[i], numbers[i + 1] = numbers[i + 1], numbers[i]
    objects = {o: [(o * PACKETS + p, o * PACKETS + p not in lost) for p in range(PACKETS)] for o in range(OBJECTS)}
    return [frame(n) for n in numbers], objects, numbers


class Page:
    """What a stream shares, read only."""

    def __init__(self, row):
        self.page = self.map(row, "page")
        self.memory = self.map(row, "memory")
        self.buffers, = struct.unpack_from("<I", self.page, 12)
        self.bytes, self.stride = struct.unpack_from("<QQ", self.page, 16)

    @staticmethod
    def map(row, what):
        with open(f"/proc/{row['pid']}/fd/{row[what + '_fd']}", "r+b") as file:
            return mmap.mmap(file.fileno(), row[what + "_bytes"], prot=mmap.PROT_READ)

    def published(self):
        return struct.unpack_from("<Q", self.page, HEAD_AT)[0]

    def objects(self):
        """{id: bytes} of what nobody has taken."""
        found = {}
        for b in range(self.buffers):
            state, _, _, number = struct.unpack_from("<QQQQ", self.page, BUFFERS_AT + b * BUFFER_BYTES)
            if state & 7 == READY:
                check(number not in found, f"object {number} is there twice")
                found[number] = self.memory[b * self.stride:b * self.stride + self.bytes]
        return found


def files(folder, frames):
    capture = os.path.join(folder, "in.pcap")
    spwtest.write_pcap(capture, frames)
    spwtest.write_file(folder, "adc.yaml", DESCRIPTION)
    spwtest.write_file(folder, "conf.yaml",
                       f"ports:\n  - spec: \"ethdev:net_pcap0,rx_pcap={capture}\"\n    objects: adc.yaml\n")
    return os.path.join(folder, "conf.yaml"), os.path.join(folder, "receipts")


def run_objects(executor):
    frames, objects, numbers = sent()
    with spwlab.scratch() as folder:
        conf, receipts = files(folder, frames)
        with Run(["--config", conf, "--executor", executor, "--receipts", receipts]) as run:
            run.wait_ready()
            spwlab.wait_for(lambda: run.telemetry("/spinwire/objects"), 30, "a stream")
            row = run.telemetry("/spinwire/objects")["0"]
            equal((row["name"], row["kind"]), ("adc", "host"), "stream")
            equal(row["description"], os.path.join(folder, "adc.yaml"), "description")
            page = Page(row)
            spwlab.wait_for(lambda: page.published() == OBJECTS, 30, "objects")
            found = page.objects()
            run.end()
            summary = run.finish()
        lines = [documents.loads(line) for line in open(receipts, encoding="utf8")]
    equal(found, {o: whole(parts) for o, parts in objects.items()}, "objects")
    judge(lines, objects, numbers)
    balanced(summary, len(frames))
    stream, = summary["objects"]
    partial = sum(not all(came for _, came in parts) for parts in objects.values())
    equal(stream["states"], {"complete": OBJECTS - partial, "partial": partial, "shed": 0, "aborted": 0}, "states")
    equal(sum(stream["frames"].values()), len(frames), "frames of all fates")
    equal(sum(sum(line["packets"].values()) for line in lines), len(frames), "packets of all receipts")


def judge(lines, objects, numbers):
    equal([line["id"] for line in lines], list(objects), "receipts")
    for line in lines:
        parts = objects[line["id"]]
        came = sum(there for _, there in parts)
        equal(line["state"], "complete" if came == PACKETS else "partial", f"state of {line['id']}")
        equal(line["packets"]["present"], came, f"packets of {line['id']}")
        equal(sum(line["packets"].values()), sum(n // PACKETS == line["id"] for n in numbers), f"all of {line['id']}")
        equal(line["bytes"]["due"], PACKETS * PAYLOAD, "bytes due")
        equal(line["missing"], [[i * PAYLOAD, (i + 1) * PAYLOAD] for i, (_, there) in enumerate(parts) if not there],
              f"missing of {line['id']}")


def test_inline():
    run_objects("inline")


def test_cpu():
    run_objects("cpu")


def test_bad_input():
    """What cannot be is refused before the run, with the place."""
    with spwlab.scratch() as folder:
        conf, _ = files(folder, [frame(0)])
        for text, words in ((DESCRIPTION.replace("int8", "int9"), ("adc.yaml:4:", "int9")),
                            (None, ("adc.yaml",))):
            if text:
                spwtest.write_file(folder, "adc.yaml", text)
            else:
                os.unlink(os.path.join(folder, "adc.yaml"))
            with Run(["--config", conf, "--check"], json_file=False) as run:
                run.finish(status=1)
                spwtest.one_line(run, "--objects", *words)


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
