# SPDX-License-Identifier: BSD-3-Clause
"""The machine: what it is, and what it did meanwhile (interrupts, switches, time stolen), from /proc and /sys."""
import glob
import os
import platform
import re

BUSY_NS = 100e6  # on a core or waiting for one: a thread that does no more is none that matters


def _read(path, dflt=""):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return dflt


def _cpu():
    text = _read("/proc/cpuinfo")
    model = re.search(r"^(?:model name|Model)\s*: (.*)$", text, re.M)
    virtual = " (virtual)" if re.search(r"^flags\s*:.*\bhypervisor\b", text, re.M) else ""
    return (model.group(1) if model else platform.machine()) + virtual


def _governors():
    found = {_read(p) for p in glob.glob("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")}
    return ", ".join(sorted(found)) or "unknown"


def _hugepages():
    pools = []
    for folder in sorted(glob.glob("/sys/kernel/mm/hugepages/hugepages-*")):
        size = folder.rsplit("-", 1)[1]
        pools.append(f"{_read(folder + '/free_hugepages', '?')} of {_read(folder + '/nr_hugepages', '?')} x {size} "
                     f"free")
    return ", ".join(pools) or "none"


def facts():
    """[(what, text)] that do not change during a run."""
    args = [word for word in _read("/proc/cmdline").split()
            if re.match(r"(isolcpus|nohz_full|rcu_nocbs|idle|intel_idle|processor\.|mitigations)", word)]
    return [("processor", f"{_cpu()}, {os.cpu_count()} cores"),
            ("kernel", f"{platform.system()} {platform.release()}, {platform.machine()}"),
            ("kernel arguments", " ".join(args) or "none that isolate cores or forbid idle states"),
            ("frequency governor", _governors()),
            ("clock source", _read("/sys/devices/system/clocksource/clocksource0/current_clocksource", "?")),
            ("threads per core", "more than one (SMT on)" if _read("/sys/devices/system/cpu/smt/active") == "1"
             else "one"),
            ("hugepages", _hugepages())]


def _interrupts():
    """{(source, core): count}"""
    lines = _read("/proc/interrupts").splitlines()
    cores = [int(word[3:]) for word in lines[0].split()] if lines else []
    out = {}
    for line in lines[1:]:
        name, _, rest = line.partition(":")
        words = rest.split()
        values = words[:len(cores)]
        if len(values) == len(cores) and all(v.isdigit() for v in values):
            text = " ".join(words[len(cores):]) or name.strip()
            for core, cnt in zip(cores, values):
                out[text if not name.strip().isdigit() else f"{name.strip()} {text}", core] = int(cnt)
    return out


def _stolen():
    """{core: seconds that the hypervisor gave to others}"""
    hz = os.sysconf("SC_CLK_TCK")
    rows = re.findall(r"^cpu(\d+) (.*)$", _read("/proc/stat"), re.M)
    return {int(core): int(words.split()[7]) / hz for core, words in rows if len(words.split()) > 7}


def snapshot():
    return {"interrupts": _interrupts(), "stolen": _stolen(), "load": _read("/proc/loadavg", "? ? ?").split()[:3]}


def between(before, after, cores, seconds):
    """What happened on these cores from one snapshot to the next: JSON-ready, per second."""
    out = {"seconds": seconds, "load": after["load"], "cores": {}}
    for core in cores:
        rates = {name: (cnt - before["interrupts"].get((name, at), 0)) / seconds
                 for (name, at), cnt in after["interrupts"].items() if at == core}
        top = sorted(((name, rate) for name, rate in rates.items() if rate >= 0.5), key=lambda item: -item[1])
        out["cores"][str(core)] = {
            "interrupts": sum(rates.values()), "most": [[name, rate] for name, rate in top[:3]],
            "stolen": (after["stolen"].get(core, 0) - before["stolen"].get(core, 0)) / seconds}
    return out


def threads(pids):
    """What each thread of these programs did so far, by the kernel's count (schedstat): on a core, and able to run but
    waiting for one. pids: {program: pid}; main threads, which mostly sleep, and those that hardly ran are left out."""
    out = []
    for program, pid in pids.items():
        for folder in glob.glob(f"/proc/{pid}/task/*"):
            words = _read(f"{folder}/schedstat").split()
            if folder.endswith(f"/{pid}"):
                continue
            if len(words) == 3 and int(words[0]) + int(words[1]) > BUSY_NS:
                out.append({"program": program, "name": _read(f"{folder}/comm"), "ran_ns": int(words[0]),
                            "waited_ns": int(words[1])})
    return out
