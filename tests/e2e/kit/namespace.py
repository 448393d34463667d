# SPDX-License-Identifier: BSD-3-Clause
"""Tests that go on in a namespace of their own: what they make there ends with them. For tests of the kit (spwtest) and
of the software ConnectX (peers) alike."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../tools/lib"))
import spwlab  # noqa: E402  (found by the line above)

_ENTERED = "SPW_ENTERED"  # by which options; a program that is started inside may enter others


def enter(skip, *options, user=False, needs=("true",)):
    """Begins this program again under `unshare` with those options, and returns there. user: one who is not root
    becomes root of his own. skip(why) where the machine does not let it, or fails at `needs` in it: a command, which
    may begin with more options."""
    if os.environ.get(_ENTERED) == " ".join(options):
        return
    words = ["unshare", *options, *(["--map-root-user"] if user and os.getuid() else [])]
    probe = subprocess.run([*words, *needs], capture_output=True, text=True, check=False)
    if probe.returncode:
        skip(f"no namespaces here: {' '.join(words)}: {probe.stderr.strip()}")
    os.environ[_ENTERED] = " ".join(options)
    os.execvp(words[0], [*words, sys.executable, *sys.argv])


def wait_for_carrier(dev, under=()):
    """Until both ends of its veth pair are seen to be up: the kernel may take a second for it, and more where links
    come and go at the same time. `under` are the words before a command in its namespace."""
    words = [*under, "ip", "link", "show", dev]
    spwlab.wait_for(lambda: "state UP" in subprocess.run(words, capture_output=True, text=True, check=True).stdout, 10,
                    f"the carrier of {dev}")
