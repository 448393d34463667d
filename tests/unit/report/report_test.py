#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the report derives: the knee, joined frames, the idle machine's floor; and scales, ticks and labels."""
import html
import math
import os
import random
import re
import sys
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools", "lib"))
import spwjoin  # noqa: E402
from spwreport import advice, brief, charts, data, page, parts, svg, where  # noqa: E402  (found two lines above)

HZ = 2_000_000_000


def step(fps, p99, intended=10000, lost=0, **more):
    """One measured load; times in ns."""
    points = {"p50_ns": 1000, "p90_ns": 1500, "p99_ns": p99, "p999_ns": "lost" if lost else 2 * p99, "p9999_ns": None,
              "max_ns": "lost" if lost else 9 * p99}
    gen = {"intended": intended, "sent": intended, "unsent": 0, "lost": lost, "echoed": intended - lost, "seconds": 1.0,
           "duplicated": 0, "reordered": 0,
           "corrupted": 0, "round_trip": {"count": intended - lost, **points},
           "schedule_error": {"count": intended, "p999_ns": 80},
           "tsc_hz": HZ, "host": {"boot_id": "b"}, **more.get("gen", {})}
    spinwire = {"version": "0", "host": {"boot_id": "b", "dpdk": "D", "tsc_hz": HZ}, "tsc_hz": HZ, "latency": [],
                "regimes": {},
                "ledger": {"received": intended, "executed": intended, "echoed": intended - lost,
                           "dropped": {"tx_full": lost}, "bad": {}, "residual": 0},
                "pool": {"leaked": 0}, "executor": {"kind": "cpu", "mode": "thread", "device": "d"},
                "memory": {"kind": "host", "why": "w", "h2d_copies": 0}, **more.get("spinwire", {})}
    return {"share": None, "offered_fps": fps, "seconds": 1, "gen": gen, "spinwire": spinwire, "machine": None,
            "faults": [], "note": None}


def record(steps, hiccup=None):
    return {"title": "T", "begun": "now", "settings": [], "machine": [], "carries": None,
            "hiccup": {"before": hiccup, "after": None}, "steps": steps,
            "faults": []}


class Knee(unittest.TestCase):
    def test_highest_load_that_holds(self):
        steps = [step(1e6, 2000), step(2e6, 2500), step(3e6, 5900), step(4e6, 6100), step(5e6, "lost", lost=500)]
        self.assertIs(data.knee(steps), steps[2])  # 6100 is more than 3 times 2000

    def test_the_terminal_shows_what_the_report_does(self):
        steps = [step(1e6, 2000), step(2e6, 2500), step(3e6, 9000)]
        lines = list(brief.sweep_lines(record(steps), "folder"))
        self.assertEqual(lines, ["knee       2 M frames/s at the knee: p99 within 3 times its best, at most 0.1 % "
                                 "missing", "to do      Load this path with at most 2 M frames/s, its knee: beyond it "
                                 "p99 is above three times the best, or frames are missing."])
        text = html.unescape(re.sub("<[^>]*>", "", page.html(record(steps))))
        for line in lines:
            self.assertIn(re.sub(r"^(knee|to do) +(2 M )?", "", line), text)
        self.assertEqual(list(brief.sweep_lines(record([]), "folder")), [])

    def test_missing_frames_are_no_knee(self):
        steps = [step(1e6, 2000), step(2e6, 2000, lost=11), step(3e6, 2000, lost=10)]
        self.assertIs(data.knee(steps), steps[2])  # 0.10 % is allowed, 0.11 % is not
        self.assertIsNone(data.knee([step(1e6, 2000)]))


    def test_no_knee_is_claimed_from_noise(self):
        """p99 that falls over the load to less than a third is the machine's, not the path's."""
        def over_load(*p99):
            return [step((i + 1) * 1e5, ns, lost=500 * (ns == "lost")) for i, ns in enumerate(p99)]
        ms = 1e6
        noise = over_load(212 * ms, 6 * ms, 66 * ms, 10 * ms, 62 * ms)
        self.assertIsNone(data.knee(noise))
        self.assertEqual(data.fall(noise), (noise[0], noise[1]))
        self.assertEqual(data.fall(noise[::-1]), (noise[0], noise[1]))  # the order of measuring is none
        self.assertIsNone(data.knee(over_load(2000, "lost", 2500)))
        for falls, ok in (((3000, 1000, 1000), True), ((3010, 1000, 1000), False), ((2000, 9000, 2900), False)):
            steps = over_load(*falls)
            self.assertIs(data.knee(steps), steps[-1] if ok else None, falls)
        steps = over_load(2000, 2500, 90000, "lost", "lost")
        self.assertIs(data.knee(steps), steps[1])

    def test_a_knee_that_no_load_passed_may_lie_higher(self):
        steps = [step(1e6, 2000), step(2e6, 2500), step(3e6, 9000)]
        for measured, part in ((steps, "Load this path with at most 2 M"), (steps[:2], "Offer more than 2 M")):
            self.assertIn(part, page.html(record(measured)))
            self.assertEqual("no higher load was measured" in page.html(record(measured)), len(measured) == 2)

    def test_the_page_gives_the_reason_for_no_knee(self):
        noise = [step(1e5, 212_000_000), step(2e5, 6_000_000), step(3e5, 66_000_000)]
        text = page.html(record(noise))
        for part in ("<b>no knee</b>", "not monotone", "212 ms at 100 k to 6 ms at 200 k", "the machine was busy"):
            self.assertIn(part, text)
        self.assertNotIn("at the knee", text)
        self.assertNotIn("no knee", page.html(record([step(1e6, 2000), step(2e6, 2500)])))
        text = page.html(record([step(1e6, 2000, lost=11), step(2e6, 2500, lost=90)]))
        self.assertIn("<b>no knee</b><span>at nearly every load more than 0.1 % of the frames are missing", text)


def leg(place, ns, **causes):
    return {"place": place, "from_ns": 0, "ns": ns, "blame_ns": causes}


class Where(unittest.TestCase):
    def both(self, **where):
        """Two slow frames a while apart; spinwire's own worst batch."""
        frame = {"flow": 3, "seq": 7, "due_tsc": 1000, "whole_ns": 4000, "joined": True, "like": 0,
                 "legs": [leg("due", 200, sender_late=200), leg("wire_out", 300, wire=100, nic_late=200),
                          leg("held", 500, wire=500), leg("echo", 3000, sender_behind=2900, unknown=100)]}
        other = {**frame, "seq": 9, "due_tsc": 21000, "whole_ns": 3900,
                 "legs": [leg("start_end", 3900, handler_slow=3900)]}
        batch = {"whole_ns": 1500, "cause": "handler_slow", "seq": 1, "frames": 2, "ident": {"flow": 2, "seq": 7},
                 "blame_ns": {"handler_slow": 900, "tx_stall": 600},
                 "stamps": {"sent_tsc": 5000}}
        got = {"frames": 2, "joined": 2, "every": 1, "uncertainty_ns": 250, "defects": 0, "whole_ns": 7900,
               "attributed": 0.987, "worst": [frame, other],
               "by": [{"place": leg["place"], "cause": cause, "ns": ns} for f in (frame, other) for leg in f["legs"]
                      for cause, ns in leg["blame_ns"].items()],
               "behind": [{"who": "source", "from_ns": 2e9, "ns": 3000, "waits": 1}], **where}
        return {**step(1e6, 2000, spinwire={"worst": [batch]}), "where": got}

    def test_parts_are_places_and_sum_to_the_whole(self):
        first, second = data.worst_frames(self.both())
        self.assertEqual(first["parts"], [("due", 200), ("wire_out", 300), ("wire_out", 500), ("echo", 3000)])
        self.assertEqual(sum(ns for _, ns in first["parts"]), first["whole_ns"])
        self.assertEqual([f["cause"] for f in (first, second)],
                         ["sender_behind, 72 % of it", "handler_slow, 100 % of it"])

    def test_one_of_each_stall(self):
        """Frames that waited at the same time are one row."""
        got = self.both()
        frame = got["where"]["worst"][0]
        got["where"]["worst"] += [{**frame, "seq": 6, "due_tsc": 1200, "whole_ns": 3800},
                                  {**frame, "seq": 5, "due_tsc": 8799, "whole_ns": 1500}]
        self.assertEqual([f["name"] for f in data.worst_frames(got)], ["flow 3, no. 7 (+2)", "flow 3, no. 9"])

    def test_sums(self):
        got = self.both()["where"]
        self.assertEqual([(c, round(s * 7900)) for c, s in where.by_cause(got)],
                         [("handler_slow", 3900), ("sender_behind", 2900), ("wire", 600), ("sender_late", 200),
                          ("nic_late", 200), ("unknown", 100)])
        self.assertEqual([(key, round(share * 7900)) for key, _, share, _ in where.by_place(got)],
                         [("due", 200), ("wire_out", 800), ("start_end", 3900), ("echo", 3000)])

    def test_the_thread_that_was_away_for_the_longest_is_first(self):
        got = step(1e6, 2000, gen={"loop_gap": {"max_ns": 300}})
        got["spinwire"]["held"] = {"lost": {"times": 1, "sum_ns": 700, "max_ns": 700},
                                   "tx": {"times": 1, "sum_ns": 40, "max_ns": 40}, "switched_out": 1}
        got["nics"] = [{"late_us": 9}, {"naps": 4}]
        self.assertEqual(data.away(got), [("the source's NIC thread", 9000), ("spinwire's loop", 700),
                                          ("the source's loop", 300)])
        self.assertEqual(data.away(step(1e6, 2000)), [])

    def test_the_page_has_them(self):
        text = page.html(record([self.both(), self.both()]))
        for part in ("flow 3, no. 7", "sender_behind, 72 % of it", "batch 1, 2 frames", "98.7 %", "source: not polled",
                     "the source&#x27;s loop: 3 µs from 2.00 s on"):
            self.assertIn(part, text)

    def test_a_part_too_short_for_its_number_has_it_in_the_table(self):
        """sender_late has 200 of 7900 ns: 2.5 %."""
        text = html.unescape(re.sub(r"<[^>]*>", " ", page.html(record([self.both()]))))
        self.assertIn("sender_late 2.5 %", " ".join(text.split()))
        self.assertIn("source: not taken 2.5 %", " ".join(text.split()))

    def test_what_to_do(self):
        """The largest cause at the knee names the remedy; one load alone names the frame to look at."""
        got, idle = self.both(), self.both(frames=0)
        self.assertEqual(advice.lines(record([got]), [got], None)[0][:53],
                         "Begin with handler_slow, 49 % of slow round trips' ti")
        self.assertIn("tools/run --explain 3:7", advice.lines(record([got]), [got], None)[1])
        self.assertIn(advice.REMEDY["handler_slow"], advice.lines(record([got, got]), [got, got], got)[1])
        self.assertIn("No round trip was slow", advice.lines(record([idle]), [idle], None)[0])

    def test_the_command_to_repeat_is_whole(self):
        """Named as it is installed, with the folder that the report is in."""
        got = self.both()
        text = page.html(record([got]), "/tmp/a b")
        self.assertIn("tools/run --out '/tmp/a b' --explain 3:7", html.unescape(re.sub(r"<[^>]*>", "", text)))
        self.assertIn("<span class=whole>--explain</span>", text)  # not broken at its dashes on a phone
        with unittest.mock.patch("spwlab.INSTALLED", True):
            last = advice.lines(record([got]), [got], None, "/tmp/x")[-1]
        self.assertIn(": spinwire-run --out /tmp/x --explain 3:7", last)
        self.assertNotIn("tools/", last)
        self.assertNotIn("--explain", page.html(record([got, {**got, "gen": None}])))  # not of the first step alone

    def test_every_cause_has_a_remedy_and_a_meaning(self):
        names = set()
        for header, macro in (("rec/spw_cause.h", "SPW_CAUSE_LIST"), ("gen/spw_gen_slow.h", "GEN_CAUSE_LIST")):
            with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "lib", header),
                      encoding="utf-8") as file:
                body = re.search(rf"#define {macro}\([^)]*\)(.*?)\n\n", file.read(), re.S)
            names |= set(re.findall(r"X\((?:P, )?(\w+),", body[1]))
        # of the sender alone: the join resolves the first, the others have no round trip
        names -= {"beyond_sender", "lost", "unsent"}
        self.assertTrue(len(names) > 10 and names <= set(advice.REMEDY), names - set(advice.REMEDY))
        self.assertEqual(set(spwjoin.TEXTS), set(advice.REMEDY))

    def test_every_stage_has_a_gloss(self):
        """What it is from and to stands beside its name, wide and narrow, and in the list of words."""
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "lib", "rec",
                               "spw_stage.h"), encoding="utf-8") as file:
            names = re.findall(r"X\(P, (\w+),", re.search(r"SPW_STAGE_LIST\(.*?\n\n", file.read(), re.S)[0])
        self.assertEqual(set(names) - set(charts.STAGE_TEXT), set())
        self.assertGreater(len(names), 8)
        row = {"stage": "polled_sent", "count": 100, "uncertainty_ns": 3, "spectrum": [[50.0, 1000], [100.0, 3000]]}
        text = html.unescape(page.html(record([step(1e6, 2000, spinwire={"latency": [row]})])))
        self.assertIn('polled_sent<span class="gloss">: polled to sent or recycled', text)
        self.assertIn("<td>nic_sent</td><td class=wrap>the NIC's stamp to sent or recycled", text)

    def test_time_beyond_spinwire_is_shaded(self):
        trip = {"count": 100, "spectrum": [[50.0, 7000], [99.0, 9000], [100.0, 9900]]}
        row = {"stage": "nic_sent", "count": 100, "spectrum": [[50.0, 1000], [99.0, 2000], [100.0, 3000]]}
        both = step(1e6, 2000, gen={"round_trip": trip}, spinwire={"latency": [row]})
        self.assertEqual(charts.spectra(900, "t", charts.stage_lines(both)).count('<polygon class="beyond"'), 1)
        self.assertNotIn("<polygon", charts.spectra(900, "t", charts.stage_lines(both)[:1]))

    def test_what_could_not_be_joined_is_said(self):
        got = self.both()
        got["where"] = {"fault": "x.trail is no trail"}
        self.assertIn("could not be joined: x.trail is no trail", page.html(record([got])))


class Floor(unittest.TestCase):
    def test_against_a_count(self):
        """Gaps of a made-up core; frames thrown at it one by one."""
        rng, gaps, seconds = random.Random(1), [], 10.0
        gaps += [rng.uniform(3e3, 3e4) for _ in range(4000)] + [rng.uniform(1e5, 2e6) for _ in range(60)]
        limits = [m * 10 ** e for e in range(2, 9) for m in (1, 2, 5)]
        rows = [{"case": "core 1", "metric": f"waits over {limit} ns", "median": sum(max(0.0, g - limit) for g in gaps)
                 / seconds / 1e3} for limit in limits]
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


def oklab(colour):
    """Coordinates in which a distance of 0.02 is just seen."""
    r, g, b = linear(colour)
    l, m, s = ((x * r + y * g + z * b) ** (1 / 3) for x, y, z in
               ((.41222, .53633, .05145), (.21190, .68070, .10740), (.08830, .28172, .62998)))
    return (.21045 * l + .79362 * m - .00407 * s, 1.97800 * l - 2.42859 * m + .45059 * s,
            .02590 * l + .78277 * m - .80868 * s)


def linear(colour):
    """Red, green and blue of "#rrggbb" as shares of light."""
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]


class Colours(unittest.TestCase):
    def themes(self):
        """[{name: colour}]: light, then dark."""
        with open(os.path.join(os.path.dirname(charts.__file__), "report.css"), encoding="utf-8") as file:
            blocks = re.findall(r":root \{(.*?)\}", file.read(), re.S)
        return [dict(re.findall(r"--(\w+): (#[0-9a-f]{3,6});", block)) for block in blocks]

    def test_no_two_parts_of_a_chart_look_alike(self):
        for theme in self.themes():
            for classes in (charts.PLACE_CLASS, charts.CAUSE_CLASS, charts.STAGE_CLASS):
                self.assertEqual(len(set(classes.values())), len(classes), classes)
                at = {key: oklab(theme[cls]) for key, cls in classes.items()}
                near = min((math.dist(at[a], at[b]), a, b) for a in at for b in at if a < b)
                self.assertGreater(near[0], 0.05, near)

    def test_every_part_stands_out_from_the_page(self):
        for theme, page_light in zip(self.themes(), (1.0, 0.0093)):
            for cls in {*charts.PLACE_CLASS.values(), *charts.CAUSE_CLASS.values(),
                        *(f"q{i}" for i in range(8))} - {"s9"}:
                light = sum(w * c for w, c in zip((.2126, .7152, .0722), linear(theme[cls])))
                dim, bright = sorted((light, page_light))
                self.assertGreater((bright + 0.05) / (dim + 0.05), 3, cls)


class Drawing(unittest.TestCase):
    def test_numbers(self):
        self.assertEqual([svg.time_ns(v) for v in (0, 7, 999.6, 1234, 12.5e6, 3e9)],
                         ["0 ns", "7 ns", "1 µs", "1.23 µs", "12.5 ms", "3 s"])
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

    def test_no_text_of_a_scale_runs_off_the_drawing(self):
        plot = svg.Plot(370, 200, "t", "d")
        plot.x, plot.y = svg.Log(1, 1e5, plot.x0, plot.x1), svg.Linear(0, 1, plot.y0, plot.y1)
        plot.x_ticks([(1e5, "99.999 999")], "x")
        plot.y_ticks([(1, "a hundred million")], "y")
        half = svg.text_px("99.999 999") / 2
        at = [float(x) for x in re.findall(r'<text x="(-?[\d.]+)"', plot.svg())]
        self.assertTrue(at[0] + half <= 370 and min(at) >= 0, at)

    def test_a_cell_carries_the_name_of_its_column(self):
        """On a narrow screen the style sheet writes it above the value."""
        got = parts.table(["load", "p99 & \"more\"", "max"], [["1 M", "lost", None]])
        self.assertEqual(html.unescape("".join(re.findall(r'<td(.*?)>', got))),
                         ' data-name="load" class=lost data-name="p99 & "more"" data-name="max"')

    def test_bars_have_one_scale(self):
        """A frame far longer than the rest makes the others short, as they are."""
        frames = [{"name": "f", "cause": "c", "whole_ns": ns, "parts": [("echo", ns)]} for ns in (500e6, 5e6)]
        widths = [float(w) for w in re.findall(r'<rect x="[\d.]+" y="[\d.]+" width="([\d.]+)"',
                                               charts.worst(900, frames, "t"))]
        self.assertAlmostEqual(widths[0] / widths[1], 100, delta=12)

    def test_each_part_of_a_bar_has_its_number(self):
        parts = {"poll_gap": 0.6, "wire": 0.3, spwjoin.UNKNOWN: 0.1}
        drawn = charts.shares(900, [("1 M", parts)], list(parts), charts.CAUSE_CLASS, "t", "x")
        self.assertEqual(re.findall(r'class="(inbar[ a-z]*)">(\d+ %)<', drawn),
                         [("inbar", "60 %"), ("inbar", "30 %"), ("inbar pale", "10 %")])

    def test_a_busy_machine_is_reported_first(self):
        probe = {"rows": [{"case": "core 1", "metric": "taken by gaps over 1 us", "median": 5.1}]}
        text = page.html(record([step(1e6, 2000)], probe))
        self.assertIn("this machine was busy: 5 %", text)
        self.assertIn("<ol><li>Stop what else runs on this machine", text)
        self.assertNotIn("this machine was busy", page.html(record([step(1e6, 2000)])))

    def test_names_from_outside_stay_text(self):
        got = record([step(1e6, 2000)])
        got["faults"] = ["<script>alert(1)</script> & \"more\""]
        self.assertNotIn("<script>", page.html(got))


if __name__ == "__main__":
    unittest.main()
