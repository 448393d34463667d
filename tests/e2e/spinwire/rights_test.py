#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Without root: which capability each program needs, what it says without one, and that it keeps no other. An ordinary
user runs everything below; his capabilities are given by setpriv, as systemd's AmbientCapabilities= or a container
engine would."""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import typing

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "softhca"))
import peers  # noqa: E402  (found by the line above)
import documents  # noqa: E402
import spwtest  # noqa: E402
from spwtest import SANITIZED, Run, Skip, balanced, check, equal, spwlab  # noqa: E402

BIT = {"dac_override": 1, "net_raw": 13, "ipc_lock": 14}
USER = 65534
RAW, RC = "mlx5:mlx5_0,mode=eth", "mlx5:mlx5_0,mode=rc,listen=127.0.0.1:{},peers=127.0.0.1"
LOCKED = 64 << 10  # bytes of locked memory: not enough for any port


def need():
    spwtest.need_root()
    spwtest.need("setpriv", "prlimit")


def need_softhca():
    need()
    spwtest.need_card()


def as_user(*caps):
    """The beginning of a command: the user, with these capabilities and no others to be had, and a low limit of locked
    memory."""
    own = ",".join(["-all", *(f"+{cap}" for cap in caps)])
    return ("prlimit", f"--memlock={LOCKED}:{LOCKED}", "setpriv", "--reuid", str(USER), "--regid", str(USER),
            "--clear-groups",
            f"--inh-caps={own}", f"--ambient-caps={own}", f"--bounding-set={own}")


class Place(typing.NamedTuple):
    """Copies that the user can reach, wherever the build is, and a folder of his own."""
    top: str

    @property
    def own(self):
        return os.path.join(self.top, "own")

    @property
    def tools(self):
        return os.path.join(self.top, "tools")

    def copy(self, path, *folder):
        into = os.path.join(self.top, "build", *folder)
        os.makedirs(into, exist_ok=True)
        return shutil.copy(path, into)

    def softhca(self):
        """The beginning of a command on a software ConnectX."""
        lib = os.path.join(self.top, "build/lib/softhca", os.path.basename(spwlab.softhca_lib()))
        return ("env", f"SPW_SOFTHCA_LIB={lib}",
                os.path.join(self.tools, "with-softhca"), "--cable", f"shm:{spwlab.prefix('rights')}")


@contextlib.contextmanager
def users_place():
    """Place, with EAL's runtime folder in it, for this process and the user's."""
    was = spwtest.SPINWIRE, os.environ.get("RUNTIME_DIRECTORY")
    place = Place(tempfile.mkdtemp(prefix="spinwire-user-", dir="/var/tmp"))
    try:
        os.chmod(place.top, 0o755)
        os.mkdir(place.own)
        os.chown(place.own, USER, USER)
        shutil.copytree(spwlab.TOOLS, place.tools)
        shutil.copy(os.path.join(spwlab.TOOLS, "..", "meson.build"), place.top)  # has the version
        if not SANITIZED and spwlab.has_mlx5():
            for file in (spwlab.softhca_lib(), os.path.join(os.path.dirname(spwlab.softhca_lib()), "softhca-check")):
                place.copy(file, "lib", "softhca")
        os.environ["RUNTIME_DIRECTORY"] = place.own
        spwtest.SPINWIRE = place.copy(spwtest.SPINWIRE, "app", "spinwire")
        yield place
    finally:
        spwtest.SPINWIRE = was[0]
        os.environ.pop("RUNTIME_DIRECTORY") if was[1] is None else os.environ.update(RUNTIME_DIRECTORY=was[1])
        shutil.rmtree(place.top)


def rights(pid):
    """{field: the values that the threads of the process have} of /proc/PID/task/*/status."""
    found = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError):  # it has ended since it was listed
            status = spwlab.read(f"/proc/{pid}/task/{thread}/status")
            for name, value in re.findall(r"^(Cap\w+|NoNewPrivs):\s+(\w+)$", status, re.M):
                found.setdefault(name, set()).add(int(value, 16))
    return found


def keeps(pid, *caps):
    """These in every thread, and no set that could bring others back: no_new_privs does away with the bounding set."""
    got, want = rights(pid), {sum(1 << BIT[cap] for cap in caps)}
    equal((got["CapEff"], got["CapPrm"], got["NoNewPrivs"]), (want, want, {1}), f"rights of the threads, {got}")
    check(all(value & ~min(want) == 0 for name in ("CapInh", "CapAmb") for value in got[name]),
          f"inheritable and ambient: {got}")
    return got


def test_root_keeps_little():
    """Whoever starts it as root has it without root's capabilities."""
    need()
    with Run(["--port", "null:rate=50000", "--executor", "inline"]) as run:
        run.wait_ready()
        got = keeps(run.process.pid, "dac_override", "ipc_lock")
        equal(got["CapBnd"], got["CapPrm"], "bounding set")
        run.signal(signal.SIGINT)
        balanced(run.finish())


def run_as_user(place, port, given):
    return Run(["--port", port, "--executor", "inline"], json_file=False,
               under=(*as_user(*given), *place.softhca()))


def runs(run):
    """Whether telemetry answers; it does so to its own user alone."""
    os.seteuid(USER)
    try:
        return bool(run.telemetry("/spinwire/ledger"))
    finally:
        os.seteuid(0)


def runs_with(port, given, kept):
    need_softhca()
    with users_place() as place, run_as_user(place, port, given) as run:
        spwlab.wait_for(lambda: run.process.poll() is not None or "spinwire: memory: " in run.output(), 30,
                        "spinwire to choose its memory")
        samples, ready = 0, False
        while run.process.poll() is None and not (ready and samples > 2):  # threads are made until it runs
            ready = ready or runs(run)
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # they end as well
                keeps(run.process.pid, *kept)
                samples += 1
            time.sleep(0.1)
        check(run.process.poll() is None, f"spinwire left early:\n{run.output()}")
        run.end()
        run.finish()


def test_raw():
    runs_with(RAW, ["net_raw", "ipc_lock"], ["net_raw", "ipc_lock"])


def test_rc():
    """No raw packets: CAP_NET_RAW is not needed, and dropped if it is there."""
    port = RC.format(peers.free_port())
    runs_with(port, ["net_raw", "ipc_lock"], ["ipc_lock"])
    runs_with(port, ["ipc_lock"], ["ipc_lock"])


def refused(place, port, given, words):
    with run_as_user(place, port, given) as run:
        run.finish(status=2)
        spwtest.one_line(run, *words)


def test_left_out():
    """Each that is left out: the message names it, and the remedy."""
    need_softhca()
    with users_place() as place:
        for driver in ("mlx5", "verbs"):
            refused(place, f"{driver}:mlx5_0,mode=eth", ["ipc_lock"], ["CAP_NET_RAW", "setcap"])
            refused(place, f"{driver}:mlx5_0,mode=eth", ["net_raw"], ["limit of locked memory: 64 KiB", "ulimit -l",
                                                                      "CAP_IPC_LOCK"])


def test_doctor():
    """It needs none: what the machine lacks is still found."""
    need()
    if "SPINWIRE_DOCTOR" not in os.environ:
        raise Skip("no spinwire-doctor in this build")
    with users_place() as place:
        doctor = place.copy(os.environ["SPINWIRE_DOCTOR"], "app", "spinwire-doctor")
        told = []
        for under in (as_user(), ()):
            done = subprocess.run([*under, doctor, "--json", "-"], capture_output=True, text=True, timeout=60,
                                  check=False)
            check(done.returncode in (0, 2), f"status {done.returncode}\n{done.stderr}")
            told.append({finding["id"] for finding in documents.loads(done.stdout)["findings"]})
        check(told[0] - told[1] <= {"cap-net-raw", "memlock-low"} and told[1] <= told[0],
              f"the user is told {told[0]}, root {told[1]}")


def test_main_job():
    """tools/run without root: the rights come from a user namespace."""
    need()
    if SANITIZED:
        raise Skip("the main job is not for sanitized programs")
    with users_place() as place:
        if subprocess.run([*as_user(), "unshare", "-r", "true"], cwd="/", capture_output=True, check=False).returncode:
            raise Skip("an ordinary user may not make a user namespace here")
        place.copy(spwlab.program("spinwire-gen"), "app", "spinwire-gen")
        if "SPINWIRE_DOCTOR" in os.environ:
            place.copy(os.environ["SPINWIRE_DOCTOR"], "app", "spinwire-doctor")
        env = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "XDG_RUNTIME_DIR": place.own, "TMPDIR": place.own,
               "SPINWIRE": spwtest.SPINWIRE}  # built: this is no tree to build in
        done = subprocess.run([*as_user(), "python3", os.path.join(place.tools, "main_job"), "--full", "--seconds", "1",
                               "--rate", "5000", "--out", os.path.join(place.own, "out")],
                              env=env, cwd=place.own, capture_output=True, text=True, timeout=120, check=False)
        equal(done.returncode, 0, f"{done.stdout[-3000:]}{done.stderr}")
        equal("software ConnectX" in done.stdout, spwlab.has_mlx5(), done.stdout)
        check(re.search(r"^ +residual +0$", done.stdout, re.M), done.stdout)


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
