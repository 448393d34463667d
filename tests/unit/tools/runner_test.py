#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The runner of tests: what runs beside what, what becomes of a test that hangs, what is shown meanwhile, and the share
of each day."""
import io
import os
import signal
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools", "lib"))
import spwrunner  # noqa: E402  (found by the line above)

# Notes its begin, waits until those named have begun as well, and notes its end.
NOTE = """
import sys, time
path, name, company = sys.argv[1], sys.argv[2], sys.argv[3:]
def note(text):
    with open(path, "a") as file:
        file.write(text + "\\n")
note("+" + name)
while not all("+" + one in open(path).read().split() for one in company):
    time.sleep(0.02)
time.sleep(0.1)
note("-" + name)
"""


def fake(name, code="", parallel=True, limit_s=20, suites=("fast",), args=()):
    return spwrunner.Test(name, "tests/unit/x", [sys.executable, "-c", code, *args], {}, frozenset(suites), parallel,
                          limit_s, "/", [])


def run(tests, jobs=2, known=None):
    out = io.StringIO()
    return {row.name: row for row in spwrunner.run(tests, jobs, dict(os.environ), known, out)}, out.getvalue()


class Results(unittest.TestCase):
    def test_words(self):
        rows, out = run([fake("good"), fake("skips", "raise SystemExit(77)"),
                         fake("bad", "print('why not'); raise SystemExit(1)"),
                         fake("killed", "import os; os.kill(os.getpid(), 9)"), fake("asan", "raise SystemExit(99)")])
        self.assertEqual({name: row.result for name, row in rows.items()},
                         {"good": "OK", "skips": "SKIP", "bad": "FAIL", "killed": "FAIL", "asan": "FAIL"})
        self.assertIn("== bad: FAIL", out)
        self.assertIn("why not", out)

    def test_in_the_background(self):
        """SIGINT is ignored there, as a shell without job control starts its jobs; a test can send it nevertheless."""
        old = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            rows, _ = run([fake("sends", "import os, signal\ntry:\n os.kill(os.getpid(), signal.SIGINT)\n"
                                         "except KeyboardInterrupt:\n raise SystemExit(0)\nraise SystemExit(1)")])
        finally:
            signal.signal(signal.SIGINT, old)
        self.assertEqual(rows["sends"].result, "OK")

    def test_a_hang_is_a_failure_and_takes_its_children_along(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "child")
            code = ("import subprocess, sys, time; p = subprocess.Popen(['sleep', '100']); open(sys.argv[1], "
                    "'w').write(str(p.pid)); time.sleep(100)")
            for limit_s in (2, 20):  # where two interpreters take longer to start
                rows, _ = run([fake("hangs", code, limit_s=limit_s, args=[path])])
                self.assertEqual(rows["hangs"].result, spwrunner.TIMEOUT)
                if os.path.exists(path) and os.path.getsize(path):
                    break
            with open(path, encoding="ascii") as file:
                child = int(file.read())
        for _ in range(100):
            try:
                with open(f"/proc/{child}/stat", encoding="ascii") as file:
                    if file.read().rpartition(")")[2].split()[0] == "Z":
                        return
            except FileNotFoundError:
                return
            time.sleep(0.1)
        self.fail("the child lives")

    def test_one_that_skips_when_it_is_late_has_failed(self):
        rows, _ = run([fake("late", "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(77)); "
                            "time.sleep(100)", limit_s=1)])
        self.assertEqual(rows["late"].result, spwrunner.TIMEOUT)


class Beside(unittest.TestCase):
    def order(self, tests, cores, company, jobs=2):
        """What began and ended, in that order; those of company begin together, or run into their limit."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "order")
            some = [fake(name, NOTE, parallel, suites=suites, args=[path, name, *(company if name in company else ())])
                    for name, parallel, suites in tests]
            with mock.patch.object(os, "sched_getaffinity", lambda _: set(range(cores))), \
                    mock.patch.object(os, "sched_setaffinity", lambda *_: None):
                rows, out = run(some, jobs)
            self.assertEqual({row.result for row in rows.values()}, {"OK"}, out)
            with open(path, encoding="ascii") as file:
                return file.read().split()

    def test_what_measures_is_alone(self):
        words = self.order([("a", False, ["e2e"]), ("b", True, ["fast"]), ("c", False, ["e2e", "slot"]),
                            ("d", True, ["fast"])], 2, "bd")
        self.assertEqual(words[4:], ["+a", "-a", "+c", "-c"])  # two cores are no two slots

    def test_slots(self):
        words = self.order([("a", False, ["e2e", "slot"]), ("b", False, ["e2e"]), ("c", False, ["e2e", "slot"])],
                           8, "ac")
        self.assertEqual(words[4:], ["+b", "-b"])

    def test_what_waits_has_company(self):
        words = self.order([("a", False, ["e2e"]), ("b", False, ["fast", "waits"]), ("c", False, ["fast", "waits"])],
                           2, "bc")
        self.assertEqual(words[4:], ["+a", "-a"])

    def test_what_fails_there_is_run_alone(self):
        """The second run decides; the first is not forgotten. What was alone has had its run."""
        code = ("import os, sys\nif os.path.exists(sys.argv[1]): raise SystemExit(0)\n"
                "open(sys.argv[1], 'w').close(); raise SystemExit('the first time')")
        with tempfile.TemporaryDirectory() as folder:
            rows, out = run([fake(name, code, parallel, args=[os.path.join(folder, name)])
                             for name, parallel in (("beside", True), ("alone", False))] + [fake("bad", "sys.exit(1)")])
        self.assertEqual({name: (row.result, row.again) for name, row in rows.items()},
                         {"beside": ("OK", True), "alone": ("FAIL", False), "bad": ("FAIL", True)})
        self.assertEqual(out.count("== bad: FAIL"), 2)
        self.assertIn("== beside: FAIL", out)
        self.assertIn("the first time", out)

    def test_many_failures_are_no_accident(self):
        rows, _ = run([fake(f"bad{i}", "raise SystemExit(1)") for i in range(spwrunner.AGAIN + 1)])
        self.assertEqual({(row.result, row.again) for row in rows.values()}, {("FAIL", False)})

    def test_one_job_is_one_at_a_time(self):
        words = self.order([("a", True, ["fast"]), ("b", False, ["slot"])], 8, "", jobs=1)
        self.assertEqual(words, ["+a", "-a", "+b", "-b"])


class Shown(unittest.TestCase):
    def test_lines(self):
        """The last two end once a line has said how long they will take."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "said")

            class Lines(io.StringIO):
                def write(self, text):
                    if ", about " in text:
                        with open(path, "w", encoding="ascii"):
                            pass
                    return super().write(text)
            waits = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.02)"
            out = Lines()
            with mock.patch.object(spwrunner.spwlife, "REPORT_S", 0.2):
                spwrunner.run([fake("a"), fake("b"), *(fake(name, waits, args=[path]) for name in "cd")], 2,
                              dict(os.environ), None, out)
        lines = out.getvalue().splitlines()
        self.assertRegex(lines[0], r"^\[0/4\] 0:0\d: a b$")
        self.assertRegex(lines[-1], r"^\[\d/4\] 0:\d\d, about 0:\d\d left: ")

    def test_terminal(self):
        class Terminal(io.StringIO):
            def isatty(self):
                return True
        out = Terminal()
        spwrunner.run([fake("a"), fake("b")], 2, dict(os.environ), None, out)
        self.assertNotIn("\n", out.getvalue())
        self.assertTrue(out.getvalue().endswith("\r\x1b[K"))

    def test_report(self):
        rows = [spwrunner.Result(f"t{i}", f"tests/{i % 2}", "OK", float(i), 0.5) for i in range(30)]
        lines = list(spwrunner.report(rows))
        self.assertEqual((lines[1].split(), len([line for line in lines if "0.5  t" in line])),
                         (["29.0", "0.5", "t29"], 20))
        self.assertEqual([line.split() for line in lines[-2:]],
                         [["225.0", "tests/1", "(15)"], ["210.0", "tests/0", "(15)"]])


class Share(unittest.TestCase):
    def test_each_test_has_its_day(self):
        tests = [fake(f"t{i}", limit_s=60 if i % 3 else 2000) for i in range(40)]
        parts = [spwrunner.share_of(tests, 20000 + day, 6, 900) for day in range(6)]
        self.assertEqual(sorted(test.name for mine, _ in parts for test in mine),
                         sorted(test.name for test in tests if test.limit_s == 60))
        self.assertEqual({len(left) for _, left in parts}, {14})


if __name__ == "__main__":
    unittest.main()
