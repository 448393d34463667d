# SPDX-License-Identifier: BSD-3-Clause
"""Tests that go on in a namespace of their own: what they make there ends with them. For tests of the kit (spwtest) and
of the software ConnectX (peers) alike."""
import os
import subprocess
import sys

_ENTERED = "SPW_ENTERED"  # by which options; a program that is started inside may enter others


def enter(skip, *options):
    """Begins this program again under `unshare` with those options, and returns there. skip(why) where the machine does
    not let it."""
    words = ["unshare", *options]
    if os.environ.get(_ENTERED) == " ".join(options):
        return
    probe = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        skip(f"no namespaces here: {' '.join(words)}: {probe.stderr.strip()}")
    os.environ[_ENTERED] = " ".join(options)
    os.execvp(words[0], [*words, sys.executable, *sys.argv])
