#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The null port: a source that needs no peer. Exact frame counts, several queues, EAL left as it was named."""
import glob
import os
import re
import signal
import subprocess

import spwtest
from spwtest import Run, balanced, check, equal, spwlab


def thread_cores(pid, name):
    """The cores of the process's thread of that name; None as long as there is none."""
    for task in glob.glob(f"/proc/{pid}/task/*"):
        with open(f"{task}/comm", encoding="ascii") as file:
            if file.read().strip() == name:
                return os.sched_getaffinity(int(os.path.basename(task)))
    return None


def test_frames():
    """--frames is exact with one queue."""
    with Run(["--port", "null:size=64", "--executor", "inline", "--frames", "1000003"]) as run:
        summary = run.finish()
    balanced(summary, 1000003)
    equal(summary["ledger"]["consumed"], 1000003, "consumed")
    equal(summary["memory"]["port_copies"], 0, "copies by the port")


def test_frames_cpu():
    with Run(["--port", "null:size=64", "--executor", "cpu", "--frames", "1000003"]) as run:
        summary = run.finish()
    balanced(summary, 1000003)


def test_executor_core():
    """The executor's thread runs where the spare lcore was tied to, whatever that lcore's number is."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise spwtest.Skip("needs two cores")
    with Run(["--port", "null:size=64", "--executor", "cpu"],
             lcores=f"0@{cores[0]},1@{cores[0]},2@{cores[-1]}") as run:
        run.wait_ready()
        equal(thread_cores(run.process.pid, "spw-exec"), {cores[-1]}, "cores of the executor's thread")
        run.signal(signal.SIGINT)
        balanced(run.finish())


def test_objective():
    """--slo tries executors and bursts while the run goes on; nothing is lost by a change, and the summary says what
    each gave."""
    place = spwlab.Cores()
    with Run(["--port", "null:size=64,rate=50k", "--handler", "sum", "--slo", "10ms@p50", "--frames", "250000"],
             lcores=f"0@{place.main},1@{place.receive},2@{place.generator}") as run:
        summary = run.finish()
    balanced(summary)
    slo = summary["slo"]
    equal(slo["objective"], "10ms@p50", "objective")
    equal({(one["executor"], one["ctas"], one["burst"]) for one in slo["settings"]},
          {(name, None, burst) for name in ("inline", "cpu") for burst in (64, 16, 4)},
          "settings")
    check(slo["tries"] >= 1 and slo["measured"] >= 1, f"{slo}")
    check(0 <= slo["kept"] <= slo["measured"], f"{slo}")


def test_objective_on_a_ramp():
    """The load doubles every second, three times; --slo judges each by itself while the run goes on."""
    place = spwlab.Cores()
    with Run(["--port", "null:size=64,rate=5k,rate_to=40k,ramp_s=4", "--handler", "sum", "--slo", "10ms@p50"],
             lcores=f"0@{place.main},1@{place.receive},2@{place.generator}") as run:
        def loads():
            return [int(rate) for rate in re.findall(r"slo: (?:.* at )?(\d+) frames/s", run.output())]
        spwlab.wait_for(lambda: max(loads(), default=0) > 28000, 60, "the last load")
        run.signal(signal.SIGINT)
        balanced(run.finish())
        check(min(loads()) < 14000, f"loads that were judged: {loads()}")


LINE = re.compile(r"^ +([\d.]+) s  received ([\d.]+) k frames/s, ([\d.]+) Mbit/s  "
                  r"sent 0 frames/s, 0 bit/s  dropped \d+$", re.M)


def test_stats_period():
    """A line each period, in seconds or with a unit, with what the port was asked for; -q leaves nothing else."""
    for value, every, whole in (("1", 1, 2), ("500ms", 0.5, 1.5)):
        with Run(["--port", "null:rate=20k,size=125", "--executor", "inline", "--handler", "null", "--seconds",
                  str(whole), "--stats-period", value, "-q"]) as run:
            balanced(run.finish(seconds=whole))
            output = run.output()
        lines = [tuple(map(float, row)) for row in LINE.findall(output)]
        check(1 <= len(lines) <= whole / every and len(lines) == len(output.splitlines()),
              f"{len(lines)} lines of {every} s\n{output}")
        last = 0  # a program that gets no core leaves lines out, and is late
        for seconds, frames, bits in lines:
            check(seconds - last > every / 2, f"a line at {seconds} s after one at {last} s\n{output}")
            last = seconds
            check(8 < frames < 32 and abs(bits - frames) < 0.2, f"{frames} k frames/s of 1000 bit, {bits} Mbit/s")
    with Run(["--port", "null:rate=20k", "--executor", "inline", "--frames", "1000", "-v"]) as run:
        balanced(run.finish())
        check("EAL: " in run.output(), run.output())


def test_two_queues():
    place = spwlab.Cores()
    with Run(["--port", "null:size=64", "--queues", "2", "--executor", "inline", "--frames", "100000"],
             lcores=f"0@{place.main},1@{place.receive},2@{place.generator}") as run:
        summary = run.finish()
    balanced(summary)
    check(summary["ledger"]["received"] >= 100000, f"{summary['ledger']}")


def test_two_ports():
    place = spwlab.Cores()
    with Run(["--port", "null:size=64", "--port", "null:size=1500", "--executor", "inline", "--seconds", "1"],
             lcores=f"0@{place.main},1@{place.receive},2@{place.generator}") as run:
        summary = run.finish(seconds=1)
    balanced(summary)
    equal([port["name"] for port in summary["ports"]], ["null", "null#1"], "ports")
    for port in summary["ports"]:
        check(port["rx"]["frames"] > 0, f"{port}")


def test_no_pci():
    """No PCI device is touched when none was named: --no-pci is not among the arguments here."""
    with Run(["--port", "null:size=64", "--executor", "inline", "--frames", "1000"], eal=["--log-level=lib.eal:debug"],
             no_pci=False) as run:
        balanced(run.finish(), 1000)
        check("EAL: PCI" not in run.output() and "EAL: Probe PCI" not in run.output(),
              f"EAL scanned the PCI bus:\n{run.output()}")


def test_eal_by_default():
    """Nothing but cores: EAL does without hugepages where none is free, which is said, and nothing remains in its
    runtime folder."""
    prefix = spwlab.prefix("plain")
    place = spwlab.Cores()
    for name, own in (("spinwire", ["--port", "null:size=64", "--executor", "inline", "--frames", "1000"]),
                      ("spinwire-gen", ["--port", "ethdev:net_null0", "--echo", "no", "--seconds", "100ms"])):
        cmd = [spwlab.program(name), "--lcores", f"0@{place.main},1@{place.receive}", "--file-prefix", prefix, "--",
               *own]
        done = subprocess.run(cmd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        equal(done.returncode, 0, f"exit status of {' '.join(cmd)}\n{done.stderr}\n")
        free = any(int(spwlab.read(path)) for path in glob.glob("/sys/kernel/mm/hugepages/*/free_hugepages"))
        check(free or "no hugepage is free: EAL runs with --no-huge" in done.stderr, done.stderr)
        check(not os.path.exists(spwlab.runtime_folder(prefix)), f"{spwlab.runtime_folder(prefix)} remains")


def test_unknown_loss():
    """A driver that does not count what it loses: said at start, and no figure stands where none is known."""
    for port, known in (("ethdev:net_ring0", False), ("ethdev:net_null0", True)):
        with Run(["--port", port, "--executor", "inline", "--seconds", "0.2", "--full"]) as run:
            summary = run.finish()
            text = run.output()
        equal("`missed` and `wire` are unknown" in text, not known, text)
        equal(re.search(r"wire +unknown = received \d+ \+ missed unknown", text) is not None, not known, text)
        equal(summary["ledger"]["missed"], 0 if known else None, "missed")


def test_summary_brief():
    """Ten lines: every frame, its percentiles, and what this machine costs as the doctor's codes; the advice itself is
    for --full. Counts are the JSON's."""
    with Run(["--port", "null:size=64,rate=50k", "--executor", "inline", "--frames", "4096"]) as run:
        summary, text = run.finish(), run.output()
    ledger = summary["ledger"]
    result = text[text.index("\nspinwire "):].strip().splitlines()
    check(len(result) <= 10 + sum(map(bool, ledger["dropped"].values())), f"{len(result)} lines:\n{text}")
    check(f"received {ledger['received']} = echoed 0 + consumed {ledger['consumed']} + bad 0 + dropped "
          f"{sum(ledger['dropped'].values())}; missed {ledger['missed']}; residual 0\n" in text, text)
    row = r"^latency +p50 [\d.]+ [um]?s, p99 [\d.]+ [um]?s, p99\.9 [\d.]+ [um]?s, longest .* NIC's stamp"
    check(re.search(row, text, re.M), text)
    check(f"slow       {summary['causes']['frames_above']} of {ledger['received']} frames" in text, text)
    check("advice: " not in text and "stage [ns]" not in text, text)
    with Run(["--port", "null:size=64,rate=50k", "--executor", "inline", "--frames", "4096", "--full"]) as run:
        run.finish()
        said = set(re.findall(r"^spinwire: advice: ([a-z-]+):", run.output(), re.M))
    named = re.search(r"^machine +latency here suffers from (.*): see spinwire-doctor --full$", text, re.M)
    equal(set(named[1].split(", ")) if named else set(), said, "codes of the advice")


def test_summary_full():
    """The tables for people hold what the JSON holds."""
    with Run(["--port", "null:size=64", "--executor", "inline", "--frames", "4096", "--full"]) as run:
        summary = run.finish()
        text = run.output()
    for word in ("ledger", "residual", "stage [ns]", "polled_sent", "lcore time", "busy", "leaked",
                 str(summary["ledger"]["executed"])):
        check(word in text, f"{word!r} is not in the summary:\n{text}")
    check(re.search(r"^  rate +received [\d.]+ [kM] frames/s, [\d.]+ [MG]bit/s; sent 0 frames/s, 0 bit/s$", text, re.M),
          f"no rates in\n{text}")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
