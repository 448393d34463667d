#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Frames above the threshold get the cause that this test gave them. Thresholds lie far above what a busy machine does."""
import json
import os
import signal
import subprocess
import sys
import time

import spwtest
from spwreport import data
from spwtest import Run, Skip, balanced, check, equal, spwlab

RATE = 20000
SOURCE = f"null:size=64,rate={RATE},stamps=1"


def by_cause(summary):
    return {row["cause"]: row["frames"] for row in summary["causes"]["by"]}


def mostly(summary, *causes):
    """At least nine in ten frames above the threshold have one of these causes, and there are some."""
    by, above = by_cause(summary), summary["causes"]["frames_above"]
    check(above > 100, f"hardly a slow frame: {by}")
    check(sum(by.get(cause, 0) for cause in causes) >= 0.9 * above, f"expected {causes}: {by}")
    return by


def not_too_busy(summary, executor=False):
    """Where nobody was set on the lcore, what it lost was the machine's own doing: with a twentieth lost, nothing is proven."""
    lost = summary["held"]["lost"]["sum_ns"] * 1e-9
    if lost > 0.05 * summary["seconds"]:
        raise Skip(f"too busy a machine: the lcore lost its core for {lost:.2f} of {summary['seconds']:.1f} s")
    late = by_cause(summary).get("exec_late", 0)
    if executor and late > 0.02 * summary["ledger"]["executed"]:
        raise Skip(f"too busy a machine: the executor's thread was late for {late} frames")


def lcores():
    place = spwlab.Cores()
    spare = place.executor if place.executor is not None else place.generator
    return f"0@{place.main},1@{place.receive},2@{spare}"


def competitor(core):
    """A program that spins on that core and on no other."""
    spin = "import os\nos.sched_setaffinity(0, {%d})\nwhile True:\n    pass\n" % core
    return spwlab.spawn([sys.executable, "-c", spin])


def test_competitor():
    """Another program on the lcore's own core: what it takes is called a gap of the loop, and the kernel's word is there."""
    rival = competitor(spwlab.Cores().receive)
    try:
        with Run(["--port", SOURCE, "--executor", "inline", "--slow-threshold", "2ms", "--seconds", "3"]) as run:
            summary = run.finish(seconds=3)
    finally:
        spwlab.stop(rival)
    balanced(summary)
    mostly(summary, "poll_gap")
    check(summary["held"]["lost"]["times"] > 0, f"{summary['held']}")
    who = summary["who"][0]
    equal(who["cpu"], spwlab.Cores().receive, "cpu of the lcore")
    check(who["windows"] > 0 and who["involuntary"] > 10, f"who took the core: {who}")
    check(who["interrupts"], f"no interrupt in {who['windows']} tenths of a second")
    check(summary["held"]["switched_out"] is None or summary["held"]["switched_out"] > 0, f"{summary['held']}")


def test_competitor_of_executor():
    """Another program on the core of the executor's thread: the executor is late."""
    place = spwlab.Cores()
    if place.executor is None:
        raise Skip("needs three cores")
    rival = competitor(place.executor)
    try:
        with Run(["--port", SOURCE, "--executor", "cpu", "--executor-cores", str(place.executor), "--slow-threshold", "2ms",
                  "--batches", "1024", "--seconds", "3"], lcores=lcores()) as run:
            summary = run.finish(seconds=3)
    finally:
        spwlab.stop(rival)
    balanced(summary)
    not_too_busy(summary)
    by = by_cause(summary)
    own = by.get("poll_gap", 0)  # what the machine took from the lcore meanwhile
    check(by.get("exec_late", 0) > 100, f"{by}")
    check(by["exec_late"] >= 0.9 * (summary["causes"]["frames_above"] - own), f"{by}")


def test_sigstop():
    """The whole process stopped for a second: all that waited in the port say so."""
    with Run(["--port", SOURCE, "--ring", "32768", "--slots", "32768", "--executor", "cpu", "--batches", "1024",
              "--slow-threshold", "200ms", "--seconds", "100"], lcores=lcores()) as run:
        run.wait_ready()
        spwlab.wait_for(lambda: run.frames() > RATE // 10, 60, "frames")
        run.signal(signal.SIGSTOP)
        time.sleep(1)
        run.signal(signal.SIGCONT)
        before = run.frames()
        spwlab.wait_for(lambda: run.frames() > before + RATE, 60, "frames after the stop")
        run.signal(signal.SIGINT)
        summary = run.finish()
    balanced(summary)
    not_too_busy({**summary, "held": {"lost": {"sum_ns": summary["held"]["lost"]["sum_ns"] - 1e9}}}, executor=True)
    by = mostly(summary, "poll_gap")
    check(by["poll_gap"] >= 0.9 * 0.8 * RATE, f"a second less 200 ms, at {RATE} frames/s: {by}")
    # The longest either waited in the port, or was in the executor, whose thread was stopped as well.
    blame = summary["worst"][0]["blame"]
    check(blame.get("poll_gap", 0) + blame.get("exec_late", 0) > 0.9e9, f"worst: {summary['worst'][0]}")


def test_slow_handler():
    """A handler that takes longer than frames come: its batch is its own fault, those that wait are behind it."""
    with Run(["--port", "null:size=64,rate=100k,stamps=1", "--executor", "inline", "--handler", os.environ["SPW_SLOW_HANDLER"],
              "--slow-threshold", "500us", "--seconds", "2"]) as run:
        summary = run.finish(seconds=2)
    balanced(summary)
    not_too_busy(summary)
    by = by_cause(summary)
    own = by.get("poll_gap", 0)  # what the machine took from the lcore meanwhile
    check(by.get("handler_slow", 0) > 0 and by.get("batch_ahead", 0) > 100, f"{by}")
    check(by["handler_slow"] + by["batch_ahead"] >= 0.9 * (summary["causes"]["frames_above"] - own), f"{by}")


def test_transmit_stall():
    """The fault port writes down when it held up the transmit; the ledger names those frames and no others."""
    seconds, fault_s, threshold_s = 3, 0.05, 0.02
    with spwlab.scratch() as folder:
        log = os.path.join(folder, "faults")
        port = f"fault:{SOURCE.replace('null:', 'null,')},fault_do=tx_spin,fault_for_us=50000,fault_every_us=250000,fault_log={log}"
        with Run(["--port", port, "--ring", "4096", "--executor", "inline", "--handler", "echo", "--slow-threshold", "20ms",
                  "--seconds", str(seconds)]) as run:
            summary = run.finish(seconds=seconds)
        windows = [tuple(map(int, line.split()[2:])) for line in spwlab.read(log).splitlines()]
    balanced(summary)
    not_too_busy(summary)
    check(len(windows) >= 5, f"faults: {windows}")
    blamed, hit = by_cause(summary).get("tx_stall", 0), len(windows) * (fault_s - threshold_s) * RATE
    check(blamed >= 0.9 * hit, f"{blamed} frames of {hit} that were hit: {summary['causes']}")
    check(blamed * 0.9 <= len(windows) * fault_s * RATE, f"{blamed} frames, more than were hit: {summary['causes']}")
    for row in summary["worst"]:
        stamps = row["stamps"]
        met = any(start < stamps["sent_tsc"] and stamps["nic_tsc"] < end for start, end in windows)
        check(row["cause"] != "tx_stall" or met, f"no fault was near: {row}")


def test_ring_full_is_no_slow_frame():
    """Frames dropped at the executor's door stand in the ledger; they are not slow, and have no cause."""
    with Run(["--port", "null:size=64,rate=200k", "--executor", "cpu", "--handler", os.environ["SPW_SLOW_HANDLER"],
              "--batches", "4", "--slow-threshold", "1us", "--seconds", "1"], lcores=lcores()) as run:
        summary = run.finish(seconds=1)
    balanced(summary)
    check(summary["ledger"]["dropped"]["ring_full"] > 0, f"{summary['ledger']}")
    check(0 < summary["causes"]["frames_above"] <= summary["ledger"]["executed"], f"{summary['causes']}")


def test_identity():
    """The worst frames of spinwire-gen's say which they are, though they were echoed and their slots are long back."""
    import gen_test  # its own environment and helpers
    gen, _, summary = gen_test.through_spinwire("echo", ["--rate", "20kpps", "--seconds", "1s", "--flows", "7"],
                                                ["--slow-threshold", "1us"])
    balanced(summary)
    known = [row["ident"] for row in summary["worst"] if row["ident"]]
    check(len(known) >= len(summary["worst"]) // 2, f"{len(known)} of {len(summary['worst'])} say who they are")
    for ident in known:
        check(ident["flow"] < 7 and ident["seq"] <= gen["sent"] // 7 + 7, f"{ident}")


def test_sender_stopped():
    """The source is stopped for 0.3 s: what was due in the first 0.2 s of that left more than 0.1 s late, and says so."""
    import gen_test
    stop_s, limit_s, stood = 0.3, 0.1, []

    def stop_the_source(run, process):
        spwlab.wait_for(lambda: run.frames() > RATE // 2, 60, "frames")
        process.send_signal(signal.SIGSTOP)
        begin = time.monotonic()
        time.sleep(stop_s)
        process.send_signal(signal.SIGCONT)
        stood.append(time.monotonic() - begin)
    gen, _, summary = gen_test.through_spinwire("echo", ["--rate", f"{RATE}pps", "--seconds", "3s", "--slow-threshold", "100ms", "--slots", "16384"],
                                                during=stop_the_source)
    balanced(summary)
    not_too_busy(summary)
    by, hit = by_cause(gen), (stood[0] - limit_s) * RATE
    if sum(by.values()) - by.get("sender_late", 0) - by.get("sender_behind", 0) > 0.02 * hit:
        raise Skip(f"too busy a machine: {by}")
    check(0.9 * hit <= by.get("sender_late", 0) <= hit / 0.9, f"{hit:.0f} frames were late by the stop alone: {by}")
    # The longest is either due just after the stop, or sent just before it and found at its end.
    check(gen["worst"][0]["cause"] in ("sender_late", "sender_behind") and gen["loop_gap"]["max_ns"] > 0.9e9 * stop_s, f"{gen['worst'][0]}, {gen['loop_gap']['max_ns']}")


def test_delayed_on_the_wire():
    """Two software ConnectX; their cable holds a tenth of the frames for 30 ms. The generator sees it, and the ledger, which counts
    from the NIC's stamp, does not blame its own stages; its clock fit is good enough that hardly any comes out negative."""
    if spwtest.SANITIZED or not spwlab.has_mlx5():
        raise Skip("needs spinwire's mlx5 port and a software ConnectX in front of a program without sanitizers")
    place = spwlab.Cores()
    tool = [os.path.join(spwlab.TOOLS, "with-softhca"), "--cable", f"shm:{spwlab.prefix('wire')}"]
    port = ["--port", "mlx5:mlx5_0,mode=eth"]
    with spwlab.scratch() as folder, Run([*port, "--executor", "inline", "--handler", "echo", "--slow-threshold", "10ms", "--seconds",
                                          "100"], under=tool) as run:
        run.wait_ready()
        path, prefix = os.path.join(folder, "gen.json"), spwlab.prefix("wiregen")
        try:
            done = subprocess.run([*tool, "--fault", f"delay=0.1:30ms,log={folder}/log", os.environ["SPINWIRE_GEN"],
                                   *spwlab.eal(f"0@{place.main},1@{place.generator}", prefix), "--", *port, "--rate", "2kpps",
                                   "--seconds", "2s", "--slow-threshold", "10ms", "--json", path],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
        finally:
            spwlab.forget_prefix(prefix)
        equal(done.returncode, 0, done.stdout + done.stderr)
        with open(path, encoding="utf-8") as file:
            gen = json.load(file)
        delayed = sum(line.split()[1] == "delayed" for line in spwlab.read(os.path.join(folder, "log")).splitlines())
        run.signal(signal.SIGINT)
        summary = run.finish()
    balanced(summary)
    trips = dict(map(tuple, gen["round_trip"]["spectrum"]))
    check(max(trips.values()) > 30e6, f"the delay is not in the round trip: {gen['round_trip']}")
    if summary["ledger"]["executed"] < gen["sent"] // 2:
        raise Skip(f"too busy a machine: {summary['ledger']['executed']} of {gen['sent']} frames came through")
    rows = {row["stage"]: row for row in summary["latency"]}
    equal(rows["nic_sent"]["count"], summary["ledger"]["executed"], "frames with a NIC stamp")
    defects = {stage: row["defects"] for stage, row in rows.items()}
    check(sum(defects.values()) <= 0.05 * summary["ledger"]["executed"], f"negative stages (a NIC thread without a core stops its clock): {defects}")
    check(rows["nic_polled"]["uncertainty_ns"] < 100000, f"clock of the NIC: {rows['nic_polled']}")
    by = by_cause(summary)  # what a busy machine does to the lcore meanwhile is a gap
    check(sum(by.values()) - by.get("poll_gap", 0) <= 0.1 * 0.1 * gen["sent"], f"delayed frames were blamed: {by}")
    joined_names_the_wire({"gen": gen, "spinwire": summary}, delayed)


def test_discarded_by_the_port():
    """The receiver's port discards a tenth of the frames, as under congestion: they are lost, spinwire never sees them, and its
    port_discards counts them, so that both sides' figures add up."""
    if spwtest.SANITIZED or not spwlab.has_mlx5():
        raise Skip("needs spinwire's mlx5 port and a software ConnectX in front of a program without sanitizers")
    place = spwlab.Cores()
    tool = [os.path.join(spwlab.TOOLS, "with-softhca"), "--cable", f"shm:{spwlab.prefix('discard')}"]
    port = ["--port", "mlx5:mlx5_0,mode=eth"]
    with spwlab.scratch() as folder, Run([*port, "--executor", "inline", "--handler", "echo", "--seconds", "100"],
                                         under=[*tool, "--netdev", "lo", "--fault", "discard=0.1"]) as run:
        run.wait_ready()
        path, prefix = os.path.join(folder, "gen.json"), spwlab.prefix("discardgen")
        try:
            done = subprocess.run([*tool, os.environ["SPINWIRE_GEN"], *spwlab.eal(f"0@{place.main},1@{place.generator}", prefix), "--",
                                   *port, "--rate", "2kpps", "--seconds", "2s", "--json", path],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
        finally:
            spwlab.forget_prefix(prefix)
        equal(done.returncode, 0, done.stdout + done.stderr)
        with open(path, encoding="utf-8") as file:
            gen = json.load(file)
        run.signal(signal.SIGINT)
        summary = run.finish()
    balanced(summary)
    discards = summary["ports"][0]["port_discards"]
    check(discards is not None and 0.05 * gen["sent"] < discards < 0.2 * gen["sent"], f"{discards} of {gen['sent']} frames were discarded")
    check(gen["lost"] >= discards, f"{discards} frames were discarded, {gen['lost']} were lost")
    equal(summary["ledger"]["wire"] + discards, gen["sent"], "frames that came to the port")


def joined_names_the_wire(step, delayed):
    """Neither side alone can tell the wire; both together name those that were delayed, and hardly another."""
    by_name = {cause: frames for cause, (frames,), _ in data.causes([step], "gen")}
    if by_name.get("sender_late", 0) + by_name.get("beyond_sender", 0) > 0.05 * delayed:
        raise Skip(f"too busy a machine: {by_name}")
    check(0.9 * delayed <= by_name.get("wire", 0) <= delayed / 0.9, f"{delayed} frames were delayed: {by_name}")
    inside = next(row["max_ns"] for row in step["spinwire"]["latency"] if row["stage"] == "nic_sent")
    causes = [frame["cause"] for frame in data.worst_frames(step)]
    named = sum(cause.startswith("wire") for cause in causes)
    check(inside + step["gen"]["loop_gap"]["max_ns"] > 10e6 or named >= 0.9 * len(causes) > 0, f"the sender's worst: {causes}")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
