#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Frames that are split: headers to the host, the rest to the slots. Objects of a split port, over a software
ConnectX, have the bytes that were sent, and receipts and ledger are those of a port whose frames lie in one piece."""
import contextlib
import os
import random
import signal
import socket
import struct
import subprocess
import time

import app
import documents  # this one and those below: found by the line above
import objects_test
import peers
import spwtest
import streams
from app import GEN, Cable, Source
from spwtest import Run, balanced, check, equal, one_line, spwlab
from stream_formats import FORMATS

SPLIT = 128
SIZES = range(1, 251)  # of payload; the headers have 50 bytes
PIECES = f"""\
name: pieces
under: udp
port: 9
header: [[obj 32, at 32]]
label: [obj]
place: at
granule: 1
wire: %s
type: %s
shape: [{sum(SIZES)}]
deadline: 30s
buffers: 8
"""
KEPT = ("id", "state", "cause", "packets", "bytes", "missing")


def pieces(count):
    """[frame] of objects whose pieces have every size, in any order."""
    rng, frames = random.Random(7), []
    for key in range(count):
        at, made = 0, []
        for size in rng.sample(SIZES, len(SIZES)):
            made.append(streams.udp(struct.pack(">II", key, at) + streams.payload(1, key, at, size), 9))
            at += size
        rng.shuffle(made)
        frames += made
    return frames


class Wire:
    """The other end of spinwire's cable."""

    def __init__(self, folder, nic):
        mine, theirs = os.path.join(folder, "test"), os.path.join(folder, "spinwire")
        self.socket, self.peer = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), theirs
        self.socket.bind(mine)
        self.under = peers.Fabric(cable=f"unix:{theirs},{mine}", extra=nic).argv([])

    def send(self, run, frames):
        """No faster than spinwire takes them, so that none is lost."""
        for at, frame in enumerate(frames):
            self.socket.sendto(frame, self.peer)
            if at % 64 == 63:
                spwlab.wait_for(lambda: run.frames() > at - 512, 30, f"frame {at}")
        spwlab.wait_for(lambda: run.frames() >= len(frames), 30, f"{len(frames)} frames, {run.frames()} came")


@contextlib.contextmanager
def spinwire(folder, description, keys, *options, nic=()):
    wire = Wire(folder, nic)
    spwtest.write_file(folder, "d.yaml", description)
    with Run(["--port", "mlx5:mlx5_0,mode=eth,flow=all" + keys, "--objects", os.path.join(folder, "d.yaml"),
              *options], under=wire.under, no_pci=False) as run:
        yield run, wire


def objects_of(description, keys, frames, published, *options, nic=()):
    """({object: bytes}, [receipt], summary)"""
    with spwlab.scratch() as folder:
        receipts = os.path.join(folder, "receipts")
        with spinwire(folder, description, keys, "--receipts", receipts, *options, nic=nic) as (run, wire):
            run.wait_ready()
            spwlab.wait_for(lambda: run.telemetry("/spinwire/objects"), 30, "a stream")
            page = objects_test.Page(run.telemetry("/spinwire/objects")["0"])
            wire.send(run, frames)
            spwlab.wait_for(lambda: page.published() >= published, 30, "objects")
            time.sleep(0.1 if published == 0 else 0)
            found = page.objects()
            run.end()
            summary = run.finish()
        balanced(summary, len(frames))
        return found, [{key: line[key] for key in KEPT} for line in documents.lines(receipts)], summary


def sizes(keys, *options, nic=()):
    frames = pieces(4)
    found, lines, summary = objects_of(PIECES % ("uint8", "uint8"), keys, frames, 4, *options, nic=nic)
    equal(found, {key: streams.payload(1, key, 0, sum(SIZES)) for key in range(4)}, "objects")
    equal([line["state"] for line in lines], ["complete"] * 4, "receipts")
    equal(summary["objects"][0]["frames"]["placed"], len(frames), "frames placed")


def test_sizes():
    """Payload that ends in the head, with it, and behind it."""
    sizes(f",split={SPLIT}", "--executor", "inline")


def test_exact():
    """Nearly all of the head is headers; with compressed completions, and an executor on a core of its own."""
    sizes(",split=64", "--executor", "cpu", "--profile", "throughput")


def test_cx5():
    sizes(f",split={SPLIT}", "--executor", "inline", "--profile", "throughput", nic=("--as", "cx5"))


def test_adversary():
    sizes(f",split={SPLIT}", "--executor", "inline", nic=("--adversary", "5"))


def test_conversion():
    """An element of which one byte is in the head and the other one is not."""
    frames = pieces(2)
    found, _, _ = objects_of(f"""\
under: udp
port: 9
header: [[obj 32, at 32]]
label: [obj]
place: at
granule: 250
bytes: 250
wire: int16
order: big
type: float32
shape: [125]
deadline: 30s
buffers: 8
""", ",split=65", [streams.udp(struct.pack(">II", 5, 0) + streams.payload(1, 5, 0, 250), 9)], 1,
                             "--executor", "inline")
    words = struct.unpack(">125h", streams.payload(1, 5, 0, 250))
    equal(found, {5: struct.pack("<125f", *words)}, "object")


def formats(name):
    """Frames that were lost, doubled, swapped, cut, padded and tagged: what a port makes of them does not depend on
    where their bytes lie."""
    fmt, frames = FORMATS[name](), []
    for first, mutation in enumerate(("none", "drop", "double", "swap", "cut", "pad", "tag")):
        frames += streams.mutate(list(fmt.frames(4, 3 + 4 * first)), mutation, name)
    frames = [frame for frame in frames if len(frame) >= 14]
    text = fmt.description() + "deadline: 30s\nbuffers: 64\n"
    want = objects_of(text, "", frames, 0, "--executor", "inline")
    got = objects_of(text, f",split={SPLIT}", frames, len(want[0]), "--executor", "inline")
    check(len(want[0]) >= 12, f"{len(want[0])} objects")
    for line in got[1] + want[1]:
        del line["packets"]["late"]  # of an object that is published nothing is counted any more
    for what, mine, other in zip(("objects", "receipts"), got, want):
        equal(mine, other, what)
    for what in ("states", "causes", "frames"):
        equal(got[2]["objects"][0][what], want[2]["objects"][0][what], what)


def test_gvsp():
    formats("gvsp")


def test_spead():
    formats("spead")


def test_gen():
    """Beside a source, on a card with several functions, too: every row is whole by its CRC."""
    cable = Cable()
    with spwlab.scratch() as folder:
        spwtest.write_file(folder, "mark.yaml", "format: mark\nset: { packets: 8, payload: 158 }\n"
                                                "deadline: 1s\nbuffers: 512\n")
        with app.spinwire(cable, "--objects", os.path.join(folder, "mark.yaml"), "--capture",
                          os.path.join(folder, "head.pcapng"), port=f"{app.PORT},split=96") as run:
            run.wait_ready()
            spwlab.wait_for(lambda: run.telemetry("/spinwire/objects"), 30, "a stream")
            page = objects_test.Page(run.telemetry("/spinwire/objects")["0"])
            gen = Source(cable, "--echo", "no", "--size", "200", "--flows", "1", "--rate", "1kpps", "--seconds", "1s",
                         "--warm-up", "0s").finish()
            app.arrived(run, gen["sent"])
            spwlab.wait_for(lambda: page.published() >= gen["sent"] // 8, 30, "objects")
            found = page.objects()
            run.signal(signal.SIGINT)
            summary = run.finish()
        heads = captured(os.path.join(folder, "head.pcapng"))
    balanced(summary, gen["sent"])
    equal(summary["objects"][0]["frames"]["placed"], gen["sent"], "frames placed")
    objects_test.rows_are_whole(found, gen["sent"])
    equal(set(heads), {(96, 200)}, "bytes of frames in the capture, and of frames")


def captured(path):
    """[(bytes, bytes on the wire)] of a pcapng file's packets."""
    with open(path, "rb") as file:
        data, at, out = file.read(), 0, []
    while at < len(data):
        kind, size, _, _, _, kept, wire = struct.unpack_from("<7I", data, at)
        if kind == 6:
            out.append((kept, wire))
        at += size
    return out


def refused(folder, port, *words, status=1, objects=True, text=PIECES % ("uint8", "uint8")):
    spwtest.write_file(folder, "d.yaml", text)
    options = ["--objects", os.path.join(folder, "d.yaml")] if objects else []
    with Run(["--port", port, *options], under=Cable().wrap("", "--devices", "2"), no_pci=False) as run:
        run.finish(status=status)
        one_line(run, *words)


def test_refused():
    """What cannot be, by name and before the run."""
    long = PIECES.replace("[obj 32, at 32]", "[_ 480, obj 32, at 32]") % ("uint8", "uint8")
    with spwlab.scratch() as folder:
        refused(folder, app.PORT + ",split=63", "split=63", "64", "1024")
        refused(folder, app.PORT + ",split=128", "split=128", "whole frames", "objects", objects=False)
        refused(folder, app.PORT + ",split=64", "split=64", "first 110 bytes", text=long)
        refused(folder, "verbs:mlx5_0,mode=eth,split=128", "split", "verbs")
        refused(folder, "null:split=128", "split", "null")
        refused(folder, "rails:mlx5:mlx5_0+mlx5:mlx5_1,mode=eth,split=128", "rails", "in one piece")
        with Run(["--port", app.PORT + ",split=128", "--objects", os.path.join(folder, "d.yaml"), "--record",
                  os.path.join(folder, "file")], under=Cable().wrap(), no_pci=False) as run:
            run.finish(status=2)
            one_line(run, "cannot be recorded")
        place = spwlab.Cores()
        lcores = spwlab.eal(f"0@{place.main},1@{place.generator}", spwlab.prefix("split"))
        got = subprocess.run([*Cable().wrap(), GEN, *lcores, "--", "--port", app.PORT + ",split=128"],
                             capture_output=True, text=True, timeout=60, check=False)
    check(got.returncode == 2 and "cannot send" in got.stderr + got.stdout, got.stderr + got.stdout)


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
