#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""dpdk-testpmd at the other end of net_memif: sink, echo, every handler, signals."""
import errno
import os
import signal
import socket
import struct
import subprocess
import time

import spwtest
import spwtel
from spinwire import results
from spwtest import Run, balanced, check, equal, spwlab

SECONDS = 1
BURSTS = 16  # of 32 frames: testpmd reads the echoes only when it has sent all, so its ring must hold them


def sink(handler, executor, judge=lambda summary: None, extra=()):
    """testpmd sends as fast as it can; whatever reached spinwire is accounted for."""
    with spwlab.scratch() as folder, spwtest.memif_peer(folder, ["--forward-mode=txonly"]) as (sock, _, _):
        place = spwlab.Cores()
        spare = place.executor if place.executor is not None else place.receive
        with Run(["--port", spwtest.memif_port(sock), "--handler", handler, "--executor", executor,
                  "--seconds", f"{SECONDS}", *extra], lcores=f"0@{place.main},1@{place.receive},2@{spare}") as run:
            summary = run.finish(seconds=SECONDS)
    balanced(summary)
    check(summary["ledger"]["executed"] > 1000, f"hardly any frames: {summary['ledger']}")
    equal(summary["memory"]["h2d_copies"], 0, "host-to-device copies")
    check(summary["memory"]["port_copies"] >= summary["ports"][0]["rx"]["frames"], "memif copies each frame once")
    judge(summary)


def test_sink_inline():
    def judge(summary):
        equal(summary["executor"]["kind"], "inline", "executor")
        equal(summary["ledger"]["consumed"], summary["ledger"]["executed"], "null consumes everything")
        equal({row["stage"] for row in summary["latency"]} >= {"polled_sent", "start_end"}, True, "stages")
    sink("null", "inline", judge)


def test_sink_cpu():
    sink("null", "cpu", lambda s: equal(s["executor"]["mode"], "thread", "executor"))


def test_sink_auto():
    """auto takes a GPU, a spare core, or the lcore itself, and the summary names it."""
    sink("null", "auto")


def test_sum():
    sink("sum", "inline", lambda s: equal(s["ledger"]["consumed"], s["ledger"]["executed"], "sum consumes everything"))


def test_crc32c():
    """testpmd's frames carry no trailer: every one is bad, and counted by its reason."""
    sink("crc32c", "inline", lambda s: equal(s["ledger"]["bad"]["checksum"], s["ledger"]["executed"], "bad checksums"))


def test_stamps_off():
    def judge(summary):
        equal(summary["latency"], [], "latency rows")
        equal(sum(summary["regimes"].values()), 0, "regimes")
    sink("null", "inline", judge, ["--stamps", "no"])


class Interactive:
    """testpmd driven over its prompt, so that a known number of frames is sent."""

    def __init__(self, folder):
        spwtest.need(spwlab.TESTPMD)
        self.sock, self.log = os.path.join(folder, "memif.sock"), os.path.join(folder, "testpmd.log")
        self.role = spwlab.prefix("prompt")
        core = spwlab.Cores().generator
        cmd = [spwlab.find(spwlab.TESTPMD), *spwlab.eal(f"0@{core},1@{core}", self.role, telemetry=True), "--vdev",
               f"net_memif0,role=server,socket={self.sock},socket-abstract=no", "--", "-i", "--total-num-mbufs=8192",
               "--no-mlockall"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(cmd, stdin=subprocess.PIPE, stdout=log, stderr=log,
                                            preexec_fn=spwlab._tie_to_parent)
        spwlab.wait_for(lambda: self.process.poll() is not None or spwlab.telemetry(self.role, "/ethdev/stats,0"), 60,
                        "testpmd")
        check(self.process.poll() is None, f"testpmd left:\n{spwlab.read(self.log)}")

    def say(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def count(self, key):
        """A counter of testpmd's port, by DPDK's own telemetry: its prompt is buffered."""
        return (spwlab.telemetry(self.role, "/ethdev/stats,0") or {}).get(key, 0)

    def link_up(self):
        return (spwlab.telemetry(self.role, "/ethdev/link_status,0") or {}).get("status") == "UP"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        spwlab.stop(self.process)
        spwlab.forget_prefix(self.role)


def settled(peer, run):
    """Frames sent, once as many are back; testpmd drops what its ring has no room for, so the number is its own."""
    sent = peer.count("opackets")
    return sent if sent >= 32 and run.frames() == sent and peer.count("ipackets") == sent else None


def echo(executor):
    with spwlab.scratch() as folder, Interactive(folder) as peer:
        place = spwlab.Cores()
        spare = place.executor if place.executor is not None else place.receive
        with Run(["--port", spwtest.memif_port(peer.sock), "--handler", "echo", "--executor", executor],
                 lcores=f"0@{place.main},1@{place.receive},2@{spare}") as run:
            run.wait_ready()
            spwlab.wait_for(peer.link_up, 30, "link")
            peer.say("set fwd rxonly")
            peer.say(f"start tx_first {BURSTS}")
            frames = spwlab.wait_for(lambda: settled(peer, run), 60, "all echoes at testpmd")
            run.signal(signal.SIGINT)
            summary = run.finish()
    balanced(summary, frames)
    equal(summary["ledger"]["echoed"], frames, "frames echoed")


def test_echo_inline():
    echo("inline")


def test_echo_cpu():
    echo("cpu")


def drains(executor, ending):
    """Under full load, the signal leaves no frame unaccounted for."""
    with spwlab.scratch() as folder, spwtest.memif_peer(folder, ["--forward-mode=txonly"]) as (sock, _, _):
        with Run(["--port", spwtest.memif_port(sock), "--executor", executor]) as run:
            run.wait_ready()
            spwlab.wait_for(lambda: run.frames() > 10000, 60, "frames")
            run.signal(ending)
            summary = run.finish()
    balanced(summary)


def test_sigint_drains():
    drains("cpu", signal.SIGINT)


def test_sigterm_drains():
    drains("inline", signal.SIGTERM)


def test_sigstop():
    """Five seconds stopped, then it goes on: nothing is lost on our side."""
    with spwlab.scratch() as folder, spwtest.memif_peer(folder, ["--forward-mode=txonly"]) as (sock, _, _):
        with Run(["--port", spwtest.memif_port(sock), "--executor", "cpu"]) as run:
            run.wait_ready()
            spwlab.wait_for(lambda: run.frames() > 10000, 60, "frames")
            run.signal(signal.SIGSTOP)
            time.sleep(5)
            run.signal(signal.SIGCONT)
            before = run.frames()
            spwlab.wait_for(lambda: run.frames() > before + 10000, 60, "frames after the stop")
            run.signal(signal.SIGINT)
            summary = run.finish()
    balanced(summary)


def paths_of(part):
    """The names that values of the summary have in telemetry: their paths, joined by _."""
    return {"_".join((key, *rest)) for key, value in part.items()
            for rest in ([(name,) for name in paths_of(value)] if isinstance(value, dict) else [()])}


def test_telemetry():
    """The commands answer with what the summary shows afterwards."""
    with spwlab.scratch() as folder, spwtest.memif_peer(folder, ["--forward-mode=txonly"]) as (sock, _, _):
        with Run(["--port", spwtest.memif_port(sock), "--executor", "inline"]) as run:
            run.wait_ready()
            spwlab.wait_for(lambda: run.telemetry("/spinwire/latency"), 60, "an interval of stages")
            ports, ledger = run.telemetry("/spinwire/ports"), run.telemetry("/spinwire/ledger")
            latency, lcores, info, causes = (run.telemetry(f"/spinwire/{name}")
                                             for name in ("latency", "lcores", "info", "causes"))
            histogram = run.telemetry("/spinwire/histogram,polled_sent")
            equal(run.telemetry("/ethdev/list"), [0], "DPDK's own list of ports")
            check(run.telemetry("/ethdev/stats,0")["ipackets"] > 0, "DPDK's own counters")
            equal(run.telemetry("/spinwire/histogram,no_such_stage"), {}, "an unknown stage")
            run.signal(signal.SIGINT)
            summary = run.finish()
    port = ports["0"]
    equal(port["name"], summary["ports"][0]["name"], "name")
    equal(port["driver"], "ethdev", "driver")
    check(0 < port["rx_frames"] <= summary["ports"][0]["rx"]["frames"], f"rx_frames {port}")
    check(0 < ledger["received"] <= summary["ledger"]["received"], f"received {ledger}")
    equal(ledger["pool_slots"], summary["pool"]["slots"], "pool slots")
    whole = latency["polled_sent"]
    check(whole["count"] > 0 and whole["p50_ns"] <= whole["max_ns"], f"stage {whole}")
    paths = paths_of({"held": summary["held"], "pool": summary["pool"], **summary["ledger"]})
    equal([name for name in ledger if name not in paths and name != "bad"], [], "names that the summary does not have")
    equal([name for name in causes if name not in paths and name not in results.CAUSES], [], "of what held loops up")
    equal({f"dropped_{name}" for name in summary["ledger"]["dropped"]} - set(ledger), set(), "reasons of drops")
    equal({name for name in paths_of({"errors": summary["ports"][0]["errors"]})} - set(port), set(), "errors")
    named = {key for row in summary["latency"] for key in row}
    for name, stage in latency.items():
        equal(set(stage) - named, set(), f"names of {name} that the summary does not have")
    below = [value for name, value in histogram.items() if name.startswith("le_")]
    check(len(below) > 20 and below == sorted(below) and 0 < below[-1] <= histogram["count"], f"histogram {histogram}")
    check(histogram["sum_ns"] > histogram["count"], f"sum {histogram['sum_ns']} ns")
    check(0 < lcores["1"]["frames"] <= summary["ledger"]["received"], f"lcores {lcores}")
    check(lcores["1"]["rx_tsc"] > 0 and {f"{name}_tsc" for name in summary["regimes"]} <= set(lcores["1"]),
          f"regimes {lcores}")
    equal((info["executor"], info["handler"], info["version"]), ("inline", "null", summary["version"]), "info")
    balanced(summary)


MESSAGE = struct.Struct("i64sii256s")  # type, name, bytes of param, descriptors, param: EAL's between processes
REQUEST, REPLY = 1, 2


def test_dumpcap_is_refused():
    """What dpdk-dumpcap sends to a primary process is answered at once, and the log names --capture."""
    prefix, place = spwlab.prefix("dump"), spwlab.Cores()
    folder = spwtel.runtime_folder(prefix)
    own = os.path.join(folder, "mp_socket_test")
    with spwlab.scratch() as scratch, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asker:
        log = os.path.join(scratch, "log")
        with open(log, "wb") as out:
            process = spwlab.spawn([spwlab.program("spinwire"), "--lcores", f"0@{place.main},1@{place.receive}",
                                    "--no-huge", "-m", "64", "--no-pci", "--file-prefix", prefix, "--",
                                    "--port", "ethdev:net_null0,size=64", "--executor", "inline"], stdout=out,
                                   stderr=out)
        spwlab.wait_for(lambda: process.poll() is not None or spwlab.telemetry(prefix, "/spinwire/ledger"), 60, "it")
        asker.bind(own)
        asker.settimeout(20)
        param = struct.pack("HH", 1, 3).ljust(256, b"\0")
        asker.sendto(MESSAGE.pack(REQUEST, b"mp_pdump", len(param), 0, param),
                     os.path.join(folder, "mp_socket"))
        kind, name, length, _, param = MESSAGE.unpack(asker.recv(4096))
        os.unlink(own)
        equal((kind, name.rstrip(b"\0"), length), (REPLY, b"mp_pdump", 8), "the reply")
        equal(struct.unpack_from("HHi", param), (1, 3, errno.ENOTSUP), "its words")
        spwlab.wait_for(lambda: "dpdk-dumpcap" in spwlab.read(log), 20, "the warning")
        equal(spwlab.stop(process), 0, spwlab.read(log))
        check("--capture FILE" in spwlab.read(log), spwlab.read(log))


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
