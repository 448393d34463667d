#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the report derives: the knee, joined frames, the idle machine's floor; and scales, ticks and labels."""
import os
import random
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools", "lib"))
from spwreport import charts, data, page, svg  # noqa: E402  (found by the line above)

HZ = 2_000_000_000


def step(fps, p99, intended=10000, lost=0, **more):
    """One measured load; times in ns."""
    points = {"p50_ns": 1000, "p90_ns": 1500, "p99_ns": p99, "p999_ns": "lost" if lost else 2 * p99, "p9999_ns": None, "max_ns": "lost" if lost else 9 * p99}
    gen = {"intended": intended, "sent": intended, "unsent": 0, "lost": lost, "echoed": intended - lost, "seconds": 1.0, "duplicated": 0, "reordered": 0,
           "corrupted": 0, "round_trip": {"count": intended - lost, **points}, "schedule_error": {"count": intended, "p999_ns": 80},
           "tsc_hz": HZ, "host": {"boot_id": "b"}, **more.get("gen", {})}
    spinwire = {"version": "0", "host": {"boot_id": "b", "dpdk": "D", "tsc_hz": HZ}, "tsc_hz": HZ, "latency": [], "regimes": {},
                "ledger": {"received": intended, "executed": intended, "echoed": intended - lost, "dropped": {"tx_full": lost}, "bad": {}, "residual": 0},
                "pool": {"leaked": 0}, "executor": {"kind": "cpu", "mode": "thread", "device": "d"},
                "memory": {"kind": "host", "why": "w", "h2d_copies": 0}, **more.get("spinwire", {})}
    return {"share": None, "offered_fps": fps, "seconds": 1, "gen": gen, "spinwire": spinwire, "machine": None, "faults": [], "note": None}


def record(steps, hiccup=None):
    return {"title": "T", "begun": "now", "settings": [], "machine": [], "carries": None, "hiccup": {"before": hiccup, "after": None}, "steps": steps,
            "faults": []}


class Knee(unittest.TestCase):
    def test_highest_load_that_holds(self):
        steps = [step(1e6, 2000), step(2e6, 2500), step(3e6, 5900), step(4e6, 6100), step(5e6, "lost", lost=500)]
        self.assertIs(data.knee(steps), steps[2])  # 6100 is more than 3 times 2000

    def test_missing_frames_are_no_knee(self):
        steps = [step(1e6, 2000), step(2e6, 2000, lost=11), step(3e6, 2000, lost=10)]
        self.assertIs(data.knee(steps), steps[2])  # 0.10 % is allowed, 0.11 % is not
        self.assertIsNone(data.knee([step(1e6, 2000)]))


class Join(unittest.TestCase):
    # intended, sent, polled, pushed, start, end, reaped, sent back, echo: ticks of 0.5 ns
    AT = [1000, 1400, 3000, 3100, 3600, 4600, 4800, 5000, 9000]

    def both(self, boot="b"):
        a = self.AT
        frame = {"flow": 3, "seq": 7, "whole_ns": 4000, "intended_tsc": a[0], "sent_tsc": a[1], "echo_tsc": a[8], "drained_tsc": a[8] - 600,
                 "cause": "beyond_sender"}
        other = {**frame, "seq": 9, "whole_ns": 3900, "intended_tsc": 21000, "sent_tsc": 21400, "echo_tsc": 28800, "drained_tsc": 28200}
        batch = {"whole_ns": 1500, "cause": "handler_slow", "seq": 1, "cnt": 2, "ident": {"flow": 2, "seq": 7}, "blame": {"handler_slow": 900, "tx_stall": 600},
                 "stamps": {"nic_tsc": None, "polled_tsc": a[2], "pushed_tsc": a[3], "start_tsc": a[4], "end_tsc": a[5], "reaped_tsc": a[6], "sent_tsc": a[7]}}
        return step(1e6, 2000, gen={"worst": [other, frame], "flows": [{}] * 4, "host": {"boot_id": boot}}, spinwire={"worst": [batch]})

    def test_parts_are_the_stages_and_sum_to_the_whole(self):
        joined, alone = data.worst_frames(self.both())
        self.assertEqual(joined["parts"], [("sender", 200), ("port", 800), ("push", 50), ("wait", 250), ("run", 500), ("reap", 100), ("tx", 100), ("echo", 2000)])
        self.assertEqual(sum(ns for _, ns in joined["parts"]), joined["whole_ns"])
        self.assertEqual(joined["cause"], "handler_slow, 60 % of it")
        self.assertEqual(alone["parts"], [("sender", 200), ("beyond", 3700)])

    def test_one_of_each_stall(self):
        """Frames that waited at the same time are one row."""
        got = self.both()
        frame = got["gen"]["worst"][1]
        got["gen"]["worst"] += [{**frame, "seq": 6, "intended_tsc": 1200, "whole_ns": 3800}, {**frame, "seq": 5, "intended_tsc": 8999, "echo_tsc": 12000, "whole_ns": 1500}]
        self.assertEqual([f["name"] for f in data.worst_frames(got)], ["flow 3, no. 7 (+2)", "flow 3, no. 9"])

    def wire(self, **gen):
        """300 frames were slow beyond the sender; spinwire found 100 slow, none for longer than 0.5 us."""
        row = {"cause": "beyond_sender", "frames": 300, "worst_ns": 9000}
        late = {"cause": "sender_late", "frames": 20, "worst_ns": 8000}
        got = self.both()
        got["gen"].update({"causes": {"threshold_ns": 1000, "by": [row, late]}, **gen})
        got["spinwire"].update({"causes": {"threshold_ns": 1000, "by": [], "frames_above": 100}, "worst": [],
                                "latency": [{"stage": "nic_sent", "count": 5, "max_ns": 500}]})
        return got

    def test_what_neither_side_kept_was_on_the_wire(self):
        rows = {cause: frames for cause, (frames,), _ in data.causes([self.wire()], "gen")}
        self.assertEqual(rows, {"wire": 200, "beyond_sender": 100, "sender_late": 20})
        self.assertEqual([f["cause"] for f in data.worst_frames(self.wire())], ["wire, at least 75 % of it", "wire, at least 74 % of it"])

    def test_the_wire_is_not_guessed(self):
        two_limits = self.wire(causes={"threshold_ns": 2000, "by": [{"cause": "beyond_sender", "frames": 300, "worst_ns": 9}]})
        no_stamps = self.wire()
        no_stamps["spinwire"]["latency"] = []
        for got in (two_limits, no_stamps):
            self.assertEqual(data.causes([got], "gen")[0][:2], ("beyond_sender", [300]))
        self.assertEqual(data.worst_frames(no_stamps)[0]["cause"], "beyond_sender")
        away = self.wire()
        for frame in away["gen"]["worst"]:
            frame["drained_tsc"] = frame["echo_tsc"] - 4000  # the echo may have waited for the sender
        self.assertEqual(data.worst_frames(away)[0]["cause"], "beyond_sender")

    def test_the_thread_that_fell_behind_is_first(self):
        got = self.wire(loop_gap={"max_ns": 300})
        got["spinwire"]["held"] = {"lost": {"times": 1, "sum_ns": 700, "max_ns": 700}, "tx": {"times": 1, "sum_ns": 40, "max_ns": 40}, "switched_out": 1}
        got["nics"] = [{"late_us": 9}, {"naps": 4}]
        self.assertEqual(data.away(got), [("the source's NIC thread", 9000), ("spinwire's loop", 700), ("the source's loop", 300)])
        self.assertEqual(data.away(self.both()), [])

    def test_two_boots_are_two_clocks(self):
        for frame in data.worst_frames(self.both(boot="another")):
            self.assertEqual([key for key, _ in frame["parts"]], ["sender", "beyond"])

    def test_a_stamp_that_is_early_by_a_little_is_no_negative_part(self):
        got = self.both()
        got["spinwire"]["worst"][0]["stamps"]["polled_tsc"] = 1390  # before the sender says that it has sent
        parts = dict(data.worst_frames(got)[0]["parts"])
        self.assertEqual((parts["port"], parts["push"]), (0, 850))

    def test_the_page_has_them(self):
        text = page.html(record([self.both(), self.both()]))
        for part in ("flow 3, no. 7", "not split", "handler slow", "batch 1, 2 frames"):
            self.assertIn(part, text)


class Floor(unittest.TestCase):
    def test_against_a_count(self):
        """Gaps of a made-up core; frames thrown at it one by one."""
        rng, gaps, seconds = random.Random(1), [], 10.0
        gaps += [rng.uniform(3e3, 3e4) for _ in range(4000)] + [rng.uniform(1e5, 2e6) for _ in range(60)]
        limits = [m * 10 ** e for e in range(2, 9) for m in (1, 2, 5)]
        rows = [{"case": "core 1", "metric": f"waits over {limit} ns", "median": sum(max(0.0, g - limit) for g in gaps) / seconds / 1e3} for limit in limits]
        waits = []
        for _ in range(400000):  # where a frame arrives: in a gap with the probability of its length
            at = rng.uniform(0, seconds * 1e9)
            for gap in gaps:
                if at < gap:
                    waits.append(gap - at)
                    break
                at -= gap
                if at > 1.2e8:  # past all of them: these frames wait for nothing
                    break
        waits.sort(reverse=True)
        for percent in (99.9, 99.99):
            counted = waits[round(400000 * (1 - percent / 100))]
            got = data.host_floor([{"rows": rows}, None], (percent,))[percent]
            self.assertLess(abs(got - counted) / counted, 0.25, f"p{percent}: {got} ns, counted {counted}")

    def test_without_a_probe(self):
        self.assertEqual(data.host_floor([None, None], (99.9,)), {})


class Drawing(unittest.TestCase):
    def test_numbers(self):
        self.assertEqual([svg.time_ns(v) for v in (0, 7, 999.6, 1234, 12.5e6, 3e9)], ["0 ns", "7 ns", "1 µs", "1.23 µs", "12.5 ms", "3 s"])
        self.assertEqual([svg.rate(v) for v in (5, 1500, 2.5e6)], ["5", "1.5 k", "2.5 M"])
        self.assertEqual(svg.percentile(99.9990), "p99.999")

    def test_scales(self):
        log = svg.Log(10, 1e4, 0, 300)
        self.assertEqual([round(log(v)) for v in (10, 100, 1e4)], [0, 100, 300])
        self.assertEqual([round(t) for t in log.ticks()], [10, 100, 1000, 10000])
        self.assertEqual([round(t) for t in svg.Log(10, 60, 0, 1).ticks()], [10, 20, 50])
        self.assertEqual(svg.decades([30, 700]), (20, 1000))
        self.assertEqual(svg.Linear(0, 7, 0, 70).ticks(4), [0, 2, 4, 6])

    def test_labels_do_not_touch(self):
        got = svg.spread([50, 51, 52, 10, 90], 12, 0, 100)
        order = sorted(got)
        self.assertTrue(all(b - a >= 11.9 for a, b in zip(order, order[1:])), got)
        self.assertTrue(got[0] < got[1] < got[2] and 0 <= order[0] and order[-1] <= 100, got)

    def test_what_is_lost_has_no_number(self):
        points, lost = data.spectrum({"spectrum": [[50.0, 10], [99.0, 20], [99.9, "lost"], [100.0, "lost"]]})
        self.assertEqual((points, lost), ([(50.0, 10), (99.0, 20)], 99.9))
        text = page.html(record([step(1e6, 2000), step(2e6, 5000, lost=100)]))
        self.assertIn("among the lost frames", text)
        self.assertNotIn("nan", text.lower().replace("nanosecond", ""))

    def test_a_bar_far_longer_than_the_rest_is_cut(self):
        frames = [{"name": "n", "cause": "", "whole_ns": ns, "parts": [("run", ns)]} for ns in (5e8, 3e5, 2e5, 2e5)]
        self.assertIn("» 500 ms", charts.worst(900, frames, "t"))

    def test_a_busy_machine_is_reported_first(self):
        probe = {"rows": [{"case": "core 1", "metric": "taken by gaps over 1 us", "median": 5.1}]}
        self.assertIn("this machine was busy: 5 %", page.html(record([step(1e6, 2000)], probe)))
        self.assertNotIn("was busy", page.html(record([step(1e6, 2000)])))

    def test_names_from_outside_stay_text(self):
        got = record([step(1e6, 2000)])
        got["faults"] = ["<script>alert(1)</script> & \"more\""]
        self.assertNotIn("<script>", page.html(got))


if __name__ == "__main__":
    unittest.main()
