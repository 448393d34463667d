# SPDX-License-Identifier: BSD-3-Clause
"""Runs the tests that meson lists: side by side where they may, alone where they measure, and reports progress while it
does.

  parallel   is_parallel in meson: needs about one core             as many at once as there are cores
  waits      suite "waits": mostly waits, spins where it can        as slots; where there are none, WAITING at once
  slots      suite "slot": spins, but measures nothing              each on SLOT_CORES cores of its own, if there are
  two such slots
  alone      everything else: measures time, or takes every core    one at a time, and nothing beside it

What fails beside another is run once more at the end, alone: tests share cores to save time, and none is about the test
beside it. Both outputs are printed, and the last lines name it even if it passed then: a defect of the test, or of what
it tests, to be looked into.
"""
import collections
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import spwlife

SLOT_CORES = 4   # two lcores and two NIC threads
WAITING = 2
POLL_S = 0.02
LOG_BYTES = 6000
AGAIN = 8         # more failures than that are no accident: none is run again
SKIP, TIMEOUT = 77, "TIMEOUT"

Test = collections.namedtuple("Test", "name folder command env suites parallel limit_s cwd depends")
# again: whether this is its second run, the one alone
Result = collections.namedtuple("Result", "name folder result seconds cpu_s again", defaults=[False])


def _folder(command, root, build):
    """Where a test's own file lies: tests/unit/base, tests/e2e/gen, tools/check. A program of ours comes before a
    script that starts it."""
    paths = [os.path.join(build, word) for word in command if "/" in word]  # programs of the build are relative to it
    files = [os.path.realpath(path) for path in paths if not os.path.isdir(path)]
    for top in (build, root):
        for path in (os.path.relpath(file, top) for file in files):
            if path.startswith(("tests/", "tools/")):
                return os.path.dirname(path)
    return "others"


def listed(build):
    """Every test of a build folder, in the order of the meson files."""
    out = subprocess.run(["meson", "introspect", "--tests", build], capture_output=True, text=True, check=True).stdout
    root = os.path.dirname(os.path.realpath(build))
    return [Test(row["name"], _folder(row["cmd"], root, os.path.realpath(build)), row["cmd"], row["env"],
                 frozenset(suite.rpartition(":")[2] for suite in row["suite"]), row["is_parallel"], row["timeout"],
                 row["workdir"] or build, row["depends"])
            for row in json.loads(out)]


def needed(build, tests):
    """The files, as ninja names them, that these tests depend on."""
    out = subprocess.run(["meson", "introspect", "--targets", build], capture_output=True, text=True,
                         check=True).stdout
    files = {row["id"]: row["filename"] for row in json.loads(out)}
    top = os.path.realpath(build)
    return sorted({os.path.relpath(file, top) for test in tests for one in test.depends for file in files[one]})


def _ready(cores):
    """Of a test's process before it starts: a shell that runs us in the background has SIGINT ignored, and tests send
    it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if cores:
        os.sched_setaffinity(0, cores)


class Running:
    """A test that was started, in a session of its own so that all of it can be ended."""

    def __init__(self, test, env, cores):
        self.test, self.cores, self.log = test, cores, tempfile.TemporaryFile()
        self.begin = time.monotonic()
        self.status, self.cpu_s = None, 0.0
        self.process = subprocess.Popen(test.command, cwd=test.cwd,
                                        env={**env, "MALLOC_PERTURB_": str(random.randint(1, 255)), **test.env},
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
                                        start_new_session=True, preexec_fn=lambda: _ready(cores))

    def seconds(self):
        return time.monotonic() - self.begin

    def _reap(self, flags):
        pid, status, usage = os.wait4(self.process.pid, flags)
        if pid:
            self.status = self.process.returncode = os.waitstatus_to_exitcode(status)
            self.cpu_s = usage.ru_utime + usage.ru_stime
        return pid

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        if self.status is None:
            self._reap(0)

    def result(self):
        """None while it runs."""
        if not self._reap(os.WNOHANG):
            if not self.test.limit_s or self.seconds() < self.test.limit_s:
                return None
            self.end()
            return self._row(TIMEOUT)
        return self._row({0: "OK", SKIP: "SKIP"}.get(self.status, "FAIL"))

    def _row(self, word):
        return Result(self.test.name, self.test.folder, word, self.seconds(), self.cpu_s)

    def output(self):
        """The end of what it wrote."""
        size = self.log.seek(0, os.SEEK_END)
        self.log.seek(max(0, size - LOG_BYTES))
        return self.log.read().decode(errors="replace")


class Progress:
    """How far, and about how long it will take; what failed is printed at once."""

    def __init__(self, tests, known, out=None):
        self.out = out or sys.stdout
        self.left = {test.name: known.get(test.name) for test in tests}
        self.all, self.failed, self.begin = len(tests), 0, time.monotonic()
        self.spent = 0.0  # seconds of the tests that are done
        self.line = spwlife.Line(out, first_s=0)

    def _remaining_s(self):
        """By what the tests took last time, those unknown by the mean of what is done; scaled by how this run goes."""
        done = self.all - len(self.left)
        elapsed = time.monotonic() - self.begin
        if not done or not self.spent:
            return None
        mean = self.spent / done
        return sum(mean if s is None else s for s in self.left.values()) * elapsed / self.spent

    def text(self, running):
        left = self._remaining_s()
        about = f", about {spwlife.clock(left)} left" if left is not None else ""
        failed = f", {self.failed} failed" if self.failed else ""
        names = " ".join(sorted(one.test.name for one in running))
        took = spwlife.clock(time.monotonic() - self.begin)
        return f"[{self.all - len(self.left)}/{self.all}] {took}{about}{failed}: {names}"

    def done(self, row, output):
        self.left.pop(row.name, None)
        self.spent += row.seconds
        if row.result not in ("OK", "SKIP"):
            self.failed += 1
            self.line.clear()
            self.out.write(f"== {row.name}: {row.result} after {row.seconds:.1f} s\n{output}\n")
            self.out.flush()


def phases(tests, jobs, cores):
    """[(tests, how many at once, the cores of each of them or None)]; the longest-running kinds of a phase keep meson's
    order."""
    slots = [frozenset(cores[i:i + SLOT_CORES]) for i in range(0, len(cores) - SLOT_CORES + 1, SLOT_CORES)]
    if len(slots) < 2 or jobs < 2:
        slots = []
    side = [test for test in tests if test.parallel]
    wait = [test for test in tests if not test.parallel and "waits" in test.suites]
    spin = [test for test in tests if not test.parallel and test not in wait and slots and "slot" in test.suites]
    alone = [test for test in tests if not test.parallel and test not in wait + spin]
    if slots:
        return [(side, jobs, None), (wait + spin, len(slots), slots), (alone, 1, None)]
    return [(side, jobs, None), (wait, min(jobs, WAITING), None), (alone, 1, None)]


def _phase(tests, at_once, slots, env, progress):
    waiting, running, free = collections.deque(tests), [], list(slots or ())
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(Running(waiting.popleft(), env, free.pop() if slots else None))
            progress.line.show(lambda: progress.text(running))
            time.sleep(POLL_S)
            for one in list(running):
                row = one.result()
                if row is None:
                    continue
                running.remove(one)
                if slots:
                    free.append(one.cores)
                progress.done(row, one.output())
                one.log.close()
                yield row
    finally:
        for one in running:
            one.end()


def run(tests, jobs, env, known=None, out=None):
    """[Result] of all tests; known: {name: seconds} of an earlier run, for the estimate."""
    progress, rows, beside = Progress(tests, known or {}, out), [], []
    # The longest of those that run side by side first: none is left over at the end.
    tests = sorted(tests, key=lambda test: -(known or {}).get(test.name, 0) if test.parallel
                   or test.suites & {"slot", "waits"} else 0)
    for some, at_once, slots in phases(tests, jobs, sorted(os.sched_getaffinity(0))):
        found = list(_phase(some, at_once, slots, env, progress))
        rows += found
        beside += [row.name for row in found if at_once > 1 and row.result in ("FAIL", TIMEOUT)]
    if 0 < len(beside) <= AGAIN:
        alone = {row.name: row._replace(again=True)
                 for row in _phase([test for test in tests if test.name in beside], 1, None, env, progress)}
        rows = [alone.get(row.name, row) for row in rows]
    progress.line.clear()
    return rows


def report(rows, slowest=20):
    """Lines: the slowest tests, and the time per folder."""
    yield f"the {min(slowest, len(rows))} slowest of {len(rows)} tests (seconds, of them on a core):"
    for row in sorted(rows, key=lambda row: -row.seconds)[:slowest]:
        yield f"  {row.seconds:7.1f} {row.cpu_s:7.1f}  {row.name}"
    total, count = collections.Counter(), collections.Counter()
    for row in rows:
        total[row.folder] += row.seconds
        count[row.folder] += 1
    yield f"time per folder ({sum(total.values()):.0f} s in all):"
    for folder, seconds in total.most_common():
        yield f"  {seconds:7.1f}  {folder} ({count[folder]})"


def share_of(tests, day, parts, limit_s):
    """(the tests of that day's part, those too long for any): the parts take about as long as each other, by the tests'
    limits, and each test is in one of `parts` days that follow each other."""
    fit = sorted((test for test in tests if test.limit_s and test.limit_s <= limit_s),
                 key=lambda test: (-test.limit_s, test.name))
    mine = [test for i, test in enumerate(fit) if i % parts == day % parts]
    return mine, [test for test in tests if test not in fit]
