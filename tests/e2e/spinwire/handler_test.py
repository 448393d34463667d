#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A plug-in that counts (examples/handler/syn.c): its counters in text, JSON, telemetry and exporter, its arguments, a
handler for each port, and what a replay makes of it."""
import os
import re
import signal
import struct
import subprocess
import sys

import documents
import spwtest
from spwtest import SPINWIRE, Run, balanced, check, equal, spwlab

SYN = os.environ["SPW_SYN_HANDLER"]
SYNS = {443: 100, 80: 43, 22: 2}
OTHER = 7


def tcp_frame(port, flags):
    tcp = struct.pack("!HHIIBBHHH", 40000, port, 1, 0, 0x50, flags, 64240, 0, 0)
    return spwtest.udp_frame(b"")[:14] + struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40, 0, 0, 64, 6, 0, bytes([10, 0, 0, 1]),
                                                     bytes([10, 0, 0, 2])) + tcp + bytes(6)


def capture(folder):
    """Its path, and the number of frames in it."""
    frames = [tcp_frame(port, 0x02) for port, cnt in SYNS.items() for _ in range(cnt)]
    frames += [tcp_frame(443, 0x12) for _ in range(OTHER)]
    path = os.path.join(folder, "in.pcap")
    spwtest.write_pcap(path, frames)
    return path, len(frames)


def one(folder, spec, *extra):
    path, cnt = capture(folder)
    with Run(["--port", f"ethdev:net_pcap0,rx_pcap={path}", "--handler", spec, "--frames", str(cnt), "--executor",
              "inline", *extra]) as run:
        summary = run.finish()
        balanced(summary)
        return summary, run.output()


def test_counters():
    with spwlab.scratch() as folder:
        summary, text = one(folder, SYN)
    got, = summary["handlers"]
    equal([got["name"], got["spec"], got["ports"], got["digest"]], ["syn", SYN, ["net_pcap0"], 145], "handler")
    equal(got["counters"], {"syns": {"by": "port", "sum": 145, "used": 3, "top": {"443": 100, "80": 43, "22": 2},
                                     "left_out": 0},
                            "other": OTHER}, "counters")
    check(re.search(r"^handler +syn on net_pcap0: digest 145\n  syns +145 by port: 443 has 100, 80 has 43, 22 has 2 "
                    r"\(.*\)\n  other +7 \(.*\)$", text, re.MULTILINE), text)


def test_base():
    """A table whose place 0 stands for 10: these frames begin with 2."""
    with spwlab.scratch() as folder:
        summary, text = one(folder, os.environ["SPW_STATE_HANDLER"])
    equal(summary["handlers"][0]["counters"]["hits"]["top"], {"12": sum(SYNS.values()) + OTHER}, "places")
    check("by remainder: 12 has 152 (" in text, text)


def test_large_table():
    """JSON has 4096 places, telemetry 160, and both say how many they leave out."""
    place, ports = spwlab.Cores(), 4100
    with spwlab.scratch() as folder:
        path = os.path.join(folder, "in.pcap")
        spwtest.write_pcap(path, [tcp_frame(port, 0x02) for port in (*range(1, ports + 1), ports)])
        with Run(["--port", f"ethdev:net_pcap0,rx_pcap={path}", "--handler", SYN, "--executor", "inline"],
                 lcores=f"0@{place.main},1@{place.receive}") as run:
            run.wait_ready()
            spwlab.wait_for(lambda: run.frames() > ports, 60, "all frames")
            got = spwlab.wait_for(lambda: {row["sum_syns"]: row for row in
                                           (run.telemetry("/spinwire/handlers") or {}).values()}.get(ports + 1), 10,
                                  "all reaped")
            run.end()
            table = run.finish()["handlers"][0]["counters"]["syns"]
    equal((got["left_out_syns"], sum(key.startswith("top_syns_") for key in got), got[f"top_syns_{ports}"]),
          (ports - 160, 160, 2), "telemetry")
    equal((table["used"], len(table["top"]), table["left_out"], next(iter(table["top"]))),
          (ports, 4096, ports - 4096, str(ports)), "JSON")


def test_argument():
    with spwlab.scratch() as folder:
        summary, text = one(folder, SYN + ":port=80", "--full")
    got, = summary["handlers"]
    equal([got["digest"], got["counters"]["syns"]["top"], got["counters"]["other"]],
          [43, {"80": 43}, sum(SYNS.values()) + OTHER - 43], "one port only")
    check("syn on net_pcap0: digest 43" in text, text)


def test_bad_arguments():
    for args, text in ((":prot=80", "no argument 'prot'; it takes port=0..65535 (count this port only; 0: all)"),
                       (":port=65536", "port=65536: 0 .. 65535"),
                       (":port=443:max=80", "port=443:max=80: 0 .. 65535; a comma separates arguments"),
                       (":port", "port has no value")):
        with Run(["--port", "null:", "--handler", SYN + args], json_file=False) as run:
            run.finish(status=1)
            check(f"handler {SYN}: " in run.output() and text in run.output(), run.output())


def test_each_port_its_own():
    """Two openings of one plug-in count for themselves; a third port has a built-in handler."""
    place = spwlab.Cores()
    with spwlab.scratch() as folder:
        path, cnt = capture(folder)
        pcap = f",rx_pcap={path}"
        with Run(["--port", "ethdev:net_pcap0" + pcap, "--handler", SYN, "--port", "ethdev:net_pcap1" + pcap,
                  "--handler", SYN + ":port=22", "--port", "null:size=64,count=1000", "--handler", "sum",
                  "--executor", "inline"],
                 lcores=f"0@{place.main},1@{place.receive},2@{place.receive},3@{place.receive}") as run:
            run.wait_ready()
            spwlab.wait_for(lambda: run.frames() >= 2 * cnt + 1000, 60, "all frames")
            run.end()
            summary = run.finish()
            balanced(summary)
    rows = {row["name"]: row for row in summary["handlers"]}
    equal({name: row["ports"] for name, row in rows.items()},
          {"syn": ["net_pcap0"], "syn#1": ["net_pcap1"], "sum": ["null"]}, "ports")
    equal([rows["syn"]["digest"], rows["syn#1"]["digest"], rows["syn#1"]["counters"]["syns"]["top"],
           rows["sum"]["counters"]], [145, 2, {"22": 2}, {}], "each its own")
    equal(summary["executor"]["handler"], "syn, syn#1, sum", "names")


def test_each_flow_its_own():
    """Two ports of one device with flow keys of their own; nothing of the litmus of one comes to the other."""
    spwtest.need_card()
    place, cable = spwlab.Cores(), [os.path.join(spwlab.TOOLS, "with-softhca"), "--cable",
                                    f"shm:{spwlab.prefix('flows')}"]
    port = "mlx5:mlx5_0,mode=eth"
    with Run(["--port", f"{port},ipv4=10.9.0.1", "--handler", "echo",
              "--port", f"{port},ipv4=10.9.0.2", "--handler", SYN, "--executor", "inline"], under=cable,
             lcores=f"0@{place.main},1@{place.receive},2@{place.receive}") as run:
        run.wait_ready()
        sent = {}
        for last in (1, 2, 3):
            done = subprocess.run([*cable, os.environ["SPINWIRE_GEN"],
                                   *spwlab.eal(f"0@{place.main},1@{place.generator}", spwlab.prefix("flows")), "--",
                                   "--port", port, "--dst-ip", f"10.9.0.{last}", "--rate", "1kpps", "--seconds",
                                   "100ms"], capture_output=True, text=True, timeout=60, check=False)
            found = re.search(r"sent (\d+) = echoed (\d+)", done.stdout)
            check(found and int(found.group(1)), done.stdout + done.stderr)
            sent[last] = int(found.group(1))
            equal(int(found.group(2)), sent[last] if last == 1 else 0, f"echoed\n{done.stdout}")
        run.end()
        summary = run.finish()
    balanced(summary, sent[1] + sent[2])
    rows = {row["name"]: row for row in summary["handlers"]}
    equal([rows["echo"]["ports"], rows["syn"]["ports"], rows["syn"]["counters"]["other"]],
          [["mlx5_0"], ["mlx5_0#1"], sent[2]], "handlers")
    equal(summary["ledger"]["echoed"], sent[1], "echoed")


def test_live():
    """Telemetry and exporter while the run is on, on an executor's thread."""
    place = spwlab.Cores()
    with spwlab.scratch() as folder:
        path, cnt = capture(folder)
        with Run(["--port", f"ethdev:net_pcap0,rx_pcap={path}", "--handler", SYN, "--executor", "cpu"],
                 lcores=f"0@{place.main},1@{place.receive},2@{place.main}") as run:
            run.wait_ready()
            spwlab.wait_for(lambda: run.frames() >= cnt, 60, "all frames")
            got = spwlab.wait_for(lambda: {key: row for key, row in (run.telemetry("/spinwire/handlers") or {}).items()
                                           if [row["count_other"], row["digest"]] == [OTHER, 145]}, 10, "all reaped")
            equal(got, {"0": {"name": "syn", "ports": "net_pcap0", "digest": 145, "count_other": OTHER,
                              "sum_syns": 145, "by_syns": "port", "top_syns_443": 100, "top_syns_80": 43,
                              "top_syns_22": 2, "left_out_syns": 0}}, "telemetry")
            code = "import importlib.machinery as m, importlib.util as u, sys\n" \
                   "l = m.SourceFileLoader('exporter', sys.argv[1]); e = u.module_from_spec(" \
                   "u.spec_from_loader('exporter', l)); l.exec_module(e); print(e.scrape())"
            text = subprocess.run([sys.executable, "-c", code, os.path.join(spwlab.TOOLS, "exporter")], text=True,
                                  capture_output=True, timeout=60, check=True).stdout
            at = f'process="{run.prefix}",handler="syn"'
            for row in (f'spinwire_handler_digest{{{at}}} 145',
                        f'spinwire_handler_count_total{{{at},counter="other"}} 7',
                        f'spinwire_handler_top_total{{{at},counter="syns",by="port",place="443"}} 100'):
                check(f"\n{row}\n" in text, text)
            run.signal(signal.SIGINT)
            balanced(run.finish())


def test_replay():
    """Verdicts and digests agree: the recording has every frame, whole."""
    with spwlab.scratch() as folder:
        file, out = os.path.join(folder, "run.rec"), os.path.join(folder, "replay.json")
        one(folder, SYN, "--record", file, "--record-rule", "end", "--record-snap", "64B")
        done = subprocess.run([SPINWIRE, "--replay", file, "--handler", SYN, "--json", out], capture_output=True,
                              text=True, timeout=120, check=False)
        equal(done.returncode, 0, done.stdout + done.stderr)
        got = documents.load(out)["differs"]
    equal([got[key] for key in ("verdicts", "of_verdicts", "digests")], [0, sum(SYNS.values()) + OTHER, 0], "replay")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
