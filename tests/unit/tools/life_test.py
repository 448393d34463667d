#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Signs of life: one line that is rewritten on a terminal, lines now and then elsewhere, nothing for what is quick; and
the line of what Ctrl-C ended."""
import contextlib
import io
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

LIB = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools", "lib"))
sys.path.insert(0, LIB)
import spwlab  # noqa: E402  (found by the line above)
import spwlife  # noqa: E402


class Terminal(io.StringIO):
    def isatty(self):
        return True


REPORT_S = 0.15


def lived(out, times):
    """What is shown until it was so many times, every REPORT_S; 0: in a tenth of a second, as the tool has it."""
    with mock.patch.object(sys, "stderr", out), mock.patch.object(spwlife, "REWRITE_S", 0.05), \
            mock.patch.object(spwlife, "REPORT_S", REPORT_S if times else spwlife.REPORT_S), \
            contextlib.redirect_stdout(io.StringIO()):
        with spwlife.Life("tool") as life:
            life.phase("packing\x1b[31m", 8)
            if times:
                spwlab.wait_for(lambda: out.getvalue().count("packing") >= times, 30, "the line")
            else:
                time.sleep(0.1)
            life.say("a line")
    return out.getvalue()


class Shown(unittest.TestCase):
    def test_terminal(self):
        text = lived(Terminal(), 1)
        self.assertRegex(text, r"^\r\x1b\[Kpacking\\u001b\[31m: \d\.\d s of 8\r\x1b\[K")
        self.assertNotIn("\n", text)
        self.assertTrue(text.endswith("\r\x1b[K"))

    def test_elsewhere(self):
        begin = time.monotonic()
        text = lived(io.StringIO(), 2)
        self.assertRegex(text, r"^(packing\\u001b\[31m: \d\.\d s of 8\n){2,}$")
        self.assertLessEqual(text.count("\n"), (time.monotonic() - begin) / REPORT_S)

    def test_what_is_quick_is_silent(self):
        self.assertEqual(lived(io.StringIO(), 0), "")

    def test_parts(self):
        life = spwlife.Life()
        life.part(1, 4)("sending")
        self.assertEqual(life.text, "1 of 4: sending")
        life.parts_begin -= 60
        life.part(3, 4)("sending")
        self.assertEqual(life.text, "3 of 4, about 1:00 left: sending")

    def test_interrupted(self):
        out = io.StringIO()
        with mock.patch.object(sys, "stderr", out), mock.patch.object(spwlife.time, "monotonic", lambda: 5.0), \
                self.assertRaises(KeyboardInterrupt):
            with spwlife.Life("tool") as life:
                life.phase("packing", 8)
                life.begin -= 2
                raise KeyboardInterrupt
        self.assertEqual(out.getvalue(), "tool: interrupted after 2.0 s of 8: packing\n")


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


class Logged(unittest.TestCase):
    """As tools/run calls it, around ninja and meson."""

    def run_it(self, script, interrupt=False):
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            process = subprocess.Popen([sys.executable, os.path.join(LIB, "spwlife.py"), "compiling", log, "sh", "-c",
                                        script], stderr=subprocess.PIPE, text=True, start_new_session=True)
            while interrupt and not (os.path.exists(log) and "begun" in read(log)):
                time.sleep(0.02)
            if interrupt:
                os.killpg(process.pid, signal.SIGINT)
            _, err = process.communicate(timeout=60)
            return process.returncode, err, read(log)

    def test_status_and_output(self):
        self.assertEqual(self.run_it("echo '[1/2] one'; exit 3"), (3, "", "[1/2] one\n"))

    def test_limit(self):
        with tempfile.TemporaryDirectory() as folder:
            status = spwlife.run_logged("compiling", os.path.join(folder, "log"), ["sleep", "60"], limit_s=0.5)
        self.assertEqual(status, 124)

    def test_interrupted(self):
        # A shell may lose a signal that comes while it starts a command.
        sleeper = 'import signal, time; signal.signal(signal.SIGINT, signal.SIG_DFL); print("begun"); time.sleep(60)'
        status, err, _ = self.run_it(f"echo '[3/8] one'; exec {sys.executable} -uc '{sleeper}'", True)
        self.assertEqual(status, 130)
        self.assertRegex(err, r"^tools/run: interrupted after \d\.\d s: compiling: 3 of 8, 0:0\d, about 0:0\d left\n$")


if __name__ == "__main__":
    unittest.main()
