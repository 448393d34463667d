#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""More than can be done: frames are dropped with a reason, and the books still balance."""
import os

import spwtest
from spwtest import Run, balanced, check, equal, spwlab

SECONDS = 2


def under_load(app, lcores=None):
    with spwlab.scratch() as folder, spwtest.memif_peer(folder, ["--forward-mode=txonly"]) as (sock, _, _):
        with Run(["--port", spwtest.memif_port(sock), "--seconds", str(SECONDS), *app], lcores=lcores) as run:
            summary = run.finish(seconds=SECONDS)
    balanced(summary)
    return summary


def test_slow_handler():
    """The executor is the bottleneck: the ring fills, the rest is dropped as ring_full and the port goes on."""
    summary = under_load(["--executor", "cpu", "--handler", os.environ["SPW_SLOW_HANDLER"], "--batches", "4"])
    check(summary["ledger"]["dropped"]["ring_full"] > 0, f"nothing dropped: {summary['ledger']}")
    check(summary["ledger"]["executed"] > 0, f"nothing executed: {summary['ledger']}")


def test_tiny_ring():
    """Two batches are the smallest ring there is."""
    summary = under_load(["--executor", "cpu", "--batches", "2"])
    check(summary["ledger"]["executed"] > 0, f"nothing executed: {summary['ledger']}")


def least_pool():
    """The smallest pool that the port accepts, found by asking for less."""
    with spwlab.scratch() as folder, spwtest.memif_peer(folder, ["--forward-mode=txonly"]) as (sock, _, _):
        with Run(["--port", spwtest.memif_port(sock), "--slots", "64", "--seconds", "1"]) as run:
            run.process.wait(60)
            return int(run.output().split("at least ")[1].split()[0]) if "at least " in run.output() else 64


def test_tiny_pool():
    """Its peer is a new one: DPDK's net_memif may end testpmd with SIGSEGV when a client leaves while it sends."""
    least = least_pool()
    summary = under_load(["--slots", str(least), "--executor", "cpu", "--handler", os.environ["SPW_SLOW_HANDLER"]])
    equal(summary["pool"]["slots"], least, "slots")
    check(summary["ledger"]["executed"] > 0, f"nothing executed: {summary['ledger']}")


def test_echo_into_full_ring():
    """The peer sends and never reads: its ring fills, echoes are dropped as tx_full and nothing stops."""
    summary = under_load(["--executor", "inline", "--handler", "echo"])
    check(summary["ledger"]["dropped"]["tx_full"] > 0, f"nothing dropped: {summary['ledger']}")
    check(summary["ledger"]["executed"] > summary["ledger"]["echoed"], f"{summary['ledger']}")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
