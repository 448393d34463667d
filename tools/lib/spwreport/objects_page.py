# SPDX-License-Identifier: BSD-3-Clause
"""Objects on the page: how they ended and why, how long they took, the longest part by part."""
from spwreport import charts, data, objects, svg
from spwreport.parts import figure, folded, table, time_or
from spwreport.svg import esc


def tiles(one):
    """What stands on top in large."""
    whole = one["states"]["complete"]
    yield f"{100 * whole / max(1, objects.ended(one)):.3g} %", f"of {svg.count(objects.ended(one))} objects complete"
    for point, name in (("p50", "p50"), ("p99", "p99"), ("max", "longest")):
        ns = one["latency"][f"{point}_ns"]
        yield svg.time_ns(ns) if ns is not None else "too few", f"{name} of an object, first frame to publication"


def _counts(one):
    """How they ended, and why late ones were."""
    ended = [[name, svg.count(cnt)] for name, cnt in one["states"].items() if cnt]
    ended += [[f"because of {name}", svg.count(cnt)] for name, cnt in one["causes"].items() if cnt]
    shares = dict(objects.by_cause(one))
    slow = [[row["cause"], svg.count(row["objects"]), f"{100 * shares.get(row['cause'], 0):.1f} %",
             svg.time_ns(row["max_ns"]) if row["max_ns"] else None, objects.CAUSES[row["cause"]]]
            for row in sorted(one["slow"]["by"], key=lambda row: -row["objects"])]
    return (table(["how they ended", "objects"], ended)
            + (f"<h3>Slower than {svg.time_ns(one['slow']['threshold_ns'])}, or shed: "
               f"{svg.count(one['slow']['objects'])}</h3>"
               + table(["cause", "objects", "of their time", "longest", "what it is"], slow) if slow else ""))


def _latency(one):
    row = one["latency"]
    points, _ = data.spectrum(row)
    if not points:
        return ""
    name = f"{one['stream']}: first frame to publication"
    lines = [(one["stream"], charts.STAGE_CLASS["nic_sent"], points, None, row["count"])]
    return (f"<h3>{esc(name)}</h3>" + figure(lambda w: charts.spectra(w, name, lines, "objects"))
            + table(["objects", *(svg.percentile(p) for _, p in data.POINTS), "max"],
                    [[svg.count(row["count"]), *(time_or(row[f"{p}_ns"]) for p, _ in data.POINTS),
                      time_or(row["max_ns"])]]))


def _worst(one):
    rows = objects.timeline(one)
    if not rows:
        return ""
    used = [cause for cause in objects.CAUSES if any(cause == c for row in rows for c, _ in row["parts"])]
    title = f"{one['stream']}: the longest objects, from their first frame"
    sums = [{cause: sum(ns for c, ns in row["parts"] if c == cause) for cause in used} for row in rows]
    numbers = table(["object", "cause", "whole", *used],
                    [[row["name"], row["cause"], svg.time_ns(row["whole_ns"]),
                      *(svg.time_ns(by[cause]) if by[cause] else None for cause in used)]
                     for row, by in zip(rows, sums)])
    return (f"<h3>{esc(title)}</h3>"
            + figure(lambda w: charts.worst(w, rows, title),
                     legend=charts.legend([(charts.part_class(c), c, objects.CAUSES[c]) for c in used]))
            + folded("The numbers", numbers))


def sections(step):
    """Of each stream of a step."""
    out = ""
    for one in objects.streams(step):
        out += (f"<h2>Objects of {esc(one['stream'])}</h2><p>{svg.count(objects.ended(one))} objects, "
                f"{svg.count(one['bytes_missing'])} bytes of them missing and filled. "
                f"{esc(objects.slow_text(one))}.</p>" + _counts(one) + _latency(one)
                + _worst(one))
    return out
