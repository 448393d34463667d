#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What AF_PACKET loses or cannot do, on a veth pair: long frames, cut frames, outer tags, a link that is down, and a
packet socket that is not allowed."""
import os
import signal
import socket
import time

import spwtest
from gen_test import generate
from spwtest import Run, balanced, check, equal, spwlab
from veth_test import in_namespace, ip, make_veth

HEAD = bytes.fromhex("020000000002020000000001")
OWN_TYPE = bytes.fromhex("88b5")
FRAMES = 100


def veth(mtu=1500):
    in_namespace()
    make_veth()
    for name in ("spw0", "spw1"):
        ip("link", "set", name, "mtu", str(mtu))


def send(size, tags=b""):
    """FRAMES frames of that size into spw0, each with a number."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as out:
        out.bind(("spw0", 0))
        for number in range(FRAMES):
            out.send((HEAD + tags + OWN_TYPE + bytes([number]) * size)[:size])
            time.sleep(0.0005)


def port(options=""):
    return ["--port", f"ethdev:net_af_packet0,iface=spw1{options}", "--executor", "inline", "--slots", "1024"]


def arrived(run):
    """Frames that came to the port, dropped or not."""
    got = (run.telemetry("/spinwire/ports") or {}).get("0", {})
    return got.get("rx_frames", 0) + got.get("dropped_too_long", 0)


def received(options, size, tags=b"", more=()):
    """The summary and the log of a run that FRAMES such frames were sent to."""
    with Run(port(options) + list(more)) as run:
        run.wait_ready()
        send(size, tags)
        spwlab.wait_for(lambda: arrived(run) >= FRAMES, 30, f"{FRAMES} frames")
        run.signal(signal.SIGINT)
        return run.finish(), run.output()


def test_large_mtu():
    """Rings and slots follow the interface's MTU."""
    veth(9000)
    summary, log = received("", 9014)
    balanced(summary, FRAMES)
    equal(summary["ports"][0]["rx"]["bytes"], 9014 * FRAMES, "bytes")
    check("too_long" not in log, log)


def test_mtu_beyond_half_the_limit():
    """The next power of two would be more than an mbuf holds."""
    veth(40000)
    summary, _ = received("", 40014)
    balanced(summary, FRAMES)
    equal(summary["ports"][0]["rx"]["bytes"], 40014 * FRAMES, "bytes")


def test_cut_frames_are_counted():
    """A ring that is smaller than the frames: said at start, then counted, and never received as if whole."""
    veth(9000)
    summary, log = received(",framesz=2048,blocksz=65536", 3000)
    balanced(summary)
    equal(summary["executor"]["frames"], 0, "frames that reached the handler")
    equal(summary["ledger"]["dropped"]["too_long"], FRAMES, "too_long")
    check("framesz=2048 takes frames of up to" in log and "counted too_long" in log, log)


def test_outer_tag():
    """Two tags, the outer one of 802.1ad. The kernel's ring has its EtherType, net_af_packet does not read it: which is
    said at start. The tag itself is in the capture."""
    veth()
    with spwlab.scratch() as folder:
        path = os.path.join(folder, "tags.pcapng")
        summary, log = received("", 200, bytes.fromhex("88a8600781006005"), ["--capture", path])
        with open(path, "rb") as file:
            captured = file.read()
    balanced(summary, FRAMES)
    check("0x88a8 arrives as 0x8100" in log, log)
    equal(captured.count(HEAD + bytes.fromhex("8100600781006005") + OWN_TYPE), FRAMES, "captured with both tags")


def test_link_down():
    """net_af_packet calls every link up; the interface knows."""
    veth()
    ip("link", "set", "spw0", "down")
    with Run(port()) as run:
        run.wait_ready()
        check("spw1 is down: nothing arrives until" in run.output(), run.output())
        ip("link", "set", "spw0", "up")
        spwlab.wait_for(lambda: "link is up" in run.output(), 20, "the link to come")
        ip("link", "set", "spw0", "down")
        spwlab.wait_for(lambda: "link is down" in run.output(), 20, "the link to go")
        run.signal(signal.SIGINT)
        balanced(run.finish())


def test_frame_beyond_an_mbuf():
    veth()
    with Run(port(",framesz=65536,blocksz=65536")) as run:
        run.finish(status=1)
        spwtest.one_line(run, "framesz=65536", "61440")


def test_loss_is_counted():
    """What does not fit into the ring is the kernel's loss, which the ledger has to the frame; the default ring holds
    it all."""
    veth()
    for options, fits in ((",framecnt=64", False), ("", True)):
        with Run(port(options)) as run:
            run.wait_ready()
            run.signal(signal.SIGSTOP)
            for _ in range(20):
                send(200)
            run.signal(signal.SIGCONT)
            spwlab.wait_for(lambda: (run.telemetry("/spinwire/ledger") or {}).get("wire", 0) >= 20 * FRAMES, 30,
                            "all frames on the wire")
            run.signal(signal.SIGINT)
            ledger = run.finish()["ledger"]
        equal(ledger["wire"], 20 * FRAMES, f"wire of {ledger}")
        equal(ledger["wire"], ledger["received"] + ledger["missed"], f"received and missed of {ledger}")
        equal(ledger["missed"] == 0, fits, f"missed of {ledger}")


def test_source_beyond_mtu():
    """A source's plan is held against the interface's MTU: the PMD makes the kernel drop longer frames without an
    error."""
    veth(1400)
    source = ["--port", "ethdev:net_af_packet0,iface=spw0", "--echo", "no", "--linger", "0s", "--rate", "1kpps",
              "--seconds", "200ms", "--size"]
    with spwlab.scratch() as folder:
        _, log = generate([*source, "1415"], folder, status=1)
        check("1415 bytes" in log and "1400 lets 1414 pass" in log, log)
        gen, _ = generate([*source, "1414"], folder)
    equal(gen["tx_flushed"], 0, "frames that the port took and did not send")


def test_no_right():
    """Without CAP_NET_RAW."""
    spwtest.need_root()
    spwtest.need("setpriv")
    with Run(["--port", "ethdev:net_af_packet0,iface=lo", "--executor", "inline"],
             under=["setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw"]) as run:
        run.finish(status=2)
        spwtest.one_line(run, "CAP_NET_RAW", "packet socket on lo")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
