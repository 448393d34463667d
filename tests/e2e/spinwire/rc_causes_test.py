#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Slow messages over RC get the cause that this test gave them, counted from the NIC's stamp of each. Two software
ConnectXs."""
import os
import signal
import sys

import spwtest
from spwtest import Skip, balanced, check, equal, spwlab

if spwtest.SANITIZED or not spwlab.has_mlx5():
    print("needs spinwire's mlx5 port and a software ConnectX in front of a program without sanitizers")
    sys.exit(spwtest.SKIP)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "port", "mlx5"))
import app  # noqa: E402  (found by the line above)
from causes_test import by_cause, competitor  # noqa: E402


def messages(op, handler, source, *options):
    """spinwire's summary of a run that spinwire-gen feeds."""
    cable, port = app.Cable(), app.peers.free_port()
    spec = f"mlx5:mlx5_0,mode=rc,op={op}"
    with app.spinwire(cable, "--handler", handler, *options,
                      port=f"{spec},listen=127.0.0.1:{port},peers=127.0.0.1,peer_max=1") as run:
        run.wait_ready()
        gen = app.Source(cable, "--link-wait", "60s", "--size", "64-1500", "--echo", "no", *source,
                         port=f"{spec},connect=127.0.0.1:{port}").finish()
        run.signal(signal.SIGINT)
        summary = run.finish()
    balanced(summary)
    equal(summary["ledger"]["received"], gen["sent"], "messages")
    check(gen["sent"] > 1000, f"{gen['sent']} messages")
    rows = {row["stage"]: row for row in summary["latency"]}
    check("nic_sent" in rows, f"no stage begins at the NIC: {list(rows)}")
    equal(rows["nic_sent"]["count"], summary["ledger"]["executed"], "messages with a NIC stamp")
    if rows["nic_polled"]["uncertainty_ns"] > 200000:
        raise Skip(f"too busy a machine: the NIC's clock is known to {rows['nic_polled']['uncertainty_ns']} ns")
    return summary


def slow_handler(op):
    """Bursts come faster than the handler takes them: the first batch of each gets handler_slow, those that wait
    batch_ahead."""
    summary = messages(op, os.environ["SPW_SLOW_HANDLER"], ["--rate", "20kpps", "--schedule", "burst:200", "--seconds",
                                                             "1s"], "--slow-threshold", "500us")
    by, above = by_cause(summary), summary["causes"]["frames_above"]
    own = by.get("poll_gap", 0)  # what the machine took from the lcore meanwhile
    if own > above / 2:
        raise Skip(f"too busy a machine: {own} of {above} slow messages waited for the core")
    check(by.get("handler_slow", 0) > 0 and by.get("batch_ahead", 0) > 100, f"{by}")
    check(by["handler_slow"] + by["batch_ahead"] >= 0.9 * (above - own), f"{by}")


def test_slow_handler_send():
    slow_handler("send")


def test_slow_handler_write():
    slow_handler("write")


def test_competitor():
    """Another program on the lcore's own core."""
    rival = competitor(spwlab.Cores().receive)
    try:
        summary = messages("send", "null", ["--rate", "20kpps", "--seconds", "2s"], "--slow-threshold", "2ms")
    finally:
        spwlab.stop(rival)
    by, above = by_cause(summary), summary["causes"]["frames_above"]
    if above < 100:
        raise Skip(f"the competitor hardly got the core: {above} slow messages")
    check(by.get("poll_gap", 0) >= 0.9 * above, f"{by}")
    check(summary["worst"][0]["blame_ns"]["poll_gap"] > 0.5 * summary["worst"][0]["whole_ns"], f"{summary['worst'][0]}")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
