# SPDX-License-Identifier: BSD-3-Clause
"""What a reader should do, from what was measured: a few sentences, the most important first."""
import os
import shlex

import spwjoin
import spwlab
from spwreport import data, objects, svg, where

BUSY_PERCENT = 5  # of a core that only spins
CORES = ("a core of its own: isolate it (isolcpus, nohz_full), or stop what else runs there; spinwire-doctor "
         "idle names it")
SOURCE = "the sender, not spinwire: give spinwire-gen a core of its own, or send less"
REMEDY = {
    "poll_gap": f"give spinwire's receive lcore {CORES}",
    "cpu_quota": "lift the CPU quota (no --cpus, limits.cpu, CPUQuota=): limit a program that spins by a cpuset",
    "port_late": "look at the NIC and its PCIe link: spinwire-doctor checks both",
    "port_backlog": "the load is more than the lcore carries: use more queues (--queues), or a lighter handler",
    "refill_stall": "receive buffers ran out: use more slots (--slots)",
    "batch_ahead": "the executor is too slow for this load: use a lighter handler, more queues, or another --executor",
    "exec_late": f"give the executor {CORES}",
    "gpu_sliced": "stop the other program on the GPU",
    "relaunched": "see the log for why the resident kernel ended",
    "handler_slow": "the handler itself took this time: make it lighter, or use another --executor",
    "reap_late": "the loop was busy elsewhere: use more queues (--queues)",
    "tx_stall": "the port took long to transmit: look at the link and at flow control (spinwire-doctor)",
    "sender_late": SOURCE, "sender_behind": SOURCE, "port_full": "the path carries less than this load: send less",
    "peer_late": "a software NIC's thread, not spinwire: give it a core of its own; a card has no such thread",
    "nic_late": "a software NIC's thread, not spinwire: give it a core of its own; a card has no such thread",
    "wire": "the cable or switch between the NICs held the frames",
    spwjoin.UNKNOWN: "no evidence: the worst frames below show at which place",
}


def busy(record):
    """Percent of a core that went elsewhere while nothing but a probe ran on it: the worst; 0 if that is little."""
    taken = max([share for probe in record["hiccup"].values()
                 for share in data.hiccup_fact(probe, "taken by gaps over 1 us").values()], default=0)
    return taken if taken > BUSY_PERCENT else 0


def busy_text(taken):
    return f"{taken:.0f} % of a core went elsewhere while nothing but a probe ran on it"


def shared(record):
    """Whether the threads of the path have too few cores."""
    return "beside them" in dict(record["settings"]).get("cores", "")


def knee_fact(good, at):
    """(value, what it is); at: data.knee(good), of two or more."""
    if at:
        which = "" if data.passed(good, at) else " or below it (no higher load was measured)"
        return (svg.rate(at["offered_fps"]),
                f"frames/s at the knee{which}: p99 within 3 times its best, at most 0.1 % missing")
    return "no knee", ("p99 is not monotone over the load: the machine was busy" if data.fall(good) else
                       "at nearly every load more than 0.1 % of the frames are missing")


def _largest(step):
    """(cause, share) of its slow round trips' time."""
    return where.main_cause(step["where"]) if (step.get("where") or {}).get("frames") else None


def _p99_at(step):
    ns = data.value(step, "p99")
    return f"{'lost' if ns == 'lost' else svg.time_ns(ns)} at {svg.rate(step['offered_fps'])}"


def explain(name, folder):
    """The command that prints the way of one frame or object, as this installation names it. name: FLOW:NUMBER or
    STREAM:ID; folder: where the report is, or ""."""
    program = "spinwire-run" if spwlab.INSTALLED else "tools/run"
    where_to = ["--out", os.path.abspath(folder)] if folder else []
    return shlex.join([program, *where_to, "--explain", name])


def _of_objects(step, folder):
    for one in objects.streams(step):
        causes = objects.by_cause(one)
        if causes:
            yield (f"Begin with {causes[0][0]}, {100 * causes[0][1]:.0f} % of the time of {one['stream']}'s slow "
                   f"objects: {objects.CAUSES[causes[0][0]]}.")
    worst = objects.name_of(step)
    if worst:
        yield f"See where the slowest object was: {explain(worst, folder)}"


def lines(record, good, knee, folder=""):
    """[text]; folder: where the report is."""
    out = []
    if busy(record):
        out.append("Stop what else runs on this machine and measure again: these tails are mostly the machine's.")
    if shared(record):
        out.append("Do not take these times for spinwire's: source, loop and two software NICs take turns on too few "
                   "cores. With a core for each "
                   "(four) the same command measures the path.")
    fallen = data.fall(good)
    if fallen:
        out.append(f"Measure again on a quiet machine. No knee: p99 is not monotone, it falls from "
                   f"{_p99_at(fallen[0])} to {_p99_at(fallen[1])} frames/s. No path becomes faster under more load: "
                   f"the machine was busy.")
    if knee and not data.passed(good, knee):
        out.append(f"Offer more than {svg.rate(knee['offered_fps'])} frames/s: the highest load that was measured "
                   f"still holds, so the knee may lie beyond it.")
    elif knee:
        out.append(f"Load this path with at most {svg.rate(knee['offered_fps'])} frames/s, its knee: beyond it p99 is "
                   f"above three times the best, or frames are missing.")
    step = knee or (good[0] if good else None)
    got = _largest(step) if step else None
    if got:
        out.append(f"Begin with {got[0]}, {100 * got[1]:.0f} % of slow round trips' "
                   f"time{' at the knee' if knee else ''}: {REMEDY[got[0]]}.")
    elif step and objects.streams(step):
        out += _of_objects(step, folder)
    elif step and step.get("where") and not step["where"].get("fault"):
        out.append("No round trip was slow at this load: raise it (--rate), or lower spinwire-gen's --slow-threshold.")
    if got and len(record["steps"]) == 1 and step["where"]["worst"]:
        worst = step["where"]["worst"][0]
        out.append(f"See where the slowest frame was: "
                   + explain(f"{worst['flow']}:{worst['seq']}", folder))
    return out
