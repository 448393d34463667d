#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""--record: what ran is run again by --replay, with the same ledger, the same causes and the same worst frames."""
import os
import signal
import struct
import subprocess
import time

import causes_test
import documents
import spwtest
from spwreport import data, sweep
from spwtest import Run, balanced, check, equal, spwlab

SOURCE = "null:size=64,rate=20k,stamps=1"


def replay(path, *args, status=0):
    """(its summary, what it printed)."""
    with spwlab.scratch() as folder:
        out = os.path.join(folder, "replay.json")
        done = subprocess.run([spwtest.SPINWIRE, "--replay", path, "--json", out, *args], capture_output=True,
                              text=True, timeout=120, check=False)
        equal(done.returncode, status, f"replay\n{done.stdout}{done.stderr}")
        return documents.load(out) if status in (0, 3) else None, done.stdout + done.stderr


def same(got, summary):
    for key in ("ledger", "causes", "worst"):
        equal(got[key], summary[key], key)
    check(got["from_start"] and got["ended"] and got["differs"]["of_states"] >= 1, f"{got['differs']}")


def refused(path, words, *args):
    """One line, and it names what is wrong."""
    lines = replay(path, *args, status=1)[1].splitlines()
    check(len(lines) == 1 and lines[0].startswith("spinwire: error: ") and words in lines[0], f"{lines}")


def polls(path):
    """(offset of its run of plain CQEs, frames) of each burst in a recording that has CQEs. Such a burst
    (lib/flight/spw_flight.h) is found by its head: 2, frames, flags with 4, bytes; the rest of 80 bytes, sums in 24 and
    24 of the port's (port/mlx5/eth/raw.h); then a run with as many CQEs: index, how many, 1, widths."""
    with open(path, "rb") as file:
        whole = file.read()
    heads = [(at + 80 + 24 + 24, *struct.unpack_from("<BBHI", whole, at)) for at in range(0, len(whole) - 136, 8)
             if whole[at] == 2]
    return [(run, frames) for run, _, frames, what, _ in heads if frames > 0 and what in (4, 5) and
            struct.unpack_from("<HB", whole, run + 4) == (frames, 1)]


def longer_by_a_bit(path):
    """Changes one bit of the first CQE in a recording that the replay has to read: of byte_cnt, the third column."""
    at = polls(path)[0][0] + 8 + 2 * 8
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def test_softhca():
    """Over two software ConnectX whose threads are stopped in turn; spinwire's transmit is held up for 5 ms in every
    50, so that frames wait in its port."""
    spwtest.need_card()
    place = spwlab.Cores(nics=True)
    with spwlab.scratch() as folder:
        path, file = spwlab.softhca_path(place, folder), os.path.join(folder, "run.rec")
        path = path._replace(sink_port=f"fault:{path.sink_port},fault_do=tx_spin,fault_for_us=5000,"
                             f"fault_every_us=50000")
        limit = ["--slow-threshold", "2ms"]
        bench = sweep.Bench(folder, path, place, ["--handler", "echo", *limit, "--record", file, "--record-rule",
                                                  "end"], [*limit, "--linger", "300ms"])
        stalls = causes_test.Stalls(path.nics)
        stalls.start()
        step = sweep.step_at(bench, 5000, 2, trails=False)
        stalls.over.set()
        stalls.join()
        check(data.good(step), f"{step['faults']}")
        balanced(step["spinwire"])
        check(step["spinwire"]["causes"]["frames_above"] > 10, f"hardly a slow frame: {step['spinwire']['causes']}")
        got, _ = replay(file)
        same(got, step["spinwire"])
        ident = next(row["ident"] for row in got["worst"] if row["ident"])
        _, story = replay(file, "--explain", f"{ident['flow']}:{ident['seq']}")
        check(f"flow {ident['flow']} number {ident['seq']}" in story and "nic_polled" in story, story)
        equal(sum(frames for _, frames in polls(file)), got["ledger"]["received"], "frames of the bursts with CQEs")
        equal(got["differs"]["cqes"], 0, "bursts that come to other frames")
        check(got["differs"]["of_cqes"] >= len(polls(file)), f"{got['differs']}")
        longer_by_a_bit(file)
        got, text = replay(file, status=3)
        check("sum of lengths" in text and got["differs"]["cqes"] == 1, f"{got['differs']}\n{text}")


def test_cqes_left_out():
    """--record-cqes no: however many frames come, the file has no CQE of them, and the replay says that none were read.
    test_softhca has the same path with CQEs."""
    spwtest.need_card()
    place = spwlab.Cores(nics=True)
    with spwlab.scratch() as folder:
        file = os.path.join(folder, "run.rec")
        bench = sweep.Bench(folder, spwlab.softhca_path(place, folder), place,
                            ["--handler", "echo", "--record", file, "--record-rule", "end", "--record-cqes", "no"])
        step = sweep.step_at(bench, 1000, 1, trails=False)
        check(data.good(step), f"{step['faults']}")
        check(step["spinwire"]["ledger"]["received"] > 0, f"{step['spinwire']['ledger']}")
        got, text = replay(file)
        equal([polls(file), got["differs"]["of_cqes"], got["differs"]["cqes"]], [[], 0, 0], "CQEs")
        check("CQEs       none in the recording" in text, text)


def test_objective():
    """--slo with two executors: the run ends when something was measured with the second, and comes out the same
    again."""
    place = spwlab.Cores()
    with spwlab.scratch() as folder:
        file = os.path.join(folder, "run.rec")
        with Run(["--port", "null:size=64,rate=2k,stamps=1", "--handler", "sum", "--slo", "10ms@p50", "--record",
                  file, "--record-rule", "end"], lcores=f"0@{place.main},1@{place.receive},2@{place.generator}") as run:
            spwlab.wait_for(lambda: "with cpu, burst" in run.output(), 120, "a measurement with the second executor")
            run.signal(signal.SIGINT)
            summary = run.finish()
        balanced(summary)
        got, text = replay(file)
        same(got, summary)
        check("executor inline or cpu (" in text and got["executor_changes"] >= 1, f"{got['executor_changes']}\n{text}")


def test_causes():
    """A handler that is too slow, an executor of its own, two queues; payload is kept."""
    handler = os.environ["SPW_SLOW_HANDLER"]
    for executor, extra in (("inline", []), ("cpu", ["--batches", "4"])):
        with spwlab.scratch() as folder:
            file = os.path.join(folder, "run.rec")
            with Run(["--port", "null:size=64,rate=100k,stamps=1", "--executor", executor, "--handler", handler,
                      "--slow-threshold", "500us",
                      "--seconds", "1", "--record", file, "--record-rule", "end", "--record-snap", "64B", *extra],
                     lcores=causes_test.lcores()) as run:
                summary = run.finish(seconds=1)
            balanced(summary)
            got, _ = replay(file)
            same(got, summary)


def test_verdicts():
    """Payload is kept whole: the handler runs again and finds the same; a plug-in that was changed in between does not.
    Cut payload has the recorded verdicts."""
    with spwlab.scratch() as folder:
        file, handler = os.path.join(folder, "run.rec"), os.environ["SPW_SLOW_HANDLER"]
        for snap, again in (("64B", 2000), ("63B", 0)):
            with Run(["--port", "null:size=64,rate=20k", "--ring", "4096", "--slots", "8192", "--executor", "inline",
                      "--handler", handler,
                      "--frames", "2000", "--record", file, "--record-rule", "end", "--record-snap", snap]) as run:
                balanced(run.finish())
            got, text = replay(file)
            equal([got["differs"]["of_verdicts"], handler in text], [0, True],
                  "a file does not choose a plug-in by itself")
            got, _ = replay(file, "--handler", handler)
            equal([got["differs"][key] for key in ("verdicts", "of_verdicts", "digests", "as_recorded")],
                  [0, again, 0, 2000 - again], f"snap {snap}")
            got, text = replay(file, "--handler", os.environ["SPW_CHANGED_HANDLER"], status=3 if again else 0)
            equal([got["differs"]["verdicts"], "batch 0, frame 0: bad, recorded consume" in text], [again, again > 0],
                  f"changed, snap {snap}")


def test_handler_is_no_path():
    """A recording whose built-in handler was replaced by the path of a plug-in: nothing is loaded, since its code would
    run."""
    with spwlab.scratch() as folder:
        file, plugin = os.path.join(folder, "run.rec"), os.path.join(folder, "p.so")
        os.symlink(os.environ["SPW_CHANGED_HANDLER"], plugin)
        with Run(["--port", "null:size=64,rate=20k", "--executor", "inline", "--handler", "sum", "--frames", "1000",
                  "--record", file,
                  "--record-rule", "end", "--record-snap", "64B"]) as run:
            balanced(run.finish())
        with open(file, "r+b") as rec:
            whole = rec.read()
            at = whole.index(b"sum".ljust(64, b"\0"))
            rec.seek(at)
            rec.write(plugin.encode().ljust(64, b"\0"))
            port = whole.index(b"null".ljust(64, b"\0"))
            rec.seek(port)
            rec.write(b"null\nledger: good\x1b[2J".ljust(64, b"\0"))
        refused(file, "is not built in")
        _, text = replay(file, "--handler", "sum", status=0)
        check("port null\\u000aledger: good\\u001b[2J, executor" in text, text)


def test_request():
    """SIGUSR1 and telemetry each have a file written while the run goes on; a window of 100 ms is little more than
    that."""
    with spwlab.scratch() as folder:
        file = os.path.join(folder, "run.rec")
        with Run(["--port", SOURCE, "--executor", "inline", "--slow-threshold", "60s", "--record",
                  file,
                  "--record-window", "100ms", "--record-memory", "8MiB"]) as run:
            run.wait_ready()
            spwlab.wait_for(lambda: run.frames() > 10000, 60, "frames")
            check(not os.path.exists(file), "nobody asked for a file")
            run.signal(signal.SIGUSR1)
            spwlab.wait_for(lambda: os.path.exists(file), 60, "the file that a signal asks for")
            got, _ = replay(file)
            equal(got["why"], "request", "why")
            check(not got["ended"], "the run goes on")
            before = os.stat(file).st_ino
            equal(run.telemetry("/spinwire/record"), {"file": file}, "telemetry")
            spwlab.wait_for(lambda: os.stat(file).st_ino != before, 60, "the file that telemetry asks for")
            replay(file)
            run.signal(signal.SIGINT)
            balanced(run.finish())


def test_slow_frame():
    """Stopped for 0.3 s: the frames that waited are the reason, and the file that has them appears by itself."""
    with spwlab.scratch() as folder:
        file = os.path.join(folder, "run.rec")
        with Run(["--port", SOURCE, "--ring", "32768", "--slots", "32768", "--executor", "inline", "--slow-threshold",
                  "200ms",
                  "--record", file]) as run:
            run.wait_ready()
            spwlab.wait_for(lambda: run.frames() > 2000, 60, "frames")
            run.signal(signal.SIGSTOP)
            time.sleep(0.3)
            run.signal(signal.SIGCONT)
            spwlab.wait_for(lambda: os.path.exists(file), 60, "the file")
            got, _ = replay(file)
            equal(got["why"], "slow", "why")
            check(got["worst"][0]["whole_ns"] > 0.2e9 and got["worst"][0]["cause"] == "poll_gap", f"{got['worst'][0]}")
            run.signal(signal.SIGINT)
            balanced(run.finish())


def test_bad_input():
    """One line for a file that is none, is cut, or is not there; and for options that do not fit."""
    with spwlab.scratch() as folder:
        file, cut = os.path.join(folder, "run.rec"), os.path.join(folder, "cut.rec")
        with Run(["--port", SOURCE, "--executor", "inline", "--frames", "1000", "--record", file]) as run:
            balanced(run.finish())
        with open(file, "rb") as whole, open(cut, "wb") as part:
            part.write(whole.read()[:-100])
        for path, words in ((cut, "cut off"), (__file__, "no recording"),
                            (os.path.join(folder, "none"), "No such file")):
            refused(path, words)
        refused(file, "worst", "--explain", "1:1")
        refused(file, "has no payload", "--handler", "sum")
        refused(file, "--port: not with --replay", "--port", "null")
        refused(file, "--replay runs no port", "--", "--port", "null")
        for extra, words in ((["--stamps", "no"], "--record needs stamps"),
                             (["--record-snap", "2KiB", "--record-memory", "4MiB"], "give it")):
            run = subprocess.run([os.environ["SPINWIRE"], *spwlab.eal("0,1", spwlab.prefix("record")), "--", "--port",
                                  SOURCE, "--record", file, *extra],
                                 capture_output=True, text=True, timeout=60, check=False)
            check(run.returncode in (1, 2) and words in run.stderr, run.stderr)
        for args, words in ((["--", "--port", SOURCE, "--explain", "1:1"], "--explain: is of --replay"),
                            (["--", "--replay", file], "--replay: takes no"),
                            (["--replay"], "--replay needs a value")):
            run = subprocess.run([spwtest.SPINWIRE, *args], capture_output=True, text=True, timeout=60, check=False)
            check(run.returncode == 1 and words in run.stderr, run.stderr)


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
