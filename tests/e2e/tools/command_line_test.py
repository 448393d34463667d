#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A wrong command line of any program is one line that names the option and what was probably meant, with exit status
1, before anything is started or written."""
import os
import subprocess

import spwtest
from spwtest import check, equal, spwlab

TOOLS = spwlab.TOOLS


def run_own(program):
    return lambda text: [spwlab.program(program), *text.split()]


def tool(name):
    return lambda text: [os.path.join(TOOLS, name), *text.split()]


def behind(program):
    """A program of EAL: its own words follow "--"."""
    return lambda text: [spwlab.program(program), "--no-huge", "--", *text.split()]


SPINWIRE, BARE = behind("spinwire"), run_own("spinwire")
GEN, DOCTOR, PERF = behind("spinwire-gen"), run_own("spinwire-doctor"), run_own("spinwire-perf")
RUN, PROFILE, TOP = tool("main_job"), tool("profile"), tool("spinwire-top")
EXPORTER, SOFTHCA = tool("exporter"), tool("with-softhca")

CASES = [
    # options that there are not
    (SPINWIRE, "--port null --secons 1", "--secons: no such option, did you mean --seconds"),
    (SPINWIRE, "--port null --sloth=3", "--sloth: no such option, did you mean --slo"),
    (SPINWIRE, "--port null --versoin", "did you mean --version"),
    (SPINWIRE, "--port null --nothing-like-it 3", "--nothing-like-it: no such option"),
    (SPINWIRE, "null", "'null' is not an option"),
    (SPINWIRE, "--port null -s 3", "'-s' is not an option"),
    (SPINWIRE, "--port null -qv", "'-qv' is not an option"),
    (SPINWIRE, "--port null --quiet=1", "--quiet takes no value"),
    (GEN, "--port null --stats-period -1", "--stats-period: '-1' is not allowed"),
    (GEN, "--port null --rte 1Mpps", "--rte: no such option, did you mean --rate"),
    (GEN, "--port null --warmup 1s", "--warmup: no such option, did you mean --warm-up"),
    (DOCTOR, "--recipt x", "--recipt: no such option, did you mean --receipt"),
    (DOCTOR, "--fact", "--fact: no such option, did you mean --facts"),
    (PERF, "--tiem 40ms", "--tiem: no such option, did you mean --time"),
    (PERF, "--rail mlx5_0", "--rail: no such option, did you mean --rails"),
    (RUN, "--secons 3", "--secons: no such option, did you mean --seconds"),
    (RUN, "--memry host", "--memry: no such option, did you mean --memory"),
    (PROFILE, "--step 3", "--step: no such option, did you mean --steps"),
    (TOP, "--evry 2", "--evry: no such option, did you mean --every"),
    (EXPORTER, "--lisen 127.0.0.1:1", "--lisen: no such option, did you mean --listen"),
    (SOFTHCA, "--sped 100 true", "--sped: no such option, did you mean --speed"),
    # commands that there are not
    (DOCTOR, "paln", "'paln': no such command, did you mean plan"),
    (DOCTOR, "recrod x", "did you mean record"),
    (DOCTOR, "idle x", "idle takes 0 files, not 1"),
    (PERF, "serve again", "'again': serve was given already"),
    (SOFTHCA, "nosuch", "nosuch: no such command"),
    # values: missing, negative, without a unit, with the wrong one, out of range
    (SPINWIRE, "--port null --seconds", "--seconds needs a value"),
    (SPINWIRE, "--port null --seconds -1", "--seconds: '-1' is not allowed"),
    (SPINWIRE, "--port null --seconds 3parsecs", "--seconds: '3parsecs' has the unknown unit 'parsecs'"),
    (SPINWIRE, "--port null --slow-threshold 100", "--slow-threshold: '100' has no unit"),
    (SPINWIRE, "--port null --slot-size 2048", "--slot-size: '2048' has no unit: 2048B?"),
    (SPINWIRE, "--port null --slot-size 1000B",
     "--slot-size: '1000B' is not allowed; allowed: 64B .. 64MiB, a multiple of 64"),
    (SPINWIRE, "--port null --burst 65", "--burst: '65' is not allowed; allowed: 1 .. 64"),
    (SPINWIRE, "--port null --batches 48", "a power of 2"),
    (SPINWIRE, "--port null --memory hots", "--memory: 'hots' is not allowed; allowed: auto, host"),
    (SPINWIRE, "--port null --stamps maybe", "--stamps: 'maybe' is not allowed; allowed: yes, no"),
    (SPINWIRE, "--port null --lcores 4-2", "--lcores: '4-2' is not allowed; allowed: core numbers"),
    (SPINWIRE, "--port null --slo 20@p99", "--slo 20@p99: '20' has no unit: 20ms?"),
    (SPINWIRE, "--port null --slo 20us", "--slo 20us: a time and a percentile, such as 20us@p99.9"),
    (SPINWIRE, "--port null --handler x.so", "(./x.so)"),
    (SPINWIRE, "--port null --handler ehco", "--handler: handler ehco: there are null, sum, crc32c and echo"),
    (SPINWIRE, "--port null --help=all", "--help takes no value"),
    (GEN, "--port null --seconds -1", "--seconds: '-1' is not allowed"),
    (GEN, "--port null --linger 1", "--linger: '1' has no unit: 1ms?"),
    (GEN, "--port null --flows 0", "--flows: '0' is not allowed; allowed: 1 .. "),
    (GEN, "--port null --size 10", "--size: 10 is out of range; 64 to 9600 bytes"),
    (GEN, "--port null --schedule burst", "--schedule: 'burst' is not a schedule"),
    (DOCTOR, "--measure --expect 25", "--expect: '25' has no unit: 25Gbps?"),
    (DOCTOR, "idle --seconds -1", "--seconds: '-1' is not allowed"),
    (DOCTOR, "cores none", "cores none: how many lcores"),
    (DOCTOR, "--near x", "--near belongs to cores"),
    (PERF, "--time 40", "--time: '40' has no unit: 40ms?"),
    (PERF, "--time 5ms", "--time: '5ms' is not allowed; allowed: 20ms .. 60s"),
    (PERF, "--sizes 64Q", "--sizes: '64Q': a size is 2 to 16G"),
    (PERF, "--rows wrote", "--rows: wrote: no such row; there are write, send, read"),
    (PERF, "--port", "--port needs a value"),
    (RUN, "--seconds -1", "--seconds: "),
    (RUN, "--rate 3parsecs", "--rate: '3parsecs' has the unknown unit 'parsecs'"),
    (TOP, "--every 100", "--every: '100' is not allowed; allowed: 0.1s .. 60s"),
    (EXPORTER, "--listen 9711", "'9711' is no ADDRESS:PORT"),
    (SOFTHCA, "--speed", "--speed needs a value"),
    # ports
    (SPINWIRE, "--port mlx5_0", "did you mean mlx5:mlx5_0"),
    (SPINWIRE, "--port nul", "did you mean null"),
    (SPINWIRE, "--port lo", "did you mean ethdev:net_af_packet0,iface=lo"),
    (SPINWIRE, "--port 0", "a port has no number; name its device: ethdev:0000:01:00.0"),
    (SPINWIRE, "--port ethdev:0", "a port has no number; name its device: ethdev:0000:01:00.0"),
    (GEN, "--port fault:ethdev:1", "a port has no number"),
    (SPINWIRE, "--port 0000:01:00.0,mtu=9000", "did you mean ethdev:0000:01:00.0,mtu=9000"),
    (SPINWIRE, "--port 01:00.0", "did you mean ethdev:01:00.0"),
    (GEN, "--port net_memif0,role=server", "did you mean ethdev:net_memif0,role=server"),
    (GEN, "--port nul:size=64", "did you mean null:size=64"),
    # EAL's side of "--"
    (BARE, "--port null --seconds 1",
     '--port stands before "--", where EAL\'s arguments are: spinwire -- --port null --seconds 1'),
    (BARE, "-l 0 --no-huge --port null", "spinwire -l 0 --no-huge -- --port null"),
    (BARE, "-l 0", 'follow "--"'),
    (run_own("spinwire-gen"), "--rate 1Mpps", '--rate stands before "--"'),
    (BARE, "--proc-type=secondary -- --port null", "--proc-type: 'secondary' is not allowed"),
    (BARE, "--proc-type auto -- --port null", "--proc-type: 'auto' is not allowed"),
    (BARE, "--proc=secondary --no-huge -- --port null", "its own --file-prefix"),
    (run_own("spinwire-gen"), "--proc-type=secondary -- --port null", "--proc-type: 'secondary' is not allowed"),
    (BARE, "-l foo -- --port null", "-l: 'foo' is no list of cores, as 0-2,4"),
    (BARE, "-l 3-1 -- --port null", "-l: '3-1' is no list of cores"),
    (BARE, "-l 0-, -- --port null", "-l: '0-,' is no list of cores"),
    (BARE, "-l9999 -- --port null", "-l: '9999' is no list of cores"),
    (BARE, "--lcores (0,1 -- --port null", "--lcores: '(0,1' is no list of cores, as 0-2,4 or 0@8,1@9"),
    (BARE, "--lcores=0@x -- --port null", "--lcores: '0@x' is no list of cores"),
    (BARE, "-c zz -- --port null", "-c: 'zz' is no mask of cores, as 0x13"),
    (BARE, "-c 0x0 -- --port null", "-c: '0x0' is no mask of cores"),
    (BARE, "-l 0 --main-lcore 7 -- --port null", "--main-lcore: '7' is none of the lcores 0"),
    (BARE, "--main-lcore=x -- --port null", "--main-lcore: 'x' is none of the lcores"),
    (run_own("spinwire-gen"), "-l 0,1, -- --port null", "-l: '0,1,' is no list of cores"),
]


def test_wrong():
    with spwlab.scratch() as folder:
        for command, text, words in CASES:
            cmd = command(text)
            if not os.path.exists(cmd[0]):
                continue  # this build has not the program
            done = subprocess.run(cmd, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=60, check=False)
            where = f"{os.path.basename(cmd[0])} {text}: status {done.returncode}\n{done.stdout}{done.stderr}"
            equal((done.returncode, done.stderr.count("\n"), done.stdout), (1, 1, ""), where)
            check(words in done.stderr, f"{words!r} is not in\n{where}")
        equal(os.listdir(folder), [], "files that were written")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
