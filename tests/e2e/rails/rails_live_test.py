#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rails: /spinwire/rails of a running spinwire, which rails there are, what each carries, and its outages, beside the
summary at exit."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rails_test import (  # noqa: E402  (found by the line above)
    ENDLESS, FRAME, Both, answer, carried, more, spwtest, until)
from spwtest import check, equal  # noqa: E402


def as_telemetry(rail):
    """A rail of the summary, under the names of /spinwire/rails."""
    counts = {f"{way}_{unit}": rail[way][unit] for way in ("rx", "tx") for unit in ("frames", "bytes")}
    counts.update({f"errors_{name}": cnt for name, cnt in rail["errors"].items()})
    counts.update({name: rail[name] for name in ("name", "driver", "wire", "missed", "late", "duplicate", "moved",
                                                 "outages", "tx_flushed")})
    return counts


def during(cables, run):
    """One rail goes down and returns: telemetry shows it while the run goes on, and no counter falls."""
    for rail in range(2):
        more(run, rail, "rx_frames")
    before = answer(run, "/spinwire/rails")
    equal(sorted(before), ["0_0", "0_1"], "rails, by the numbers of port and rail")
    equal([(rail["name"], rail["driver"], rail["outages"]) for rail in before.values()],
          [("mlx5_0", "mlx5", 0), ("mlx5_1", "mlx5", 0)], "rails")
    check(all(rail["rx_frames"] > 0 for rail in before.values()), f"every rail has carried frames: {before}")
    cables.rail("spinwire", 1, "link-down=300ms")
    until(run, lambda _, second: second["outages"] == 1, "the outage in /spinwire/rails")
    after = answer(run, "/spinwire/rails")
    fell = [(rail, name) for rail, counts in before.items() for name, cnt in counts.items() if isinstance(cnt, int)
            and after[rail][name] < cnt]
    equal(fell, [], "counters that fell")


def test_telemetry():
    both = Both(2, FRAME, *ENDLESS, endless=True, meanwhile=during)
    carried(both.port)
    equal([rail["outages"] for rail in both.port["rails"]], [0, 1], "outages")
    for number, rail in enumerate(both.port["rails"]):
        live = both.rails[f"0_{number}"]
        want = as_telemetry(rail)
        differ = {name: (live.get(name), cnt) for name, cnt in want.items() if live.get(name) != cnt}
        equal(differ, {}, f"rail {number}: telemetry before the end, and the summary")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
