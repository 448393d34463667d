# SPDX-License-Identifier: BSD-3-Clause
"""Judges Prometheus' text format 0.0.4: by our own reading of it, by promtool, and by the distribution's Python client.
The last two are asked where they are installed (tools/deps test)."""
import os
import re
import shutil
import subprocess

import documents

# Debian's packages belong to Debian's python3, which need not be the one that runs this test.
PYTHON = "/usr/bin/python3"
PARSE = """import json, sys
from prometheus_client.parser import text_string_to_metric_families as parse
print(json.dumps([[s.name, s.labels, s.value] for m in parse(sys.stdin.read()) for s in m.samples]))"""
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\\\|\\"|\\n)*"'
SAMPLE = re.compile(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:{{({LABEL}(?:,{LABEL})*)}})? ([0-9.e+-]+)")
# of tools/deps
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "spinwire", "bin")


def promtool():
    """Its path, or None."""
    return shutil.which("promtool", path=f"{os.environ.get('PATH', '')}:{CACHE}")


def has_client():
    return os.path.exists(PYTHON) and subprocess.run([PYTHON, "-c", "import prometheus_client"], capture_output=True,
                                                     check=False).returncode == 0


def _family(name, kinds):
    stem = re.sub(r"_(bucket|sum|count)$", "", name)
    return stem if kinds.get(stem) == "histogram" else name


def faults(text):
    """What our own reading finds, one line each: each family declared once and in one piece, each series there once."""
    kinds, seen, closed, now, found = {}, set(), set(), None, []
    for line in text.split("\n")[:-1]:
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            found += [f"declared twice: {line}"] if name in kinds else []
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            match = SAMPLE.fullmatch(line)
            if not match:
                found.append(f"no sample: {line}")
                continue
            family, series = _family(match[1], kinds), (match[1], match[2])
            if family not in kinds or family in closed or series in seen:
                found.append(f"undeclared, in two pieces, or twice: {line}")
            if now not in (None, family):
                closed.add(now)
            now = family
            seen.add(series)
    return found if text.endswith("\n") else [*found, "the last line has no end"]


def judge(text):
    """AssertionError if anybody finds fault with it."""
    assert not faults(text), f"{faults(text)} in\n{text}"
    if promtool():
        done = subprocess.run([promtool(), "check", "metrics"], input=text, capture_output=True, text=True, timeout=60,
                              check=False)
        assert done.returncode == 0, f"promtool: {done.stdout}{done.stderr}\n{text}"
    if has_client():
        samples(text)


def samples(text):
    """{(name, labels): value} as the client reads it."""
    done = subprocess.run([PYTHON, "-c", PARSE], input=text, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"the client: {done.stderr}\n{text}"
    return {(name, tuple(sorted(labels.items()))): value for name, labels, value in documents.foreign(done.stdout)}
