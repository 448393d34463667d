# SPDX-License-Identifier: BSD-3-Clause
"""The page of a run of spinwire-perf ("spinwire.perf/1"): bandwidth and latency over size, and every row."""
from spwreport import charts, page, svg
from spwreport.svg import esc

COLOURS = ["s4", "s2", "s3", "s6", "s5", "s8", "s7", "s0", "s1", "s9"]
POINTS = [("p50", "p50"), ("p90", "p90"), ("p99", "p99"), ("p999", "p99.9"), ("max", "max")]
SCHEMA = "spinwire.perf/1"


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
    """lines: [(name, class, [(bytes, value)])], both scales logarithmic; text(value) writes a value."""
    narrow = width < 600
    plot = svg.Plot(width, 280 if narrow else 380, title,
                    f"{title}, over the size of a message. The tables below have the numbers.",
                    left=76, right=16, top=26)
    sizes = [x for _, _, points in lines for x, _ in points]
    values = [y for _, _, points in lines for _, y in points]
    plot.x = svg.Log(min(sizes), max(sizes), plot.x0, plot.x1)
    plot.y = svg.Log(*svg.decades(values), plot.y0, plot.y1)
    plot.y_ticks([(v, text(v)) for v in plot.y.ticks()], label)
    plot.x_ticks([(v, size(v)) for v in sorted(set(sizes))], "size of a message")
    for name, cls, points in lines:
        plot.path([(plot.x(x), plot.y(y)) for x, y in points], cls)
        for x, y in points:
            plot.mark(plot.x(x), plot.y(y), "circle", cls, f"{name}, {size(x)}: {text(y)}")
    return plot.svg()


def lines_of(record, latency, value):
    """One line a table that has two sizes or more."""
    found = []
    for title, rows in tables(record):
        points = [(row["case"]["bytes"], value(row)) for row in rows
                  if measured(row) and row["case"]["latency"] == latency and not is_stream(row)]
        points = [(x, y) for x, y in points if isinstance(y, (int, float)) and y > 0]
        if len(points) > 1:
            found.append((title, points))
    return [(title, COLOURS[i % len(COLOURS)], points) for i, (title, points) in enumerate(found)]


def figure(title, label, lines, text):
    if not lines:
        return ""
    legend = charts.legend([(cls, name, "") for name, cls, _ in lines])
    return f"<h2>{esc(title)}</h2>" + page.figure(lambda w: curves(w, title, label, lines, text), legend)


# ---- tables ------------------------------------------------------------------------------------------

def point(row, loop, name):
    value = row["latency"][loop][f"{name}_ns"]
    return svg.time_ns(value) if isinstance(value, (int, float)) else value


def latency_table(rows):
    head = ["size", "closed loop p50", "due every", *(name for _, name in POINTS), "lost", "CPU a message", "owners"]
    return page.table(head, [[size(r["case"]["bytes"]), point(r, "closed", "p50"), svg.time_ns(r["latency"]["gap_ns"]),
                              *(point(r, "open", p) for p, _ in POINTS), svg.count(r["latency"]["lost"]),
                              svg.time_ns(r["cpu_ns_per_message"]), r["owners"] or None] for r in rows])


def bandwidth_table(rows):
    head = ["streams" if is_stream(rows[0]) else "size", "Gb/s", "GB/s", "messages/s", "of its limit", "CPU a message",
            "CPU a GB", "owners"]
    return page.table(head, [[r["case"]["streams"] if is_stream(r) else size(r["case"]["bytes"]), f"{r['gbps']:.3f}",
                              f"{r['gbps'] / 8:.3f}",
                              svg.rate(r["messages_per_s"]), f"{100 * r['efficiency']:.0f} %" if r["efficiency"]
                              else None,
                              svg.time_ns(r["cpu_ns_per_message"]), svg.time_ns(1e6 * r["cpu_ms_per_gb"]),
                              r["owners"] or None] for r in rows])


def table(title, rows):
    good = [row for row in rows if row["valid"] != "failed"]
    out = f"<h3>{esc(title)}</h3>"
    if good:
        limit = f"limit {good[0]['limit_gbps']:.4g} Gb/s: {good[0]['limit_by']}" if good[0]["limit_gbps"] else ""
        notes = ", ".join(filter(None, [limit, good[0]["way"]]))
        out += (f"<p class=sub>{esc(notes)}</p>" if notes else "") + (latency_table if good[0]["case"]["latency"]
                                                                      else bandwidth_table)(good)
    return out


# ---- the page ----------------------------------------------------------------------------------------

def faults(record):
    """What makes a figure doubtful: each reason once."""
    found = dict.fromkeys(record["faults"])
    for row in record["rows"]:
        if row["valid"] != "valid":
            found[f"{row['valid']}: {row['why']}"] = None
    return '<ul class="faults">' + "".join(f"<li>{esc(fault)}</li>" for fault in found) + "</ul>" if found else ""


def end(role, facts):
    about = [facts["machine"] or "a machine of unknown make", f"{facts['cores']} cores", f"Linux {facts['kernel']}",
             facts["gpu"],
             "software ConnectX" if facts["software"] else ""]
    return f"{role}: {facts['host']} ({', '.join(filter(None, about))})"


def html(record):
    svg.Plot.serial = 0
    title = f"spinwire-perf: {record['here']['host']} and {record['there']['host']}"
    rails = page.table(["rail", "here", "there", "at most, Gb/s", "by its"],
                       [[i + 1, f"{r['own']} ({r['own_address']})", f"{r['peer']} ({r['peer_address']})",
                         f"{r['limit_gbps']:.4g}" if r["limit_gbps"] else None, r["limit_by"] or None]
                        for i, r in enumerate(record["rails"])])
    body = [f"<h1>{esc(title)}</h1><p class=sub>{esc(end('here', record['here']))} · "
            f"{esc(end('there', record['there']))}</p>", faults(record), rails,
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
