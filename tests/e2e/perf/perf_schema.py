# SPDX-License-Identifier: BSD-3-Clause
"""The shape of "spinwire.perf/1", and what must hold between its numbers."""
from summary_schema import BOOL_OR_NULL, COUNT, MAYBE, NUMBER, TEXT, walk



FLOW = {"messages": COUNT, "bytes": COUNT, "ns": COUNT, "total": COUNT, "cpu_ns": COUNT}
CASE = {"op": TEXT, "latency": BOOL_OR_NULL, "both": BOOL_OR_NULL, "gpu": BOOL_OR_NULL, "coll": TEXT, "net": TEXT,
        "bytes": COUNT, "rails": COUNT, "streams": COUNT, "ms": COUNT}
POINTS = [f"{name}_ns" for name in ("min", "p50", "p90", "p99", "p999", "p9999", "max")]
LATENCY = {"gap_ns": COUNT, "intended": COUNT, "lost": COUNT, "open": {"count": COUNT, "*": None},
           "closed": {"count": COUNT, "*": None}}
ROW = {"table": TEXT, "case": CASE, "own": FLOW, "peer": FLOW, "gbps": NUMBER, "messages_per_s": NUMBER,
       "cpu_ns_per_message": NUMBER,
       "cpu_ms_per_gb": NUMBER, "limit_gbps": NUMBER, "efficiency": NUMBER,
       "carried": [{"device": TEXT, "bytes": COUNT, "resent_chunks": COUNT, "outages": COUNT}]}
MAY_BE_EMPTY = ("why", "limit_by", "owners", "way")
RAIL = {"own": TEXT, "own_address": TEXT, "peer": TEXT, "peer_address": TEXT, "limit_gbps": NUMBER,
        "one_card": BOOL_OR_NULL}
TOP = {"schema": "spinwire.perf/1", "version": TEXT, "faults": [TEXT],
       "memory": MAYBE({"kind": TEXT, "why": TEXT, "bytes": COUNT, "page_bytes": COUNT})}


def _latency(row):
    got = row["latency"]
    assert set(got) == set(LATENCY), got
    for loop in ("open", "closed"):
        assert set(got[loop]) == {"count", *POINTS}, got[loop]
        known = [got[loop][point] for point in POINTS if isinstance(got[loop][point], int)]
        assert known == sorted(known), f"percentiles fall: {got[loop]}"
    back = got["open"]["count"] + got["lost"]
    assert got["intended"] == back, f"intended is not what came back and what was lost: {got}"


def _row(row, where):
    bare = {key: value for key, value in row.items() if key not in (*MAY_BE_EMPTY, "valid", "latency")}
    walk(bare, ROW, where)
    assert row["valid"] in ("valid", "unverified", "invalid", "failed"), row
    assert (row["valid"] == "valid") == (row["why"] == ""), row
    assert ("latency" in row) == row["case"]["latency"], row
    if row["valid"] in ("valid", "unverified") and row["case"]["latency"]:
        _latency(row)


def check(got):
    """AssertionError names what is wrong."""
    walk({key: got[key] for key in TOP}, TOP, "report")
    assert set(got) == {*TOP, "here", "there", "rails", "rows"}, sorted(got)
    for number, rail in enumerate(got["rails"]):
        walk({key: value for key, value in rail.items() if key != "limit_by"}, RAIL, f"rails[{number}]")
    for number, row in enumerate(got["rows"]):
        _row(row, f"rows[{number}]")
