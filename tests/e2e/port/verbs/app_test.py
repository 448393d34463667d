#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spinwire on the verbs driver: messages of mode=rc from spinwire-gen, with any driver at either end; frames of
mode=eth."""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mlx5"))
from app import Cable, Source, peers, spinwire, spwlab, spwtest  # noqa: E402  (found by the line above)
from spwtest import balanced, check, equal, one_line  # noqa: E402

MAC = "02:73:70:77:0a:01"


def echo(op, server, client, queues=1, *keys):
    cable, tcp = Cable(), peers.free_port()
    port = ",".join([f"{server}:mlx5_0,mode=rc,op={op},listen=127.0.0.1:{tcp},peers=127.0.0.1,peer_max={queues}",
                     *keys])
    with spinwire(cable, "--handler", "echo", queues=queues, port=port) as run:
        run.wait_ready()
        gen = Source(cable, "--rate", "5kpps", "--seconds", "1s", "--flows", "16", "--size", "imix",
                     port=f"{client}:mlx5_0,mode=rc,op={op},connect=127.0.0.1:{tcp}").finish()
        run.signal(signal.SIGINT)
        summary, text = run.finish(), run.output()
    balanced(summary)
    check(gen["sent"] > 0, "nothing was sent")
    equal(summary["ledger"]["wire"], gen["sent"], f"messages that reached the port\n{text}\n{gen}\n")
    equal(gen["echoed"], gen["sent"], "a reliable connection loses nothing")
    equal([gen[name] for name in ("duplicated", "reordered", "corrupted", "foreign", "old_run")], [0] * 5,
          "strange messages")
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


def refuse(status, keys, says):
    cable = Cable()
    with spinwire(cable, "--handler", "null", "--seconds", "1", port="verbs:" + keys) as run:
        run.finish(status)
        one_line(run, says)


def test_bad_input():
    refuse(2, "mlx5_9,mode=rc,listen=127.0.0.1:1,peers=127.0.0.1", "this machine has mlx5_0")
    refuse(1, "mlx5_0,mode=rc,listen=127.0.0.1:1", "needs peers=")
    refuse(1, "mlx5_0,mode=rc,listen=127.0.0.1:1,peers=127.0.0.1,mtu=99", "mtu=99")


def test_device_goes():
    """mlx5: a completion queue fails, and the device makes no other: an ordered stop, exit status 4, every slot in the
    pool."""
    cable, tcp = Cable(), peers.free_port()
    with spinwire(cable, "--handler", "echo",
                  port=f"mlx5:mlx5_0,mode=rc,listen=127.0.0.1:{tcp},peers=127.0.0.1,peer_max=1") as run:
        run.wait_ready()
        source = Source(cable, "--rate", "5kpps", "--seconds", "300s",
                        port=f"mlx5:mlx5_0,mode=rc,connect=127.0.0.1:{tcp}")
        try:
            spwlab.wait_for(lambda: run.frames() > 1000, 60, "messages")
            cable.control("spinwire", "fault fail=create_cq:EIO")
            cable.control("spinwire", f"cq-overrun={cable.objects('spinwire')['cq'][0]}")
            summary = run.finish(4, seconds=60)
        finally:
            source.kill()
        check("cannot be recovered" in run.output(), run.output())
    balanced(summary)


# ---- raw Ethernet -----------------------------------------------------------------------------------------------

def test_eth_echo():
    """verbs in front of mlx5's frames: every one that was sent arrived and is accounted for."""
    # each spins, and the source wants a core too
    cable, queues = Cable(), 2 if len(os.sched_getaffinity(0)) >= 4 else 1
    with spinwire(cable, "--handler", "echo", queues=queues, port="verbs:mlx5_0,mode=eth") as run:
        run.wait_ready()
        gen = Source(cable, "--rate", "5kpps", "--seconds", "1s", "--flows", "64", "--size", "imix").finish()
        run.signal(signal.SIGINT)
        summary = run.finish()
    balanced(summary)
    check(gen["sent"] > 0, "nothing was sent")
    equal(summary["ledger"]["wire"], gen["sent"], "frames that reached the port")
    check(0 < gen["echoed"] <= summary["ledger"]["echoed"], f"{gen['echoed']} echoes of {summary['ledger']['echoed']}")
    equal([gen[name] for name in ("duplicated", "corrupted", "foreign", "old_run")], [0] * 4, "strange frames")


def test_eth_raw_ethernet():
    """perftest's raw_ethernet_bw sends a known number of frames."""
    peers.need("raw_ethernet_bw")
    cable, frames = Cable(), 10000
    with spinwire(cable, "--handler", "null", port="verbs:mlx5_0") as run:
        run.wait_ready()
        peers.run(cable.wrap() + ["raw_ethernet_bw", "--client", "-F", "-B", "02:73:70:77:0a:02", "-E", MAC, "-s",
                                  "256", "-n",
                                  str(frames)], 90)
        spwlab.wait_for(lambda: (run.telemetry("/spinwire/ledger") or {}).get("wire", 0) >= frames, 60, "frames")
        run.signal(signal.SIGINT)
        summary = run.finish()
    balanced(summary)
    equal(summary["ledger"]["wire"], frames, "frames that reached the port")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
