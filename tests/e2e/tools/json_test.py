#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""--json - of every program: one document on stdout and nothing else, whatever else is printed meanwhile, and nothing
at all where there is none; what is not for stdout is on stderr."""
import csv
import io
import os
import subprocess
import sys

import documents
import spwtest
import outputs_test
from spwtest import Run, Skip, check, equal, spwlab

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
TOOLS = os.path.join(ROOT, "tools")
LIMIT_S = 200


def run(command, status=0, **kwargs):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S,
                          check=False, **kwargs)
    equal(done.returncode, status, f"status of {command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done


def document(command, kind, status=0, **kwargs):
    """Of a command whose stdout has it alone."""
    got = documents.loads(run([*command, "--json", "-"], status, **kwargs).stdout)
    equal(got["schema"].partition("/")[0], f"spinwire.{kind}", f"kind of {command}")
    return got


def platform(name):
    return os.path.join(ROOT, "config", "platforms", f"{name}.json")


def noisy(command):
    """EAL prints what it does."""
    at = command.index("--")
    return [*command[:at], "--log-level", "lib.eal:debug", *command[at:]]


def test_spinwire():
    """With warnings, EAL's own lines, a plug-in and a recording; a replay of that; and errors, which leave stdout
    empty."""
    with spwlab.scratch() as folder:
        record = os.path.join(folder, "rec")
        command = outputs_test.spinwire("--seconds", "1", "--record", record, "--record-rule", "end", "--capture",
                                        os.path.join(folder, "c.pcapng"), "--slo", "10ms@p50")
        done = run([*noisy(command), "--json", "-"])
        got = documents.loads(done.stdout)
        check("capture" in got and got["slo"] and "EAL: " in done.stderr and "litmus" in done.stderr, done.stderr)
        replay = [spwtest.SPINWIRE, "--replay", record]
        equal(document(replay, "replay")["ledger"], got["ledger"], "the ledger of the replay")
        done = run([*replay, "--explain", "0:0", "--json", "-"], status=1)
        documents.loads(done.stdout)
        document(outputs_test.spinwire("--seconds", "1", "--stats-period", "200ms", "--stamps", "no", "--handler",
                                       os.environ["SPW_SLOW_HANDLER"]), "summary")
        for wrong in (["--port", "null:nosuch=1"], ["--nosuch"], ["--handler", "./none.so"]):
            done = run([*outputs_test.spinwire(*wrong), "--json", "-"], status=1)
            equal(done.stdout, "", f"stdout of {wrong}")
        equal(run([spwtest.SPINWIRE, "--replay", os.path.join(folder, "none"), "--json", "-"], status=1).stdout, "",
              "stdout of a replay of nothing")


def test_gen():
    got = document(noisy(outputs_test.gen("--seconds", "1")), "gen")
    check(got["sent"] > 0, f"{got['sent']}")
    equal(run([*outputs_test.gen("--rate", "x"), "--json", "-"], status=1).stdout, "", "stdout")


def test_doctor():
    """Each of its commands; --facts are part of the document; a command without one refuses the option."""
    doctor, spark, vm = outputs_test.doctor(), platform("dgx-spark"), platform("bare-vm")
    check("facts" not in document([*doctor, "replay", spark], "doctor"), "facts that nobody asked for")
    check(document([*doctor, "replay", spark, "--facts"], "doctor")["facts"], "no facts")
    equal(document([*doctor, "cores", "1"], "cores")["cores"],
          [int(word) for word in run([*doctor, "cores", "1"]).stdout.split()], "cores")
    rows = document([*doctor, "idle", "--seconds", "0.05"], "idle")["rows"]
    lines = list(csv.DictReader(io.StringIO(run([*doctor, "idle", "--seconds", "0.05", "--csv", "-"]).stdout)))
    equal([line["metric"] for line in lines], [row["metric"] for row in rows], "rows of the CSV")
    diff, text = document([*doctor, "diff", vm, spark], "diff", 2), run([*doctor, "diff", vm, spark], 2).stdout
    equal(len(text.splitlines()), len(diff["facts"]) + len(diff["findings"]), "lines of the table")
    equal(document([*doctor, "diff", vm, vm], "diff")["facts"], [], "facts in which a machine differs from itself")
    with spwlab.scratch() as folder:
        peer = spwtest.write_file(folder, "peer.json", spwlab.read(spark).replace("4c:bb:47:00:00:0",
                                                                                  "4c:bb:47:00:01:0"))
        plan = [*doctor, "plan", "--replay", spark, "--peer", peer]
        got, text = document(plan, "plan"), run(plan).stdout
        for side in got["machines"]:
            check(side["netplan"] in text, f"the netplan of {side} is not in\n{text}")
            for name, value in side["variables"].items():
                check(f"export {name}={value}\n" in text, f"{name}={value} is not in\n{text}")
    for wrong in (["record", "/dev/null", "--json", "-"], ["cores", "1", "--receipt", "-"], ["diff", vm, spark, "--csv",
                                                                                             "-"]):
        done = run([*doctor, *wrong], status=1)
        check(done.stdout == "" and done.stderr.count("\n") == 1, f"{wrong}: {done}")


def test_measure():
    """What the doctor measures over software devices, as CSV; as JSON: doctor_measure_test.py."""
    spwtest.need_card()
    card = [os.path.join(TOOLS, "with-softhca"), "--as", "dgx-spark", "--mtu", "9000", "--cable",
            f"shm:{spwlab.prefix('json')}"]
    done = subprocess.run([*card, *outputs_test.doctor("--measure", "--csv", "-")], capture_output=True, text=True,
                          timeout=LIMIT_S, check=False)
    lines = list(csv.DictReader(io.StringIO(done.stdout)))
    check(done.returncode in (0, 2) and lines and {line["crossed"] for line in lines}
          == {"cable", "inside the NIC"} and all(int(line["packets"]) > 0 for line in lines), f"{done}")


def test_tools():
    """spinwire-run and spinwire-profile say on stderr what they do; spinwire-top says nothing."""
    if spwtest.SANITIZED:
        raise Skip("the tools are not for sanitized programs")
    with spwlab.scratch() as folder:
        def tool(name, *words):
            return [sys.executable, os.path.join(TOOLS, name), *words]
        quick = ["--seconds", "0.5", "--out", folder]
        got = document(tool("main_job", *quick, "--rate", "2000"), "summary")
        check(got["ledger"]["received"] > 0, f"{got['ledger']}")
        done = run(tool("profile", *quick, "--steps", "1", "--carries", "2000", "--json", "-", "--csv",
                        os.path.join(folder, "steps.csv")))
        record = documents.loads(done.stdout)
        equal(record, documents.load(os.path.join(folder, "profile.json")), "the record")
        check("report: " in done.stderr, done.stderr)
        lines = list(csv.DictReader(io.StringIO(spwlab.read(os.path.join(folder, "steps.csv")))))
        equal([int(line["sent"]) for line in lines if line["sent"]],
              [step["gen"]["sent"] for step in record["steps"] if step["gen"]], "frames in the CSV")
        with Run(["--port", "null:rate=20000", "--executor", "inline"]) as live:
            live.wait_ready()
            top = document(tool("spinwire-top", live.prefix, "--once"), "top")["instances"]
            live.end()
            live.finish()
        equal([one["prefix"] for one in top], [live.prefix], "instances")
        check(top[0]["ledger"]["received"] > 0 and top[0]["per_second"]["ledger"]["received"] > 0, f"{top}")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
