# SPDX-License-Identifier: BSD-3-Clause
"""Where the time of slow round trips went, as JSON for the record and as lines of text; the join itself is
spwjoin's."""
import math

import spwjoin
from spwreport import svg

CARDS = {"peer": "the source's NIC", "nic": "spinwire's NIC"}
EPISODE_NS = 200e3  # waits of one thread that are no further apart are one episode


def _leg(sides, row, leg, hz):
    key, begin, end, shares = leg
    return {"place": key, "from_ns": (begin - row.due) / hz * 1e9, "ns": (end - begin) / hz * 1e9,
            "blame_ns": {cause: ticks / hz * 1e9 for cause, ticks in shares.items()},
            "away": {kind: ticks / hz * 1e9 for kind, ticks in spwjoin.away(sides, key, begin, end).items()}}


def frame(sides, row, hz):
    """One joined frame, JSON-ready."""
    return {"flow": row.flow, "seq": row.seq, "due_tsc": row.due, "whole_ns": row.whole / hz * 1e9,
            "joined": row.whole_known, "like": row.like,
            "legs": [_leg(sides, row, leg, hz) for leg in row.legs]}


def _episodes(total, begin, hz, most=3):
    """The longest times for which frames waited for one thread without a break: [{"who", "from_ns" since the first
    frame, "ns", "waits"}]."""
    out = []
    for who, waits in total.waits.items():
        now = None
        for a, b in sorted(waits):
            if now and a <= now[1] + EPISODE_NS * hz / 1e9:
                now[1], now[2] = max(now[1], b), now[2] + 1
            else:
                now = [a, b, 1]
                out.append((who, now))
    rows = [{"who": who, "from_ns": (a - begin) / hz * 1e9, "ns": (b - a) / hz * 1e9, "waits": n}
            for who, (a, b, n) in out]
    return sorted(rows, key=lambda row: -row["ns"])[:most]


def summary(total, sides, gen):
    """JSON-ready: times in ns, those of all slow frames together in "whole_ns" and "by"."""
    hz, begin = total.hz, min((rec[4] for rec in sides.slow), default=0)
    above = (gen.get("causes") or {})
    return {"frames": total.frames, "joined": total.joined, "every": sides.every,
            "threshold_ns": above.get("threshold_ns"),
            "uncertainty_ns": total.unc / hz * 1e9, "defects": total.defects, "overwritten": sum(sides.lost.values()),
            "whole_ns": total.whole / hz * 1e9, "attributed": total.attributed(),
            "by": [{"place": place, "cause": cause, "ns": ticks / hz * 1e9}
                   for (place, cause), ticks in sorted(total.by.items())],
            "bounded": total.bounded, "behind": _episodes(total, begin, hz),
            "worst": [frame(sides, row, hz) for row in total.worst]}


def of_trails(paths, gen):
    """The summary, from the trails of both programs and their NICs; a reason why not."""
    try:
        sides = spwjoin.load(*paths)
        return summary(spwjoin.join(sides, gen["tsc_hz"]), sides, gen)
    except (OSError, ValueError) as error:
        return {"fault": str(error)}


# ---- sums --------------------------------------------------------------------------------------------

def by_cause(got):
    """[(cause, share)], the largest first, the unknown last."""
    out = {}
    for row in got["by"]:
        out[row["cause"]] = out.get(row["cause"], 0) + row["ns"] / got["whole_ns"]
    return sorted(out.items(), key=lambda item: (item[0] == spwjoin.UNKNOWN, -item[1]))


def main_cause(got):
    """(cause, share) of the most of their time, be it the unknown."""
    return max(by_cause(got), key=lambda item: item[1], default=(spwjoin.UNKNOWN, 0))


def by_place(got):
    """[(key, name, share, [(cause, share)])] in the order of the way; "held" belongs to the wire before it."""
    sums = {}
    for row in got["by"]:
        at = sums.setdefault("wire_out" if row["place"] == "held" else row["place"], {})
        at[row["cause"]] = at.get(row["cause"], 0) + row["ns"] / got["whole_ns"]
    return [(key, name, sum(sums[key].values()), sorted(sums[key].items(), key=lambda item: -item[1]))
            for key, name, *_ in spwjoin.PLACES if key in sums]


# ---- text --------------------------------------------------------------------------------------------

def _share(value):
    return f"{100 * value:.1f} %"


def attributed(got):
    """The share of slow round trips' time whose cause is known, rounded down: 100 % is all of it."""
    return _share(math.floor(1000 * got["attributed"]) / 1000)


def lines(got):
    """What tools/run prints: the attributed share, then place by place."""
    if not got:
        return []
    if got.get("fault"):
        return [f"slow round trips could not be joined: {got['fault']}"]
    if not got["frames"]:
        return ["no round trip was slow"]
    every = f", one frame in {got['every']}" if got["every"] > 1 else ""
    out = [f"attributed {attributed(got)} of slow round trips' time "
           f"({got['frames']} frames{every}, {got['joined']} with every stamp; ± {got['uncertainty_ns']:.0f} ns)",
           "  " + ", ".join(f"{cause} {_share(share)}" for cause, share in by_cause(got) if share >= 0.0005
                            or cause == spwjoin.UNKNOWN)]
    if got["defects"]:
        out.append(f"  {got['defects']} stamps lie before the one before them by more than the clocks' uncertainty: a "
                   f"defect")
    for _, name, share, causes in by_place(got):
        if share >= 0.0005:
            out.append(f"  {name:24} {_share(share):>7}  "
                       f"{', '.join(f'{cause} {_share(s)}' for cause, s in causes if s >= 0.0005)}")
    for who, (bounded, cleared) in got.get("bounded", {}).items():
        if bounded:
            out.append(f"  {CARDS[who]} completed {cleared} of {bounded} within an eighth of their time: what those "
                       f"waited for was not its send queue")
    for row in got["behind"][:1]:
        out.append(f"  fell behind for the longest: {spwjoin.WHO[row['who']]}, from {row['from_ns'] * 1e-9:.3f} s on "
                   f"for {svg.time_ns(row['ns'])} "
                   f"({row['waits']} waits of slow frames)")
    return out


AWAY = {"nap": "it slept", "lost": "it had lost its core", "round": "it was in one long round",
        "poll": "it had lost its core", "send": "it was sending",
        "receive": "it was taking echoes", "check": "it was checking echoes", "events": "it served events",
        "port": "its receive call took long",
        "push": "it ran the handler", "tx": "its transmit call took long", "refill": "it recycled slots"}


def _story_line(leg):
    name, way, who = (spwjoin.PLACES[spwjoin.INDEX[leg["place"]]][i]
                      for i in (1, 2, 3)) if leg["place"] != "held" else ("wire", "held by a fault", None)
    why = ", ".join(f"{cause} {svg.time_ns(ns)}" for cause, ns in sorted(leg["blame_ns"].items(),
                                                                         key=lambda item: -item[1]))
    did = ", ".join(f"{AWAY.get(kind, kind)} for {svg.time_ns(ns)}"
                    for kind, ns in sorted(leg.get("away", {}).items(), key=lambda item: -item[1]))
    return (f"  {leg['from_ns'] * 1e-3:>11.2f}  {leg['ns'] * 1e-3:>11.2f}  {name:24} {why}"
            + (f"; {spwjoin.WHO[who]}: {did}" if did else "") + f"  [{way}]")


def story(one):
    """The lines of one frame's way."""
    known = "every stamp" if one["joined"] else "some stamps are missing"
    return [f"flow {one['flow']}, number {one['seq']}: {svg.time_ns(one['whole_ns'])} from due to back, {known}",
            f"  {'from [us]':>11}  {'took [us]':>11}  {'place':24} cause", *map(_story_line, one["legs"]),
            f"  {one['whole_ns'] * 1e-3:>11.2f}  {'':>11}  back at the source"]
