#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every fault of the software ConnectX, while spinwire echoes what spinwire-gen sends: after each, traffic flows again without a
restart, the ledger's residual is 0 and no slot is missing. Prints the table of docs/faults.md; a word picks the faults that have it in their names."""
import re
import signal
import sys

import app
from app import Cable, Source, check, spinwire, spwlab
from spwtest import balanced

QUEUES = 2
FRAMES = 4000 # before the fault, and after it


def frames_in(text):
    """A fault of frames on both NICs, then none."""
    def inject(cable, run, source):
        for name in ("spinwire", source.name):
            cable.control(name, f"fault {text}")
        flow(run, FRAMES)
        for name in ("spinwire", source.name):
            cable.control(name, f"fault {re.sub('=[^:]*', '=0', text)}")
    return inject


def at_spinwire(line):
    """A command to spinwire's NIC; {cq0}, {qp0}... are numbers of its objects."""
    def inject(cable, _, __):
        numbers = {f"{kind}{i}": n for kind, all_of in cable.objects("spinwire").items() for i, n in enumerate(all_of)}
        cable.control("spinwire", line.format(**numbers))
    return inject


def peer_dies(cable, _, source):
    """Sources that are started later go on."""
    source.kill()
    cable.later = Source(cable, *SOURCE)


SOURCE = ("--rate", "20kpps", "--seconds", "300s", "--flows", "64", "--size", "imix")
# what happens, how it is brought about, what spinwire must have said
FAULTS = {
    "1 % of frames lost": (frames_in("loss=0.01"), None),
    "1 % duplicated": (frames_in("dup=0.01"), None),
    "1 % reordered": (frames_in("reorder=0.01"), None),
    "0.1 % corrupted": (frames_in("corrupt=0.001"), None),
    "5 % delayed by 200 us": (frames_in("delay=0.05:200us"), None),
    "link down for 100 ms": (at_spinwire("link-down=100ms"), "link is down.*link is up"),
    "completion queue of a receive queue fails": (at_spinwire("cq-overrun={cq0}"), "receive queue: its completion queue failed"),
    "completion queue of a send queue fails": (at_spinwire("cq-overrun={cq1}"), "send queue: its completion queue failed"),
    "send queue in error": (at_spinwire("qp-error={qp0}"), "send queue: "),
    "memory key revoked": (at_spinwire("mr-revoke={mr0}"), "receive queue: local protection error"),
    "peer killed, another one comes": (peer_dies, None),
}


def flow(run, more):
    """Until so many more frames were received."""
    target = run.frames() + more
    spwlab.wait_for(lambda: run.frames() >= target or run.process.poll() is not None, 60, f"{more} frames\n{run.output()}")
    check(run.process.poll() is None, f"spinwire left\n{run.output()}")


def one(profile, inject, says):
    """(queues that were mended, longest outage in us, frames that the ledger knows to be lost)."""
    cable = Cable()
    cable.later = None
    with spinwire(cable, "--handler", "echo", "--seconds", "200", queues=QUEUES, profile=profile) as run:
        run.wait_ready()
        source = Source(cable, *SOURCE)
        flow(run, FRAMES)
        inject(cable, run, source)
        spwlab.wait_for(lambda: not says or re.search(says, run.output(), re.S), 60, f"{says!r} in:\n{run.output()}")
        flow(run, FRAMES)
        source = cable.later or source
        source.process.send_signal(signal.SIGINT)
        source.finish()
        run.signal(signal.SIGINT)
        summary = run.finish()
        text = run.output()
    balanced(summary)
    outages = [int(us) for us in re.findall(r"queue: back after (\d+) us", text)]
    mended = summary["ports"][0]["errors"].get("queue_reset", 0)
    check(len(outages) == mended, f"{mended} queues mended, outages {outages}")
    lost = summary["ledger"]["missed"] + sum(summary["ledger"]["dropped"].values())
    return mended, max(outages, default=0), lost


def main():
    print(f"Raw Ethernet, {QUEUES} queues, inline executor, echo; frames of `imix` sizes at 20,000 a second.\n")
    print("| fault | profile | queues mended | longest outage | frames missed or dropped | residual | slots leaked |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    word, failed = (sys.argv[1] if len(sys.argv) > 1 else ""), 0
    for what, (inject, says) in ((what, how) for what, how in FAULTS.items() if word in what):
        for profile in ("latency", "throughput"):
            try:
                mended, outage, lost = one(profile, inject, says)
                print(f"| {what} | {profile} | {mended or '-'} | {f'{outage} us' if mended else '-'} | {lost} | 0 | 0 |", flush=True)
            except (AssertionError, TimeoutError) as why:
                failed += 1
                print(f"| {what} | {profile} | FAILED: {why}", flush=True)
            finally:
                app.peers.stop_all()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
