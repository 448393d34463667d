#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spinwire.results: its lists are those of lib, and a file that is something else, cut or damaged is refused with its
name. What it reads of real runs: tests/e2e/tools/results_test.py."""
import os
import re
import sys
import tarfile
import tempfile
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tools", "lib"))
from spinwire import results  # noqa: E402  (found by the line above)

LOG = ('#[Histogram log format version 1.3]\n"StartTimestamp","Interval_Length","Interval_Max",'
       '"Interval_Compressed_Histogram"\n')


def source(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def listed(path, what):
    text = re.search(rf"define {what}_LIST\(.*?\n\n", source(path), re.S).group(0)
    return re.findall(r"X\(P, (\w+),", text)


class Results(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, data):
        path = os.path.join(self.folder.name, "file")
        with open(path, "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        return path

    def test_lists_are_those_of_lib(self):
        self.assertEqual([kind.upper() for kind in results.TRAIL_KINDS], listed("lib/trail/spw_trail.h", "SPW_TRAIL"))
        self.assertEqual(list(results.CAUSES), listed("lib/rec/spw_cause.h", "SPW_CAUSE"))
        self.assertEqual(list(results.REGIMES), listed("lib/rec/spw_stage.h", "SPW_REGIME"))
        holds = re.search(r"name\[SPW_HOLD_CNT\] = \{(.*?)\}", source("lib/rec/cause.c"), re.S).group(1)
        self.assertEqual(list(results.HOLDS), re.findall(r'"(\w+)"', holds))
        self.assertEqual(len(listed("lib/frame/spw_port_event.h", "SPW_PORT_DROP")), 13 - 5 - 2)
        for path, what, value in (("lib/trail/spw_trail.h", "SPW_TRAIL_VERSION", results.TRAIL_VERSION),
                                  ("lib/flight/spw_flight.h", "SPW_FLIGHT_VERSION", results.RECORDING_VERSION)):
            self.assertRegex(source(path), rf"#define {what} +{value}u")

    def test_summary(self):
        good = self.file('{"schema": "spinwire.gen/1", "sent": 3}')
        self.assertEqual(results.summary(good)["sent"], 3)
        self.assertEqual(results.summary(good, "gen")["sent"], 3)
        with self.assertRaisesRegex(ValueError, "file: is no spinwire.perf"):
            results.summary(good, "perf")
        for other in ("[]", "{}", '{"schema": 1}', '{"schema": "other/1"}', "{", ""):
            with self.assertRaisesRegex(ValueError, "file: "):
                results.summary(self.file(other))

    def test_hdr_refuses(self):
        self.assertEqual(list(results.hdr(self.file(LOG))), [])
        for line in ("nonsense", "\xff", "1.0,1.0,1.0,AAAA", "Tag=x,1.0,1.0", "1.0,1.0,1.0,HISTFA==", "a,b,c,d",
                     "1,1,1,*"):
            with self.assertRaisesRegex(ValueError, "file: line 3: "):
                list(results.hdr(self.file(LOG + line + "\n")))

    def test_trail_refuses(self):
        def trail(*kinds, version=results.TRAIL_VERSION, kept=None):
            head = results.TRAIL_HEAD.pack(b"SPWTRAIL", version, 1, len(kinds), len(kinds) if kept is None else kept,
                                           b"gap=lost,\xff")
            return head + b"".join(results.TRAIL_RECORD.pack(kind, 1, 2, 3, *range(7)) for kind in kinds)
        [got] = results.trail(self.file(trail(0, 1, 6)))
        self.assertEqual((got["gap"], got["slow"]["echo_tsc"], got["batch"]["sent_tsc"], got["held"]),
                         ({"what": ["\ufffd"], "from_tsc": [0], "to_tsc": [1]}, [4], [6],
                          {"flow": [], "seq": [], "put_tsc": []}))
        for data in (trail(0)[:-1], trail(0)[:100], trail(99), trail(0, kept=2), trail(0, version=1), b"x" * 600):
            with self.assertRaisesRegex(ValueError, "file "):
                results.trail(self.file(data))

    def test_recordings(self):
        """Those of the fuzzer: each is read, or refused."""
        read = 0
        with tarfile.open(os.path.join(ROOT, "tests", "corpus", "flight.tar")) as tar:
            for member in filter(tarfile.TarInfo.isfile, tar):
                try:
                    lanes = results.recording(self.file(tar.extractfile(member).read()))["lanes"]
                    read += bool(lanes and lanes[0]["polls"]["frames"])
                except ValueError as error:
                    self.assertIn("file: ", str(error))
        self.assertGreater(read, 0)

    def test_recording_refuses(self):
        for data in (b"", b"SWFLIGHT", b"SWFLIGHT" + bytes(400), b"x" * 400,
                     b"SWFLIGHT" + (6).to_bytes(4, "little") + bytes(400)):
            with self.assertRaisesRegex(ValueError, "file: "):
                results.recording(self.file(data))


if __name__ == "__main__":
    unittest.main()
