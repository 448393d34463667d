#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Limits that a container brings, by control groups and rlimits of this machine: cores outside the cpuset, memory below
what is asked for, a CPU quota, few file descriptors, a small /dev/shm. Each is one line with its remedy, where EAL
panics or the kernel kills."""
import contextlib
import os
import re
import subprocess

import spwtest
from spwtest import SPINWIRE, Run, Skip, check, equal, need, need_card, need_root, spwlab

TOP = "/sys/fs/cgroup"


@contextlib.contextmanager
def group(controller, v1, v2):
    """A control group with those files written; the beginning of a command that runs in it."""
    need_root()
    old = os.path.isdir(os.path.join(TOP, controller))
    folder = os.path.join(TOP, controller if old else "", spwlab.prefix("limits"))
    try:
        if not old:
            with open(os.path.join(TOP, "cgroup.subtree_control"), "w", encoding="ascii") as file:
                file.write("+" + controller)
        os.mkdir(folder)
    except OSError as error:
        raise Skip(f"control groups cannot be made here: {error}") from None
    try:
        for name, value in (v1 if old else v2).items():
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(value)
        yield "sh", "-c", f'echo $$ >{folder}/cgroup.procs && exec "$@"', "sh"
    except OSError as error:
        raise Skip(f"{folder} cannot be written: {error}") from None
    finally:
        os.rmdir(folder)


def cpuset(core):
    return group("cpuset", {"cpuset.mems": "0", "cpuset.cpus": str(core)}, {"cpuset.cpus": str(core)})


def refused(under, words, lcores, *app):
    with Run(["--port", "null", *app], lcores=lcores, under=under) as run:
        run.finish(status=1)
        spwtest.one_line(run, *words)


def two_cores():
    have = sorted(spwlab.cores())
    if len(have) < 2:
        raise Skip("one core may be used here")
    return have[:2]


def test_cores():
    a, b = two_cores()
    with cpuset(a) as under:
        for lcores in (f"{a},{b}", f"0@{a},1@{b}", f"0@{a},(1,2)@({a},{b})"):
            refused(under, [f"core {b} is not among those that this process may use, {a}:", "cpuset"], lcores)
        refused(under, ["--executor-cores", f"core {b}"], f"0@{a},1@{a}", "--executor", "cpu", "--executor-cores",
                str(b))
        doctor = os.environ.get("SPINWIRE_DOCTOR")
        if doctor:
            done = subprocess.run([*under, doctor, "cores", "8"], capture_output=True, text=True, timeout=60,
                                  check=True)
            equal(done.stdout, f"{a}\n", "cores")


def test_mask_is_no_limit():
    """An affinity mask without the core is no obstacle, as with isolcpus=."""
    a, b = two_cores()
    need("taskset")
    with Run(["--port", "null", "--frames", "1000", "--executor", "inline"], lcores=f"0@{a},1@{b}",
             under=("taskset", "-c", str(a))) as run:
        run.finish()


def test_memory():
    if spwtest.SANITIZED:
        raise Skip("a sanitizer's own memory is more than the limit")
    with group("memory", {"memory.limit_in_bytes": "100000000"}, {"memory.max": "100000000"}) as under:
        with Run(["--port", "null", "--slots", "131072", "--frames", "1000", "--executor", "inline"],
                 under=under) as run:
            run.finish(status=2)
            spwtest.one_line(run, "256 MiB were asked for", "the control group leaves", "of its 95 MiB", "memory.max")
        with Run(["--port", "null", "--slots", "4096", "--frames", "1000", "--executor", "inline"], under=under) as run:
            run.finish()


def test_quota():
    """A tenth of a core: the loop is stopped in most periods, which the summary says; without a quota there is no such
    line."""
    args = ["--port", "null:rate=10k", "--executor", "inline", "--full", "--seconds", "2"]
    with group("cpu", {"cpu.cfs_quota_us": "10000"}, {"cpu.max": "10000 100000"}) as under:
        with Run(args, under=under) as run:
            summary, text = run.finish(seconds=30), run.output()
    quota, by = summary["held"]["group"], {row["cause"]: row["frames"] for row in summary["causes"]["by"]}
    # the rest: what else took the core
    check(by.get("cpu_quota", 0) > 0.5 * summary["causes"]["frames_above"] > 0, f"{by}")
    check("cpu_quota" in {frame["cause"] for frame in summary["worst"][:4]}, str(summary["worst"]))
    check(10 <= quota["throttled"] <= quota["periods"] and quota["stopped_ns"] > 0, str(quota))
    check(re.search(rf"^cpu quota +stopped all threads in {quota['throttled']} of {quota['periods']} periods", text,
                    re.M), text)
    check("cores-quota: the control group may take 10.0 ms" in text, text)
    with Run([*args[:-1], "0.2"]) as run:
        summary = run.finish()
    equal((summary["held"]["group"], summary["held"]["quota"]["times"]), (None, 0), "without a quota")


def test_open_files():
    args = [SPINWIRE, *spwlab.eal("0@{0},1@{0}".format(spwlab.cores()[0]), spwlab.prefix("files")), "--", "--port",
            "null", "--frames", "1000",
            "--executor", "inline"]
    need("prlimit")
    for limit, status in (("8:8", 2), ("16:16", 2), ("48:48", 2), ("8:1024", 0)):
        done = subprocess.run(["prlimit", f"--nofile={limit}", *args], capture_output=True, text=True, timeout=60,
                              check=False)
        equal(done.returncode, status, f"{limit}: {done.stdout}{done.stderr}")
        check(status == 0 or "ulimit -n 1024" in done.stderr and "PANIC" not in done.stderr, f"{limit}: {done.stderr}")


def test_shared_memory_full():
    """A cable whose file fits into /dev/shm, and the frames do not."""
    need_card()
    need_root()
    need("unshare")
    core = spwlab.cores()[0]
    gen = [spwlab.WITH_SOFTHCA, "--devices", "2", "--cable", f"shm:{spwlab.prefix('full')}",
           spwlab.program("spinwire-gen"),
           *spwlab.eal(f"0@{core},1@{core}", spwlab.prefix("gen")), "--", "--port", "mlx5:mlx5_0,mode=eth", "--rate",
           "1000", "--seconds", "0.5"]

    def small(kib, command):
        place = f'mount -t tmpfs -o size={kib}k tmpfs /dev/shm && exec "$@"'
        return subprocess.run(["unshare", "-m", "sh", "-c", place, "sh", *command], capture_output=True, text=True,
                              timeout=60, check=False)
    if small(100, ["true"]).returncode:
        raise Skip("no mount namespace may be made here")
    said = small(1400, gen).stderr
    equal(len(re.findall("no memory for frames to port 1: No space left on device; .*/dev/shm", said)), 1, said)
    said = small(300, gen).stderr
    check("cannot write /dev/shm/" in said and "No space left on device (docker: --shm-size)" in said, said)


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
