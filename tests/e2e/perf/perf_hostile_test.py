#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spinwire-perf serve among strangers: those without its secret, those who say nothing, a second client, a client that
stops; and secrets that are none. The server measures for the next one, ends when it is told to, and says what it
refused."""
import contextlib
import os
import resource
import signal
import socket
import subprocess
import time

import spwtest
from perf_kit import LIMIT_S, PERF, card, dial, one_line, perf, server
from spwtest import check, equal, spwlab

SECRET = b"a secret of some twenty bytes"
SMALL = ["--rows", "write", "--time", "20ms", "--sizes", "64"]


@contextlib.contextmanager
def secret_file():
    with spwlab.scratch() as folder:
        path = os.path.join(folder, "secret")
        with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(SECRET)
        yield path


def begin(host, secret=b""):
    """A client that was let in, as far as to its first case."""
    client = dial(host, secret)
    client.say({"hello": "0"})
    check(isinstance(client.hear()["hello"], str), "the server's hello")
    client.say({"facts": {"cores": 1, "busy_percent": 0, "memory_max": 1}})
    check("facts" in client.hear(), "facts")
    return client


def case(**more):
    return {"case": {"op": "tcp", "latency": False, "both": False, "gpu": False, "coll": "none", "net": "one-shot",
                     "bytes": 64, "rails_mask": 1, "streams": 1, "ms": 20,
                     **more}}


def test_weak_secrets():
    """A secret that is none, or that can be guessed, is refused wherever it comes from: nothing is served."""
    for text, words in (("", "holds 0 bytes"), ("\n", "holds 0 bytes"), ("x\n", "holds 1 bytes"),
                        ("fifteen bytes..\n", "holds 15 bytes"), ("y" * 300, "holds 257")):
        done = subprocess.run([PERF, "serve", "--once", "--port", "0", "--secret", "-"], input=text,
                              capture_output=True, text=True, timeout=LIMIT_S, check=False)
        equal(done.returncode, 1, f"status for {text!r}\n{done.stdout}{done.stderr}")
        one_line(done, words, "use 16 to 256")
        check("serves" not in done.stdout, done.stdout)


def test_open_to_all():
    """Without a secret it warns of what strangers may do; with one it does not."""
    with spwlab.scratch() as folder, secret_file() as path:
        log = os.path.join(folder, "log")
        with server(log=log):
            check("warning: without --secret whoever reaches TCP port" in spwlab.read(log), spwlab.read(log))
        with server("--secret", path, log=log):
            check("warning" not in spwlab.read(log), spwlab.read(log))


def test_silent_strangers():
    """A crowd that says nothing, and goes on coming, holds nobody up."""
    with server(under=card()) as (host, process):
        address = ("127.0.0.1", int(host.rpartition(":")[2]))
        with contextlib.ExitStack() as crowd:
            for _ in range(40):
                crowd.enter_context(socket.create_connection(address))
            start = time.monotonic()
            perf(host, *SMALL, under=card())
            check(time.monotonic() - start < 30, "the client waited for strangers")
        check(process.poll() is None, "the server left")


def test_wrong_macs():
    """Who has another secret is told so, and is not listened to; a frame that was changed on the way ends the session,
    and the server goes on."""
    with secret_file() as path, server("--secret", path, under=card()) as (host, process):
        for secret in (b"", b"another one, as long as that"):
            stranger = dial(host, secret)
            with contextlib.suppress(ConnectionError):
                stranger.say({"hello": "0"})
                equal(stranger.link.recv(64), b"\xff" * 4, "the answer to a wrong MAC")
                equal(stranger.link.recv(64), b"", "the end")
        client = begin(host, SECRET)
        frame = bytearray(client.frame(b'{"case": {}}'))
        frame[6] ^= 1
        client.link.sendall(frame)
        equal(client.link.recv(64), b"", "the end")
        perf(host, "--secret", path, *SMALL, under=card())
        check(process.poll() is None, "the server left")


def test_second_client():
    """It learns at once whom the server measures with, and is served when that one has left."""
    with server(under=card()) as (host, _):
        first = begin(host)
        one_line(perf(host, *SMALL, under=card(), status=2), "measures with 127.0.0.1", "one at a time")
        first.link.close()
        spwlab.wait_for(lambda: perf_status(host) == 0, 60, "the next one")


def perf_status(host):
    return subprocess.run([*card(), PERF, host, *SMALL], capture_output=True, timeout=LIMIT_S, check=False,
                          stdin=subprocess.DEVNULL).returncode


def test_told_to_leave():
    """SIGTERM ends it while it waits: for a hello, for a case, and within one."""
    for word, answer in ((None, None), ({"hello": "0"}, "hello"), (case(), "token")):
        with server() as (host, process):
            client = begin(host) if answer == "token" else dial(host)
            if word:
                client.say(word)
                check(answer in client.hear(), f"the answer to {word}")
            process.send_signal(signal.SIGTERM)
            start = time.monotonic()
            equal(process.wait(30), 143, "status")
            check(time.monotonic() - start < 5, f"{time.monotonic() - start:.1f} s after {word}")
            if word:
                check("a signal ended spinwire-perf there" in last_word(client), f"after {word}")


def last_word(client):
    """What a server says before it closes."""
    while True:
        said = client.hear()
        if "error" in said:
            equal(client.link.recv(1), b"", "the end")
            return said["error"]


def test_why_it_ends():
    """A client learns why its session ended: of facts that are none, and with the row that the end of the server cut
    off, in its report and by its status."""
    with server(under=card()) as (host, process), spwlab.scratch() as folder:
        client = dial(host)
        client.say({"hello": "0"})
        client.say({"facts": {"memory_max": 1}})
        check("cores" in last_word(client), "which fact is missing")
        log = os.path.join(folder, "log")
        with open(log, "wb") as out:
            job = spwlab.spawn([*card(), PERF, host, "--rows", "write", "--time", "2s", "--full"], stdout=out,
                               stderr=out)
        spwlab.wait_for(lambda: " 2 B " in spwlab.read(log) or job.poll() is not None, 60, "the first row")
        process.send_signal(signal.SIGTERM)
        equal(job.wait(LIMIT_S), 4, spwlab.read(log))
        check("127.0.0.1: a signal ended spinwire-perf there: start it again" in spwlab.read(log), spwlab.read(log))


def test_no_descriptors():
    """A connection that cannot be accepted is named once and costs no core; the next one is served."""
    with spwlab.scratch() as folder, server(log=(log := os.path.join(folder, "log"))) as (host, process):
        before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, before[1]))
        with socket.create_connection(("127.0.0.1", int(host.rpartition(":")[2]))):
            spwlab.wait_for(lambda: "cannot be accepted" in spwlab.read(log), 20, "the warning")
            start = spwtest.cpu_s(process)
            time.sleep(1)
            took = spwtest.cpu_s(process) - start
            check(took < 0.25, f"{took} s of 1 s")
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)
        equal(spwlab.read(log).count("cannot be accepted"), 1, "lines")
        begin(host)


def test_words_of_a_client():
    """Names of ports and sizes are the client's: nothing but this machine's own ports is looked up, and no memory is
    taken for more than there is."""
    with server() as (host, _):
        client = begin(host)
        client.say({**case(), "ports": "../../../../etc/shadow+lo"})
        answer = client.hear()
        with socket.create_connection(("127.0.0.1", answer["port"])) as stream:
            stream.sendall(bytes.fromhex(answer["token"]))
            check(client.hear()["ready"], "ready")
        check("is no port of" in client.hear()["phy"]["unknown"], "the words of the client were looked up")
        client.say(case(latency=True, bytes=16 << 30))
        check("free memory" in client.hear()["error"], "16 GiB")


def test_silent_client():
    """A client that stops within its session is let go after a minute, and the next one is served."""
    with server(under=card()) as (host, _):
        client = begin(host)
        client.say(case(latency=True))
        answer = client.hear()
        with socket.create_connection(("127.0.0.1", answer["port"])) as stream:
            stream.sendall(bytes.fromhex(answer["token"]))
            spwlab.wait_for(lambda: perf_status(host) == 0, 100, "the next one")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
