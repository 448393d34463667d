# SPDX-License-Identifier: BSD-3-Clause
"""The record of a run ("spinwire.profile/1"): begun, kept, written, and turned into the report."""
import csv
import io
import json
import os
import time

import spwfile
from spinwire import results
from spwreport import data, host, page, svg


def new(title, settings, place):
    return {"schema": "spinwire.profile/1", "title": title, "begun": time.strftime("%Y-%m-%d %H:%M:%S %z"),
            "settings": settings,
            "machine": host.facts(), "cores": {"source": place.generator, "receive": place.receive,
                                               "executor": place.executor},
            "carries": None, "hiccup": {"before": None, "after": None}, "steps": [], "faults": []}


# ---- the table that shows progress -------------------------------------------------------------------

def _cell(value):
    return f"{'lost' if value == 'lost' else '-' if value is None else svg.time_ns(value):>9}"


def table_head():
    return f"{'step':>7} {'load':>6} {'frames/s':>10} {'missing':>9}  " + " ".join(f"{name:>9}"
                                                                                   for _, name in data.CURVES)


def table_row(step, at, of):
    share = f"{100 * step['share']:.0f} %" if step["share"] else ""
    head = f"{at:>3}/{of:<3} {share:>6} {svg.rate(step['offered_fps']):>10}"
    if not data.good(step):
        return f"{head}  failed: {step['faults'][-1]}"
    lines = [f"{head} {100 * data.missing(step['gen']):>7.3f} %  " + " ".join(_cell(data.value(step, point))
                                                                              for point, _ in data.CURVES)]
    return "\n".join([*(f"        tried again after: {fault}" for fault in step["faults"]), *lines])


def jitter_line(record):
    """What the machine took from cores on which nothing but a probe ran; the worse of before and after."""
    probes = [probe for probe in record["hiccup"].values() if probe]
    if not probes:
        return "the machine's own jitter is not known"
    taken, longest = ([data.hiccup_fact(probe, name) for probe in probes]
                      for name in ("taken by gaps over 1 us", "longest gap"))
    cores = ", ".join(f"{core} {max(t[core] for t in taken):.2f} %" for core in taken[0])
    return (f"the machine itself, nothing but a probe running: {cores} taken by gaps over 1 µs, the longest "
            f"{svg.time_ns(1e3 * max(max(g.values()) for g in longest))}")


def away_line(step):
    """Which thread fell behind, if one did: the longest that each was away from its work."""
    return "away from its work at a stretch, at most: " + ", ".join(f"{name} {svg.time_ns(ns)}"
                                                                    for name, ns in data.away(step))


# ---- files -------------------------------------------------------------------------------------------

def _write(path, text, say):
    """True if it was written; otherwise the reason is printed."""
    try:
        spwfile.write(path, text)
        return True
    except OSError as error:
        say(str(error))
        return False


def status_of(record):
    """0, or 2 when nothing could be measured; a run that did not balance is 3."""
    ok = [step for step in record["steps"] if data.good(step)]
    if any(step["spinwire"]["ledger"]["residual"] or step["spinwire"]["pool"]["leaked"] for step in ok):
        return 3
    return 2 if all(data.silent(step) for step in ok) else 0


def _csv(record):
    """One line a load; an unknown figure is empty, a percentile among lost frames is the word."""
    out, counts = io.StringIO(), ("intended", "sent", "echoed", "unsent", "lost", "corrupted")
    points = [f"{name}_ns" for name in ("min", *(name for name, _ in data.POINTS), "max")]
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["share", "offered_fps", "echoed_fps", "missing", *counts, *points, "received", "residual", "fault"])
    for step in record["steps"]:
        if data.good(step):
            gen, ledger = step["gen"], step["spinwire"]["ledger"]
            rows.writerow([step["share"], step["offered_fps"], data.echoed_fps(gen), data.missing(gen),
                           *(gen[name] for name in counts), *(gen["round_trip"][name] for name in points),
                           ledger["received"], ledger["residual"], ""])
        else:
            rows.writerow([step["share"], step["offered_fps"], *[None] * (4 + len(counts) + len(points)),
                           step["faults"][-1]])
    return out.getvalue()


def finish(record, folder, say, json_path=None, csv_path=None):
    """Writes DIR/profile.json and DIR/report.html, unless nothing was measured: then the report of an earlier run
    stays; and the record as JSON and CSV where that is asked for. An exit status."""
    extra = ((json_path, json.dumps(record)), (csv_path, _csv(record)))
    kept = [_write(path, text, say) for path, text in extra if path]
    if not any(data.good(step) for step in record["steps"]):
        say(f"no report: nothing was measured; what an earlier run left in {folder} is unchanged")
        return status_of(record)
    begin = time.monotonic()
    path = os.path.join(folder, "report.html")
    kept.append(_write(os.path.join(folder, "profile.json"), json.dumps(record), say))
    done = _write(path, page.html(record, folder), say)
    if done:
        say(f"report: {os.path.abspath(path)} ({os.path.getsize(path) / 1024:.0f} KiB, written in "
            f"{time.monotonic() - begin:.1f} s)")
    return status_of(record) if all(kept) and done else 2


def render(folder, say):
    """The report of an earlier run again."""
    path = os.path.join(folder, "profile.json")
    if not os.path.exists(path):
        raise RuntimeError(f"--render: {folder} has no profile.json of an earlier report")
    record = results.summary(path, "profile")
    path = os.path.join(folder, "report.html")
    if not _write(path, page.html(record, folder), say):
        return 2
    say(f"report: {os.path.abspath(path)}")
    return 0
