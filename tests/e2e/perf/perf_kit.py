# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of spinwire-perf share: both of its ends, software ConnectX for them, and two network namespaces that
stand for two machines."""
import contextlib
import hmac
import json
import os
import re
import socket
import struct
import subprocess

import documents
import namespace
import spwtest
from spwtest import Skip, check, equal, spwlab

PERF = os.environ["SPINWIRE_PERF"]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
TOOL = os.path.join(ROOT, "tools", "with-softhca")
LIMIT_S = 120
QUICK = ["--full", "--time", "40ms", "--sizes", "64,64K"]


def cable():
    return f"shm:spw-perf-{os.getpid()}"


def card(*options, cable_name=None):
    spwtest.need_card()
    return [TOOL, "--cable", cable_name or cable(), *options]


def perf(*words, under=(), status=0, **kwargs):
    done = subprocess.run([*under, PERF, *words], capture_output=True, text=True, timeout=LIMIT_S, check=False,
                          stdin=subprocess.DEVNULL, **kwargs)
    equal(done.returncode, status, f"status of {words}\n{done.stdout}{done.stderr}")
    return done


def report(*words, **kwargs):
    got = documents.loads(perf(*words, "--json", "-", **kwargs).stdout)
    return got


def errors(done):
    return [line for line in done.stderr.splitlines() if "error: " in line]


def one_line(done, *words):
    lines = errors(done)
    equal(len(lines), 1, f"error lines in\n{done.stderr}\n")
    for word in words:
        check(word in lines[0], f"{word!r} is not in: {lines[0]}")


@contextlib.contextmanager
def server(*words, under=(), log=None, **kwargs):
    """A spinwire-perf that serves; its port."""
    with spwlab.scratch() as folder:
        path = log or os.path.join(folder, "log")
        with open(path, "wb") as out:
            process = spwlab.spawn([*under, PERF, "serve", "--port", "0", *words], stdout=out, stderr=out, **kwargs)
        try:
            found = spwlab.wait_for(lambda: re.search(r"on port (\d+)", spwlab.read(path))
                                    or process.poll() is not None, 60, "the server")
            check(found is not True, f"the server left:\n{spwlab.read(path)}")
            yield f"127.0.0.1:{found.group(1)}", process
        finally:
            spwlab.stop(process)


def rows_of(got, **want):
    return [row for row in got["rows"] if all(row["case"][key] == value for key, value in want.items())]


# ---- two namespaces ----------------------------------------------------------------------------------

def ip(*words):
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


class Pair:
    """Two network namespaces joined by a veth pair: each has its own stack and a software ConnectX on its end of the
    pair."""

    def __init__(self):
        self.names = [f"spwperf{side}{os.getpid()}" for side in "ab"]

    def __enter__(self):
        for name in self.names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", "spwp0", "netns", self.names[0], "type", "veth", "peer", "name", "spwp1", "netns",
           self.names[1])
        for side, name in enumerate(self.names):
            ip("-n", name, "addr", "add", f"10.77.0.{side + 1}/24", "dev", f"spwp{side}")
            ip("-n", name, "link", "set", f"spwp{side}", "mtu", "4200", "up")
        for side in (0, 1):
            namespace.wait_for_carrier(f"spwp{side}", self.under(side))
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)

    def under(self, side):
        return ["ip", "netns", "exec", self.names[side]]

    def card(self, side):
        spwtest.need_card()
        return [*self.under(side), TOOL, "--cable", cable(), "--netdev", f"spwp{side}", "--ip", f"10.77.0.{side + 1}"]


def need_netns():
    spwtest.need_root()
    spwtest.need("ip")
    if subprocess.run(["ip", "netns", "add", f"spwprobe{os.getpid()}"], capture_output=True, check=False).returncode:
        raise Skip("network namespaces cannot be made here")
    subprocess.run(["ip", "netns", "del", f"spwprobe{os.getpid()}"], check=False)


# ---- a stranger --------------------------------------------------------------------------------------

class Channel:
    """One end of a channel (oob/spw_oob_channel.h) of spinwire-perf's protocol, byte by byte: a client, or a server of
    one connection. secret: bytes; b"" for none."""
    MAGIC, VERSION = b"SPWF", 6

    def __init__(self, link, secret=b"", client=True, version=VERSION):
        self.link, self.secret, self.client, self.sent = link, secret, client, 0
        nonce = os.urandom(32)
        link.sendall(struct.pack(">4sHH", self.MAGIC, version, bool(secret)) + nonce)
        far = self.read(40)[8:]
        self.nonces = nonce + far if client else far + nonce

    def read(self, size):
        data = b""
        while len(data) < size:
            more = self.link.recv(size - len(data))
            if not more:
                raise ConnectionError(f"closed after {len(data)} of {size} bytes")
            data += more
        return data

    def frame(self, data):
        label = b"spinwire channel client\0" if self.client else b"spinwire channel server\0"
        text = label + self.nonces + struct.pack(">Q4sI", self.sent, self.MAGIC, self.VERSION) + data
        self.sent += 1
        mac = hmac.digest(self.secret, text, "sha256") if self.secret else bytes(32)
        return struct.pack(">I", len(data)) + data + mac

    def say(self, message):
        self.link.sendall(self.frame(message if isinstance(message, bytes) else json.dumps(message).encode()))

    def hear(self):
        size = struct.unpack(">I", self.read(4))[0]
        return documents.foreign(self.read(size + 32)[:size])


def dial(host, secret=b"", limit_s=20, version=Channel.VERSION):
    """A channel to a server."""
    link = socket.create_connection(("127.0.0.1", int(host.rpartition(":")[2])), limit_s)
    return Channel(link, secret, version=version)
