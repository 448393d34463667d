#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spinwire-doctor hang: recorded cases and what is printed of them, other hosts, what is saved, and a process that is
stopped while it is asked."""
import json
import os
import socket
import subprocess
import sys

import documents
import spwtest
from spwtest import check, equal, spwlab, write_file

DOCTOR = os.environ["SPINWIRE_DOCTOR"]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests/unit/hang"))
from vectors import VECTORS  # noqa: E402  (found by the line above)

STATUS = {"moves": 0, "culprit": 1, "unknown": 2}


def hang(*words, status, **kwargs):
    done = subprocess.run([DOCTOR, "hang", *words], capture_output=True, text=True, timeout=60, check=False,
                          stdin=subprocess.DEVNULL, **kwargs)
    equal(done.returncode, status, f"status of {words}\n{done.stdout}{done.stderr}")
    return done


def case_of(name):
    return next(case for case in VECTORS if case["name"] == name)


def saved(folder, name, case):
    return write_file(folder, name, json.dumps(case))


def test_replay():
    """Status, at most ten lines, and the document, of every recorded case."""
    with spwlab.scratch() as folder:
        for case in VECTORS:
            outcome = case["expect"].split()[0]
            path = saved(folder, case["name"], case)
            lines = hang("--replay", path, "--json", path + ".json", status=STATUS[outcome]).stdout.splitlines()
            check(1 <= len(lines) <= 10, f"{case['name']}: {len(lines)} lines")
            answer = documents.loads(spwlab.read(path + ".json"))
            equal(answer["outcome"], outcome, case["name"])
            check(bool(answer["missing"]) == (outcome == "unknown"), f"{case['name']}: {answer['missing']}")


def test_says_who_and_what_to_do():
    with spwlab.scratch() as folder:
        out = hang("--replay", saved(folder, "c", case_of("stopped")), status=1).stdout
        check(out.startswith("rank 1 (python, pid 4001, spark2) holds the others up: its process is stopped"), out)
        check("no progress for 40 s" in out and "do: kill -CONT" in out, out)
        out = hang("--replay", saved(folder, "c", case_of("host-silent")), status=2).stdout
        check(out.startswith("unknown: spark1 is silent (no answer in 5 s)"), out)


def test_hosts_are_joined():
    """Each host saves its own; two files are one case, as two hosts are."""
    with spwlab.scratch() as folder:
        case = case_of("stopped")
        parts = [saved(folder, host["name"], {**case, "hosts": [host]}) for host in case["hosts"]]
        hang("--replay", parts[0], "--replay", parts[1], status=1)
        check("--hosts" in hang("--replay", parts[0], status=2).stdout, "one host alone")


def test_save_and_replay():
    with spwlab.scratch() as folder:
        path = saved(folder, "c", case_of("packets-lost"))
        again = os.path.join(folder, "again")
        first = hang("--replay", path, "--save", again, status=1).stdout
        documents.loads(spwlab.read(again))
        equal(hang("--replay", again, status=1).stdout, first, "the same answer")


def test_over_ssh():
    """Other hosts are asked by ssh, all at once; one that does not answer is silent, which is no error."""
    with spwlab.scratch() as folder:
        other = saved(folder, "c", case_of("stopped"))
        ssh = write_file(folder, "ssh", f'#!/bin/sh\ncase "$*" in\n*spark2*) echo "$@" > {folder}/asked; echo Welcome; '
                         f'exec {DOCTOR} hang --replay {other} --save=- ;;\n*) exec sleep 30 ;;\nesac\n')
        os.chmod(ssh, 0o755)
        env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        out = hang("--hosts", f"spark2,spark9,{socket.gethostname()}", status=2, env=env).stdout
        equal(spwlab.read(os.path.join(folder, "asked")).split()[-4:],
              ["spark2", "spinwire-doctor", "hang", "--save=-"], "what ssh got")
        check("may be rank 1 (python, pid 4001, spark2): its process is stopped" in out, out)


def test_foreign_text():
    """Names come from other users' processes and other hosts."""
    with spwlab.scratch() as folder:
        case = case_of("stopped")
        rows = [row for host in case["hosts"] for snap in host["snaps"] for row in snap.get("proc", ())]
        for row in rows:
            row["name"] = "py\x1b[2J\nrank 0"
        out = hang("--replay", saved(folder, "c", case), status=1).stdout
        check("\x1b" not in out and "\\u001b[2J\\u000arank 0" in out, out)


def test_usage():
    with spwlab.scratch() as folder:
        path = saved(folder, "c", case_of("stopped"))
        for words, text in ((("--replay", path, "--hosts", "a"), "a saved case has its hosts"),
                            (("--hosts", ",a"), "names with commas"), (("--hosts", "-a"), "nor the name of a host"),
                            (("--replay", saved(folder, "d", {})), "no recorded case"),
                            (("--replay", write_file(folder, "e", "{")), "is no JSON"),
                            (("--replay", os.path.join(folder, "none")), "cannot read"), (("--peer", "a"), "--peer")):
            done = subprocess.run([DOCTOR, "hang", *words], capture_output=True, text=True, timeout=60, check=False)
            check(done.returncode in (1, 2) and text in done.stderr, f"{words}: {done.returncode} {done.stderr}")
        done = subprocess.run([DOCTOR, "--hosts", "a"], capture_output=True, text=True, timeout=60, check=False)
        check("belong to hang" in done.stderr, done.stderr)


def test_nothing_here():
    """No process uses NCCL: unknown, after three looks."""
    check("0 ranks found" in hang("--pid", str(os.getpid()), status=2).stdout, "this one does not")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
