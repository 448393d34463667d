#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/test: tools/run is its last step and counts in the closing line; what killed programs leave with EAL is
swept."""
import contextlib
import functools
import importlib.machinery
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

TOOLS = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools"))
sys.path.insert(0, os.path.join(TOOLS, "lib"))
_loader = importlib.machinery.SourceFileLoader("run_tests", os.path.join(TOOLS, "run_tests"))
run_tests = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests", _loader))
_loader.exec_module(run_tests)
import spwtel  # noqa: E402  (found by the lines above)


class LastStep(unittest.TestCase):
    def whole(self, status, argv=(), again=False):
        """(exit status, output, commands) of a run whose every command but the last step succeeds at once."""
        commands = []

        def run(cmd, *_, **__):
            commands.append(cmd)
            return status, "its output"
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            for target, value in (("run", run),
                                  ("one_variant", lambda *_: [run_tests.row("a", "OK", 1)._replace(again=again),
                                                              run_tests.row("b", "SKIP", 1)]),
                                  ("strays", lambda _: [])):
                stack.enter_context(mock.patch.object(run_tests, target, value))
            stack.enter_context(mock.patch.object(spwtel, "runtime_top", lambda: folder))
            stack.enter_context(mock.patch.object(sys, "argv", ["run_tests", *argv]))
            out = stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            return run_tests.main(), out.getvalue(), commands

    def test_it_counts(self):
        status, out, commands = self.whole(0)
        self.assertEqual((status, out.splitlines()[-1]), (0, "4 passed, 0 failed, 3 skipped"))
        self.assertEqual(commands[0][:3], [os.path.join(TOOLS, "run"), "--seconds", "2"])
        self.assertIn("--out", commands[0])  # the user's last report stays

    def test_it_can_fail(self):
        status, out, _ = self.whole(2)
        self.assertEqual((status, out.splitlines()[-1]), (1, "3 passed, 1 failed, 3 skipped"))
        self.assertIn("its output", out)
        self.assertIn("last: tools/run --seconds 2: FAIL", out)

    def test_it_names_what_passed_alone(self):
        status, out, _ = self.whole(0, ["--variant", "plain"], again=True)
        self.assertEqual((status, out.splitlines()[-1]), (0, "1 passed, 0 failed, 1 skipped"))
        self.assertIn("plain: a: passed alone, failed beside another test", out)

    def test_a_part_is_a_part(self):
        _, out, commands = self.whole(0, ["--variant", "plain"])
        self.assertEqual((out.splitlines()[-1], commands), ("1 passed, 0 failed, 1 skipped", []))


class Limit(unittest.TestCase):
    def test_a_grandchild_that_keeps_the_pipe_is_not_waited_for(self):
        """It has a session of its own, so that the kill of the group misses it; it ends when this end of the other pipe
        is closed."""
        other, ours = os.pipe()
        with os.fdopen(other, "rb") as kept, os.fdopen(ours, "wb"):
            script = f"echo words; setsid sh -c 'read nothing <&{kept.fileno()}' & wait"
            keeps = functools.partial(subprocess.Popen, pass_fds=[kept.fileno()])
            with mock.patch.object(run_tests, "END_S", 0.5), mock.patch.object(subprocess, "Popen", keeps):
                self.assertEqual(run_tests.run(["sh", "-c", script], 3), (124, "words\n"))


class Sweep(unittest.TestCase):
    def test_what_the_dead_left_goes(self):
        with tempfile.TemporaryDirectory() as top, mock.patch.object(spwtel, "runtime_top", lambda: top):
            def make(name):
                os.makedirs(os.path.join(top, name, "files"))
            make("spw-before-7")
            before = run_tests.eal_folders()
            for name in ("spw-dead-7", "spinwire-dead-7", "rte", f"spw-alive-{os.getpid()}"):
                make(name)
            alive = subprocess.Popen([sys.executable, "-c", "print(flush=True); input()", f"spw-alive-{os.getpid()}"],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            alive.stdout.readline()  # it has its command line now
            try:
                run_tests.sweep(before)
            finally:
                alive.communicate(b"\n")
            self.assertEqual(sorted(os.listdir(top)), sorted(["rte", f"spw-alive-{os.getpid()}", "spw-before-7"]))


if __name__ == "__main__":
    unittest.main()
