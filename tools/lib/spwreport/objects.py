# SPDX-License-Identifier: BSD-3-Clause
"""Streams of objects: what spinwire's summary and the lines of --receipts say of them, as lines of text and for the
page. The names are those of lib/obj/spw_obj_slow.h."""
import json
import os

from spwreport import svg

CAUSES = {"sender": "its frames came that far apart", "missing": "frames that had not come when it was closed",
          "port": "its last frame waited in the port while the loop kept polling",
          "poll_gap": "spinwire's loop did not run: it lost its core, or a call to the port took long",
          "order": "an older object was open, and objects are handed over in order",
          "batch_ahead": "the executor was busy with batches before it, or its ring was full",
          "exec_late": "the executor was free, but started late", "mover": "the executor moved or filled its bytes",
          "reap_late": "moved, but the loop had not looked, or an earlier batch was unfinished",
          "consumer": "consumers held the buffers: it was shed, or taken back unread",
          "unexplained": "no stamp says where the time went"}
PARTS = {"arrive": "first frame to last frame", "port": "last frame to placed",
         "missing": "to the last poll that found the port empty", "unseen": "that poll to closed",
         "order": "closed to all before it closed", "push": "to its last batch pushed",
         "wait": "pushed to executor start", "move": "executor start to end", "reap": "executor end to published"}
RECEIPTS = "receipts.jsonl"  # beside the report


def streams(step):
    return (step.get("spinwire") or {}).get("objects", [])


def ended(one):
    return sum(one["states"].values())


# ---- sums ----

def by_cause(one):
    """[(cause, share of slow objects' time)], the largest first."""
    rows = one["slow"]["by"]
    whole = sum(row["ns"] for row in rows)
    return sorted(((row["cause"], row["ns"] / whole) for row in rows if row["ns"]), key=lambda item: -item[1])


def timeline(one, most=10):
    """Its longest objects, in the form of data.worst_frames: parts are causes, in the order of the way."""
    return [{"name": f"object {row['id']}, {row['state']}", "whole_ns": row["way"]["whole_ns"],
             "cause": f"{row['way']['cause']}, " + "{:.0f} % of it".format(
                 100 * row["way"]["blame_ns"][row["way"]["cause"]] / max(1, row["way"]["whole_ns"])),
             "parts": [item for part in row["way"]["parts"] for item in part["blame_ns"].items()]}
            for row in one["slow"]["worst"][:most] if row["way"]["whole_ns"]]


# ---- text ----

def _points(row):
    known = ((name, row[f"{key}_ns"]) for key, name in (("p50", "p50"), ("p99", "p99"), ("max", "longest")))
    return ", ".join(f"{name} {svg.time_ns(ns)}" for name, ns in known if ns is not None)


def slow_text(one):
    """Why objects were slow or shed; their time sums to 100 %."""
    slow = one["slow"]
    counts = ", ".join(f"{row['cause']} {row['objects']}" for row in slow["by"] if row["objects"])
    if not counts:
        return f"no object took more than {svg.time_ns(slow['threshold_ns'])}, none was shed"
    shares = ", ".join(f"{cause} {100 * share:.0f} %" for cause, share in by_cause(one) if share >= 0.005)
    return (f"{slow['objects']} took more than {svg.time_ns(slow['threshold_ns'])} or were shed: {counts}"
            + (f"; their time: {shares}" if shares else ""))


def brief(step):
    """[(lead, text)] for the result of tools/run."""
    for one in streams(step):
        states = ", ".join(f"{name} {cnt}" for name, cnt in one["states"].items() if cnt) or "none"
        took = f"; first frame to publication {_points(one['latency'])}" if one["latency"]["count"] else ""
        yield "objects", f"{one['stream']}: {states}{took}"
        yield "slow", slow_text(one)


def name_of(step):
    """Of the longest object, for --explain; None if there is none."""
    return next((f"{one['stream']}:{one['slow']['worst'][0]['id']}" for one in streams(step) if one["slow"]["worst"]),
                None)


def _line(at, took, part, text):
    return f"  {at * 1e-3:>11.2f}  {took:>11}  {part:44} {text}".rstrip()


def _way(row):
    at = 0
    yield f"  {'from [us]':>11}  {'took [us]':>11}  {'part':44} cause"
    for part in row["way"]["parts"]:
        causes = ", ".join(f"{cause} {svg.time_ns(ns)}" for cause, ns in
                           sorted(part["blame_ns"].items(), key=lambda item: -item[1]))
        yield _line(at, f"{part['ns'] * 1e-3:.2f}", PARTS[part["part"]], causes)
        at += part["ns"]
    yield _line(row["way"]["whole_ns"], "", "published", f"{row['way']['cause']}: {CAUSES[row['way']['cause']]}")


def _stamps(row):
    """Of an object whose way was not kept, or that was never handed over."""
    since = min(ns for ns in (row["first_nic_ns"], row["open_ns"]) if ns is not None)
    for key, what in (("open_ns", "first frame placed"), ("close_ns", "closed"), ("publish_ns", "published")):
        if row.get(key):
            yield _line(row[key] - since, "", what, "")


def story(row, stream, release=None, taken_back=None):
    """The lines of one object's way: a receipt, or a row of the summary's longest. release, taken_back: what else
    --receipts has of it."""
    slow = "slow" if row["way"] and row["way"]["slow"] else "not slow"
    took = f"{svg.time_ns(row['way']['whole_ns'])} from its first frame to publication, {slow}" if row["way"] else slow
    if row["state"] in ("shed", "aborted"):
        took = "handed over to nobody"
    yield f"stream {stream}, object {row['id']}: {row['state']} ({row['cause']}), {took}"
    yield from _way(row) if row["way"] else _stamps(row)
    if release and release["release_ns"] is not None:
        yield f"  its consumer released it {svg.time_ns(release['release_ns'] - release['publish_ns'])} later"
    if taken_back:
        yield "  it was taken back unread for a newer one"


# ---- one object ----

def _receipts(folder, stream, number):
    """{kind of line: the line} of what the receipts of a run have of an object."""
    found, path = {}, os.path.join(folder, RECEIPTS)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                if (row["stream"], row["id"]) == (stream, number):
                    back = row.get("cause") == "taken_back"
                    found["taken_back" if back else row["schema"].partition("/")[0]] = row
    return found


def explain(step, folder, stream, number=None):
    """The lines of one object's way in the run whose report is in the folder; number None: its slowest."""
    one = next((one for one in streams(step) if one["stream"] == stream), None)
    if not one:
        names = ", ".join(one["stream"] for one in streams(step)) or "none"
        raise RuntimeError(f"--explain: the run in {folder} has no stream {stream}; it has {names}")
    worst = one["slow"]["worst"]
    if number is None and not worst:
        raise RuntimeError(f"--explain {stream}: no object was handed over in that run")
    number = worst[0]["id"] if number is None else number
    found = _receipts(folder, stream, number)
    row = found.get("spinwire.object") or next((row for row in worst if row["id"] == number), None)
    if not row:
        raise RuntimeError(f"--explain: {folder} has no receipt of object {stream}:{number}; objects "
                           f"{', '.join(str(row['id']) for row in worst[:3])} took longest")
    return list(story(row, stream, found.get("spinwire.release"), found.get("taken_back")))
