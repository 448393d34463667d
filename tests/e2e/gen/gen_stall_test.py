#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A receiver that stands still for a moment: what an open-loop source must report, by arithmetic, and what a
closed-loop count makes of the same moment ("coordinated omission"). A backlog that overflows is lost, and reported as
lost."""
import contextlib
import os
import signal
import socket
import struct
import threading
import time

import quiet
import spwtest
from spwtest import Run, balanced, check, equal, spwlab, udp_frame
from gen_test import generate, written
from veth_test import in_namespace, make_veth

STALL_S = 0.1
LONG_STALL_S = 0.25  # half of it is more than a busy scheduler keeps a thread waiting
SECONDS = 2
RATE = 20000


def thread_states(pid):
    states = set()
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # telemetry's threads come and go
            with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii", errors="replace") as file:
                states.add(file.read().rsplit(")", 1)[1].split()[0])
    return states


def stand_still(run, seconds):
    """Stops every thread of spinwire; how long it surely stood still."""
    run.signal(signal.SIGSTOP)
    try:
        spwlab.wait_for(lambda: thread_states(run.process.pid) == {"T"}, 60, "spinwire to stand still")
        begin = time.monotonic()
        time.sleep(seconds)
        return time.monotonic() - begin
    finally:
        run.signal(signal.SIGCONT)


@contextlib.contextmanager
def in_the_middle(run, action, before=0):
    """Does action in a thread once spinwire has received a quarter of the plan; yields a list that gets its result, or
    stays empty if the machine was too busy for it."""
    got = []

    def wait_and_act():
        with contextlib.suppress(TimeoutError):
            spwlab.wait_for(lambda: run.frames() >= before + RATE * SECONDS // 4, 60, "a quarter of the plan")
            got.append(action())
    thread = threading.Thread(target=wait_and_act)
    thread.start()
    try:
        yield got
    finally:
        thread.join()


def owed_ms(stood, ppm=999000):
    """The least that a percentile can be. Of SECONDS of evenly due frames, those due within `stood` wait for its end:
    those due in its first (stood - x) wait longer than x, and 1 - p of the plan may."""
    return (stood - SECONDS * (1 - ppm / 1e6)) * 1e3


def check_owed(gen, stood):
    """p99.9, and the whole spectrum above p95."""
    trip, missing = gen["round_trip"], gen["lost"] + gen["unsent"]
    reported = trip["p999_ns"]
    check(isinstance(reported, int) or missing >= gen["intended"] / 1000, f"p99.9 is {reported}, {missing} missing")
    if isinstance(reported, int):
        check(reported / 1e6 >= owed_ms(stood),
              f"p99.9 is {reported / 1e6:.1f} ms, {owed_ms(stood):.1f} ms are owed for {stood * 1e3:.1f} ms")
    for percentile, ns in trip["spectrum"]:
        check(ns / 1e6 >= owed_ms(stood, percentile * 1e4), f"p{percentile} is {ns / 1e6:.1f} ms")
    check(trip["spectrum"][-1][0] > 97, f"the spectrum ends at p{trip['spectrum'][-1][0]}")
    print(f"stood still {stood * 1e3:.1f} ms: p99.9 is {reported} ns, at least {owed_ms(stood):.1f} ms are owed")


def undisturbed(stalled, tries=4):
    """stalled(): (summary of the source, how long the receiver stood still). A busy machine may take the source's own
    core at the plan's very end, or hold the receiver up a second time: the source reports it, and such a run is not
    judged."""
    for _ in range(tries):
        gen, stood = stalled()
        if stood and gen["lost"] + gen["unsent"] < gen["intended"] / 100:
            return gen, stood[0]
    check(stood, "spinwire never stood still")
    check(gen["lost"] < gen["intended"] / 100, f"{gen['lost']} lost, of a backlog that the rings hold")
    raise spwtest.Skip(f"the machine is too busy: {tries} times the source could not send all that was due "
                       f"({gen['unsent']} unsent)")


def memif(folder):
    return f"ethdev:net_memif0,role={{}},rsize=13,socket={folder}/memif.sock,socket-abstract=no"


def echo_run(port):
    return Run(["--port", port, "--handler", "echo", "--executor", "inline", "--slots", "32768"])


def plan(rate=RATE, slots=16384):
    return ["--rate", str(rate), "--seconds", f"{SECONDS}s", "--slots", str(slots), "--linger", "2s"]


def held_by_memif():
    with spwlab.scratch() as folder, echo_run(memif(folder).format("server")) as run:
        run.wait_ready()
        with in_the_middle(run, lambda: stand_still(run, STALL_S)) as stood:
            gen, _ = generate(["--port", memif(folder).format("client"), *plan()], folder, then=run.end)
        balanced(run.finish())
    return gen, stood


def test_backlog_held():
    """The rings hold what is due while the receiver stands still: nothing is lost, and p99.9 is what arithmetic
    predicts."""
    check_owed(*undisturbed(held_by_memif))


def wake_and_end(run, folder):
    """It ends when it has taken what lies in the rings: DPDK 22.11's net_memif may die of messages that come while it
    is being closed."""
    run.signal(signal.SIGCONT)
    sent = written(os.path.join(folder, "gen.json"))["sent"]
    spwlab.wait_for(lambda: run.frames() >= sent, 60, f"{sent} frames")
    run.end()


def test_backlog_overflows():
    """The receiver never comes back in time: what is due then is missing, and a percentile among the missing is no
    number."""
    with spwlab.scratch() as folder, echo_run(memif(folder).format("server")) as run:
        run.wait_ready()
        with in_the_middle(run, lambda: run.signal(signal.SIGSTOP)):
            gen, out = generate(["--port", memif(folder).format("client"), *plan(slots=512), "--linger", "200ms"],
                                folder,
                                then=lambda: wake_and_end(run, folder))
        balanced(run.finish())
    missing = gen["lost"] + gen["unsent"]
    check(missing > gen["intended"] / 10, f"only {missing} of {gen['intended']} are missing")
    trip = gen["round_trip"]
    equal([trip[f"{p}_ns"] for p in ("p90", "p99", "p999", "p9999", "max")], ["lost"] * 5,
          "percentiles among the missing")
    check(isinstance(trip["min_ns"], int), f"the frames before it have no minimum: {trip}")
    check("lost" in out, f"the table does not say lost:\n{out}")


def veth_port(iface, frames):
    return f"ethdev:net_af_packet0,iface={iface},framecnt={frames},blocksz=65536,framesz=2048"


def test_veth_ring_overflows():
    """A ring of 512 frames meets a backlog of thousands: the kernel drops, and the source reports lost."""
    in_namespace()
    make_veth()
    with spwlab.scratch() as folder, echo_run(veth_port("spw1", 512)) as run:
        run.wait_ready()
        with in_the_middle(run, lambda: stand_still(run, 3 * STALL_S)):
            gen, _ = generate(["--port", veth_port("spw0", 4096), *plan()], folder)
        run.signal(signal.SIGINT)
        balanced(run.finish())
    check(gen["lost"] > gen["sent"] / 100, f"lost {gen['lost']} of {gen['sent']}")
    equal([gen["round_trip"][f"{p}_ns"] for p in ("p99", "p999", "max")], ["lost"] * 3, "percentiles among the lost")


class ClosedLoop:
    """One frame under way, timed from when it is really sent: how one should not measure a tail."""

    def __init__(self, iface):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.bind((iface, 0))
        self.socket.settimeout(20)
        self.trips = []

    def one(self):
        want = struct.pack("!Q", len(self.trips)) + bytes(20)
        begin = time.monotonic()
        self.socket.send(udp_frame(want))
        while True:
            data, where = self.socket.recvfrom(2048)
            if where[2] != socket.PACKET_OUTGOING and data[42:42 + len(want)] == want:
                break
        self.trips.append((begin, time.monotonic()))

    def took(self, pulse=None):
        """Seconds of each round trip; with pulse, of those during which the machine never stood still."""
        return [end - begin for begin, end in self.trips if not pulse or not pulse.met(begin, end)]

    def percentile_ms(self, ppm, pulse):
        took = sorted(self.took(pulse))
        if len(took) < len(self.trips) / 2:
            raise spwtest.Skip(f"the machine is too busy: it stood still during {len(self.trips) - len(took)} of "
                               f"{len(self.trips)} round trips")
        return took[-(-len(took) * ppm // 1000000) - 1] * 1e3


def closed_loop(run, enough=5000):
    loop, stood = ClosedLoop("spw0"), []
    for _ in range(enough // 2):
        loop.one()
    thread = threading.Thread(target=lambda: stood.append(stand_still(run, LONG_STALL_S)))
    thread.start()
    while thread.is_alive() or len(loop.trips) < enough:
        loop.one()
    thread.join()
    return loop, stood[0]


def held_by_veth(run, folder):
    with in_the_middle(run, lambda: stand_still(run, LONG_STALL_S), run.frames()) as stood:
        gen, _ = generate(["--port", veth_port("spw0", 8192), *plan()], folder)
    return gen, stood


def test_closed_loop_misses_it():
    """The same path, the same 250 ms: the open-loop p99.9 shows them; a closed loop has one slow sample, far above its
    p99.9."""
    in_namespace()
    make_veth()
    with spwlab.scratch() as folder, echo_run(veth_port("spw1", 8192)) as run:
        run.wait_ready()
        gen, stood = undisturbed(lambda: held_by_veth(run, folder))
        check_owed(gen, stood)
        with quiet.Pulse() as pulse:
            loop, paused = closed_loop(run)
        run.signal(signal.SIGINT)
        balanced(run.finish())
    worst = max(loop.took())
    check(worst >= paused / 2, f"the closed loop never met the stall: {worst}")
    missed = loop.percentile_ms(999000, pulse)
    check(missed < owed_ms(stood) / 2, f"the closed loop's p99.9 is {missed:.2f} ms: it did not miss the stall")
    print(f"closed loop, {len(loop.trips)} round trips: p99.9 is {missed:.3f} ms, the worst {worst * 1e3:.1f} ms")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
