#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Percentiles of samples of several shapes, judged by two independent references: a sort of the raw samples, and
libhdrhistogram-java reading the log. Usage: test_reader.py SAMPLER sort|java"""
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile

SHAPES = ["constant", "few", "even", "lognormal", "stalls", "pareto"]
COUNTS = [1, 7, 1000, 150000]
POINTS = {"min": 0, "p50": 500000, "p90": 900000, "p99": 990000, "p999": 999000, "p9999": 999900, "max": 1000000}
JAR = "/usr/share/java/hdrhistogram.jar"
WORST = 1 / 128  # of a value
SKIP = 77
WRAPPER = shlex.split(os.environ.get("MESON_EXE_WRAPPER", ""))  # an emulator, when cross-built


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def account(sampler, shape, count, lost, folder):
    """({point or percentile: value, "lost" or "-"}, raw samples, sorted)."""
    done = subprocess.run([*WRAPPER, sampler, shape, str(count), str(lost), folder], check=True, capture_output=True,
                          text=True, timeout=60)
    printed = [line.split() for line in done.stdout.splitlines()]
    with open(os.path.join(folder, "raw"), encoding="ascii") as file:
        raw = sorted(map(int, file))
    check(len(raw) == count, f"{len(raw)} samples, {count} were wanted")
    return {name: int(value) if value.isdigit() else value for name, value in printed}, raw


def ppm_of(name):
    return POINTS[name] if name in POINTS else round(float(name) * 1e4)


def by_sort(raw, lost, ppm):
    """What the percentile is, from its definition: the value whose rank is the first to cover ppm of all, lost ones
    last."""
    total = len(raw) + lost
    if 0 < ppm < 1000000 and total * (1000000 - ppm) < 1000000:
        return "-"
    rank = max(1, -(-total * ppm // 1000000))
    return raw[rank - 1] if rank <= len(raw) else "lost"


def near(got, want):
    return got == want if isinstance(got, str) or isinstance(want,
                                                             str) else want <= got <= want + math.floor(want * WORST)


def judged_by_sort(sampler, folder):
    worst = 0
    for shape in SHAPES:
        for count in COUNTS:
            for lost in (0, count // 100, count):
                printed, raw = account(sampler, shape, count, lost, folder)
                check(set(POINTS) <= set(printed), f"points {sorted(printed)}")
                for name, got in printed.items():
                    want = by_sort(raw, lost, ppm_of(name))
                    check(near(got, want),
                          f"{shape}, {count} samples, {lost} lost: {name} is {got}, the sort says {want}")
                    if isinstance(want, int) and want:
                        worst = max(worst, got / want - 1)
    print(f"worst error of a printed percentile: {100 * worst:.3f} %")


def java_says(folder):
    """{point: value} of the whole log: HistogramLogProcessor's last line of totals; [tags]."""
    base = ["java", "-cp", JAR, "org.HdrHistogram.HistogramLogProcessor", "-i", os.path.join(folder, "log")]
    tags = subprocess.run([*base, "-listtags"], check=True, capture_output=True, text=True, timeout=60).stdout
    out = os.path.join(folder, "out")
    subprocess.run([*base, "-tag", "round_trip", "-outputValueUnitRatio", "1", "-o", out], check=True,
                   capture_output=True,
                   timeout=60)
    with open(out, encoding="ascii") as file:
        totals = re.findall(r"T:(\d+) \((.*?)\)", file.read())
    check(len(totals) == 1, f"intervals read: {totals}")
    values = [float(word) for word in totals[0][1].split()]
    return int(totals[0][0]), dict(zip(("p50", "p90", "p99", "p999", "p9999", "max"), values, strict=True)), tags


def same(ours, theirs, largest):
    """Java reports the top of a bucket; we never report more than the largest sample."""
    return ours == theirs or (ours == largest and ours <= theirs <= ours * (1 + WORST))


def judged_by_java(sampler, folder):
    if not os.path.exists(JAR) or subprocess.run(["which", "java"], capture_output=True, check=False).returncode:
        print("skipped: libhdrhistogram-java or java is not installed (tools/deps test)")
        sys.exit(SKIP)
    for shape in SHAPES:
        printed, raw = account(sampler, shape, COUNTS[-1], 0, folder)
        count, theirs, tags = java_says(folder)
        check("round_trip" in tags, f"tags: {tags}")
        check(count == len(raw), f"{shape}: the reader counts {count} of {len(raw)}")
        for name, value in theirs.items():
            check(same(printed[name], value, raw[-1]), f"{shape}: {name} is {printed[name]}, the reader says {value}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="spinwire-hist-") as place:
        {"sort": judged_by_sort, "java": judged_by_java}[sys.argv[2]](sys.argv[1], place)
