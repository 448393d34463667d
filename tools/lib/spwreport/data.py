# SPDX-License-Identifier: BSD-3-Clause
"""What the report derives from what the programs measured. Values stay numbers, "lost", or None for "too few
samples"."""
import math
import re

POINTS = [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p999", 99.9), ("p9999", 99.99)]
CURVES = [("p50", "p50"), ("p99", "p99"), ("p999", "p99.9"), ("p9999", "p99.99")]
KNEE_P99 = 3.0       # a knee is no higher than this many times the best p99, and no lower load is than a higher one
KNEE_MISSING = 0.001  # nor is more of its load missing

def good(step):
    return bool(step.get("gen") and step.get("spinwire"))


def silent(step):
    """Whether frames were sent and none came back, or became objects: no measurement, whatever the other figures
    are."""
    return bool(step["gen"]["lost"] and not step["gen"]["echoed"] and not step["spinwire"].get("objects"))


def value(step, point):
    """A round-trip percentile of a step: ns, "lost", or None."""
    return step["gen"]["round_trip"].get(f"{point}_ns")


def missing(gen):
    """Share of the intended frames that were not sent or did not come back."""
    return (gen["unsent"] + gen["lost"]) / gen["intended"] if gen["intended"] else 1.0


def echoed_fps(gen):
    return gen["echoed"] / gen["seconds"] if gen["seconds"] else 0.0


# ---- the knee ----------------------------------------------------------------------------------------

def _p99_by_load(steps):
    """[(step, p99)] by rising load; a p99 among lost frames is longer than any."""
    known = [(s, value(s, "p99")) for s in steps if good(s)]
    return [(s, math.inf if ns == "lost" else ns) for s, ns in sorted(known, key=lambda row: row[0]["offered_fps"])
            if ns == "lost" or isinstance(ns, (int, float))]


def fall(steps):
    """(step, step of a higher load) between which p99 falls the most, if to less than one part in KNEE_P99; else None.
    No path becomes that much faster under more load: something else was slow at the lower one."""
    worst, most, out = None, KNEE_P99, None
    for step, ns in _p99_by_load(steps):
        if worst and math.isfinite(ns) and worst[1] > most * ns:
            most, out = worst[1] / ns if ns else math.inf, (worst[0], step)
        if not worst or ns > worst[1]:
            worst = step, ns
    return out


def knee(steps):
    """The good step of the highest load that still holds the best p99 (times KNEE_P99) and its frames; None without
    one, and where p99 falls over the load: what is measured then is not the path."""
    ok = [(s, ns) for s, ns in _p99_by_load(steps) if math.isfinite(ns)]
    if len(ok) < 2 or fall(steps):
        return None
    best = min(ns for _, ns in ok)
    held = [s for s, ns in ok if ns <= KNEE_P99 * best and missing(s["gen"]) <= KNEE_MISSING]
    return max(held, key=lambda s: s["offered_fps"], default=None)


def passed(steps, knee_step):
    """Whether a load beyond the knee was measured; without one the knee may lie higher."""
    return any(s["offered_fps"] > knee_step["offered_fps"] for s in steps if good(s))


# ---- spectra -----------------------------------------------------------------------------------------

def spectrum(row, missing_share=0.0):
    """([(percentile, ns)], percentile from which on frames are lost or None) of one latency row; a share of frames that
    are missing count as longer than any."""
    pairs = row.get("spectrum")
    if not pairs:
        pairs = [(p, row.get(f"{name}_ns")) for name, p in POINTS] + [(100.0, row.get("max_ns"))]
    points = [(p, ns) for p, ns in pairs if isinstance(ns, (int, float))]
    lost = [p for p, ns in pairs if ns == "lost"]
    if missing_share and not lost:
        lost = [100 * (1 - missing_share)]
    return points, min(lost) if lost else None


def rank(percent, samples):
    """How rare: one in so many. The maximum is one in all."""
    return max(1.0, min(1 / (1 - percent / 100), samples) if percent < 100 else float(samples))


def stages(step):
    return step["spinwire"].get("latency", []) if step.get("spinwire") else []


# ---- the worst frames --------------------------------------------------------------------------------

def _stalls(rows, most):
    """One stall delays many: of rows [{"span": (begin, end), "like": others that were not kept, ...}] whose spans
    overlap, the longest, named with how many are like it; longest first."""
    out, until = [], None
    for row in sorted(rows, key=lambda r: r["span"]):
        if until is None or row["span"][0] > until:
            out.append([row])
            until = row["span"][1]
        else:
            out[-1].append(row)
            until = max(until, row["span"][1])
    best = []
    for group in out:
        longest = max(group, key=lambda r: r["whole_ns"])
        more = len(group) - 1 + sum(row["like"] for row in group)
        best.append({**longest, "name": longest["name"] + (f" (+{more})" if more else "")})
    return sorted(best, key=lambda r: -r["whole_ns"])[:most]


def worst_frames(step, most=10):
    """The longest round trips, joined: [{"name", "cause", "parts": [(place, ns)], "whole_ns"}], one of each stall,
    longest first."""
    rows, hz = [], step["gen"].get("tsc_hz")
    for frame in (step.get("where") or {}).get("worst", []):
        parts = [("wire_out" if leg["place"] == "held" else leg["place"], leg["ns"]) for leg in frame["legs"]]
        rows.append({"name": f"flow {frame['flow']}, no. {frame['seq']}", "cause": _main_cause(frame),
                     "whole_ns": frame["whole_ns"], "parts": parts,
                     "span": (frame["due_tsc"], frame["due_tsc"] + frame["whole_ns"] * hz / 1e9),
                     "like": frame["like"]})
    return _stalls(rows, most)


def _main_cause(frame):
    """"nic late, 97 % of it"."""
    by = {}
    for leg in frame["legs"]:
        for cause, ns in leg["blame_ns"].items():
            by[cause] = by.get(cause, 0) + ns
    cause, ns = max(by.items(), key=lambda item: item[1], default=("", 0))
    return f"{cause}, {100 * ns / frame['whole_ns']:.0f} % of it" if cause else ""


def _longest(row):
    """The longest of a distribution; None if there is none, or it is lost."""
    most = row.get("max_ns")
    return most if isinstance(most, (int, float)) else None


def _blamed(batch):
    """"tx stall, 97 % of it": what got most of a slow batch's time."""
    share = batch.get("blame_ns", {}).get(batch["cause"], 0) / batch["whole_ns"] if batch["whole_ns"] else 0
    return f"{batch['cause']}, {100 * share:.0f} % of it" if share else batch["cause"]


def worst_batches(step, most=10):
    """spinwire's own worst batches in the same form, split by what they waited for; those parts sum to the whole. It
    begins at the NIC's stamp or, without one, where the poll before ended: the batch may have waited in the port since
    then, and no longer."""
    hz, rows = step["spinwire"].get("tsc_hz", 0), []
    for batch in step["spinwire"].get("worst", []):
        end = batch["stamps"]["sent_tsc"]
        rows.append({"name": f"batch {batch['seq']}, {batch['frames']} frame{'s' if batch['frames'] != 1 else ''}",
                     "cause": _blamed(batch),
                     "whole_ns": batch["whole_ns"],
                     "parts": sorted(batch["blame_ns"].items(), key=lambda part: -part[1]),
                     "span": (end - batch["whole_ns"] * hz / 1e9, end), "like": batch.get("like", 0)})
    return _stalls(rows, most)


def away(step):
    """[(thread, ns)], the longest first: for how long each thread of the path did not do its work at a stretch, at
    most. The executor's thread is named by the cause exec_late."""
    held = [row["max_ns"] for row in (step["spinwire"].get("held") or {}).values() if isinstance(row, dict)]
    rows = [("the source's loop", _longest(step["gen"].get("loop_gap", {}))),
            ("spinwire's loop", max(held, default=None))]
    for name, nic in zip(("the source's NIC thread", "spinwire's NIC thread"), step.get("nics") or ()):
        rows.append((name, nic["late_us"] * 1e3 if "late_us" in nic else None))
    return sorted(((name, ns) for name, ns in rows if ns), key=lambda row: -row[1])


# ---- causes ------------------------------------------------------------------------------------------

def causes(steps, who):
    """[(cause, [frames or None by step], max_ns)], the most frequent first, from one side ("gen" or "spinwire")."""
    by, worst = {}, {}
    for i, step in enumerate(steps):
        for row in ((step.get(who) or {}).get("causes") or {}).get("by", []):
            if row["frames"]:
                by.setdefault(row["cause"], {})[i] = row["frames"]
                worst[row["cause"]] = max(worst.get(row["cause"], 0), row.get("max_ns") or 0)
    rows = [(cause, [at.get(i, 0) for i in range(len(steps))], worst[cause]) for cause, at in by.items()]
    return sorted(rows, key=lambda row: -sum(row[1]))


# ---- the machine's own jitter ------------------------------------------------------------------------

def gap_rates(hiccup):
    """{core: ([(gap_ns, gaps longer than that per second)], longest_ns)} from rows of spinwire-doctor idle."""
    out = {}
    for row in hiccup["rows"] if hiccup else []:
        rates, longest = out.setdefault(row["case"], ([], [0.0]))
        over = re.fullmatch(r"gaps over (\d+) ns", row["metric"])
        if over:
            rates.append((float(over.group(1)), row["median"]))
        elif row["metric"] == "longest gap":
            longest[0] = row["median"] * 1e3
    return {core: (sorted(rates), longest[0]) for core, (rates, longest) in out.items()}


def hiccup_fact(hiccup, metric):
    """{core: value}"""
    return {row["case"]: row["median"] for row in hiccup["rows"] if row["metric"] == metric} if hiccup else {}


def _held(hiccups):
    """[(wait in ns, share of frames that wait longer for one of the probed cores)], means of the probes."""
    tails = {}
    for hiccup in hiccups:
        for row in hiccup["rows"]:
            over = re.fullmatch(r"waits over (\d+) ns", row["metric"])
            if over:
                tails[float(over.group(1))] = tails.get(float(over.group(1)), 0.0) + row["median"] * 1e-6 / len(hiccups)
    return sorted(tails.items())


def host_floor(hiccups, percents):
    """{percent: ns}: what a frame that meets each probed core once waits at least at these percentiles, on the idle
    machine. Between two lengths of the probe's table the share is taken as a power law; where it comes to an end, as a
    parabola."""
    curve, out = _held([h for h in hiccups if h]), {}
    for percent in percents:
        share = 1 - percent / 100
        for (a, held_a), (b, held_b) in zip(curve, curve[1:]):
            if held_a > share >= held_b:
                over = math.log(held_a / share) / math.log(held_a
                                                           / held_b) if held_b > 0 else 1 - math.sqrt(share / held_a)
                out[percent] = a * (b / a) ** over if held_b > 0 else a + (b - a) * over
                break
    return out
