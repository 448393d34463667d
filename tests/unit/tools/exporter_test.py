#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/exporter before telemetry sockets that are torn, hostile, foreign, older, busy or mute: only the rows of that
process go."""
import contextlib
import copy
import http.client
import http.server
import importlib.machinery
import importlib.util
import json
import os
import socket
import sys
import tempfile
import threading
import unittest
from unittest import mock

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
sys.path[:0] = [os.path.join(ROOT, "tools", "lib"), os.path.join(ROOT, "tests", "e2e", "kit")]
import exposition  # noqa: E402  (found by the line above)
import spwlive  # noqa: E402
import spwtel  # noqa: E402

_loader = importlib.machinery.SourceFileLoader("exporter", os.path.join(ROOT, "tools", "exporter"))
exporter = importlib.util.module_from_spec(importlib.util.spec_from_loader("exporter", _loader))
_loader.exec_module(exporter)

GOOD = {
    "info": {"version": "0.1.0", "executor": "cpu", "handler": "echo", "running_ms": 1500, "tsc_hz": 2000000000},
    "ports": {"0000:01:00.0": {"driver": "ethdev", "rx_frames": 10, "rx_bytes": 640, "tx_frames": 9, "tx_bytes": 576,
                               "dropped_too_long": 1, "errors_link": 0}},
    "ledger": {"wire": 10, "received": 10, "executed": 10, "echoed": 9, "consumed": 1, "bad": 0, "dropped_no_slot": 0,
               "pool_slots": 512, "pool_free": 512},
    "lcores": {"1": {"port": "0000:01:00.0", "queue": 0, "frames": 10, "turn_max_ns": 900,
                     **dict.fromkeys(spwtel.REGIMES_TSC, 1000)}},
    "latency": {"polled_sent": {"count": 10, "p50_ns": 700, "uncertainty_ns": 5}},
    "handlers": {"0": {"name": "syn", "ports": "null", "digest": 143, "count_other": 7, "sum_syns": 143,
                       "by_syns": "port", "top_syns_443": 100, "top_syns_80": 43, "left_out_syns": 2}},
    "objects": {"0": {"name": "adc", "kind": "host", "pid": 7, "states_complete": 12, "causes_all": 12,
                      "slow_missing": 5}},
    "rules": {"0": {"port": 0, "name": "mlx5_0", "handler": "echo", "rule": "IPv4, UDP port 9", "frames": 10}},
    "causes": {"poll_gap": 2, "held_lost_times": 1, "held_lost_sum_ns": 5000},
    "histogram": {"le_100_ns": 0, "le_200_ns": 4, "le_500_ns": 10, "count": 10, "sum_ns": 3000},
}


class Fake:
    """A telemetry server in a folder of its own. answers: {command: object, or the bytes themselves, or None for
    silence}."""

    def __init__(self, top, prefix, answers, clients_max=10):
        self.answers, self.clients_max, self.clients, self.lock = answers, clients_max, 0, threading.Lock()
        os.makedirs(os.path.join(top, prefix))
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(os.path.join(top, prefix, "dpdk_telemetry.v2"))
        self.socket.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.socket.accept()
                threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def reply(self, name, key):
        got = self.answers.get(name)
        return got if isinstance(got, (bytes, type(None))) else json.dumps({key: got}).encode()

    def serve(self, client):
        with self.lock:
            self.clients += 1
            busy = self.clients > self.clients_max
        with contextlib.suppress(OSError), client:
            command = "greeting"
            while command and not busy:
                name = command.removeprefix("/spinwire/").split(",")[0]
                reply = self.reply(name, command.split(",")[0])
                if reply is not None:
                    client.send(reply)
                command = client.recv(1024).decode()
        with self.lock:
            self.clients -= 1


class Scrapes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="spinwire-unit-")
        self.addCleanup(folder.cleanup)
        self.top = folder.name
        for patch in (mock.patch.object(spwtel, "runtime_top", lambda: self.top),
                      mock.patch.object(exporter, "PROCESS_S", 30)):
            patch.start()
            self.addCleanup(patch.stop)

    def fake(self, prefix, clients_max=10, **changed):
        fake = Fake(self.top, prefix, {"greeting": {"pid": 1}, **copy.deepcopy(GOOD), **changed}, clients_max)
        self.addCleanup(fake.socket.close)
        return fake

    def scrape(self, processes, unreadable):
        text = exporter.scrape()
        exposition.judge(text)
        self.assertIn(f"\nspinwire_exporter_processes {processes}\n", text)
        self.assertIn(f"\nspinwire_exporter_unreadable_processes {unreadable}\n", text)
        return text

    def without(self, name, key):
        got = copy.deepcopy(GOOD[name])
        if key in got:
            del got[key]
        else:
            del next(iter(got.values()))[key]
        return {name: got}

    def changed(self, name, key, value):
        got = copy.deepcopy(GOOD[name])
        (got if key in got else next(iter(got.values())))[key] = value
        return {name: got}

    def test_one(self):
        self.fake("one")
        text = self.scrape(1, 0)
        for row in ('spinwire_port_rx_frames_total{process="one",port="0000:01:00.0"} 10',
                    'spinwire_slow_frames_total{process="one",cause="poll_gap"} 2',
                    'spinwire_stage_duration_seconds_bucket{process="one",stage="nic_polled",le="2e-07"} 4',
                    'spinwire_handler_digest{process="one",handler="syn"} 143',
                    'spinwire_handler_count_total{process="one",handler="syn",counter="other"} 7',
                    'spinwire_handler_count_total{process="one",handler="syn",counter="syns"} 143',
                    'spinwire_handler_left_out{process="one",handler="syn",counter="syns"} 2',
                    'spinwire_objects_total{process="one",stream="adc",state="complete"} 12',
                    'spinwire_object_causes_total{process="one",stream="adc",cause="all"} 12',
                    'spinwire_slow_objects_total{process="one",stream="adc",cause="missing"} 5',
                    'spinwire_handler_top_total{process="one",handler="syn",counter="syns",by="port",place="443"} 100',
                    'spinwire_frames_total{process="one",edge="echoed"} 9'):
            self.assertIn(f"\n{row}\n", text)

    def test_nobody(self):
        os.makedirs(os.path.join(self.top, "dead"))
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
            dead.bind(os.path.join(self.top, "dead", "dpdk_telemetry.v2"))  # as kill -9 leaves it
        self.scrape(0, 0)

    def test_a_bad_process_takes_its_own_rows_only(self):
        self.fake("good")
        bad = {
            "torn": {"ports": b'{"/spinwire/ports": {"p'}, "deep": {"ledger": b'{"/spinwire/ledger": ' + b"[" * 100000},
            "mute": {"causes": None}, "no greeting": {"greeting": None}, "greeting torn": {"greeting": b"{"},
            "list": {"ports": [1, 2]},
            "not utf-8": {"info": b'{"/spinwire/info": {"version": "\xff"}}'},
            "long": {"info": b'"' + b"x" * (spwtel.ANSWER_BYTES + 1000) + b'"'},
            "rows of numbers": {"lcores": {"1": 5}}, "no clock": self.changed("info", "tsc_hz", 0),
            "falling buckets": self.changed("histogram", "le_500_ns", 3), "histogram of text": {"histogram": "x"},
        }
        bad |= {f"no {name}.{key}": self.without(name, key) for name, key in (
            ("info", "version"), ("info", "tsc_hz"), ("ports", "rx_bytes"), ("ledger", "pool_slots"),
            ("lcores", "queue"), ("lcores", "rx_tsc"), ("objects", "name"),
            ("histogram", "sum_ns"))}
        bad |= {f"rx_frames {value!r}": self.changed("ports", "rx_frames", value) for value in (
            "7", None, True, -1, 1 << 64, [], "1\nspinwire_info 1")}
        bad |= {f"constant {value[:9]}": {"ports": b'{"/spinwire/ports": {"p": {"rx_frames": %s}}}' % value}
                for value in (b"NaN", b"Infinity", b"1" * 5000)}
        for prefix, changed in bad.items():
            self.fake(prefix, **changed)
        with mock.patch.object(exporter, "PROCESS_S", 5):
            text = self.scrape(1, len(bad))
        rows = [line for line in text.splitlines() if "process=" in line]
        self.assertTrue(rows and all('process="good"' in line for line in rows), rows)

    def test_other_programs_are_no_fault(self):
        self.fake("testpmd", info=b'{"/spinwire/info": null}')
        self.fake("stopping", ports={})
        self.scrape(0, 0)

    def test_names_stay_labels(self):
        evil = 'a"} 1\nspinwire_frames_total{process="good'
        self.fake("good")
        self.fake('quote"\\back', ports={evil: next(iter(GOOD["ports"].values())),
                                         "\ud800\x1b[2J": next(iter(GOOD["ports"].values()))})
        self.fake(os.fsdecode(b"not utf-8 \xff"), **self.changed("info", "version", 'x"\n# TYPE y counter'))
        text = self.scrape(3, 0)
        self.assertEqual(text.count('\nspinwire_frames_total{process="good",edge="received"} '), 1)
        self.assertNotIn("\x1b", text)
        self.assertIn(r'process="quote\"\\back",port="a\"} 1\\u000aspinwire_frames_total{process=\"good"', text)

    def test_a_port_may_say_its_name(self):
        """DPDK's dictionary keys carry no colon or point."""
        self.fake("one", ports={"0": {"name": "0000:01:00.0", **next(iter(GOOD["ports"].values()))}})
        self.assertIn('spinwire_port_rx_frames_total{process="one",port="0000:01:00.0"} 10', self.scrape(1, 0))

    def test_retransmits_are_there_where_they_are_known(self):
        row = next(iter(GOOD["ports"].values()))
        self.fake("one", ports={"0": {"name": "mlx5_0", **row, "retransmits": 7},
                                "1": {"name": "mlx5_1", **row, "retransmits": 0}, "2": {"name": "null", **row}})
        text = self.scrape(1, 0)
        self.assertEqual([line for line in text.splitlines() if line.startswith("spinwire_port_retransmits_total")],
                         [f'spinwire_port_retransmits_total{{process="one",port="{port}"}} {cnt}'
                          for port, cnt in (("mlx5_0", 7), ("mlx5_1", 0))])

    def test_two_ports_of_one_name_are_not_merged(self):
        row = {"name": "null", **next(iter(GOOD["ports"].values()))}
        self.fake("good")
        self.fake("one", ports={"0": row, "1": row})
        self.assertNotIn('process="one"', self.scrape(1, 1))

    def test_two_buckets_of_one_limit_are_one_series(self):
        self.fake("one", histogram={"le_100_ns": 1, "le_0100_ns": 1, "le_x_ns": 7, "count": 1, "sum_ns": 5})
        self.scrape(1, 0)

    def test_another_user_is_not_listened_to(self):
        self.fake("foreign")
        with mock.patch.object(os, "geteuid", lambda: 54321):
            self.assertNotIn("foreign", self.scrape(0, 0))

    def test_unsure_when_none_can_be_read(self):
        self.fake("busy", clients_max=0)
        with mock.patch.object(exporter, "PROCESS_S", 2), self.assertRaisesRegex(exporter.Unsure,
                                                                                   "busy: the program has ended, or "
                                                                                   "has too many clients"):
            exporter.scrape()

    def test_forty_at_once(self):
        """DPDK serves ten clients; every answer of 200 has the process."""
        self.fake("one", clients_max=10)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), exporter.Handler, bind_and_activate=False)
        server.request_queue_size = 64
        server.server_bind()
        server.server_activate()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        got = []

        def one():
            client = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
            client.request("GET", "/metrics")
            answer = client.getresponse()
            got.append((answer.status, answer.read().decode()))
            client.close()
        scrapes = [threading.Thread(target=one) for _ in range(40)]
        for thread in scrapes:
            thread.start()
        for thread in scrapes:
            thread.join()
        server.shutdown()
        server.server_close()
        self.assertEqual(len(got), 40)
        self.assertTrue(any(status == 200 for status, _ in got))
        for status, text in got:
            self.assertTrue(status == 503 or 'spinwire_info{process="one"' in text, (status, text[:300]))

    def test_top_leaves_a_broken_one_out(self):
        self.fake("broken", **self.without("lcores", "turn_max_ns"))
        self.assertRaises(ValueError, spwlive.Feed, "broken")
        self.fake("whole")
        feed = spwlive.Feed("whole")
        self.addCleanup(feed.close)
        self.assertIn("0000:01:00.0", "\n".join(spwlive.lines(feed)))

    def test_top_shows_objects(self):
        def row(**counters):
            return {"objects": {"0": {"name": "adc", "pid": 7, **counters}}}

        def stream(feed):
            return next((line.split() for line in spwlive.lines(feed) if line.startswith("adc")), None)

        with mock.patch.object(spwlive.time, "monotonic", iter(range(10)).__next__):
            self.fake("none", objects={})
            feed = spwlive.Feed("none")
            self.addCleanup(feed.close)
            self.assertNotIn("STREAM", "\n".join(spwlive.lines(feed)))
            fake = self.fake("adc", **row(states_complete=9, causes_all=9))
            feed = spwlive.Feed("adc")
            self.addCleanup(feed.close)
            self.assertEqual(stream(feed), "adc 0 0 0 none since start".split())
            fake.answers |= row(states_complete=29, states_partial=3, states_shed=2000, causes_all=29,
                                causes_deadline=3, causes_no_buffer=2000)
            feed.refresh()
            self.assertEqual(stream(feed), "adc 20 3 2.00k no_buffer 2.00k (of 2.00k)".split())
            fake.answers |= row(states_complete=30, states_partial=7, states_shed=2000, causes_all=30,
                                causes_deadline=7, causes_no_buffer=2000, slow_missing=4, slow_consumer=3)
            feed.refresh()
            self.assertEqual(stream(feed), "adc 1 4 0 deadline 4 (of 7)".split())
            self.assertIn(" slow or shed 7 since start, most of them missing 4 (of 4)", "\n".join(spwlive.lines(feed)))
            self.assertTrue(all(len(line) <= 80 for line in spwlive.lines(feed) if line[:6] in ("STREAM", "adc   ")))


if __name__ == "__main__":
    unittest.main()
