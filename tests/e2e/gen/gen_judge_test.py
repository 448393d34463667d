#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The source before a judge who knows nothing of it: dumpcap captures what it sends on a veth, tshark reads the
capture. Counts, bytes and flows are what the source reports, and frames leave no further from the plan than the
schedule error that it prints."""
import os
import re
import signal
import subprocess

import spwtest
from spwtest import check, equal, need, spwlab
from gen_test import generate
from gen_odd_test import header, record, write_file
from veth_test import in_namespace, make_veth

WINDOW_S = 0.02       # offsets are judged within so much: two clocks do not drift apart much meanwhile
GRAIN_NS = 3000       # a microsecond in the capture's times, and that drift
POINTS = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p999_ns": 0.999, "max_ns": 1.0}
FIELDS = ["frame.time_epoch", "frame.len", "udp.srcport", "data.data"]


def captured(folder, options):
    """(summary of the source, [(time in s, bytes, flow, number, due in ns)] as the judge saw it)."""
    path = os.path.join(folder, "judge.pcapng")
    with open(os.path.join(folder, "dumpcap.log"), "w+", encoding="utf-8") as log:
        judge = spwlab.spawn([spwlab.find("dumpcap"), "-i", "spw1", "-w", path, "-B", "64", "-q"], stdout=log,
                             stderr=log)
        try:
            spwlab.wait_for(lambda: judge.poll() is not None or os.path.exists(path)
                            and "File:" in spwlab.read(log.name), 60, "dumpcap")
            check(judge.poll() is None, f"dumpcap left:\n{spwlab.read(log.name)}")
            gen, _ = generate(["--port", "ethdev:net_af_packet0,iface=spw0,framecnt=4096,blocksz=65536,framesz=2048",
                               "--echo", "no",
                               "--linger", "200ms", *options], folder)
            judge.send_signal(signal.SIGINT)
            judge.wait(60)
        finally:
            spwlab.stop(judge)
        log_text = spwlab.read(log.name)
    counted = re.search(r"received/dropped on interface 'spw1': (\d+)/(\d+)", log_text)
    check(counted, f"the judge counted nothing:\n{log_text}")
    equal((int(counted[1]), int(counted[2])), (gen["sent"], 0), "frames that the judge received and lost")
    fields = [word for field in FIELDS for word in ("-e", field)]
    done = subprocess.run([spwlab.find("tshark"), "-r", path, "-d", "udp.port==5357,data", "-T", "fields", *fields],
                          check=True,
                          capture_output=True, text=True, timeout=120)
    return gen, [seen(line.split("\t")) for line in done.stdout.splitlines()]


def seen(fields):
    stamp = bytes.fromhex(fields[3].replace(":", ""))
    equal(stamp[:3], b"\x53\x57\x01", "magic and version")
    return (float(fields[0]), int(fields[1]), int.from_bytes(stamp[6:8], "big"), int.from_bytes(stamp[8:12], "big"),
            int.from_bytes(stamp[12:18], "big"))


def offsets_ns(rows):
    """How much later each frame left than the promptest one of its window, both measured from when they were due."""
    base = rows[0][0]
    late = [(at - base) * 1e9 - due for at, _, _, _, due in rows]
    out, window = [], {}
    for (at, *_), offset in zip(rows, late):
        window.setdefault(int((at - base) / WINDOW_S), []).append(offset)
    for group in window.values():
        least = min(group)
        out += [offset - least for offset in group]
    return sorted(out)


def counts_are_right(gen, rows, flows):
    equal(len(rows), gen["sent"], "frames that the judge counted")
    equal(sum(row[1] for row in rows), gen["sent_bytes"], "bytes")
    for flow in range(flows):
        mine = [number for _, _, of, number, _ in rows if of == flow]
        equal(mine, list(range(gen["flows"][flow]["sent"])), f"numbers of flow {flow}, in the order in which they left")


def within_the_stated_error(gen, rows):
    """A veth stamps a frame at its other end before the send call returns, the source takes its time after it: so no
    frame left later than the source reports, and the distribution of what the judge observed lies below the one that is
    printed."""
    offsets = offsets_ns(rows)
    for name, share in POINTS.items():
        stated = gen["schedule_error"][name]
        if not isinstance(stated, int):
            continue
        found = offsets[min(len(offsets) - 1, max(0, round(share * len(offsets)) - 1))]
        print(f"{name[:-3]:5} stated {stated / 1000:10.1f} us, the judge saw {found / 1000:10.1f} us")
        check(found <= stated * (1 + 1 / 128) + GRAIN_NS, f"{name}: {found} ns, stated {stated}")


def judged(options, flows):
    in_namespace()
    need("dumpcap", "tshark")
    make_veth()
    with spwlab.scratch() as folder:
        os.chmod(folder, 0o777)  # dumpcap gives up root
        gen, rows = captured(folder, ["--flows", str(flows), *options])
    check(gen["sent"] > 0, "nothing was sent")
    counts_are_right(gen, rows, flows)
    within_the_stated_error(gen, rows)
    return gen, rows


def test_constant():
    gen, rows = judged(["--rate", "10kpps", "--seconds", "1s"], 7)
    gaps = {b[4] - a[4] for a, b in zip(rows, rows[1:])}
    check(gaps <= {99999, 100000, 100001}, f"planned gaps {sorted(gaps)[:9]}")
    equal(gen["intended"], 10000, "intended")


def test_poisson_imix():
    _, rows = judged(["--rate", "10kpps", "--seconds", "1s", "--schedule", "poisson", "--size", "imix"], 3)
    equal({row[1] for row in rows}, {64, 590, 1514}, "sizes")


def test_burst():
    """Frames that are due at one instant leave in one go."""
    _, rows = judged(["--rate", "10kpps", "--seconds", "1s", "--schedule", "burst:16"], 16)
    equal({rows[i][4] for i in range(16)}, {0}, "when the first burst was due")


def test_ramp():
    """Ever faster from 4 to 16 thousand a second in half a second, then 16: by t there are 4000 t + 12000 t^2 frames,
    later 16000 t - 3000."""
    _, rows = judged(["--rate", "1kpps", "--seconds", "1s", "--schedule", "ramp:4kpps-16kpps/500ms"], 5)
    for n, row in enumerate(rows):
        t = row[4] * 1e-9
        want = 4000 * t + 12000 * t * t if t < 0.5 else 16000 * t - 3000
        check(abs(n - want) <= 2 + want / 100, f"frame {n} was due at {t:.6f} s, when {want:.0f} are to be")


def test_capture():
    """A capture's own times and lengths, round and round; its last gap is the mean of the others."""
    at_us, sizes = [0, 100, 350, 1000, 1200], [64, 1514, 70, 333, 64]
    with spwlab.scratch() as folder:
        plan = write_file(folder, "plan.pcap", header() + b"".join(record(us, size) for us, size in zip(at_us, sizes)))
        _, rows = judged(["--seconds", "1s", "--schedule", "capture", "--size", "capture", "--capture", plan], 3)
    gaps = [100000, 250000, 650000, 200000, 300000]
    for n, (a, b) in enumerate(zip(rows, rows[1:])):
        check(abs(b[4] - a[4] - gaps[n % 5]) <= 1,
              f"frame {n + 1} was due {b[4] - a[4]} ns after the one before, not {gaps[n % 5]}")
    equal([row[1] for row in rows], [sizes[n % 5] for n in range(len(rows))], "lengths")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
