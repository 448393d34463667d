#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/run from another folder: the main job starts where the user is, so relative paths are the user's, and nothing
is written beside them."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
TOOL = os.path.join(ROOT, "tools", "run")
# What tools/run becomes; it builds as the main job does, and prints where it is and with what words.
MAIN_JOB = """import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import spwlab
spwlab.parsed(lambda names, program: (sys.argv,), lambda words: not {"--help", "--version"} & set(words))
print(os.getcwd(), *sys.argv[1:])
"""


class Run(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="spinwire unit ")  # a blank, as users have them
        self.addCleanup(scratch.cleanup)
        self.folder = os.path.realpath(scratch.name)
        self.top, self.here = (os.path.join(self.folder, name) for name in ("tree", "here"))
        for path in (self.here, os.path.join(self.top, "tools"), os.path.join(self.folder, "bin")):
            os.makedirs(path)
        shutil.copy(TOOL, os.path.join(self.top, "tools"))
        shutil.copytree(os.path.join(os.path.dirname(TOOL), "lib"), os.path.join(self.top, "tools", "lib"))
        self.program("tree/tools/deps", "exit 0")
        self.program("bin/meson", 'mkdir -p "$2" && : >"$2/build.ninja"; echo "$@" >"$3/setup"')
        self.program("bin/ninja", '[ -d "$2" ] && echo built')
        with open(os.path.join(self.top, "tools", "main_job"), "w", encoding="ascii") as file:
            file.write(MAIN_JOB)
        for name in ("app", "lib"):
            os.symlink(os.path.join(ROOT, name), os.path.join(self.top, name))

    def program(self, path, text):
        full = os.path.join(self.folder, path)
        with open(full, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(full, 0o755)

    def test_elsewhere(self):
        words = ["--json", "out.json", "--handler", "./x.so"]
        for tool in (os.path.join(self.top, "tools", "run"), os.path.join("..", "tree", "tools", "run")):
            done = subprocess.run([tool, *words], cwd=self.here, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=60, check=False,
                                  env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"})
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(done.stdout, f"{self.here} {' '.join(words)}\n")
            self.assertEqual(os.listdir(self.here), [])
            self.assertEqual(sorted(os.listdir(os.path.join(self.top, "build"))), ["build.ninja", "ninja-run.log"])

    def test_help_builds_nothing(self):
        for word in ("--help", "--version"):
            done = subprocess.run([os.path.join(self.top, "tools", "run"), "--seconds", "2", word], cwd=self.here,
                                  capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"{self.here} --seconds 2 {word}\n", ""))
            self.assertFalse(os.path.exists(os.path.join(self.top, "build")))

    def interrupted(self, program, text):
        """Ctrl-C while that program runs: what tools/run prints, at most its last line on stderr."""
        begun = os.path.join(self.folder, f"begun {os.path.basename(program)}")
        # A shell may lose a signal that comes while it opens the file.
        sleeper = ("import signal, sys, time; signal.signal(signal.SIGINT, signal.SIG_DFL); "
                   'open(sys.argv[1], "w").close(); time.sleep(60)')
        self.program(program, text.replace("BEGUN", f"exec {sys.executable} -c '{sleeper}' '{begun}'"))
        process = subprocess.Popen([os.path.join(self.top, "tools", "run")], cwd=self.here, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                   env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"})
        for _ in range(3000):
            if os.path.exists(begun):
                break
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (130, ""), err)
        return err

    def test_interrupted(self):
        self.assertRegex(self.interrupted("bin/ninja", "echo '[3/8] one'; BEGUN"),
                         r"^tools/run: interrupted after \d+\.\d s: compiling: 3 of 8, .*\n$")
        os.unlink(os.path.join(self.top, "build", "build.ninja"))
        self.assertRegex(self.interrupted("bin/meson", "BEGUN"),
                         r"^tools/run: interrupted after \d+\.\d s: configuring: 0:\d\d\n$")

    def test_a_build_that_fails_shows_its_log(self):
        self.program("bin/ninja", "echo 'FAILED: one.o'; exit 1")
        done = subprocess.run([os.path.join(self.top, "tools", "run")], cwd=self.here, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"})
        self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", "FAILED: one.o\n"))


if __name__ == "__main__":
    unittest.main()
