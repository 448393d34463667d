#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""examples/forward between spinwire-gen and itself: every frame comes back, once and whole, every slot to its pool."""
import os
import signal

import spwtest
import gen_test
from spwtest import check, equal, spwlab

FORWARD = os.path.join(os.environ["SPW_BUILD"], "examples", "forward")


def forward(path, folder):
    place, prefix, log = spwlab.Cores(), spwlab.prefix("forward"), os.path.join(folder, "forward.out")
    command = [*path.sink_wrap, FORWARD, *spwlab.eal(f"0@{place.receive}", prefix), "--", "--port", path.sink_port]
    with open(log, "wb") as out:
        process = spwlab.spawn(command, stdout=out, stderr=out)

    def end():
        process.send_signal(signal.SIGINT)
        process.wait(30)
    try:
        spwlab.wait_for(lambda: process.poll() is not None or "forward: running" in spwlab.read(log), 60,
                        "forward's port")
        source = ["--port", path.source_port, *path.source_args, "--rate", "5kpps", "--seconds", "1"]
        gen, text = gen_test.generate(source, folder, then=end, under=path.source_wrap)
    finally:
        spwlab.stop(process)
        spwlab.forget_prefix(prefix)
    equal(process.returncode, 0, f"{' '.join(command)}\n{spwlab.read(log)}")
    check(gen["sent"] > 1000, text)
    equal(gen["echoed"], gen["sent"], text)
    equal([gen[key] for key in ("lost", "duplicated", "corrupted", "foreign")], [0, 0, 0, 0], text)


def test_memif():
    with spwlab.scratch() as folder:
        forward(spwlab.memif_path(folder), folder)


def test_softhca():
    """By mlx5 direct verbs, on a software ConnectX."""
    spwtest.need_card()
    with spwlab.scratch() as folder:
        forward(spwlab.softhca_path(spwlab.Cores(nics=True), folder), folder)


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
