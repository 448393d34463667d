#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What tools/profile rests on: the probe of the machine's own jitter."""
import json
import os
import signal
import time

import spwtest
from spwtest import check, equal, spwlab

BENCH = os.environ["SPINWIRE_BENCH"]


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        got = json.load(file)
    equal((got["schema"], got["bench"]), ("spinwire.bench/1", "hiccup"), "schema")
    return {(row["case"], row["metric"]): row["median"] for row in got["rows"]}


def test_hiccup():
    """A probe that is stopped for 0.3 s sees a gap of at least that, once; counts never grow with the length of the gap."""
    core = spwlab.cores()[0]
    with spwlab.scratch() as folder:
        path = os.path.join(folder, "hiccup.json")
        probe = spwlab.spawn([BENCH, "hiccup", "--seconds", "1.5", "--cores", str(core), "--json", path])
        try:
            time.sleep(0.5)
            probe.send_signal(signal.SIGSTOP)
            time.sleep(0.3)
            probe.send_signal(signal.SIGCONT)
            equal(probe.wait(60), 0, "exit status")
        finally:
            spwlab.stop(probe)
        rows = rows_of(path)
    case = f"core {core}"
    check(rows[case, "longest gap"] >= 0.29e6, f"longest gap {rows[case, 'longest gap']} us")
    over = [value for (_, metric), value in rows.items() if metric.startswith("gaps over")]
    check(len(over) > 15 and over == sorted(over, reverse=True), f"counts by length: {over}")
    check(rows[case, "gaps over 200000000 ns"] > 0, "the gap is not among those over 200 ms")
    check(rows[case, "taken by gaps over 1 us"] > 10, f"taken: {rows[case, 'taken by gaps over 1 us']} %")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
