#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every command that README and docs show in a fenced block works: it is run here, or a rule states why it is not.

A command is a line of an `sh` block, or of an unmarked block whose first line begins with a known tool. RULES decides
by the first pattern that matches: a function runs the command, a string is the reason why it is not run. A command that
no rule knows fails. A `text` block in the same section, after a command that was run, shows what it prints: each shown
line must have a line of the same shape (numbers aside) in the output. Lines that only some machines print are named if
they are absent. """
import glob
import os
import re
import shlex
import subprocess
import time

import documents
import spwtest
from spwtest import Skip, check, equal, spwlab

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
TOOLS = ("spinwire", "spinwire-gen", "spinwire-bench", "tools/", "meson", "ninja", "ib_", "ibv_")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)
LIMIT_S = 300
CARDS = ((), ("--as", "dgx-spark"), ("--as", "cx5"))
SINK_MAC = "02:53:57:dd:00:01"


class Block:
    """One fenced block: where it stands, and its commands or the output that it shows."""

    def __init__(self, path, text, match):
        self.where = f"{path}:{text.count(chr(10), 0, match.start()) + 1}"
        self.section = text.count("\n#", 0, match.start())
        self.kind, self.text = match.groups()
        self.commands = []
        if self.kind == "sh" or (not self.kind and self.text.startswith(TOOLS)):
            joined = self.text.replace("\\\n", " ")
            self.commands = [line.split("  #")[0].strip() for line in joined.splitlines() if line.strip()
                             and line[0] != "#"]


def blocks():
    paths = ["README.md", "CONTRIBUTING.md",
             *sorted(os.path.relpath(p, ROOT) for p in glob.glob(os.path.join(ROOT, "docs", "*.md")))]
    for path in paths:
        text = spwlab.read(os.path.join(ROOT, path))
        for match in FENCE.finditer(text):
            yield Block(path, text, match)


def output_of(cmd, folder, status=0):
    env = {**os.environ, "PATH": f"{ROOT}/tools:{os.environ['PATH']}"}
    done = subprocess.run(cmd, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True,
                          timeout=LIMIT_S, check=False)
    equal(done.returncode, status, f"exit status of {' '.join(cmd)} (in {folder})\n{done.stdout[-4000:]}\n")
    return done.stdout


def run_plain(command, folder):
    return output_of(shlex.split(command), folder)


def run_example(command, folder):
    """With the files of this build, and Debian's python3, whose NumPy it needs."""
    if subprocess.run(["/usr/bin/python3", "-c", "import numpy"], capture_output=True, check=False).returncode:
        raise Skip("python3-numpy is not installed (tools/deps test)")
    command = re.sub(r"(SPINWIRE|SPW_TENSOR_LIB)=\S+", r'\1="$\1"', command)
    return output_of(["sh", "-c", command.replace("python3", "/usr/bin/python3")], folder)


def run_main_job(command, folder):
    tool, *own = shlex.split(command)
    return output_of([os.path.join(ROOT, tool), *own, "--seconds", "2", "--out", folder], folder)


def run_profile(_command, folder):
    return output_of([os.path.join(ROOT, "tools", "profile"), "--seconds", "0.5", "--steps", "2", "--carries", "20000",
                      "--out", folder], folder)


def run_draw(_command, folder):
    """Of a report that is made here, into a picture beside it."""
    if not any(map(spwlab.find, ("chromium-headless-shell", "chromium", "google-chrome"))):
        raise Skip("no headless Chromium is installed (tools/deps all)")
    run_main_job("tools/run", folder)
    return output_of([os.path.join(ROOT, "tools", "draw"), "--report", os.path.join(folder, "report.html"),
                      os.path.join(folder, "report.png")], folder)


def need_softhca():
    spwtest.need_card()


def as_shown(command, folder):
    """Words of a command of spinwire or spinwire-gen: as shown, but for this machine's cores, a file prefix, two
    seconds, and files in folder."""
    words = shlex.split(command.replace("FILE", os.path.join(folder, "file")).replace("MAC", SINK_MAC))
    at = words.index("--")
    eal, own = [word for word in words[1:at] if word != "..."], words[at + 1:]
    for name in ("-l", "--lcores"):
        if name in eal:
            del eal[eal.index(name):eal.index(name) + 2]
    allowed = spwlab.cores()
    lcores = ",".join(f"{i}@{allowed[i % len(allowed)]}" for i in range(3 if "0-2" in words[:at] else 2))
    for key in ("--json", "--hdr"):
        if key in own:
            own[own.index(key) + 1] = os.path.join(folder, own[own.index(key) + 1])
    return [spwlab.program(words[0]), "--lcores", lcores, *eal, "--file-prefix", spwlab.prefix(f"doc-{words[0]}"), "--",
            *own, "--seconds", "2"]


def on_card(card, macs=None):
    """In front of a command with mlx5_0 and mlx5_1. Functions of a card with names of its own get these."""
    names = ("--name", "mlx5_0,mlx5_1,mlx5_2,mlx5_3") if "dgx-spark" in card else ("--devices", "2")
    own = ("--mac", ",".join(macs[:4 if "dgx-spark" in card else 2])) if macs else ()
    return [os.path.join(ROOT, "tools", "with-softhca"), *card, *names, *own, "--cable", f"shm:{spwlab.prefix('doc')}"]


def run_program(command, folder):
    """spinwire or spinwire-gen; on each card, if it uses one."""
    words = as_shown(command, folder)
    if "mlx5:" not in command:
        return output_of(words, folder)
    need_softhca()
    return "".join(output_of([*on_card(card), *words], folder) for card in CARDS)


def run_softhca(command, folder):
    need_softhca()
    tool, *rest = shlex.split(command)
    if not spwlab.find(rest[-1]):
        raise Skip(f"{rest[-1]} is not installed")
    return "".join(output_of([os.path.join(ROOT, tool), *card, "--cable", f"shm:{spwlab.prefix('doc')}", *rest], folder)
                   for card in CARDS)


def run_pair(command, folder):
    """`SERVER & CLIENT`: two programs on one cable, of each card."""
    need_softhca()
    return "".join(run_pair_on(card, command) for card in CARDS)


def run_pair_on(card, command):
    cable = [*card, "--cable", f"shm:{spwlab.prefix('doc')}"]
    server, client = (shlex.split(half) for half in command.split("&"))
    if not spwlab.find(server[1]):
        raise Skip(f"{server[1]} is not installed")
    process = spwlab.spawn([os.path.join(ROOT, server[0]), *cable, *server[1:]], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
    try:
        for _ in range(20):
            done = subprocess.run([os.path.join(ROOT, client[0]), *cable, *client[1:]], capture_output=True, text=True,
                                  timeout=LIMIT_S, check=False)
            if done.returncode == 0 or "connect" not in done.stdout + done.stderr:
                break
            time.sleep(0.5)  # the server does not listen yet
        equal(done.returncode, 0, f"exit status of {command}\n{done.stdout}{done.stderr}")
    finally:
        spwlab.stop(process)
    return done.stdout


def run_perf(command, folder):
    need_softhca()
    return output_of([spwlab.program("spinwire-perf"), *shlex.split(command)[1:], "--time", "40ms"], folder)


# (pattern of the whole command, what runs it or the reason why it is not run)
RULES = [
    (r"tools/run( --ethdev| --full)?|tools/with-softhca .* tools/run .*", run_main_job),
    (r"tools/profile", run_profile),
    (r"tools/test( --all)?", "it is what runs this test"),
    (r"tools/with-softhca [^&]*ibv_devinfo", run_softhca),
    (r"tools/with-softhca [^&]+& +tools/with-softhca [^&]+", run_pair),
    (r"tools/(run|profile) .*--device .*", "needs an RDMA device"),
    (r"tools/profile .*", run_profile),
    (r"tools/draw --report .*", run_draw),
    (r"spinwire .*--port mlx5:\S+mode=rc,listen=10\..*", "needs that address and a peer; mlx5_rc_* run it with theirs"),
    (r"spinwire .*--port ethdev:[0-9a-f]{4}:.*", "needs a PCI device that DPDK can take"),
    (r"spinwire .*--config config/memif-sink\.yaml.*",
     "needs a process that owns the socket; e2e_pcap_config_file and e2e_memif_* have one"),
    (r"spinwire-gen .*role=client.*", "needs a process that owns the socket; e2e_gen_* have one"),
    (r"SPINWIRE=.* python3 examples/tensor/.*", run_example),
    (r"spinwire \.\.\. -- --port fault:.*", run_program),
    (r"spinwire .*--port mlx5:\S+mode=eth.*", run_program),
    (r"spinwire-gen .*--port mlx5:.*", run_program),
    (r"spinwire(-gen|-bench)? --help", run_plain),
    (r"spinwire-perf( --full)?", run_perf),
    (r"spinwire-perf --ssh .*", "needs another machine; e2e_perf_ssh has a namespace with sshd"),
    (r"git clone .*|tools/deps .*meson setup .*|sudo .*|ssh .*", "changes the machine, or needs another one"),
    (r"(mkdir .* && )?spinwire-doctor plan --peer .*", "needs a peer; e2e_doctor_plan_* have recorded ones"),
    (r"spinwire-doctor.*",
     "finds what this machine lacks, which the exit status says; e2e_doctor_* run it on recorded ones"),
    (r"setpriv .*|systemd-run .*", "needs a user; e2e_rights_* start spinwire so"),
    (r"cd .* && dpkg-buildpackage .*|buildah .*", "needs a build root; tests/packages makes packages and image"),
    (r"from=.*|kubectl .*", "needs a cluster; tests/kubernetes checks what is applied"),
    (r"export .*|unset .*|torchrun .*", "sets, or needs, another program's; ncclnet_* load the plugin so"),
]
# What begins a command, and no line of what a program prints.
COMMAND = re.compile(r"""^\s*\$?\s*(sudo|apt|apt-get|kubectl|buildah|podman|docker|setpriv|systemd-run|systemctl
    |export|cd|pip|torchrun|mpirun|meson|ninja|git|python3|tools/\w+|unshare|modprobe|sysctl)\ """, re.M | re.X)


def rule_for(command):
    return next((how for pattern, how in RULES if re.fullmatch(pattern, command)), None)


def shape(line):
    """A line with its numbers and the width of its gaps taken out. A percentile may read `lost` or `-`: frames were
    missing or few. The threads that were away come in any order, the longest first."""
    if line.startswith("away from its work"):
        head, colon, threads = line.partition(": ")
        line = head + colon + ", ".join(sorted(re.sub(r" (ns|µs|ms|s)(?=,|$)", "", threads).split(", ")))
    if re.match(r"(round trip|spinwire) +p50 ", line):
        line = re.sub(r"(?<=\d) (ns|µs|ms|s)(?=,|:)", "", line)
    return re.sub(r"\s+", " ", re.sub(r"(?<= )(lost|-)(?=[ ,:]|$)|[-+]?\d[\d.]*(,\d+)*", "#", line.strip()))


# Causes, places, gaps and worst frames that this run may not have had; how many cores there are, and what was chosen
# for them.
OF_MACHINE = re.compile(r"""\s+[a-z_]+\ +\d+(\ frames)?,\ worst\ | \s+(loop|core\ alone)\ +[\d.]+\ a\ second
    | \s+\d+\ +[\d.]+\ | \s+worst\ \[
    | \s+(sender|beyond)_\w+\ +[\d.]+\ +[\d.]+\ | \d+\ cores:\ | few\ cores:
    | \s+[a-z_]+\ [\d.]+\ %,\ | \s+\S.*\ [\d.]+\ %\ \ [a-z_]+\ [\d.]+\ % | \s+fell\ behind
    | (slow|because|machine|next)\ +\S
    | (spinwire:\ )?executor\ | held\ up\ | \s+lcore\ \d+,\ in\ """,
                        re.X)


def check_shape(block, output):
    got = {shape(line) for line in output.splitlines()}
    for line in filter(str.strip, block.text.splitlines()):
        want = shape(line.partition("...")[0])
        found = any(one.startswith(want) for one in got) if "..." in line else want in got
        check(found or OF_MACHINE.match(line), f"{block.where}: shows {line!r}, but the program printed:\n{output}")
        if not found:
            print(f"{block.where}: not printed on this machine: {line.strip()}")


def test_known():
    """Every command has a rule."""
    found = [(block.where, command) for block in blocks() for command in block.commands]
    check(len(found) > 8, f"only {len(found)} commands were found")
    unknown = [f"{where}: {command}" for where, command in found if rule_for(command) is None]
    check(not unknown, "no rule (RULES in this file) for:\n" + "\n".join(unknown))


def test_no_command_hides():
    """A command in a block of another kind would be run by nobody."""
    hidden = [f"{block.where}: {match.group().strip()}" for block in blocks() if not block.commands
              for match in COMMAND.finditer(block.text)]
    check(not hidden, "commands belong into an sh block:\n" + "\n".join(hidden))


def test_source_and_sink():
    """README's echo and its source are two ends of one cable, on each card: what the one sends, the other receives and
    returns."""
    need_softhca()
    shown = [command for block in blocks() if block.where.startswith("README") for command in block.commands]
    sink, source = (next(command for command in shown if re.fullmatch(pattern, command))
                    for pattern in (r"spinwire .*mode=eth.*--handler echo", r"spinwire-gen .*--port mlx5:.*"))
    macs = [SINK_MAC[:-1] + str(i) for i in range(1, 5)]
    for card in CARDS:
        with spwlab.scratch() as folder:
            gen_json = os.path.join(folder, "gen.json")
            with open(os.path.join(folder, "sink.out"), "wb") as out:
                process = spwlab.spawn([*on_card(card, macs), *as_shown(sink, folder), "--seconds", "100"], stdout=out,
                                       stderr=out)
            try:
                spwlab.wait_for(lambda: process.poll() is not None
                                or spwlab.telemetry(spwlab.prefix("doc-spinwire"), "/spinwire/ledger"), 60, "spinwire")
                printed = output_of([*on_card(card), *as_shown(source, folder), "--rate", "5kpps", "--linger", "3s",
                                     "--json", gen_json], folder)
            finally:
                spwlab.stop(process)
            gen = documents.load(gen_json)
            check(gen["echoed"] > gen["sent"] * 0.9,
                  f"{card}: {gen['echoed']} echoes of {gen['sent']}\n{printed}\n{spwlab.read(out.name)}")


def test_run():
    """Those that can be run are; the output shown after them has the shape of what they print."""
    skipped, printed, last = [], "", None
    for block in blocks():
        if block.commands:
            printed, last = "", (block.where.split(":")[0], block.section)
        elif block.kind == "text" and printed and last == (block.where.split(":")[0], block.section):
            check_shape(block, printed)
        for command in block.commands:
            how = rule_for(command)
            if not callable(how):
                continue
            try:
                with spwlab.scratch() as folder:
                    printed += how(command, folder)
            except Skip as why:
                skipped.append(f"{command}: {why}")
    if skipped:
        raise Skip("; ".join(skipped))


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
