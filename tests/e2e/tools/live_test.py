#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spinwire-top in a real terminal (tmux), and the exporter read by Prometheus' own client library."""
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import documents
import exposition
import spwtest
from spwtest import Run, Skip, balanced, check, equal, need, spwlab

TOOLS = spwlab.TOOLS
TOP, EXPORTER = os.path.join(TOOLS, "spinwire-top"), os.path.join(TOOLS, "exporter")
PORT = ["--port", "null:rate=50000", "--executor", "inline", "--handler", "echo"]


@contextlib.contextmanager
def two_spinwires():
    place = spwlab.Cores()
    with Run(PORT) as one, Run(PORT, lcores=f"0@{place.main},1@{place.generator}") as two:
        for run in (one, two):
            run.wait_ready()
        yield one, two
        for run in (one, two):
            if run.process.poll() is None:
                run.signal(signal.SIGINT)
                balanced(run.finish())


# ---- spinwire-top --------------------------------------------------------------------------------------

class Terminal:
    """A program in a tmux of its own."""

    def __init__(self, command, width, height):
        need("tmux")
        self.name = f"spinwire-{os.getpid()}"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), command)

    def tmux(self, *args):
        return subprocess.run(["tmux", "-L", self.name, *args], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=20, check=False)

    def screen(self):
        return self.tmux("capture-pane", "-p").stdout.rstrip("\n").split("\n")

    def wait(self, text, what):
        """The first screen that matches the expression."""
        try:
            return spwlab.wait_for(lambda: re.search(text, "\n".join(self.screen()), re.S) and self.screen(), 30, what)
        except TimeoutError:
            raise AssertionError(f"no {what} on the screen:\n" + "\n".join(self.screen())) from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tmux("kill-server")


def test_top():
    """80 by 24: rates and percentiles of a live run; it follows a resize, Tab shows the next, an ended one is reported,
    q quits."""
    with two_spinwires() as (one, two), Terminal(f"{sys.executable} {TOP} {one.prefix}", 80, 24) as terminal:
        screen = terminal.wait(r"received [1-9].*polled_sent +[1-9]", "rates")
        check(screen[0].startswith(one.prefix) and "echo on inline" in screen[0], f"head: {screen[0]}")
        check(len(screen) <= 24 and all(len(line) <= 80 for line in screen), "it is larger than the terminal")
        text = "\n".join(screen)
        for part in ("PORT", "POOL", "SLOW/s", "p99.99", "LCORE", "idle %", "q quit"):
            check(part in text, f"no {part!r} in\n{text}")
        terminal.tmux("resize-window", "-x", "50", "-y", "9")
        screen = terminal.wait(r"q quit$", "foot after the resize")
        check(len(screen) == 9 and all(len(line) <= 50 for line in screen), f"after the resize: {screen}")
        terminal.tmux("resize-window", "-x", "100", "-y", "30")
        one.signal(signal.SIGINT)
        balanced(one.finish())
        terminal.wait("has ended", "word of the end")
        for _ in range(20):  # others may run spinwires on this machine
            terminal.tmux("send-keys", "Tab")
            time.sleep(0.5)
            if terminal.screen()[0].startswith(two.prefix):
                break
        terminal.wait(rf"^{two.prefix} .*received [1-9]", "the other one")
        terminal.tmux("send-keys", "q")
        spwlab.wait_for(lambda: terminal.tmux("list-sessions").returncode != 0, 20, "the end of spinwire-top")


def test_top_text():
    """One view as text, of one instance or of all; nobody there and no terminal are errors in one line."""
    with Run(PORT) as run, Run(PORT) as two:
        run.wait_ready()
        two.wait_ready()
        done = subprocess.run([sys.executable, TOP, "--once"], capture_output=True, text=True, timeout=60, check=False)
        check(all(f"{r.prefix}  pid" in done.stdout for r in (run, two)), f"not both in\n{done.stdout}{done.stderr}")
        two.signal(signal.SIGINT)
        balanced(two.finish())
        done = subprocess.run([sys.executable, TOP, "--once", run.prefix], capture_output=True, text=True, timeout=60,
                              check=False)
        equal(done.returncode, 0, done.stderr)
        check(re.search(r"received [1-9]", done.stdout), f"no rate in\n{done.stdout}")
        for encoding in ("ascii", "gbk", "euc_jp"):
            done = subprocess.run(["sh", "-c", '"$@" | head -n 1', "sh", sys.executable, TOP, "--once"],
                                  capture_output=True, timeout=60, check=False,
                                  env={**os.environ, "PYTHONIOENCODING": encoding})
            check(f"{run.prefix}  pid".encode() in done.stdout and not done.stderr,
                  f"{encoding}, to a reader that leaves: {done}")
        for args, says in (([run.prefix], "no terminal"),
                           (["--once", "no-such-prefix"], "cannot find a spinwire with --file-prefix no-such-prefix")):
            done = subprocess.run([sys.executable, TOP, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, timeout=60, check=False)
            equal((done.returncode, len(done.stderr.splitlines())), (1, 1), done.stderr)
            check(says in done.stderr, done.stderr)
        run.signal(signal.SIGINT)
        balanced(run.finish())


def test_top_objects():
    """A stream's line, where a port has objects: a recording without end, of which every third object lacks a frame and
    that nobody reads."""
    frames = [spwtest.udp_frame(bytes([n]) + bytes(8)) for n in range(256) if n % 12 != 9]
    with spwlab.scratch() as folder:
        spwtest.write_pcap(os.path.join(folder, "in.pcap"), frames)
        spwtest.write_file(folder, "adc.yaml", "name: adc\nunder: udp\nport: 9\nheader:\n  - [counter 8]\n"
                           "number: counter\nper: 4\nbytes: 8\nplace: part * 8\nwire: uint8\nshape: [4, 8]\n"
                           "policy: newest\nbuffers: 64\n")
        port = f"ethdev:net_pcap0,rx_pcap={folder}/in.pcap,infinite_rx=1"
        with Run(["--port", port, "--objects", f"{folder}/adc.yaml", "--executor", "inline"]) as run:
            run.wait_ready()
            done = subprocess.run([sys.executable, TOP, "--once", "--json", f"{folder}/top.json", run.prefix],
                                  capture_output=True, text=True, timeout=60, check=False)
            run.end()
            balanced(run.finish())
        one, = documents.load(f"{folder}/top.json")["instances"]
    check(re.search(r"^STREAM .*\nadc +[1-9]\S* +[1-9]\S* +\S+  (newer|taken_back) [1-9]", done.stdout, re.M),
          f"no stream in\n{done.stdout}{done.stderr}")
    check(one["objects"]["adc"]["states_partial"] > 0 and one["per_second"]["objects"]["adc"]["states_partial"] > 0,
          f"{one['objects']}")


# ---- the exporter --------------------------------------------------------------------------------------

@contextlib.contextmanager
def exporter():
    """Yields the URL."""
    with spwlab.scratch() as folder:
        log = os.path.join(folder, "log")
        with open(log, "wb") as out:
            process = spwlab.spawn([sys.executable, EXPORTER, "--listen", "127.0.0.1:0"], stdout=out, stderr=out)
        try:
            yield spwlab.wait_for(lambda: re.search(r"http://127\.0\.0\.1:\d+/metrics", spwlab.read(log)), 30,
                                  "the exporter").group(0)
        finally:
            equal(spwlab.stop(process), 0, "exit status of the exporter")


def scrape(url):
    """{(name, labels): value} as the client library reads it, and the text."""
    with urllib.request.urlopen(url, timeout=20) as answer:
        check(answer.headers["Content-Type"].startswith("text/plain; version=0.0.4"), answer.headers["Content-Type"])
        text = answer.read().decode()
    exposition.judge(text)
    return exposition.samples(text), text


def of_process(samples, prefix):
    return {(name, labels): value for (name, labels), value in samples.items() if ("process", prefix) in labels}


def test_exporter():
    """Two spinwires by label; counters only grow; buckets are cumulative and end at the count; what is left agrees with
    the summary."""
    if not exposition.has_client():
        raise Skip("python3-prometheus-client is not installed (tools/deps test)")
    with two_spinwires() as (one, two), exporter() as url:
        histogram = re.compile(rf'stage_duration_seconds_count{{process="{one.prefix}",stage="polled_sent"}} [1-9]')
        spwlab.wait_for(lambda: histogram.search(scrape(url)[1]), 30, "a histogram")
        first, text = scrape(url)
        spwlab.wait_for(lambda: one.frames() > 0, 30, "frames")
        second = of_process(scrape(url)[0], one.prefix)
        check(of_process(first, two.prefix), "the other process is not there")
        for key, value in of_process(first, one.prefix).items():
            if key[0].endswith(("_total", "_bucket", "_count", "_sum")):
                check(second[key] >= value, f"{key} fell from {value} to {second[key]}")
        stage = {dict(labels).get("le"): value for (name, labels), value in second.items()
                 if name == "spinwire_stage_duration_seconds_bucket" and ("stage", "polled_sent") in labels}
        limits = sorted(stage, key=float)
        check(len(limits) > 20 and limits[-1] == "+Inf", f"limits {limits}")
        check([stage[le] for le in limits] == sorted(stage.values()), f"buckets {stage}")
        check(any(name == "spinwire_slow_frames_total" and ("cause", "poll_gap") in labels for name, labels in second),
              "no causes")
        with urllib.request.urlopen(url.replace("/metrics", "/"), timeout=20) as answer:
            page = answer.read().decode()
        check(f"spinwire-exporter {version()}" in page and 'href="/metrics"' in page, page)
        try:
            urllib.request.urlopen(url.replace("/metrics", "/other"), timeout=20)
            check(False, "another path was answered")
        except urllib.error.HTTPError as error:
            equal(error.code, 404, "another path")
        one.signal(signal.SIGINT)
        summary = one.finish()
        received = next(value for (name, labels), value in second.items() if name == "spinwire_frames_total"
                        and ("edge", "received") in labels)
        check(0 < received <= summary["ledger"]["received"], f"received {received}")
        spwlab.wait_for(lambda: not of_process(scrape(url)[0], one.prefix), 30, "the series to go")


def version():
    return subprocess.run([sys.executable, EXPORTER, "--version"], capture_output=True, text=True,
                          check=True).stdout.split()[1]


def test_dashboard():
    """Each metric that the dashboard names is one of a real run, unless the manual page says when it is absent; the
    page lists all that a real run has, and the dashboard shows them."""
    board = documents.foreign(spwlab.read(os.path.join(spwlab.TOOLS, "..", "share", "grafana", "spinwire.json")))
    texts = [t["expr"] for panel in board["panels"] for t in panel["targets"]]
    texts += [variable["query"]["query"] for variable in board["templating"]["list"] if variable["type"] == "query"]
    shown = {re.sub("_(bucket|count|sum)$", "", name) for text in texts for name in re.findall(r"spinwire_\w+", text)}
    page = subprocess.run([sys.executable, EXPORTER, "--help-man"], capture_output=True, text=True, check=True).stdout
    listed = dict(re.findall(r"^\\fB(spinwire_\w+)\\fR\n(.*)$", page, re.M))
    with Run(PORT) as run, exporter() as url:
        run.wait_ready()
        spwlab.wait_for(lambda: "spinwire_stage_duration_seconds_count{" in scrape(url)[1], 30, "a histogram")
        exported = set(re.findall(r"^# TYPE (\w+)", scrape(url)[1], re.M))
        run.signal(signal.SIGINT)
        balanced(run.finish())
    check(len(exported) > 15 and exported <= set(listed), f"not in the manual page: {exported - set(listed)}")
    missing = {name for name in shown - exported if "absent where" not in listed.get(name, "")}
    check(not missing, f"the dashboard names what is not exported: {missing}")
    unseen = set(listed) - shown - {"spinwire_running_seconds", "spinwire_lcore_frames_total"}
    check(not unseen, f"the dashboard does not show {unseen}")
    ids = [panel["id"] for panel in board["panels"]]
    equal(len(ids), len(set(ids)), "panels of different ids")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
