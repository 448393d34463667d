#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What `meson install` puts elsewhere works from there: the tools with their modules, with-softhca with its library,
the licence, the examples."""
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request

import documents
import spwtest
from spwtest import SANITIZED, Run, Skip, balanced, check, equal, spwlab
import spwtel

BUILD = os.environ["SPW_BUILD"]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")


def installed(folder):
    """Installs into folder; its bindir."""
    done = subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", folder],
                          capture_output=True, text=True,
                          timeout=120, check=False)
    equal(done.returncode, 0, done.stdout + done.stderr)
    found = [top for top, _, names in os.walk(folder) if "spinwire-top" in names and os.path.basename(top) == "bin"]
    equal(len(found), 1, f"folders with spinwire-top in {found}")
    return found[0]


def run_bare(*command):
    """Neither this tree nor its environment helps."""
    env = {key: os.environ[key] for key in ("PATH", "XDG_RUNTIME_DIR") if key in os.environ}
    return subprocess.run(command, cwd="/", env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60, check=False)


def exporter_shows(program, prefix):
    with spwlab.scratch() as folder:
        log = os.path.join(folder, "log")
        with open(log, "wb") as out:
            process = spwlab.spawn([program, "--listen", "127.0.0.1:0"], cwd="/", stdout=out, stderr=out)
        try:
            url = spwlab.wait_for(lambda: re.search(r"http://127\.0\.0\.1:\d+/metrics", spwlab.read(log)), 30,
                                  "the exporter").group(0)
            with urllib.request.urlopen(url, timeout=20) as answer:
                check(f'spinwire_info{{process="{prefix}"' in answer.read().decode(), "the exporter does not show it")
            taken = run_bare(program, "--listen", url.split("/")[2])
            equal((taken.returncode, taken.stderr.count("\n")), (1, 1), taken.stderr)
            why = r"spinwire-exporter: cannot listen on 127\.0\.0\.1 port \d+: Address already in use; --listen"
            check(re.search(why, taken.stderr), taken.stderr)
            other = run_bare(program, "--listen", "192.0.2.1:9711")
            check(other.returncode == 1
                  and "cannot listen on 192.0.2.1 port 9711: Cannot assign requested address" in other.stderr,
                  other.stderr)
        finally:
            equal(spwlab.stop(process), 0, "exit status of the exporter")


def test_live_tools():
    with spwlab.scratch() as folder:
        programs = installed(folder)
        with Run(["--port", "null:rate=50000", "--executor", "inline"]) as run:
            run.wait_ready()
            done = run_bare(os.path.join(programs, "spinwire-top"), "--once", run.prefix)
            equal(done.returncode, 0, done.stderr)
            check(run.prefix in done.stdout, done.stdout)
            exporter_shows(os.path.join(programs, "spinwire-exporter"), run.prefix)
            run.signal(signal.SIGINT)
            balanced(run.finish())


def test_schema():
    """An installed schema needs no other file, and spinwire.results reads what it describes."""
    with spwlab.scratch() as folder:
        share = os.path.join(os.path.dirname(installed(folder)), "share", "spinwire")
        names = os.listdir(os.path.join(share, "schema"))
        check("summary.json" in names and "common.json" not in names, str(names))
        schema = documents.foreign(spwlab.read(os.path.join(share, "schema", "summary.json")))
        with Run(["--port", "null:rate=50000", "--executor", "inline", "--frames", "1000"]) as run:
            summary = run.finish(seconds=30)
            balanced(summary)
            done = subprocess.run([sys.executable, "-c", "import sys; from spinwire import results; "
                                   "print(results.summary(sys.argv[1])['ledger']['received'])", run.json_path],
                                  cwd="/", env={"PYTHONPATH": os.path.join(share, "lib")}, capture_output=True,
                                  text=True, timeout=60, check=False)
        equal(done.stdout, f"{summary['ledger']['received']}\n", f"what it reads\n{done.stderr}")
        judge = documents.jsonschema.Draft202012Validator(schema)
        equal([error.message for error in judge.iter_errors(summary)], [], "faults")
        check(list(judge.iter_errors({**summary, "more": 1})), "a key that it does not know")


def test_main_job():
    """spinwire-run is tools/run without the tree: it finds the programs beside it, and the software ConnectX."""
    if SANITIZED:
        raise Skip("the main job is not for sanitized programs")
    with spwlab.scratch() as folder:
        programs, out = installed(os.path.join(folder, "root")), os.path.join(folder, "out")
        done = run_bare(os.path.join(programs, "spinwire-run"), "--full", "--seconds", "1", "--rate", "5000", "--out",
                        out)
        equal(done.returncode, 0, f"{done.stdout}{done.stderr}")
        first = "with-softhca" if spwlab.has_mlx5() else os.path.join(programs, "spinwire")
        check(f"+ {first}" in re.sub(r"\+ .*?/with-softhca", "+ with-softhca", done.stdout), done.stdout)
        check(re.search(r"^ +residual +0$", done.stdout, re.M) and os.path.exists(os.path.join(out, "report.html")),
              done.stdout)
        bad = run_bare(os.path.join(programs, "spinwire-run"), "--out", "/proc/none")
        check(bad.returncode == 2 and bad.stderr.startswith("spinwire-run: "), bad)


PROGRAMS = ["spinwire", "spinwire-gen", "spinwire-doctor", "with-softhca", "spinwire-run",
            "spinwire-profile", "spinwire-top",
            "spinwire-exporter"] + ["spinwire-perf"] * bool(os.environ.get("SPINWIRE_PERF"))


def completed(script, name, word):
    """What bash offers for a word behind the program's name."""
    text = '. "$1"; COMP_WORDS=("$2" "$3"); COMP_CWORD=1; "_${2//-/_}"; echo "${COMPREPLY[@]}"'
    return subprocess.run(["bash", "-c", text, "bash", script, name, word], capture_output=True, text=True,
                          check=False).stdout.split()


def test_help_and_man():
    """--help of every program fits a screen of 24 lines and 80 columns and leads to its man page; the page, with
    examples, and completion are installed."""
    with spwlab.scratch() as folder:
        programs = installed(folder)
        share = os.path.join(programs, "..", "share")
        for name in PROGRAMS:
            done = run_bare(os.path.join(programs, name), "--help")
            equal(done.returncode, 0, f"{name} --help\n{done.stderr}")
            lines = done.stdout.splitlines()
            check(len(lines) <= 24 and max(map(len, lines)) <= 80,
                  f"{name} --help: {len(lines)} lines, {max(map(len, lines))} columns")
            check(re.search(rf"\bman\s+{name}\b", done.stdout), f"{name} --help names no man page")
            equal(run_bare(os.path.join(programs, name), "--version").stdout.split()[0], name, "--version")
            if SANITIZED:
                continue  # programs of the build make them
            page = spwlab.read(os.path.join(share, "man", "man1", f"{name}.1"))
            check(f".TH {name.upper()} " in page, f"{name}.1: {page[:300]}")
            for heading in ("EXAMPLES", "SEE ALSO"):
                check(f".SH {heading}" in page, f"{name}.1 lacks {heading}")
            check("--version" in completed(os.path.join(share, "bash-completion", "completions", f"{name}.bash"), name,
                                           "--vers"), f"{name}.bash")
            check(spwlab.read(os.path.join(share, "zsh", "site-functions",
                                           f"_{name}")).startswith(f"#compdef {name}\n"), f"_{name}")


def examples(page):
    """The commands under EXAMPLES, as a reader of the page sees them."""
    section = re.search(r"^\.SH EXAMPLES\n(.*?)^\.SH ", page, re.M | re.S).group(1)
    return [text.replace("\\-", "-").replace("\\e", "\\")
            for text in re.findall(r"^\.TP\n\\fB(.*)\\fR", section, re.M)]


def test_examples():
    """Those on the null port run, and need nothing more. Every other command of ours is taken, up to a --help behind
    it, so its options and their values are right."""
    if SANITIZED:
        raise Skip("programs of the build make the pages")
    with spwlab.scratch() as folder:
        programs = installed(folder)
        man, ran, taken = os.path.join(programs, "..", "share", "man"), 0, 0
        for top, _, names in os.walk(man):
            for name in names:
                for command in examples(spwlab.read(os.path.join(top, name))):
                    program, *words = shlex.split(command)
                    if not os.path.exists(os.path.join(programs, program)) or program == "with-softhca":
                        continue  # systemctl; a wrapper, whose words are another program's (test_with_softhca)
                    runs = any("null:" in word for word in words)
                    more = ["--seconds", "1"] if runs else ["--help"]
                    done = run_bare(os.path.join(programs, program), *words, *more)
                    equal(done.returncode, 0, f"{name}: {command}\n{done.stderr}")
                    check(runs or re.match("usage:", done.stdout, re.I), f"{name}: {command}\n{done.stdout}")
                    ran, taken = ran + runs, taken + (not runs)
        check(ran > 1 and taken > 12, f"{ran} examples ran, {taken} were taken")


def page_read(folder, section, name):
    """The page as man prints it, without a warning."""
    page = os.path.join(installed(folder), "..", "share", "man", f"man{section}", f"{name}.{section}")
    done = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8"}, check=False)
    equal((done.returncode, done.stderr), (0, ""), f"man -l {name}.{section}")
    for line in spwlab.read(page).splitlines():
        equal(line.count("("), line.count(")"), f"brackets of: {line}\n")
    return done.stdout


def test_ports_page():
    """spinwire-ports(7) and spinwire-objects(5) are installed, and man reads them without a warning."""
    if SANITIZED:
        raise Skip("programs of the build make the pages")
    spwtest.need("man")
    with spwlab.scratch() as folder:
        for section, name, words in ((7, "spinwire-ports", ("DRIVER null", "DRIVER rails", "rails_window=N", "mode=rc",
                                                            "FRAMES/S", "EXAMPLES", "SEE ALSO")),
                                     (5, "spinwire-objects", ("KEYS: segments", "deadline", "gvsp_extended"))):
            page = page_read(folder, section, name)
            for word in words:
                check(word in page, f"no {word} in\n{page}")
        streams = os.path.join(installed(folder), "..", "share", "spinwire", "streams")
        check("counter.yaml" in os.listdir(streams), "no formats of streams")


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def test_units():
    """The units are installed, name the installed programs, and systemd takes them; what a service says about its
    configuration is a configuration that spinwire runs."""
    with spwlab.scratch() as folder:
        programs = os.path.realpath(installed(folder))
        units = os.path.join(programs, "..", "lib", "systemd", "system")
        for unit, program in (("spinwire@.service", "spinwire"), ("spinwire-exporter.service", "spinwire-exporter")):
            path = os.path.join(units, unit)
            command = re.search(r"^ExecStart=(\S+)", spwlab.read(path), re.M).group(1)
            check(os.path.join(programs, program).endswith(command), f"{unit} starts {command}")
            check(os.access(os.path.join(programs, program), os.X_OK), f"{program} is not installed")
            spwtest.need("systemd-analyze")
            named = os.path.join(folder, unit.replace("@", "@test"))
            write(named, spwlab.read(path).replace(command, os.path.join(programs, program)))
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", named], capture_output=True, text=True,
                                  timeout=60, check=False)
            equal((done.returncode, done.stdout + done.stderr), (0, ""), unit)
            broken = os.path.join(folder, "broken.service")
            write(broken, "[Service]\nExecStart=/nowhere/at/all\n")
            check(subprocess.run(["systemd-analyze", "verify", broken], capture_output=True, timeout=60,
                                 check=False).returncode, "systemd-analyze takes anything")


def test_service():
    """What the unit does, without systemd: the configuration file, then a clean stop by SIGTERM."""
    with spwlab.scratch() as folder:
        programs, name = installed(os.path.join(folder, "root")), spwlab.prefix("service")
        unit = spwlab.read(os.path.join(programs, "..", "lib", "systemd", "system", "spinwire@.service"))
        config, log = os.path.join(folder, f"{name}.conf"), os.path.join(folder, "log")
        write(config, 'ports: [{ spec: "null:rate=10k" }]\nexecutor: { kind: inline }\n')
        command = re.search(r"^ExecStart=(.*)", unit, re.M).group(1).split()
        command = [os.path.join(programs, "spinwire"), *command[1:]]
        at = command.index("$EAL_ARGS")
        command[at:at + 1] = ["--lcores", "0@0,1@1", "--no-huge", "-m", "64"]
        command = [word.replace("%i", name).replace("/etc/spinwire/" + name + ".conf", config) for word in command]
        with open(log, "wb") as out:
            process = spwlab.spawn(command, cwd="/", stdout=out, stderr=out)
        try:
            spwlab.wait_for(lambda: spwtel.telemetry(name, "/spinwire/info"), 60, "the service")
            process.send_signal(signal.SIGTERM)
            equal(process.wait(20), 0, spwlab.read(log))
        finally:
            spwlab.stop(process)
        check(re.search(r"residual +0\b", spwlab.read(log)), spwlab.read(log))


def test_documents():
    """The licence, and the examples that a package has."""
    with spwlab.scratch() as folder:
        doc = os.path.join(installed(folder), "..", "share", "doc", "spinwire")
        for name, source in (("LICENSE", "LICENSE"), ("examples/ttl.c", "examples/handler/ttl.c"),
                             ("examples/syn.c", "examples/handler/syn.c"),
                             ("examples/tensor/camera.py", "examples/tensor/camera.py")):
            equal(spwlab.read(os.path.join(doc, name)), spwlab.read(os.path.join(ROOT, source)), name)


def test_with_softhca():
    spwtest.need_card()
    spwtest.need("ibv_devinfo")
    with spwlab.scratch() as folder:
        done = run_bare(os.path.join(installed(folder), "with-softhca"), "--cable", f"shm:{spwlab.prefix('installed')}",
                        "ibv_devinfo")
        equal(done.returncode, 0, done.stderr)
        check("PORT_ACTIVE" in done.stdout, done.stdout)


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
