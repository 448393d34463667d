#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the tools print: the same filter as that of the programs in C, on any terminal, and for a reader that leaves."""
import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
LIB = os.path.join(HERE, "..", "..", "..", "tools", "lib")
sys.path.insert(0, LIB)
import spwtext  # noqa: E402


def c_string(text):
    return re.sub(rb"\\([0-7]{3}|.)", lambda m: bytes([int(m[1], 8)]) if len(m[1]) == 3
                  else {b"t": b"\t"}.get(m[1], m[1]), text.encode())


def cases():
    """[(text, what a terminal may have of it)] of the C test."""
    text = r'((?:\s*"(?:[^"\\]|\\.)*")+)'  # pieces of one text stand one behind the other
    with open(os.path.join(HERE, "..", "base", "text_cases.h"), encoding="utf-8") as file:
        found = re.findall(r"\{" + text + "," + text + r"\s*\}", file.read())
    pieces = [["".join(re.findall(r'"((?:[^"\\]|\\.)*)"', side)) for side in pair] for pair in found]
    return [(c_string(a), c_string(b).decode()) for a, b in pieces]


def tool(code, **environment):
    return subprocess.run([sys.executable, "-c",
                           f"import sys; sys.path.insert(0, {LIB!r}); import spwtext; spwtext.start(); {code}"],
                          capture_output=True, check=False, env={**os.environ, **environment})


class Text(unittest.TestCase):
    def test_same_as_in_c(self):
        self.assertGreater(len(cases()), 8)
        for text, want in cases():
            self.assertEqual(spwtext.shown(text), want)
            self.assertEqual(spwtext.shown(want), want)

    def test_streams(self):
        done = tool(r"print('a\tb\x1b[2J', '\x9b\u202e', '\udcff', '\ud800', 'µ'); sys.exit('c\x1b]0;d\x07')")
        self.assertEqual(done.stdout, b"a\tb\\u001b[2J \\u009b\\u202e \\xff \\ud800 \xc2\xb5\n")
        self.assertEqual(done.stderr, b"c\\u001b]0;d\\u0007\n")
        self.assertEqual(done.returncode, 1)

    def test_any_terminal(self):
        for encoding, want in (("ascii", b"\\xb5 \\u6f22 \\u20ac\n"), ("gbk", b"\\xb5 \x9dh \\u20ac\n"),
                               ("euc_jp", b"\\xb5 \xb4\xc1 \\u20ac\n")):
            done = tool("print('µ 漢 €')", PYTHONIOENCODING=encoding)
            self.assertEqual((done.returncode, done.stderr), (0, b""), encoding)
            self.assertEqual(done.stdout, want, encoding)

    def test_reader_that_leaves(self):
        work = "[print('x' * 100) for _ in range(10000)]; sys.stdout.flush(); print('done', file=sys.stderr)"
        command = [sys.executable, "-c",
                   f"import sys; sys.path.insert(0, {LIB!r}); import spwtext; spwtext.start(); {work}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.readline()
            process.stdout.close()
            self.assertEqual(process.stderr.read(), b"done\n")
            self.assertEqual(process.wait(), 0)

    def test_full_disk_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([sys.executable, "-c",
                                   f"import sys; sys.path.insert(0, {LIB!r}); import spwtext; spwtext.start(); "
                                   f"print('lost')"],
                                  stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertNotEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
