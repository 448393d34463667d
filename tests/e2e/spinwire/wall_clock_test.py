#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The wall clock is set while spinwire runs, by libfaketime and for this process alone: intervals and durations do not
notice."""
import glob
import os
import tempfile
import time

import spwtest
from spwtest import Run, check, spwlab

HOUR_S = 3600
STEPS_S = 4  # from the start to the second step of the clock


def faketime():
    found = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
    if not found or spwtest.SANITIZED:
        raise spwtest.Skip("needs libfaketime (tools/deps test), and a program that is not sanitized")
    return found[0]


def step(path, seconds):
    """The file is replaced whole: libfaketime reads it at each call."""
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(f"{seconds:+d}\n")
    os.replace(path + ".new", path)


def intervals(path):
    """(start, length) of each interval of an HdrHistogram log."""
    rows = [line.split(",") for line in spwlab.read(path).splitlines() if line and line[0] not in "#\""]
    return [(float(row[1]), float(row[2])) if row[0].startswith("Tag=") else (float(row[0]), float(row[1]))
            for row in rows]


def test_hdr_log():
    library = faketime()
    with tempfile.TemporaryDirectory(prefix="spw-") as folder:
        offset, log = os.path.join(folder, "offset"), os.path.join(folder, "stages.hlog")
        step(offset, 0)
        env = {"LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": offset, "FAKETIME_NO_CACHE": "1",
               "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        begin = time.monotonic()
        with Run(["--port", "null:size=64,rate=10k", "--executor", "inline", "--hdr", log],
                 env=env) as run:
            run.wait_ready()
            for seconds in (HOUR_S, -HOUR_S):
                time.sleep(STEPS_S / 2)
                step(offset, seconds)
            time.sleep(2)
            run.end()
            took, got = time.monotonic() - begin, intervals(log)
            check_intervals(got, took)
            seconds = run.finish()["seconds"]
        check(0 < seconds <= took, f"ran {seconds} s of {took:.1f}")


def check_intervals(got, took):
    """One a second, of a second each, the first one's start being the wall clock's."""
    first = got[0][0]
    check(got[-1][0] + got[-1][1] - first >= STEPS_S, f"no interval after the second step: {got}")
    check(len({start for start, _ in got}) >= 2, f"{len(got)} intervals in {took:.1f} s")
    check(all(0 <= start - first <= took and 0 <= length <= took for start, length in got), f"intervals {got}")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
