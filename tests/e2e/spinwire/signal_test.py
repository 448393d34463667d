#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""SIGINT is heeded from a program's first moment, also where a background shell has it ignored; and a process that does
not heed it shows why."""
import os
import shutil
import signal
import subprocess
import sys
import time

import spwtest
import stacks
from spwtest import check, equal, spwlab

GEN = os.environ["SPINWIRE_GEN"]
BIT = 1 << signal.SIGINT - 1


def signals(pid, field):
    return int(stacks.status(f"/proc/{pid}/status").get(field, "0"), 16)


def early(program, *arguments):
    """Started with SIGINT ignored, stopped as soon as EAL has begun; a signal that is lost leaves it running for 200
    s."""
    prefix, place = spwlab.prefix("signal"), spwlab.Cores()
    cmd = [program, *spwlab.eal(f"0@{place.main},1@{place.receive}", prefix), "--", "--port", "null:", "--seconds",
           "200", *arguments]
    process = subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, process_group=0,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    try:
        spwlab.wait_for(lambda: process.poll() is not None or os.path.isdir(spwlab.runtime_folder(prefix)), 60,
                        "EAL to begin")
        check(not signals(process.pid, "SigIgn") & BIT, "SIGINT is ignored")
        process.send_signal(signal.SIGINT)
        check(process.wait(60) in (0, -signal.SIGINT), f"status {process.returncode}")
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(spwlab.runtime_folder(prefix), ignore_errors=True)


def test_early():
    early(spwtest.SPINWIRE)


def test_early_gen():
    early(GEN, "--rate", "1kpps")


def test_stacks():
    """A process that blocks SIGINT: the report shows the signal that waits, and the thread's state."""
    code = ("import signal, time; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]); print(flush=True); "
            "time.sleep(60)")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        text = stacks.threads(process.pid)
        waits = signals(process.pid, "ShdPnd") & signals(process.pid, "SigBlk") & BIT
        process.kill()
    check(waits, f"no SIGINT waits in:\n{text}")
    check("state S" in text and f"ShdPnd {BIT:016x}" in text, text)
    equal(len(text.splitlines()), 1, "threads")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
