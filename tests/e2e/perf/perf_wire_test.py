#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spinwire-perf between two namespaces with sshd between them, each with its own stack and its own end of a cable; and
figures that are worth nothing, because the bytes did not cross the wire or were wrong."""
import contextlib
import json
import os
import re
import socket
import struct
import subprocess
import threading

import documents
import namespace
import spwtest
from perf_kit import PERF, QUICK, TOOL, Pair, cable, card, ip, need_netns, perf, report, rows_of, server
from spwtest import Skip, check, equal, spwlab


# ---- figures that are worth nothing ------------------------------------------------------------------

def spark(pair, side, macs):
    """The card of a DGX Spark on this side's end of the veth pair. Functions 0 and 2 are the halves of one port;
    function 0 gives the card its GUID."""
    return [*pair.under(side), TOOL, "--cable", f"afpacket:spwp{side}", "--as", "dgx-spark", "--ip",
            ",".join(f"10.9.{n}.{side + 1}" for n in range(4)),
            "--mac", ",".join(f"02:53:57:00:00:{mac:02x}" for mac in macs)]


def sparks(macs, rail):
    """A run over one rail between two such cards, the client's with these MACs."""
    spwtest.need_card()
    need_netns()
    with Pair() as pair, server(under=spark(pair, 1, [1, 2, 3, 4])) as (host, _):
        return report(f"10.77.0.2:{host.rpartition(':')[2]}", "--rows", "write", "--sizes", "64,1M", "--time", "40ms",
                      "--rails", f"{rail}={rail}", status=3,
                      under=spark(pair, 0, macs))


def test_not_on_the_wire():
    """The bytes arrive, but the card takes the address for that of its own other half: its PHY counters stand still."""
    got = sparks([5, 6, 1, 7], "rocep1s0f0")
    for row in got["rows"]:
        few = row["case"]["bytes"] * row["own"]["total"] < 1 << 20
        equal(row["valid"], "valid" if few else "invalid", f"{row['table']}: {row['why']}")
        check(few or "the PHY counters moved by 0: they did not cross the wire" in row["why"], row["why"])
    check(all(row["valid"] == "invalid" for row in rows_of(got, bytes=1 << 20)), str(got["rows"]))


def test_one_card():
    """Both ends are functions of one card: nothing is proved, whatever the figures are."""
    got = sparks([1, 5, 6, 7], "rocep1s0f1")
    equal({(row["valid"], row["why"]) for row in got["rows"]}, {("invalid", "both ends are functions of one card")},
          "rows")
    equal([rail["one_card"] for rail in got["rails"]], [True], "rails")


def pass_on(source, sink, change=bytes):
    """Passes a TCP stream on, block by block as it comes."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(change(data))
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


class Between:
    """One who sits between the ends: the client's TCP streams come to him, and one bit of each is turned on the way to
    the server."""

    def __init__(self, port):
        self.turned = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.take(self.listener, port, lambda near, far: (self.start(pass_on, near, far),
                                                          self.start(self.control, far, near)))

    @staticmethod
    def start(body, *args):
        threading.Thread(target=body, args=args, daemon=True).start()

    def take(self, listener, port, serve):
        def body():
            with contextlib.suppress(OSError):
                while True:
                    near = listener.accept()[0]
                    serve(near, socket.create_connection(("127.0.0.1", port)))
        self.start(body)

    def control(self, far, near):
        """What the server says on the control connection; where it names a port for streams, his is put in its place:
        there is no secret."""
        with contextlib.suppress(OSError, struct.error), far.makefile("rb") as stream:
            near.sendall(stream.read(40))
            while True:
                text, mac = stream.read(struct.unpack(">I", stream.read(4))[0]), stream.read(32)
                message = documents.foreign(text)
                if "token" in message:
                    listener = socket.create_server(("127.0.0.1", 0))
                    self.take(listener, message["port"], self.data)
                    text = json.dumps({**message, "port": listener.getsockname()[1]}).encode()
                near.sendall(struct.pack(">I", len(text)) + text + mac)
        with contextlib.suppress(OSError):
            near.shutdown(socket.SHUT_WR)

    def data(self, near, far):
        state = {"at": 0}

        def turn(data):
            at, state["at"] = state["at"], state["at"] + len(data)
            if not at <= 20 < at + len(data):  # the token has 16 bytes
                return data
            self.turned += 1
            return data[:20 - at] + bytes([data[20 - at] ^ 1]) + data[21 - at:]
        self.start(pass_on, near, far, turn)
        self.start(pass_on, far, near)


def test_wrong_byte():
    """One bit of each TCP stream is turned: every such row is invalid, and RDMA's are not."""
    with server(under=card()) as (host, process):
        between = Between(int(host.rpartition(":")[2]))
        got = report(f"127.0.0.1:{between.port}", "--rows", "write,tcp", *QUICK, under=card(), status=3)
        between.listener.close()
        check(process.poll() is None, "the server left")
    tcp = rows_of(got, op="tcp")
    check(between.turned >= len(tcp), f"{between.turned} bits of {len(tcp)} rows were turned")
    equal({row["valid"] for row in tcp}, {"invalid"}, "rows of TCP")
    check(all("wrong bytes" in row["why"] for row in tcp), str([row["why"] for row in tcp]))
    equal({row["valid"] for row in rows_of(got, op="write")}, {"unverified"}, "rows of RDMA")


def test_tcp_unverified():
    """What TCP took is no rail, or a software device's counters are not those of its interface: the row says which."""
    with server() as (host, _):
        got = report(host, "--rows", "tcp", "--time", "20ms", status=4)
    equal({(row["valid"], row["why"]) for row in got["rows"]},
          {("unverified", "TCP goes to 127.0.0.1, which is no rail's address")}, "rows")


# ---- two machines ------------------------------------------------------------------------------------

def test_ssh():
    """--ssh starts the other end in another namespace, through its sshd; TCP takes the veth pair, RDMA the cable."""
    need_netns()
    spwtest.need("sshd", "ssh-keygen", "ssh")
    with Pair() as pair, spwlab.scratch() as folder:
        key, host_key = os.path.join(folder, "key"), os.path.join(folder, "host")
        for path in (key, host_key):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
        remote = os.path.join(folder, "spinwire-perf")
        with open(remote, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho Welcome; echo the port is 1; exec " + " ".join([*pair.card(1)[4:], PERF])
                       + ' "$@"\n')
        os.chmod(remote, 0o755)
        os.makedirs("/run/sshd", exist_ok=True)
        conf = os.path.join(folder, "conf")
        with open(conf, "w", encoding="ascii") as file:
            file.write(f"Port 2222\nListenAddress 10.77.0.2\nHostKey {host_key}\nAuthorizedKeysFile "
                       f"{key}.pub\nStrictModes no\nPermitRootLogin yes\n"
                       f"UsePAM no\nPidFile none\nSetEnv PATH={folder}:{os.environ['PATH']} "
                       f"SPW_SOFTHCA_LIB={os.environ['SPW_SOFTHCA_LIB']}\n")
        daemon = spwlab.spawn([*pair.under(1), spwlab.find("sshd"), "-D", "-e", "-f", conf],
                              stderr=open(os.path.join(folder, "sshd.log"), "wb"))
        wrap = os.path.join(folder, "ssh")
        with open(wrap, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nexec {spwlab.find("ssh")} -F /dev/null -p 2222 -i {key} -o '
                       f'UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no '
                       '-o LogLevel=ERROR "$@"\n')
        os.chmod(wrap, 0o755)
        try:
            spwlab.wait_for(lambda: "listening" in spwlab.read(os.path.join(folder, "sshd.log")), 20, "sshd")
            got = report("--ssh", "root@10.77.0.2", "--rows", "write,tcp", *QUICK, under=pair.card(0),
                         env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
        finally:
            spwlab.stop(daemon)
    tcp = rows_of(got, op="tcp")
    equal({row["method"] for row in tcp}, {"to 10.77.0.2"}, "where TCP went")
    check(rows_of(got, op="write") and not got["faults"], str(got["faults"]))


def test_bond():
    """A bond of two cables at each end: rows of 1 to 16 streams that go to its address, beside those over the rail."""
    need_netns()
    with Pair() as pair:
        ip("link", "add", "spwq0", "netns", pair.names[0], "type", "veth", "peer", "name", "spwq1", "netns",
           pair.names[1])
        for side, name in enumerate(pair.names):
            if subprocess.run(["ip", "-n", name, "link", "add", "spwb", "type", "bond", "mode", "balance-rr"],
                              capture_output=True, check=False).returncode:
                raise Skip("the kernel has no bonding driver")
            for slave in (f"spwp{side}", f"spwq{side}"):
                ip("-n", name, "addr", "flush", "dev", slave)
                ip("-n", name, "link", "set", slave, "down")
                ip("-n", name, "link", "set", slave, "master", "spwb")
            ip("-n", name, "addr", "add", f"10.79.0.{side + 1}/24", "dev", "spwb")
            ip("-n", name, "link", "set", "spwb", "up")
        for side in range(2):
            namespace.wait_for_carrier("spwb", pair.under(side))
        with server(under=pair.under(1)) as (host, _):
            got = report(f"10.79.0.2:{host.rpartition(':')[2]}", "--rows", "bond", "--time", "40ms",
                         under=pair.under(0), status=4)
    equal([row["case"]["streams"] for row in got["rows"]], [1, 2, 4, 8, 16], "streams")
    equal({row["method"] for row in got["rows"]}, {"to 10.79.0.2"}, "where they went")
    equal({bond["slaves"] for bond in got["here"]["bonds"]}, {"spwp0+spwq0"}, "slaves")
    check(all(row["valid"] == "unverified" and "spwp" in row["why"] and row["gbps"] > 0 for row in got["rows"]),
          str(got["rows"]))


def test_tcp_firewalled():
    """The rail's address takes no TCP while its RDMA works: TCP rows fail with one line, write rows are measured."""
    need_netns()
    with Pair() as pair, server(under=pair.card(1)) as (host, _):
        ip("-n", pair.names[0], "route", "add", "blackhole", "10.77.0.2/32")
        # The control connection needs another way: a second pair.
        ip("link", "add", "spwq0", "netns", pair.names[0], "type", "veth", "peer", "name", "spwq1", "netns",
           pair.names[1])
        for side in range(2):
            ip("-n", pair.names[side], "addr", "add", f"10.78.0.{side + 1}/24", "dev", f"spwq{side}")
            ip("-n", pair.names[side], "link", "set", f"spwq{side}", "up")
        for side in range(2):
            namespace.wait_for_carrier(f"spwq{side}", pair.under(side))
        done = perf(f"10.78.0.2:{host.rpartition(':')[2]}", "--rows", "write,tcp", *QUICK, under=pair.card(0), status=4)
    check(re.search(r"FAILED: no TCP connection to 10\.77\.0\.2", done.stdout), done.stdout + done.stderr)
    check(re.search(r"write, rail 1\n.*\n +64 B +[0-9.]+", done.stdout), done.stdout)


def test_busy():
    """Too few cores for the threads that poll are named before the first figure, and in the report."""
    spwtest.need_card()
    one = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    with spwlab.scratch() as folder:
        path = os.path.join(folder, "j")
        done = perf("--rows", "tcp", "--time", "40ms", "--sizes", "64", "--json", path, under=one)
        got = documents.load(path)
    found = re.search(r"^busy   \S+: 4 threads poll on 1 core\b.*; the figures suffer\n", done.stdout, re.M)
    check(found and found.end() <= done.stdout.index("\nbandwidth ") + 1, done.stdout)
    equal([got[end]["cores"] for end in ("here", "there")], [1, 1], "cores")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
