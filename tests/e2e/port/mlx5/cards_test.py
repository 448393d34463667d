#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What spinwire's user reads about a card that cannot do what was asked: one line that names the reason, and either
frames flow without it or spinwire ends."""
import os
import re
import sys

from app import Cable, equal, peers, spinwire
from spwtest import one_line

ETH, VERBS = "mlx5:mlx5_0,mode=eth", "verbs:mlx5_0,mode=eth"
NO_STAMPS = r"port mlx5_0, queue 0: the device has no free-running timestamps: frames go without stamps"
CYCLIC = r"port mlx5_0, queue 0: a cyclic receive ring of \d+ for profile throughput: "
# card, port, profile, queues, further arguments, the line
GOES_WITHOUT = [
    ("real-time", ETH, "latency", 1, [], NO_STAMPS),
    ("real-time", "mlx5:mlx5_0,mode=rc,listen=127.0.0.1:{tcp},peers=127.0.0.0/8,peer_max=1", "latency", 1, [],
     NO_STAMPS),
    ("poor", ETH, "throughput", 1, [], CYCLIC + "the device has no striding receive queues"),
    ("cx5", ETH, "throughput", 1, ["--slots", "1024"], CYCLIC + "striding needs at least 2048 slots, not 1024"),
    ("cx4lx", ETH, "throughput", 1, ["--slots", "1024"], CYCLIC + "striding needs at least 2048 slots, not 1024"),
]
REFUSED = [
    ("poor", ETH, 4, "4 queues were asked for, and mlx5_0 spreads over 2 at most"),
    ("poor", VERBS, 4, "spreads over 2 at most"),
]


def goes_without(card, port, profile, queues, more, line):
    os.environ["SPW_TEST_CARD"] = card
    cable = Cable()
    with spinwire(cable, "--seconds", "0.2", *more, queues=queues, profile=profile,
                  port=port.format(tcp=peers.free_port())) as run:
        run.finish(seconds=1)
        equal(len(re.findall(line, run.output())), 1, f"{card}: {line}\n{run.output()}")


def refused(card, port, queues, line):
    os.environ["SPW_TEST_CARD"] = card
    cable = Cable()
    with spinwire(cable, "--seconds", "1", queues=queues, port=port) as run:
        run.finish(1)
        one_line(run, line)


def main():
    for row in GOES_WITHOUT:
        goes_without(*row)
    for row in REFUSED:
        refused(*row)


if __name__ == "__main__":
    sys.exit(main())
