# SPDX-License-Identifier: BSD-3-Clause
"""What the threads of a process that does not end are doing: the kernel's view of each, then gdb's stacks.

A thread that waits to run appears in gdb like one that sleeps; its state (R or S) and the time it has waited for a core
tell them apart. One that is in state R at both looks, and ran no longer in between, had no core: the program does not
hang. A signal that was sent and not yet taken stands in SigPnd or ShdPnd."""
import os
import shutil
import subprocess
import time

LATER_S = 2  # between two looks


def _read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def status(path):
    """A status file of /proc, as a dict of texts."""
    return dict(line.split(":\t", 1) for line in _read(path).splitlines() if ":\t" in line)


def _thread(folder):
    """One line: name, state, core, signals, and how long it ran and waited for a core."""
    fields, stat = status(os.path.join(folder, "status")), _read(os.path.join(folder,
                                                                              "stat")).rpartition(")")[2].split()
    ran, waited, *_ = [*_read(os.path.join(folder, "schedstat")).split(), "0", "0"]
    return (f"{os.path.basename(folder)} {fields.get('Name')}: state {fields.get('State')}, core "
            f"{stat[36] if len(stat) > 36 else '?'}, "
            f"SigPnd {fields.get('SigPnd')} ShdPnd {fields.get('ShdPnd')} SigBlk {fields.get('SigBlk')} SigCgt "
            f"{fields.get('SigCgt')}, "
            f"ran {int(ran) / 1e9:.3f} s, waited {int(waited) / 1e9:.3f} s, switches "
            f"{fields.get('voluntary_ctxt_switches')} "
            f"{fields.get('nonvoluntary_ctxt_switches')}, in {_read(os.path.join(folder, 'wchan')) or 'user space'}")


def threads(pid):
    """The kernel's view of each thread of a process, one a line; the main one first."""
    top = f"/proc/{pid}/task"
    names = sorted(os.listdir(top), key=int) if os.path.isdir(top) else []
    return "\n".join(_thread(os.path.join(top, name)) for name in names)


def of(pid, limit_s=60):
    """Text for a failure's report. gdb comes last: it stops the process while it reads."""
    text = f"threads of process {pid} ({_read(f'/proc/{pid}/comm').strip()}):\n{threads(pid)}\n"
    time.sleep(LATER_S)
    text += f"{LATER_S} s later:\n{threads(pid) or 'it has ended'}\n"
    if not shutil.which("gdb"):
        return text + "gdb is not installed: no stacks\n"
    try:
        run = subprocess.run(["gdb", "-p", str(pid), "-batch", "-nx", "-ex", "set pagination off", "-ex",
                              "thread apply all bt"],
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                             timeout=limit_s, check=False)
        return text + run.stdout + ("" if run.stdout.strip() else run.stderr)
    except subprocess.TimeoutExpired:
        return text + f"gdb did not answer in {limit_s} s\n"
