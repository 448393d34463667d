# SPDX-License-Identifier: BSD-3-Clause
"""One scheduling group for a whole run of tests.

Where kernel.sched_autogroup_enabled is 1, Linux schedules each session as a group of its own, and Meson starts each
test in a session of its own. On 6.18 such groups kept each other from a shared core for half a second and more, which
is longer than what some tests are about (an RDMA retry limit). Tasks of a cgroup other than the root are scheduled as
that cgroup, whatever their session."""
import contextlib
import os

AUTOGROUP = "/proc/sys/kernel/sched_autogroup_enabled"
ROOTS = ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup")  # version 1, and 2


def _read(path):
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""


def _write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def applies():
    """Whether sessions are groups for this process."""
    paths = [line.split(":", 2) for line in _read("/proc/self/cgroup").splitlines()]
    grouped = any(path != "/" and (controllers == "" or "cpu" in controllers.split(","))
                  for _, controllers, path in paths)
    return _read(AUTOGROUP).strip() == "1" and not grouped


def _make(root):
    """A cgroup with the cpu controller under root, and this process in it."""
    folder = os.path.join(root, f"spinwire-test-{os.getpid()}")
    if not os.path.exists(os.path.join(root, "cgroup.procs")):
        raise OSError("no cgroups here")
    if "cpu" in _read(os.path.join(root, "cgroup.controllers")).split():
        _write(os.path.join(root, "cgroup.subtree_control"), "+cpu")
    os.mkdir(folder)
    try:
        if not any(os.path.exists(os.path.join(folder, name)) for name in ("cpu.shares", "cpu.weight")):
            raise OSError("no cpu controller here")
        _write(os.path.join(folder, "cgroup.procs"), str(os.getpid()))
    except OSError:
        os.rmdir(folder)
        raise
    return folder


@contextlib.contextmanager
def one_group():
    """Yields whether this process and its children now are one group."""
    for root in ROOTS if applies() else ():
        try:
            folder = _make(root)
        except OSError:
            continue
        try:
            yield True
        finally:
            with contextlib.suppress(OSError):
                _write(os.path.join(root, "cgroup.procs"), str(os.getpid()))
                os.rmdir(folder)
        return
    yield not applies()
