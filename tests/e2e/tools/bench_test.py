#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spinwire-bench as a program: its exit status, and what it leaves on the machine."""
import glob
import os
import subprocess

import spwtest
from spwtest import check, equal, spwlab

BENCH = os.environ["SPINWIRE_BENCH"]
PLACES = [os.path.join(spwlab.runtime_folder("*")), "/dev/shm/*", "/tmp/dpdk/*"]


def test_stdout_full():
    """A table that did not reach stdout is no good run."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run([BENCH, "--list"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    equal(done.returncode, 2, done.stderr)
    check("to stdout" in done.stderr, done.stderr)


def test_softhca_leaves_nothing():
    """The case with testpmd, whose EAL would make a folder of its own."""
    spwtest.need_root()
    spwtest.need("dpdk-testpmd")
    if spwtest.SANITIZED:
        raise spwtest.Skip("a sanitized library cannot be put before dpdk-testpmd")
    process = subprocess.Popen([BENCH, "softhca", "--with", os.path.join(spwlab.TOOLS, "with-softhca"), "--runs", "1",
                                "--case", "testpmd"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    out = process.communicate(timeout=200)[0]
    equal(process.returncode, 0, out)
    left = [path for place in PLACES for path in glob.glob(place) if str(process.pid) in os.path.basename(path)]
    check(not left, f"not removed: {left}")


def test_beside_verbs():
    """Both ends of one process, on two devices."""
    for name in "kv", "xfer":
        done = subprocess.run([os.path.join(spwlab.TOOLS, "with-softhca"), "--devices", "2", BENCH, name],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=100)
        equal(done.returncode, 0, done.stderr)
        check("by hand" in done.stdout, done.stdout)


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
