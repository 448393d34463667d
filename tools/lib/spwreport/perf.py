# SPDX-License-Identifier: BSD-3-Clause
"""The page of a run of spinwire-perf ("spinwire.perf/1"): bandwidth and latency over size, and every row."""
from spwreport import charts, page, parts, svg
from spwreport.svg import esc

COLOURS = [f"k{i}" for i in range(18)]
POINTS = [("p50", "p50"), ("p90", "p90"), ("p99", "p99"), ("p999", "p99.9"), ("max", "max")]


def size(count):
    for unit in ("B", "KiB", "MiB"):
        if count < 1024 or count % 1024:
            return f"{count} {unit}"
        count //= 1024
    return f"{count} GiB"


def measured(row):
    return row["valid"] in ("valid", "unverified")


def tables(record):
    """[(title, rows)] in the order in which they were measured."""
    out = []
    for row in record["rows"]:
        if not out or out[-1][0] != row["table"]:
            out.append((row["table"], []))
        out[-1][1].append(row)
    return out


def is_stream(row):
    return row["case"]["op"] in ("tcp", "bond") and not row["case"]["latency"]


# ---- curves ------------------------------------------------------------------------------------------

def curves(width, title, label, lines, text):
    """lines: [(name, class, [(bytes, value)])], both scales logarithmic; text(value) writes a value; on the axis
    its unit is left out, which is the label."""
    narrow = width < 600
    plot = svg.Plot(width, 280 if narrow else 380, title,
                    f"{title}, over the size of a message. The tables below have the numbers.",
                    left=76, right=28, top=26)
    sizes = [x for _, _, points in lines for x, _ in points]
    values = [y for _, _, points in lines for _, y in points]
    plot.x = svg.Log(min(sizes), max(sizes), plot.x0, plot.x1)
    plot.y = svg.Log(*svg.decades(values), plot.y0, plot.y1)
    plot.y_ticks([(v, text(v).removesuffix(f" {label}")) for v in plot.y.ticks()], label)
    plot.x_ticks([(v, size(v)) for v in sorted(set(sizes))], "size of a message")
    for name, cls, points in lines:
        plot.path([(plot.x(x), plot.y(y)) for x, y in points], cls)
        for x, y in points:
            plot.mark(plot.x(x), plot.y(y), "circle", cls, f"{name}, {size(x)}: {text(y)}")
    return plot.svg()


def colours(record):
    """{title: class}: a table has one colour in every chart. Past the 18th they begin again, dashed."""
    return {title: COLOURS[i % len(COLOURS)] + (" dash" if i >= len(COLOURS) else "")
            for i, (title, _) in enumerate(tables(record))}


def _why_not(rows, value):
    """Why these rows of one table have no point: "failed at 64 B, 1 KiB; too few messages at 4 MiB"; "" if all have."""
    by = {}
    for row in rows:
        got = value(row) if measured(row) else row["valid"]
        if not isinstance(got, (int, float)) or got <= 0:
            why = "among the lost" if got == "lost" else "too few messages" if got is None else str(got)
            by.setdefault(why, []).append(size(row["case"]["bytes"]))
    return "; ".join(f"{why} at {', '.join(sizes)}" for why, sizes in by.items())


def lines_of(record, latency, value):
    """([(title, class, points)], [(title, why points are missing)]) of the tables over sizes."""
    lines, left, colour = [], [], colours(record)
    for title, rows in tables(record):
        rows = [row for row in rows if row["case"]["latency"] == latency]
        if rows and is_stream(rows[0]):
            left.append((title, "over streams, in its table"))
            continue
        points = [(row["case"]["bytes"], value(row)) for row in rows if measured(row)]
        points = [(x, y) for x, y in points if isinstance(y, (int, float)) and y > 0]
        if points:
            lines.append((title, colour[title], points))
        why = _why_not(rows, value)
        if why:
            left.append((title, why))
    return lines, left


def figure(title, label, found, text):
    """found: what lines_of returned."""
    lines, left = found
    missing = "; ".join(f"{name} ({why})" for name, why in left)
    missing = f"<p class=note>Not drawn: {esc(missing)}.</p>" if missing else ""
    if not lines:
        return f"<h2>{esc(title)}</h2>{missing}" if missing else ""
    legend = charts.legend([(cls.split()[0], name, "") for name, cls, _ in lines])
    return f"<h2>{esc(title)}</h2>" + parts.figure(lambda w: curves(w, title, label, lines, text), legend) + missing


# ---- tables ------------------------------------------------------------------------------------------

def point(row, loop, name):
    value = row["latency"][loop][f"{name}_ns"]
    return svg.time_ns(value) if isinstance(value, (int, float)) else value


def gigabits(value):
    """To the same three places, and where those are few to three digits."""
    return f"{value:.3f}" if value >= 0.1 else svg.short(value)


def latency_table(rows):
    head = ["size", "closed loop p50", "due every", *(name for _, name in POINTS), "lost", "CPU a message", "owners"]
    return parts.table(head, [[size(r["case"]["bytes"]), point(r, "closed", "p50"),
                               svg.time_ns(r["latency"]["interval_ns"]),
                              *(point(r, "open", p) for p, _ in POINTS), svg.count(r["latency"]["lost"]),
                              svg.time_ns(r["cpu_ns_per_message"]), r["owners"] or None] for r in rows])


def bandwidth_table(rows):
    head = ["streams" if is_stream(rows[0]) else "size", "Gb/s", "GB/s", "messages/s", "of its limit", "CPU a message",
            "CPU a GB", "owners"]
    return parts.table(head, [[r["case"]["streams"] if is_stream(r) else size(r["case"]["bytes"]), gigabits(r["gbps"]),
                              gigabits(r["gbps"] / 8),
                              svg.rate(r["messages_per_s"]), f"{100 * r['efficiency']:.0f} %" if r["efficiency"]
                              else None,
                              svg.time_ns(r["cpu_ns_per_message"]), svg.time_ns(1e6 * r["cpu_ms_per_gb"]),
                              r["owners"] or None] for r in rows])


def table(title, rows):
    good = [row for row in rows if row["valid"] != "failed"]
    out = f"<h3>{esc(title)}</h3>"
    if good:
        limit = f"limit {good[0]['limit_gbps']:.4g} Gb/s: {good[0]['limit_by']}" if good[0]["limit_gbps"] else ""
        notes = ", ".join(filter(None, [limit, good[0]["method"]]))
        out += (f"<p class=sub>{esc(notes)}</p>" if notes else "") + (latency_table if good[0]["case"]["latency"]
                                                                      else bandwidth_table)(good)
    for why in dict.fromkeys(row["why"] for row in rows if row["valid"] == "failed"):
        out += f"<p class=lost>failed: {esc(why)}</p>"
    return out


# ---- the headline, and what to do -------------------------------------------------------------------

GOOD = 0.8   # of a limit: what perf_word of app/spinwire-perf calls good
LONG = 10    # times p50: a p99.9 beyond it is a tail


def of_network(row):
    """Whether the limit of this row is that of the cards: a TCP stream's is often its core."""
    return row["case"]["op"] not in ("tcp", "bond")


def best(record):
    """The measured row of each table over sizes that has the most bandwidth, and the most of all first."""
    rows = [max((row for row in rows if measured(row)), key=lambda row: row["gbps"], default=None)
            for _, rows in tables(record) if not rows[0]["case"]["latency"]]
    return sorted(filter(None, rows), key=lambda row: (not of_network(row), -row["gbps"]))


def answered(record):
    """Measured latency rows that have a p50, the shortest first."""
    rows = [row for row in record["rows"] if measured(row) and row["case"]["latency"]
            and isinstance(row["latency"]["open"]["p50_ns"], (int, float))]
    return sorted(rows, key=lambda row: (not of_network(row), row["latency"]["open"]["p50_ns"]))


def headline(record):
    """The most bandwidth and the shortest latency of all tables, as tiles."""
    tiles = []
    for row in best(record)[:1]:
        tiles.append((f"{svg.short(row['gbps'])} Gb/s", f"the most: {row['table']}, {size(row['case']['bytes'])}"))
        if row["efficiency"]:
            tiles.append((f"{100 * row['efficiency']:.0f} %", f"of its limit, {svg.short(row['limit_gbps'])} Gb/s: "
                                                              f"{row['limit_by']}"))
    for row in answered(record)[:1]:
        where = f"{row['table']}, {size(row['case']['bytes'])}"
        tiles += [(point(row, "open", name) or "too few", f"{text} of the shortest: {where}")
                  for name, text in (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9"))]
    return parts.facts(tiles)


def _far(row):
    """How many times its p50 a row's p99.9 is; 0 where there is none."""
    tail = row["latency"]["open"]["p999_ns"]
    return tail / max(row["latency"]["open"]["p50_ns"], 1) if isinstance(tail, (int, float)) else 0


def advice(record):
    """[text], the most important first."""
    out, doubtful = [], [row for row in record["rows"] if row["valid"] in ("failed", "invalid")]
    if doubtful:
        out.append(f"Measure again what is marked above: {len(doubtful)} of {len(record['rows'])} rows are not valid.")
    if record["here"]["software"] or record["there"]["software"]:
        out.append("Do not take these figures for a card's: the software ConnectX runs on the processor.")
    slow = [row for row in best(record) if of_network(row) and 0 < row["efficiency"] < GOOD]
    if slow:
        row = min(slow, key=lambda row: row["efficiency"])
        out.append(f"Look for what limits {row['table']}: it reaches {100 * row['efficiency']:.0f} % of "
                   f"{svg.short(row['limit_gbps'])} Gb/s ({row['limit_by']}). spinwire-doctor, on both machines, names "
                   f"what is in the way.")
    lost = {row["table"]: None for row in record["rows"] if measured(row) and row["case"]["latency"]
            and row["latency"]["lost"]}
    if lost:
        out.append(f"Send less, or find what drops: messages were lost in {'; '.join(lost)}. A percentile among them "
                   f"has no number.")
    tail = max(answered(record), key=_far, default=None)
    if tail and _far(tail) > LONG:
        out.append(f"Give the threads cores of their own (isolcpus, nohz_full): p99.9 of {tail['table']}, "
                   f"{size(tail['case']['bytes'])}, is {_far(tail):.0f} times its p50. spinwire-doctor idle measures "
                   f"what the machine alone takes.")
    return out or ["Nothing stands out: no row is doubtful, no message was lost, and no table is below 80 % of a known "
                   "limit."]


# ---- the page ----------------------------------------------------------------------------------------

def faults(record):
    """What makes a figure doubtful: each reason once, with its tables."""
    found = {fault: {} for fault in record["faults"]}
    for row in record["rows"]:
        if row["valid"] != "valid":
            found.setdefault(f"{row['valid']}: {row['why']}", {})[row["table"]] = None
    rows = [f"{fault} ({'; '.join(names)})" if names else fault for fault, names in found.items()]
    return '<ul class="faults">' + "".join(f"<li>{esc(row)}</li>" for row in rows) + "</ul>" if rows else ""


def end(role, facts):
    about = [facts["machine"] or "a machine of unknown make", f"{facts['cores']} cores", f"Linux {facts['kernel']}",
             facts["gpu"],
             "software ConnectX" if facts["software"] else ""]
    return f"{role}: {facts['host']} ({', '.join(filter(None, about))})"


def html(record):
    svg.Plot.serial = 0
    title = f"spinwire-perf: {record['here']['host']} and {record['there']['host']}"
    rails = parts.table(["rail", "here", "there", "at most, Gb/s", "by its"],
                       [[i + 1, f"{r['own']} ({r['own_address']})", f"{r['peer']} ({r['peer_address']})",
                         f"{r['limit_gbps']:.4g}" if r["limit_gbps"] else None, r["limit_by"] or None]
                        for i, r in enumerate(record["rails"])])
    body = [f"<h1>{esc(title)}</h1><p class=sub>{esc(end('here', record['here']))} · "
            f"{esc(end('there', record['there']))}</p>", faults(record), headline(record),
            page.to_do(advice(record)),
            "<h2>Rails</h2>", rails,
            figure("Bandwidth over size", "Gb/s", lines_of(record, False, lambda r: r["gbps"]),
                   lambda v: f"{svg.short(v)} Gb/s"),
            figure("Messages a second over size", "messages/s", lines_of(record, False, lambda r: r["messages_per_s"]),
                   svg.rate),
            figure("Latency over size: p50, open loop", "p50",
                   lines_of(record, True, lambda r: r["latency"]["open"]["p50_ns"]), svg.time_ns),
            figure("Latency over size: p99, open loop", "p99",
                   lines_of(record, True, lambda r: r["latency"]["open"]["p99_ns"]), svg.time_ns),
            "<h2>Every row</h2>", *(table(name, rows) for name, rows in tables(record))]
    return page.document(title, body)
