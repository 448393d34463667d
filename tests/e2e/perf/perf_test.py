#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spinwire-perf: its tables on software ConnectX, and what it says of bad input. Figures are judged for correctness
only: a machine of CI is too busy for more (tools/bench_perf compares with perftest, UCX, qperf and iperf3)."""
import contextlib
import csv
import io
import json
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading

import documents
import spwtest
from perf_kit import LIMIT_S, PERF, QUICK, Channel, cable, card, dial, one_line, perf, report, rows_of, server
from spwtest import Skip, check, equal, spwlab


# ---- tables ------------------------------------------------------------------------------------------

def test_local():
    """Without any argument but shorter: both ends on software devices, every kind of row, no row failed."""
    spwtest.need_card()
    with spwlab.scratch() as folder:
        paths = {kind: os.path.join(folder, f"out.{kind}") for kind in ("json", "csv", "html")}
        done = perf(*QUICK, *[word for kind, path in paths.items() for word in (f"--{kind}", path)])
        got = documents.load(paths["json"])
        kinds = {(row["case"]["op"], row["case"]["latency"], row["case"]["both"]) for row in got["rows"]}
        equal(kinds, {("write", False, False), ("write", False, True), ("write", True, False), ("send", False, False),
                      ("send", True, False), ("read", False, False), ("read", True, False), ("egress", True, False),
                      ("collective", False, False), ("tcp", False, False), ("tcp", True, False)}, "kinds of rows")
        equal({row["valid"] for row in rows_of(got, op="write")}, {"unverified"},
              "a device without an interface has no PHY counters")
        for row in got["rows"]:
            check(row["own"]["total"] > 0 and (row["case"]["latency"] or row["gbps"] > 0), f"nothing measured: {row}")
        names = ("op", "latency", "both", "gpu", "coll", "net", "bytes", "rails_mask", "streams")
        equal([[line[name] for name in names] for line in csv.DictReader(io.StringIO(spwlab.read(paths["csv"])))],
              [[str(int(value) if isinstance(value, bool) else value) for value in map(row["case"].get, names)]
               for row in got["rows"]], "cases of the CSV")
        page = spwlab.read(paths["html"])
        check("Bandwidth over size" in page and "<script" not in page and page.rstrip().endswith("</html>"), page[:300])
        check(all(title in done.stdout for title in {row["table"] for row in got["rows"]}), done.stdout)


def test_brief():
    """A line for each table, in place of its rows, with the figures of the JSON report; the reasons of what cannot be
    valid here."""
    spwtest.need_card()
    with spwlab.scratch() as folder:
        path = os.path.join(folder, "j")
        done = perf("--rows", "write,tcp", "--time", "40ms", "--sizes", "64,64K", "--json", path)
        got = documents.load(path)
    for title in {row["table"] for row in got["rows"]}:
        found = re.findall(rf": {re.escape(title)}, \d+ [KMG]?i?B$", done.stdout, re.M)
        equal(len(found), 1, f"{title} in\n{done.stdout}")
    best = max(row["gbps"] for row in rows_of(got, op="write", latency=False) if not row["case"]["both"])
    check(f"bandwidth  {best:.3f} Gb/s" in done.stdout and "messages/s" not in done.stdout, done.stdout)
    check("unverified: " in done.stdout and done.stdout.splitlines()[-1].startswith("next "), done.stdout)


def test_page_is_named():
    """By the result, once it is written; a page that could not be is not."""
    spwtest.need_card()
    quick = ["--rows", "write", "--sizes", "64", "--time", "20ms"]
    with spwlab.scratch() as folder:
        page = os.path.join(folder, "page")
        done = perf(*quick, "--html", page)
        check(done.stdout.endswith(f"\nreport     {page}\nnext       --full: every row\n"), done.stdout)
        done = perf(*quick, "--html", page, "--full")
        check(done.stdout.endswith(f"\nreport {page}\n"), done.stdout)
        done = perf(*quick, "--html", "/dev/full", status=2)
        check("report " not in done.stdout and done.stdout.endswith(": every row; --html FILE: curves\n"), done.stdout)


def test_interrupted():
    """One line, which names the row and how long all will take, in place of a report; a server's, how long it
    served. The end that the client started leaves without a word."""
    spwtest.need_card()
    client = [PERF, "--rows", "write", "--time", "2s"]
    line = r"spinwire-perf: interrupted after [\d.]+ s"
    status, text = spwtest.Terminal(client).interrupt(r"\[Krow 1 of \d+: write", "a row", 60)
    equal((status, text.count("interrupted")), (130, 1), text)
    check(re.search(line + r" of \d+: row 1 of \d+: write, rail 1, ", text), text)
    with spwlab.scratch() as folder:
        log = os.path.join(folder, "log")
        with open(log, "wb") as file:
            job = spwlab.spawn([*client, "--full"], stdout=file, stderr=file)
        spwlab.wait_for(lambda: job.poll() is not None or " 2 B " in spwlab.read(log), 60, "the first row")
        job.send_signal(signal.SIGTERM)
        equal(job.wait(60), 143, spwlab.read(log))
        check(re.search(line + r" of \d+: row 2 of \d+: ", spwlab.read(log)), spwlab.read(log))
        with server(log=log) as (_, job):
            job.send_signal(signal.SIGINT)
            equal(job.wait(30), 130, spwlab.read(log))
        check(re.search(f"^{line}$", spwlab.read(log), re.M), spwlab.read(log))


def test_outputs():
    """A report that fails costs no other one; none goes through a link, or is found to be impossible only after the
    run; "-" is stdout or refused."""
    spwtest.need_card()
    quick = ["--rows", "write", "--sizes", "64", "--time", "20ms"]
    with spwlab.scratch() as folder:
        paths = {kind: os.path.join(folder, f"out.{kind}") for kind in ("json", "csv", "html")}
        done = perf(*quick, "--csv", "/dev/full", "--json", paths["json"], "--html", paths["html"], status=2)
        check("--csv: /dev/full: cannot write: No space left" in done.stderr, done.stderr)
        check(documents.load(paths["json"])["rows"] and "</html>" in spwlab.read(paths["html"]),
              "the other two")
        os.symlink(spwtest.write_file(folder, "victim", "mine"), paths["csv"])
        perf(*quick, "--csv", paths["csv"])
        check(spwlab.read(os.path.join(folder, "victim")) == "mine"
              and spwlab.read(paths["csv"]).startswith("op,latency,"), "a link was followed")
        done = perf(*quick, "--csv", "-", cwd=folder)
        equal(len({len(row) for row in csv.reader(done.stdout.splitlines())}), 1, f"widths of lines\n{done.stdout}")
        for options, status, text in (("--html -", 2, "does not go to stdout"), ("--csv - --json -", 1, "one of them"),
                                      *((f"{one} /nonexistent/out", 2, "No such file")
                                        for one in ("--csv", "--html", "--json"))):
            check(text in perf("--ssh", "nowhere.invalid", *options.split(), status=status).stderr, options)
        check("-" not in os.listdir(folder), "a file called -")


def test_four_rails():
    """The card of a DGX Spark at both ends: each rail alone, more and more of them, and the bytes on its wires. Its
    emulated PHY counters verify the rows."""
    with server(under=card("--as", "dgx-spark")) as (host, _):
        got = report(host, "--rows", "write,read", "--sizes", "1M", "--time", "40ms", under=card("--as", "dgx-spark"))
    equal({row["case"]["rails_mask"] for row in got["rows"]}, {1, 2, 4, 8, 3, 7, 15}, "sets of rails")
    equal({row["valid"] for row in got["rows"]}, {"valid"}, str([row["why"] for row in got["rows"] if row["why"]]))
    equal(len(got["rails"]), 4, "rails")
    for row in got["rows"]:
        used = [rail["bytes"] for rail in row["carried"]]
        equal((len(used), min(used) > 0), (row["case"]["rails_mask"].bit_count(), True), f"rails that carried: {row}")
        if not row["case"]["latency"]:
            equal(sum(used), row["own"]["total"] * row["case"]["bytes"], f"bytes of all rails: {row}")


def two_cables(letters, ips):
    """A card whose two functions are each at a cable of its own."""
    return card("--name", "mlx5_0,mlx5_1", "--ip", ips, cable_name="+".join(f"{cable()}-{c}" for c in letters))


def test_cables_crossed():
    """Link-local addresses are the same on every cable, and here the nearest ones are those of the wrong functions:
    each row of one rail measures a cable, and the report says which functions it joins."""
    with server(under=two_cables("ab", "169.254.1.1,169.254.1.4")) as (host, _):
        got = report(host, *QUICK, "--rows", "write", under=two_cables("ba", "169.254.1.2,169.254.1.5"))
    equal([(rail["own"], rail["peer"]) for rail in got["rails"]], [("mlx5_0", "mlx5_1"), ("mlx5_1", "mlx5_0")], "rails")
    equal({row["case"]["rails_mask"] for row in got["rows"]}, {1, 2, 3}, "sets of rails")
    check(all(row["valid"] != "failed" for row in got["rows"]), str(got["rows"]))


def test_cable_elsewhere():
    """One of two cables in a subnet leads to another host: the other one is measured, and this one is named."""
    with server(under=two_cables("xb", "10.0.0.1,10.0.0.2")) as (host, _):
        got = report(host, *QUICK, "--rows", "write", status=4, under=two_cables("by", "10.0.0.3,10.0.0.4"))
    equal([(rail["own"], rail["peer"]) for rail in got["rails"]], [("mlx5_0", "mlx5_1")], "rails")
    equal(len(got["faults"]), 1, "faults")
    check("mlx5_1: its subnet 10.0.0.4/24 has rails of " in got["faults"][0], str(got["faults"]))
    check(all(row["valid"] != "failed" for row in got["rows"]), str(got["rows"]))


def test_egress():
    """Single packets over each rail alone: all of them have a stamp, between what was due before and what is read of
    the clock afterwards, and arrive with their bytes. What no packet carries is left out."""
    with server(under=card("--as", "dgx-spark")) as (host, _):
        got = report(host, "--rows", "egress", "--sizes", "64,4K,64K", "--time", "60ms",
                     under=card("--as", "dgx-spark"))
    equal([(row["case"]["rails_mask"], row["case"]["bytes"]) for row in got["rows"]],
          [(1 << rail, size) for rail in range(4) for size in (64, 4096)], "rails and sizes")
    for row in got["rows"]:
        latency = row["latency"]
        equal(latency["open"]["count"] + latency["closed"]["count"], row["own"]["total"], "stamps")
        check(0 < row["peer"]["total"] <= row["own"]["total"], f"arrived: {row}")
        check(row["method"].startswith("clocks within ") and row["valid"] in ("valid", "unverified"), f"{row}")


def test_collectives():
    """One-shot collectives between the two ends, their numbers compared and their bytes on the wires; NCCL's only if
    they are asked for, and one line where there is no torch for them."""
    with server(under=card("--as", "dgx-spark")) as (host, _), spwlab.scratch() as folder:
        path = os.path.join(folder, "j")
        done = subprocess.run([*card("--as", "dgx-spark"), PERF, host, "--full", "--rows", "coll", "--sizes",
                               "1K,64K,8M", "--time", "40ms", "--json", path],
                              capture_output=True, text=True, timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL)
        got = documents.load(path)
    one_shot = rows_of(got, net="one-shot")
    equal([(row["case"]["coll"], row["case"]["bytes"]) for row in one_shot],
          [(name, size) for name in ("all_gather", "all_reduce") for size in (1024, 65536)],
          "one-shot rows: at most 2 MiB a rank")
    equal({row["valid"] for row in one_shot}, {"valid"}, str([row["why"] for row in one_shot]))
    for row in one_shot:
        equal(row["own"]["bytes"], row["own"]["messages"]
              * row["case"]["bytes"] // (2 if row["case"]["coll"] == "all_gather" else 1), "bus bytes")
    nccl = [row for row in got["rows"] if row["case"]["net"] != "one-shot"]
    equal({(row["case"]["coll"], row["case"]["net"]) for row in nccl},
          {(name, net) for name in ("all_gather", "all_reduce", "broadcast", "reduce_scatter", "sendrecv")
           for net in ("spinwire", "IB", "Socket")}, "NCCL's")
    if got["here"]["no_gpu"]:
        equal(done.returncode, 4, f"status\n{done.stdout}{done.stderr}")
        equal({row["valid"] for row in nccl}, {"failed"}, "NCCL's rows")
        equal(len(re.findall("FAILED: .*torch", done.stdout)), 1, f"lines that say why in\n{done.stdout}\n")


def test_gpu():
    """GPU rows where both ends have one (their bytes are made and compared by kernels); else one line says who lacks
    it, the other rows are measured, and the status says so. Unasked, a machine without GPU says nothing of it."""
    spwtest.need_card()
    quick = ["--time", "40ms", "--sizes", "1M"]
    with spwlab.scratch() as folder:
        path = os.path.join(folder, "j")
        done = subprocess.run([PERF, "--full", "--rows", "write,gpu", *quick, "--json", path], capture_output=True,
                              text=True, timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL)
        got = documents.load(path)
    rows = rows_of(got, gpu=True)
    check(rows and rows_of(got, gpu=False), str(got["rows"]))
    equal({row["valid"] for row in rows_of(got, gpu=False)}, {"unverified"}, "rows of the CPU's memory")
    if got["here"]["no_gpu"]:
        equal(done.returncode, 4, f"status\n{done.stdout}{done.stderr}")
        equal({row["valid"] for row in rows}, {"failed"}, "GPU rows")
        check(f"FAILED: {got['here']['host']} has no GPU for these rows: {got['here']['no_gpu']}" in done.stdout,
              done.stdout)
        equal(rows_of(report("--rows", "write", *quick), gpu=True), [], "GPU rows that nobody asked for")
    else:
        equal(done.returncode, 0, f"status\n{done.stdout}{done.stderr}")
        check(all(row["gbps"] > 0 and "memory to" in row["method"] for row in rows), str(rows))
    one_line(perf("--rows", "gpu", "--memory", "managed", status=1), "its pages move", "cuda-host")


def test_enforced_rate():
    """Of software devices with rates the limit is the lower one of the two ends, and no row is beyond it."""
    with server(under=card("--rate", "port=1,pcie=100")) as (host, _):
        got = report(host, "--rows", "write", "--sizes", "64K,1M", "--time", "400ms",
                     under=card("--rate", "port=4,pcie=0.5"))
    one_way = [row for row in rows_of(got, latency=False, both=False) if row["case"]["streams"] == 1]
    for row in one_way:
        equal((row["limit_gbps"], row["limit_by"].split(" of ")[0]), (0.5, "enforced rate, PCIe link"), "limit")
        # a burst of 20 ms is forgiven (docs/060)
        check(0 < row["efficiency"] < 1.1 and row["gbps"] / 0.5 == row["efficiency"], str(row))
    equal([row["limit_gbps"] for row in rows_of(got, both=True)], [1.0, 1.0], "limits both ways")


# ---- bad input ---------------------------------------------------------------------------------------

def test_usage():
    for words, text in ((["--rows", "wrote"], "wrote: no such row"), (["--sizes", "1"], "a size is 2 to 16G"),
                        (["--sizes", "64Q"], "64Q"),
                        (["--time", "5ms"], "20ms .. 60s"), (["--time", "40"], "40ms?"),
                        (["--nothing"], "no such option"), (["--port"], "--port needs a value"),
                        (["serve", "--json", "x"], "belong there"), (["a", "--ssh", "b"], "exclude each other"),
                        (["--ssh", "-oProxyCommand=x"], "no name of a host")):
        one_line(perf(*words, status=1), text)


def test_nobody_there():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        one_line(perf(f"127.0.0.1:{taken.getsockname()[1]}", status=2), "nobody listens", "spinwire-perf serve")
    one_line(perf("no-such-host.invalid", status=1), "no such host")


def test_secret():
    """Another secret, one at one end only, and the same: the last one measures."""
    with spwlab.scratch() as folder:
        names = {}
        for name in ("right", "wrong"):
            names[name] = os.path.join(folder, name)
            with open(names[name], "w", encoding="ascii",
                      opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(name * 8)
        with server("--secret", names["right"], under=card()) as (host, _):
            one_line(perf(host, "--secret", names["wrong"], status=2), "the secrets differ")
            one_line(perf(host, status=2), "wants a secret")
            perf(host, "--secret", names["right"], "--rows", "write,tcp", "--time", "20ms", "--sizes", "64",
                 under=card())
    with server() as (host, _), spwlab.scratch() as folder:
        path = os.path.join(folder, "s")
        with open(path, "w", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write("x" * 20)
        one_line(perf(host, "--secret", path, status=2), "has no secret")


def test_version():
    """Both ends name both versions; a server of another protocol altogether is named as that."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = f"127.0.0.1:{listener.getsockname()[1]}"

        def answer():
            with listener.accept()[0] as link, contextlib.suppress(ConnectionError):
                Channel(link, client=False, version=7)
                link.recv(65536)
            with listener.accept()[0] as link:
                text = json.dumps({"hello": 2, "version": "9.9", "nonce": "00" * 32, "secret": False}).encode()
                link.sendall(struct.pack(">I", len(text)) + text)
                link.recv(65536)
        threading.Thread(target=answer, daemon=True).start()
        one_line(perf(host, status=2), "it speaks version 7", f"this end {Channel.VERSION}", "install the same")
        one_line(perf(host, status=2), "does not speak this protocol")
    with spwlab.scratch() as folder:
        log = os.path.join(folder, "log")
        with server(log=log) as (host, _):
            dial(host, version=7)
            spwlab.wait_for(lambda: "it speaks version 7" in spwlab.read(log), 20, "the server's line")


def test_strangers():
    """Noise, a huge length, an empty message, one who says nothing: the server goes on."""
    with server() as (host, process):
        address = ("127.0.0.1", int(host.rpartition(":")[2]))
        for data in (b"GET / HTTP/1.0\r\n\r\n", b"\xff\xff\xff\xff", b"\0\0\0\0", struct.pack(">I", 2) + b"[]",
                     struct.pack(">I", 60000) + b"[" * 60000, b""):
            with socket.create_connection(address) as link:
                link.settimeout(30)
                with contextlib.suppress(OSError):  # it may be closed before all was said
                    link.sendall(data)
                    link.shutdown(socket.SHUT_WR)
                    while link.recv(64):
                        pass
        check(process.poll() is None, "the server left")
        one_line(perf(host, "--secret", "/dev/null", status=1), "secret")


def test_fewer_rails():
    with server(under=card("--devices", "1")) as (host, _):
        done = perf(host, "--rows", "write", *QUICK, under=card("--devices", "2"), status=4)
    one_line(done, "mlx5_1", "fewer rails")
    check("write, rail 1" in done.stdout, done.stdout)


def test_other_host():
    """The second rail's cable leads elsewhere: it is left out, the other is measured."""
    with server(under=card("--devices", "2", "--ip", "10.1.0.1,10.2.0.1")) as (host, _):
        done = perf(host, "--rows", "write", *QUICK, under=card("--devices", "2", "--ip", "10.1.0.2,10.3.0.2"),
                    status=4)
    one_line(done, "mlx5_1", "10.3.0.2", "another host")
    check("write, rail 1" in done.stdout, done.stdout)


def test_mtu_differs():
    with server(under=card("--as", "dgx-spark", "--mtu", "1500")) as (host, _):
        done = perf(host, "--rows", "write,tcp", "--rails", "rocep1s0f0", *QUICK,
                    under=card("--as", "dgx-spark", "--mtu", "9000"), status=4)
    one_line(done, "MTU", "9000", "1500", "ip link set")
    check("tcp" in done.stdout, "other rows go on")


def test_rails_named():
    with server(under=card()) as (host, _):
        one_line(perf(host, "--rails", "mlx5_7", under=card(), status=1), "mlx5_7", "ibv_devices")
        one_line(perf(host, "--rails", "mlx5_0=mlx5_9", under=card(), status=1), "mlx5_9")


def test_too_large():
    """16 GiB where less is free: refused before anything is allocated, and the other size is measured."""
    spwtest.need_card()
    with spwlab.scratch() as folder:
        path = os.path.join(folder, "j")
        done = perf("--rows", "write", "--sizes", "64,16G", "--time", "40ms", "--json", path, status=4)
        rows = documents.load(path)["rows"]
    with open("/proc/meminfo", encoding="ascii") as file:
        free_kib = int(re.search(r"MemAvailable: +(\d+)", file.read()).group(1))
    if free_kib > 128 << 20:
        raise Skip("so much memory is free that 16 GiB may be used")
    equal({row["valid"] for row in rows if row["case"]["bytes"] == 64}, {"unverified"}, "rows of 64 bytes")
    check(all("17179869184 bytes would need" in row["why"] for row in rows if row["case"]["bytes"] > 64), str(rows))
    check("failed: " in done.stdout, done.stdout)


def test_ssh_ends():
    """An ssh that ends before it has read anything: one line, not SIGPIPE."""
    with tempfile.TemporaryDirectory(prefix="spinwire-") as folder:
        ssh = os.path.join(folder, "ssh")
        with open(ssh, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nexit 255\n")
        os.chmod(ssh, 0o755)
        for _ in range(8):
            done = subprocess.run([PERF, "--ssh", "spark-2"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=60, check=False, env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
            equal((done.returncode, done.stdout), (2, ""), done.stderr)
            check("spark-2: the other end did not start" in done.stderr, done.stderr)


def test_no_namespace():
    """An ordinary user who may make no user namespace: one line with what allows it."""
    spwtest.need_root()
    spwtest.need("setpriv")
    with tempfile.TemporaryDirectory(prefix="spinwire-", dir="/var/tmp") as folder:
        program, unshare = shutil.copy(PERF, folder), os.path.join(folder, "unshare")
        with open(unshare, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nexit 1\n")
        for path in (folder, unshare):
            os.chmod(path, 0o755)
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program], cwd="/",
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
    equal((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stdout + done.stderr)
    check("sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0" in done.stderr, done.stderr)


def test_memlock():
    """A limit of 64 KiB on locked memory: one line with the remedy, and TCP goes on. Root is exempt: both ends run as
    nobody."""
    spwtest.need_card()
    spwtest.need_root()
    spwtest.need("setpriv")
    plain = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]

    def limit():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
    with tempfile.TemporaryDirectory(prefix="spinwire-", dir="/var/tmp") as folder:  # TMPDIR may be root's alone
        os.chmod(folder, 0o755)
        program = shutil.copy(PERF, folder)
        lib = shutil.copy(os.environ["SPW_SOFTHCA_LIB"], folder)
        env = {**os.environ, "LD_PRELOAD": lib, "SPW_SOFTHCA": f"cable=shm:spw-perf-lock-{os.getpid()};",
               "SPINWIRE_PERF": program}
        log = open(os.path.join(folder, "log"), "wb")
        with log:
            process = subprocess.Popen([*plain, program, "serve", "--once", "--port", "0"], stdin=subprocess.PIPE,
                                       stdout=log, stderr=log, env=env,
                                       preexec_fn=limit)
        try:
            port = spwlab.wait_for(lambda: re.search(r"on port (\d+)", spwlab.read(log.name)), 30,
                                   "the server").group(1)
            done = subprocess.run([*plain, program, f"127.0.0.1:{port}", "--rows", "write,tcp", *QUICK],
                                  capture_output=True, text=True, timeout=LIMIT_S,
                                  env=env, preexec_fn=limit, check=False, stdin=subprocess.DEVNULL)
        finally:
            process.kill()
            process.wait()
    equal(done.returncode, 4, f"status\n{done.stdout}{done.stderr}")
    check(re.search(r"FAILED: .*(memlock|ulimit -l|locked)", done.stdout), done.stdout + done.stderr)
    check("tcp ping-pong" in done.stdout, done.stdout)


# ---- failures while it runs --------------------------------------------------------------------------

def test_peer_dies():
    """Killed in a row: that row says so, the others are named, what was measured is kept."""
    with spwlab.scratch() as folder, server(under=card()) as (host, process):
        path = os.path.join(folder, "j")
        client = spwlab.spawn([*card(), PERF, host, "--full", "--rows", "write", "--sizes", "64,64K", "--time", "5s",
                               "--json", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in client.stdout:
            if line.strip().startswith("64 B"):
                break
        os.killpg(process.pid, signal.SIGKILL)
        out, err = client.communicate(timeout=LIMIT_S)
        equal(client.returncode, 4, f"status\n{out}{err}")
        got = documents.load(path)
    equal(got["rows"][0]["valid"], "unverified", "the first row")
    check(all(row["valid"] == "failed" and row["why"] for row in got["rows"][2:]), str(got["rows"]))


def test_rdma_blocked():
    """TCP works, RoCE does not: the ends are on different cables. RDMA rows fail once, TCP rows are measured."""
    with server(under=card("--ip", "10.53.0.1", cable_name=cable() + "a")) as (host, _):
        done = perf(host, "--rows", "write,send,tcp", *QUICK,
                    under=card("--ip", "10.53.0.2", "--mac", "02:53:57:00:00:02", cable_name=cable() + "b"), status=4)
    equal(len(re.findall("FAILED", done.stdout)), len(set(re.findall("FAILED: .*", done.stdout))), "each reason once")
    check("FAILED" in done.stdout and "tcp ping-pong" in done.stdout, done.stdout)


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
