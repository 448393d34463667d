#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""-q and -v of every program: -q prints neither result nor progress, only warnings, errors and what another option asks
for, and the status is the same; -v logs what was chosen and why. Both together are refused before anything starts."""
import os
import subprocess

import documents
import spwtest
import outputs_test
from json_test import platform, run
from spwtest import Skip, check, equal, spwlab


def quiet(command, status=0):
    """It prints nothing but warnings, in either spelling of -q, and says more without."""
    for word in ("-q", "--quiet"):
        done = run([*command, word], status)
        equal(done.stdout, "", f"stdout of {command}")
        check(all(": warning: " in line for line in done.stderr.splitlines()), f"{command}\n{done.stderr}")
    check(run(command, status).stdout, f"{command} prints nothing without it either")


def test_quiet():
    """Files are written; a replay's --explain is asked for."""
    with spwlab.scratch() as folder:
        json_file, record = os.path.join(folder, "json"), os.path.join(folder, "record")
        quiet(outputs_test.spinwire("--seconds", "1", "--json", json_file, "--record", record, "--record-rule", "end"))
        check(documents.load(json_file)["ledger"], "no ledger")
        replay = [spwtest.SPINWIRE, "--replay", record]
        quiet(replay)
        done = subprocess.run([*replay, "-q", "--explain", "0:0"], capture_output=True, text=True, check=False)
        equal((done.returncode, done.stdout), (1, ""), f"no such frame\n{done.stderr}")
        quiet(outputs_test.gen("--seconds", "1", "--json", json_file))
        check(documents.load(json_file)["sent"], "nothing sent")


def test_stdout_closed():
    """No file takes its descriptor, EAL's memory among them: the run ends, and says that its result went nowhere."""
    for command in (outputs_test.spinwire("--seconds", "1"), outputs_test.gen("--seconds", "1"),
                    [*outputs_test.doctor(), "cores", "1"]):
        done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *command], stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, text=True, timeout=90, check=False)
        equal(done.returncode, 2, f"{command}\n{done.stderr}")
        check("error: not all output could be written to stdout" in done.stderr, done.stderr)


def test_doctor():
    """Each of its commands; findings are the status."""
    doctor, spark, vm = outputs_test.doctor(), platform("dgx-spark"), platform("bare-vm")
    with spwlab.scratch() as folder:
        path = os.path.join(folder, "receipt")
        quiet([*doctor, "replay", spark, "--receipt", path])
        quiet([*doctor, "replay", path, "--facts"])
    quiet([*doctor, "diff", spark, vm], 2)
    quiet([*doctor, "cores", "1"])
    quiet([*doctor, "idle", "--seconds", "0.1"])


def test_perf():
    if "SPINWIRE_PERF" not in os.environ:
        raise Skip("there is no spinwire-perf in this build")
    spwtest.need_card()
    with spwlab.scratch() as folder:
        path = os.path.join(folder, "json")
        command = [os.environ["SPINWIRE_PERF"], "--rows", "write", "--sizes", "64", "--time", "20ms", "--json", path]
        quiet(command, 0)
        check(documents.load(path)["rows"], "no rows")
        check("memory: " not in run(command).stderr and "memory: " in run([*command, "-v"]).stderr, "-v logs no more")


def test_verbose():
    """Advice too, which a run with an end keeps back for one line of the result."""
    for command in (outputs_test.spinwire("--seconds", "1"), outputs_test.gen("--seconds", "1")):
        done = run([*command, "-v"])
        check("EAL: " in done.stderr + done.stdout, done.stderr)


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
