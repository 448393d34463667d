#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""AF_PACKET on a veth pair in a network namespace of the test's own, fed by tcpreplay and by trafgen."""
import os
import signal
import subprocess

import documents
import namespace
import spwtest
from spwtest import Run, Skip, balanced, check, equal, udp_frame, spwlab

FRAMES = 2000


def in_namespace():
    """Starts this test again inside a namespace; returns inside it."""
    spwtest.need_root()
    spwtest.need("unshare", "ip")
    namespace.enter(spwtest.skip, "--net")


def ip(*words):
    subprocess.run([spwlab.find("ip"), *words], check=True)


def make_veth(near="spw0", far="spw1"):
    """Two quiet ends: no IPv6, no ARP, so that only the generator speaks."""
    for name in ("all", "default"):
        path = f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6"
        if os.path.exists(path):
            with open(path, "w", encoding="ascii") as file:
                file.write("1")
    if subprocess.run([spwlab.find("ip"), "link", "add", near, "type", "veth", "peer", "name", far]).returncode:
        raise Skip("this kernel has no veth")
    for name in (near, far):
        ip("link", "set", name, "arp", "off", "multicast", "off", "up")
    for name in (near, far):
        namespace.wait_for_carrier(name)


def packets(iface, direction):
    shown = subprocess.run([spwlab.find("ip"), "-j", "-s", "link", "show", iface], check=True, capture_output=True)
    return documents.foreign(shown.stdout)[0]["stats64"][direction]["packets"]


def fed_by(generator, handler="null"):
    """generator(folder) puts FRAMES frames on spw0; spinwire listens on spw1."""
    in_namespace()
    make_veth()
    with spwlab.scratch() as folder:
        command = generator(folder)
        with Run(["--port", "ethdev:net_af_packet0,iface=spw1,framecnt=4096", "--handler", handler, "--executor",
                  "inline"]) as run:
            run.wait_ready()
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            equal(done.returncode, 0, f"{command[0]}: {done.stdout}{done.stderr}")
            spwlab.wait_for(lambda: run.frames() >= FRAMES, 60, f"{FRAMES} frames, got {run.frames()}")
            run.signal(signal.SIGINT)
            summary = run.finish()
        sent = packets("spw0", "tx")
        back = packets("spw0", "rx")
    equal(sent, FRAMES, "frames that the kernel sent")
    balanced(summary, FRAMES)
    return summary, back


def tcpreplay(folder):
    spwtest.need("tcpreplay")
    capture = os.path.join(folder, "in.pcap")
    spwtest.write_pcap(capture, [udp_frame(b"p" * (18 + i % 1000), flow=i % 7) for i in range(FRAMES)])
    return [spwlab.find("tcpreplay"), "--pps=20000", "-i", "spw0", capture]


def trafgen(folder):
    spwtest.need("trafgen")
    config = os.path.join(folder, "frames.cfg")
    with open(config, "w", encoding="ascii") as file:
        file.write("{ " + ", ".join(f"0x{byte:02x}" for byte in udp_frame(b"t" * 50)) + " }\n")
    return [spwlab.find("trafgen"), "--cpp", "--dev", "spw0", "--conf", config, "--num", str(FRAMES), "--cpus", "1",
            "--gap", "50us", "--no-sock-mem"]


def test_tcpreplay():
    summary, _ = fed_by(tcpreplay)
    check(summary["ledger"]["missed"] in (None, 0), f"missed {summary['ledger']}")


def test_trafgen():
    fed_by(trafgen)


def test_echo():
    """Echoes go back through the kernel: it counts them at the other end."""
    summary, back = fed_by(tcpreplay, "echo")
    equal(summary["ledger"]["echoed"], FRAMES, "echoed")
    equal(back, FRAMES, "echoes that the kernel received")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
