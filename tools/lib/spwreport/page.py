# SPDX-License-Identifier: BSD-3-Clause
"""One self-contained HTML page from a record: no script, nothing fetched."""
import os
import re

import spwjoin
from spwreport import advice, charts, data, objects, objects_page, svg, where
from spwreport.parts import facts, figure, folded, table, time_or
from spwreport.svg import esc

REGIMES = [("idle_poll", "idle"), ("rx", "s8"), ("push", "s2"), ("reap", "s5"), ("tx", "s6"), ("refill", "s3"),
           ("housekeeping", "s1")]


def _css():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "report.css"), encoding="utf-8") as file:
        return file.read()


def load_name(step):
    share = f" ({100 * step['share']:.0f} %)" if step.get("share") else ""
    return f"{svg.rate(step['offered_fps'])}{share}".replace(" ", "\u00a0")


# ---- what stands on top ------------------------------------------------------------------------------

def _tiles(record, good, knee):
    tiles = []
    if record["carries"] and record["carries"]["fps"]:
        tiles.append((svg.rate(record["carries"]["fps"]), "frames/s carried by the path: at most 1 % of them missing"))
    if len(good) > 1:
        tiles.append(advice.knee_fact(good, knee))
    at = knee or min(good, key=lambda s: data.missing(s["gen"]), default=None)
    where = "at the knee" if knee else f"at {load_name(at)} frames/s" if at else ""
    if at and objects.streams(at):
        return facts([tile for one in objects.streams(at) for tile in objects_page.tiles(one)])
    for point, name in data.CURVES if at else []:
        got = data.value(at, point)
        tiles.append((time_or(got) if got is not None else "too few", f"{name} of the round trip {where}"))
    return facts(tiles)


def _balance(good):
    off = [s for s in good if s["spinwire"]["ledger"]["residual"] or s["spinwire"]["pool"]["leaked"]]
    if off:
        return f"<b class=lost>The ledgers of {len(off)} of {len(good)} steps do not balance: those are invalid.</b>"
    frames = sum(s["spinwire"]["ledger"]["received"] for s in good)
    return f"Of {svg.count(frames)} frames that spinwire received, every one is accounted for (residual 0)."


def _span(times_ns):
    low, high = svg.time_ns(min(times_ns)), svg.time_ns(max(times_ns))
    return low if low == high else f"{low} to {high}"


def _late(good):
    """The sender's own error, in words: what it cannot keep is in every percentile of the round trip."""
    errors = [(s["gen"]["schedule_error"].get("p999_ns"), s) for s in good]
    known = [e for e, _ in errors if isinstance(e, (int, float))]
    if not known:
        return ""
    alone = [ns for ns in ((s["gen"].get("core_alone") or {}).get("p999_ns") for s in good)
             if isinstance(ns, (int, float))]
    machine = (f" With nothing to do, its core was preempted for {_span(alone)} (p99.9, by time): that part is the "
               f"machine's." if alone else "")
    return (f" The sender kept its schedule within {_span(known)} (p99.9{' of each step' if len(known) > 1 else ''}); "
            f"how late it was is part of every round trip, which counts "
            f"from the intended time.{machine}")


def _floor_text(floor):
    if not floor:
        return ""
    parts = " and ".join(f"{svg.time_ns(ns)} at {svg.percentile(p)}" for p, ns in floor.items())
    return (f" While these cores were idle but for a probe, a frame that meets each of them once would have waited "
            f"{parts}: that is the machine's.")


def _faults(record):
    faults = list(record["faults"])
    taken = advice.busy(record)
    if taken:
        faults.append(f"this machine was busy: {advice.busy_text(taken)}. Tails here are the machine's")
    for i, step in enumerate(record["steps"], 1):
        outcome = "and was measured again" if data.good(step) else "twice: it is not in the plots"
        if step["faults"]:
            faults.append(f"step {i} ({load_name(step)} frames/s) failed {outcome}: {step['faults'][-1]}")
        if step.get("note"):
            faults.append(f"step {i} ({load_name(step)} frames/s): {step['note']}")
    return '<ul class="faults">' + "".join(f"<li>{esc(f)}</li>" for f in faults) + "</ul>" if faults else ""


def to_do(rows):
    """A list of advice. An option of a command is not broken at its dashes."""
    items = (re.sub(r"(^|\s)(--?\w[^\s:,;]*)", r"\1<span class=whole>\2</span>", esc(row)) for row in rows)
    return "<h2>What to do</h2><ol>" + "".join(f"<li>{item}</li>" for item in items) + "</ol>" if rows else ""


# ---- sections ------------------------------------------------------------------------------------------

def _knee_section(good, knee, floor, probes):
    head = ["load, frames/s", "missing", "p50", "p90", "p99", "p99.9", "p99.99", "max", "sender's error p99.9"]
    rows = [[load_name(s), f"{100 * data.missing(s['gen']):.4f} %",
             *(time_or(data.value(s, p)) for p, _ in data.POINTS),
             time_or(data.value(s, "max")), time_or(s["gen"]["schedule_error"].get("p999_ns"))] for s in good]
    marked = [good.index(knee)] if knee else []
    numbers = table(head, rows, marked)
    if len(good) < 2:
        return (f"<h2>Round trip</h2><p>From the intended send time to the echo. Missing frames count as longer than "
                f"any.</p>{numbers}")
    legend = charts.legend([(f"c-{p}", name, "") for p, name in data.CURVES])
    searched = " Open circles are the p99 of the short runs that searched for what the path carries." if probes else ""
    return (f"<h2>Latency against load</h2><p>Round trip from the <em>intended</em> send time to the echo. Frames that "
            f"were not sent or did not come back count as longer than any: a percentile that falls among them is <span "
            f"class=lost>lost</span> and "
            f"has no number.{searched}</p>"
            + figure(lambda w: charts.knee(w, good, knee, floor, probes), narrow=legend) + _saturated(good, knee)
            + folded("The numbers", numbers))


def _saturated(good, knee):
    """Why the knee is where it is: what slow round trips waited for at the next load."""
    above = [s for s in good if knee and s["offered_fps"] > knee["offered_fps"]
             and (s.get("where") or {}).get("frames")]
    if not above:
        return ""
    step = min(above, key=lambda s: s["offered_fps"])
    waits = {}
    for row in step["where"]["by"]:
        who = spwjoin.PLACES[spwjoin.INDEX["wire_out" if row["place"] == "held" else row["place"]]][3]
        waits[who] = waits.get(who, 0) + row["ns"] / step["where"]["whole_ns"]
    who, share = max(waits.items(), key=lambda item: item[1])
    cause, part = where.main_cause(step["where"])
    return (f"<p>Beyond the knee, at {load_name(step)} frames/s, slow round trips spent {100 * share:.0f} % of their "
            f"time waiting for "
            f"<b>{esc(spwjoin.WHO[who])}</b>; the largest cause is <b>{esc(cause)}</b>, {100 * part:.0f} %.</p>")


def _stage_table(step):
    rows = [[r["stage"], svg.count(r["count"]),
             *(time_or(r.get(f"{p}_ns")) for p, _ in data.POINTS), time_or(r.get("max_ns")),
             svg.time_ns(r["uncertainty_ns"])]
            for r in data.stages(step)]
    return table(["stage", "frames", "p50", "p90", "p99", "p99.9", "p99.99", "max", "± (clocks)"], rows)


def _spectrum_section(good, knee):
    chosen = [knee] if knee else [good[len(good) // 2]] if len(good) > 1 else list(good)
    if len(good) > 1 and good[-1] not in chosen:
        chosen.append(good[-1])
    out = ["<h2>Where the time goes, by percentile</h2><p>Each line is one stage's own distribution: their percentiles "
           "do not add up, since "
           "it is not the same frames that are slow in each. The shaded band between the round trip and spinwire's own "
           "<em>nic_sent</em> is time beyond "
           "spinwire: the source, both NICs and the wire.</p>"]
    for step in chosen:
        lines = charts.stage_lines(step)
        if lines:
            name = f"Stages at {load_name(step)} frames/s{', the knee' if step is knee else ''}"
            legend = charts.legend([(cls, label, "") for label, cls, *_ in lines])
            out.append(f"<h3>{esc(name)}</h3>" + figure(lambda w, n=name, l=lines: charts.spectra(w, n, l),
                                                        legend)
                       + folded("The numbers", _stage_table(step)))
    lines = charts.load_lines(good)
    if len(lines) > 1:
        name = "The round trip at each load"
        legend = charts.legend([(cls, label, "") for label, cls, *_ in lines])
        out.append(f"<h3>{name}</h3>" + figure(lambda w: charts.spectra(w, name, lines), narrow=legend))
    return "".join(out)


def _worst_of(step, pick, keys, title):
    """keys: every part that there may be, in order, with a hint."""
    frames = pick(step)
    if not frames:
        return ""
    used = [key for key in keys if any(key == k and ns for f in frames for k, ns in f["parts"])]
    legend = charts.legend([(charts.part_class(key), charts.part_name(key), keys[key]) for key in used])
    rows = [[f["name"], f["cause"] or None, svg.time_ns(f["whole_ns"]),
             *(time_or(dict(f["parts"]).get(key)) for key in used)]
            for f in frames]
    numbers = table(["frame", "cause", "whole", *(charts.part_name(key) for key in used)], rows)
    return f"<h3>{esc(title)}</h3>" + figure(lambda w: charts.worst(w, frames, title),
                                             legend=legend) + folded("The numbers", numbers)


def _worst_section(good, knee):
    steps = [knee] if knee else [good[0]]
    steps += [good[-1]] if good[-1] not in steps else []
    ways, waits, out = {key: hint for key, _, hint, _ in spwjoin.PLACES}, dict.fromkeys(charts.CAUSE_CLASS, ""), ""
    for step in steps:
        at = f"at {load_name(step)} frames/s{', the knee' if step is knee else ''}"
        out += _worst_of(step, data.worst_frames, ways, f"The slowest round trips {at}, place by place")
        out += _worst_of(step, data.worst_batches, waits, f"spinwire's slowest batches {at}, by cause")
    if not out:
        return ""
    return ("<h2>The worst frames</h2><p>One time line a frame, from due to back: its parts follow each other. One "
            "frame stands for those of its stall.</p>" + out)


def _cause_section(good):
    out = ""
    for who, name in (("gen", "As the sender reports them"), ("spinwire", "As spinwire reports them")):
        rows = data.causes(good, who)
        limit = next((s[who]["causes"].get("threshold_ns") for s in good if s[who].get("causes")), None)
        if rows:
            head = ["cause", *(load_name(s) for s in good), "worst"]
            out += (f"<h3>{name}{f', above {svg.time_ns(limit)}' if limit else ''}</h3>"
                    + table(head, [["lost on the way" if cause == "lost" else cause, *map(svg.count, by),
                                    svg.time_ns(ns) if ns else None] for cause, by, ns in rows]))
    return (f"<h2>Causes of slow frames</h2><p>Frames by load, in frames/s. Each slow frame has one cause.</p>{out}"
            if out else "")


def _regime_section(good):
    rows = [(svg.rate(s["offered_fps"]), s["spinwire"]["regimes"]) for s in good
            if any(s["spinwire"].get("regimes", {}).values())]
    if not rows:
        return ""
    legend = charts.legend([(cls, key.replace("_", " "), "") for key, cls in REGIMES])
    return ("<h2>Where the lcore's time went</h2><p>Every tick of the receiving lcore belongs to one of these. Empty "
            "polls are what is left to give."
            "</p>" + figure(lambda w: charts.shares(w, rows, [k for k, _ in REGIMES], dict(REGIMES),
                                                    "Time of the lcore by load", "share of time, %"),
                            legend=legend) + _held_table(good))


def _share_table(name, rows, parts):
    """Every share of some bars, also of the parts that are too short for their number. parts: [(key, name)]."""
    return folded("The numbers", table([name, *(load for load, _ in rows)],
                                       [[part, *(f"{100 * row.get(key, 0):.1f} %" for _, row in rows)]
                                        for key, part in parts]))


def _where_section(good):
    """Where slow round trips' time went: stacked bars by cause and by place, one a load."""
    got = [(s, s["where"]) for s in good if (s.get("where") or {}).get("frames")]
    faults = "".join(f"<p class=lost>{esc(line)}</p>" for s in good if (s.get("where") or {}).get("fault")
                     for line in where.lines(s["where"]))
    if not got:
        return f"<h2>Where slow round trips' time went</h2>{faults}" if faults else ""
    causes = [(svg.rate(s["offered_fps"]), dict(where.by_cause(w))) for s, w in got]
    places = [(svg.rate(s["offered_fps"]), {key: share for key, _, share, _ in where.by_place(w)}) for s, w in got]
    keys = [c for c in charts.CAUSE_CLASS if any(row.get(c, 0) >= 0.001 for _, row in causes)]
    keys.sort(key=lambda c: -sum(row.get(c, 0) for _, row in causes))
    spots = [p for p in charts.PLACE_NAME if any(row.get(p, 0) >= 0.001 for _, row in places)]
    head = ["load, frames/s", "slow frames", "with every stamp", "attributed", "fell behind for the longest"]
    rows = [[load_name(s), svg.count(w["frames"]) + (f" (1 in {w['every']})" if w["every"] > 1 else ""),
             svg.count(w["joined"]), where.attributed(w), _behind(w)] for s, w in got]
    return ("<h2>Where slow round trips' time went</h2><p>All round trips above the threshold, joined from source, "
            "NICs and spinwire by flow and number: "
            "the sum of their time. A place without evidence of a cause is <em>unknown</em>.</p>" + faults
            + "<h3>By cause, at each load in frames/s</h3>"
            + figure(lambda w: charts.shares(w, causes, keys, charts.CAUSE_CLASS, "Slow round trips' time by cause",
                                             "share of their time, %"),
                     legend=charts.legend([(charts.CAUSE_CLASS[c], c, spwjoin.TEXTS.get(c, "")) for c in keys]))
            + _share_table("cause", causes, [(c, c) for c in keys])
            + "<h3>By place, in the order of the way</h3>"
            + figure(lambda w: charts.shares(w, places, spots, charts.PLACE_CLASS, "Slow round trips' time by place",
                                             "share of their time, %"),
                     legend=charts.legend([(charts.PLACE_CLASS[p], charts.PLACE_NAME[p], hint)
                                           for p, _, hint, _ in spwjoin.PLACES if p in spots]))
            + _share_table("place", places, [(p, charts.PLACE_NAME[p]) for p in spots])
            + table(head, rows))


def _behind(got):
    return (f"{spwjoin.WHO[got['behind'][0]['who']]}: {svg.time_ns(got['behind'][0]['ns'])} from "
            f"{got['behind'][0]['from_ns'] * 1e-9:.2f} s on" if got["behind"] else None)


def _away_section(good):
    """The thread that a backlog waited for has the longest time."""
    names = [name for name, _ in data.away(good[0])]
    rows = [[load_name(s), *(time_or(dict(data.away(s)).get(name)) for name in names)] for s in good]
    if not names:
        return ""
    return ("<h2>Which thread fell behind</h2><p>The longest that each thread of the path was away from its work at a "
            "stretch, at most. A round "
            "trip that is longer than all of them waited in a queue.</p>" + table(["frames/s", *names], rows))


HELD = [("lost", "lost the core"), ("port", "receive call"), ("push", "push"), ("tx", "transmit call"),
        ("refill", "refill"), ("quota", "CPU quota")]


def _held_table(good):
    """What kept the loop from polling, by step: times, sum and longest."""
    rows = []
    for s in good:
        held = s["spinwire"].get("held")
        if held:
            rows.append([load_name(s),
                         *(f"{svg.count(held[k]['times'])}, {svg.time_ns(held[k]['sum_ns'])}, longest "
                           f"{svg.time_ns(held[k]['max_ns'])}"
                                         if held.get(k, {}).get("times") else None for k, _ in HELD),
                         held.get("switched_out")])
    return folded("What held the loop up", table(["load, frames/s", *(name for _, name in HELD), "switched out"],
                                                 rows)) if rows else ""


def _ledger_section(good):
    names = sorted({name for s in good for name, n in s["spinwire"]["ledger"]["dropped"].items() if n})
    bad = sorted({name for s in good for name, n in s["spinwire"]["ledger"]["bad"].items() if n})
    sides = [(s["gen"], s["spinwire"]["ledger"]) for s in good]
    rows = [["residual", *(svg.count(led["residual"]) for _, led in sides)]]
    rows += [[f"{key}, by the source", *(svg.count(gen[key]) for gen, _ in sides)] for key in ("intended", "sent")]
    rows += [[f"{key}, by spinwire", *(svg.count(led[key]) for _, led in sides)]
             for key in ("received", "executed", "echoed")]
    rows += [["came back, by the source", *(svg.count(gen["echoed"]) for gen, _ in sides)],
             ["lost", *(svg.count(gen["lost"]) for gen, _ in sides)]]
    rows += [[f"dropped: {n}", *(svg.count(led["dropped"].get(n, 0)) for _, led in sides)] for n in names]
    rows += [[f"bad: {n}", *(svg.count(led["bad"].get(n, 0)) for _, led in sides)] for n in bad]
    rows += [[key, *(svg.count(gen[key]) for gen, _ in sides)] for key in ("duplicated", "reordered", "corrupted")]
    return (f"<h2>The ledger</h2><p>{_balance(good)} Each row is counted by somebody else.</p>"
            + table(["frames at a load of, frames/s", *(load_name(s) for s in good)], rows, marked=[0]))


def _jitter_section(record, good, floor):
    before, after = record["hiccup"]["before"], record["hiccup"]["after"]
    out = "<h2>The machine itself</h2>"
    if before or after:
        taken = data.hiccup_fact(before or after, "taken by gaps over 1 us")
        text = "; ".join(f"{core}: {share:.2f} %" for core, share in taken.items())
        out += ("<p>A thread that only reads the clock, on each core that the run used, before and after it. What "
                "delayed it was not spinwire: "
                f"interrupts, other programs, the hypervisor. Taken by gaps over 1 µs: "
                f"{esc(text)}.{_floor_text(floor)}</p>"
                + figure(lambda w: charts.jitter(w, before, after), narrow=charts.legend(
                    [("j-before", "before", ""), ("j-after", "after", "")])))
    rows = []
    for s in good:
        for core, at in (s.get("machine") or {}).get("cores", {}).items():
            most = ", ".join(f"{name} {svg.short(r)}/s" for name, r in at["most"])
            rows.append([load_name(s), core, f"{at['interrupts']:.0f}", f"{100 * at['stolen']:.2f} %", most,
                         " ".join(s["machine"]["load"])])
    if rows:
        out += folded("Interrupts and stolen time during the steps", table(
            ["load, frames/s", "core", "interrupts/s", "stolen", "most of them", "load average"], rows))
    return out


def _executor(of):
    ctas = of.get("ctas")
    cta_text = f", {ctas} CTA{'' if ctas == 1 else 's'}" if ctas else ""
    return f"{of['kind']} ({of['mode']}{cta_text}), {of['device']}"


def _settings_section(record, good):
    host = good[0]["spinwire"]["host"] if good else {}
    spinwire = [("spinwire", f"{good[0]['spinwire']['version']}, {host.get('dpdk', '?')}"),
                ("executor", _executor(good[0]["spinwire"]["executor"])),
                ("memory", "{kind}: {why}; {h2d_copies} host-to-device copies".format(**good[0]["spinwire"]["memory"])),
                ("clock", f"{host.get('tsc_hz', 0) / 1e6:.3f} MHz")] if good else []
    rows = "".join(f"<tr><td>{esc(name)}</td><td "
                   f"class=wrap>{f'<code>{esc(text)}</code>' if name in ('source', 'sink') else esc(text)}</td></tr>"
                   for name, text in [*spinwire, *record["settings"], *record["machine"]])
    out = f"<h2>Settings and machine</h2><table><tbody>{rows}</tbody></table>"
    probes = record["carries"]["probes"] if record["carries"] else []
    if probes:
        out += folded("How the carried load was found",
                      table(["offered, frames/s", "came back, frames/s", "missing", "carried"], [
            [svg.rate(p["offered_fps"]), svg.rate(p["echoed_fps"]), f"{100 * p['missing']:.2f} %",
             "yes" if p["carried"] else "no"] for p in probes]))
    return out


def document(title, body):
    """One file from the parts of its body."""
    return ('<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
            'content="width=device-width, initial-scale=1">'
            f"<title>{esc(title)}</title><link rel=icon href=data:,><style>{_css()}</style></head><body>"
            + "\n".join(body) + "</body></html>\n")


def _glossary():
    """Places, stages and causes in one clause each, as they are called everywhere."""
    places = "".join(f"<tr><td>{esc(name)}</td><td class=wrap>{esc(hint)}; waits for {esc(spwjoin.WHO[who])}</td></tr>"
                     for _, name, hint, who in spwjoin.PLACES)
    stages = "".join(f"<tr><td>{esc(name)}</td><td class=wrap>{esc(text)}</td></tr>"
                     for name, text in charts.STAGE_TEXT.items() if name not in charts.PLACE_NAME)
    causes = "".join(f"<tr><td>{esc(name)}</td><td class=wrap>{esc(text)}</td></tr>"
                     for name, text in spwjoin.TEXTS.items())
    return "<h2>Words</h2>" + folded("Places, stages and causes",
                                     f"<table><tbody>{places}{stages}{causes}</tbody></table>"
                                     f"<p>How each cause is proven: docs/050.</p>")


def _nics(record):
    """Whose times these are, first of all."""
    settings = dict(record["settings"])
    if not settings.get("path", "").startswith("softhca"):
        return ""
    return f"<b>software NICs, {esc(settings.get('cores', '').partition(':')[0])}</b> · "


# ---- the page --------------------------------------------------------------------------------------------

def html(record, folder=""):
    """The page as text; folder: where it will be, for commands that it shows."""
    svg.Plot.serial = 0
    good = [s for s in record["steps"] if data.good(s)]
    knee = data.knee(good)
    floor = data.host_floor(record["hiccup"].values(), (99.9, 99.99))
    frames = dict(record["settings"]).get("frames", "")
    body = [f"<h1>spinwire: {esc(record['title'].lower())}</h1><p class=sub>{_nics(record)}{esc(record['begun'])} · "
            f"{esc(frames)} · "
            f"{esc(dict(record['machine']).get('processor', ''))}</p>", _faults(record), _tiles(record, good, knee),
            to_do(advice.lines(record, good, knee, folder))]
    if good:
        body.append(f"<p>{_balance(good)}{_late(good)}{_floor_text(floor)}</p>")
        body += [objects_page.sections(good[-1])] if objects.streams(good[-1]) else [
            _knee_section(good, knee, floor, (record["carries"] or {}).get("probes", [])), _where_section(good)]
        body += [_spectrum_section(good, knee), _worst_section(good, knee), _cause_section(good),
                 _away_section(good), _regime_section(good), _ledger_section(good)]
    else:
        body.append("<p>No step could be measured.</p>")
    body += [_jitter_section(record, good, floor), _settings_section(record, good), _glossary()]
    return document(f"spinwire: {record['title'].lower()}", body)
