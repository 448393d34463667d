#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The programs of examples/tensor, each with the spinwire that it starts, on a software ConnectX whose cable is a veth
pair: tcpreplay sends what a camera, a radio and a telescope would, and the answers are known."""
import contextlib
import math
import os
import random
import re
import struct
import subprocess

import spwtest
import veth_test
from spwtest import check, equal, spwlab
from streams import udp

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
EXAMPLES = os.path.join(ROOT, "examples", "tensor")
PYTHON = "/usr/bin/python3"
MAC = "02:00:00:00:00:02"  # to which streams.udp sends
ITEM = struct.Struct(">Q")


# ---- what they send ----------------------------------------------------------------------------------

def images(count):
    """GVSP: image n has pixels of 10 * n everywhere; the second lacks a packet, which is black then."""
    pixels, step = 224 * 224, 1024
    for block in range(1, count + 1):
        def head(kind, packet, number=block):
            return struct.pack(">HHI", 0, number, kind << 24 | packet)
        yield udp(head(1, 0) + struct.pack(">HHQIIIIIHH", 0, 1, block, 0x01080001, 224, 224, 0, 0, 0, 0), 20202)
        for packet, at in enumerate(range(0, pixels, step), 1):
            if (block, packet) != (2, 20):
                yield udp(head(3, packet) + bytes([10 * block]) * min(step, pixels - at), 20202)
        yield udp(head(2, pixels // step + 2) + struct.pack(">HHI", 0, 1, 224), 20202)


def samples(count):
    """VITA-49 at 1 MHz: a carrier at 125 kHz and noise. One packet more than `count` objects shows that they end."""
    noise = random.Random(1)
    for packet in range(count * 256 + 1):
        at, data = packet * 256, b""
        for n in range(at, at + 256):
            phase = 2 * math.pi * n / 8
            data += struct.pack(">hh", int(1000 * math.cos(phase)) + noise.randrange(-90, 90),
                                int(1000 * math.sin(phase)) + noise.randrange(-90, 90))
        yield udp(struct.pack(">IIIQ", 1 << 28 | 1 << 22 | 1 << 20 | (packet & 15) << 16 | 5 + 256, 7,
                              at // 1_000_000, at % 1_000_000) + data, 4991)


def heaps(count):
    """SPEAD: a wave from sine 0.5 over eight antennas; the second heap lacks a packet."""
    heap = b""
    for antenna in range(8):
        phase = math.pi * 0.5 * antenna
        heap += struct.pack("bb", round(100 * math.cos(phase)), round(100 * math.sin(phase))) * (32 * 256)
    for number in range(1, count + 1):
        for at in range(0, len(heap), 4096):
            items = [0x8001 << 48 | number, 0x8002 << 48 | len(heap), 0x8003 << 48 | at, 0x8004 << 48 | 4096]
            if (number, at) != (2, 8192):
                head = bytes.fromhex("5304020600000004") + b"".join(map(ITEM.pack, items))
                yield udp(head + heap[at:at + 4096], 7148)


# ---- running them ------------------------------------------------------------------------------------

def wrapped(command):
    return ["env", f"SPW_SOFTHCA_LIB={spwlab.softhca_lib()}", spwlab.WITH_SOFTHCA, "--cable", "afpacket:spw1", "--mac",
            MAC, *command]


def receives(folder):
    """The file prefix of the spinwire in this runtime folder, once its stream is there."""
    for prefix in os.listdir(os.path.join(folder, "dpdk")) if os.path.isdir(os.path.join(folder, "dpdk")) else ():
        if spwlab.telemetry(prefix, "/spinwire/objects") and spwlab.telemetry(prefix, "/spinwire/ledger"):
            return prefix
    return None


def example(name, frames, count):
    """Lines that the program prints for `count` objects."""
    spwtest.need_card()
    spwtest.need("tcpreplay")
    if subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True, check=False).returncode:
        raise spwtest.Skip("python3-numpy is not installed (tools/deps test)")
    veth_test.in_namespace()
    veth_test.make_veth()
    for interface in ("spw0", "spw1"):
        veth_test.ip("link", "set", interface, "mtu", "9000")
    with spwlab.scratch() as folder:
        os.environ["RUNTIME_DIRECTORY"] = folder
        capture, log = os.path.join(folder, "in.pcap"), os.path.join(folder, "out")
        spwtest.write_pcap(capture, frames)
        command = [PYTHON, *(os.path.join(EXAMPLES, name + kind) for kind in (".py", ".conf.yaml")), str(count)]
        with open(log, "wb") as out:
            process = spwlab.spawn(wrapped(command), stdout=out, stderr=out,
                                   env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "tools", "lib")})
        try:
            spwlab.wait_for(lambda: process.poll() is not None or receives(folder), 60, f"{name}'s stream")
            check(process.poll() is None, f"{name} left early:\n{spwlab.read(log)}")
            subprocess.run([spwlab.find("tcpreplay"), "--pps=2000", "-i", "spw0", capture], check=True,
                           capture_output=True)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(40)
            equal(process.poll(), 0, f"{name}:\n{spwlab.read(log)}")
        finally:
            spwlab.stop(process)
        equal(os.listdir(os.path.join(folder, "dpdk")), [], "left of spinwire")
        text = spwlab.read(log)
    check("spinwire: error" not in text, text)
    return [line for line in text.splitlines() if re.match(r"(image|block|heap) \d+: ", line)], text


def test_mistakes():
    """No arguments, no such file, no NumPy: a line that says what to do, and no traceback."""
    if subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True, check=False).returncode:
        raise spwtest.Skip("python3-numpy is not installed (tools/deps test)")
    env = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "tools", "lib")}
    for name in ("camera", "radio", "telescope"):
        for options, words, answer in (((), (), f"{name}.py CONFIG ["), ((), ("nosuch.yaml",), "no file nosuch.yaml"),
                                       (("-S",), ("nosuch.yaml",), "apt install python3-numpy")):
            done = subprocess.run([PYTHON, *options, os.path.join(EXAMPLES, name + ".py"), *words], env=env, text=True,
                                  capture_output=True, check=False)
            check(done.returncode == 1 and answer in done.stderr and "Traceback" not in done.stderr, done.stderr)


def test_camera():
    lines, text = example("camera", images(4), 4)
    equal(len(lines), 4, text)
    for number, line in enumerate(lines, 1):
        want = "partial, 49152 of 50176" if number == 2 else "complete, 50176 of 50176"
        check(line.startswith(f"image {number}: {want} bytes, "), text)
        mean = 10 * number * (1 - (1024 / 50176 if number == 2 else 0))
        found = re.search(r"mean ([\d.]+)", line)
        check(found is None or abs(float(found[1]) - mean) < 0.02, f"{line}: the mean is {mean}")
        check(found or re.search(r"class \d+", line), line)


def test_radio():
    lines, text = example("radio", samples(3), 3)
    equal(len(lines), 3, text)
    for line in lines:
        check(re.search(r": complete, 125000 Hz, [3-6]\d\.\d dB$", line), text)


def test_telescope():
    lines, text = example("telescope", heaps(4), 4)
    equal(len(lines), 4, text)
    for number, line in enumerate(lines, 1):
        state = "partial" if number == 2 else "complete"
        check(line.startswith(f"heap {number}: {state}, strongest from 0.5000, "), text)


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
