#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""net_pcap replays captures that are made here, malformed frames included; what comes back is compared byte by byte."""
import os
import struct

import odd_frames
import spwtest
from spwtest import Run, balanced, check, equal, swapped, trailed, udp_frame, spwlab

GOOD = 500


def malformed():
    """[(frame, the reason that a handler must give)]."""
    payload = b"x" * 40
    return [
        (b"\x02" * 20, "short_frame"),
        (udp_frame(payload)[:33], "short_frame"),
        (udp_frame(payload, ether_type=0x86DD), "not_ipv4"),
        (udp_frame(payload)[:14] + b"\x65" + udp_frame(payload)[15:], "not_ipv4"),
        (udp_frame(payload, ip_total=2000), "ip_length"),
        (udp_frame(payload, ip_total=19), "ip_length"),
        (udp_frame(payload)[:14] + b"\x4f" + udp_frame(payload, ip_total=56)[15:], "ip_length"),
        (udp_frame(payload, proto=6), "not_udp"),
        (udp_frame(payload)[:20] + struct.pack("!H", 0x2000) + udp_frame(payload)[22:], "not_udp"),
        (udp_frame(payload, udp_len=7), "udp_length"),
        (udp_frame(payload, udp_len=500), "udp_length"),
    ]


def good_frames(make=lambda payload: payload):
    return [udp_frame(make(bytes((i * 7 + j) & 0xFF for j in range(18 + i % 1400))), flow=i % 50) for i in range(GOOD)]


def expected(reasons):
    bad = {}
    for reason in reasons:
        bad[reason] = bad.get(reason, 0) + 1
    return bad


def replay(folder, frames, handler, executor="inline", extra=(), sent=None):
    capture = os.path.join(folder, "in.pcap")
    spwtest.write_pcap(capture, frames)
    tx = f",tx_pcap={sent}" if sent else ""
    with Run(["--port", f"ethdev:net_pcap0,rx_pcap={capture}{tx}", "--handler", handler, "--executor", executor,
              "--frames", str(len(frames)), *extra]) as run:
        return run.finish()


def test_echo():
    """Good frames come back with their addresses changed and nothing else; malformed ones are counted and do not come
    back."""
    good, odd = good_frames(), malformed()
    frames = good[:GOOD // 2] + [frame for frame, _ in odd] + good[GOOD // 2:]
    with spwlab.scratch() as folder:
        sent = os.path.join(folder, "out.pcap")
        summary = replay(folder, frames, "echo", sent=sent)
        back = spwtest.read_pcap(sent)
    balanced(summary, len(frames))
    equal(summary["ledger"]["echoed"], len(good), "echoed")
    equal({k: v for k, v in summary["ledger"]["bad"].items() if v}, expected(r for _, r in odd), "bad by reason")
    equal(len(back), len(good), "frames in the capture of what was sent")
    for number, (got, want) in enumerate(zip(back, map(swapped, good))):
        check(got == want, f"echo {number} differs")


def test_odd_frames():
    """What else is on a network: each has its reason, by name and meaning, and only what may be answered is. No echo is
    from or to a group."""
    frames = odd_frames.odd()
    with spwlab.scratch() as folder:
        sent = os.path.join(folder, "out.pcap")
        summary = replay(folder, [frame for _, frame, _ in frames], "echo", sent=sent)
        back = spwtest.read_pcap(sent)
    balanced(summary, len(frames))
    equal({k: v for k, v in summary["ledger"]["bad"].items() if v},
          expected(reason for _, _, reason in frames if reason), "bad by reason")
    equal(len(back), sum(reason is None for _, _, reason in frames), "echoes")
    check(not any((frame[0] | frame[6]) & 1 for frame in back), "an echo from or to a group")


def test_echo_cpu():
    with spwlab.scratch() as folder:
        sent = os.path.join(folder, "out.pcap")
        summary = replay(folder, good_frames(), "echo", "cpu", sent=sent)
        back = spwtest.read_pcap(sent)
    balanced(summary, GOOD)
    equal(back, list(map(swapped, good_frames())), "echoes, in order")


def test_crc32c():
    """Right trailers pass, a flipped bit is found, malformed frames are counted by reason."""
    good = good_frames(trailed)
    flipped = [frame[:-9] + bytes([frame[-9] ^ 1]) + frame[-8:] for frame in good[:70]]
    odd = malformed()
    with spwlab.scratch() as folder:
        summary = replay(folder, good + flipped + [frame for frame, _ in odd], "crc32c")
    balanced(summary, len(good) + len(flipped) + len(odd))
    equal(summary["ledger"]["consumed"], len(good), "right trailers")
    equal({k: v for k, v in summary["ledger"]["bad"].items() if v},
          expected(["checksum"] * len(flipped) + [r for _, r in odd]), "bad by reason")


def test_sum():
    """sum reads bytes only: malformed frames are as good as any."""
    frames = good_frames() + [frame for frame, _ in malformed()]
    with spwlab.scratch() as folder:
        summary = replay(folder, frames, "sum")
    balanced(summary, len(frames))
    equal(summary["ledger"]["consumed"], len(frames), "consumed")
    equal(summary["ports"][0]["rx"]["bytes"], sum(map(len, frames)), "bytes received")


def test_infinite():
    """net_pcap holds mbufs until it is closed, which must be after all that names its port."""
    with spwlab.scratch() as folder:
        path = os.path.join(folder, "in.pcap")
        spwtest.write_pcap(path, [bytes(64)] * 100)
        with Run(["--port", f"ethdev:net_pcap0,rx_pcap={path},infinite_rx=1", "--executor", "inline", "--frames",
                  "1000"]) as run:
            balanced(run.finish())
            check("Invalid port_id" not in run.output(), run.output())


def test_too_long():
    """A frame that is longer than a slot is dropped by the driver with its reason; its neighbours are not touched."""
    frames = [udp_frame(b"a" * 100), udp_frame(b"b" * 8000), udp_frame(b"c" * 100)]
    with spwlab.scratch() as folder:
        capture = os.path.join(folder, "in.pcap")
        spwtest.write_pcap(capture, frames)
        with Run(["--port", f"ethdev:net_pcap0,rx_pcap={capture}", "--frames", "2", "--seconds", "20"]) as run:
            summary = run.finish(seconds=20)
    balanced(summary)
    equal(summary["ledger"]["executed"], 2, "frames executed")
    check(summary["ledger"]["dropped"]["too_long"] == 1 or summary["ledger"]["wire"] == 2, f"{summary['ledger']}")


def test_config_file():
    """The same run from a YAML file, with one value overridden on the command line."""
    with spwlab.scratch() as folder:
        capture, config = os.path.join(folder, "in.pcap"), os.path.join(folder, "run.yaml")
        spwtest.write_pcap(capture, good_frames())
        with open(config, "w", encoding="utf-8") as file:
            file.write(f'ports:\n  - spec: "ethdev:net_pcap0,rx_pcap={capture}"\n'
                       "executor: { kind: inline, handler: sum }\nmemory: { kind: host, slots: 2048 }\n"
                       "run: { frames: 100 }\n")
        with Run(["--config", config, "--frames", str(GOOD)]) as run:
            summary = run.finish()
    balanced(summary, GOOD)
    equal(summary["executor"]["handler"], "sum", "handler")
    equal(summary["pool"]["slots"], 2048, "slots")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
