#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every example of config/ is a good configuration, and runs: on this machine, on a software ConnectX, or with the
process that it names at the other end."""
import glob
import os
import signal
import subprocess

import spwtest
from spwtest import Run, balanced, check, equal, spwlab

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "config")
EXAMPLES = {os.path.basename(path): path for path in glob.glob(os.path.join(FOLDER, "*.yaml"))
            + glob.glob(os.path.join(FOLDER, "*.json"))}


def test_every_example_is_good():
    equal(set(EXAMPLES), {"try.yaml", "try.json", "echo.yaml", "memif-sink.yaml"}, "examples that a test runs")
    for path in EXAMPLES.values():
        done = subprocess.run([spwtest.SPINWIRE, "--", "--config", path, "--check"], capture_output=True, text=True,
                              timeout=60, check=False)
        equal((done.returncode, done.stderr), (0, ""), path)


def test_try():
    """The YAML and the JSON one are the same run."""
    runs = []
    for name in ("try.yaml", "try.json"):
        with Run(["--config", EXAMPLES[name], "--seconds", "1"]) as run:
            summary = run.finish(seconds=1)
        balanced(summary)
        check(summary["ledger"]["consumed"] > 1000, f"{name}: {summary['ledger']}")
        runs.append((summary["executor"]["handler"], summary["executor"]["kind"], len(summary["ports"])))
    equal(runs[0], runs[1], "handler, executor and ports of both")


def test_echo():
    spwtest.need_card()
    place = spwlab.Cores()
    tool = [os.path.join(spwlab.TOOLS, "with-softhca"), "--cable", f"shm:{spwlab.prefix('config')}"]
    with Run(["--config", EXAMPLES["echo.yaml"]], under=tool, lcores=f"0@{place.main},1@{place.receive},2@{place.main}"
             ) as run:
        run.wait_ready()
        run.signal(signal.SIGTERM)
        balanced(run.finish())


def test_memif_sink():
    """With its socket in a folder of the test's."""
    with spwlab.scratch() as folder, spwtest.memif_peer(folder, ["--forward-mode=txonly"]) as (sock, _, _):
        text = spwlab.read(EXAMPLES["memif-sink.yaml"])
        check("/tmp/spinwire.sock" in text, text)
        path = os.path.join(folder, "sink.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("/tmp/spinwire.sock", sock))
        with Run(["--config", path, "--seconds", "1"]) as run:
            summary = run.finish(seconds=1)
    balanced(summary)
    check(summary["ledger"]["executed"] > 1000, f"hardly any frames: {summary['ledger']}")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
