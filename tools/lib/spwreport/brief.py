# SPDX-License-Identifier: BSD-3-Clause
"""What tools/run prints: about ten lines, from the same record as the report; and what tools/profile ends with. Each
line begins with a word of at most ten letters, as the short results of spinwire and spinwire-gen do."""
import re

import spwplaces
from spwreport import advice, data, objects, svg, where

CAUSES = 3
TO_DO = 3  # pieces of advice, the most important first; the report has all
SHOWN = 0.005  # of their time: less is 0 %
WAITED = 0.02  # share of their time for which threads waited for a core: more says whose fault a tail is
# docs/benchmarks.md, "The main job": the p50 of a round trip on four quiet cores
QUIET_P50, QUIET_CORES = "2.5 µs", 4


def _line(lead, text):
    return f"{lead:<10} {text}"


def _ns(value):
    return value if value == "lost" else "-" if value is None else svg.time_ns(value)


def _points(row):
    return ", ".join(f"{name} {_ns(row.get(f'{key}_ns'))}" for key, name in (("p50", "p50"), ("p99", "p99"),
                                                                            ("p999", "p99.9"), ("max", "longest")))


def _own(step):
    """spinwire's part of a round trip."""
    return next((row for row in data.stages(step) if row["stage"] == "polled_sent" and row["count"]), None)


def waited(threads):
    """(threads that were busy, the share of their time in which they waited for a core)."""
    whole = sum(one["ran_ns"] + one["waited_ns"] for one in threads)
    return len(threads), sum(one["waited_ns"] for one in threads) / whole if whole else 0.0


def _machine_fault(record, step, cores):
    """What the machine did to the run: cores that were taken from a probe with nothing beside it, cores that threads
    waited for."""
    taken = advice.busy(record)
    if taken:
        yield advice.busy_text(taken)
    busy, share = waited(step["threads"])
    if share >= WAITED and busy > cores:
        yield (f"threads that share {cores} core{'s' * (cores != 1)} waited for {100 * share:.0f} % of their time; on "
               f"{QUIET_CORES} quiet cores expect about {QUIET_P50}")
    elif share >= WAITED:
        yield f"other programs ran on the cores of its threads for {100 * share:.0f} % of the time"


def because(record, step, cores):
    """Whose fault slow round trips are, by what was measured: the machine's, or the cause of the most time."""
    if data.silent(step):
        return ("no frame came back: did they go to the other end's MAC (--full names it), does it receive, and does "
                "it echo?")
    faults = list(_machine_fault(record, step, cores))
    if faults:
        return f"this machine: {'; '.join(faults)}"
    cause = where.main_cause(step["where"])[0]
    return f"{cause}: {spwplaces.TEXTS[cause]}"


def _shares(got):
    """Causes of slow round trips' time that sum to all of it: the largest, the others together, and what is unknown
    with the place at which most of it was spent."""
    named = [(cause, share) for cause, share in where.by_cause(got) if cause != spwplaces.UNKNOWN]
    others = sum(share for _, share in named[CAUSES:])
    parts = [*named[:CAUSES], *([(f"{len(named) - CAUSES} other{'s' * (len(named) > CAUSES + 1)}", others)]
                                if others >= SHOWN else [])]
    unknown = 1 - sum(share for _, share in named)
    if unknown >= SHOWN:
        at = max((part, name) for _, name, _, causes in where.by_place(got) for cause, part in causes
                 if cause == spwplaces.UNKNOWN)[1]
        parts.append(("unknown", unknown))
    text = ", ".join(f"{cause} {100 * share:.0f} %" for cause, share in parts)
    return text + (f" (most of it at \"{at}\")" if unknown >= SHOWN else "")


def _slow(record, step, cores):
    got = step["where"]
    if not got or got.get("fault"):
        return [_line("slow", f"could not be joined: {got['fault']}")] if got else []
    gen = step["gen"]
    limit = svg.time_ns((gen.get("causes") or {}).get("threshold_ns", 0))
    by = {row["cause"]: row["frames"] for row in gen["causes"]["by"]}
    above = sum(by.values())
    if not above:
        return [_line("slow", f"no round trip took more than {limit}")]
    if not got["frames"]:  # none of them came back
        return [_line("slow", f"{above} of {gen['intended']} frames: " + ", ".join(f"{name} {cnt}"
                                                                                  for name, cnt in by.items())),
                _line("because", because(record, step, cores))]
    return [_line("slow", f"{above} of {gen['intended']} round trips took more than {limit}; their time: "
                  f"{_shares(got)}"),
            _line("because", because(record, step, cores))]


def lost(step):
    """Where frames that did not come back went, by the counts of both ports and of spinwire; the rest was in none."""
    gen, ledger = step["gen"], step["spinwire"]["ledger"]
    found = {"missed by spinwire's port": ledger["missed"] or 0,
             **{f"dropped by spinwire ({name})": cnt for name, cnt in ledger["dropped"].items()},
             **{f"bad for the handler ({name})": cnt for name, cnt in ledger["bad"].items()},
             "consumed by the handler": ledger["consumed"],
             "missed by the source's port": sum(port["missed"] or 0 for port in gen["ports"]),
             "corrupted": gen["corrupted"]}
    found["counted by neither port"] = gen["lost"] - sum(found.values())
    return ", ".join(f"{cnt} {place}" for place, cnt in found.items() if cnt > 0)


def advised(log):
    """Codes of the doctor in a program's log: what on this machine costs latency."""
    return list(dict.fromkeys(re.findall(r"advice: ([a-z-]+): ", log)))


def _object_lines(step, log, next_explain):
    """Frames that become objects do not come back."""
    gen, ledger = step["gen"], step["spinwire"]["ledger"]
    yield _line("frames", f"sent {gen['sent']}; spinwire received {ledger['received']}, residual {ledger['residual']}")
    yield from (_line(lead, text) for lead, text in objects.brief(step))
    yield from _machine(log)
    worst = objects.name_of(step)
    yield _line("next", (f"{next_explain(worst)}, the slowest; " if worst else "") + "--full, every table")


def _machine(log):
    codes = advised(log)
    if codes:
        yield _line("machine", f"latency here suffers from {', '.join(codes)}: see spinwire-doctor --full")


def lines(record, step, cores, log, next_explain):
    """The result. log: what spinwire printed. next_explain: FLOW:NUMBER or STREAM:ID -> the command that explains
    it."""
    gen, ledger = step["gen"], step["spinwire"]["ledger"]
    if objects.streams(step):
        yield from _object_lines(step, log, next_explain)
        return
    yield _line("frames", f"sent {gen['sent']} = echoed {gen['echoed']} + lost {gen['lost']}; unsent {gen['unsent']}; "
                f"spinwire received {ledger['received']}, residual {ledger['residual']}")
    if gen["lost"]:
        yield _line("lost", lost(step))
    if gen["echoed"]:
        yield _line("round trip", f"{_points(gen['round_trip'])}, at {svg.rate(step['offered_fps'])} frames/s")
    if _own(step):
        yield _line("spinwire", f"{_points(_own(step))}: its own part, from polled to sent")
    yield from _slow(record, step, cores)
    yield from _machine(log)
    worst = (step["where"] or {}).get("worst")
    name = f"{worst[0]['flow']}:{worst[0]['seq']}" if worst else None
    yield _line("next", (f"{next_explain(name)}, the slowest; " if worst else "") + "--full, every table")


def sweep_lines(record, folder):
    """The result of a sweep, as the report begins: the knee, and what to do. folder: where the report is."""
    good = [step for step in record["steps"] if data.good(step)]
    knee = data.knee(good)
    if len(good) > 1:
        yield _line("knee", (" " if knee else ": ").join(advice.knee_fact(good, knee)))
    if good:
        yield from (_line("to do", text) for text in advice.lines(record, good, knee, folder)[:TO_DO])
