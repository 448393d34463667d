#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/lib/spwopt.py: quantities as lib/opt reads them (the same list of cases), and one line for a wrong command
line."""
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "tools", "lib"))
import spwopt  # noqa: E402


def parser():
    made = spwopt.Parser("spinwire-some", "does something", examples=[("spinwire-some --seconds 1", "One second.")])
    made.add_argument("--seconds", type=spwopt.seconds(0.001, 3600), default=5, help="how long")
    made.add_argument("--time", type=spwopt.duration_ms(20, 60000), help="of a row")
    made.add_argument("--rate", type=spwopt.rate(1, 1e9), metavar="FPS", help="10 %% of it")
    made.add_argument("--json", metavar="FILE", help="it's [here]")
    return made


def refused(*words):
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        try:
            parser().parse_args(words)
        except SystemExit as end:
            return end.code, err.getvalue()
    return 0, ""


class Options(unittest.TestCase):
    def test_quantities(self):
        with open(os.path.join(HERE, "..", "opt", "quantities.txt"), encoding="utf-8") as file:
            cases = [line.split() for line in file if not line.startswith("#")]
        self.assertGreater(len(cases), 30)
        for unit, bare, text, want in cases:
            if want.isdigit():
                self.assertEqual(spwopt.quantity(text, unit, int(bare)), int(want), (unit, bare, text))
            else:
                with self.assertRaisesRegex(ValueError, "too large" if want == "large"
                                            else "not a|no unit|unknown unit|finer", msg=(unit, bare, text)):
                    spwopt.quantity(text, unit, int(bare))

    def test_values(self):
        args = parser().parse_args(["--seconds", "2.5", "--time", "40ms", "--rate=200kpps"])
        self.assertEqual((args.seconds, args.time, args.rate), (2.5, 40, 200000))
        self.assertEqual(parser().parse_args(["--seconds", "500ms", "--rate", "5000"]).seconds, 0.5)

    def test_refusals(self):
        for words, text in ((["--secons", "1"],
                             "--secons: no such option, did you mean --seconds; spinwire-some --help lists them"),
                            (["--time", "40"], "--time: '40' has no unit: 40ms? allowed: ns, us, ms, s, min"),
                            (["--time", "5ms"], "--time: '5ms' is not allowed; allowed: 20ms .. 60000ms"),
                            (["--seconds", "-1"], "--seconds: "),
                            (["--seconds"], "--seconds needs a value: "),
                            (["extra"], "'extra' is not an option"),
                            (["--rate", "fast"], "--rate: 'fast' is not a number")):
            status, said = refused(*words)
            self.assertEqual((status, said.count("\n")), (1, 1), said)
            self.assertTrue(said.startswith("spinwire-some: error: ") and text in said, said)

    def test_pass_on(self):
        """The program that has the options checks their values, and is given nothing to start with."""
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "program")
            with open(program, "w", encoding="utf-8") as file:
                file.write('#!/bin/sh\n[ "$1 $2 $3" = "-- --port null" ] || exit 9\n'
                           'case "$*" in *hots*) echo "program: error: --memory: no" >&2; exit 1;; *--check) ;; esac\n')
            os.chmod(program, 0o700)
            names = {"--memory", "--slots"}
            parser().pass_on(["--memory", "host", "--slots=5"], names, program)
            parser().pass_on(["--memory", "hots"], names, "/nonexistent/program")  # not built yet
            for words, text in ((["--secons", "1"], "did you mean --seconds"),
                                (["--memory", "hots"], "spinwire-some: error: --memory: no\n")):
                err = io.StringIO()
                with self.assertRaises(SystemExit), contextlib.redirect_stderr(err):
                    parser().pass_on(words, names, program)
                self.assertIn(text, err.getvalue())

    def test_pages(self):
        page = parser().man()
        for text in (".TH SPINWIRE-SOME 1", "\\-\\-seconds", ".SH EXAMPLES", ".SH SEE ALSO", "10 % of it"):
            self.assertIn(text, page)
        self.assertEqual(subprocess.run(["bash", "-n"], input=parser().bash(), text=True, check=False).returncode, 0)
        self.assertIn("it'\\''s \\[here\\]]:FILE:_files", parser().zsh())


if __name__ == "__main__":
    unittest.main()
