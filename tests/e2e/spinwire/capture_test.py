#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""--capture: the bytes and times of what was received, read back by libpcap (tcprewrite) and tshark; limits are kept
and counted."""
import os
import resource
import subprocess

import spwtest
from spwtest import Run, balanced, check, equal, need, one_line, spwlab, udp_frame

FRAMES = 400


def frames_of(cnt=FRAMES):
    return [udp_frame(bytes((i * 5 + j) & 0xFF for j in range(18 + i * 3)), flow=i % 40) for i in range(cnt)]


def received(folder, extra, frames):
    """The capture of a replayed file: (its frames by libpcap, summary)."""
    need("tcprewrite")
    given, out, back = (os.path.join(folder, name) for name in ("in.pcap", "out.pcapng", "back.pcap"))
    spwtest.write_pcap(given, frames)
    with Run(["--port", f"ethdev:net_pcap0,rx_pcap={given}", "--handler", "echo", "--executor", "inline", "--frames",
              str(len(frames)),
              "--capture", out, *extra]) as run:
        summary = run.finish()
    done = subprocess.run([spwlab.find("tcprewrite"), f"--infile={out}", f"--outfile={back}"], capture_output=True,
                          text=True, timeout=60, check=False)
    equal(done.returncode, 0, f"tcprewrite\n{done.stderr}")
    return spwtest.read_pcap(back), summary


def test_bytes():
    """Every frame as it came, in order, before a handler changed it; a snap length cuts frames and records how long
    they were."""
    frames = frames_of()
    with spwlab.scratch() as folder:
        got, summary = received(folder, ["--capture-snap", "2KiB"], frames)
        equal(got, frames, "frames of the capture")
        equal(summary["capture"]["not_captured"], {"ring_full": 0, "limit": 0, "disk": 0}, "not captured")
        equal(summary["capture"]["frames"], len(frames), "frames captured")
        got, _ = received(folder, ["--capture-snap", "100B"], frames)
        equal(got, [frame[:100] for frame in frames], "frames, cut to 100 bytes")
        balanced(summary, len(frames))


def tshark(path, *fields):
    """Rows of fields."""
    need("tshark")
    cmd = [spwlab.find("tshark"), "-r", path, "-T", "fields", *(word for field in fields for word in ("-e", field))]
    done = subprocess.run(cmd, capture_output=True, text=True, timeout=120, check=False)
    equal(done.returncode, 0, f"tshark\n{done.stderr}")
    return [line.split("\t") for line in done.stdout.splitlines()]


def nanoseconds(text):
    whole, _, part = text.partition(".")
    return int(whole) * 10**9 + int(part.ljust(9, "0"))


def test_nic_stamps():
    """Stamps are the NIC's: those of a source that sends every 10 us are 10 us apart, whenever they were polled. Two
    queues are two interfaces."""
    place = spwlab.Cores()
    with spwlab.scratch() as folder:
        out = os.path.join(folder, "out.pcapng")
        with Run(["--port", "null:rate=200000", "--queues", "2", "--executor", "inline", "--frames",
                  "18000", "--capture", out],
                 lcores=f"0@{place.main},1@{place.receive},2@{place.generator}") as run:
            summary = run.finish()
        rows = tshark(out, "frame.interface_id", "frame.time_epoch", "frame.len")
    balanced(summary)
    captured = summary["capture"]["frames"] - sum(summary["capture"]["not_captured"].values())
    equal(len(rows), captured, "frames in the file")
    for queue in ("0", "1"):
        at = [nanoseconds(time) for iface, time, _ in rows if iface == queue]
        check(len(at) > 1000, f"queue {queue} has {len(at)} frames")
        off = [b - a for a, b in zip(at, at[1:]) if abs((b - a) - round((b - a) / 10000) * 10000) > 200]
        # the wall clock is read again
        check(len(off) <= 2, f"queue {queue}: {len(off)} gaps are no multiples of 10 us: {off[:5]}")
    equal({row[2] for row in rows}, {"64"}, "lengths")


def counted(extra, limit=None, status=0):
    """A run on a source that is faster than any writer; (summary, bytes of the file, output)."""
    with spwlab.scratch() as folder:
        out = os.path.join(folder, "out.pcapng")
        with Run(["--port", "null:rate=200000", "--executor", "inline", "--seconds", "2s", "--capture", out,
                  *extra]) as run:
            if limit:
                run.wait_ready()  # EAL's own memory is files too
                resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (limit, limit))
            summary = run.finish(status, seconds=2)
            balanced(summary)
            rows = tshark(out, "frame.len")
            equal(len(rows), summary["capture"]["frames"] - sum(summary["capture"]["not_captured"].values()),
                  "frames in the file")
            return summary["capture"], os.path.getsize(out), run.output()


def test_limit():
    """The file stays below its limit; what is not in it is counted, and reported once."""
    capture, size, out = counted(["--capture-limit", "1MiB"])
    check(900 << 10 < size <= 1 << 20, f"{size} bytes")
    check(capture["not_captured"]["limit"] > 0, f"{capture}")
    equal(out.count("has reached --capture-limit"), 1, "times reported")


def test_full_disk():
    """A disk that fills up: the run goes on and balances, the file is whole, what is lost is counted and reported, and
    the status is not 0."""
    capture, _, out = counted([], limit=3_000_000, status=2)
    check(capture["not_captured"]["disk"] > 0, f"{capture}")
    check("cannot be written: File too large; frames are counted" in out, out)


def test_bad_input():
    for path, says in (("/dev/full", "No space left"), ("/nonexistent/x.pcapng", "No such file")):
        with Run(["--port", "null:count=10", "--frames", "10", "--capture", path]) as run:
            run.finish(status=2)
            one_line(run, "--capture", path, says)
    with Run(["--port", "null:count=10", "--frames", "10", "--capture", "/tmp/x", "--capture-snap", "1B"]) as run:
        run.finish(status=1)
        one_line(run, "--capture-snap", "16")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
