#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""SIGINT is heeded from a program's first moment, also where a background shell has it ignored; and a process that does
not heed it shows why."""
import os
import re
import shutil
import signal
import subprocess
import sys

import documents
import quiet
import spwtest
import stacks
from spwtest import check, equal, spwlab

GEN = os.environ["SPINWIRE_GEN"]
BIT = 1 << signal.SIGINT - 1
SPUN_NS = 2e8


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
        equal(process.wait(60), 130, "status")
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(spwlab.runtime_folder(prefix), ignore_errors=True)


def interrupted(program, *arguments):
    """Ctrl-C before the end, on a terminal and without: 130, how far it was, and no report; the summary in a file is
    there."""
    prefix, place = spwlab.prefix("signal"), spwlab.Cores()
    name = os.path.basename(program)
    with spwlab.scratch() as folder:
        path = os.path.join(folder, "summary.json")
        cmd = [program, *spwlab.eal(f"0@{place.main},1@{place.receive}", prefix), "--", "--port", "null:rate=1000",
               "--seconds", "100", "--json", path, *arguments]
        status, text = spwtest.Terminal(cmd).interrupt(r"\x1b\[K\w+: [1-9]\.\d s of 100", "a line of progress", 60)
        equal(status, 130, text)
        check(re.search(rf"\x1b\[K{name}: interrupted after [\d.]+ s of 100\r\n", text), text)
        check("\nframes " not in text and "\nsource " not in text, f"a report:\n{text}")
        check(documents.load(path)["seconds"] < 100, "the summary")
        plain = spwlab.spawn(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        loop = quiet.End(plain, None)
        spwlab.wait_for(lambda: sum(loop.lcores_ns().values()) > SPUN_NS, 60, "an lcore that spins")
        plain.send_signal(signal.SIGINT)
        out, err = plain.communicate(timeout=60)
        equal((plain.returncode, out.strip()), (130, ""), err)
        last = err.splitlines()[-1]
        check(re.search(rf"^{name}: interrupted after [\d.]+ s", last) and "\x1b" not in err, err)
    spwlab.forget_prefix(prefix)


def test_interrupted():
    interrupted(spwtest.SPINWIRE, "--executor", "inline")


def test_interrupted_gen():
    interrupted(GEN, "--rate", "1kpps", "--echo", "no")


def test_endless():
    """Without an end of its own Ctrl-C is how a run ends: with its report, and good."""
    with spwtest.Run(["--port", "null:rate=1000", "--executor", "inline"]) as run:
        run.wait_ready()
        run.signal(signal.SIGINT)
        run.finish()
        check("\nframes " in run.output() and "interrupted" not in run.output(), run.output())


def test_twice():
    """A second signal: it says that it did not wait, and blames neither handler nor port."""
    with spwtest.Run(["--port", "null:size=64,rate=100k", "--executor", "inline", "--handler",
                      os.environ["SPW_SLOW_HANDLER"]]) as run:
        run.wait_ready()
        # Both are there when it runs on: it may end soon after the first.
        for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
            run.signal(number)
        status, text = run.process.wait(60), run.output()
        spwlab.forget_prefix(run.prefix)
    check(status in (130, 143), f"status {status}\n{text}")
    check("warning: a second signal: " in text and "spinwire: interrupted after " in text, text)
    check("does not end" not in text and "\nframes " not in text, text)


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
        spwlab.wait_for(lambda: signals(process.pid, "ShdPnd") & signals(process.pid, "SigBlk") & BIT, 20,
                        "SIGINT to be pending")
        spwlab.wait_for(lambda: stacks.status(f"/proc/{process.pid}/status").get("State", "").startswith("S"), 20,
                        "the process to sleep")
        text = stacks.threads(process.pid)
        process.kill()
    check("state S" in text and f"ShdPnd {BIT:016x}" in text, text)
    equal(len(text.splitlines()), 1, "threads")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
