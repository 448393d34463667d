#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The ten lines of tools/run: whose fault slow round trips are follows from what was measured, from nothing else."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools", "lib"))
from spwreport import book, brief  # noqa: E402  (found by the line above)

POINTS = {"p50_ns": 2500, "p99_ns": 9000, "p999_ns": None, "max_ns": "lost"}


def step(threads=(), slow=3, cause="handler_slow"):
    by = [{"cause": "beyond_sender", "frames": slow}] if slow else []
    return {"offered_fps": 5e3, "threads": list(threads),
            "gen": {"sent": 100, "echoed": 100, "lost": 0, "unsent": 0, "intended": 100, "round_trip": POINTS,
                    "corrupted": 0, "ports": [{"missed": 0}],
                    "causes": {"threshold_ns": 100000, "by": by}},
            "spinwire": {"ledger": {"received": 100, "missed": 0, "residual": 0, "consumed": 0, "bad": {"checksum": 0},
                                    "dropped": {"tx_full": 0}},
                         "latency": [{"stage": "polled_sent", "count": 100, **POINTS}]},
            "where": {"frames": slow, "whole_ns": 1e6, "by": [{"place": "start_end", "cause": cause, "ns": 1e6}],
                      "worst": [{"flow": 3, "seq": 77}] if slow else []}}


def thread(ran_ms, waited_ms):
    return {"program": "source", "name": "worker", "ran_ns": ran_ms * 1e6, "waited_ns": waited_ms * 1e6}


def record(taken=0.0):
    return {"hiccup": {"before": {"rows": [{"case": "core 0", "metric": "taken by gaps over 1 us", "median": taken}]},
                       "after": None}}


def lines(one, rec=None, cores=2, log=""):
    return list(brief.lines(rec or record(), one, cores, log, "explain {}".format))


class Because(unittest.TestCase):
    def because(self, threads, taken=0.0, cores=2, cause="handler_slow"):
        return brief.because(record(taken), step(threads, cause=cause), cores)

    def test_threads_that_share_cores(self):
        self.assertEqual(self.because([thread(600, 400)] * 4),
                         "this machine: threads that share 2 cores waited for 40 % of their time; on 4 quiet cores "
                         "expect about 2.5 µs")

    def test_few_cores_do_not_hide_other_programs(self):
        self.assertEqual(self.because([thread(600, 400)] * 4, taken=99.0),
                         "this machine: 99 % of a core went elsewhere while nothing but a probe ran on it; threads "
                         "that share 2 cores waited for 40 % of their time; on 4 quiet cores expect about 2.5 µs")

    def test_others_on_its_cores(self):
        self.assertEqual(self.because([thread(600, 400)] * 4, cores=8),
                         "this machine: other programs ran on the cores of its threads for 40 % of the time")

    def test_a_probe_that_lost_its_core(self):
        self.assertEqual(self.because([thread(1000, 1)], taken=12.0),
                         "this machine: 12 % of a core went elsewhere while nothing but a probe ran on it")

    def test_nothing_came_back(self):
        """That is no slow round trip of a busy machine."""
        one = step([thread(600, 400)] * 4)
        one["gen"].update(echoed=0, lost=100)
        one["spinwire"]["pool"] = {"leaked": 0}
        self.assertEqual(book.status_of({"steps": [one]}), 2)
        one["gen"].update(echoed=1, lost=99)
        self.assertEqual(book.status_of({"steps": [one]}), 0)
        one["gen"].update(echoed=0, lost=100)
        self.assertIn("no frame came back", brief.because(record(), one, 2))

    def test_a_cause_when_the_machine_was_quiet(self):
        self.assertEqual(self.because([thread(1000, 1)]), "handler_slow: the handler itself took long")
        self.assertIn("poll_gap: ", self.because([], cause="poll_gap"))


class Lines(unittest.TestCase):
    def test_lost_frames_have_a_place(self):
        one = step()
        one["gen"].update(echoed=90, lost=10, ports=[{"missed": 4}, {"missed": None}])
        one["spinwire"]["ledger"].update(missed=None, dropped={"tx_full": 3, "late": 0})
        self.assertIn("lost       3 dropped by spinwire (tx_full), 4 missed by the source's port, 3 counted by neither "
                      "port", lines(one))

    def test_all(self):
        log = "".join(f"spinwire: advice: {code}: x\n" for code in ("cores-shared", "hugepages-none", "cores-shared"))
        self.assertEqual(lines(step([thread(1000, 0)]), log=log), [
            "frames     sent 100 = echoed 100 + lost 0; unsent 0; spinwire received 100, residual 0",
            "round trip p50 2.5 µs, p99 9 µs, p99.9 -, longest lost, at 5 k frames/s",
            "spinwire   p50 2.5 µs, p99 9 µs, p99.9 -, longest lost: its own part, from polled to sent",
            "slow       3 of 100 round trips took more than 100 µs; their time: handler_slow 100 %",
            "because    handler_slow: the handler itself took long",
            "machine    latency here suffers from cores-shared, hugepages-none: see spinwire-doctor --full",
            "next       explain 3:77, the slowest; --full, every table"])

    def test_causes_sum_to_all_of_the_time(self):
        """The largest three, the others together, and the unknown, whose place is named, however large it is."""
        def slow(**ns):
            one = step([thread(1000, 0)])
            one["where"]["by"] = [{"place": place, "cause": cause, "ns": 1e4 * part}
                                  for cause, (place, part) in ns.items()]
            return [line.partition("their time: ")[2] or line for line in lines(one)
                    if line.startswith(("slow", "because"))]
        few = {"nic_late": ("in", 4), "poll_gap": ("nic_polled", 3), "wire": ("held", 2)}
        self.assertEqual(slow(**few, tx_stall=("reaped_sent", 1), unknown=("sent_out", 90)), [
            "nic_late 4 %, poll_gap 3 %, wire 2 %, 1 other 1 %, unknown 90 % (most of it at \"source's NIC, sent by\")",
            "because    unknown: no evidence"])
        self.assertEqual(slow(**few, tx_stall=("reaped_sent", 1), peer_late=("out", 1), sender_late=("due", 89)), [
            "sender_late 89 %, nic_late 4 %, poll_gap 3 %, 3 others 4 %",
            "because    sender_late: the source's loop was not there to send"])
        self.assertEqual(slow(unknown=("wire_out", 100))[0], 'unknown 100 % (most of it at "wire, out")')
        self.assertEqual(slow(wire=("wire_out", 99.6), unknown=("in", 0.4))[0], "wire 100 %")

    def test_nothing_was_slow(self):
        got = lines(step(slow=0))
        self.assertIn("slow       no round trip took more than 100 µs", got)
        self.assertFalse([line for line in got if line.startswith(("because", "machine"))])
        self.assertEqual(got[-1], "next       --full, every table")

    def test_nothing_came_back(self):
        one = step([thread(600, 400)] * 4)
        one["where"].update(frames=0, by=[], worst=[], whole_ns=0)
        self.assertIn("slow       3 of 100 frames: beyond_sender 3", lines(one))


if __name__ == "__main__":
    unittest.main()
