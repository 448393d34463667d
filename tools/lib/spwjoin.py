# SPDX-License-Identifier: BSD-3-Clause
"""Joins the trails of a source, two NICs and spinwire (lib/trail/spw_trail.h): where each slow round trip's time went,
and why."""
import bisect
import gc

from spinwire import results
from spwplaces import (  # noqa: F401  (some are for those who import this)
    FIRST_PART, HOLD_CAUSE, INDEX, PARTS, PLACES, SENT_BY, TEXTS, UNKNOWN, WHO)

GAP, SLOW, SENT, HELD, CAME, FRAME, BATCH, BLAME, DONE = range(len(results.TRAIL_KINDS))
CORES_NS = 250  # two cores' readings of the counter are in order to within this


# ---- gaps of one thread ------------------------------------------------------------------------------

class Gaps:
    """When a thread did not work; covered() in the time of two look-ups."""

    def __init__(self, gaps):
        """gaps: [(from, to)] of one thread, in any order; they do not overlap by more than clocks do."""
        self.begin, self.end, self.before = [], [], []
        total, until = 0, 0
        for begin, end in sorted(gaps):
            begin = max(begin, until)
            if end <= begin:
                continue
            self.begin.append(begin)
            self.end.append(end)
            self.before.append(total)
            total += end - begin
            until = end

    def _up_to(self, at):
        i = bisect.bisect_right(self.begin, at) - 1
        if i < 0:
            return 0
        end = self.end[i]
        return self.before[i] + (at if at < end else end) - self.begin[i]

    def covered(self, begin, end):
        return self._up_to(end) - self._up_to(begin) if self.begin else 0


def _gaps(trails, but):
    """{name of the gap: Gaps} and all of them, of the threads in one file, but not those of some names."""
    by = {}
    for trail in trails:
        names = trail.names.get("gap", [])
        for rec in trail.of[GAP]:
            name = names[rec[1]] if rec[1] < len(names) else str(rec[1])
            by.setdefault(name, []).append((rec[4], rec[5]))
    by = {name: rows for name, rows in by.items() if name not in but}
    return {name: Gaps(rows) for name, rows in by.items()}, Gaps([row for rows in by.values() for row in rows])


# ---- the four sides ----------------------------------------------------------------------------------

def _by_key(trails, kind):
    out = {}
    for trail in trails:
        for rec in trail.of[kind]:
            out.setdefault(rec[2] << 32 | rec[3], []).append(rec)
    return out


def _pick(rows, at, low, high):
    """The first record of a frame whose stamp number `at` lies in [low, high]: a frame may come twice, and numbers
    repeat."""
    for rec in rows or ():
        if low <= rec[4 + at] <= high:
            return rec
    return None


def _covers(done, number):
    """(stamp, uncertainty) of the first of these completions that has the frame of this number; None if nobody
    knows."""
    numbers, rows = done
    i = bisect.bisect_left(numbers, number) if number else len(numbers)
    return (rows[i][5], rows[i][6]) if i < len(numbers) and rows[i][5] else None


class Sides:
    """What the files hold, indexed. A NIC's file may be missing: a real card has none."""

    def __init__(self, source, spinwire, source_nic=None, spinwire_nic=None):
        self.source, self.loop, self.peer, self.nic = source, spinwire, source_nic or [], spinwire_nic or []
        self.slow = [rec for trail in source for rec in trail.of[SLOW]]
        self.peer_sent, self.peer_held, self.peer_came = (_by_key(self.peer, kind) for kind in (SENT, HELD, CAME))
        self.nic_sent, self.nic_held, self.nic_came = (_by_key(self.nic, kind) for kind in (SENT, HELD, CAME))
        self.frames, self.batch, self.blame = {}, {}, {}
        self.echoes = {(rec[2] << 32 | rec[3], rec[5]): rec for trail in source for rec in trail.of[FRAME]}
        self.done, self.source_done = ([([rec[4] for rec in trail.of[DONE]], trail.of[DONE]) for trail in trails]
                                       for trails in (spinwire, source))
        for lane, trail in enumerate(spinwire):
            causes = trail.names.get("cause", [])
            for rec in trail.of[FRAME]:
                self.frames.setdefault(rec[2] << 32 | rec[3], []).append((lane, rec))
            for rec in trail.of[BATCH]:
                self.batch[lane, rec[4]] = rec
            for rec in trail.of[BLAME]:
                self.blame.setdefault((lane, rec[4]), {})[rec[1]] = [(causes[v >> 56], v & (1 << 56) - 1)
                                                                     for v in rec[5:] if v]
        self.kinds, self.gaps = {}, {}
        self.trails = {"source": source, "loop": spinwire, "peer": self.peer, "nic": self.nic}
        for who, trails in self.trails.items():
            self.kinds[who], self.gaps[who] = _gaps(trails, ("refused", "behind"))
        self.or_refused, self.or_behind = (_gaps(source, but)[1] for but in (("behind",), ()))
        self.lost = {who: sum(trail.overwritten for trail in trails) for who, trails in self.trails.items()}
        self.every = max([trail.every for trail in source], default=1)

    def sent_by(self, lane, number):
        """(stamp of the send completion that covers a lane's frame of this number, its uncertainty). None if nobody
        knows."""
        return _covers(self.done[lane], number)

    def card(self, key, echo):
        """What the source's NIC says of a slow frame, if it has no trail of its own: (the stamp of its send completion,
        its uncertainty) or None, and the same of its echo."""
        rec = None if self.peer else self.echoes.get((key, echo))
        if not rec:
            return None, None
        return _covers(self.source_done[rec[1]],
                       rec[7]) if rec[1] < len(self.source_done) else None, (rec[4], rec[8]) if rec[4] else None


# ---- one frame ---------------------------------------------------------------------------------------

class Row:
    """One slow frame: legs [(place, begin, end, {cause: ticks})], in order; they sum to the whole."""

    def __init__(self, flow, seq, due, echo):
        self.flow, self.seq, self.due, self.echo = flow, seq, due, echo
        self.legs, self.defects, self.whole_known, self.like, self.unc = [], 0, False, 0, 0
        self.sent_by = {}  # "peer", "nic": ticks from hand-over to its send completion, where nothing closer is known

    @property
    def whole(self):
        return self.echo - self.due

    def causes(self):
        out = {}
        for _, _, _, shares in self.legs:
            for cause, ticks in shares.items():
                out[cause] = out.get(cause, 0) + ticks
        return out


def _stamps(sides, frame):
    """[(place that ends here, stamp, whether it only says "by then")] of one frame, None where a place has no stamp;
    its batch; the poll before; whether nothing is missing; the uncertainty of the stamps that were translated from a
    card's clock. A stamp "by then" was read after the event: whoever took the frame on may have a stamp before it."""
    _, _, flow, seq, due, taken, handed, drained, echo, *_ = frame
    key = flow << 32 | seq
    sent = _pick(sides.peer_sent.get(key), 1, due, echo)
    held = _pick(sides.peer_held.get(key), 0, sent[5], echo) if sent and sides.peer_held else None
    came = _pick(sides.nic_came.get(key), 0, due, echo)
    lane, found, batch = None, None, None
    for lane, found in sides.frames.get(key, ()):
        batch = sides.batch.get((lane, found[5]))
        if batch and due <= batch[5] <= echo:
            break
        batch = None
    back = _pick(sides.nic_sent.get(key), 1, due, echo)
    back_held = _pick(sides.nic_held.get(key), 0, back[5], echo) if back and sides.nic_held else None
    home = _pick(sides.peer_came.get(key), 0, due, echo)
    nic = came[4] if came else found[4] if batch and found[4] else None
    sent_by, unc = batch and not back and sides.sent_by(lane, found[7]) or (None, 0)
    sent_out, arrived = (got or (None, 0) for got in sides.card(key, echo))
    unc = max(unc, found[8] if batch and not came and found[4] else 0, sent_out[1], arrived[1])
    stamps = [(None, due, False), ("due", taken or None, False), ("send", handed or None, True),
              ("out", sent and sent[6 if not held else 5], True), ("held", held and held[4], False),
              ("sent_out", sent_out[0], True),
              ("wire_out", nic, False),
              ("in", came and came[5], True)]
    if batch:
        _, _, _, _, _, polled, pushed, start, end, reaped, done = batch
        pushed = min(pushed, start)
        stamps += [("nic_polled", polled, False), ("polled_pushed", pushed, False), ("pushed_start", start, False),
                   ("start_end", end, False), ("end_reaped", reaped, False), ("reaped_sent", done, True)]
    stamps += [("back", back and back[6 if not back_held else 5], True), ("held", back_held and back_held[4], False),
               ("sent_by", sent_by, True),
               ("wire_back", home[4] if home else arrived[0], False), ("peer_in", home and home[5], True),
               ("peer_polled" if arrived[0] else "beyond" if sent_by and not home else "echo", echo, False)]
    whole = bool(sent and came and batch and back and home) if sides.peer or sides.nic else bool(batch)
    return stamps, (lane, found, batch) if batch else None, drained, whole, unc


def _in_order(stamps, unc):
    """Legs [(key, begin, end)] and the number of stamps that have one behind them which is earlier by more than unc. A
    stamp that is missing leaves its time to the next one."""
    present = [list(row) for row in stamps if row[1]]
    for i in range(len(present) - 2, 0, -1):
        if present[i][2] and present[i][1] > present[i + 1][1]:
            present[i][1] = present[i + 1][1]
    legs, early, at = [], set(), present[0][1]
    highest, last = at, present[-1][1]
    for key, stamp, _ in present[1:]:
        if stamp < highest - unc:
            early.add(highest)
        highest = max(stamp, highest)
        stamp = min(max(stamp, at), last)
        legs.append((key, at, stamp))
        at = stamp
    return legs, len(early)


def _scaled(blame, ticks):
    total = sum(t for _, t in blame)
    return {cause: t * ticks / total for cause, t in blame} if total else {}


def _loop_gaps(sides, begin, end, most):
    """{cause: ticks}, at most so many, by what spinwire's loop did instead of polling; and what is left of them."""
    out, left = {}, most
    for hold, gaps in sides.kinds["loop"].items():
        ticks = min(gaps.covered(begin, end), left)
        if ticks:
            cause = HOLD_CAUSE.get(hold, UNKNOWN)
            out[cause] = out.get(cause, 0) + ticks
            left -= ticks
    return out, left


def _polled(sides, begin, end, batch):
    """nic_polled: the loop's gaps; then queueing, if the loop had not emptied the port since."""
    out, left = _loop_gaps(sides, begin, end, end - begin)
    if left and batch[1][6] < begin:
        out["port_backlog"] = left
    return out


def _not_sent(sides, begin, end):
    """At the source: long steps of its loop; then, while its port refused frames, the gaps of whoever has to empty that
    port; then the time in which it sent what was due before."""
    late, or_refused, or_behind = (gaps.covered(begin, end) for gaps in (sides.gaps["source"], sides.or_refused,
                                                                         sides.or_behind))
    refused, out = or_refused - late, {}
    if refused and sides.peer:
        out["peer_late"] = min(sides.gaps["peer"].covered(begin, end), refused)
    elif refused:
        out, _ = _loop_gaps(sides, begin, end, refused)
    if refused:
        out["port_full"] = refused - sum(out.values())
    return {**out, "sender_late": late + or_behind - or_refused}


def _shares(sides, key, begin, end, batch, drained):
    """{cause: ticks} of one leg, as far as there is evidence."""
    ticks = end - begin
    if key == "held":
        return {"wire": ticks}
    if key in ("due", "send"):
        return _not_sent(sides, begin, end)
    if key in ("out", "sent_out", "peer_in"):
        return {"peer_late": sides.gaps["peer"].covered(begin, end)}
    if key in ("in", "back", "sent_by"):
        return {"nic_late": sides.gaps["nic"].covered(begin, end)}
    if key in ("wire_out", "wire_back") and sides.peer and sides.nic:
        who, cause = ("nic", "nic_late") if key == "wire_out" else ("peer", "peer_late")
        late = sides.gaps[who].covered(begin, end)
        return {cause: late, "wire": ticks - late}
    if key in ("echo", "peer_polled", "beyond"):
        return {"sender_behind": ticks if drained < begin else sides.gaps["source"].covered(begin, end)}
    if not batch or key not in PARTS:
        return {}
    blame = sides.blame.get((batch[0], batch[2][4]), {}).get(INDEX[key] - FIRST_PART)
    if key == "nic_polled" and (sides.nic or not blame):
        return _polled(sides, begin, end, batch)
    return _scaled(blame, ticks) if blame else {}


def frame_row(sides, frame, tick_unc):
    stamps, batch, drained, whole, unc = _stamps(sides, frame)
    row = Row(frame[2], frame[3], frame[4], frame[8])
    row.unc = tick_unc + unc
    legs, row.defects = _in_order(stamps, row.unc)
    row.whole_known = whole
    for key, begin, end in legs:
        if key in SENT_BY:
            row.sent_by[SENT_BY[key]] = end - begin
        if end <= begin:
            continue
        shares = {cause: t for cause, t in _shares(sides, key, begin, end, batch, drained).items() if t > 0}
        left = end - begin - sum(shares.values())
        if left > 0.5:
            shares[UNKNOWN] = left
        row.legs.append((key, begin, end, shares))
    return row


def away(sides, key, begin, end):
    """{what the thread that is waited for did instead: ticks} within one leg: nap, lost, send..."""
    if key == "held":
        return {}
    kinds = sides.kinds.get(PLACES[INDEX[key]][3], {})
    return {kind: ticks for kind, ticks in ((kind, gaps.covered(begin, end)) for kind, gaps in kinds.items())
            if ticks > 0}


def find(sides, flow, seq, hz):
    """The Row of one slow frame; None if it is on no trail."""
    for frame in sides.slow:
        if frame[2] == flow and frame[3] == seq & 0xffffffff:
            return frame_row(sides, frame, round(CORES_NS * hz / 1e9))
    return None


# ---- all slow frames ---------------------------------------------------------------------------------

class Sum:
    """Where the time of all slow frames went; unc: the largest uncertainty of one's stamps. heard: who has a trail: of
    nobody else it is known that frames waited for it."""

    def __init__(self, hz, heard):
        self.heard = heard
        self.hz, self.frames, self.whole, self.joined, self.defects, self.unc = hz, 0, 0, 0, 0, 0
        self.by = {}      # (place, cause): ticks
        self.waits = {}   # who: [(begin, end)] of its waits
        self.worst = []   # rows, longest first
        # frames with a send completion only; of those: it came within an eighth of their time
        self.bounded = {who: [0, 0] for who in SENT_BY.values()}

    def add(self, row, wait_ticks):
        self.frames += 1
        self.whole += row.whole
        self.joined += row.whole_known
        self.defects += row.defects
        self.unc = max(self.unc, row.unc)
        for who, ticks in row.sent_by.items():
            self.bounded[who][0] += 1
            self.bounded[who][1] += ticks <= row.whole / 8
        for key, begin, end, shares in row.legs:
            for cause, ticks in shares.items():
                self.by[key, cause] = self.by.get((key, cause), 0) + ticks
            who = PLACES[INDEX[key]][3] if key != "held" else None
            if who in self.heard and end - begin > wait_ticks:
                self.waits.setdefault(who, []).append((begin, end))

    def causes(self):
        """[(cause, ticks)], most first, the unknown last."""
        out = {}
        for (_, cause), ticks in self.by.items():
            out[cause] = out.get(cause, 0) + ticks
        return sorted(out.items(), key=lambda item: (item[0] == UNKNOWN, -item[1]))

    def attributed(self):
        return 1 - dict(self.causes()).get(UNKNOWN, 0) / self.whole if self.whole else 1.0


def _quiet(work):
    """Without the collector of cycles, of which there are none here: it doubles the time."""
    def run(*args, **kwargs):
        on = gc.isenabled()
        gc.disable()
        try:
            return work(*args, **kwargs)
        finally:
            if on:
                gc.enable()
    return run


@_quiet
def load(source, spinwire, source_nic=None, spinwire_nic=None):
    """Sides from files; the NICs' may be None."""
    return Sides(*(path and results.trail_threads(path) for path in (source, spinwire, source_nic, spinwire_nic)))


@_quiet
def join(sides, hz, worst=16):
    """The Sum of all slow frames on the source's trail; worst: how many stalls it keeps a frame of, None for every
    frame."""
    total = Sum(hz, {who for who, trails in sides.trails.items() if trails})
    tick_unc = round(CORES_NS * hz / 1e9)
    wait_ticks = 10e-6 * hz
    rows = []
    for frame in sides.slow:
        row = frame_row(sides, frame, tick_unc)
        total.add(row, wait_ticks)
        rows.append(row)
        if worst and len(rows) > 4096:
            rows = _one_a_stall(rows, worst)
    total.worst = _one_a_stall(rows, worst) if worst else sorted(rows, key=lambda r: -r.whole)
    return total


def _one_a_stall(rows, most):
    """The longest of those that were under way at the same time; how many it stands for is its `like`."""
    kept = []
    for row in sorted(rows, key=lambda r: -r.whole):
        same = next((k for k in kept if k.due <= row.echo and row.due <= k.echo), None)
        if same:
            same.like += 1 + row.like
        elif len(kept) < most:
            kept.append(row)
    return kept
