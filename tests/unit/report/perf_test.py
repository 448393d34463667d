#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The page of spinwire-perf: scales that hold every point, one colour a table, nothing dropped without a word, the
headline, and what to do."""
import html
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools", "lib"))
from spwreport import perf, svg  # noqa: E402  (found in the line above)

END = {"machine": "M", "cores": 4, "kernel": "6", "gpu": "", "software": False, "host": "h"}


def row(table, count, gbps=50.0, op="write", valid="valid", **more):
    """One row of bandwidth; points of latency in ns make it one of latency."""
    got = {"table": table, "valid": valid, "why": "" if valid == "valid" else "W", "gbps": gbps,
           "messages_per_s": gbps * 1e9 / 8 / count, "cpu_ns_per_message": 400.0, "cpu_ms_per_gb": 120.0,
           "limit_gbps": 100.0, "efficiency": gbps / 100, "limit_by": "PCIe", "owners": "", "method": "",
           "case": {"op": op, "latency": "p50" in more, "bytes": count, "streams": 1}}
    if "p50" in more:
        lost = sum(value == "lost" for value in more.values())
        points = {f"{name}_ns": more.get(name, more["p50"]) for name, _ in perf.POINTS}
        got["latency"] = {"interval_ns": 9, "intended": 9, "lost": lost, "open": points, "closed": points}
    return got


def record(*rows, **more):
    return {"here": END, "there": END, "rails": [], "faults": [], "rows": rows, **more}


def text_of(*rows, **more):
    return html.unescape(perf.html(record(*rows, **more)))


class Perf(unittest.TestCase):
    def test_each_point_is_where_its_value_is(self):
        """0.0001 Gb/s lies three decades below 0.1, and is written so."""
        self.assertEqual(svg.decades([0.0001, 93]), (0.0001, 100))
        drawn = perf.curves(900, "t", "Gb/s", [("n", "k0", [(64, 0.0001), (128, 0.01), (256, 1.0)])],
                            lambda v: f"{svg.short(v)} Gb/s")
        low, middle, high = map(float, re.findall(r'class="mk k0" transform="translate\([\d.]+ ([\d.]+)\)', drawn))
        self.assertAlmostEqual(low - middle, middle - high, delta=0.2)
        self.assertIn(">0.0001<", drawn)
        text = text_of(row("A", 64, 0.0001))
        self.assertIn(">0.0001</td>", text)
        self.assertNotIn(">0.000</td>", text)

    def test_a_table_has_one_colour_in_every_chart(self):
        rows = [row(table, count, p50=5000, p99="lost" if table == "A" else 9000) for table in "ABC"
                for count in (64, 128)]
        for name in ("p50", "p99"):
            lines, _ = perf.lines_of(record(*rows), True, lambda r, n=name: r["latency"]["open"][f"{n}_ns"])
            for title, cls, _ in lines:
                self.assertEqual(cls, perf.colours(record(*rows))[title])
        many = perf.colours(record(*(row(f"T{i}", 64) for i in range(36))))
        self.assertEqual(len(set(many.values())), 36)

    def test_what_is_not_drawn_is_named_with_the_reason(self):
        text = text_of(row("A", 64, p50=5000), row("A", 128, p50=5000), row("B", 64, p50=5000, p99="lost"),
                       row("B", 1024, p50=5000, p99="lost"), row("C", 64, p50=5000, p99=None),
                       row("D", 64, valid="failed"), row("E", 64, op="tcp"))
        self.assertIn("Not drawn: B (among the lost at 64 B, 1 KiB); C (too few messages at 64 B).", text)
        self.assertIn("Not drawn: D (failed at 64 B); E (over streams, in its table).", text)
        self.assertIn("<h3>D</h3><p class=lost>failed: W</p>", text)

    def test_one_size_is_a_point(self):
        lines, left = perf.lines_of(record(row("A", 64)), False, lambda r: r["gbps"])
        self.assertEqual((lines, left), ([("A", "k0", [(64, 50.0)])], []))
        self.assertIn("A, 64 B: 50 Gb/s", text_of(row("A", 64)))

    def test_headline(self):
        text = text_of(row("TCP", 64, 99.0, op="tcp"), row("A", 64, 40.0), row("B", 1024, 85.0),
                       row("L", 64, p50=5000, p99=7000, p999=9000), row("M", 64, p50=6000))
        for big, small in (("85 Gb/s", "the most: B, 1 KiB"), ("85 %", "of its limit, 100 Gb/s: PCIe"),
                           ("5 µs", "p50 of the shortest: L, 64 B"), ("9 µs", "p99.9 of the shortest: L, 64 B")):
            self.assertIn(f"<b>{big}</b><span>{small}</span>", text)
        self.assertNotIn("p999", re.sub(r"<style>.*?</style>|<[^>]*>", " ", text, flags=re.S))  # as it is read

    def test_what_to_do(self):
        good = [row("A", 64, 95.0), row("L", 64, p50=5000)]
        self.assertEqual([line[:21] for line in perf.advice(record(*good))], ["Nothing stands out: n"])
        got = perf.advice(record(row("A", 64, 40.0), row("A", 128, 70.0), row("B", 64, 50.0, valid="invalid"),
                                 row("L", 64, p50=5000, p999=90000), row("M", 64, p50=5000, max="lost"),
                                 here={**END, "software": True}))
        for line, part in zip(got, ("1 of 5 rows are not valid", "software ConnectX", "A: it reaches 70 %",
                                    "lost in M", "p99.9 of L, 64 B, is 18 times its p50"), strict=True):
            self.assertIn(part, line)
        self.assertIn("lost in N", perf.advice(record(row("N", 64, p50="lost")))[0])  # not one has a percentile
        self.assertIn("<h2>What to do</h2><ol><li>Nothing stands out", text_of(*good))


if __name__ == "__main__":
    unittest.main()
