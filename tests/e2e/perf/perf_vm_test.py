#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spinwire-perf in the virtual machine of tools/rxe-guest, whose kernel has what that of this machine may lack."""
import os
import re
import time

import spwtest  # which makes the next three found
import documents
import guest
import peers
from perf_kit import PERF, ROOT, rows_of
from spwtest import check, equal

LIMIT_S = 280


def test_bond():
    """Two namespaces joined by the cable of a rail and by a bond of two: the bond's rows stand beside those of the
    single rail, and both of its cables have carried."""
    guest.need()
    script = os.path.join(ROOT, "tests/e2e/perf/perf_bond_guest.sh")
    job = f"sh {script} {guest.WITH_SOFTHCA} {os.environ['SPW_SOFTHCA_LIB']} {PERF}"
    with peers.together():
        vm = guest.start(job, LIMIT_S, carry=[script, PERF, *guest.softhca()])
        vm.wait(time.monotonic() + LIMIT_S + 10)
        out = vm.output()
    print(re.sub(r"^JSON .*\n", "", out, flags=re.M))
    found = re.search(r"^JSON (.*)$", out, re.M)
    check(found, "no JSON")
    got = documents.loads(found.group(1))
    equal([row["case"]["streams"] for row in rows_of(got, op="bond")], [1, 2, 4, 8, 16], "streams over the bond")
    equal({row["method"] for row in rows_of(got, op="bond")}, {"to 10.79.0.2"}, "where they went")
    equal({row["method"] for row in rows_of(got, op="tcp")}, {"to 10.77.0.2"}, "where TCP beside the rail went")
    equal({bond["slaves"] for bond in got["here"]["bonds"]}, {"p0+q0"}, "slaves")
    check(rows_of(got, op="write", latency=False), "no rows of the rail")
    check(all(row["case"]["latency"] or row["gbps"] > 0 for row in got["rows"]), str(got["rows"]))
    equal([row["why"] for row in got["rows"] if row["valid"] in ("invalid", "failed")], [],
          "rows that are worth nothing")
    check(re.search(r"^bond\b.*\n.*\n +1 +[0-9.]+", out, re.M), "no table of the bond")
    carried, total = [int(n) for n in re.findall(r"^CARRIED \w+ (\d+)$", out,
                                                 re.M)], sum(row["own"]["bytes"] for row in rows_of(got, op="bond"))
    check(len(carried) == 2 and min(carried) > total / 4,
          f"the cables of the bond have carried {carried} of {total} bytes")
    equal(vm.p.returncode, 0, "status")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
