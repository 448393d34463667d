# SPDX-License-Identifier: BSD-3-Clause
"""The plots of the report. Each function takes a width and returns SVG text, so that a page can hold a wide and a
narrow one."""
import spwjoin
from spwreport import data, svg
from spwreport.svg import esc

SHAPES = {"p50": "circle", "p99": "square", "p999": "triangle", "p9999": "diamond"}
PALE = ("idle", "s9")  # what stands in a bar of these is written in ink
# One colour each, in both charts that split a round trip; what has no owner is grey. Some places of one owner differ in
# which stamp ends them, and each run has one of them.
PLACE_CLASS = {**{key: f"k{i}" for i, (key, *_) in enumerate(spwjoin.PLACES)}, "beyond": "s9"}
CAUSE_CLASS = {**{cause: f"k{i}" for i, cause in enumerate(spwjoin.TEXTS)}, spwjoin.UNKNOWN: "s9"}
# Of objects: their own causes have the colour of one of frames that is of the same place.
OBJECT_CLASS = {**CAUSE_CLASS, **{cause: CAUSE_CLASS[of] for cause, of in (
    ("sender", "sender_late"), ("missing", "wire"), ("port", "port_backlog"), ("order", "refill_stall"),
    ("mover", "handler_slow"), ("consumer", "tx_stall"))}, "unexplained": "s9"}
STAGE_CLASS = {**{key: PLACE_CLASS[key] for key in spwjoin.PARTS},
               **{key: PLACE_CLASS[of] for key, of in (("polled_sent", "due"), ("nic_start", "out"),
                                                       ("nic_sent", "in"))}}
STAGE_TEXT = {**{key: hint for key, _, hint, _ in spwjoin.PLACES if key in spwjoin.PARTS},
              "polled_sent": "polled to sent or recycled: spinwire's own time",
              "nic_start": "the NIC's stamp to executor start", "nic_sent": "the NIC's stamp to sent or recycled",
              "due to handed": "due to handed to the source's NIC", "round trip": "due to back at the source"}
PLACE_NAME = {key: name for key, name, *_ in spwjoin.PLACES}


def _time_ticks(scale):
    return [(v, svg.time_ns(v)) for v in scale.ticks()]


def _names_at_ends(plot, ends):
    """Names beside the ends of lines: [(x, y, name, class)], moved apart where they would touch. Lines that end near
    one another share a column of names. A piece of the line before each name has its colour; the name is in ink."""
    columns = []
    for end in sorted(ends):
        if columns and end[0] - columns[-1][-1][0] < 70:
            columns[-1].append(end)
        else:
            columns.append([end])
    for column in columns:
        x = max(end[0] for end in column) + 10
        for (_, _, name, cls), y in zip(column, svg.spread([end[1] for end in column], 14, plot.y1 + 4, plot.y0 - 2)):
            plot.path([(x, y), (x + 14, y)], cls)
            plot.text(x + 18, y + 4, name, "start", "end")


# ---- the knee curve ----------------------------------------------------------------------------------

def _lost_band(plot, height):
    """A strip above the scale for percentiles that have no number."""
    plot.rect(plot.x0, plot.y1, plot.x1 - plot.x0, height, "lostband")
    plot.text(plot.x0 - 8, plot.y1 + height / 2 + 4, "lost", "end", "tick")


def _knee_points(steps, point):
    return [(step["offered_fps"], data.value(step, point)) for step in steps]


def _curve(plot, steps, point, name, band_y):
    """One percentile over all steps; breaks where there is no number. Returns the last number's (y) or None."""
    run, last = [], None
    for fps, ns in _knee_points(steps, point):
        x = plot.x(fps)
        if isinstance(ns, (int, float)):
            last = plot.y(max(ns, 1))
            run.append((x, last))
            continue
        plot.path(run, f"c-{point}")
        run = []
        if ns == "lost":
            plot.mark(x, band_y, "cross", f"c-{point}", f"{name} at {svg.rate(fps)} frames/s: among the lost frames")
    plot.path(run, f"c-{point}")
    for fps, ns in _knee_points(steps, point):
        if isinstance(ns, (int, float)):
            plot.mark(plot.x(fps), plot.y(max(ns, 1)), SHAPES[point], f"c-{point}",
                      f"{name} at {svg.rate(fps)} frames/s: {svg.time_ns(ns)}")
    return last


def _floor_lines(plot, floor):
    """Lines that nearly touch share a text below them."""
    groups = []
    for percent, ns in floor.items():
        y = plot.y(ns)
        plot.line(plot.x0, y, plot.x1, y, "floor")
        if groups and abs(groups[-1][0] - y) < 16:
            groups[-1] = (max(y, groups[-1][0]), f"{groups[-1][1]} and {svg.percentile(percent)}")
        else:
            groups.append((y, svg.percentile(percent)))
    for y, names in groups:
        plot.text(plot.x0 + 5, y + 13, f"idle machine alone, {names}", "start", "note")


def knee(width, steps, knee_step, floor, probes=()):
    """Round-trip percentiles against the offered load; floor: {percent: ns} of the idle machine; probes: the short runs
    that searched for what the path carries, as open marks of their p99."""
    steps = [s for s in steps if data.good(s)]
    narrow = width < 600
    plot = svg.Plot(width, 300 if narrow else 400, "Round trip against offered load",
                    "Percentiles of the round trip, from the intended send time, on a logarithmic scale. The table "
                    "below has the numbers.",
                    left=64, right=16 if narrow else 84, top=26)
    values = [v for s in steps for p, _ in data.CURVES for v in [data.value(s, p)] if isinstance(v, (int, float))]
    band = 4 + 11 * len(data.CURVES)
    low, high = svg.decades([max(v, 10) for v in values + list(floor.values())] or [1e3, 1e6])
    plot.x = svg.Linear(0, max(s["offered_fps"] for s in steps) * 1.02, plot.x0, plot.x1)
    plot.y = svg.Log(low, high, plot.y0, plot.y1 + band + 6)
    plot.y_ticks(_time_ticks(plot.y), "round trip")
    plot.x_ticks([(v, svg.rate(v)) for v in plot.x.ticks(4 if narrow else 8)], "offered load, frames/s")
    _lost_band(plot, band)
    _floor_lines(plot, floor)
    for probe in probes:
        ns = probe.get("p99_ns")
        if probe["offered_fps"] <= plot.x.high and ns is not None:
            y = plot.y1 + 8 + 11 if ns == "lost" else plot.y(max(ns, 1))
            plot.mark(plot.x(probe["offered_fps"]), y, "ring", "c-p99",
                      f"search, p99 at {svg.rate(probe['offered_fps'])} frames/s: "
                      f"{ns if ns == 'lost' else svg.time_ns(ns)}")
    if knee_step:
        x = plot.x(knee_step["offered_fps"])
        plot.line(x, plot.y0, x, plot.y1, "knee")
        plot.text(max(x, plot.x0 + 90), plot.y1 - 8, f"knee {svg.rate(knee_step['offered_fps'])}", "middle", "kneetext")
    ends = []
    for i, (point, name) in enumerate(data.CURVES):
        y = plot.y1 + 8 + 11 * (len(data.CURVES) - 1 - i)
        last = _curve(plot, steps, point, name, y)
        ends.append((plot.x1, last if last is not None else y, name, f"c-{point}"))
    if not narrow:
        _names_at_ends(plot, ends)
    return plot.svg()


# ---- percentile spectra --------------------------------------------------------------------------------

def _spectrum_lines(plot, lines, samples):
    ends = []
    for name, cls, points, lost_from, _ in lines:
        at = [(plot.x(data.rank(p, samples)), plot.y(max(ns, plot.y.low))) for p, ns in points]
        plot.path(at, cls)
        for p, ns in points:
            if p in (50.0, 99.0, 99.9, 99.99, 99.999, 100.0):
                plot.mark(plot.x(data.rank(p, samples)), plot.y(max(ns, plot.y.low)), "circle", f"{cls} small",
                          f"{name}, {svg.percentile(p)}: {svg.time_ns(ns)}")
        if lost_from is not None and at:
            at.append((plot.x(data.rank(lost_from, samples)), plot.y1 + 6))
            plot.path(at[-2:], f"{cls} dash")
            plot.mark(*at[-1], "cross", cls, f"{name}: lost from {svg.percentile(lost_from)} on")
        if at:
            ends.append((*at[-1], f"{name}, lost" if lost_from is not None else name, cls))
    return ends


def _beyond(plot, lines, samples):
    """Shades what lies between spinwire's own whole and the round trip, where there are both."""
    at = {name: [(plot.x(data.rank(p, samples)), plot.y(max(ns, plot.y.low))) for p, ns in points]
          for name, _, points, *_ in lines}
    if "nic_sent" in at and "round trip" in at:
        plot.area(at["round trip"] + at["nic_sent"][::-1], "beyond")


def spectra(width, title, lines, of="frames"):
    """lines: [(name, class, [(percentile, ns)], lost from or None, samples)]. The x axis is the rank: one frame in so
    many."""
    narrow = width < 600
    plot = svg.Plot(width, 320 if narrow else 380, title,
                    "Time against percentile, both logarithmic; one line a stage or load.",
                    left=64, right=16 if narrow else 146, top=26, bottom=46)
    samples = max(line[4] for line in lines)
    reach = max([data.rank(p, samples) for line in lines for p in (line[2][-1][0], line[3] or 0)])
    values = [ns for line in lines for p, ns in line[2] if ns > 0 and p > 0]
    low, high = svg.decades([max(min(values or [10]), 10), max(values or [1000])])
    plot.x = svg.Log(1, max(reach, 10), plot.x0, plot.x1)
    plot.y = svg.Log(low, high, plot.y0, plot.y1 + 12)
    plot.y_ticks(_time_ticks(plot.y), "time")
    ranks = [(1.0, "0"), (2.0, "50 %"), (10.0, "90"), (100.0, "99"), (1e3, "99.9"), (1e4, "99.99"), (1e5, "99.999"),
             (1e6, "99.9999"),
             (1e7, "99.99999"), (1e8, "99.999999")]
    plot.x_ticks([(r, text) for r, text in ranks if r <= reach], f"percentile of {of}", grid=True)
    _beyond(plot, lines, samples)
    ends = _spectrum_lines(plot, lines, samples)
    if not narrow:
        _names_at_ends(plot, ends)
    return plot.svg()


def stage_lines(step):
    """The lines of one step: spinwire's stages, the whole, and the round trip if there was one."""
    lines = []
    for row in data.stages(step):
        points, lost = data.spectrum(row)
        lines.append((row["stage"], STAGE_CLASS.get(row["stage"], "s9"), points, lost, row["count"]))
    late = step["gen"]["schedule_error"] if step.get("gen") else None
    if late and late.get("spectrum"):
        lines.append(("due to handed", f"{PLACE_CLASS['send']} dash", data.spectrum(late)[0], None, late["count"]))
    trip = step["gen"]["round_trip"] if step.get("gen") else None
    if trip and trip["count"]:
        points, lost = data.spectrum(trip, data.missing(step["gen"]))
        lines.append(("round trip", "c-trip", points, lost, trip["count"]))
    return [line for line in lines if line[2]]


def load_lines(steps, most=8):
    """Round trips of several loads, light to dark."""
    steps = [s for s in steps if data.good(s) and s["gen"]["round_trip"]["count"]]
    if len(steps) > most:
        steps = [steps[round(i * (len(steps) - 1) / (most - 1))] for i in range(most)]
    lines = []
    for i, step in enumerate(steps):
        points, lost = data.spectrum(step["gen"]["round_trip"], data.missing(step["gen"]))
        lines.append((f"{svg.rate(step['offered_fps'])}/s", f"q{round(i * 7 / max(1, len(steps) - 1))}", points, lost,
                      step["gen"]["round_trip"]["count"]))
    return [line for line in lines if line[2]]


# ---- stacked bars --------------------------------------------------------------------------------------

def part_class(key):
    """Of a place, or of a cause of frames or objects."""
    return PLACE_CLASS.get(key) or OBJECT_CLASS.get(key, "s9")


def part_name(key):
    return PLACE_NAME.get(key) or key


def worst(width, frames, title):
    """Where the worst frames spent their time: one bar a frame, one part a stage, all from the same zero."""
    narrow = width < 600
    bar, gap, head = 18, 22 if narrow else 8, 8
    left = 12 if narrow else 210
    plot = svg.Plot(width, head + len(frames) * (bar + gap) + 62, title,
                    "One bar a frame, longest first; its parts are stages in order.",
                    left=left, right=74, top=head + (14 if narrow else 0), bottom=54)
    plot.x = svg.Linear(0, max(f["whole_ns"] for f in frames), plot.x0, plot.x1)
    scale, unit = next((s, u) for s, u in ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns")) if plot.x.high >= 2 * s
                       or u == "ns")
    plot.x_ticks([(v, svg.short(v / scale)) for v in plot.x.ticks(4 if narrow else 8)], unit, grid=True)
    for i, frame in enumerate(frames):
        y, at = plot.y1 + i * (bar + gap), 0.0
        label = frame["cause"] or "no cause reported"
        if narrow:
            plot.text(plot.x0, y - 4, f"{frame['name']}: {label}", "start", "tick")
        else:
            plot.text(plot.x0 - 8, y + 8, frame["name"], "end", "tick")
            plot.text(plot.x0 - 8, y + 20, label, "end", "note")
        for key, ns in frame["parts"]:
            x, end = (plot.x(min(v, plot.x.high)) for v in (at, at + ns))
            plot.rect(x, y, max(end - x - (0.7 if end - x > 2 else 0), 0.4 if ns else 0), bar, f"bar {part_class(key)}",
                      f"{frame['name']}, {part_name(key)}: {svg.time_ns(ns)}")
            at += ns
        plot.text(plot.x(min(at, plot.x.high)) + 5, y + bar - 5, svg.time_ns(frame["whole_ns"]), "start", "tick")
    return plot.svg()


def shares(width, rows, keys, classes, title, x_label):
    """Rows of bars that fill 100 %: rows [(name, {key: share})]."""
    narrow = width < 600
    bar, gap = 20, 8
    plot = svg.Plot(width, len(rows) * (bar + gap) + 64, title, "One bar a load; its parts sum to all of the time.",
                    left=72, right=16, top=6,
                    bottom=54)
    plot.x = svg.Linear(0, 100, plot.x0, plot.x1)
    plot.x_ticks([(v, svg.short(v)) for v in (0, 25, 50, 75, 100)], x_label)
    for i, (name, parts) in enumerate(rows):
        y, at = plot.y1 + i * (bar + gap), 0.0
        plot.text(plot.x0 - 8, y + 14, name, "end", "tick")
        for key in keys:
            share = 100 * parts.get(key, 0)
            x, end = plot.x(at), plot.x(at + share)
            plot.rect(x, y, end - x - (0.7 if end - x > 2 else 0), bar, f"bar {classes[key]}",
                      f"{name}/s, {key.replace('_', ' ')}: {share:.1f} %")
            if end - x > (46 if narrow else 40):
                plot.text((x + end) / 2, y + 14, f"{share:.0f} %", "middle",
                          "inbar pale" if classes[key] in PALE else "inbar")
            at += share
    return plot.svg()


# ---- the machine's own jitter ----------------------------------------------------------------------------

def jitter(width, before, after):
    """How often a core that only spins is delayed for longer than a given time, before and after."""
    narrow = width < 600
    plot = svg.Plot(width, 280 if narrow else 330, "The machine's own jitter",
                    "Gaps per second that are longer than a length, both logarithmic.",
                    left=64, right=16 if narrow else 150, top=26, bottom=46)
    sets = [(when, cls, data.gap_rates(got)) for when, cls, got in (("before", "j-before", before),
                                                                    ("after", "j-after", after)) if got]
    gaps = [longest for _, _, cores in sets for _, longest in cores.values()]
    rates = [r for _, _, cores in sets for rows, _ in cores.values() for _, r in rows if r > 0]
    plot.x = svg.Log(100, svg.decades([max(gaps + [1e5])])[1], plot.x0, plot.x1)
    plot.y = svg.Log(min([0.1] + [r / 1.5 for r in rates]), svg.decades([max(rates + [100])])[1], plot.y0, plot.y1)
    plot.y_ticks([(v, svg.rate(v)) for v in plot.y.ticks()], "gaps/s longer than that")
    plot.x_ticks(_time_ticks(plot.x), "length of the gap", grid=True)
    ends = []
    for when, cls, cores in sets:
        for n, (core, (rows, longest)) in enumerate(cores.items()):
            points = [(plot.x(gap), plot.y(r)) for gap, r in rows if r > 0]
            if not points:
                continue
            points.append((plot.x(longest), points[-1][1]))
            plot.path(points, f"{cls} {('', 'dash', 'dots')[n % 3]}")
            plot.mark(*points[-1], "diamond", f"{cls} small", f"{core}, {when}: longest {svg.time_ns(longest)}")
            ends.append((plot.x1, points[-1][1], f"{core}, {when}", f"{cls} {('', 'dash', 'dots')[n % 3]}"))
    if not narrow:
        _names_at_ends(plot, ends)
    return plot.svg()


def legend(items):
    """[(class, name, hint)] as HTML; a stage has what it is from and to beside it."""
    out = []
    for cls, name, hint in items:
        gloss = f'<span class="gloss">: {esc(STAGE_TEXT[name])}</span>' if name in STAGE_TEXT else ""
        out.append(f'<li title="{esc(hint)}"><svg width="14" height="12" aria-hidden="true"><rect x="0" y="1" '
                   f'width="12" height="10" class="bar {cls}"/></svg>{esc(name)}{gloss}</li>')
    return f'<ul class="legend">{"".join(out)}</ul>'
