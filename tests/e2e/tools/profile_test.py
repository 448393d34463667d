#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/profile: the probe of the machine's own jitter, a short sweep, the report in a browser, and what may go
wrong."""
import contextlib
import html.parser
import os
import re
import signal
import struct
import subprocess
import sys
import time
import zlib

import documents
import spwtest
from spwtest import Skip, check, equal, spwlab
import spwfile  # in tools/lib, which spwtest has found
import spwjoin

DOCTOR = os.environ.get("SPINWIRE_DOCTOR")
PROFILE, MAIN_JOB = (os.path.join(spwlab.TOOLS, name) for name in ("profile", "main_job"))
BROWSERS = ["chromium-headless-shell", "chromium", "google-chrome"]
SHORT = ["--ethdev", "--seconds", "0.5", "--steps", "2", "--carries", "200000"]


def rows_of(path):
    got = documents.load(path)
    equal(got["schema"], "spinwire.idle/1", "schema")
    return {(row["case"], row["metric"]): row["median"] for row in got["rows"]}


def test_rival():
    """A process that spins on the probed core is named."""
    if not DOCTOR:
        raise Skip("spinwire-doctor is not built: it needs rdma-core")
    core = spwlab.cores()[0]
    rival = spwlab.spawn(["taskset", "-c", str(core), "sh", "-c", "while :; do :; done"])
    try:
        text = subprocess.run([DOCTOR, "idle", "--cores", str(core), "--seconds", "1"], check=True,
                              capture_output=True, text=True).stdout
    finally:
        rival.kill()
        rival.wait()
    check(re.search(rf"^core {core}: sh \(PID {rival.pid}\) had \d+ %$", text, re.M), text)


def test_hiccup():
    """A probe that is stopped for 0.3 s sees a gap of at least that, once; counts never grow with the length of the
    gap."""
    if not DOCTOR:
        raise Skip("spinwire-doctor is not built: it needs rdma-core")
    core = spwlab.cores()[0]
    with spwlab.scratch() as folder:
        path = os.path.join(folder, "hiccup.json")
        probe = spwlab.spawn([DOCTOR, "idle", "--seconds", "1.5", "--cores", str(core), "--json", path])
        try:
            spwlab.wait_for(lambda: spwtest.cpu_s(probe) >= 0.2, 60, "a probe that spins")
            probe.send_signal(signal.SIGSTOP)
            time.sleep(0.3)
            probe.send_signal(signal.SIGCONT)
            equal(probe.wait(60), 0, "exit status")
        finally:
            spwlab.stop(probe)
        rows = rows_of(path)
    case = f"core {core}"
    check(rows[case, "longest gap"] >= 0.29e6, f"longest gap {rows[case, 'longest gap']} us")
    for what in ("gaps over", "waits over"):
        over = [value for (_, metric), value in rows.items() if metric.startswith(what)]
        check(len(over) > 15 and over == sorted(over, reverse=True), f"{what}: {over}")
    # In 1.5 s a frame comes in the first 0.1 s of those 0.3 s with a probability of 0.1 in 1.5, and there may be other
    # gaps.
    check(rows[case, "waits over 200000000 ns"] > 0.05e6, f"waits: {rows[case, 'waits over 200000000 ns']} ppm")
    check(rows[case, "gaps over 200000000 ns"] > 0, "the gap is not among those over 200 ms")
    check(rows[case, "taken by gaps over 1 us"] > 10, f"taken: {rows[case, 'taken by gaps over 1 us']} %")


def test_idle():
    """One line for each core; a table that did not reach stdout is no good run."""
    if not DOCTOR:
        raise Skip("spinwire-doctor is not built: it needs rdma-core")
    core = str(spwlab.cores()[0])
    command = [DOCTOR, "idle", "--seconds", "0.01"]
    done = subprocess.run([*command, "--cores", core], capture_output=True, text=True, timeout=60, check=True)
    lines = done.stdout.splitlines()
    check(len(lines) == 2 and lines[1].split()[0] == core, lines)
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    check(done.returncode == 2 and "to stdout" in done.stderr, done)


def profile(folder, args, status=0, env=None, under=()):
    """Runs tools/profile; (its output, its record or None, its report or None)."""
    cmd = [*under, sys.executable, PROFILE, "--out", folder, *args]
    done = subprocess.run(cmd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=200, check=False,
                          env={**os.environ, **(env or {})})
    equal(done.returncode, status, f"exit status of {' '.join(cmd)}\n{done.stdout}\n")
    record, page = (os.path.join(folder, name) for name in ("profile.json", "report.html"))
    return (done.stdout, documents.load(record) if status == 0 and os.path.isfile(record) else None,
            spwlab.read(page) if os.path.isfile(page) else None)


class Page(html.parser.HTMLParser):
    """Checks that elements nest, and takes the text out."""

    VOID = {"meta", "link", "br", "line", "rect", "path", "polyline", "input"}

    def __init__(self, text):
        super().__init__()
        self.open, self.words, self.drawings, self.fetched = [], [], 0, []
        self.feed(text)
        check(not self.open, f"never closed: {self.open}")

    def handle_starttag(self, tag, attrs):
        self.drawings += tag == "svg" and ("role", "img") in attrs
        self.fetched += [value for name, value in attrs if name in ("src", "href") and not value.startswith("data:")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            equal(self.open and self.open.pop(), tag, "closed")

    def handle_data(self, data):
        self.words.append(data)


def test_sweep():
    """Two steps: the numbers in the report are those of the programs; it is one file, small, and fetches nothing."""
    with spwlab.scratch() as folder:
        out, record, text = profile(folder, SHORT)
    equal([round(step["offered_fps"]) for step in record["steps"]], [100000, 200000, 230000, 260000], "loads")
    check(re.search(r"1/4 +50 % +100 k (.*\n)+.*2/4 +100 % +200 k (.*\n)+.*4/4 +130 % +260 k ", out),
          f"no progress in:\n{out}")
    check(re.search(r"^knee +\S", out, re.M) and (" between two processes" in out or " software ConnectX" in out),
          f"no knee, or no path, in:\n{out}")
    check(len(text) < 2 << 20, f"the report has {len(text)} bytes")
    page = Page(text)
    check(page.drawings >= 8 and not page.fetched, f"{page.drawings} drawings, fetches {page.fetched}")
    words = " ".join(page.words)
    for step in record["steps"]:
        equal(step["spinwire"]["ledger"]["residual"], 0, "residual")
        sent = f"{step['gen']['sent']:,}".replace(",", "\u202f")
        check(sent in words, f"the ledger of the report has no {sent}")
    for heading in ("Latency against load", "Where the time goes", "The ledger", "The machine itself", "Settings"):
        check(heading in words, f"no section {heading!r}")


def old_report(folder):
    for name in ("report.html", "profile.json"):
        spwfile.write(os.path.join(folder, name), '{"of": "an earlier run"}')


def check_old_report(folder):
    names = sorted(os.listdir(folder))
    equal(names, ["profile.json", "report.html"], "files")
    check(all(spwlab.read(os.path.join(folder, name)) == '{"of": "an earlier run"}' for name in names),
          "an earlier report was replaced")


def by_hand(out):
    """What the printed command prints when it is run."""
    command = re.search(r"by hand, in a shell here: (.+)", out)
    check(command, f"no command in\n{out}")
    done = subprocess.run(["timeout", "60", "sh", "-c", command[1]], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    return done.returncode, done.stdout + done.stderr


# What --check takes and no machine has.
POOL = ["--slots", "16777216", "--slot-size", "64MiB"]


def test_failing_step():
    """A sink that cannot start: each step reports the reason, the command by hand shows it too, the report of an
    earlier run stays."""
    with spwlab.scratch() as folder:
        old_report(folder)
        out, _, _ = profile(folder, [*SHORT, *POOL], status=2)
        check_old_report(folder)
    check(all(re.search(rf"{i}/4 .*failed: spinwire left with status 2: .*memory", out) for i in (1, 2)), out)
    check("no report: nothing was measured" in out, out)
    status, text = by_hand(out)
    check(status == 2 and "memory" in text, f"{status}: {text}")


def failing_job(folder, args=(), env=None, status=2):
    cmd = [sys.executable, MAIN_JOB, "--ethdev", "--seconds", "1", "--out",
           folder, *args]
    done = subprocess.run(cmd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=200, check=False, env={**os.environ, **(env or {})})
    equal(done.returncode, status, f"exit status\n{done.stdout}\n")
    return done.stdout


def test_main_job_fails():
    """tools/run and a spinwire that dies, or refuses: which signal, which command, and no report of a run that did not
    happen."""
    with spwlab.scratch() as bin_folder, spwlab.scratch() as folder:
        program = os.path.join(bin_folder, "spinwire")
        with open(program, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nkill -SEGV $$\n")
        os.chmod(program, 0o755)
        old_report(folder)
        out = failing_job(folder, env={"SPINWIRE": program})
        check("tools/run: spinwire was ended by SIGSEGV (Segmentation fault), and printed nothing" in out, out)
        check(f"in a shell here: {program} --lcores" in out, out)
        out = failing_job(folder, [*POOL, "--json", os.path.join(bin_folder, "summary.json")])
        check("tools/run: spinwire left with status 2: " in out and "no report" in out, out)
        status, text = by_hand(out)
        check(status == 2 and "memory" in text, f"{status}: {text}")
        check_old_report(folder)
        equal(os.listdir(bin_folder), ["spinwire"], "files")
        for option in ("--seconds", "--rate"):
            out = failing_job(folder, [option, "0"], status=1)
            check(f"tools/run: error: {option}: '0' is not allowed; allowed: " in out, out)
        out = failing_job(folder, ["--json", os.path.join(bin_folder, "none", "summary.json")])
        check(out.count("\n") == 1
              and f"tools/run: cannot write {bin_folder}/none/summary.json: No such file or directory" in out, out)


def test_full_disk():
    """No room for the report: one line with the path, status 2, and no half file is left."""
    if subprocess.run(["unshare", "-r", "-m", "true"], capture_output=True, check=False).returncode:
        raise spwtest.Skip("no mount namespaces here")
    with spwlab.scratch() as folder:
        small = f'mount -t tmpfs -o size=16k none {folder} && "$@"; status=$?; echo left: $(ls {folder}); exit $status'
        out, _, _ = profile(folder, SHORT, status=2, under=["unshare", "-r", "-m", "sh", "-c", small, "sh"])
        check(f"cannot write {folder}/report.html: No space left on device" in out, out)
        equal(out.splitlines()[-1], "left:", "files")


def test_main_job():
    """What tools/run runs: the stage table, the round trip, spinwire's summary, and a report whose path is printed; on
    a terminal of ASCII alone. DPDK's net_memif may end spinwire with SIGSEGV when the source leaves; the run is then
    repeated."""
    for _ in range(3):
        out = main_job(["--ethdev"], env={**os.environ, "PYTHONIOENCODING": "ascii"})
        if "was ended by SIGSEGV " not in out:
            break
    check("net_memif" in out and "residual              0" in out, out)
    check(out.isascii() and "\\xb5s" in out, f"characters beyond ASCII in\n{out}")


def need_softhca():
    spwtest.need_card()


def test_main_job_softhca():
    """The same on its own path: two software ConnectX and a cable."""
    need_softhca()
    out = main_job([])
    check("software ConnectX" in out and "mlx5_0" in out and "residual              0" in out, out)


def test_main_job_explains():
    """Slow round trips are joined, and --explain prints one of them from the trails: its parts sum to the whole.
    Another is refused."""
    need_softhca()
    with spwlab.scratch() as folder:
        def job(*args):
            done = subprocess.run([sys.executable, MAIN_JOB, "--out", folder,
                                   *args], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200, check=False)
            return done.returncode, done.stdout
        status, out = job("--seconds", "1", "--rate", "20000")
        equal(status, 0, out)
        if "no round trip took more than" in out:
            raise Skip("no round trip was slow here")
        line = r"^slow +\d+ of \d+ round trips took more than 100 µs; their time: \w+ \d+ %"
        check(re.search(line, out, re.M), out)
        sides = spwjoin.load(*(os.path.join(folder, "trail", f"{name}.trail")
                               for name in ("source", "spinwire", "source-nic", "spinwire-nic")))
        _, _, flow, seq, due, _, _, _, echo, *_ = sides.slow[-1]
        status, out = job("--explain", f"{flow}:{seq}")
        equal(status, 0, out)
        took = [float(line.split()[1]) for line in out.splitlines()[2:-1]]
        whole = float(out.splitlines()[-1].split()[0])
        check(echo > due and len(took) > 5 and abs(sum(took) - whole) < 0.02 * len(took),
              f"{sum(took)} is not {whole}:\n{out}")
        status, out = job("--explain", "9999:1")
        check(status == 2 and "was not slow in the last run" in out, out)


def test_main_job_objects():
    """Frames become objects, whose receipts are kept: the result, the page, and the way of one object, whose parts sum
    to the whole."""
    need_softhca()
    with spwlab.scratch() as folder:
        spwtest.write_file(folder, "mark.yaml", "format: mark\nset: { packets: 8, payload: 22 }\npolicy: newest\n")
        def job(*args):
            done = subprocess.run([sys.executable, MAIN_JOB, "--out", folder, *args], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200, check=False)
            return done.returncode, done.stdout
        status, out = job("--seconds", "1", "--rate", "2000", "--objects", os.path.join(folder, "mark.yaml"))
        equal(status, 0, out)
        check(re.search(r"^objects +mark: complete \d+.*; first frame to publication p50 ", out, re.M), out)
        command = re.search(r"--explain (mark:\d+), the slowest", out)
        check(command and not re.search("^(round trip|because)", out, re.M), out)
        ids = [line["id"] for line in documents.lines(os.path.join(folder, "receipts.jsonl"))]
        page = Page(spwlab.read(os.path.join(folder, "report.html")))
        check("Objects of mark" in page.words, "no objects on the page")
        slowest = job("--explain", "mark")
        equal(slowest, job("--explain", command[1]), "the slowest")
        lines = slowest[1].splitlines()
        at = next(i for i, line in enumerate(lines) if " published " in line)
        took = [float(line.split()[1]) for line in lines[2:at]]
        check(took and abs(sum(took) - float(lines[at].split()[0])) < 0.02 * len(took), slowest[1])
        equal(job("--explain", f"mark:{ids[-1]}")[0], 0, "one of the receipts")
        status, out = job("--explain", "mark:99999999")
        check(status == 2 and "no receipt of object mark:99999999" in out, out)


def test_main_job_device():
    """Devices by name, as real ones would be: here software ConnectX that are there from outside, such that take every
    address, and those of a DGX Spark, which do not."""
    need_softhca()
    for card, device, peer in ((["--devices", "2"], "mlx5_0", "mlx5_1"),
                               (["--as", "dgx-spark"], "rocep1s0f0", "rocep1s0f1")):
        tool = [os.path.join(os.path.dirname(PROFILE), "with-softhca"), *card, "--cable",
                f"shm:{spwlab.prefix('device')}"]
        out = main_job(["--device", device, "--peer", peer], tool)
        check(f"mlx5 port on {device}, the source on {peer}" in out and "residual              0" in out, out)
        equal("few cores: " in out, spwlab.Cores(nics=True).few(), out)


def main_job(args, wrap=(), **kwargs):
    """Its output, with every table."""
    with spwlab.scratch() as folder:
        summary = os.path.join(folder, "summary.json")
        done = subprocess.run([*wrap, sys.executable, MAIN_JOB, "--full", "--seconds", "2", "--rate", "20000", "--out",
                               folder, "--json", summary, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=180, check=False, **kwargs)
        out = done.stdout
        if "was ended by SIGSEGV " in out:
            return out
        equal(done.returncode, 0, f"exit status\n{out}\n")
        for part in ("round trip", "polled_sent", f"report: {folder}/report.html"):
            check(part in out, f"no {part!r} in\n{out}")
        got, page = documents.load(summary), Page(spwlab.read(os.path.join(folder, "report.html")))
    check(got["ledger"]["received"] > 0, "no frame came")
    check("Round trip" in page.words, "no round trip in the report")
    return out


def test_main_job_brief():
    """About ten lines: all frames, round trips, spinwire's own part, why, where the report is, and what to do next."""
    with spwlab.scratch() as folder:
        done = subprocess.run([sys.executable, MAIN_JOB, "--seconds", "1", "--rate", "5000", "--out", folder],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180, check=False)
        record = documents.load(os.path.join(folder, "profile.json"))
    out, gen = done.stdout, record["steps"][0]["gen"]
    equal(done.returncode, 0, f"{out}{done.stderr}")
    check(out.count("\n") <= 12, out)
    check(f"sent {gen['sent']} = echoed {gen['echoed']} + lost {gen['lost']};" in out and ", residual 0\n" in out, out)
    for lead in ("frames", "round trip", "spinwire", "slow", "next"):
        check(re.search(rf"^{lead} +\S", out, re.M), f"no line {lead}:\n{out}")
    equal(bool(re.search(r"^because +\S", out, re.M)), any(row["frames"] for row in gen["causes"]["by"]), out)
    check(spwlab.has_mlx5() or not DOCTOR or spwtest.SANITIZED, "built with rdma-core, and its mlx5 port is not found")
    equal("few cores: " in out, spwlab.Cores(nics=spwlab.has_mlx5()).few(), out)
    check(record["steps"][0]["threads"], "no thread was watched")


def children(pid):
    """The names of the programs that a process has started, and that run."""
    names = set()
    for number in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has ended since it was listed
            name, _, fields = spwlab.read(f"/proc/{number}/stat").rpartition(")")
            if int(fields.split()[1]) == pid:
                names.add(name.partition("(")[2])
    return names


def tool_interrupted(cmd, says):
    """Ctrl-C on a terminal and without: 130, one line with how far it was, no report; the line of progress is
    rewritten on a terminal alone."""
    status, text = spwtest.Terminal(cmd).interrupt(r"sending frames: [\d.]+ s", "frames to be sent", 120)
    equal(status, 130, text)
    check("\r\x1b[K" in text and re.search(says, text) and "report: " not in text, text)
    job = spwlab.spawn(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        spwlab.wait_for(lambda: job.poll() is not None or {"spinwire", "spinwire-gen"} <= children(job.pid), 120,
                        "the source beside the sink")
        job.send_signal(signal.SIGINT)
        out, err = job.communicate(timeout=60)
    finally:
        spwlab.stop(job)
    equal(job.returncode, 130, f"{out}{err}")
    check("\x1b" not in out + err and "interrupted after " in err.splitlines()[-1] and "report: " not in out, out + err)


def test_interrupted():
    with spwlab.scratch() as folder:
        for tool, says in (("main_job", r"tools/run: interrupted after [\d.]+ s of 100: sending frames"),
                           ("profile", r"tools/profile: interrupted after [\d.]+ s of 100: 1 of \d+: sending frames")):
            carries = ["--carries", "20000"] if tool == "profile" else ["--rate", "20000"]
            tool_interrupted([sys.executable, os.path.join(spwlab.TOOLS, tool), "--ethdev", "--seconds", "100", "--out",
                              folder, *carries], says)
            equal(os.listdir(folder), [], f"what {tool} left")


def png_colours(path):
    """Distinct pixels of an 8-bit PNG without interlacing, and its size: enough to see that something was drawn."""
    with open(path, "rb") as file:
        data = file.read()
    equal(data[:8], b"\x89PNG\r\n\x1a\n", "PNG")
    width, height, _, kind = struct.unpack_from(">IIBB", data, 16)
    at, packed = 8, b""
    while at < len(data):
        length = struct.unpack_from(">I", data, at)[0]
        packed += data[at + 8:at + 8 + length] if data[at + 4:at + 8] == b"IDAT" else b""
        at += 12 + length
    step, raw = {2: 3, 6: 4}[kind], zlib.decompress(packed)
    row = width * step + 1
    return width, height, len({raw[i:i + step] for y in range(0, height, 7)
                               for i in range(y * row + 1, (y + 1) * row, step)})


# What the browser says of a page: how wide it is, and whether each table ends within its window or scrolls within its
# own box.
MEASURE = """<script>document.title = [document.documentElement.scrollWidth, document.documentElement.clientWidth,
...[...document.querySelectorAll("table")].map(t => t.closest(".scroll, body").getBoundingClientRect().right)
].map(Math.round)</script></body>"""


def check_widths(browser, folder, width):
    """At this width nothing but a table's own box scrolls sideways."""
    page = os.path.join(folder, "measure.html")
    spwfile.write(page, spwlab.read(os.path.join(folder, "report.html")).replace("<details>",
                                                                                 "<details open>").replace("</body>",
                                                                                                           MEASURE))
    done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/browser",
                           f"--window-size={width},2000", "--dump-dom",
                           f"file://{page}"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                          check=False)
    whole, window, *boxes = map(int, re.search(r"<title>([\d,]+)</title>", done.stdout)[1].split(","))
    check(whole <= window and len(boxes) > 5 and max(boxes) <= window,
          f"window of {width}: the page is {whole} wide, {window} are seen; tables end at {boxes}")


def test_browser():
    """The report in a headless Chromium, wide and narrow: no message on its console, and it draws."""
    browser = next(filter(None, map(spwlab.find, BROWSERS)), None)
    if not browser:
        raise Skip(f"none of {', '.join(BROWSERS)} is installed (tools/deps all)")
    with spwlab.scratch() as folder:
        profile(folder, SHORT)
        for width in (390, 1400, 1920):
            check_widths(browser, folder, width)
        for width, height in ((1100, 4000), (390, 5000)):
            shot = os.path.join(folder, f"{width}.png")
            done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                                   f"--user-data-dir={folder}/browser",
                                   f"--window-size={width},{height}", f"--screenshot={shot}",
                                   f"file://{folder}/report.html"],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
            equal(done.returncode, 0, f"exit status of the browser\n{done.stderr}")
            console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
            check(not console, f"on the console: {console}")
            got = png_colours(shot)
            equal(got[:2], (width, height), "size of the screenshot")
            check(got[2] > 30, f"only {got[2]} different pixels: nothing was drawn")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
