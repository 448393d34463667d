#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Python package and libspinwire-tensor.so, against publisher.c in the place of a spinwire: consumers that read,
hold for ever, release twice, die, fork, or are two; an owner that ends or dies; a spinwire that is started."""
import contextlib
import os
import re
import signal
import struct
import subprocess

import spwtest
from spwtest import check, equal, spwlab
from streams import udp

HERE = os.path.dirname(os.path.abspath(__file__))
PUBLISHER = os.environ["SPW_PUBLISHER"]
# NumPy is Debian's, for Debian's python3, which need not be the one that runs this test.
PYTHON = "/usr/bin/python3"
LIB = os.path.join(HERE, "..", "..", "..", "tools", "lib")
BUFFERS = 4


def need_numpy():
    if subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True, check=False).returncode:
        raise spwtest.Skip("python3-numpy is not installed (tools/deps test)")


class Place:
    """A runtime folder of our own, so that no other spinwire of this machine is found."""

    def __init__(self, folder):
        self.folder = folder
        self.env = {**os.environ, "RUNTIME_DIRECTORY": folder, "PYTHONPATH": LIB}
        self.config = spwtest.write_file(folder, "camera.conf.yaml", "")
        spwtest.write_file(folder, "camera.conf.yaml.description", "")

    def socket(self, name):
        os.makedirs(os.path.join(self.folder, "dpdk", name), exist_ok=True)
        return os.path.join(self.folder, "dpdk", name, "dpdk_telemetry.v2")

    @contextlib.contextmanager
    def publisher(self, name="camera", count=20, kind="host"):
        """Yields a list that has its words once it has ended."""
        path, out = self.socket(name), []
        # pylint: disable-next=consider-using-with
        process = spwlab.spawn([PUBLISHER, path, os.path.realpath(self.config), name, str(BUFFERS), str(count),
                                "1000", kind], stdout=subprocess.PIPE, text=True, env=self.env)
        try:
            spwlab.wait_for(lambda: os.path.exists(path) or process.poll() is not None, 20, "the publisher")
            yield out
        finally:
            process.terminate()
            out.append(process.communicate(timeout=20)[0])
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def start(self, case, config=None, **more):
        return spwlab.spawn([PYTHON, os.path.join(HERE, "consumer.py"), case, config or self.config],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**self.env, **more})

    def consume(self, case, config=None, **more):
        process = self.start(case, config, **more)
        text = process.communicate(timeout=60)[0]
        equal(process.returncode, 0, f"{case}:\n{text}")
        return text


def until(process, word):
    """The line that begins with word; those of a spinwire may come before."""
    lines = []
    while not lines or not lines[-1].startswith(word):
        lines.append(process.stdout.readline())
        check(lines[-1], f"it ended:\n{''.join(lines)}")
    return lines[-1]


@contextlib.contextmanager
def place():
    need_numpy()
    with spwlab.scratch() as folder:
        yield Place(folder)


def alone(case, count=20):
    with place() as here, here.publisher(count=count) as out:
        here.consume(case)
    return out[0]


def test_numpy():
    check("published 20," in alone("numpy_reads"), "not all objects were published")


def test_capsules():
    alone("capsules")


def test_stays_valid():
    alone("stays_valid")


def test_holds_for_ever():
    check(not alone("holds_for_ever", count=100).endswith("waited 0 times\n"), "the owner never waited for a buffer")


def test_release_twice():
    alone("release_twice")


def test_again():
    alone("again")


def test_forked():
    alone("forked")


def test_refuses():
    alone("refuses")


def test_no_library():
    with place() as here:
        here.consume("no_library", SPW_TENSOR_LIB="/nowhere.so")


def test_owner_dies():
    alone("owner_dies")


def test_two_streams():
    with place() as here, here.publisher(), here.publisher("radio"):
        here.consume("two_streams")


def test_two_consumers():
    """The second is refused by name, also while the first holds objects; once the first is dead the second gets the
    buffers."""
    with place() as here, here.publisher(count=1000) as out:
        first = here.start("dies_holding")
        until(first, "holds 2")
        here.consume("second")
        os.kill(first.pid, signal.SIGKILL)
        first.communicate()
        here.consume("after_a_death")
    check(f"took back 2 from {first.pid}\n" in out[0], out[0])


def test_silent():
    with place() as here, here.publisher():
        text = here.consume("silent")
    equal(text.count("still waiting for the first object of camera (spinwire is process "), 1, text)
    equal(text.count("nothing"), 2, text)


def test_document():
    """The lines of Python that docs/140 shows, with the stand-in as the spinwire that has that file."""
    page = spwlab.read(os.path.join(HERE, "..", "..", "..", "docs", "140-packet-to-tensor.md"))
    lines = re.search(r"^```python\n(.*?)^```$", page, re.S | re.M)[1]
    equal(len(lines.splitlines()), 5, lines)
    with place() as here, here.publisher():
        text = subprocess.run([PYTHON, "-c", lines], cwd=here.folder, env=here.env, capture_output=True, text=True,
                              timeout=60, check=True).stdout
    equal(text.splitlines()[:2], ["0 complete 511.5", "1 partial 1511.5"], text)
    equal(len(text.splitlines()), 20, text)


def test_own_memory():
    """Objects in a GPU's own memory, by a stand-in for its driver on both sides."""
    with place() as here:
        here.env.update(LD_LIBRARY_PATH=os.path.dirname(os.environ["SPW_FAKE_DRIVER"]),
                        SPW_CUDA_MODULE=os.environ["SPW_FAKE_MODULE"])
        with here.publisher(kind="gpu") as out:
            here.consume("own_memory")
    check("published 20," in out[0], out[0])


def test_layout():
    """What Python reads lies where C put it."""
    text = subprocess.run([PUBLISHER, "layout"], capture_output=True, text=True, check=True).stdout
    import spinwire.stream as ours  # pylint: disable=import-outside-toplevel  (tools/lib, by spwtest)
    of = {"spw_tensor_conf": ours._Conf, "spw_tensor": ours._Object, "spw_tensor_export": ours._Export,
          "spw_obj_page": ours._Page, "spw_obj_shape": ours._Shape, "spw_obj_receipt": ours._Receipt}
    rows = [re.fullmatch(r"(\w+)\.(\w+) (\d+)", line).groups() for line in text.splitlines()]
    check(len(rows) >= 16, text)
    for name, field, offset in rows:
        equal(getattr(of[name], field).offset, int(offset), f"{name}.{field}")


# ---- a spinwire that open() starts -------------------------------------------------------------------

SPINWIRE = """#!/bin/sh
# --file-prefix PREFIX ... -- --config FILE
case $* in *"bad.yaml") echo "spinwire: error: it is bad" >&2; exit 1 ;; esac
mkdir -p "$RUNTIME_DIRECTORY/dpdk/$2"
exec {publisher} "$RUNTIME_DIRECTORY/dpdk/$2/dpdk_telemetry.v2" "$7" camera 4 1000 1000
"""


def stand_in(here):
    path = spwtest.write_file(here.folder, "spinwire", SPINWIRE.format(publisher=PUBLISHER))
    os.chmod(path, 0o755)
    return path


def test_starts():
    with place() as here:
        here.consume("starts", SPINWIRE=stand_in(here))


def test_starts_in_vain():
    with place() as here:
        bad = spwtest.write_file(here.folder, "bad.yaml", "")
        text = here.consume("starts_in_vain", bad, SPINWIRE=stand_in(here))
        check("spinwire: error: it is bad" in text, text)


def killed(here, config, **more):
    process = here.start("starts", config, **more)
    child = int(until(process, "child ").split()[1])
    check(os.path.exists(f"/proc/{child}"), "it never ran")
    process.kill()
    process.wait()
    try:
        spwlab.wait_for(lambda: not os.path.exists(f"/proc/{child}"), 10, f"the end of {child}")
    finally:
        process.stdout.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def test_no_orphan():
    """kill -9 of the consumer ends the spinwire that it started."""
    with place() as here:
        killed(here, spwtest.write_file(here.folder, "stay.yaml", ""), SPINWIRE=stand_in(here))


# ---- spinwire itself: the same objects, from a capture -----------------------------------------------

OBJECTS = 6
DESCRIPTION = f"""format: counter
name: camera
set: {{ port: 4660, packets: 4, payload: 1024 }}
wire: int32
shape: [4, 256]
buffers: {OBJECTS + 2}
"""


def real_config(here, name):
    """A config of objects that are as the stand-in's."""
    rows = [struct.pack(">256i", *(n * 1000 + row * 256 + i for i in range(256)))
            for n in range(OBJECTS) for row in range(4)]
    capture = os.path.join(here.folder, "in.pcap")
    spwtest.write_pcap(capture, [udp(struct.pack(">Q", number) + row, 4660) for number, row in enumerate(rows)])
    spwtest.write_file(here.folder, "camera.yaml", DESCRIPTION)
    return spwtest.write_file(here.folder, name, f"ports: [{{ spec: 'ethdev:net_pcap0,rx_pcap={capture}', "
                              "objects: camera.yaml }]\nexecutor: { kind: inline }\n")


def test_real_starts():
    with place() as here:
        here.consume("starts", real_config(here, "camera.real.yaml"))


def test_real_interrupted():
    with place() as here:
        text = here.consume("interrupted", real_config(here, "camera.real.yaml"))
        check("second signal" not in text and "leaked" not in text, text)
        equal(os.listdir(os.path.join(here.folder, "dpdk")), [], "left of spinwire")


def test_real_no_orphan():
    with place() as here:
        killed(here, real_config(here, "stay.yaml"))


def test_real_two_consumers():
    """As two_consumers, with the spinwire that takes the buffers back."""
    with place() as here:
        config = real_config(here, "camera.real.yaml")
        owner = here.start("keeps_open", config)
        until(owner, "open")
        first = here.start("dies_holding", config)
        try:
            until(first, "holds 2")
            here.consume("second", config)
            first.kill()
            first.communicate()
            equal(here.consume("drains", config), "2 3 4 5\n", "objects after the first's death")
        finally:
            owner.terminate()
            owner.communicate(timeout=30)


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
