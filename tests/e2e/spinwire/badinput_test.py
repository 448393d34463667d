#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Wrong input gets one clear line that names what and where, the right exit status, and leaves no files."""
import os
import shutil
import signal
import subprocess

import spwtest
from spwtest import Run, check, udp_frame, spwlab


def refused(app, status, *words, **kwargs):
    with Run(app, **kwargs) as run:
        run.finish(status=status)
        spwtest.one_line(run, *words)


def config(text, status, *words):
    with spwlab.scratch() as folder:
        path = os.path.join(folder, "bad.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        refused(["--config", path], status, "bad.yaml", *words)


def test_port_driver():
    refused(["--port", "warp:null0"], 1, "warp", "ethdev")


def test_port_device():
    refused(["--port", "ethdev:net_nonsense0"], 2, "net_nonsense0")


def test_port_key():
    refused(["--port", "null:sise=64"], 1, "sise")


def test_port_missing():
    refused(["--seconds", "1"], 1, "--port")


def test_handler():
    refused(["--port", "null", "--handler", "nonesuch"], 1, "nonesuch", "crc32c")


def test_handler_plugin_missing():
    refused(["--port", "null", "--handler", "./nonesuch.so"], 1, "nonesuch.so")


def test_handler_abi():
    refused(["--port", "null", "--handler", os.environ["SPW_WRONG_ABI"]], 1, "ABI")


def test_option():
    refused(["--port", "null", "--secnods", "1"], 1, "secnods", "--seconds")


def test_option_value():
    refused(["--port", "null", "--burst", "65"], 1, "--burst", "64")


def test_slo():
    for text in ("20us", "@p99", "20us@99", "20us@p100", "20us@p99.9x", "0us@p99"):
        refused(["--port", "null", "--slo", text], 1, "p99")
    refused(["--port", "null", "--slo", "20@p99"], 1, "us, ms")
    refused(["--port", "null", "--slo", "20us@p99", "--stamps", "no"], 1, "--stamps")
    refused(["--port", "null", "--slo", "20us@p99", "--memory", "gpu"], 2, "gpu")


def test_option_unit():
    refused(["--port", "null", "--seconds", "3 parsecs"], 1, "--seconds", "parsecs")


def test_config_key():
    config("ports:\n  - spec: null\nexecutor:\n  knid: cpu\n", 1, ":4:", "knid")


def test_config_unit():
    config('ports:\n  - spec: "null"\nmemory: { slot-size: 2 KiBi }\n', 1, ":3:", "KiBi")


def test_config_type():
    config("ports:\n  - spec: null\n    queues: many\n", 1, ":3:", "queues")


def test_config_syntax():
    config("ports: [\n", 1, ":2:")


def test_config_missing():
    refused(["--config", "/nonexistent/run.yaml"], 1, "/nonexistent/run.yaml")


def test_core_not_in_eal():
    refused(["--port", "null", "--lcores", "97"], 1, "97")


def test_too_few_lcores():
    place = spwlab.Cores()
    refused(["--port", "null", "--queues", "2"], 1, "lcore", lcores=f"0@{place.main},1@{place.receive}")


def test_pool_larger_than_memory():
    refused(["--port", "null", "--slots", "16777216", "--slot-size", "64MiB"], 2, "memory")


def test_cuda_without_gpu():
    if os.path.exists("/dev/nvidiactl"):
        raise spwtest.Skip("there is a GPU here")
    refused(["--port", "null", "--executor", "cuda-persistent"], 2, "cuda")


def test_memory_without_gpu():
    if os.path.exists("/dev/nvidiactl"):
        raise spwtest.Skip("there is a GPU here")
    refused(["--port", "null", "--memory", "cuda-host"], 2, "cuda")


def test_object_memory():
    """An executor on the CPU does not reach a GPU's own memory, whether there is a GPU or not."""
    with spwlab.scratch() as folder:
        stream = os.path.join(folder, "mark.yaml")
        spwtest.write_file(folder, "mark.yaml", "format: mark\nset: { packets: 8, payload: 64 }\nbuffers: 8\n")
        refused(["--port", "null", "--objects", stream, "--object-memory", "gpu", "--executor", "inline"], 2,
                "memory kind gpu", "use host")
        refused(["--port", "null", "--objects", stream, "--object-memory", "cuda-host"], 2, "cannot be shared")


def test_capture_cut_short():
    """The record and the byte where it breaks are named."""
    with spwlab.scratch() as folder:
        path = os.path.join(folder, "cut.pcap")
        spwtest.write_pcap(path, [udp_frame(b"x" * 100)] * 3)
        os.truncate(path, os.path.getsize(path) - 50)
        refused(["--port", f"ethdev:net_pcap0,rx_pcap={path}"], 1, "cut.pcap")


def test_capture_missing():
    refused(["--port", "ethdev:net_pcap0,rx_pcap=/nonexistent/in.pcap"], 1, "/nonexistent/in.pcap")


def test_json_unwritable():
    """Found out before the run: a summary that cannot be written is no reason to measure first."""
    with Run(["--port", "null", "--frames", "1000", "--executor", "inline", "--json", "/nonexistent/x.json"],
             json_file=False) as run:
        run.finish(status=2)
        spwtest.one_line(run, "/nonexistent/x.json", "No such file or directory")
        check("memory:" not in run.output(), f"it ran first:\n{run.output()}")


def test_eal_argument():
    with Run(["--port", "null"], eal=["--no-such-eal-argument"]) as run:
        run.finish(status=1)
        spwtest.one_line(run, "EAL")


def test_eal_core_missing():
    with Run(["--port", "null"], lcores="0,1023") as run:
        run.finish(status=1)
        spwtest.one_line(run, "core 1023", "lcores")


def eal_refused(file_prefix, *words, env=None, under=()):
    """Run starts EAL without its shared configuration; here it wants a folder and a lock."""
    place = spwlab.Cores()
    cmd = [*under, spwtest.SPINWIRE, "--lcores", f"0@{place.main},1@{place.receive}", "--no-huge", "-m", "64",
           "--file-prefix", file_prefix,
           "--", "--port", "null", "--executor", "inline", "--frames", "10"]
    done = subprocess.run(cmd, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=60)
    lines = [line for line in done.stderr.splitlines() if line.startswith("spinwire: error: ")]
    check(done.returncode in (1, 2) and len(lines) == 1, f"status {done.returncode}: {done.stderr}")
    for word in words:
        check(word in lines[0], f"{word!r} is not in: {lines[0]}")


def test_eal_prefix_twice():
    prefix, place = spwlab.prefix("twice"), spwlab.Cores()
    first = subprocess.Popen([spwtest.SPINWIRE, "--lcores", f"0@{place.main},1@{place.receive}", "--no-huge", "-m",
                              "64", "--file-prefix", prefix,
                              "--", "--port", "null:rate=1k", "--executor", "inline"], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    try:
        spwlab.wait_for(lambda: spwlab.telemetry(prefix, "/spinwire/ledger"), 60, "the first program")
        eal_refused(prefix, "EAL did not start", "another program runs with the same --file-prefix")
    finally:
        first.send_signal(signal.SIGINT)
        first.wait(60)
        shutil.rmtree(spwlab.runtime_folder(prefix), ignore_errors=True)
    spwtest.equal(first.returncode, 0, "status of the first program")


def test_eal_prefix_defaults():
    """Without --file-prefix spinwire and one spinwire-gen run on one machine; a second spinwire-gen is refused."""
    place = spwlab.Cores()
    with spwlab.scratch() as folder:
        env = {**os.environ, "RUNTIME_DIRECTORY": folder}
        gen = [spwlab.program("spinwire-gen"), "--lcores", place.source(), "--no-huge", "-m", "64", "--", "--port",
               "null", "--echo", "no", "--rate", "1kpps", "--seconds", "60"]
        first = subprocess.Popen(gen, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            socket = os.path.join(folder, "dpdk", "spinwire-gen", "dpdk_telemetry.v2")
            spwlab.wait_for(lambda: os.path.exists(socket) or first.poll() is not None, 60, "the first program")
            beside = subprocess.run([spwtest.SPINWIRE, "--lcores", f"0@{place.main},1@{place.receive}", "--no-huge",
                                     "-m", "64", "--", "--port", "null", "--executor", "inline", "--frames", "10"],
                                    env=env, capture_output=True, text=True, timeout=60)
            second = subprocess.run(gen, env=env, capture_output=True, text=True, timeout=60)
        finally:
            first.send_signal(signal.SIGINT)
            first.wait(60)
        spwtest.equal(beside.returncode, 0, f"status of spinwire: {beside.stderr}")
        check("another program runs with the same --file-prefix" in second.stderr, second.stderr)


def test_runtime_folder_unusable():
    eal_refused(spwlab.prefix("runtime"), "EAL did not start", "RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR",
                env={"RUNTIME_DIRECTORY": "/nonexistent"})


def test_xdg_folder_unusable():
    """root's place is another: the test gives root up."""
    under = []
    if os.geteuid() == 0:
        spwtest.need("setpriv")
        under = ["setpriv", "--reuid", "65534", "--clear-groups"]
        if subprocess.run([*under, spwtest.SPINWIRE, "--help"], capture_output=True).returncode:
            raise spwtest.Skip("another user cannot start the program from this folder")
    eal_refused(spwlab.prefix("xdg"), "EAL did not start", "XDG_RUNTIME_DIR", under=under,
                env={"XDG_RUNTIME_DIR": "/nonexistent"})


def test_config_tab():
    config("run:\n\tburst: 3\n", 1, ":2:1:", "tab")


def test_config_folder():
    refused(["--config", "/tmp"], 1, "/tmp", "folder")


def test_memif_folder():
    refused(["--port", "ethdev:net_memif0,role=server,socket=/nonexistent/m.sock"], 1, "/nonexistent")


def test_memif_no_server():
    with spwlab.scratch() as folder:
        refused(["--port", spwtest.memif_port(os.path.join(folder, "m.sock"))], 2, "no memif server", folder)


def test_iface_missing():
    refused(["--port", "ethdev:net_af_packet0,iface=nosuch0"], 2, "nosuch0", "ip link")


def test_stdout_full():
    """A text report that did not reach stdout is no good run."""
    with open("/dev/full", "wb") as full:
        place = spwlab.Cores()
        prefix = spwlab.prefix("full")
        done = subprocess.run([spwtest.SPINWIRE, *spwlab.eal(f"0@{place.main},1@{place.receive}", prefix), "--",
                               "--port", "null", "--frames", "1000",
                               "--executor", "inline"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    spwlab.forget_prefix(prefix)
    spwtest.equal(done.returncode, 2, done.stderr)
    spwtest.check("to stdout" in done.stderr, done.stderr)


def test_sighup():
    """A lost terminal ends the run with its summary, as SIGINT does, and not where nohup has had SIGHUP ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # spinwire inherits it
    with Run(["--port", "null", "--executor", "inline"]) as run:
        run.wait_ready()
        run.signal(signal.SIGHUP)
        frames = run.frames()
        spwlab.wait_for(lambda: run.frames() > frames, 60, "frames after SIGHUP under nohup")
        run.signal(signal.SIGINT)
        spwtest.balanced(run.finish())
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with Run(["--port", "null", "--executor", "inline"]) as run:
        run.wait_ready()
        run.signal(signal.SIGHUP)
        spwtest.balanced(run.finish())


def test_capture_path_not_utf8():
    """No key of the summary is dropped for a path that is not UTF-8."""
    with spwlab.scratch() as folder:
        path = os.path.join(folder, os.fsdecode(b"a\xff.pcapng"))
        with Run(["--port", "null", "--executor", "inline", "--frames", "100", "--capture", path]) as run:
            summary = run.finish()
        spwtest.check(summary["capture"]["file"].endswith("a\ufffd.pcapng"), summary["capture"]["file"])


def test_telemetry_port_names():
    """A port is listed whatever its name: DPDK takes no '-', '.' or ':' in a key."""
    with Run(["--port", "ethdev:net_null-a.0", "--executor", "inline"]) as run:
        run.wait_ready()
        spwtest.equal(run.telemetry("/spinwire/ports")["0"]["name"], "net_null-a.0", "port name")
        run.signal(signal.SIGINT)
        spwtest.balanced(run.finish())


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
