# SPDX-License-Identifier: BSD-3-Clause
"""spinwire and its peers on one cable of software ConnectXs: what the tests and the fault matrix share."""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("../../softhca", "../../kit", "../../rails"):
    sys.path.insert(0, os.path.join(HERE, folder))
for name in ("spinwire", "spinwire-gen"): # by hand: what build/ holds
    os.environ.setdefault(name.upper().replace("-", "_"), os.path.join(HERE, "../../../../build/app", name, name))
import documents  # noqa: E402  (found by the lines above)
import peers  # noqa: E402
import spwtest  # noqa: E402
import stacks  # noqa: E402
from spwtest import Run, check, equal, spwlab  # noqa: E402

GEN = os.environ["SPINWIRE_GEN"]
PORT = "mlx5:mlx5_0,mode=eth"


def lcores(queues):
    """The main lcore sleeps; the queues' lcores share what cores there are."""
    place = spwlab.Cores()
    spin = [place.receive, place.generator] if place.cnt < 4 else [place.receive, place.executor]
    return ",".join([f"0@{place.main}"] + [f"{q + 1}@{spin[q % len(spin)]}" for q in range(queues)])


class Cable:
    """One private cable; each program that is plugged in can have a control socket."""

    def __init__(self):
        self.fabric = peers.Fabric(extra=peers.card())
        self.folder = tempfile.TemporaryDirectory(prefix="spw-")

    def wrap(self, name="", *options):
        own = ["--control", self.socket(name)] if name else []
        return self.fabric.argv([], *own, *options)

    def socket(self, name):
        return os.path.join(self.folder.name, name)

    def control(self, name, line):
        """A command to a program's NIC; its answer without the "ok"."""
        return spwlab.nic_ask(self.socket(name), line)

    def objects(self, name):
        """{"cq": [1, 2], "qp": [...], "mr": [...]}."""
        return {kind: [int(number) for number in numbers.split(",")]
                for kind, numbers in spwlab.nic_pairs(self.socket(name), "objects").items()}


def spinwire(cable, *app, queues=1, profile="latency", port=PORT, nic=()):
    return Run(["--port", port, "--queues", str(queues), "--profile", profile, "--executor", "inline", *app],
               lcores=lcores(queues), under=cable.wrap("spinwire", *nic))


def arrived(run, frames):
    """Waits until so many frames reached the port; a starved NIC may be late with those that are on the cable."""
    def wire():
        return (run.telemetry("/spinwire/ledger") or {}).get("wire", 0)
    spwlab.wait_for(lambda: wire() >= frames or run.process.poll() is not None, 60, f"{frames} frames, {wire()} came")


class Source:
    """spinwire-gen on the cable, started; finish() gives its summary. nic: more options of its software ConnectX."""

    serial = 0

    def __init__(self, cable, *options, port=PORT, nic=()):
        Source.serial += 1
        place = spwlab.Cores()
        self.prefix = f"{spwlab.prefix('gen')}-{Source.serial}"
        self.json = cable.socket(f"gen{Source.serial}.json")
        cmd = [*cable.wrap(f"gen{Source.serial}", *nic), GEN, *spwlab.eal(f"0@{place.main},1@{place.generator}",
                                                                          self.prefix), "--",
               "--port", port, *options, "--json", self.json]
        self.name, self.port = f"gen{Source.serial}", port
        self.process = spwlab.spawn(cmd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def kill(self):
        self.process.kill()
        self.process.communicate()
        spwlab.forget_prefix(self.prefix)

    def finish(self, limit=120, status=0):
        try:
            out, _ = self.process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            print(stacks.of(self.process.pid))
            self.kill()
            raise
        finally:
            spwlab.forget_prefix(self.prefix)
        equal(self.process.returncode, status, f"spinwire-gen\n{out}")
        return documents.load(self.json)
