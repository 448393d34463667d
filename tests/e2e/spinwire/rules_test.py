#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Flow rules that are added and removed while frames come: spinwire's mlx5 port over the software ConnectX."""
import os
import re
import subprocess
import sys

import spwtest
from gen_test import generate
from spwlive import short
from spwtest import Run, balanced, check, equal, spwlab

TOOL = os.path.join(spwlab.TOOLS, "with-softhca")
SINK, OTHER = "udp=5357", "udp=7777"  # where the source's frames go to, and another port


def under(*options):
    spwtest.need_card()
    return [TOOL, "--cable", f"shm:{spwlab.prefix('rules')}", *options]


def rules(run):
    """(port, rule): frames, of every rule that stands."""
    return {(row["name"], row["rule"]): row["frames"] for row in (run.telemetry("/spinwire/rules") or {}).values()}


def change(run, what, text):
    """The refusal; "" if it was done."""
    return (run.telemetry(f"/spinwire/rule_{what},{text}") or {"error": "no answer"}).get("error", "")


def on_top(run):
    """The section of rules, as spinwire-top shows it: rule: [frames a second, frames, handler]."""
    done = subprocess.run([sys.executable, os.path.join(spwlab.TOOLS, "spinwire-top"), "--once", run.prefix],
                          capture_output=True, text=True, timeout=60, check=False)
    section = re.search(r"^RULE +frames/s +frames +handler\n(.*?)\n\n", done.stdout, re.S | re.M)
    check(section, f"no rules in\n{done.stdout}{done.stderr}")
    return {line[:45].rstrip(): line[45:].split() for line in section.group(1).split("\n")}


def source(folder, card, *extra):
    return generate(["--port", "mlx5:mlx5_0,mode=eth", "--seconds", "1s", "--rate", "1kpps", *extra],
                    folder, under=card)


def test_while_frames_come():
    card = under()
    with Run(["--port", f"mlx5:mlx5_0,mode=eth,{OTHER}", "--handler", "echo"], under=card) as run, \
            spwlab.scratch() as folder:
        run.wait_ready()
        equal(sorted(rule for _, rule in rules(run)), ["IPv4, UDP port 7777", "IPv6, UDP port 7777"], "at the start")
        lost, out = source(folder, card, "--linger", "1s")
        check(lost["sent"] > 0 and lost["echoed"] == 0, out)
        equal(change(run, "add", f"0,{SINK}"), "", "add")
        check("has this rule already" in change(run, "add", f"0,{SINK}"), "the same again")
        gen, out = source(folder, card)
        check(gen["echoed"] == gen["sent"] > 0, out)
        stand = rules(run)
        equal(sum(stand.values()), gen["sent"], f"frames of the rules {stand}")
        equal(stand["mlx5_0", "IPv4, UDP port 5357"], gen["sent"], "of the one that was added")
        shown = on_top(run)
        equal(sorted(shown), sorted(f"{name}: {rule}" for name, rule in stand), "rules on spinwire-top")
        equal(shown["mlx5_0: IPv4, UDP port 5357"][1:], [short(gen["sent"]), "echo"], "frames and handler there")
        equal(change(run, "remove", f"0,{SINK}"), "", "remove")
        check("has no such rule" in change(run, "remove", f"0,{SINK}"), "removed twice")
        lost, out = source(folder, card, "--linger", "1s")
        check(lost["sent"] > 0 and lost["echoed"] == 0, out)
        equal(change(run, "add", f"0,{SINK}"), "", "add again")
        equal(rules(run)["mlx5_0", "IPv4, UDP port 5357"], 0, "a new rule begins at 0")
        again, out = source(folder, card)
        check(again["echoed"] == again["sent"] > 0, out)
        run.end()
        summary = run.finish()
    balanced(summary, gen["sent"] + again["sent"])
    equal({row["rule"]: row["frames"] for row in summary["ports"][0]["rules"] if row["frames"]},
          {"IPv4, UDP port 5357": again["sent"]}, "rules of the summary")


def test_every_half():
    """Of a port over two halves each gets the rule, or neither does."""
    card = under("--as", "dgx-spark")
    port = f"rails:mlx5:rocep1s0f0,mode=eth,{OTHER}+mlx5:roceP2p1s0f0,mode=eth,{OTHER}"
    with Run(["--port", port], under=card) as run:
        run.wait_ready()
        before = rules(run)
        equal(len(before), 4, f"two rules of each half: {before}")
        equal(change(run, "add", f"0,{SINK}"), "", "add")
        equal(sorted({name for name, rule in rules(run) if "5357" in rule}), ["roceP2p1s0f0", "rocep1s0f0"], "halves")
        equal(change(run, "remove", f"0,{SINK}"), "", "remove")
        equal(rules(run), before, "as before")
        run.end()
        balanced(run.finish())


def test_after_recovery():
    """A queue that recovers has the rules that the port had, of the start and added, and goes on counting."""
    with spwlab.scratch() as folder:
        nic = os.path.join(folder, "nic")
        with Run(["--port", f"mlx5:mlx5_0,mode=eth,{OTHER}", "--handler", "echo"],
                 under=[*(card := under()), "--control", nic]) as run:
            run.wait_ready()
            equal(change(run, "add", f"0,{SINK}"), "", "add")
            before, _ = source(folder, card)
            stand = rules(run)
            spwlab.nic_ask(nic, f"cq-overrun={spwlab.nic_pairs(nic, 'objects')['cq'].split(',')[0]}")
            spwlab.wait_for(lambda: "queue: back after" in run.output(), 60, "the queue's recovery")
            equal(rules(run), stand, "rules and their frames")
            after, out = source(folder, card)
            check(after["echoed"] == after["sent"] > 0, out)
            equal(rules(run)["mlx5_0", "IPv4, UDP port 5357"], before["sent"] + after["sent"], "frames")
            run.end()
            summary = run.finish()
        balanced(summary, before["sent"] + after["sent"])
        equal(summary["ports"][0]["errors"]["queue_reset"], 1, "queues that were reset")


def test_behind_faults():
    """A port with faults keeps its rules, and says what to do."""
    with Run(["--port", "fault:null,rate=1000,fault_do=rx_hold"]) as run:
        run.wait_ready()
        for what in ("add", "remove"):
            check("name them as its keys" in change(run, what, f"0,{SINK}"), f"{what} was done, or is not explained")
        equal(rules(run), {}, "rules")
        run.end()
        balanced(run.finish())


def test_refused():
    """What does not fit is answered with what would, and changes nothing."""
    card = under()
    with Run(["--port", f"mlx5:mlx5_0,mode=eth,{OTHER}"], under=card) as run:
        run.wait_ready()
        before = rules(run)
        for text in ("", "0", "0,", ",udp=1", "1,udp=1", "-1,udp=1", "99999999999999999999,udp=1", "0 ,udp=1",
                     "x,udp=1", "0,udp=0", "0,udp=65536", "0,udp=1,udp=2", "0,udp=", "0,mac=02:00:00:00:00:01",
                     "0,flow=all", "0,group=239.1.2.3", "0," + "9" * 400):
            for what in ("add", "remove"):
                check(change(run, what, text), f"{what} {text} was done")
        equal(rules(run), before, "rules")
        for i in range(15):  # two rules each, with those of the start as many as there may be
            equal(change(run, "add", f"0,udp={100 + i}"), "", f"rule {i}")
        check("remove one first" in change(run, "add", "0,udp=99"), "one too many")
        equal(len(rules(run)), 32, "rules")
        run.end()
        balanced(run.finish())


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
