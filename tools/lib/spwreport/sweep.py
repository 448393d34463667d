# SPDX-License-Identifier: BSD-3-Clause
"""Measures: one sink, one source, one load after the other. A step that fails reports the reason; the others still
count."""
import contextlib
import os
import shlex
import subprocess
import tempfile
import time

import spwlab
from spinwire import results
from spwreport import data, host, where

CARRIED_MISSING = 0.01  # a load is carried when no more than this share of it is missing
OVERLOAD_FPS = 100e6    # what no path of one queue carries: the first look asks for it
PROBE_S = 1.0
WARM_UP_S, WARM_UP_SHARE = 0.3, 0.2  # frames of that time are counted, but are in no percentile
PROBES_MAX = 8
TRAIL_FRAMES = 120e3
START_S, END_S = 60, 60  # limits for a program to come up, and to end


class StepFailed(Exception):
    """The text names the program and the reason; by_hand is the command that repeats the failure."""

    def __init__(self, text, by_hand=""):
        super().__init__(text)
        self.by_hand = by_hand


class Bench:
    """Where things run, and what stays the same from step to step."""

    def __init__(self, folder, path, place, sink_args=(), source_args=()):
        self.folder, self.path, self.place = folder, path, place
        self.sink_args, self.source_args = list(sink_args), list(source_args)
        self.serial = 0
        self.every = 0  # frames of a flow from one on the trails to the next; 0: no trails
        self.pids = {}  # of the programs that run
        self.phase = lambda text, of_s=None: None  # called with what is done from now on

    def file(self, name):
        return os.path.join(self.folder, name)

    def by_hand(self, command):
        """A command for a shell; its files and sockets go where they can still be written when this run is over."""
        return shlex.join(word.replace(self.folder, tempfile.gettempdir()) for word in command)

    def trail(self, name):
        """Options by which a program, or a software ConnectX, writes the trail of that name."""
        return trail_args(self.file(f"{name}.trail"), self.every) if self.every else []

    def wrap(self, wrap, name):
        return [*wrap, *(self.trail(name) if self.path.nics else [])]

    def sink_command(self, json_path):
        role = spwlab.prefix(f"sink{self.serial}")
        return role, [*self.wrap(self.path.sink_wrap, "spinwire-nic"), spwlab.program("spinwire"),
                      *spwlab.eal(self.place.spinwire(), role, telemetry=True), "--",
                      "--port", self.path.sink_port, "--json", json_path, *self.trail("spinwire"), *self.sink_args]

    def source_command(self, fps, seconds, json_path):
        role = spwlab.prefix(f"source{self.serial}")
        return role, [*self.wrap(self.path.source_wrap, "source-nic"), spwlab.program("spinwire-gen"),
                      *spwlab.eal(self.place.source(), role), "--",
                      "--port", self.path.source_port, "--rate", f"{max(1, round(fps))}pps", "--seconds",
                      f"{round(seconds * 1e3)}ms",
                      "--warm-up", f"{round(min(WARM_UP_S, WARM_UP_SHARE * seconds) * 1e3)}ms", "--hold", f"{END_S}s",
                      *self.path.source_args, *self.source_args,
                      *self.trail("source"), "--json", json_path]


def _load(path, name):
    try:
        return results.summary(path)
    except (OSError, ValueError) as error:
        raise StepFailed(f"{name} wrote no summary: {error}") from None


def _written(path):
    try:
        return bool(_load(path, ""))
    except StepFailed:
        return False


@contextlib.contextmanager
def sink(bench):
    """A spinwire that receives; yields a function that ends it and returns (summary, what was odd about its end or
    None)."""
    bench.serial += 1
    json_path, log = bench.file("spinwire.json"), bench.file("spinwire.log")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(json_path)
    role, command = bench.sink_command(json_path)
    for left in bench.path.leftovers:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(left)
    with open(log, "wb") as out:
        process = spwlab.spawn(command, stdout=out, stderr=subprocess.STDOUT)
    bench.pids["spinwire"] = process.pid

    def end():
        status = spwlab.stop(process, END_S)
        if status < 0 and _written(json_path):  # DPDK 22.11's interrupt thread may meet what rte_eal_cleanup has freed
            by = spwlab.signal_name(-status)
            note = f"spinwire was ended by {by} after its summary, while EAL was torn down"
            return _load(json_path, "spinwire"), note
        if status not in (0, 3):  # 3: it ran, and its ledger or pool does not balance; the summary shows where
            raise StepFailed(spwlab.left_with("spinwire", status, log), bench.by_hand(command))
        return _load(json_path, "spinwire"), None
    try:
        spwlab.wait_for(lambda: process.poll() is not None or spwlab.telemetry(role, "/spinwire/ledger"), START_S,
                        "spinwire to receive")
        if process.poll() is not None:
            raise StepFailed(spwlab.left_with("spinwire", process.returncode, log), bench.by_hand(command))
        yield end
    except TimeoutError as error:
        raise StepFailed(f"{error}{spwlab.last_words(log)}", bench.by_hand(command)) from None
    finally:
        spwlab.stop(process)
        spwlab.forget_prefix(role)


@contextlib.contextmanager
def source(bench, fps, seconds):
    """A source that sends its plan; yields its summary while it still holds its port, so that the sink can end first:
    net_memif may end a sink whose peer leaves."""
    bench.serial += 1
    json_path, log = bench.file("gen.json"), bench.file("gen.log")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(json_path)
    role, command = bench.source_command(fps, seconds, json_path)
    with open(log, "wb") as out:
        process = spwlab.spawn(command, stdout=out, stderr=subprocess.STDOUT)
    bench.pids["source"] = process.pid

    def summary_there():
        """It has written its summary, or is gone."""
        return process.poll() is not None or _written(json_path)
    try:
        spwlab.wait_for(summary_there, seconds + START_S, "spinwire-gen's summary")
        if process.poll():
            raise StepFailed(spwlab.left_with("spinwire-gen", process.returncode, log), bench.by_hand(command))
        yield _load(json_path, "spinwire-gen")
    except TimeoutError as error:
        raise StepFailed(f"{error}{spwlab.last_words(log)}", bench.by_hand(command)) from None
    finally:
        spwlab.stop(process)
        spwlab.forget_prefix(role)


# ---- one step ----------------------------------------------------------------------------------------

def _measure(bench, step):
    bench.phase("starting spinwire")
    with sink(bench) as end:
        bench.phase("sending frames", step["seconds"])
        before, begin = host.snapshot(), time.monotonic()
        with source(bench, step["offered_fps"], step["seconds"]) as gen:
            step["gen"] = gen
            step["machine"] = host.between(before, host.snapshot(), bench.place.spinning(), time.monotonic() - begin)
            step["nics"] = [spwlab.nic_thread(nic) for nic in bench.path.nics]
            step["threads"] = host.threads(bench.pids)
            bench.phase("ending spinwire")
            step["spinwire"], step["note"] = end()
    bench.phase("joining the trails")
    step["where"] = where.of_trails(map(bench.file, trail_files(bench.path.nics)), step["gen"]) if bench.every else None


def trail_files(nics=True):
    """In the order of spwjoin.load."""
    return [f"{name}.trail" for name in ("source", "spinwire", *(("source-nic", "spinwire-nic") if nics else ()))]


def trail_args(path, every):
    """Options by which a program, or a software ConnectX, writes its trail."""
    return ["--trail", path, "--trail-every", str(every)]


def trail_every(fps, seconds):
    """So that the frames of a run fit the trails' rings, and are joined in seconds."""
    every = 1
    while fps * seconds / every > TRAIL_FRAMES:
        every *= 2
    return every


def step_at(bench, fps, seconds, share=None, trails=True):
    """One load, measured on a sink of its own. A failed step is repeated once, and reported in any case. trails: its
    slow frames are joined, end to end."""
    bench.every = trail_every(fps, seconds) if trails else 0
    step = {"share": share, "offered_fps": fps, "seconds": seconds, "gen": None, "spinwire": None, "machine": None,
            "nics": [], "threads": [], "where": None, "faults": [], "note": None,
            "by_hand": ""}
    for _ in range(2):
        try:
            _measure(bench, step)
            return step
        except (StepFailed, OSError) as error:
            step.update(gen=None, spinwire=None)
            step["faults"].append(str(error))
            step["by_hand"] = getattr(error, "by_hand", "")
    return step


# ---- what the path carries -----------------------------------------------------------------------------

def carried(bench, seconds, say):
    """Finds the highest load of which no more than CARRIED_MISSING is missing, by a handful of short steps.
    Returns {"fps", "probes": [...]}; fps 0: not even the lowest load that was tried. StepFailed carries the reason if
    there is none."""
    probes, low, high = [], 0.0, None

    def probe(fps):
        step = step_at(bench, fps, seconds, trails=False)
        if not data.good(step):
            raise StepFailed(step["faults"][-1], step["by_hand"])
        gen = step["gen"]
        ok = data.missing(gen) <= CARRIED_MISSING
        probes.append({"offered_fps": fps, "echoed_fps": data.echoed_fps(gen), "missing": data.missing(gen),
                       "carried": ok,
                       "p99_ns": data.value(step, "p99")})
        say(f"  {fps / 1e6:8.3f} M frames/s offered, {data.echoed_fps(gen) / 1e6:8.3f} came back"
            f"{': carried' if ok else f', {100 * data.missing(gen):.1f} % missing'}")
        return ok
    probe(OVERLOAD_FPS)
    fps = max(1000.0, probes[0]["echoed_fps"])
    while len(probes) < PROBES_MAX and (high is None or low < 0.93 * high):
        if probe(fps):
            low = fps
            fps = (low + high) / 2 if high else 1.3 * fps
        else:
            high = fps
            fps = (low + high) / 2 if low else 0.6 * fps
    return {"fps": low, "probes": probes}


# ---- the machine's own jitter --------------------------------------------------------------------------

def hiccup(bench, seconds):
    """spinwire-doctor idle on the cores that the run spins on; None where there is no doctor (a build without
    rdma-core). Raises StepFailed."""
    path, log = bench.file("hiccup.json"), bench.file("hiccup.log")
    bench.phase("watching the idle cores", seconds)
    if not os.path.exists(spwlab.doctor()):
        return None
    command = [spwlab.doctor(), "idle", "--seconds", f"{seconds:g}", "--cores",
               ",".join(map(str, bench.place.spinning())), "--json", path]
    with open(log, "wb") as out:
        process = spwlab.spawn(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        status = process.wait(seconds + START_S)
    except subprocess.TimeoutExpired:
        raise StepFailed("spinwire-doctor idle did not end", bench.by_hand(command)) from None
    finally:
        spwlab.stop(process)
    if status != 0:
        raise StepFailed(spwlab.left_with("spinwire-doctor idle", status, log), bench.by_hand(command))
    return _load(path, "spinwire-doctor idle")
