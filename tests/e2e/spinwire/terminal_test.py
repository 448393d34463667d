#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Nothing that a program prints steers the terminal, whatever names and files it was given."""
import json
import os
import pty
import re
import subprocess

import documents
import spwtest
from spwtest import check, equal, spwlab

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
EVIL = "x\x1b]0;owned\x07\x1b[2J\r\x7f\u009b31m\u202eevil\u2066".encode() + b"\nforged\xff\xe2\x82"
STEERS = re.compile("(?!\n|\t)[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def run(*command):
    """Status and output of a program, after both streams were judged."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    for stream in (done.stdout, done.stderr):
        try:
            found = STEERS.search(stream.decode())
        except UnicodeDecodeError as error:
            raise AssertionError(f"{command[0]} prints bytes that are no UTF-8: {stream!r}") from error
        check(not found, f"{command[0]} prints {found and found.group()!r}: {stream!r}")
    return done.returncode, (done.stdout + done.stderr).decode()


def test_programs():
    """What the command line names, in the messages of each program."""
    gen, bench, replay = os.environ["SPINWIRE_GEN"], os.environ["SPINWIRE_BENCH"], [spwtest.SPINWIRE, "--replay"]
    eal = spwlab.eal("0@0", spwlab.prefix("terminal"))
    commands = [[spwtest.SPINWIRE, *eal, "--", "--config", EVIL], [spwtest.SPINWIRE, *eal, "--", "--port", EVIL],
                [spwtest.SPINWIRE, *eal, "--", EVIL], [spwtest.SPINWIRE, *eal, b"--" + EVIL, "--", "--port", "null"],
                [spwtest.SPINWIRE, *eal, "--", "--port", "null", "--handler", b"./" + EVIL],
                [gen, *eal, "--", "--port", "null", "--capture", EVIL],
                [gen, *eal, "--", "--port", b"null:" + EVIL], [bench, EVIL], [*replay, EVIL],
                [*replay, "none", b"--" + EVIL]]
    for name in ("SPINWIRE_PERF", "SPINWIRE_DOCTOR"):
        if name in os.environ:
            commands += [[os.environ[name], EVIL], [os.environ[name], b"--" + EVIL]]
    named = 0
    for command in commands:
        status, output = run(*command)
        check(status != 0, f"{command}: status 0: {output}")
        named += "\\u001b]0;owned\\u0007" in output
    check(named > len(commands) / 2, f"only {named} of {len(commands)} messages have the name that was given")


def seen(env):
    """What a terminal gets of an error."""
    own, other = pty.openpty()
    with subprocess.Popen([spwtest.SPINWIRE, "--", "--port", "nosuch"], stdin=subprocess.DEVNULL, stdout=other,
                          stderr=other, env={**os.environ, **env}) as process:
        equal(process.wait(60), 1, "status")
    os.close(other)
    text = os.read(own, 65536).decode()
    os.close(own)
    check("character 1: the driver is not known" in text, text)
    return text


def test_colour():
    """The word error is in colour on a terminal that has colours, and nowhere else; NO_COLOR is heeded."""
    check("spinwire: \x1b[1;31merror: \x1b[0m--port" in seen({"TERM": "xterm", "NO_COLOR": ""}), "no colour")
    for env in ({"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb", "NO_COLOR": ""}):
        check("spinwire: error: --port" in seen(env), f"colour with {env}")
    check("spinwire: error: --port" in run(spwtest.SPINWIRE, "--", "--port", "nosuch")[1], "colour in a pipe")


def test_machines():
    """What a recorded machine holds, in every view of the doctor."""
    if "SPINWIRE_DOCTOR" not in os.environ:
        raise spwtest.Skip("there is no spinwire-doctor in this build")
    doctor, spark = os.environ["SPINWIRE_DOCTOR"], os.path.join(ROOT, "config", "platforms", "dgx-spark.json")
    with spwlab.scratch() as folder:
        evil = os.path.join(folder, "evil")
        machine = documents.foreign(spwlab.read(spark))
        name = EVIL.decode(errors="ignore")  # JSON is UTF-8
        machine["sys/class/dmi/id/product_name"] += name
        machine["cuda/0/name"] += name
        machine["measured/way/00"] = f"cable 1 mbps 98000 nominal 98427 packets 10000 wire 10020 from {name} to b"
        machine[f"sys/class/net/{name}/mtu"] = "1500"
        spwtest.write_file(folder, "evil", json.dumps(machine))
        for words, wanted in ((["replay", evil], 0), (["replay", evil, "--facts"], 0), (["diff", spark, evil], 2),
                              (["replay", evil, "--json", "-"], 0), (["replay", evil, "--receipt", "-"], 0)):
            status, output = run(doctor, *words)
            equal(status, wanted, f"status of {words}\n{output}")
            check("owned" in output, f"{words}: the name is not printed: {output}")
            check(not any(line.startswith("forged") for line in output.splitlines()),
                  f"{words}: a name begins a line: {output}")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
