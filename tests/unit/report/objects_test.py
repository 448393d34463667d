#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Objects in the report, in the result of tools/run and in --explain: all of their time is named, from summary and
receipts."""
import html
import json
import os
import re
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
sys.path[:0] = [os.path.join(ROOT, "tools", "lib"), HERE]
import report_test  # noqa: E402  (found by the line above)
from spwreport import advice, book, brief, charts, objects, page  # noqa: E402

STATES = ("complete", "partial", "shed", "aborted")


def part(name, ns, **causes):
    return {"part": name, "ns": ns, "blame_ns": causes}


def way(*parts, since=1000, slow=True):
    blame = {}
    for one in parts:
        for cause, ns in one["blame_ns"].items():
            blame[cause] = blame.get(cause, 0) + ns
    return {"slow": slow, "cause": max(blame, key=blame.get), "first_ns": since, "whole_ns": sum(blame.values()),
            "blame_ns": blame, "parts": list(parts)}


LATE = way(part("arrive", 9_000_000, sender=9_000_000), part("port", 2_000_000, poll_gap=1_500_000, port=500_000),
           part("move", 1_000_000, mover=1_000_000))


def stream(slow=True, **more):
    by = [{"cause": "sender", "objects": 3, "ns": 27_000_000, "max_ns": 9_000_000},
          {"cause": "consumer", "objects": 4, "ns": 0, "max_ns": 0},
          {"cause": "unexplained", "objects": 0, "ns": 3_000_000, "max_ns": 0}] if slow else []
    return {"stream": "adc", "port": "mlx5_0", "states": dict(zip(STATES, (90, 6, 4, 0))),
            "causes": {"all": 90, "deadline": 6, "no_buffer": 4, "stop": 0}, "frames": {"placed": 800}, "taken_back": 0,
            "unseen": 0, "restarts": 0, "bytes_present": 8000, "bytes_missing": 120,
            "slow": {"threshold_ns": 5_000_000, "objects": 7 * slow, "by": by,
                     "worst": [{"id": 17, "generation": 18, "state": "partial", "cause": "deadline", "way": LATE},
                               {"id": 4, "generation": 5, "state": "complete", "cause": "all",
                                "way": way(part("reap", 4_000, reap_late=4_000), slow=False)}]},
            "latency": {"count": 96, "min_ns": 4_000, "p50_ns": 5_000, "p90_ns": 8_000_000, "p99_ns": None,
                        "p999_ns": None, "p9999_ns": None, "max_ns": 12_000_000,
                        "spectrum": [[50.0, 5_000], [90.0, 8_000_000], [100.0, 12_000_000]]}, **more}


def step(**more):
    one = report_test.step(1e5, "lost", lost=10000, spinwire={"objects": [stream(**more)]})
    return {**one, "where": {"frames": 0, "worst": [], "by": []}}


def text_of(page_text):
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page_text)).split())


class Objects(unittest.TestCase):
    def test_the_names_are_those_of_lib(self):
        with open(os.path.join(ROOT, "lib", "obj", "spw_obj_slow.h"), encoding="utf-8") as file:
            header = file.read()
        for what, table in (("SLOW", objects.CAUSES), ("PART", objects.PARTS)):
            body = re.search(rf"define SPW_OBJ_{what}_LIST\(.*?\n\n", header, re.S)[0]
            self.assertEqual(re.findall(r"X\(P, (\w+),", body), list(table))
        self.assertEqual(set(objects.CAUSES) - set(charts.OBJECT_CLASS), set())
        own = [charts.part_class(cause) for cause in objects.CAUSES]
        self.assertEqual(len(set(own)), len(own))  # no two in one colour

    def test_the_result_names_all_of_the_time(self):
        got = list(brief.lines({}, step(), 2, "advice: cores-shared: x\n", "explain {}".format))
        self.assertEqual(got, [
            "frames     sent 10000; spinwire received 10000, residual 0",
            "objects    adc: complete 90, partial 6, shed 4; first frame to publication p50 5 µs, longest 12 ms",
            "slow       7 took more than 5 ms or were shed: sender 3, consumer 4; their time: sender 90 %, "
            "unexplained 10 %",
            "machine    latency here suffers from cores-shared: see spinwire-doctor --full",
            "next       explain adc:17, the slowest; --full, every table"])
        self.assertEqual(objects.slow_text(stream(slow=False)), "no object took more than 5 ms, none was shed")

    def test_frames_that_become_objects_are_a_result(self):
        self.assertEqual(book.status_of({"steps": [step()]}), 0)
        one = step()
        one["spinwire"]["objects"] = []
        self.assertEqual(book.status_of({"steps": [one]}), 2)

    def test_the_page(self):
        got = text_of(page.html(report_test.record([step()]), "/tmp/x"))
        for words in ("Objects of adc", "90 % of 100 objects complete", "Slower than 5 ms, or shed: 7",
                      "sender 3 90.0 % 9 ms its frames came that far apart", "object 17, partial",
                      "sender, 75 % of it", "adc: first frame to publication", "because of deadline 6",
                      "Begin with sender, 90 % of the time of adc's slow objects", "--explain adc:17"):
            self.assertIn(words, got)
        self.assertNotIn("Round trip From the intended", got)
        got = text_of(page.html(report_test.record([step(slow=False, latency={
            **dict.fromkeys(stream()["latency"]), "count": 0, "spectrum": []})])))
        self.assertIn("no object took more than 5 ms", got)
        self.assertNotIn("Objects of", text_of(page.html(report_test.record([report_test.step(1e5, 2000)]))))

    def test_parts_of_a_timeline_sum_to_the_whole(self):
        for row in objects.timeline(stream()):
            self.assertEqual(sum(ns for _, ns in row["parts"]), row["whole_ns"])
        self.assertEqual(objects.timeline(stream())[0]["parts"], [
            ("sender", 9_000_000), ("poll_gap", 1_500_000), ("port", 500_000), ("mover", 1_000_000)])


class Explain(unittest.TestCase):
    def explain(self, rows, name="adc", number=None):
        with tempfile.TemporaryDirectory() as folder:
            if rows is not None:
                with open(os.path.join(folder, objects.RECEIPTS), "w", encoding="utf-8") as file:
                    file.writelines(json.dumps(row) + "\n" for row in rows)
            return objects.explain(step(), folder, name, number)

    def receipt(self, number, **more):
        return {"schema": "spinwire.object/1", "stream": "adc", "id": number, "state": "complete", "cause": "all",
                "first_nic_ns": 1000, "open_ns": 1500, "close_ns": 3000, "publish_ns": 5000, "way": None, **more}

    def test_the_slowest_part_by_part(self):
        got = self.explain(None)
        self.assertEqual(got[0], "stream adc, object 17: partial (deadline), 12 ms from its first frame to "
                                 "publication, slow")
        self.assertEqual([line.split()[:2] for line in got[2:]], [
            ["0.00", "9000.00"], ["9000.00", "2000.00"], ["11000.00", "1000.00"], ["12000.00", "published"]])
        self.assertTrue(got[3].endswith("poll_gap 1.5 ms, port 500 µs"))
        self.assertTrue(got[-1].endswith(f"sender: {objects.CAUSES['sender']}"))

    def test_any_object_of_the_receipts(self):
        """Its stamps where its way was not kept; what became of it afterwards."""
        rows = [self.receipt(3), self.receipt(4),
                {"schema": "spinwire.release/1", "stream": "adc", "id": 4, "generation": 5, "publish_ns": 5000,
                 "release_ns": 2_005_000},
                self.receipt(3, state="shed", cause="taken_back")]
        got = self.explain(rows, number=4)
        self.assertEqual(got[0], "stream adc, object 4: complete (all), not slow")
        self.assertEqual([line.split() for line in got[1:4]], [
            ["0.50", "first", "frame", "placed"], ["2.00", "closed"], ["4.00", "published"]])
        self.assertEqual(got[4], "  its consumer released it 2 ms later")
        self.assertEqual(self.explain(rows, number=3)[-1], "  it was taken back unread for a newer one")
        got = self.explain([self.receipt(9, state="shed", cause="no_buffer", publish_ns=None)], number=9)
        self.assertEqual(got[0], "stream adc, object 9: shed (no_buffer), handed over to nobody")
        self.assertEqual(len(got), 3)

    def test_what_is_not_there(self):
        for name, number, words in (("cam", 1, "no stream cam; it has adc"), ("adc", 5, "no receipt of object adc:5")):
            with self.assertRaisesRegex(RuntimeError, words):
                self.explain([], name, number)


if __name__ == "__main__":
    unittest.main()
