#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Which library tools/with-softhca takes: trees of made-up build folders, and a COMMAND that prints what is
preloaded."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools", "with-softhca")
LIB = "lib/softhca/libspinwire-softhca.so"


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="spinwire unit ")  # a blank, as users have them
        self.addCleanup(folder.cleanup)
        self.top, self.serial = os.path.realpath(folder.name), 0
        os.mkdir(os.path.join(self.top, "tools"))
        shutil.copy(TOOL, os.path.join(self.top, "tools"))

    def add(self, path, text=b"\x7fNOELF"):
        """A library, newer than those before it."""
        full = os.path.join(self.top, path)
        os.makedirs(os.path.dirname(full))
        with open(full, "wb") as file:
            file.write(text)
        self.serial += 1
        os.utime(full, (self.serial, self.serial))
        return full

    def add_sanitized(self, path, symbol=b"__asan_init"):
        return self.add(path, b"\x7fNOELF\0" + symbol + b"\0")

    def run_tool(self, **env):
        env = {"PATH": os.environ["PATH"], **env}
        cmd = [os.path.join(self.top, "tools", "with-softhca"), sys.executable, "-c",
               "import os; print(os.environ['LD_PRELOAD'])"]
        return subprocess.run(cmd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                              check=False)

    def taken(self, **env):
        done = self.run_tool(**env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_build_comes_before_newer_ones(self):
        own = self.add(f"build/{LIB}")
        self.add(f"build-softhca/{LIB}")
        self.assertEqual(self.taken(), own)

    def test_without_build_the_newest(self):
        self.add(f"build-a/{LIB}")
        newest = self.add(f"build-b/{LIB}")
        self.add("lib/spinwire/libspinwire-softhca.so")
        self.assertEqual(self.taken(), newest)

    def test_installed(self):
        installed = self.add("lib/x86_64-linux-gnu/spinwire/libspinwire-softhca.so")
        self.assertEqual(self.taken(), installed)

    def test_a_sanitized_one_is_never_taken(self):
        self.add_sanitized(f"build/{LIB}")
        plain = self.add(f"build-softhca/{LIB}")
        for symbol in (b"__asan_init", b"__tsan_init", b"__msan_init", b"__ubsan_handle_add_overflow"):
            self.add_sanitized(f"build-{symbol.decode()}/{LIB}", symbol)
        self.assertEqual(self.taken(), plain)

    def test_only_a_sanitized_one_is_none(self):
        self.add_sanitized(f"build-asan/{LIB}")
        done = self.run_tool()
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("there is no libspinwire-softhca.so", done.stderr)

    def test_a_named_one_wants_its_runtime(self):
        lib = self.add_sanitized(f"build-asan/{LIB}")
        done = self.run_tool(SPW_SOFTHCA_LIB=lib)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f"{lib} is built with a sanitizer: preload its runtime first", done.stderr)

    def test_a_named_one_stands_behind_its_runtime(self):
        lib = self.add_sanitized(f"build-asan/{LIB}")
        self.assertEqual(self.taken(SPW_SOFTHCA_LIB=lib, LD_PRELOAD="libasan-of-this-test.so"),
                         f"libasan-of-this-test.so:{lib}")

    def test_a_named_plain_one_comes_first(self):
        lib = self.add("elsewhere/lib.so")
        self.add(f"build/{LIB}")
        self.assertEqual(self.taken(SPW_SOFTHCA_LIB=lib, LD_PRELOAD="other.so"), f"{lib}:other.so")

    def test_programs_of_the_tree_are_found_by_name(self):
        self.add(f"build/{LIB}")
        os.makedirs(os.path.join(self.top, "build", "app", "spinwire-here"))
        program = os.path.join(self.top, "build", "app", "spinwire-here", "spinwire-here")
        with open(program, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho here\n")
        os.chmod(program, 0o755)
        os.mkdir(os.path.join(self.top, "build", "app", "spinwire-not"))
        tool = os.path.join(self.top, "tools", "with-softhca")
        for name, status, stdout, stderr in (("spinwire-here", 0, "here\n", ""),
                                             ("spinwire-not", 1, "",
                                              f"ninja -C '{self.top}/build' app/spinwire-not/spinwire-not\n"),
                                             ("spinwire-no", 1, "", "a program in PATH or a path"),
                                             ("", 1, "", "a program in PATH or a path"),
                                             ("not-here", 1, "", "a program in PATH or a path")):
            done = subprocess.run([tool, name], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                                  check=False)
            self.assertEqual((done.returncode, done.stdout), (status, stdout), done.stderr)
            self.assertIn(stderr, done.stderr)

    def machine(self, script):
        """Numbers of the machines that a shell script under the tool prints."""
        done = subprocess.run([os.path.join(self.top, "tools", "with-softhca"), "sh", "-c", script],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
        return re.findall(r"machine=(\d+),\d+;", done.stdout)

    def test_each_is_a_machine_while_a_process_of_it_lives(self):
        self.add(f"build/{LIB}")
        tool, own = os.path.join(self.top, "tools", "with-softhca"), 'echo "$SPW_SOFTHCA"'
        outer, again, inner = self.machine(f"{own}; sh -c '{own}'; '{tool}' sh -c '{own}'")
        self.assertEqual(outer, again)
        self.assertNotEqual(outer, inner)
        ours = os.path.join(self.top, "pid")
        first = self.machine(f"{own}; sleep 60 > /dev/null & echo $! > '{ours}'")
        with open(ours, encoding="utf-8") as file:
            self.addCleanup(os.kill, int(file.read()), signal.SIGKILL)
        self.assertNotEqual(first, self.machine(own))


if __name__ == "__main__":
    unittest.main()
