#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Exactness, frame by frame: what the fault log says was lost, the source misses, and nothing else; and many frames
without one that is not accounted for. Usage: exact_test.py loss | many [FRAMES]"""
import os
import re
import signal
import sys
import time

import app
from app import Cable, Source, check, equal, spwlab, spwtest
from spwtest import balanced

FLOWS = 13
MANY = 100_000_000
LIMIT_S = 1500


def lost_by_log(path):
    """[number of each frame that the cable lost, from 0 in the order of sending]."""
    with open(path, encoding="ascii") as file:
        rows = [line.split() for line in file]
    check(all(what == "lost" for _, what, _ in rows), f"faults {sorted({what for _, what, _ in rows})}")
    return [int(number) for number, _, _ in rows]


def numbers(gen):
    """{(flow, sequence number)} that the source never got back."""
    check(gen["missing"]["whole"], "the list of missing frames is not whole")
    return {(flow, seq) for flow, first, last in gen["missing"]["ranges"] for seq in range(first, last + 1)}


def test_loss():
    """1 % of the frames are lost on the way out. The source serves its flows in turn, so that the n-th frame is number
    n // FLOWS of flow n % FLOWS. Slowly enough that both receive rings hold what comes while a busy machine lets nobody
    run: half a second."""
    cable = Cable()
    log = os.path.join(cable.folder.name, "faults.log")
    with app.spinwire(cable, "--handler", "echo") as run:
        run.wait_ready()
        gen = Source(cable, "--rate", "2kpps", "--seconds", "5s", "--flows", str(FLOWS), "--size", "imix", "--schedule",
                     "poisson",
                     nic=("--fault", f"loss=0.01,log={log}", "--seed", "5")).finish()
        run.signal(signal.SIGINT)
        summary = run.finish()
    balanced(summary)
    lost = lost_by_log(log)
    check(len(lost) > gen["sent"] / 200, f"{len(lost)} frames of {gen['sent']} were lost on purpose")
    missed = summary["ledger"]["missed"], gen["ports"][0]["missed"]
    equal(gen["lost"], len(lost) + sum(missed) + sum(summary["ledger"]["dropped"].values()),
          f"lost; missed by the NICs: {missed}")
    if any(missed):
        raise spwtest.Skip(f"too busy a machine: {missed} frames found no slot for half a second")
    equal(numbers(gen), {(n % FLOWS, n // FLOWS) for n in lost},
          "frames that did not come back, and those that the fault log names")
    equal(summary["ledger"]["wire"], gen["sent"] - len(lost), "frames that reached spinwire's port")
    equal(summary["ledger"]["echoed"], gen["echoed"], "echoes")
    print(f"{len(lost)} of {gen['sent']} frames were lost; all are named, and no other")


def executed(run):
    return (run.telemetry("/spinwire/ledger") or {}).get("executed", 0)


def rx_count(cable):
    """Frames that spinwire's NIC has taken from the cable, or from itself."""
    return int(re.search(r"\brx=(\d+)", cable.control("spinwire", "status")).group(1))


def all_come(run, cable):
    """The same, once there are no more: what was in the cable when the source went is taken yet."""
    def settled():
        before = rx_count(cable)
        time.sleep(1)
        return before == rx_count(cable) and executed(run) and before
    return spwlab.wait_for(settled, 120, "the cable to be empty")


def until_executed(run, source, frames):
    def enough():
        return executed(run) >= frames or run.process.poll() is not None or source.process.poll() is not None
    try:
        spwlab.wait_for(enough, LIMIT_S, f"{frames} frames to be executed")
    except TimeoutError as late:
        so_far = executed(run)
        time.sleep(10)
        more = executed(run) - so_far
        raise AssertionError(f"{late}: {so_far} in {LIMIT_S} s, {more} more in the next 10 s") from None


def test_many():
    """A hundred million frames into the cpu executor. The source sends more than the path carries until so many were
    executed; then every frame that reached the NIC, by the NIC's own count, is received or missed; every received one
    is executed or dropped by a named reason; every CRC is right. What the cable lost (a NIC that got no core for 200
    ms) was not on the wire: it is printed."""
    frames = int(sys.argv[2]) if len(sys.argv) > 2 else MANY
    cable = Cable()
    place = spwlab.Cores()
    with spwtest.Run(["--port", app.PORT, "--executor", "cpu", "--handler", "crc32c", "--slots",
                      "16384"],
                     lcores=f"0@{place.main},1@{place.receive},"
                     f"2@{place.executor if place.executor is not None else place.main}",
                     under=cable.wrap("spinwire")) as run:
        run.wait_ready()
        litmus = rx_count(cable)  # its frames went through the NIC too
        source = Source(cable, "--rate", "3Mpps", "--seconds", "3600s", "--flows", "64", "--echo", "no", "--linger",
                        "100ms")
        try:
            until_executed(run, source, frames)
        finally:
            source.process.send_signal(signal.SIGINT)
        gen = source.finish(status=130)
        came = all_come(run, cable) - litmus
        run.signal(signal.SIGINT)
        summary = run.finish()
    balanced(summary)
    ledger = summary["ledger"]
    check(ledger["executed"] >= frames, f"executed {ledger['executed']}")
    equal(ledger["wire"], came, "frames that reached the NIC, by its own count")
    check(came <= gen["sent"], f"{came} frames came, {gen['sent']} were sent")
    equal(ledger["wire"], ledger["received"] + ledger["missed"], "wire")
    equal(ledger["received"], ledger["executed"] + sum(ledger["dropped"].values()), "received")
    equal(ledger["executed"], ledger["consumed"], "right CRCs")
    print(f"{gen['sent']} frames sent, {gen['sent'] - came} lost by the cable: {ledger['received']} received, "
          f"{ledger['missed']} missed by "
          f"the NIC; {ledger['executed']} executed, {sum(ledger['dropped'].values())} dropped; residual "
          f"{ledger['residual']}, "
          f"{summary['seconds']:.1f} s")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
