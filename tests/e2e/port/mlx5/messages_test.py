#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spinwire-gen and spinwire on RDMA messages: reliable connections by verbs and by mlx5's own queues, send and
write."""
import os
import signal

import app
from app import Cable, Source, check, equal, peers, spwtest
from spwtest import balanced
from spwreport import sweep, where

OPTIONS = ("--rate", "20kpps", "--seconds", "1s", "--flows", "5", "--schedule", "poisson", "--size", "64-1500",
           "--link-wait", "30s")


def messages(driver, op, handler, queues=1, options=()):
    """Every message is received whole; (source's summary, spinwire's summary)."""
    cable, port = Cable(), peers.free_port()
    spec = f"{driver}:mlx5_0,mode=rc,op={op}"
    with app.spinwire(cable, "--handler", handler, queues=queues,
                      port=f"{spec},listen=127.0.0.1:{port},peers=127.0.0.0/8,peer_max=4") as run:
        run.wait_ready()
        gen = Source(cable, *OPTIONS, *options, port=f"{spec},connect=127.0.0.1:{port}").finish()
        run.signal(signal.SIGINT)
        summary = run.finish()
    balanced(summary)
    check(gen["sent"] > 0, "nothing was sent")
    equal(summary["ledger"]["received"], gen["sent"], "messages that spinwire received")
    equal([gen[name] for name in ("duplicated", "reordered", "corrupted", "foreign", "old_run")], [0] * 5,
          "strange messages")
    return gen, summary


def echoed(driver, op):
    gen, summary = messages(driver, op, "echo")
    equal(summary["ledger"]["echoed"], gen["echoed"], "echoes")
    equal(gen["lost"], summary["ledger"]["received"] - summary["ledger"]["echoed"],
          "lost: those that spinwire could not send")
    named = [row["ident"] for row in summary["worst"] if row["ident"]]
    check(all(0 <= ident["flow"] < 5 for ident in named), f"spinwire names {named}")


def test_verbs_send():
    echoed("verbs", "send")


def test_verbs_write():
    echoed("verbs", "write")


def test_mlx5_send():
    echoed("mlx5", "send")


def test_mlx5_write():
    echoed("mlx5", "write")


def joined(op, nics=True):
    """Each message that came back after more than 1 us is on the trails of both programs and both NICs; cards (nics:
    False) have no trail. Returns the places at which they spent time."""
    cable, port = Cable(), peers.free_port()
    spec = f"mlx5:mlx5_0,mode=rc,op={op}"
    trails = [cable.socket(name) for name in sweep.trail_files(nics)]
    of_source, of_spinwire, *of_nics = (sweep.trail_args(path, 1) for path in trails)
    of_source_nic, of_nic = of_nics or ((), ())
    with app.spinwire(cable, "--handler", "echo", *of_spinwire, nic=of_nic,
                      port=f"{spec},listen=127.0.0.1:{port},peers=127.0.0.0/8") as run:
        run.wait_ready()
        gen = Source(cable, "--rate", "1kpps", "--seconds", "500ms", "--slow-threshold", "1us", "--link-wait", "30s",
                     *of_source,
                     port=f"{spec},connect=127.0.0.1:{port}", nic=of_source_nic).finish()
        run.signal(signal.SIGINT)
        run.finish()
    got = where.of_trails(trails, gen)
    slow = sum(row["frames"] for row in gen["causes"]["by"] if row["cause"] not in ("lost", "unsent"))
    check(slow > 0, f"no message came back: {gen}")
    equal((got["frames"], got["joined"]), (slow, slow),
          "messages above 1 us on the source's trail, and with every stamp")
    return {row["place"] for row in got["by"]}


def test_joined_send():
    joined("send")


def test_joined_write():
    joined("write")


def test_joined_card():
    """Cards in place of NICs with a trail: free-running stamps divide what is before the polls of both programs,
    translated; those of a real-time clock do not."""
    for card, stamped in (("dgx-spark", True), ("real-time", False)):
        os.environ["SPW_TEST_CARD"] = card
        places = joined("send", nics=False)
        equal(["wire_out" in places, "wire_back" in places], [stamped] * 2,
              f"{card}: places that end at a NIC's stamp, of {sorted(places)}")
        check("nic_polled" in places and ("peer_polled" if stamped else "echo") in places, f"{card}: {sorted(places)}")


def test_crc32c():
    """The whole message is what the trailer is of."""
    _, summary = messages("verbs", "send", "crc32c", options=("--echo", "no"))
    equal(summary["ledger"]["consumed"], summary["ledger"]["received"], "right trailers")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
