#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Frames become objects: their bytes, as another process maps them, receipts, ledger and summary, against a model."""
import collections
import mmap
import os
import struct
import subprocess
import sys
import time

import documents
import spwtest
import gen_test  # found by the line above
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
HEAD_AT, CONSUMER_AT, BUFFERS_AT, BUFFER_BYTES = 256, 392, 512, 512
FREE, READY, TAKEN = 0, 2, 3


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


def sent(count=OBJECTS):
    """[frame], {object: [(number, came)]}, the numbers in order. Every third object lacks a packet, some have one
    twice, some neighbours change places."""
    numbers, lost = [], set()
    for number in range(count * PACKETS):
        obj, part = divmod(number, PACKETS)
        if obj % 3 == 1 and part == 2:
            lost.add(number)
            continue
        numbers.append(number)
        if obj % 4 == 2 and part == 1:  # never an object's last frame, which would come late
            numbers.append(number)
    for i in range(0, len(numbers) - 1, 7):
        numbers[i], numbers[i + 1] = numbers[i + 1], numbers[i]
    objects = {o: [(o * PACKETS + p, o * PACKETS + p not in lost) for p in range(PACKETS)] for o in range(count)}
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

    def state(self, buffer):
        return self.page[BUFFERS_AT + buffer * BUFFER_BYTES] & 7

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


def files(folder, frames, more=""):
    capture = os.path.join(folder, "in.pcap")
    spwtest.write_pcap(capture, frames)
    spwtest.write_file(folder, "adc.yaml", DESCRIPTION + more)
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
        lines = documents.lines(receipts)
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
    named = collections.Counter(number // PACKETS for number in numbers)
    for line in lines:
        parts = objects[line["id"]]
        came = sum(there for _, there in parts)
        equal(line["state"], "complete" if came == PACKETS else "partial", f"state of {line['id']}")
        equal(line["packets"]["present"], came, f"packets of {line['id']}")
        equal(sum(line["packets"].values()), named[line["id"]], f"all of {line['id']}")
        equal(line["bytes"]["due"], PACKETS * PAYLOAD, "bytes due")
        equal(line["missing"], [[i * PAYLOAD, (i + 1) * PAYLOAD] for i, (_, there) in enumerate(parts) if not there],
              f"missing of {line['id']}")


def test_inline():
    run_objects("inline")


def test_cpu():
    run_objects("cpu")


def test_newest():
    """More frames than the table of moves holds, and a consumer that never comes: the newest objects are there, each
    older one was taken back, and no receipt is wrong."""
    count = 7000
    frames, objects, numbers = sent(count)
    with spwlab.scratch() as folder:
        conf, receipts = files(folder, frames, "policy: newest\n")
        with Run(["--config", conf, "--executor", "inline", "--receipts", receipts]) as run:
            run.wait_ready()
            spwlab.wait_for(lambda: run.telemetry("/spinwire/objects"), 30, "a stream")
            page = Page(run.telemetry("/spinwire/objects")["0"])
            spwlab.wait_for(lambda: page.published() == count, 60, "objects")
            found = page.objects()
            run.end()
            summary = run.finish()
        lines = documents.lines(receipts)
    check(len(found) > 20 and min(found) >= count - 40, f"objects {sorted(found)}")
    equal(found, {o: whole(objects[o]) for o in found}, "objects")
    back = [line for line in lines if line["cause"] == "taken_back"]
    equal(len(back), count - len(found), "objects that were taken back")
    judge([line for line in lines if line["cause"] != "taken_back"], objects, numbers)
    balanced(summary, len(frames))
    equal(sum(sum(line["packets"].values()) for line in lines), len(frames), "packets of all receipts")


def test_nobody_releases():
    """With policy oldest, objects beyond the buffers are shed, each whole and with a receipt; the others stay."""
    count = 50
    frames, objects, numbers = sent(count)
    with spwlab.scratch() as folder:
        conf, receipts = files(folder, frames)
        with Run(["--config", conf, "--executor", "inline", "--receipts", receipts]) as run:
            run.wait_ready()
            spwlab.wait_for(lambda: run.telemetry("/spinwire/objects"), 30, "a stream")
            page = Page(run.telemetry("/spinwire/objects")["0"])
            spwlab.wait_for(lambda: run.frames() >= len(frames), 30, "frames")
            run.end()
            summary = run.finish()
            found = page.objects()
        lines = documents.lines(receipts)
    equal(found, {o: whole(objects[o]) for o in range(page.buffers)}, "objects")
    judge([line for line in lines if line["state"] != "shed"], {o: objects[o] for o in found}, numbers)
    shed = [line for line in lines if line["state"] == "shed"]
    equal([(line["id"], line["cause"], line["bytes"]["present"]) for line in shed],
          [(o, "no_buffer", 0) for o in range(page.buffers, count)], "objects that were shed")
    balanced(summary, len(frames))
    lost = sum(number // PACKETS >= page.buffers for number in numbers)
    equal(sum(line["packets"]["shed"] for line in shed) + sum(line["packets"]["late"] for line in shed), lost,
          "frames of objects that were shed")


DIES = """\
import mmap, os, struct, sys, time
file = open(sys.argv[1], "r+b")
page = mmap.mmap(file.fileno(), int(sys.argv[2]))
struct.pack_into("<I", page, CONSUMER_AT, os.getpid())
for buffer in (0, 1):
    at = BUFFERS_AT + buffer * BUFFER_BYTES
    page[at] = TAKEN
print("has two", flush=True)
time.sleep(60)
"""


def test_consumer_dies():
    """What a consumer held when it was killed is free again, and the next one may come."""
    frames, _, _ = sent()
    names = {"CONSUMER_AT": CONSUMER_AT, "BUFFERS_AT": BUFFERS_AT, "BUFFER_BYTES": BUFFER_BYTES, "TAKEN": TAKEN}
    text = "".join(f"{name} = {value}\n" for name, value in names.items()) + DIES
    with spwlab.scratch() as folder:
        conf, _ = files(folder, frames)
        with Run(["--config", conf, "--executor", "inline"]) as run:
            run.wait_ready()
            spwlab.wait_for(lambda: run.telemetry("/spinwire/objects"), 30, "a stream")
            row = run.telemetry("/spinwire/objects")["0"]
            page = Page(row)
            spwlab.wait_for(lambda: page.published() == OBJECTS, 30, "objects")
            with subprocess.Popen([sys.executable, "-c", text, f"/proc/{row['pid']}/fd/{row['page_fd']}",
                                   str(row["page_bytes"])], stdout=subprocess.PIPE) as consumer:
                consumer.stdout.readline()
                time.sleep(0.2)
                equal((page.state(0), page.state(1)), (TAKEN, TAKEN), "buffers of one that lives")
                consumer.kill()
            spwlab.wait_for(lambda: page.state(0) == FREE and page.state(1) == FREE, 30, "buffers of one that is dead")
            equal(struct.unpack_from("<I", page.page, CONSUMER_AT)[0], 0, "consumer")
            run.end()
            run.finish()
            check("2 objects that it held are free again" in run.output(), run.output())


ROWS, SIZE = 8, 200


def rows_are_whole(found, sent):
    for number, data in found.items():
        for part, row in enumerate(data[at:at + SIZE - 42] for at in range(0, len(data), SIZE - 42)):
            magic, seq = struct.unpack_from(">H6xI", row)
            if number * ROWS + part < sent:
                equal((magic, seq), (0x5357, number * ROWS + part), f"row {part} of {number}")
                equal(struct.unpack("<I", row[-4:])[0], spwtest.crc32c(row[:-4]), f"CRC of row {part} of {number}")


def test_softhca():
    """Frames of spinwire-gen over a software ConnectX: each row of an object is the payload of the frame whose number
    says so, whole by its CRC."""
    spwtest.need_card()
    place = spwlab.Cores(nics=True)
    row_bytes = SIZE - 42
    with spwlab.scratch() as folder:
        path = spwlab.softhca_path(place, folder)
        spwtest.write_file(folder, "mark.yaml", f"format: mark\nset: {{ packets: {ROWS}, payload: {row_bytes} }}\n"
                                                "deadline: 1s\nbuffers: 512\n")
        receipts = os.path.join(folder, "receipts")
        with Run(["--port", path.sink_port, "--objects", os.path.join(folder, "mark.yaml"), "--executor", "inline",
                  "--receipts", receipts], under=path.sink_wrap, no_pci=False) as run:
            run.wait_ready()
            spwlab.wait_for(lambda: run.telemetry("/spinwire/objects"), 30, "a stream")
            page = Page(run.telemetry("/spinwire/objects")["0"])
            gen, _ = gen_test.generate(["--port", path.source_port, "--echo", "no", "--size", str(SIZE), "--flows", "1",
                                        "--rate", "1kpps", "--seconds", "1s", "--warm-up", "0s"], folder,
                                       under=path.source_wrap, no_pci=False)
            spwlab.wait_for(lambda: run.frames() >= gen["sent"], 30, "frames")
            whole_cnt = gen["sent"] // ROWS
            spwlab.wait_for(lambda: page.published() >= whole_cnt, 30, "objects")
            found = page.objects()
            run.end()
            summary = run.finish()
        lines = documents.lines(receipts)
    balanced(summary, gen["sent"])
    check(all(line["first_nic_ns"] <= line["last_nic_ns"] <= line["publish_ns"] + line["nic_uncertainty_ns"] and
              line["open_ns"] <= line["close_ns"] <= line["publish_ns"] for line in lines), "stamps out of order")
    check(len(found) >= 100, f"{len(found)} objects of {gen['sent']} frames")
    rows_are_whole(found, gen["sent"])
    equal(summary["objects"][0]["frames"]["placed"], gen["sent"], "frames placed")


def test_other_frames():
    """Frames of another stream are counted, and the result says so; a recording is refused."""
    with spwlab.scratch() as folder:
        conf, _ = files(folder, [udp_frame(b"x" * 40, ether_type=0x86DD)] * 9 + [frame(0)])
        with Run(["--config", conf, "--executor", "inline", "--frames", "10"]) as run:
            summary = run.finish()
            check("frames    placed 1 not_object 9" in run.output(), run.output())
        balanced(summary, 10)
        equal(summary["objects"][0]["states"]["partial"], 1, "objects")
        with Run(["--config", conf, "--executor", "inline", "--record", os.path.join(folder, "file")]) as run:
            run.finish(status=2)
            check("a port with objects cannot be recorded: leave out --record" in run.output(), run.output())


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
