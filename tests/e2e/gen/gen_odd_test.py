#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a source may meet: frames that are not its own, captures that are none, disks that are full. net_pcap is the
path, so that every byte that comes back is made here."""
import os
import re
import struct
import subprocess

import spwtest
from spwtest import check, equal, need, read_pcap, swapped, udp_frame, write_pcap, spwlab, write_file
from gen_test import bad, generate

JAR = "/usr/share/java/hdrhistogram.jar"


def with_captures(folder, back, options, status=0):
    """One run: frames `back` come in, (summary, output, frames that went out)."""
    came, went = os.path.join(folder, "came.pcap"), os.path.join(folder, "went.pcap")
    write_pcap(came, back)
    gen, out = generate(["--port", f"ethdev:net_pcap0,rx_pcap={came},tx_pcap={went}", *options], folder, status=status)
    return gen, out, read_pcap(went) if os.path.exists(went) else []


def plan(run, *more):
    return ["--run", str(run), "--rate", "2kpps", "--seconds", "500ms", "--linger", "100ms", "--flows", "5", *more]


def an_echo(run, flow, seq, size=64, spoil=False):
    """A frame as the source makes it, sent back: written from the format's description."""
    payload = struct.pack("!HBBHHIHI", 0x5357, 1, 0, run, flow, seq, 0, 1000) + bytes(size - 42 - 18 - 4)
    payload = bytearray(spwtest.trailed(payload))
    payload[-5] ^= spoil
    return udp_frame(bytes(payload), flow)


def test_echoes_are_recognised():
    """Own frames, older ones, damaged ones, strangers: each is counted where it belongs."""
    frames = ([an_echo(7, flow, seq) for seq in range(3) for flow in range(5)]  # 15 whole ones
              + [an_echo(7, 0, 0), an_echo(7, 1, 2)]                            # 2 a second time
              + [an_echo(7, 2, 7), an_echo(7, 2, 5), an_echo(7, 2, 6)]          # 3 whole, 2 of them out of order
              + [an_echo(6, 0, seq) for seq in range(9)]                        # 9 of an older run
              + [an_echo(7, 3, 3, 200, spoil=True)]                             # 1 damaged
              + [udp_frame(b"somebody else's" * 4)] * 4 + [b"\x02" * 60]        # 5 strangers
              + [an_echo(7, 99, 0)])                                            # 1 of a flow that there is not
    with spwlab.scratch() as folder:
        gen, out, _ = with_captures(folder, frames, plan(7))
    want = {"echoed": 18, "duplicated": 2, "reordered": 2, "old_run": 9, "corrupted": 1, "foreign": 5, "bad_flow": 1}
    equal({name: gen[name] for name in want}, want, "what came back")
    equal([flow["corrupted"] for flow in gen["flows"]], [0, 0, 0, 1, 0], "damaged, by flow")
    equal(gen["lost"], gen["sent"] - 18, "lost")
    equal([r for r in gen["missing"]["ranges"] if r[0] == 2], [[2, 3, 4], [2, 8, gen["flows"][2]["sent"] - 1]],
          "missing of flow 2")
    check("foreign 5, older run 9, unknown flow or number 1" in out, out)


def test_older_run():
    """What one run sent and another receives is refused by its number, frame by frame."""
    with spwlab.scratch() as folder:
        first, _, went = with_captures(folder, [], plan(1))
        equal(len(went), first["sent"], "frames in the capture of what was sent")
        second, _, _ = with_captures(folder, list(map(swapped, went)), plan(2))
        same, _, _ = with_captures(folder, list(map(swapped, went)), plan(1))
    equal([second[k] for k in ("old_run", "echoed", "foreign", "corrupted")], [first["sent"], 0, 0, 0],
          "echoes of an older run")
    equal([same[k] for k in ("old_run", "echoed", "foreign", "corrupted")], [0, first["sent"], 0, 0],
          "echoes of the same run")


def test_more_than_was_sent():
    """Echoes of numbers that were never sent belong to no frame: nothing is negative, and they are reported."""
    with spwlab.scratch() as folder:
        gen, out, _ = with_captures(folder, [an_echo(7, 0, seq) for seq in range(1000)], plan(7))
    sent = gen["flows"][0]["sent"]
    equal([gen["flows"][0]["echoed"], gen["echoed"], gen["bad_flow"]], [sent, sent, 1000 - sent],
          "echoes of more than was sent")
    check(f"unknown flow or number {1000 - sent}" in out, out)


def test_capture_sizes():
    """A capture's lengths go out in its order; what is shorter than the source's stamp is as long as that."""
    sizes = [60, 64, 1514, 70, 333]
    with spwlab.scratch() as folder:
        capture = os.path.join(folder, "plan.pcap")
        write_pcap(capture, [bytes(size) for size in sizes])
        gen, _, went = with_captures(folder, [], plan(1, "--schedule", "poisson", "--size", "capture", "--capture",
                                                      capture))
    check(gen["sent"] > 50, f"sent {gen['sent']}")
    equal([len(frame) for frame in went], [max(64, sizes[i % 5]) for i in range(gen["sent"])], "lengths that went out")


def refused_capture(name, data, *says):
    with spwlab.scratch() as folder:
        path = write_file(folder, name, data)
        bad(["--port", "null:size=64", "--schedule", "capture", "--capture", path], [name, *says])


def header(link=1):
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link)


def record(us, length=60, there=None, seconds=1):
    """there: bytes that the file has of it."""
    there = length if there is None else there
    return struct.pack("<IIII", seconds, us, length, length) + bytes(there)


def test_captures_with_a_word():
    """What is not played as it stands in the file is said: a last record that is cut, packets that GRO merged. All
    others are played."""
    gro = struct.pack("<IIII", 1, 500, 96, 65226) + bytes(96)
    with spwlab.scratch() as folder:
        path = write_file(folder, "odd.pcap", header() + record(0) + gro + record(1000, 200) + record(1500, 60, 20))
        gen, out, went = with_captures(folder, [], plan(1, "--schedule", "capture", "--size", "capture", "--capture",
                                                        path))
    equal([len(frame) for frame in went[:6]], [64, 9600, 200] * 2, "lengths that went out")
    for says in ("its last record is cut and is left out", "1 packets are longer than 9600 bytes, up to 65226",
                 "1 packets are shorter than 64 bytes"):
        check(says in out, f"no {says!r} in\n{out}")
    check(gen["sent"] > 50, f"sent {gen['sent']}")


def test_long_capture():
    """Every packet of a capture is in the plan, not the first 65,536 alone."""
    with spwlab.scratch() as folder:
        path = write_file(folder, "long.pcap", header() + b"".join(record(n % 40000 * 25, 64 if n < 70000 else 128,
                                                                          seconds=1 + n // 40000)
                                                                   for n in range(80000)))
        _, _, went = with_captures(folder, [], ["--flows", "5", "--linger", "0s", "--seconds", "4s", "--schedule",
                                                "capture", "--size", "capture",
                                                "--capture", path])
    equal([len(frame) for frame in went[:80000]], [64] * 70000 + [128] * 10000, "lengths that went out")


def test_broken_captures():
    refused_capture("empty.pcap", b"", "empty.pcap")
    refused_capture("text.pcap", b"this is no capture at all" * 10, "text.pcap")
    refused_capture("cut.pcap", header() + record(1) + record(3, 60, 20), "1 packets and one that is cut")
    refused_capture("length.pcap", header() + record(1) + record(2) + record(3, 1 << 30, 60), "after packet 2")
    refused_capture("gap78h.pcap", header() + record(1) + record(2) + record(3, seconds=1 + 281475),
                    "packet 3 comes 78.2 hours", "39")
    refused_capture("wifi.pcap", header(105) + record(1) + record(2), "IEEE802_11", "Ethernet")
    refused_capture("cooked.pcap", header(113) + record(1) + record(2), "LINUX_SLL", "Ethernet")
    refused_capture("one.pcap", header() + record(1), "two")
    refused_capture("back.pcap", header() + record(5) + record(4), "packet 2", "older")
    refused_capture("still.pcap", header() + record(5) + record(5), "same time")


def test_full_disk():
    """The report cannot be written: the run is complete, its table is printed, and the failure is reported."""
    need("sh")
    if not os.path.exists("/dev/full"):
        raise spwtest.Skip("no /dev/full here")
    with spwlab.scratch() as folder:
        _, out, went = with_captures(folder, [], plan(1, "--hdr", "/dev/full", "--full"), status=2)
        check(len(went) > 0, "nothing was sent")
        check("No space left" in out and "the run goes on" in out and "schedule error" in out, out)
        place = spwlab.Cores()
        role = spwlab.prefix("full")
        done = subprocess.run([os.environ["SPINWIRE_GEN"], *spwlab.eal(f"0@{place.main},1@{place.generator}", role),
                               "--", "--port",
                               "null:size=64", "--echo", "no", *plan(1), "--full", "--json", "/dev/full"],
                              capture_output=True, text=True, timeout=60)
        spwlab.forget_prefix(role)
    equal(done.returncode, 2, f"status\n{done.stdout}{done.stderr}")
    check("No space left" in done.stderr and "/dev/full" in done.stderr and "schedule error" in done.stdout,
          done.stderr)
    with spwlab.scratch() as folder:
        bad_place = os.path.join(folder, "no", "such", "place")
        _, out, _ = with_captures(folder, [], plan(1, "--hdr", bad_place, "--full"), status=2)
        check("cannot write" in out and "schedule error" not in out,
              f"a log that cannot be made is refused at once:\n{out}")


def test_hdr_log():
    """The log of a run, read by the tool that others wrote: the same counts and percentiles as the report."""
    need("java")
    if not os.path.exists(JAR):
        raise spwtest.Skip("libhdrhistogram-java is not installed (tools/deps test)")
    with spwlab.scratch() as folder:
        log, out = os.path.join(folder, "run.hlog"), os.path.join(folder, "out")
        echoes = [an_echo(1, i % 5, i // 5) for i in range(5000)]  # all that are due
        for _ in range(8):  # a core that is taken at the very end leaves frames unsent
            gen, _, _ = with_captures(folder, echoes, ["--run", "1", "--rate", "2kpps", "--seconds", "2500ms",
                                                       "--flows", "5",
                                                       "--hdr", log])
            if gen["lost"] + gen["unsent"] == 0:
                break
        equal(gen["lost"] + gen["unsent"], 0, "missing")
        for tag in ("round_trip", "schedule_error"):
            java_reads(log, tag, out)
            same_percentiles(gen[tag], spwlab.read(out), tag)


def test_hdr_stages():
    """spinwire's stages the same way. They are counted in ticks and logged in ns: another 1/128 either way."""
    need("java")
    if not os.path.exists(JAR):
        raise spwtest.Skip("libhdrhistogram-java is not installed (tools/deps test)")
    with spwlab.scratch() as folder:
        log, out = os.path.join(folder, "run.hlog"), os.path.join(folder, "out")
        with spwtest.Run(["--port", "null:size=64,rate=50000,stamps=1", "--handler", "sum", "--executor", "cpu",
                          "--frames", "200000",
                          "--seconds", "60", "--hdr", log]) as run:
            rows = run.finish(seconds=60)["latency"]
        check(len(rows) >= 5, f"stages {[row['stage'] for row in rows]}")
        for row in rows:
            java_reads(log, row["stage"], out)
            same_percentiles(row, spwlab.read(out), row["stage"], slack=1 / 128)


def java_reads(log, tag, out):
    subprocess.run(["java", "-cp", JAR, "org.HdrHistogram.HistogramLogProcessor", "-i", log, "-tag", tag,
                    "-outputValueUnitRatio", "1", "-o",
                    out], check=True, capture_output=True, timeout=60)


def same_percentiles(ours, text, tag, slack=0.0):
    rows = re.findall(r"T:(\d+) \((.*?)\)", text)
    check(len(rows) >= 2, f"{tag}: {len(rows)} intervals of a run of 2 s and more")
    equal(int(rows[-1][0]), ours["count"], f"{tag}: values that the reader counts")
    theirs = dict(zip(("p50", "p90", "p99", "p999", "p9999", "max"), map(float, rows[-1][1].split()), strict=True))
    for name, value in theirs.items():
        mine = ours[f"{name}_ns"]
        if mine is not None:  # finer than the samples allow: nothing is printed
            check(mine * (1 - slack) - 1 <= value <= mine * (1 + 1 / 128 + slack) + 1,
                  f"{tag} {name}: {mine}, the reader has {value}")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
