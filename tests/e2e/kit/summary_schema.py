# SPDX-License-Identifier: BSD-3-Clause
"""The shape of "spinwire.summary/1", and what must hold between its numbers."""

COUNT = "a whole number >= 0"
NUMBER = "a number"
TEXT = "text"
COUNTS = {"*": COUNT}
OR_NULL = "a whole number >= 0 or null"
BOOL_OR_NULL = "true, false or null"


class MAYBE:
    """Null, or of that shape."""

    def __init__(self, shape):
        self.shape = shape


PORT = {"name": TEXT, "driver": TEXT, "rx": {"frames": COUNT, "bytes": COUNT}, "tx": {"frames": COUNT, "bytes": COUNT},
        "errors": COUNTS, "port_discards": OR_NULL, "wire": COUNT, "missed": OR_NULL, "retransmits": OR_NULL,
        "physical_port": MAYBE({"rx_packets": COUNT, "tx_packets": COUNT, "inside_nic": BOOL_OR_NULL})}
SCHEMA = {
    "schema": "spinwire.summary/1", "version": TEXT, "seconds": NUMBER,
    "host": {"cpu": TEXT, "arch": TEXT, "kernel": TEXT, "cores": COUNT, "tsc_hz": COUNT, "dpdk": TEXT,
             "boot_id": TEXT},
    "tsc_hz": COUNT,
    "ports": [{**PORT, "rails": [{**PORT, "late": COUNT, "duplicate": COUNT, "flushed": COUNT,
                                  "moved": COUNT, "outages": COUNT, "tx_flushed": COUNT, "residual": COUNT}]}],
    "executor": {"kind": TEXT, "mode": TEXT, "why": TEXT, "ctas": OR_NULL, "device": TEXT, "handler": TEXT,
                 "batches": COUNT, "frames": COUNT},
    "ledger": {"wire": COUNT, "missed": OR_NULL, "received": COUNT, "executed": COUNT, "echoed": COUNT,
               "consumed": COUNT, "bad": COUNTS, "dropped": COUNTS, "residual": COUNT},
    "pool": {"slots": COUNT, "free": COUNT, "leaked": NUMBER},
    "memory": {"kind": TEXT, "why": TEXT, "h2d_copies": COUNT, "port_copies": COUNT, "flushes": COUNT},
    "latency": [{"stage": TEXT, "count": COUNT, "min_ns": OR_NULL, "p50_ns": OR_NULL, "p90_ns": OR_NULL,
                 "p99_ns": OR_NULL, "p999_ns": OR_NULL, "p9999_ns": OR_NULL, "max_ns": OR_NULL,
                 "uncertainty_ns": COUNT, "defects": COUNT, "spectrum": [[NUMBER]]}],
    "regimes": {"idle_poll": NUMBER, "rx": NUMBER, "push": NUMBER, "reap": NUMBER, "tx": NUMBER, "refill": NUMBER,
                "housekeeping": NUMBER},
    "cycles_per_frame": NUMBER,
    "causes": {"threshold_ns": COUNT, "frames_above": COUNT,
               "by": [{"cause": TEXT, "frames": COUNT, "worst_ns": COUNT}]},
    "worst": [{"whole_ns": COUNT, "cause": TEXT, "lcore": COUNT, "queue": COUNT, "seq": COUNT, "cnt": COUNT,
               "in_exec": COUNT, "ahead": COUNT, "turn_ns": COUNT, "before": [[TEXT]],
               "stamps": {"nic_tsc": OR_NULL, "polled_tsc": COUNT, "pushed_tsc": COUNT, "start_tsc": COUNT,
                          "end_tsc": COUNT, "reaped_tsc": COUNT, "sent_tsc": COUNT},
               "blame": COUNTS, "ident": MAYBE({"flow": COUNT, "seq": COUNT})}],
    "held": {**{name: {"times": COUNT, "sum_ns": COUNT, "max_ns": COUNT}
                for name in ("lost", "port", "push", "tx", "refill", "quota")},
             "switched_out": OR_NULL, "group": MAYBE({"periods": COUNT, "throttled": COUNT, "stopped_ns": COUNT})},
    "who": [{"lcore": COUNT, "cpu": COUNT, "windows": COUNT, "voluntary": COUNT, "involuntary": COUNT,
             "interrupts": COUNTS}],
    "slo": MAYBE({"objective": TEXT, "measured": COUNT, "kept": COUNT, "tries": COUNT, "changes": COUNT,
                  "last": {"executor": TEXT, "ctas": OR_NULL, "burst": COUNT},
                  "load_pps": COUNT, "settings": [{"executor": TEXT, "ctas": OR_NULL, "burst": COUNT,
                                                   "value_ns": OR_NULL, "lost_ppm": COUNT}]}),
    "litmus": {"level": TEXT, "result": TEXT, "frames": COUNTS, "round_trips": COUNT, "bytes": COUNT, "seconds": NUMBER,
               "nics": [{"port": TEXT, "why_not": MAYBE(TEXT)}]},
}
CAPTURE = {"file": TEXT, "bytes": COUNT, "frames": COUNT, "not_captured": {"ring_full": COUNT, "limit": COUNT,
                                                                           "disk": COUNT}}
CAUSES = {"poll_gap", "port_late", "port_backlog", "refill_stall", "batch_ahead", "exec_late", "gpu_sliced",
          "relaunched",
          "handler_slow", "reap_late", "tx_stall", "cpu_quota"}
STAMPS = ("polled_tsc", "pushed_tsc", "start_tsc", "end_tsc", "reaped_tsc", "sent_tsc")
EXECUTORS = {("inline", "lcore"), ("cpu", "thread"), ("cuda", "persistent"), ("cuda", "graph"), ("cuda", "launch")}


def _is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _leaf(value, shape, where):
    good = {COUNT: _is_count(value), OR_NULL: value is None or _is_count(value), BOOL_OR_NULL: value is None
            or isinstance(value, bool), TEXT: isinstance(value, str) and value,
            NUMBER: isinstance(value, (int, float)) and not isinstance(value, bool)}.get(shape, value == shape)
    assert good, f"{where} is {value!r}, must be {shape}"


def walk(value, shape, where):
    """AssertionError names the first place where value has not this shape."""
    if isinstance(shape, MAYBE):
        if value is not None:
            walk(value, shape.shape, where)
    elif isinstance(shape, list):
        assert isinstance(value, list), f"{where} must be a list"
        for number, item in enumerate(value):
            walk(item, shape[0], f"{where}[{number}]")
    elif isinstance(shape, dict):
        assert isinstance(value, dict), f"{where} must be an object"
        if "*" not in shape:
            assert set(value) == set(shape), f"{where}: keys {sorted(value)}, must be {sorted(shape)}"
        for key, item in value.items():
            walk(item, shape.get(key, shape.get("*")), f"{where}.{key}")
    else:
        _leaf(value, shape, where)


def _ordered(row):
    known = [row[key] for key in ("min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns", "max_ns")
             if row[key] is not None]
    assert known == sorted(known), f"percentiles of {row['stage']} fall: {row}"


def _slow(summary):
    """Causes are exclusive and sum to the count; the worst are in order, whole, and their blame sums to them."""
    causes, worst = summary["causes"], summary["worst"]
    assert sum(row["frames"] for row in causes["by"]) == causes["frames_above"], f"causes: {causes}"
    assert len({row["cause"] for row in causes["by"]}) == len(causes["by"]), f"a cause twice: {causes}"
    for row in causes["by"]:
        assert row["cause"] in CAUSES and row["frames"] > 0, f"cause: {row}"
        assert row["worst_ns"] >= causes["threshold_ns"], f"not above the threshold: {row}"
    assert [w["whole_ns"] for w in worst] == sorted((w["whole_ns"] for w in worst), reverse=True), "worst out of order"
    for row in worst:
        stamps = [row["stamps"][key] for key in STAMPS if key != "pushed_tsc"]
        assert stamps == sorted(stamps), f"stamps out of order: {row}"
        assert row["cause"] in CAUSES and row["blame"][row["cause"]] == max(row["blame"].values()), f"blame: {row}"
        assert abs(sum(row["blame"].values()) - row["whole_ns"]) <= len(CAUSES), f"blame does not sum: {row}"


def check(summary):
    """AssertionError names what is wrong."""
    walk({key: value for key, value in summary.items() if key != "capture"}, SCHEMA, "summary")
    if "capture" in summary:
        walk(summary["capture"], CAPTURE, "summary.capture")
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
    assert executor["frames"] == ledger["executed"], "the executor's own count"
    pool = summary["pool"]
    assert pool["slots"] - pool["free"] == pool["leaked"], f"pool: {pool}"
    for row in summary["latency"]:
        _ordered(row)
        assert row["spectrum"] == sorted(row["spectrum"]), f"spectrum of {row['stage']}"
    _slow(summary)
    shares = sum(summary["regimes"].values())
    assert shares == 0 or abs(shares - 1) < 1e-6, f"regimes sum to {shares}"
