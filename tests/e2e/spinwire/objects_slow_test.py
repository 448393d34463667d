#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Objects that are late get the cause that this test gave them: a sender that pauses, a frame that never comes, a
consumer that takes nothing, a loop and an executor that are stopped. A socket on one end of a veth is the sender."""
import contextlib
import mmap
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time

import documents
import spwtest
import objects_test  # found by the line above
import veth_test
from spwtest import Run, Skip, check, equal, spwlab, udp_frame

PAYLOAD = 64
LIMIT_MS = 20  # of --slow-object
COUNT = 12     # objects of a test


@contextlib.contextmanager
def stream(more, executor="inline", lcores=None, buffers=32):
    """Yields (run, send); send(number) puts the frame of that number on the wire. Afterwards run.got has the summary's
    stream and the lines of the receipts, run.text what was printed."""
    veth_test.in_namespace()
    veth_test.make_veth()
    with spwlab.scratch() as folder:
        spwtest.write_file(folder, "adc.yaml", f"format: counter\nname: adc\nset: {{ port: 9, packets: 2, payload: "
                                               f"{PAYLOAD} }}\nwire: int8\nbuffers: {buffers}\n{more}")
        receipts = os.path.join(folder, "receipts")
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire, \
                Run(["--port", "ethdev:net_af_packet0,iface=spw1", "--objects", os.path.join(folder, "adc.yaml"),
                     "--executor", executor, "--slow-object", f"{LIMIT_MS}ms", "--receipts", receipts],
                    **({"lcores": lcores} if lcores else {})) as run:
            wire.bind(("spw0", 0))
            run.wait_ready()
            yield run, lambda number: wire.send(udp_frame(struct.pack("!Q", number) + bytes(PAYLOAD)))
            run.end()
            summary = run.finish()
            spwtest.balanced(summary)
            run.text = run.output()
        run.got = summary["objects"][0], documents.lines(receipts)


def objects(run):
    return [line for line in run.got[1] if line["schema"] == "spinwire.object/1"]


def mostly(run, *causes):
    """Nearly all objects were slow for one of these causes, in the summary and in their receipts; those apart that met
    what the machine took from the loop meanwhile."""
    by = {row["cause"]: row["objects"] for row in run.got[0]["slow"]["by"]}
    slow = COUNT - (by.get("poll_gap", 0) if "poll_gap" not in causes else 0)
    if slow < COUNT // 3:
        raise Skip(f"too busy a machine: {by}")
    check(sum(by.get(cause, 0) for cause in causes) >= 0.8 * slow, f"expected {causes}: {by}")
    ways = [line["way"]["cause"] for line in objects(run) if line["way"] and line["way"]["slow"]]
    check(sum(way in causes for way in ways) >= 0.8 * slow, f"expected {causes}: {ways}")
    equal(len(ways), run.got[0]["slow"]["objects"] - by.get("consumer", 0), "slow objects in receipts")


def test_sender():
    """The second frame of each object comes late."""
    with stream("deadline: 2s\n") as (run, send):
        for number in range(2 * COUNT):
            time.sleep(2e-3 * LIMIT_MS * (number % 2))
            send(number)
            spwlab.wait_for(lambda sent=number + 1: run.frames() >= sent, 30, "the frame")
    mostly(run, "sender")
    equal(run.got[0]["states"]["complete"], COUNT, "complete objects")
    check(run.got[0]["latency"]["min_ns"] >= 1e6 * LIMIT_MS, f"{run.got[0]['latency']}")


def test_missing():
    """The second frame of each object never comes: it waits for its deadline."""
    with stream(f"deadline: {2 * LIMIT_MS}ms\n") as (run, send):
        for number in range(0, 2 * COUNT, 2):
            send(number)
            time.sleep(1e-3 * LIMIT_MS)
        time.sleep(0.2)
    mostly(run, "missing")
    equal(run.got[0]["states"]["partial"], COUNT, "partial objects")


def test_consumer():
    """Nobody takes an object: two buffers are used, the others are shed."""
    with stream("deadline: 1s\nopen: 1\n", buffers=2) as (run, send):
        for number in range(2 * COUNT):
            send(number)
        spwlab.wait_for(lambda: run.frames() >= 2 * COUNT, 30, "all frames")
    by = {row["cause"]: row["objects"] for row in run.got[0]["slow"]["by"]}
    check(by.get("consumer", 0) == run.got[0]["causes"]["no_buffer"] == COUNT - 2, f"{run.got[0]}")
    check(re.search(rf"^  slow      \d+ shed or longer than 20[.0]* ms: .*consumer {COUNT - 2}$", run.text, re.M),
          run.text)


PUBLISH_AT = 24 + 8 * 17  # in a buffer of the page, lib/obj/spw_obj_page.h


def test_released():
    """A consumer gives each object back a million ticks after it was published: each has a line for that, and the next
    one its buffer."""
    with stream("deadline: 1s\nopen: 1\n", buffers=2) as (run, send):
        spwlab.wait_for(lambda: run.telemetry("/spinwire/objects"), 30, "a stream")
        row = run.telemetry("/spinwire/objects")["0"]
        with open(f"/proc/{row['pid']}/fd/{row['page_fd']}", "r+b") as file, \
                mmap.mmap(file.fileno(), row["page_bytes"]) as page:
            for obj in range(COUNT):
                send(2 * obj)
                send(2 * obj + 1)
                at = objects_test.BUFFERS_AT + obj % 2 * objects_test.BUFFER_BYTES
                spwlab.wait_for(lambda: page[at] & 7 == objects_test.READY, 30, "an object")
                struct.pack_into("<Q", page, at + 16, struct.unpack_from("<Q", page, at + PUBLISH_AT)[0] + 1000000)
                page[at] = objects_test.FREE
    lines = [line for line in run.got[1] if line["schema"] == "spinwire.release/1"]
    equal(sorted(line["id"] for line in lines), list(range(COUNT)), "objects that were released")
    published = {line["generation"]: line["publish_ns"] for line in objects(run)}
    for line in lines:
        equal(line["publish_ns"], published[line["generation"]], "its publication")
        check(1e5 < line["release_ns"] - line["publish_ns"] < 1e6, f"{line}")


def test_loop_stopped():
    """The process is stopped while the second frame of each object waits in the port."""
    with stream("deadline: 2s\n") as (run, send):
        for number in range(0, 2 * COUNT, 2):
            send(number)
            spwlab.wait_for(lambda sent=number + 1: run.frames() >= sent, 30, "its first frame")
            run.signal(signal.SIGSTOP)
            os.waitid(os.P_PID, run.process.pid, os.WSTOPPED)
            send(number + 1)
            time.sleep(2e-3 * LIMIT_MS)
            run.signal(signal.SIGCONT)
    mostly(run, "poll_gap")


def executor_thread(pid):
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/comm", encoding="ascii") as file:
            if file.read().strip() == "spw-exec":
                return int(tid)
    raise AssertionError("no thread of the executor")


def test_executor_starved():
    """The executor's thread only gets its core when a program that spins there does not want it."""
    place = spwlab.Cores()
    spare = place.executor if place.executor is not None else place.generator
    with stream("deadline: 2s\n", "cpu", f"0@{place.main},1@{place.receive},2@{spare}") as (run, send):
        os.sched_setscheduler(executor_thread(run.process.pid), os.SCHED_IDLE, os.sched_param(0))
        spin = f"import os\nos.sched_setaffinity(0, {{{spare}}})\nprint(1, flush=True)\nwhile True:\n    pass\n"
        with subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE) as rival:
            rival.stdout.readline()
            for number in range(2 * COUNT):
                send(number)
                time.sleep(0.05 * (number % 2))
            rival.kill()
        time.sleep(0.2)
    ways = [line["way"] for line in objects(run) if line["way"] and line["way"]["slow"]]
    if len(ways) < COUNT // 3:
        raise Skip(f"the executor found its core: {len(ways)} slow objects")
    sums = {cause: sum(way["blame_ns"].get(cause, 0) for way in ways) for way in ways for cause in way["blame_ns"]}
    whole = sum(sums.values()) - sums.get("poll_gap", 0)  # what the machine took from the loop meanwhile
    check(sums.get("exec_late", 0) + sums.get("batch_ahead", 0) >= 0.8 * whole, f"{sums}")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
