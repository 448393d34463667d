#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs that others wrote send to spinwire, and read what the scripts of kit/streams.py make: aravis' camera and
receiver, GStreamer's payloader and depayloader of RFC 4175, NumPy's types. streams_test.py has those of captures."""
import contextlib
import os
import socket
import subprocess

import documents
import spwtest
import veth_test  # found by the line above
from objects_test import Page
from spwtest import Run, balanced, check, equal, spwlab
from stream_formats import FORMATS
from streams import payload, udp

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"  # has Debian's modules


def need_module(name, package):
    if subprocess.run([PYTHON, "-c", f"import {name}"], capture_output=True, check=False).returncode:
        raise spwtest.Skip(f"{package} is not installed (tools/deps all)")


@contextlib.contextmanager
def receiving(folder, description):
    """spinwire on spw1, with the stream's page."""
    path = spwtest.write_file(folder, "stream.yaml", description)
    with Run(["--port", "ethdev:net_af_packet0,iface=spw1,flow=all,framecnt=4096", "--objects", path, "--executor",
              "inline", "--receipts", os.path.join(folder, "receipts")]) as run:
        run.wait_ready()
        spwlab.wait_for(lambda: run.telemetry("/spinwire/objects"), 30, "a stream")
        yield run, Page(run.telemetry("/spinwire/objects")["0"])


def received(run, page, folder, count):
    """[(id, bytes, receipt)] of the complete objects in the order of their publication; there are `count` at least."""
    spwlab.wait_for(lambda: page.published() >= count, 30, f"{count} objects")
    found = page.objects()
    run.end()
    balanced(run.finish())
    lines = documents.lines(os.path.join(folder, "receipts"))
    return [(line["id"], found[line["id"]], line) for line in lines if line["state"] == "complete"]


# ---- aravis ----

# Of a shape of 128 x 256: the leader says the size. The camera begins some 140 frames before block ids wrap.
WIDTH, HEIGHT, FRAMES = 200, 90, 160


@contextlib.contextmanager
def camera():
    """aravis' fake camera, in a network namespace at the other end of the cable."""
    with contextlib.ExitStack() as stack:
        space = stack.enter_context(subprocess.Popen(["unshare", "-n", "sleep", "600"]))
        stack.callback(space.kill)
        inside = ["nsenter", "-t", str(space.pid), "-n"]
        spwlab.wait_for(lambda: os.readlink(f"/proc/{space.pid}/ns/net") != os.readlink("/proc/self/ns/net"), 10,
                        "a namespace")
        veth_test.ip("link", "set", "spw0", "netns", str(space.pid))
        for wrap, name, address in ((inside, "spw0", "10.9.0.1/24"), ([], "spw1", "10.9.0.2/24")):
            subprocess.run([*wrap, "ip", "addr", "add", address, "dev", name], check=True)
            subprocess.run([*wrap, "ip", "link", "set", name, "arp", "on", "up"], check=True)
        fake = stack.enter_context(subprocess.Popen([*inside, "arv-fake-gv-camera-0.8", "-i", "10.9.0.1"],
                                                    stdout=subprocess.DEVNULL))
        stack.callback(fake.kill)
        yield "10.9.0.1"


def test_aravis():
    """Frames of aravis' camera, as its own receiver beside spinwire has them."""
    spwtest.need("arv-fake-gv-camera-0.8", "nsenter")
    need_module("gi; gi.require_version('Aravis', '0.8')", "gir1.2-aravis-0.8")
    veth_test.in_namespace()
    veth_test.make_veth()
    with spwlab.scratch() as folder, camera() as address:
        path = os.path.join(folder, "frames")
        with subprocess.Popen([PYTHON, os.path.join(HERE, "aravis_receiver.py"), address, str(WIDTH), str(HEIGHT),
                               str(FRAMES), path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as theirs:
            port = theirs.stdout.readline()
            check(port, "aravis found no camera")
            with receiving(folder, f"format: gvsp\nset: {{ port: {port.strip()}, width: 256, height: 128, "
                                   "payload: 1364 }\nbuffers: 256\nfill: 0xee\n") as (run, page):
                theirs.communicate("\n", timeout=60)
                ours = received(run, page, folder, FRAMES)
        with open(path, "rb") as file:
            frames = file.read()
    size = WIDTH * HEIGHT
    equal(len(frames), FRAMES * (8 + size), "frames that aravis received")
    theirs = [(int.from_bytes(frames[at:at + 8], "big"), frames[at + 8:at + 8 + size])
              for at in range(0, len(frames), 8 + size)]
    blocks = [block for block, _ in theirs]
    check((65535, 1) in zip(blocks, blocks[1:]), f"block ids did not wrap: {blocks}")
    equal([block for block, _, _ in ours[:FRAMES]], blocks, "block ids")  # the camera stops some frames later
    for (block, data, receipt), (_, image) in zip(ours, theirs):
        equal(receipt["bytes"]["due"], size, "bytes that the leader says")
        equal(data[:size], image, f"image {block}")
        equal(data[size:], b"\xee" * (len(data) - size), f"fill of {block}")
    check(len({image for _, image in theirs}) > FRAMES // 2, "images are alike")


# ---- GStreamer ----

def gstreamer():
    spwtest.need("gst-launch-1.0", "gst-inspect-1.0")
    if subprocess.run(["gst-inspect-1.0", "--exists", "rtpvrawpay"], check=False).returncode:
        raise spwtest.Skip("gstreamer1.0-plugins-good is not installed (tools/deps all)")


def video_sent(form, pitch, group):
    """10 pictures of 322 x 24 pixels that GStreamer sends and writes into a file: objects have the same bytes."""
    gstreamer()
    veth_test.in_namespace()
    veth_test.make_veth()
    veth_test.ip("addr", "add", "10.9.0.1/24", "dev", "spw0")
    with spwlab.scratch() as folder, \
            receiving(folder, f"format: rfc4175\nset: {{ lines: 24, pitch: {pitch}, pixels: 2, group: {group} }}\n"
                              "buffers: 16\n") as (run, page):
        path = os.path.join(folder, "pictures")
        subprocess.run(["gst-launch-1.0", "-q", "videotestsrc", "pattern=ball", "num-buffers=10", "!",
                        f"video/x-raw,format={form},width=322,height=24,framerate=50/1", "!", "tee", "name=t", "t.",
                        "!", "queue", "!", "rtpvrawpay", "mtu=1400", "!", "udpsink", "host=10.9.0.2", "port=5004", "t.",
                        "!", "queue", "!", "filesink", f"location={path}"], check=True, timeout=60)
        ours = received(run, page, folder, 10)
        with open(path, "rb") as file:
            theirs = file.read()
    stride = len(theirs) // (10 * 24)  # UYVP's lines are filled up to 4 bytes
    check(pitch <= stride < pitch + 4, f"lines of {stride} bytes")
    equal(len(ours), 10, "pictures")
    for at, (_, data, _) in enumerate(ours):
        lines = [theirs[(at * 24 + line) * stride:][:pitch] for line in range(24)]
        equal(data, b"".join(lines), f"picture {at}")
    equal(len({data for _, data, _ in ours}), 10, "different pictures")


def test_gstreamer_sends_8_bits():
    video_sent("UYVY", 644, 4)


def test_gstreamer_sends_10_bits():
    video_sent("UYVP", 805, 5)


def test_gstreamer_receives():
    """The pictures of streams.py, of 20 x 6 pixels, as rtpvrawdepay puts them together."""
    gstreamer()
    fmt = FORMATS["rfc4175"]()
    with spwlab.scratch() as folder, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        path = os.path.join(folder, "pictures")
        caps = ("application/x-rtp,media=video,clock-rate=90000,encoding-name=RAW,sampling=YCbCr-4:2:2,"
                "depth=(string)10,width=(string)20,height=(string)6,payload=96")
        with subprocess.Popen(["gst-launch-1.0", "-q", "udpsrc", "address=127.0.0.1", f"port={port}", f"caps={caps}",
                               "!", "rtpvrawdepay", "!", "filesink", "buffer-mode=unbuffered",
                               f"location={path}"]) as theirs:
            spwlab.wait_for(lambda: f":{port:04X} " in spwlab.read("/proc/net/udp"), 20, "GStreamer's socket")
            for frame in fmt.frames(8, 3):
                out.sendto(frame[42:], ("127.0.0.1", port))
            spwlab.wait_for(lambda: os.path.getsize(path) >= 8 * 6 * 52, 20, "8 pictures")
            theirs.terminate()
        with open(path, "rb") as file:
            pictures = file.read()
    for n in range(8):
        lines = [pictures[(n * 6 + line) * 52:][:50] for line in range(6)]
        equal(b"".join(lines), payload(fmt.stream, (n + 3) * 3003, 0, 300), f"picture {n}")


# ---- NumPy ----

ALL_8, ALL_16 = bytes(range(256)), b"".join(n.to_bytes(2, "big") for n in range(65536))
# wire, order, type, the bytes that are sent: every value of 8 and 16 bits
TYPES = [(wire, "big", to, ALL_8) for wire in ("int8", "uint8") for to in ("float16", "float32")]
TYPES += [("int16", order, to, ALL_16) for order in ("big", "little") for to in ("float32", "int16")]
TYPES += [(wire, "big", wire, ALL_16) for wire in ("uint32", "float64", "complex64")]
ASTYPE = """\
import sys, numpy
wire = numpy.fromfile(sys.argv[1], numpy.dtype(sys.argv[2]).newbyteorder({"big": ">", "little": "<"}[sys.argv[3]]))
sys.stdout.buffer.write(wire.astype(sys.argv[4]).tobytes())
"""


def converted(folder, wire, order, to, data):
    """One object of the bytes, as a consumer finds it."""
    part = min(1024, len(data))
    width = {"8": 1, "6": 2, "2": 4, "4": 8}[wire[-1]]  # the last digit of its bits
    capture = os.path.join(folder, "in.pcap")
    spwtest.write_pcap(capture, [udp(n.to_bytes(8, "big") + data[n * part:(n + 1) * part], 4660)
                                 for n in range(len(data) // part)])
    path = spwtest.write_file(folder, "types.yaml", f"format: counter\nset: {{ packets: {len(data) // part}, "
                              f"payload: {part} }}\nwire: {wire}\norder: {order}\ntype: {to}\n"
                              f"shape: [{len(data) // width}]\n")
    with Run(["--port", f"ethdev:net_pcap0,rx_pcap={capture}", "--objects", path, "--executor", "inline"]) as run:
        run.wait_ready()
        spwlab.wait_for(lambda: run.telemetry("/spinwire/objects"), 30, "a stream")
        page = Page(run.telemetry("/spinwire/objects")["0"])
        spwlab.wait_for(page.published, 30, "the object")
        found = page.objects()
        run.end()
        run.finish()
    return found[0]


def test_numpy_types():
    """Conversions and byte orders are NumPy's."""
    need_module("numpy", "python3-numpy")
    with spwlab.scratch() as folder:
        for wire, order, to, data in TYPES:
            path = spwtest.write_file(folder, "wire", data)
            theirs = subprocess.run([PYTHON, "-c", ASTYPE, path, wire, order, to], capture_output=True, check=True)
            check(converted(folder, wire, order, to, data) == theirs.stdout,
                  f"{wire}, {order}, as {to} differs from NumPy's")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
