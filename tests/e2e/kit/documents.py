# SPDX-License-Identifier: BSD-3-Clause
"""JSON that spinwire's programs write, read by tests: every document is held to its schema of share/schema, and what
must hold between its numbers is checked beside it."""
import functools
import importlib.machinery
import importlib.util
import json
import os
import sys

# Debian's packages belong to Debian's python3, which need not be the one that runs this test; this one is pure Python.
sys.path.append("/usr/lib/python3/dist-packages")
try:
    import jsonschema
except ImportError as missing:
    print(f"skipped: {missing} (tools/deps test)")
    sys.exit(77)

SCHEMAS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "share", "schema")


def _bundle():
    loader = importlib.machinery.SourceFileLoader("bundle", os.path.join(SCHEMAS, "bundle"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bundle", loader))
    loader.exec_module(module)
    return module.bundle


@functools.lru_cache(maxsize=None)
def validator(name):
    """Of the schema in name.json."""
    return jsonschema.Draft202012Validator(_bundle()(os.path.join(SCHEMAS, f"{name}.json")))


def _name_of(document):
    """Of the schema that its kind has; "" if there is none."""
    kind = str(document.get("schema") if isinstance(document, dict) else None)
    name = kind.partition(".")[2].partition("/")[0]
    return name if name and os.path.exists(os.path.join(SCHEMAS, f"{name}.json")) else ""


def faults(document):
    """Texts: where the document is not as its schema says. Its kind stands in it: "schema": "spinwire.KIND/VERSION"."""
    name = _name_of(document)
    if not name:
        return ["no schema for this document"]
    return [f"{'/'.join(map(str, error.absolute_path)) or 'document'}: {error.message[:400]}"
            for error in validator(name).iter_errors(document)]


def check(document):
    """AssertionError names the first places that are wrong."""
    found = faults(document)
    assert not found, "; ".join(found[:5])
    NUMBERS.get(document["schema"], lambda _: None)(document)
    return document


def loads(text):
    """A document of ours and nothing else."""
    return check(json.loads(text))


def load(path):
    with open(path, encoding="utf-8") as file:
        return loads(file.read())


def lines(path, judged=50):
    """A document of ours a line. Thousands are alike: the first are held against the schema."""
    with open(path, encoding="utf-8") as file:
        got = [json.loads(line) for line in file]
    for document in got[:judged]:
        check(document)
    return got


def foreign(text):
    """JSON of other programs, and messages of protocols: not a document of ours, which has a schema."""
    got = json.loads(text)
    assert not _name_of(got), f"a document of kind {got['schema']} is read without its schema"
    return got


# ---- what must hold between numbers ------------------------------------------------------------------

POINTS = [f"{name}_ns" for name in ("min", "p50", "p90", "p99", "p999", "p9999", "max")]
EXECUTORS = {("inline", "lcore"), ("cpu", "thread"), ("cuda", "persistent"), ("cuda", "graph"), ("cuda", "launch")}
STAMPS = ("polled_tsc", "pushed_tsc", "start_tsc", "end_tsc", "reaped_tsc", "sent_tsc")


def _rise(row, name):
    known = [row[point] for point in POINTS if isinstance(row[point], int)]
    assert known == sorted(known), f"percentiles of {name} fall: {row}"


def _slow(summary):
    """Causes are exclusive and sum to the count; the worst are in order, whole, and their blame sums to them."""
    causes, worst = summary["causes"], summary["worst"]
    assert sum(row["frames"] for row in causes["by"]) == causes["frames_above"], f"causes: {causes}"
    assert len({row["cause"] for row in causes["by"]}) == len(causes["by"]), f"a cause twice: {causes}"
    for row in causes["by"]:
        assert row["frames"] > 0, f"cause: {row}"
        assert row["max_ns"] >= causes["threshold_ns"], f"not above the threshold: {row}"
    assert [w["whole_ns"] for w in worst] == sorted((w["whole_ns"] for w in worst), reverse=True), "worst out of order"
    for row in worst:
        stamps = [row["stamps"][key] for key in STAMPS if key != "pushed_tsc"]
        assert stamps == sorted(stamps), f"stamps out of order: {row}"
        assert row["blame_ns"][row["cause"]] == max(row["blame_ns"].values()), f"blame: {row}"
        assert abs(sum(row["blame_ns"].values()) - row["whole_ns"]) <= len(row["blame_ns"]), f"no sum: {row}"


def _way(way):
    """Of an object: parts and causes sum to the whole, and the cause is the largest."""
    blame, parts = way["blame_ns"], way["parts"]
    assert blame[way["cause"]] == max(blame.values()), f"blame: {way}"
    assert abs(sum(blame.values()) - way["whole_ns"]) <= len(blame), f"blame does not sum: {way}"
    assert abs(sum(part["ns"] for part in parts) - way["whole_ns"]) <= len(parts), f"parts do not sum: {way}"
    for part in parts:
        assert abs(sum(part["blame_ns"].values()) - part["ns"]) <= len(part["blame_ns"]), f"causes do not sum: {part}"


def _object(line):
    if line["way"]:
        _way(line["way"])
        assert abs(line["way"]["first_ns"] + line["way"]["whole_ns"] - line["publish_ns"]) <= 2, f"way: {line}"


def _streams(streams):
    for one in streams:
        slow = one["slow"]
        assert sum(row["objects"] for row in slow["by"]) == slow["objects"], f"slow objects: {slow}"
        wholes = [row["way"]["whole_ns"] for row in slow["worst"]]
        assert wholes == sorted(wholes, reverse=True), f"the longest out of order: {wholes}"
        _rise(one["latency"], f"objects of {one['stream']}")
        published = one["states"]["complete"] + one["states"]["partial"]
        assert one["latency"]["count"] == published, f"published {published}, {one['latency']}"
        for row in slow["worst"]:
            _way(row["way"])


def _summary(summary):
    ledger, executor = summary["ledger"], summary["executor"]
    assert (executor["kind"], executor["mode"]) in EXECUTORS, f"executor {executor}"
    if ledger["residual"] == 0:
        missed = ledger["wire"] - ledger["received"] # where one port does not know what it missed, others may have
        assert missed >= 0 and ledger["missed"] in (missed, None), f"wire: {ledger}"
        tx_drops = sum(ledger["dropped"].get(key, 0) for key in ("tx_full", "tx_down", "tx_flushed"))
        rx_drops = sum(ledger["dropped"].values()) - tx_drops
        assert ledger["received"] == ledger["executed"] + rx_drops, f"received: {ledger}"
        ends = ledger["echoed"] + tx_drops + ledger["consumed"] + sum(ledger["bad"].values())
        assert ledger["executed"] == ends, f"executed: {ledger}"
    # With objects, what moves nothing is executed without the executor.
    idle = ledger["executed"] - executor["frames"]
    assert idle == 0 or (idle > 0 and summary.get("objects")), "the executor's own count"
    pool = summary["pool"]
    assert pool["slots"] - pool["free"] == pool["leaked"], f"pool: {pool}"
    for row in summary["latency"]:
        _rise(row, row["stage"])
        assert row["spectrum"] == sorted(row["spectrum"]), f"spectrum of {row['stage']}"
    _slow(summary)
    _streams(summary.get("objects", []))
    shares = sum(summary["regimes"].values())
    assert shares == 0 or abs(shares - 1) < 1e-6, f"regimes sum to {shares}"


def _gen(gen):
    for name in ("round_trip", "schedule_error", "loop_gap", "core_alone"):
        _rise(gen[name], name)
    causes = gen["causes"]
    assert sum(row["frames"] for row in causes["by"]) == causes["frames_above"], f"causes: {causes}"


def _perf(got):
    for row in got["rows"]:
        assert (row["valid"] == "valid") == (row["why"] == ""), row
        assert ("latency" in row) == row["case"]["latency"], row
        if row["valid"] in ("valid", "unverified") and row["case"]["latency"]:
            loops = row["latency"]
            _rise(loops["open"], "the open loop")
            _rise(loops["closed"], "the closed loop")
            assert loops["intended"] == loops["open"]["count"] + loops["lost"], f"neither came back nor was lost: {row}"


def _profile(record):
    for step in record["steps"]:
        if step["gen"]:
            _gen(step["gen"])
        if step["spinwire"]:
            _summary(step["spinwire"])


NUMBERS = {"spinwire.summary/1": _summary, "spinwire.object/1": _object, "spinwire.gen/1": _gen,
           "spinwire.perf/1": _perf, "spinwire.profile/1": _profile}
