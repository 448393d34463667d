#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spinwire.results reads what a run of both programs wrote, and it is what their summaries say."""
import os

import spwtest
from spwreport import data, sweep
from spwtest import check, equal, spwlab
from spinwire import results  # in tools/lib, which spwtest has found


def table(columns):
    """What pandas.DataFrame asks of columns: one length. With pandas it is asked itself."""
    lists = {name: value for name, value in columns.items() if isinstance(value, list)}
    check(lists and len(set(map(len, lists.values()))) == 1, f"lengths of {({k: len(v) for k, v in lists.items()})}")
    try:
        import pandas
    except ImportError:
        return columns
    equal(len(pandas.DataFrame(columns)), len(next(iter(lists.values()))), "rows")
    return columns


def logged(path, tag):
    """{value's upper bound: count} over all intervals."""
    counts = {}
    for one in results.hdr(path):
        table(one)
        if one["tag"] == tag:
            for to, count in zip(one["to_ns"], one["count"]):
                counts[to] = counts.get(to, 0) + count
    return counts


def percentile(counts, percent):
    left = percent / 100 * sum(counts.values())
    for value, count in sorted(counts.items()):
        left -= count
        if left <= 1e-6:
            return value
    return 0


def same_log(path, row, tag, slack):
    counts = logged(path, tag)
    equal(sum(counts.values()), row["count"], f"{tag}: values")
    for name, percent in (("p50", 50), ("p99", 99), ("max", 100)):
        mine = row[f"{name}_ns"]
        if isinstance(mine, int):
            check(mine * (1 - slack) - 1 <= percentile(counts, percent) <= mine * (1 + 1 / 128 + slack) + 1,
                  f"{tag} {name}: {mine}, the log has {percentile(counts, percent)}")


def same_trails(bench, gen, summary):
    [source], [lane] = (results.trail(bench.file(f"{name}.trail")) for name in ("source", "spinwire"))
    for one in (source, lane):
        for kind in results.TRAIL_KINDS:
            table(one[kind])
    slow = source["slow"]
    longest = max(echo - due for due, echo in zip(slow["due_tsc"], slow["echo_tsc"]))
    check(abs(longest * 1e9 / gen["tsc_hz"] - gen["worst"][0]["whole_ns"]) < 1000, f"{longest}: {gen['worst'][0]}")
    equal(lane["overwritten"], 0, "records that the lane's ring lost")
    equal(set(lane["frame"]["batch"]) - set(lane["batch"]["batch"]), set(), "batches of frames")
    check(set(lane["blame"]["cause"]) <= set(results.CAUSES) and set(lane["gap"]["what"]) <= set(results.HOLDS),
          f"{set(lane['blame']['cause'])}, {set(lane['gap']['what'])}")
    equal(len(lane["frame"]["seq"]), summary["ledger"]["received"], "frames that the lane noted")


def same_recording(path, summary):
    got = results.recording(path)
    equal([got["tsc_hz"], got["slow_ns"], len(got["lanes"])],
          [summary["tsc_hz"], summary["causes"]["threshold_ns"], 1], "its head")
    lane = got["lanes"][0]
    for name in ("polls", "done", "gaps", "dry", "ident", "judged"):
        table(lane[name])
    equal([lane["handler"], lane["executors"], lane["broken"]], ["echo", ["inline"], 0], "its lane")
    equal(sum(lane["polls"]["frames"]), summary["ledger"]["received"], "frames of the bursts")
    equal(sum(lane["done"]["sent"]), summary["ledger"]["echoed"], "frames that were sent")
    by = {row["cause"]: row["frames"] for row in summary["causes"]["by"]}
    judged = dict.fromkeys(by, 0)
    for cause, frames in zip(lane["judged"]["cause"], lane["judged"]["frames_above"]):
        judged[cause] = judged.get(cause, 0) + frames
    equal({cause: frames for cause, frames in judged.items() if frames}, by, "slow frames by cause")


def test_run():
    """One run of both programs, with every output."""
    spwtest.need_card()
    place = spwlab.Cores(nics=True)
    with spwlab.scratch() as folder:
        logs, record = [os.path.join(folder, f"{side}.hlog") for side in ("gen", "sink")], os.path.join(folder, "rec")
        limit = ["--slow-threshold", "100us"]
        bench = sweep.Bench(folder, spwlab.softhca_path(place, folder), place,
                            ["--handler", "echo", "--executor", "inline", *limit, "--record", record, "--record-rule",
                             "end", "--hdr", logs[1]], [*limit, "--linger", "300ms", "--hdr", logs[0]])
        step = sweep.step_at(bench, 5000, 1)
        check(data.good(step), f"{step['faults']}")
        gen, summary = step["gen"], step["spinwire"]
        equal(results.summary(bench.file("gen.json"), "gen"), gen, "the source's report")
        for row in summary["latency"]:
            same_log(logs[1], row, row["stage"], 1 / 128)
        same_log(logs[0], {**gen["round_trip"], "p50_ns": None, "p99_ns": None}
                 if gen["lost"] + gen["unsent"] else gen["round_trip"], "round_trip", 0)
        same_trails(bench, gen, summary)
        same_recording(record, summary)


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
