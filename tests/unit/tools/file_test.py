#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reports of the tools: no link is followed, neither at the file's place nor beside it; "-" is refused; devices stay
what they are."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools", "lib"))
import spwfile  # noqa: E402


class File(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="spinwire-unit-")
        self.addCleanup(self.scratch.cleanup)
        self.path, self.victim = (os.path.join(self.scratch.name, name) for name in ("out", "victim"))
        with open(self.victim, "w", encoding="ascii") as file:
            file.write("mine")

    def read(self, path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    def test_links(self):
        for link in (self.path, f"{self.path}.{os.getpid()}.tmp"):
            os.symlink(self.victim, link)
            spwfile.try_path(self.path)
            spwfile.write(self.path, "new µ")
            self.assertEqual((self.read(self.victim), self.read(self.path)), ("mine", "new µ"))
            os.unlink(self.path)
        self.assertEqual(os.listdir(self.scratch.name), ["victim"])

    def test_refused(self):
        for path in ("-", "/nonexistent/out", self.scratch.name, self.victim + "/x"):
            with self.assertRaisesRegex(OSError, f"cannot write {path}"):
                spwfile.try_path(path)
        with self.assertRaisesRegex(OSError, "cannot write /dev/full: No space"):
            spwfile.write("/dev/full", "x")
        spwfile.write("/dev/null", "x")

    def test_own_descriptor(self):
        with open(self.path, "w", encoding="ascii") as file:
            spwfile.write(f"/dev/fd/{file.fileno()}", "here")
        self.assertEqual(self.read(self.path), "here")


if __name__ == "__main__":
    unittest.main()
