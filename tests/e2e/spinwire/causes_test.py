#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Frames above the threshold get the cause that this test gave them. Thresholds lie far above what a busy machine
does."""
import contextlib
import glob
import itertools
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import documents
import spwtest
import spwjoin
from spwreport import data, sweep
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
    """Where nobody was set on the lcore, what it lost was the machine's own doing: with a twentieth lost, nothing is
    proven."""
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
    """Another program on the lcore's own core: what it takes is called a gap of the loop, and the kernel's word is
    there."""
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
        with Run(["--port", SOURCE, "--executor", "cpu", "--executor-cores", str(place.executor), "--slow-threshold",
                  "2ms",
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
              "--slow-threshold", "200ms"], lcores=lcores()) as run:
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
    blame = summary["worst"][0]["blame_ns"]
    check(blame.get("poll_gap", 0) + blame.get("exec_late", 0) > 0.9e9, f"worst: {summary['worst'][0]}")


def test_slow_handler():
    """A handler that takes longer than frames come, from the middle of a ramp on: the batches of that moment are its
    own fault, those that wait are behind it."""
    with Run(["--port", "null:size=64,rate=10k,rate_to=100k,ramp_s=1,stamps=1", "--executor", "inline", "--handler",
              os.environ["SPW_SLOW_HANDLER"],
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
        port = (f"fault:{SOURCE.replace('null:', 'null,')},fault_do=tx_spin,fault_for_us=50000,fault_every_us=250000,"
                f"fault_log={log}")
        with Run(["--port", port, "--ring", "4096", "--executor", "inline", "--handler", "echo", "--slow-threshold",
                  "20ms",
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
    """The source is stopped for 0.3 s: what was due in the first 0.2 s of that left more than 0.1 s late, and says
    so."""
    import gen_test
    stop_s, limit_s, stood = 0.3, 0.1, []

    def stop_the_source(run, process):
        spwlab.wait_for(lambda: run.frames() > RATE // 2, 60, "frames")
        process.send_signal(signal.SIGSTOP)
        begin = time.monotonic()
        time.sleep(stop_s)
        process.send_signal(signal.SIGCONT)
        stood.append(time.monotonic() - begin)
    gen, _, summary = gen_test.through_spinwire("echo", ["--rate", f"{RATE}pps", "--seconds", "3s", "--slow-threshold",
                                                         "100ms", "--slots", "16384"],
                                                during=stop_the_source)
    balanced(summary)
    not_too_busy(summary)
    by, hit = by_cause(gen), (stood[0] - limit_s) * RATE
    if sum(by.values()) - by.get("sender_late", 0) - by.get("sender_behind", 0) > 0.02 * hit:
        raise Skip(f"too busy a machine: {by}")
    check(0.9 * hit <= by.get("sender_late", 0) <= hit / 0.9, f"{hit:.0f} frames were late by the stop alone: {by}")
    # The longest is either due just after the stop, or sent just before it and found at its end.
    check(gen["worst"][0]["cause"] in ("sender_late", "sender_behind") and gen["loop_gap"]["max_ns"] > 0.9e9 * stop_s,
          f"{gen['worst'][0]}, {gen['loop_gap']['max_ns']}")


STALL_MS, HELD_MS, SLOW_MS, JOIN_RATE, JOIN_S = 20, 30, 5, 2000, 4


class Core:
    """What a NIC thread waited for a core, by the scheduler's own count: looks are (time, waited) in seconds."""

    def __init__(self, nic):
        self.nic, self.task, self.looks = nic, None, []

    def _thread(self):
        """The thread's folder in /proc: the process is the one that listens on the NIC's control socket."""
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(self.nic)
            pid, *_ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        found = glob.glob(f"/proc/{pid}/task/*")
        return next((task for task in found if spwlab.read(f"{task}/comm").strip() == "softhca-nic"), None)

    def look(self):
        task = self._thread()
        if task and task != self.task:  # the step began again
            self.task, self.looks = task, []
        if task:
            self.looks.append((time.monotonic(), int(spwlab.read(f"{task}/schedstat").split()[1]) * 1e-9))

    def lost(self):
        """Share of the time between the first and the last look in which the thread wanted to run and had no core."""
        if len(self.looks) < 2:
            return 0
        (begin, before), (end, after) = self.looks[0], self.looks[-1]
        return (after - before) / (end - begin)


class Stalls(threading.Thread):
    """Stops the NIC threads of both sides in turn, until `over` is set, and notes what each waited for a core
    besides."""

    def __init__(self, nics):
        super().__init__(daemon=True)
        self.cores, self.over = [Core(nic) for nic in nics], threading.Event()

    def run(self):
        for core in itertools.cycle(self.cores):
            if self.over.wait(0.1):
                return
            with contextlib.suppress(OSError, ValueError):  # it is not there yet, or no more
                core.look()
                spwlab.nic_ask(core.nic, f"stall={STALL_MS}ms", 2)


def nic_had_a_core(core):
    """A NIC thread publishes its clock only while it has a core; with a twentieth of the time lost, the reading is the
    machine's."""
    if core.lost() > 0.05:
        raise Skip(f"too busy a machine: the thread of spinwire's NIC waited for a core for {100 * core.lost():.1f} % "
                   f"of the time")


def had_loops(sides, rows):
    """Those in whose trip neither loop stood still for more than three quarters of the time: else the machine, which
    took its core, was what they waited for."""
    return [row for row in rows if all(sides.gaps[who].covered(row.due, row.echo) <= 0.75 * row.whole
                                       for who in ("source", "loop"))]


def joined(rows, cause, windows, begin):
    """(frames in whose trip a window fell and that waited most of the threshold for it, those of them that the join
    blames on `cause`, share of the injected time that it finds)."""
    hit = right = 0
    injected = found = 0.0
    for row in rows:
        took = sum(max(0, min(to, row.echo) - max(at, begin(row))) for at, to in windows)
        if took < 0.8 * row.whole:
            continue
        causes = row.causes()
        hit += 1
        right += max(causes, key=causes.get) == cause
        injected += took
        found += min(took, causes.get(cause, 0))
    return hit, right, found / injected if injected else 0


def test_nics_and_wire():
    """Both NIC threads are stopped for 20 ms ten times a second in turn, and the cable holds a twentieth of the frames
    for 30 ms: the join of both sides' trails gives nine tenths of that time to nic_late, peer_late and wire, and of the
    frames that were hit."""
    spwtest.need_card()
    place = spwlab.Cores(nics=True)
    with spwlab.scratch() as folder:
        path = spwlab.softhca_path(place, folder)
        logs = [os.path.join(folder, name) for name in ("source.faults", "spinwire.faults")]
        path = path._replace(source_wrap=(*path.source_wrap, "--fault", f"delay=0.05:{HELD_MS}ms,log={logs[0]}"),
                             sink_wrap=(*path.sink_wrap, "--fault", f"log={logs[1]}"))
        limit = ["--slow-threshold", f"{SLOW_MS}ms"]
        bench = sweep.Bench(folder, path, place, ["--handler", "echo", *limit], [*limit, "--linger", "300ms"])
        stalls = Stalls(path.nics)
        stalls.start()
        step = sweep.step_at(bench, JOIN_RATE, JOIN_S)
        stalls.over.set()
        stalls.join()
        check(data.good(step), f"{step['faults']}")
        lines = [[line.split() for line in spwlab.read(log).splitlines()] for log in logs]
        sides = spwjoin.load(*map(bench.file, sweep.trail_files()))
        rows = spwjoin.join(sides, step["gen"]["tsc_hz"], worst=None).worst
    balanced(step["spinwire"])
    stages = {row["stage"]: row for row in step["spinwire"]["latency"]}
    equal(stages["nic_sent"]["count"], step["spinwire"]["ledger"]["executed"], "frames with a NIC stamp")
    clock, limit_ns = stages["nic_polled"], SLOW_MS * 1e6 / 20  # small beside the threshold by which frames are judged
    if clock["uncertainty_ns"] >= limit_ns:
        nic_had_a_core(stalls.cores[1])
    check(0 < clock["uncertainty_ns"] < limit_ns,
          f"clock of the NIC: {clock}; its thread waited for a core for {stalls.cores[1].lost():.3f} of the time")
    got, hz = step["where"], step["gen"]["tsc_hz"]
    slow = sum(row["frames"] for row in step["gen"]["causes"]["by"] if row["cause"] not in ("lost", "unsent"))
    equal((got["frames"], got["every"], len(rows)), (slow, 1, slow), "slow frames on the trail")
    check(got["joined"] >= 0.99 * got["frames"], f"{got['joined']} of {got['frames']} frames have every stamp")
    check(got["defects"] <= 0.01 * got["frames"],
          f"{got['defects']} of {got['frames']} frames have stamps out of order")
    check(got["attributed"] >= 0.95, f"attributed: {got['attributed']}, {got['by']}")
    ran = had_loops(sides, rows)
    peer, nic = ([(int(line[2]), int(line[3])) for line in side if line[1] == "stalled"] for side in lines)
    held = sum(line[1] == "delayed" for line in lines[0])
    check(len(peer) > 10 and len(nic) > 10 and held > 100, f"{len(peer)}, {len(nic)} stalls, {held} frames held")
    for cause, windows in (("peer_late", peer), ("nic_late", nic)):
        hit, right, share = joined(ran, cause, windows, lambda row: row.due)
        aim = len(windows) * (STALL_MS - SLOW_MS) * JOIN_RATE / 1e3
        if hit < 0.05 * aim:
            raise Skip(f"too busy a machine: {cause} could be seen in {hit} of about {aim:.0f} frames: {got['by']}")
        check(right >= 0.9 * hit and share >= 0.9, f"{cause}: {right} of {hit} frames, {share:.3f} of the time")
    wire = [row for row in rows if any(key == "held" for key, *_ in row.legs)]
    by_wire = sum(row.causes().get("wire", 0) for row in wire)
    check(by_wire >= 0.9 * len(wire) * HELD_MS * 1e-3 * hz and len(wire) >= 0.8 * held,
          f"{len(wire)} of {held} held frames, {by_wire / hz:.3f} s")
    other = sum(row.causes().get("wire", 0) for row in ran if row not in wire)
    check(other <= 0.1 * by_wire, f"wire: {other / hz:.3f} s of frames that were not held")


def test_discarded_by_the_port():
    """The receiver's port discards a tenth of the frames, as under congestion: they are lost, spinwire never sees them,
    and its port_discards counts them, so that both sides' figures add up."""
    spwtest.need_card()
    place = spwlab.Cores()
    tool = [os.path.join(spwlab.TOOLS, "with-softhca"), "--cable", f"shm:{spwlab.prefix('discard')}"]
    port = ["--port", "mlx5:mlx5_0,mode=eth"]
    with spwlab.scratch() as folder, Run([*port, "--executor", "inline", "--handler", "echo"],
                                         under=[*tool, "--netdev", "lo", "--fault", "discard=0.1"]) as run:
        run.wait_ready()
        path, prefix = os.path.join(folder, "gen.json"), spwlab.prefix("discardgen")
        try:
            done = subprocess.run([*tool, os.environ["SPINWIRE_GEN"], *spwlab.eal(f"0@{place.main},1@{place.generator}",
                                                                                  prefix), "--",
                                   *port, "--rate", "2kpps", "--seconds", "2s", "--json", path],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
        finally:
            spwlab.forget_prefix(prefix)
        equal(done.returncode, 0, done.stdout + done.stderr)
        gen = documents.load(path)
        run.signal(signal.SIGINT)
        summary = run.finish()
    balanced(summary)
    discards = summary["ports"][0]["port_discards"]
    check(discards is not None and 0.05 * gen["sent"] < discards < 0.2 * gen["sent"],
          f"{discards} of {gen['sent']} frames were discarded")
    check(gen["lost"] >= discards, f"{discards} frames were discarded, {gen['lost']} were lost")
    equal(summary["ledger"]["wire"] + discards, gen["sent"], "frames that came to the port")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
