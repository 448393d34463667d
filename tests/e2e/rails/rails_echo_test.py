#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rails: faults of what one rail sends back, while what it receives is whole. spinwire, its software ConnectX and the
source count the echoes on their way, and the three agree to the frame."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rails_test import (  # noqa: E402  (found by the line above)
    ENDLESS, FRAME, STREAM, Both, Source, carried, cut, fell, judge_cuts, mend, more, spwtest)
from spwtest import check, equal  # noqa: E402

FLAPS = 5
LOAD = ("--rate", "4kpps", "--seconds", "1s", "--size", "68-256")


def echoes(own, *gen, **how):
    """Runs it, and follows the echoes from spinwire's ledger to the source's account. Returns: the run, what the second
    rail's NIC did to its echoes, and those that the source's rails dropped."""
    both = Both(2, own, *gen, **how)
    ledger, nic = both.summary["ledger"], both.nics[1]
    equal(ledger["wire"] + fell(both.source_nics, "tx_down") + fell(both.nics, "rx_down"), both.gen["sent"],
          "frames that reached spinwire")
    equal(both.port["tx"]["frames"], ledger["echoed"], "echoes that the rails sent")
    equal(sum(rail["tx"] for rail in both.nics) + fell(both.nics, "tx_down"), ledger["echoed"],
          "echoes that the NICs sent")
    rails = both.gen["ports"][0]["rails"]
    equal(sum(rail["wire"] for rail in rails), ledger["echoed"] - fell(both.nics, "tx_down")
          - fell(both.source_nics, "rx_down")
          - nic["lost"] + nic["dup"], f"echoes that reached the source, with {nic}")
    equal(sum(rail["wire"] - rail["missed"] - rail["rx"]["frames"] for rail in rails), 0,
          "echoes that its rails polled")
    dropped = {name: sum(rail[name] for rail in rails) for name in ("late", "duplicate", "rx_flushed")}
    equal(both.gen["echoed"], sum(rail["rx"]["frames"] for rail in rails) - sum(dropped.values()),
          f"echoes that the source took, with {dropped}")
    equal(both.gen["duplicated"], 0, "echoes taken twice")
    equal([rail["residual"] for rail in rails], [0, 0], "residuals of the source's rails")
    return both, nic, dropped


def at_once(fault):
    return lambda cables: cables.rail("spinwire", 1, f"fault {fault}")


def test_loss():
    """What one rail loses of the echoes is lost to the source, frame by frame; all of it was received and executed."""
    both, nic, _ = echoes(FRAME, *LOAD, faults=at_once("loss=0.05"))
    carried(both.port)
    check(nic["lost"] > 0, f"the NIC lost nothing: {nic}")
    check(both.gen["lost"] >= nic["lost"], f"the source misses {both.gen['lost']}, the NIC lost {nic['lost']}")


def test_delay():
    """Echoes of one rail come 3 ms late: the source's rails wait for them, in the order of the stream."""
    both, nic, _ = echoes(STREAM, *LOAD, "--stream", "yes", faults=at_once("delay=1:3ms"))
    carried(both.port)
    check(nic["delayed"] > 0, f"the NIC delayed nothing: {nic}")


def test_reorder_and_duplicates():
    """Echoes that come twice are dropped once, and those that overtake each other are put back."""
    _, nic, dropped = echoes(FRAME, *LOAD, faults=at_once("reorder=0.1,dup=0.1"))
    check(nic["dup"] > 0 and nic["reordered"] > 0, f"the NIC doubled or reordered nothing: {nic}")
    check(dropped["duplicate"] <= nic["dup"] <= dropped["duplicate"] + dropped["late"] + dropped["rx_flushed"],
          f"{dropped} with {nic}")


def test_flap():
    """The cable of one rail goes down and comes back, five times, by either end: each is one outage at both, the other
    rail carries all meanwhile, and what the NICs had taken before the programs knew is lost, no more."""
    def meanwhile(cables, run):
        for flap in range(FLAPS):
            end = ("spinwire", f"gen{Source.serial}")[flap % 2]
            more(run, 1, "tx_frames")
            cut(cables, run, end)
            mend(cables, run, end)
    both, _, _ = echoes(FRAME, *ENDLESS, endless=True, meanwhile=meanwhile)
    judge_cuts(both, FLAPS)
    rails = both.port["rails"]
    equal([rail["moved"] for rail in rails], [both.port["errors"]["rail_moved"], 0], "echoes that moved")
    refused = both.summary["ledger"]["received"] - both.summary["ledger"]["echoed"]
    came_from_it = rails[0]["tx"]["frames"] - rails[0]["moved"]
    check(rails[0]["rx"]["frames"] - refused <= came_from_it <= rails[0]["rx"]["frames"], f"echoes that moved: {rails}")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
