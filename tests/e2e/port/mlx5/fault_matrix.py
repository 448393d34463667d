#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every fault of the software ConnectX, while spinwire echoes what spinwire-gen sends: after each, traffic flows again
without a restart, the ledger's residual is 0 and no slot is missing. Prints the table of docs/faults.md; a word picks
the faults that have it in their names. $SPW_TEST_CARD: --as of the software ConnectX."""
import contextlib
import re
import signal
import subprocess
import sys
import time

from app import PORT, Cable, Source, check, peers, spinwire, spwlab, stacks
import rails_test  # app has said where
from spwtest import balanced, forgiven

FRAMES = 4000 # before the fault, and after it


def frames_in(text, over=None):
    """A fault of frames on both NICs, then none."""
    def inject(cable, run, source):
        for name in ("spinwire", source.name):
            cable.control(name, f"fault {text}")
        flow(run, FRAMES)
        for name in ("spinwire", source.name):
            cable.control(name, f"fault {over or re.sub('=[^:]*', '=0', text)}")
    return inject


def at_spinwire(line):
    """A command to spinwire's NIC; {cq0}, {qp0}... are numbers of its objects."""
    def inject(cable, _, __):
        numbers = {f"{kind}{i}": n for kind, all_of in cable.objects("spinwire").items() for i, n in enumerate(all_of)}
        cable.control("spinwire", line.format(**numbers))
    return inject


def stand_still(cable, _, __):
    """The NIC takes nothing off the wire; what waits there comes all at once."""
    cable.control("spinwire", "hold")
    time.sleep(0.1)
    cable.control("spinwire", "release")


def revoke_keys(cable, _, __):
    for key in cable.objects("spinwire")["mr"]:
        cable.control("spinwire", f"mr-revoke={key}")


def quiet(run):
    before = run.frames()
    time.sleep(0.3)
    return run.frames() == before


def peer_dies(cable, run, source):
    """Sources that are started later go on. The cable holds thousands of frames of the dead one: they are not the next
    one's."""
    source.kill()
    spwlab.wait_for(lambda: quiet(run), 60, "the cable to be empty")
    cable.later = Source(cable, *SOURCE, port=source.port)


SOURCE = ("--rate", "20kpps", "--seconds", "300s", "--flows", "64", "--size", "imix")
# what happens, how it is injected, what spinwire must have logged
FAULTS = {
    "1 % of frames lost": (frames_in("loss=0.01"), None),
    "1 % duplicated": (frames_in("dup=0.01"), None),
    "1 % reordered": (frames_in("reorder=0.01"), None),
    "0.1 % corrupted": (frames_in("corrupt=0.001"), None),
    "5 % delayed by 200 us": (frames_in("delay=0.05:200us"), None),
    "port carries 20 Mb/s for a while": (frames_in("port-rate=0.02", "port-rate=none"), None),
    "link down for 100 ms": (at_spinwire("link-down=100ms"), "link is down.*link is up"),
    "NIC stands still for 100 ms": (stand_still, None),
    "no receive is ready for 100 ms (RNR)": (at_spinwire("rnr=100ms"), None),
    "completion queue of a receive queue fails": (at_spinwire("cq-overrun={cq0}"),
                                                  "receive queue: its completion queue failed"),
    "completion queue of a send queue fails": (at_spinwire("cq-overrun={cq1}"),
                                               "send queue: its completion queue failed"),
    "send queue in error": (at_spinwire("qp-error={qp0}"), "send queue: "),
    # at once, or, where the device's event came before the completion, when it is back
    "memory keys revoked, all of them": (revoke_keys, "receive queue: (back after .* it was )?local protection error"),
    "peer killed, another one comes": (peer_dies, None),
}


def eth(profile, sink=PORT):
    return lambda: (sink, PORT, profile, 2)


def rc(op):
    def ports():
        tcp = peers.free_port()
        both = f"mlx5:mlx5_0,mode=rc,op={op}"
        return (f"{both},listen=127.0.0.1:{tcp},peers=127.0.0.0/8,peer_max=4", f"{both},connect=127.0.0.1:{tcp}",
                "latency", 1)
    return ports


RAILS, SPREAD = 2, ",rails_spread=frame"  # a fault hits the first rail


def eth_rails():
    both = rails_test.eth(RAILS, SPREAD)
    return both, both, "latency", 1


def rc_rails():
    return *rails_test.rc("mlx5", "write", RAILS, SPREAD)(None), "latency", 1


MODES = {"eth latency": eth("latency"), "eth throughput": eth("throughput"),
         "eth verbs": eth("latency", "verbs:mlx5_0,mode=eth"),
         "rc send": rc("send"), "rc write": rc("write"), "eth rails": eth_rails, "rc rails": rc_rails}


def flow(run, more):
    """Until so many more frames were received."""
    target = run.frames() + more
    spwlab.wait_for(lambda: run.frames() >= target or run.process.poll() is not None, 60, f"{more} frames")
    check(run.process.poll() is None, f"spinwire left\n{run.output()}")


def wait_said(run, says):
    try:
        spwlab.wait_for(lambda: re.search(says, run.output(), re.S), 60, repr(says))
    except TimeoutError as late:
        raise TimeoutError(f"{late} in:\n{run.output()}") from None


@contextlib.contextmanager
def time_outs_show(*processes):
    """What a wait that was in vain leaves alive is shown before it is killed."""
    try:
        yield
    except TimeoutError:
        for process in processes:
            if process.poll() is None:
                print(stacks.of(process.pid), flush=True)
        raise


def one(mode, inject, says):
    """(queues that recovered or peers that reconnected, longest outage in us or None)."""
    is_eth, is_rails = mode.startswith("eth"), mode.endswith("rails")
    cable = rails_test.Cables(RAILS) if is_rails else Cable()
    cable.later = None
    sink, source_port, profile, queues = MODES[mode]()
    with spinwire(cable, "--handler", "echo", queues=queues, profile=profile, port=sink) as run:
        run.wait_ready()
        source = Source(cable, *SOURCE, port=source_port)
        with time_outs_show(run.process, source.process):
            flow(run, FRAMES)
            inject(cable, run, source)
            if says and is_eth:
                wait_said(run, says)
        source = cable.later or source
        with time_outs_show(run.process, source.process):
            flow(run, FRAMES)
        source.process.send_signal(signal.SIGINT)
        source.finish(status=130)
        run.signal(signal.SIGINT)
        summary = run.finish()
        text = run.output()
    balanced(summary)
    if is_rails:
        rails_test.judge(summary, RAILS)
    outages = [int(n) * (1000 if unit == "ms" else 1) for n, unit in re.findall(r"back after (\d+) (us|ms)", text)]
    errors = summary["ports"][0]["errors"]
    recovered = errors.get("queue_reset", 0) if is_eth else len(re.findall(r"peer 0 .* is back", text))
    check(not is_eth or len(outages) == recovered, f"{errors}, outages {outages}\n{text}")
    return recovered, max(outages, default=None)


def cell(mode, how):
    try:
        recovered, outage = one(mode, *how)
        forgiven()
    except (AssertionError, TimeoutError, subprocess.TimeoutExpired) as why:
        print(f"{mode}: {why}")
        return "FAILED"
    finally:
        peers.stop_all()
    if not recovered:
        return "good"
    return f"{recovered} recovered" + (f", {outage / 1000:.1f} ms" if outage else "")


def main():
    """fault_matrix.py [MODE [WORD]]: one mode, faults with the word in their names."""
    modes = [mode for mode in MODES if len(sys.argv) < 2 or sys.argv[1] in mode]
    word = sys.argv[2] if len(sys.argv) > 2 else ""
    print(f"| fault | {' | '.join(modes)} |\n| --- |{' --- |' * len(modes)}")
    failed = 0
    for what in (what for what in FAULTS if word in what):
        cells = [cell(mode, FAULTS[what]) for mode in modes]
        failed += cells.count("FAILED")
        print(f"| {what} | {' | '.join(cells)} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
