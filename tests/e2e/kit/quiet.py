# SPDX-License-Identifier: BSD-3-Clause
"""Whether frames still move between programs that software ConnectXs join, however long the scheduler keeps one of them
waiting.

A counter that stands still proves nothing: the thread that would move it may have no core. Here every thread that
carries frames has had a turn between two looks at all counters, so a frame that is on its way anywhere changes one of
them:

  lcore of a program   polls what its NIC has put into its queues, posts echoes ─► CPU time of the thread
  NIC thread           sends what is posted, takes what is on the cable         ─► naps: it takes one when a round had
  no work
"""
import contextlib
import os
import threading
import time

from spwtest import spwlab

STILL_S = 0.5    # longer than a window of rails or a delayed frame waits
LCORE_NS = 20e6  # a spinning lcore empties every queue in that time
NAPS = 2         # the first may have begun before


class End:
    """A program on a cable: its process, and the control socket of its NIC."""

    def __init__(self, process, socket):
        self.process, self.socket = process, socket

    def lcores_ns(self):
        """{thread: CPU time} of the lcores that carry frames; {} once the program has left."""
        top, times = f"/proc/{self.process.pid}/task", {}
        for name in os.listdir(top) if self.process.poll() is None else []:
            with contextlib.suppress(OSError):
                if "worker" in spwlab.read(f"{top}/{name}/comm"):
                    times[name] = int(spwlab.read(f"{top}/{name}/schedstat").split()[0])
        return times

    def naps(self):
        try:
            return {"naps": int(spwlab.nic_pairs(self.socket, "thread")["naps"])}
        except (OSError, ValueError):
            if self.process.poll() is None and os.path.exists(self.socket):
                raise
            return {}


class Pulse(threading.Thread):
    """A thread that naps, and so knows when the machine stood still: pauses are [(begin, end)] by time.monotonic() in
    which it got no core for PAUSE_S. Whatever was measured across one says nothing about the programs."""
    NAP_S, PAUSE_S = 0.005, 0.025

    def __init__(self):
        super().__init__(daemon=True)
        self.pauses, self._over = [], threading.Event()

    def run(self):
        begin = time.monotonic()
        while not self._over.wait(self.NAP_S):
            end = time.monotonic()
            if end - begin > self.PAUSE_S:
                self.pauses.append((begin, end))
            begin = end

    def met(self, begin, end):
        return any(at < end and begin < to for at, to in self.pauses)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self.join()


def _each_grows(read, by, what):
    """Until every number has grown, or who had it has left."""
    begin = read()

    def done():
        now = read()
        return all(now.get(who, was + by) >= was + by for who, was in begin.items())
    spwlab.wait_for(done, 60, what)


def wait(ends, counters, still_s=STILL_S):
    """Until nothing moves between ends for still_s; counters(): all of theirs. Returns: what that gave."""
    def times():
        return {(end, name): ns for end in ends for name, ns in end.lcores_ns().items()}

    def naps():
        return {end: cnt for end in ends for cnt in end.naps().values()}

    def still():
        before = counters()
        time.sleep(still_s)
        _each_grows(times, LCORE_NS, "a turn of every lcore")
        _each_grows(naps, NAPS, "a turn of every NIC thread")
        return before == counters() and before
    return spwlab.wait_for(still, 60, "the last frame to arrive")
