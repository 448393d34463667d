#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/deps beside packages that conflict with the distribution's: it never lets apt-get remove one."""
import os
import subprocess
import tempfile
import unittest

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools", "deps")


class Deps(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="spinwire-unit-")
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name
        self.program("dpkg-query", "exit 1")  # nothing is installed
        self.program("sudo", 'exec "$@"')
        self.program("apt-cache", "exit 0")

    def program(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)

    def deps(self, simulation):
        """tools/deps build, where apt-get -s does that; (its status, its errors, how apt-get was called)."""
        log = os.path.join(self.folder, "log")
        open(log, "w", encoding="ascii").close()
        self.program("apt-get", f'echo "$@" >>{log}; case $1 in -s) {simulation} ;; esac')
        done = subprocess.run([TOOL, "build"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                              check=False,
                              env={**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}"})
        with open(log, encoding="ascii") as file:
            return done.returncode, done.stderr, [line for line in file if "-y" in line.split()]

    def test_nothing_is_removed(self):
        status, text, installs = self.deps('echo "Remv ucx [1.18.0-1.2404]"; echo "Inst libdpdk-dev (22.11)"; echo '
                                           '"Remv libibverbs1:arm64 [2501]"')
        self.assertEqual((status, installs), (2, []))
        self.assertIn("would remove ucx libibverbs1:arm64", text)

    def test_impossible(self):
        status, text, installs = self.deps('echo "E: Unable to correct problems, you have held broken packages."; exit '
                                           '100')
        self.assertEqual((status, installs), (2, []))
        self.assertIn("held broken packages", text)

    def test_installs(self):
        status, text, installs = self.deps('echo "Inst libdpdk-dev (22.11)"')
        self.assertEqual((status, text, len(installs)), (0, "", 1))
        self.assertIn("libdpdk-dev", installs[0])


if __name__ == "__main__":
    unittest.main()
