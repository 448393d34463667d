#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The README's first commands in a fresh clone: tools/run and with-softhca, in both orders, twice, and between the
rounds what tools/test leaves, a newer library with sanitizers; tools/profile before tools/run. What is judged is the
last commit."""
import contextlib
import os
import subprocess

import spwtest
from spwtest import Skip, check, equal, need, spwlab

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
SOFTHCA = (["tools/with-softhca", "ibv_devinfo"], "PORT_ACTIVE")
RUN = (["tools/run", "--seconds", "2"], ", residual 0\n")
PROFILE = (["tools/profile", "--seconds", "0.5", "--steps", "2"], "\nmlx5 ports of spinwire's own on software ConnectX")
SANITIZED = ["-Dsofthca_only=true", "-Db_sanitize=address,undefined", "-Db_lundef=false", "--buildtype=debugoptimized"]


def command(folder, cmd, limit=1500):
    """Its output. Nothing of a test's surroundings names programs or libraries."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("SPINWIRE", "SPW_", "LD_PRELOAD"))}
    env |= {"CCACHE_BASEDIR": folder, "CCACHE_NOHASHDIR": "1"}
    done = subprocess.run(cmd, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True,
                          timeout=limit, check=False)
    equal(done.returncode, 0, f"exit status of {' '.join(cmd)}\n{done.stdout[-6000:]}\n")
    return done.stdout


def run_all(folder, steps):
    for cmd, says in steps:
        out = command(folder, cmd)
        check(says in f"\n{out}", f"no {says!r} from {' '.join(cmd)}:\n{out}")


@contextlib.contextmanager
def fresh_clone():
    need("git", "meson", "ninja", "ibv_devinfo")
    if subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, check=False).returncode:
        raise Skip("this tree is no git repository")
    with spwlab.scratch() as top:
        folder = os.path.join(top, "spinwire")
        command(top, ["git", "clone", "-q", ROOT, folder])
        yield folder


def one_order(*steps):
    with fresh_clone() as folder:
        run_all(folder, steps)
        command(folder, ["meson", "setup", *SANITIZED, "build-asan"])
        command(folder, ["ninja", "-C", "build-asan"])
        run_all(folder, steps)


def test_run_first():
    one_order(RUN, SOFTHCA)


def test_softhca_first():
    one_order(SOFTHCA, RUN)


def test_profile_first():
    with fresh_clone() as folder:
        run_all(folder, (PROFILE, RUN))


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
