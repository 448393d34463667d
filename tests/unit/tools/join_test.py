#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trails with known answers: where a slow frame's time went, and why. The trails are written by hand, in ticks of 1
ns."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools", "lib"))
import spwjoin  # noqa: E402  (found by the line above)
from spinwire import results  # noqa: E402
from spwjoin import BATCH, BLAME, CAME, DONE, FRAME, GAP, HELD, SENT, SLOW  # noqa: E402
from spwreport import where  # noqa: E402

HZ = 1_000_000_000
NAMES = {"source": b"gap=poll,send,refused,behind",
         "loop": b"gap=lost,port,push,tx,refill;cause=poll_gap,handler_slow,tx_stall,exec_late",
         "nic": b"gap=nap,lost,round"}
CAUSES = ["poll_gap", "handler_slow", "tx_stall", "exec_late"]


def record(kind, *at, what=0, flow=3, seq=7):
    return results.TRAIL_RECORD.pack(kind, what, flow, seq, *at, *[0] * (7 - len(at)))


def trail(names, records, every=1, lost=0):
    return results.TRAIL_HEAD.pack(b"SPWTRAIL", results.TRAIL_VERSION, every, len(records) + lost, len(records),
                             NAMES[names]) + b"".join(records)


class Way:
    """One frame's way, each stamp at its time; a test moves what it wants. 1000 us, 100 us of which at each of ten
    places."""
    AT = {"due": 0, "taken": 100, "handed": 100, "db": 200, "committed": 200, "flushed": 200, "stamped": 300,
          "cqe": 300, "polled": 400, "pushed": 400,
          "start": 500, "end": 600, "reaped": 600, "sent": 700, "back_db": 800, "back_committed": 800,
          "back_flushed": 800, "home": 900, "home_cqe": 900,
          "echo": 1000, "drained": 950, "empty": 350}

    def __init__(self, base=1_000_000, flow=3, seq=7, **moved):
        self.base, self.flow, self.seq = base, flow, seq
        self.at = {key: base + us * 1000 for key, us in {**self.AT, **moved}.items()}

    def rec(self, kind, *names, **more):
        return record(kind, *(self.at[n] if isinstance(n, str) else n for n in names), flow=self.flow, seq=self.seq,
                      **more)

    def source(self):
        return [self.rec(SLOW, "due", "taken", "handed", "drained", "echo")]

    def loop(self, batch=1, nic=True, unc=0):
        return [self.rec(FRAME, "stamped" if nic else 0, batch, "empty", batch, unc),
                self.rec(BATCH, batch, "polled", "pushed", "start", "end", "reaped", "sent")]

    def card(self, number=1, nic=True, unc=0, sender=0):
        """What the source notes of its card: the stamp of the echo, and which of a sender's frames it was."""
        return [self.rec(FRAME, "home" if nic else 0, "echo", "drained", number, unc, what=sender)]

    def peer(self):
        return [self.rec(SENT, "db", "committed", "flushed"), self.rec(CAME, "home", "home_cqe")]

    def nic(self):
        return [self.rec(CAME, "stamped", "cqe"), self.rec(SENT, "back_db", "back_committed", "back_flushed")]

    def done(self, us, number=1, unc=0):
        return record(DONE, number, self.base + round(us * 1000) if us else 0, unc)

    def gap(self, first, last, what=0):
        return record(GAP, self.base + first * 1000, self.base + last * 1000, what=what)


def blame(part, *shares, batch=1):
    return record(BLAME, batch, *(CAUSES.index(cause) << 56 | ticks for cause, ticks in shares), what=part)


class Join(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name, data):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as out:
            out.write(data)
        return path

    def sides(self, ways, source=(), loop=(), peer=(), nic=(), nics=True, unc=0, card=False):
        rows = {"source": [r for w in ways for r in w.source()],
                "loop": [r for n, w in enumerate(ways) for r in w.loop(n + 1, unc=unc)],
                "peer": [r for w in ways for r in w.peer()], "nic": [r for w in ways for r in w.nic()]}
        files = [self.file("source", trail("source", rows["source"] + list(source))),
                 self.file("loop", trail("loop", rows["loop"] + list(loop)))]
        if nics:
            files += [self.file("peer", trail("nic", rows["peer"] + list(peer))),
                      None if card else self.file("nic", trail("nic", rows["nic"] + list(nic)))]
        return spwjoin.load(*files)

    def row(self, *args, **kwargs):
        total = spwjoin.join(self.sides(*args, **kwargs), HZ)
        self.assertEqual(total.frames, 1)
        row = total.worst[0]
        self.assertEqual(sum(end - begin for _, begin, end, _ in row.legs), row.whole)
        for _, begin, end, shares in row.legs:
            self.assertAlmostEqual(sum(shares.values()), end - begin)
        return row

    def legs(self, row):
        return {key: (round((end - begin) / 1000), {c: round(t / 1000) for c, t in shares.items()})
                for key, begin, end, shares in row.legs}

    def test_each_place_and_no_evidence(self):
        row = self.row([Way()])
        self.assertTrue(row.whole_known)
        self.assertEqual(self.legs(row), {
            "due": (100, {"unknown": 100}), "out": (100, {"unknown": 100}), "wire_out": (100, {"wire": 100}),
            "nic_polled": (100, {"unknown": 100}),
            "pushed_start": (100, {"unknown": 100}), "start_end": (100, {"unknown": 100}),
            "reaped_sent": (100, {"unknown": 100}),
            "back": (100, {"unknown": 100}), "wire_back": (100, {"wire": 100}), "echo": (100, {"unknown": 100})})

    def test_a_cause_at_each_place(self):
        """Every thread was away for 80 of the 100 us for which the frame waited for it."""
        w = Way()
        row = self.row([w], source=[w.gap(10, 90), w.gap(910, 990)], peer=[w.gap(110, 190, 1), w.gap(810, 890)],
                       nic=[w.gap(210, 290), w.gap(710, 790, 2)],
                       loop=[w.gap(310, 390), blame(2, ("exec_late", 40000), ("poll_gap", 60000)),
                             blame(3, ("handler_slow", 100000)), blame(5, ("tx_stall", 50000))])
        self.assertEqual(self.legs(row), {
            "due": (100, {"sender_late": 80, "unknown": 20}), "out": (100, {"peer_late": 80, "unknown": 20}),
            "wire_out": (100, {"nic_late": 80, "wire": 20}),
            "nic_polled": (100, {"poll_gap": 80, "unknown": 20}),
            "pushed_start": (100, {"exec_late": 40, "poll_gap": 60}),
            "start_end": (100, {"handler_slow": 100}), "reaped_sent": (100, {"tx_stall": 100}),
            "back": (100, {"nic_late": 80, "unknown": 20}),
            "wire_back": (100, {"peer_late": 80, "wire": 20}), "echo": (100, {"sender_behind": 80, "unknown": 20})})

    def test_held_on_the_wire(self):
        """A fault held the frame for 60 us: that is the wire's, whoever was away meanwhile."""
        w = Way(stamped=300, flushed=200)
        row = self.row([w], peer=[record(HELD, w.base + 260_000)], nic=[w.gap(205, 295)])
        self.assertEqual(self.legs(row)["held"], (60, {"wire": 60}))
        self.assertEqual(self.legs(row)["wire_out"], (40, {"nic_late": 35, "wire": 5}))

    def test_the_port_refused(self):
        """The frame was not taken because those before it were refused: by the NIC that slept, by spinwire's loop, by a
        full path."""
        w = Way()
        refused = [w.gap(10, 90, 2), w.gap(20, 30), w.gap(5, 95, 3)]
        self.assertEqual(self.legs(self.row([w], source=refused, peer=[w.gap(40, 90)]))["due"],
                         (100, {"sender_late": 20, "peer_late": 50, "port_full": 20, "unknown": 10}))
        self.assertEqual(self.legs(self.row([w], source=refused, loop=[w.gap(0, 60)], nics=False))["due"],
                         (100, {"sender_late": 20, "poll_gap": 60, "port_full": 10, "unknown": 10}))

    def test_queueing_in_the_port(self):
        self.assertEqual(self.legs(self.row([Way(empty=250)]))["nic_polled"], (100, {"port_backlog": 100}))

    def test_not_emptied_by_the_source(self):
        self.assertEqual(self.legs(self.row([Way(drained=850)]))["echo"], (100, {"sender_behind": 100}))

    def test_without_trails_of_nics(self):
        """A card's stamp divides the way there; what lies between the two programs' stamps has no name."""
        w = Way()
        row = self.row([w], nics=False, loop=[blame(0, ("poll_gap", 100000))])
        self.assertEqual(self.legs(row)["wire_out"], (200, {"unknown": 200}))
        self.assertEqual(self.legs(row)["nic_polled"], (100, {"poll_gap": 100}))
        self.assertEqual(self.legs(row)["echo"][0], 300)

    def test_a_card_that_reports_what_it_sent(self):
        """No trail of spinwire's NIC: its send completion divides the way back, and is no cause. Nor is a NIC that had
        sent at once."""
        w = Way()
        row = self.row([w], nics=False, loop=[w.done(790)])
        self.assertEqual(self.legs(row)["sent_by"], (90, {"unknown": 90}))
        self.assertEqual(self.legs(row)["beyond"], (210, {"unknown": 210}))
        self.assertEqual(row.sent_by, {"nic": 90_000})
        for us, cleared in ((790, 1), (825, 1), (826, 0)):
            sides = self.sides([w], nics=False, loop=[w.done(us)])
            total = spwjoin.join(sides, HZ)
            self.assertEqual(total.bounded, {"peer": [0, 0], "nic": [1, cleared]}, us)
            self.assertIn(f"  spinwire's NIC completed {cleared} of 1 within an eighth of their time: what those "
                          f"waited for was not its send queue",
                          where.lines(where.summary(total, sides, {})))
        self.assertEqual(self.legs(self.row([Way(drained=750)], nics=False, loop=[w.done(760)]))["beyond"],
                         (240, {"sender_behind": 240}))

    def test_a_card_beside_a_nic_with_a_trail(self):
        """The source's NIC has a trail: beyond the completion lie wire and source as ever."""
        w = Way()
        legs = self.legs(self.row([w], card=True, loop=[w.done(790)]))
        self.assertEqual([(key, took) for key, (took, _) in legs.items()][-4:], [("reaped_sent", 100), ("sent_by", 90),
                                                                                 ("wire_back", 110), ("echo", 100)])

    def test_the_completion_that_covers_a_frame(self):
        """The first whose number is not below the frame's; a flush says nothing; one behind the way home is no more
        than a bound."""
        w = Way()
        for done, sent_by in (([w.done(750, 1)], 50), ([w.done(750, 4)], 50),
                              ([w.done(740, 0), w.done(760, 2), w.done(770, 3)], 60),
                              ([w.done(0, 1), w.done(770, 2)], None),
                              ([w.done(740, 0)], None), ([], None), ([w.done(1200, 1)], 300), ([w.done(650, 1)], 0)):
            row = self.row([w], nics=False, loop=done)
            self.assertEqual((row.sent_by, row.defects), ({} if sent_by is None else {"nic": sent_by * 1000}, 0), done)
        legs = self.legs(self.row([w], nics=False, loop=[w.done(650, 1)]))
        # the stamp of the hand-over was read late
        self.assertEqual((legs["reaped_sent"][0], legs["beyond"][0]), (50, 350))
        self.assertEqual(self.legs(self.row([w], loop=[w.done(790)])), self.legs(self.row([w])))  # a trail knows better

    def test_a_frame_that_was_refused(self):
        """It was not among those that the port took: no completion is its own."""
        w = Way()
        sides = self.sides([w], nics=False, loop=[w.done(750)])
        key = w.flow << 32 | w.seq
        lane, rec = sides.frames[key][0]
        sides.frames[key] = [(lane, (*rec[:7], 0, *rec[8:]))]
        self.assertEqual(spwjoin.join(sides, HZ).worst[0].sent_by, {})

    def test_a_completion_before_its_time(self):
        """It lies before the frame was reaped: within the clock's uncertainty that is cut, beyond it a defect."""
        for early, unc, defects in ((200, 0, 0), (300, 0, 1), (300, 100, 0), (400, 100, 1)):
            w = Way()
            row = self.row([w], nics=False, loop=[w.done(600 - early / 1000, unc=unc)])
            self.assertEqual(row.defects, defects, (early, unc))

    def test_the_sources_card(self):
        """The source's NIC has no trail, but a clock: its send completion divides the way there and is no cause, its
        stamp of the echo the way back, and what follows that is the source's loop's."""
        w = Way()
        row = self.row([w], nics=False, source=[w.done(190), *w.card()], loop=[w.done(790)])
        self.assertEqual(self.legs(row), {
            "due": (100, {"unknown": 100}), "sent_out": (90, {"unknown": 90}), "wire_out": (110, {"unknown": 110}),
            "nic_polled": (100, {"unknown": 100}),
            "pushed_start": (100, {"unknown": 100}), "start_end": (100, {"unknown": 100}),
            "reaped_sent": (100, {"unknown": 100}),
            "sent_by": (90, {"unknown": 90}), "wire_back": (110, {"unknown": 110}),
            "peer_polled": (100, {"unknown": 100})})
        self.assertEqual((row.sent_by, row.defects, row.whole_known), ({"peer": 90_000, "nic": 90_000}, 0, True))
        gaps = [w.gap(910, 990)]
        self.assertEqual(self.legs(self.row([w], nics=False, source=[*gaps, *w.card()]))["peer_polled"],
                         (100, {"sender_behind": 80, "unknown": 20}))
        self.assertEqual(self.legs(self.row([Way(drained=850)], nics=False, source=w.card()))["peer_polled"],
                         (100, {"sender_behind": 100}))

    def test_what_the_sources_card_clears(self):
        w = Way()
        for us, cleared in ((190, 1), (225, 1), (226, 0)):
            sides = self.sides([w], nics=False, source=[w.done(us), *w.card()])
            total = spwjoin.join(sides, HZ)
            self.assertEqual(total.bounded, {"peer": [1, cleared], "nic": [0, 0]}, us)
            self.assertIn(f"  the source's NIC completed {cleared} of 1 within an eighth of their time: what those "
                          f"waited for was not its send queue",
                          where.lines(where.summary(total, sides, {})))
            # a bound is no wait for it
            self.assertEqual({row["who"] for row in where.summary(total, sides, {})["behind"]} & {"peer"}, set())

    def test_the_sources_card_beside_trails_of_nics(self):
        """A NIC's own trail knows better: nothing changes."""
        w = Way()
        extra = [w.done(150), *w.card(unc=5000)]
        for card in (False, True):
            self.assertEqual(self.legs(self.row([w], source=extra, card=card)), self.legs(self.row([w], card=card)))
        self.assertEqual(self.row([w], source=extra).unc, 250)

    def test_the_sources_card_and_a_sink_without_stamps(self):
        """spinwire's port stamps nothing: the time from the source's completion to spinwire's poll has no name of its
        own."""
        w = Way()
        sides = self.sides([w], nics=False, source=[w.done(190), *w.card()])
        key = w.flow << 32 | w.seq
        lane, rec = sides.frames[key][0]
        sides.frames[key] = [(lane, (*rec[:4], 0, *rec[5:]))]
        legs = self.legs(spwjoin.join(sides, HZ).worst[0])
        self.assertEqual([(key, took) for key, (took, _) in legs.items()][:3], [("due", 100), ("sent_out", 90),
                                                                                ("nic_polled", 210)])
        self.assertEqual(legs["wire_back"], (200, {"unknown": 200}))

    def test_the_sources_completion_that_covers_a_frame(self):
        """As of spinwire's NIC; the sender's own completions count, and a bound that lies behind the next stamp ends
        there."""
        w = Way()
        for done, sent_by in (([w.done(150, 1)], 50), ([w.done(150, 4)], 50),
                              ([w.done(140, 0), w.done(160, 2), w.done(170, 3)], 60),
                              ([w.done(0, 1), w.done(170, 2)], None),
                              ([w.done(140, 0)], None), ([], None), ([w.done(1200, 1)], 200), ([w.done(100, 1)], 0)):
            row = self.row([w], nics=False, source=[*done, *w.card()])
            self.assertEqual((row.sent_by, row.defects), ({} if sent_by is None else {"peer": sent_by * 1000}, 0), done)
        both = self.file("two", trail("source", w.source() + w.card(sender=1) + [w.done(110)])
                         + trail("source", [w.done(150)]))
        sides = spwjoin.load(both, self.file("loop", trail("loop", w.loop())))
        self.assertEqual(spwjoin.join(sides, HZ).worst[0].sent_by, {"peer": 50_000})

    def test_the_sources_stamp_of_an_echo(self):
        """Behind the poll that returned it, or before the frame was handed back: cut within the uncertainty, beyond it
        a defect."""
        for moved, unc, defects in (({"home": 1000.2}, 0, 0), ({"home": 1000.3}, 0, 1), ({"home": 1000.3}, 100, 0),
                                    ({"home": 1000.4}, 100, 1),
                                    ({"home": 599.8}, 0, 0), ({"home": 599.7}, 0, 1), ({"home": 599.7}, 100, 0),
                                    ({"home": 599.6}, 100, 1)):
            w = Way()
            w.at["home"] = w.base + round(moved["home"] * 1000)
            row = self.row([w], nics=False, source=w.card(unc=unc))
            self.assertEqual((row.defects, row.unc), (defects, 250 + unc), (moved, unc))
        row = self.row([Way()], nics=False, source=Way().card(nic=False))
        self.assertNotIn("peer_polled", self.legs(row))
        self.assertEqual(self.legs(row)["echo"][0], 300)

    def test_a_card_stamps_before_the_wire(self):
        """Its completion may lie before the frame is out, even before the source read the clock after the hand-over: 0,
        and no defect. Before the frame was taken it cannot lie."""
        for us, defects in ((100, 0), (80, 0), (59.8, 0), (59.7, 1)):
            w = Way(taken=60)
            row = self.row([w], nics=False, source=[w.done(us), *w.card()])
            self.assertEqual((row.defects, row.sent_by["peer"]), (defects, 0), us)
            self.assertEqual(self.legs(row)["wire_out"][0], 300 - max(60, round(us)))

    def test_a_side_that_has_no_record(self):
        """spinwire's trail has lost the frame: its time counts with what comes next, and is not attributed."""
        w = Way()
        sides = self.sides([w])
        sides.frames.clear()
        total = spwjoin.join(sides, HZ)
        self.assertEqual(total.joined, 0)
        self.assertEqual(self.legs(total.worst[0])["back"], (500, {"unknown": 500}))

    def test_a_duplicate(self):
        """The cable doubled the frame: the second copy was received and echoed later, and changes nothing."""
        w, late = Way(), Way(**{key: at + 5 for key, at in Way.AT.items()
                                if key not in ("due", "taken", "handed", "echo")})
        row = self.row([w], nic=late.nic(), loop=late.loop(2), peer=[late.peer()[1]])
        self.assertEqual(self.legs(row), self.legs(self.row([w])))

    def test_numbers_that_come_again(self):
        """32 bits of a number repeat in a long run: the times tell the frames apart."""
        first, second = Way(seq=5), Way(base=9_000_000_000, seq=5, start=550)
        total = spwjoin.join(self.sides([first, second]), HZ)
        self.assertEqual([row.due for row in total.worst], [first.base, second.base])
        self.assertEqual([self.legs(row)["pushed_start"][0] for row in total.worst], [100, 150])
        self.assertEqual((total.joined, total.defects), (2, 0))

    def test_clocks_that_are_uncertain(self):
        """Two cores' readings may be 250 ns apart, a translated stamp by its own uncertainty more: cut, and no defect
        until beyond."""
        for early, unc, defects in ((200, 0, 0), (300, 0, 1), (300, 100, 0), (400, 100, 1)):
            w = Way()
            w.at["stamped"] = w.at["cqe"] = w.at["polled"] + early
            row = self.row([w], unc=unc, nics=unc == 0)
            self.assertEqual(row.defects, defects, (early, unc))
            self.assertNotIn("nic_polled", self.legs(row))

    def test_a_frame_that_its_nic_did_not_note(self):
        """The NICs have trails, but not of this frame: the translated stamp stands in, with its uncertainty."""
        for early, defects in ((300, 0), (400, 1)):
            w = Way()
            w.at["stamped"] = w.at["polled"] + early
            sides = self.sides([w], unc=100)
            sides.nic_came.clear()
            total = spwjoin.join(sides, HZ)
            self.assertEqual((total.joined, total.unc, total.defects), (0, 350, defects), early)

    def test_taken_on_before_the_stamp_was_read(self):
        """The source lost its core between the doorbell and its clock reading: its NIC has sent the frame long before.
        No defect."""
        row = self.row([Way(handed=650)])
        self.assertEqual(row.defects, 0)
        self.assertEqual(self.legs(row)["send"][0], 100)
        self.assertNotIn("out", self.legs(row))

    def test_all_slow_frames_together(self):
        ways = [Way(base=1_000_000 + i * 10_000_000, seq=i, echo=1000 + i) for i in range(40)]
        sides = self.sides(ways, source=[w.gap(10, 90) for w in ways])
        total = spwjoin.join(sides, HZ, worst=3)
        got = where.summary(total, sides, {"causes": {"threshold_ns": 100000}})
        self.assertEqual((got["frames"], got["joined"], [f["seq"] for f in got["worst"]]), (40, 40, [39, 38, 37]))
        self.assertAlmostEqual(sum(row["ns"] for row in got["by"]), got["whole_ns"])
        self.assertAlmostEqual(got["attributed"], (40 * 280) / sum(1000 + i for i in range(40)))
        self.assertEqual(where.attributed({"attributed": 0.9996}), "99.9 %")
        self.assertIn("attributed 27.4 % of slow round trips' time (40 frames, 40 with every stamp; ± 250 ns)",
                      where.lines(got)[0])

    def test_one_of_each_stall(self):
        """Frames that were under way together are one of the worst; those it stands for are counted."""
        ways = [Way(seq=i, echo=1000 + i) for i in range(30)] + [Way(base=90_000_000, seq=99)]
        worst = spwjoin.join(self.sides(ways), HZ).worst
        self.assertEqual([(row.seq, row.like) for row in worst], [(29, 29), (99, 0)])

    def test_who_fell_behind(self):
        """A hundred frames wait for spinwire's NIC, from 5 ms after the first frame's time on."""
        ways = [Way()] + [Way(base=6_000_000 + i * 10_000, seq=i,
                              **{key: 3000 + at for key, at in Way.AT.items() if at >= 300 and key != "drained"})
                          for i in range(100)]
        sides = self.sides(ways)
        got = where.summary(spwjoin.join(sides, HZ), sides, {})
        self.assertEqual(got["behind"][0]["who"], "nic")
        self.assertAlmostEqual(got["behind"][0]["from_ns"], 5_200_000)
        self.assertIn("spinwire's NIC thread, from 0.005 s on for 4.59 ms (200 waits of slow frames)",
                      where.lines(got)[-1])

    def test_files_that_are_none(self):
        whole = trail("nic", Way().nic())
        for data, text in ((b"x" * 600, "no trail"), (whole[:-1], "within a record"),
                           (whole + b"SPW", "within a head")):
            with self.assertRaisesRegex(ValueError, text):
                results.trail_threads(self.file("bad", data))
        self.assertEqual(results.trail_threads(self.file("empty", b"")), [])


class Gaps(unittest.TestCase):
    def test_covered(self):
        gaps = spwjoin.Gaps([(30, 40), (10, 20), (18, 25)])
        for begin, end, covered in ((0, 5, 0), (0, 100, 25), (12, 15, 3), (20, 35, 10), (26, 29, 0), (40, 50, 0),
                                    (35, 35, 0)):
            self.assertEqual(gaps.covered(begin, end), covered, (begin, end))
        self.assertEqual(spwjoin.Gaps([]).covered(0, 10), 0)


if __name__ == "__main__":
    unittest.main()
