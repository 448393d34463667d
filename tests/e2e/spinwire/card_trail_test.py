#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the join says of NICs without trails, as cards have none, against the trails of the software ConnectX of the
same run."""
import bisect

import spwtest
import spwjoin
from spwreport import data, sweep
from spwtest import balanced, check, equal, spwlab

RATE, SECONDS, HOLDS = 20e3, 3, 0.99
UNC_MAX_S = 1e-3  # the median of what is stated; a clock that is read ten times a second is far better
FRAMES_MIN = 1000  # a machine that stands still sends fewer than the plan has
# A place that ends by a card's stamp, and the places that it bounds.
BOUNDS = {"sent_out": ("out",), "sent_by": ("back",), "nic_polled": ("in", "nic_polled"),
          "peer_polled": ("peer_in", "echo")}


def bench_of(folder):
    """Both programs on software ConnectX; for the source every round trip is slow, so that all frames are on its
    trail."""
    place = spwlab.Cores(nics=True)
    if place.nics[0] is None:
        # apart from the control threads: a clock on the reader's own core has wide brackets
        place.nics = (place.receive, place.receive)
    return sweep.Bench(folder, spwlab.softhca_path(place, folder), place, ["--handler", "echo"],
                       ["--slow-threshold", "1us", "--linger", "300ms"])


class Share:
    """How many frames keep to a bound, by its name."""

    def __init__(self):
        self.rows = {}  # name: [(ticks by which the bound is missed, the uncertainty that is stated)]

    def add(self, what, missed, unc):
        self.rows.setdefault(what, []).append((missed, unc))

    def judge(self, frames, hz):
        for what, rows in self.rows.items():
            # that is of the last frames of completions only
            held, few = sum(missed <= unc for missed, unc in rows), "not after the next" in what
            missed, stated = (sorted(values) for values in zip(*rows))
            text = (f"{what}: {held} of {len(rows)} frames; missed by {missed[0] / hz * 1e6:.2f}, median "
                    f"{missed[len(missed) // 2] / hz * 1e6:.2f}, "
                    f"{missed[-1] / hz * 1e6:.2f} us, stated ± {stated[len(stated) // 2] / hz * 1e6:.2f}, at most "
                    f"{stated[-1] / hz * 1e6:.2f}")
            print(text)
            check(len(rows) >= (0.01 if few else HOLDS) * frames and held >= HOLDS * len(rows),
                  f"of {frames} frames, {text}")
            check(stated[len(stated) // 2] < UNC_MAX_S * hz, f"no bound at all: {text}")
        equal(len(self.rows), 8 + len(BOUNDS), "bounds")


def own_flush(sent, key, flushes):
    """(when the frame's own NIC had published it; its next flush, before which that NIC has stamped the completion)."""
    at = sent[key][0][6]
    i = bisect.bisect_right(flushes, at)
    return at, flushes[i] if i < len(flushes) else None


def stamps(share, truth, cards):
    """What each NIC stamped, against what its own thread noted. A send completion: between the flush that published the
    frame and the next one, if it is the last frame of its completion; others may wait for a later one. A received
    frame: between when its sender put it on the cable and when the thread took it."""
    flushes = {id(sent): sorted({rec[6] for rows in sent.values() for rec in rows})
               for sent in (truth.peer_sent, truth.nic_sent)}
    last = {(lane, number) for lane, (numbers, _) in enumerate(cards.done) for number in numbers}
    source_last = {(sender, number) for sender, (numbers, _) in enumerate(cards.source_done) for number in numbers}
    for frame in truth.slow:
        key = frame[2] << 32 | frame[3]
        if not all(key in has for has in (cards.frames, truth.peer_sent, truth.nic_came, truth.nic_sent,
                                          truth.peer_came)):
            continue  # overwritten; those that are left are counted
        lane, found = cards.frames[key][0]
        echo = cards.echoes[key, frame[8]]
        sent_out, arrived = cards.card(key, frame[8])
        for who, sent, done, ends in (("source's NIC", truth.peer_sent, sent_out, (echo[1], echo[7]) in source_last),
                                      ("spinwire's NIC", truth.nic_sent, cards.sent_by(lane, found[7]),
                                       (lane, found[7]) in last)):
            flushed, later = own_flush(sent, key, flushes[id(sent)])
            if done:
                share.add(f"{who}: sent by, not before its flush", flushed - done[0], done[1])
            if done and ends and later:
                share.add(f"{who}: sent by, not after the next flush", done[0] - later, done[1])
        for who, sent, came, got in (("spinwire's NIC", truth.peer_sent, truth.nic_came, (found[4], found[8])),
                                     ("source's NIC", truth.nic_sent, truth.peer_came, arrived)):
            if got and got[0]:
                share.add(f"{who}: in, not before it was sent", sent[key][0][5] - got[0], got[1])
                share.add(f"{who}: in, not after it was taken", got[0] - came[key][0][4], got[1])


def pieces(row):
    return {key: end - begin for key, begin, end, _ in row.legs}


def joined(share, truth, cards, hz):
    """The same frames, joined with the NICs' trails and without: what is a bound is no less than what it bounds."""
    exact = {(row.flow, row.seq): pieces(row) for row in spwjoin.join(truth, hz, worst=None).worst}
    for row in spwjoin.join(cards, hz, worst=None).worst:
        known, card = exact[row.flow, row.seq], pieces(row)
        for bound, places in BOUNDS.items():
            share.add(bound, sum(known.get(place, 0) for place in places) - card.get(bound, 0), row.unc)


def test_bounds():
    """Every bound holds within the uncertainty that is stated, for 99 % of the frames."""
    spwtest.need_card()
    with spwlab.scratch() as folder:
        bench = bench_of(folder)
        step = sweep.step_at(bench, RATE, SECONDS)
        check(data.good(step), f"{step['faults']}")
        files = [bench.file(name) for name in sweep.trail_files()]
        truth, cards = spwjoin.load(*files), spwjoin.load(*files[:2])
    balanced(step["spinwire"])
    hz, frames = step["gen"]["tsc_hz"], len(truth.slow)
    check(frames >= FRAMES_MIN, f"{frames} slow frames")
    share = Share()
    stamps(share, truth, cards)
    joined(share, truth, cards, hz)
    share.judge(frames, hz)


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
