#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""test_app.py ECHO_OP_SERVER_CLIENT: spinwire echoes messages of mode=rc that spinwire-gen makes; the drivers of both are free."""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mlx5"))
from app import Cable, Source, peers, spinwire, spwtest  # noqa: E402  (found by the line above)
from spwtest import balanced, check, equal, one_line  # noqa: E402


def echo(op, server, client, queues=1, *keys):
    cable, tcp = Cable(), peers.free_port()
    port = ",".join([f"{server}:mlx5_0,mode=rc,op={op},listen=127.0.0.1:{tcp},peers=127.0.0.1,peer_max={queues}", *keys])
    with spinwire(cable, "--handler", "echo", "--seconds", "100", queues=queues, port=port) as run:
        run.wait_ready()
        gen = Source(cable, "--rate", "5kpps", "--seconds", "1s", "--flows", "16", "--size", "imix",
                     port=f"{client}:mlx5_0,mode=rc,op={op},connect=127.0.0.1:{tcp}").finish()
        run.signal(signal.SIGINT)
        summary = run.finish()
    balanced(summary)
    check(gen["sent"] > 0, "nothing was sent")
    equal(summary["ledger"]["wire"], gen["sent"], f"messages that reached the port; {run.output()[-3000:]}; {gen}")
    equal(gen["echoed"], gen["sent"], "a reliable connection loses nothing")
    equal([gen[name] for name in ("duplicated", "reordered", "corrupted", "foreign", "old_run")], [0] * 5, "strange messages")
    equal(summary["ports"][0]["driver"], server, "driver")


def test_send_verbs_verbs():
    echo("send", "verbs", "verbs")


def test_write_verbs_verbs():
    echo("write", "verbs", "verbs")


def test_send_mlx5_verbs():
    echo("send", "mlx5", "verbs")


def test_write_mlx5_verbs():
    echo("write", "mlx5", "verbs")


def test_send_verbs_mlx5():
    echo("send", "verbs", "mlx5")


def test_write_verbs_mlx5():
    echo("write", "verbs", "mlx5")


def test_send_shared_queue():
    echo("send", "verbs", "verbs", 1, "srq=1")


def test_two_queues():
    echo("write", "verbs", "verbs", 2)


def refuse(keys, says):
    with spinwire(Cable(), "--handler", "null", "--seconds", "1", port="verbs:" + keys) as run:
        run.finish(2)
        one_line(run, says)


def test_bad_input():
    refuse("mlx5_9,mode=rc,listen=127.0.0.1:1,peers=127.0.0.1", "mlx5_9")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
