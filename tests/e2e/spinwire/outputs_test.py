#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The files that options name: tried before a run, never through a link, whole or not at all, and "-" is stdout or a
clear refusal."""
import os
import subprocess

import documents
import spwtest
from spwtest import Skip, check, equal, spwlab

TRY_S = 20  # a run that is not refused at once takes longer


def spinwire(*words):
    place = spwlab.Cores()
    eal = spwlab.eal(f"0@{place.main},1@{place.receive}", spwlab.prefix("outputs"))
    return [spwtest.SPINWIRE, *eal, "--", "--port", "null:size=64,rate=1k", "--executor", "inline", "--slow-threshold",
            "60s", *words]


def gen(*words):
    place = spwlab.Cores()
    eal = spwlab.eal(f"0@{place.main},1@{place.generator}", spwlab.prefix("outputs"))
    return [os.environ["SPINWIRE_GEN"], *eal, "--", "--port", "null:size=64", "--echo", "no", "--rate", "1kpps", *words]


def doctor(*words):
    if "SPINWIRE_DOCTOR" not in os.environ:
        raise Skip("there is no spinwire-doctor in this build")
    return [os.environ["SPINWIRE_DOCTOR"], *words]


def commands(seconds):
    """[(what, command that wants a path at its end)] of every output but those of spinwire-perf."""
    run = ("--seconds", str(seconds))
    return [*((f"spinwire {option}", spinwire(*run, option)) for option in ("--json", "--hdr", "--trail", "--record",
                                                                            "--capture")),
            *((f"spinwire-gen {option}", gen(*run, option)) for option in ("--json", "--hdr", "--trail")),
            ("doctor --json", doctor("--json")), ("doctor --receipt", doctor("--receipt")),
            ("doctor record", doctor("record"))]


def run(command, path, cwd=None, **kwargs):
    return subprocess.run([*command, path], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TRY_S,
                          check=False, cwd=cwd, **kwargs)


def test_tried_before():
    """A path that cannot be written ends the program before a run of 1000 s."""
    for what, command in commands(1000):
        done = run(command, "/nonexistent/out")
        check(done.returncode in (1, 2) and "/nonexistent/out" in done.stderr and "No such file" in done.stderr,
              f"{what}: {done}")


def test_links():
    """A link that another user has put there: what it leads to stays as it is."""
    with spwlab.scratch() as folder:
        victim, link = os.path.join(folder, "victim"), os.path.join(folder, "link")
        for what, command in commands(1):
            spwtest.write_file(folder, "victim", "mine")
            os.symlink(victim, link)
            done = run(command, link)
            equal(spwlab.read(victim), "mine", f"{what}: the file behind the link")
            check("symbolic link" in done.stderr if os.path.islink(link) else done.returncode in (0, 2),
                  f"{what}: {done}")
            os.unlink(link)


def test_dash():
    """stdout, or a refusal that names the way out; no file is called "-"."""
    with spwlab.scratch() as folder:
        for what, command in commands(1):
            done = run(command, "-", cwd=folder)
            equal(os.listdir(folder), [], f"{what}: files")
            if what.split()[-1] in ("--json", "--receipt"):
                documents.loads(done.stdout)  # and nothing else
            elif what == "doctor record":
                equal(documents.foreign(done.stdout)["#"], "a machine recorded by spinwire-doctor", what)
            else:
                check(done.returncode in (1, 2) and "does not go to stdout; name a file" in done.stderr,
                      f"{what}: {done}")
        done = run(doctor("--json", "-", "--receipt"), "-")
        check(done.returncode == 1 and "one of them" in done.stderr, f"{done}")


def test_full():
    """/dev/full for each: the status is not 0, and the message names the file."""
    for what, command in commands(1):
        done = run(command, "/dev/full")
        check(done.returncode == 2 and "/dev/full" in done.stderr and "No space left" in done.stderr, f"{what}: {done}")


def test_full_tmpfs():
    """A small tmpfs: reports are not half there, and what was there before stays."""
    if subprocess.run(["unshare", "-r", "-m", "true"], capture_output=True, check=False).returncode:
        raise Skip("no mount namespaces here")
    with spwlab.scratch() as folder:
        for what, command in commands(1):
            script = (f"mount -t tmpfs -o size=64k none {folder} && echo old >{folder}/out && "
                      f"dd if=/dev/zero of={folder}/fill bs=4k >/dev/null 2>&1; \"$@\"; status=$?; echo; ls {folder}; "
                      f"cat {folder}/out; exit $status")
            whole = what.split()[-1] not in ("--hdr", "--capture")
            done = run(["unshare", "-r", "-m", "sh", "-c", script, "sh", *command],
                       os.path.join(folder, "out" if whole else "log"))
            check(done.returncode == 2 and "No space left" in done.stderr, f"{what}: {done}")
            check(done.stdout.endswith("\nfill\nout\nold\n" if whole else "\nfill\nlog\nout\nold\n"),
                  f"{what}: {done.stdout}")


def test_each_for_itself():
    """A JSON summary that fails costs neither trail nor recording."""
    with spwlab.scratch() as folder:
        trail, record = os.path.join(folder, "trail"), os.path.join(folder, "record")
        done = run(spinwire("--seconds", "1", "--trail", trail, "--record", record, "--json"), "/dev/full")
        equal(done.returncode, 2, f"{done}")
        check(os.path.getsize(trail) > 0 and os.path.getsize(record) > 0, "trail and recording")
        done = run(gen("--seconds", "1", "--trail", trail, "--json"), "/dev/full")
        check(done.returncode == 2 and os.path.getsize(trail) > 0, f"{done}")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
