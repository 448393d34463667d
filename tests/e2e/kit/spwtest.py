# SPDX-License-Identifier: BSD-3-Clause
"""What the end-to-end tests share: running spinwire, checking what it leaves on the machine and in its summary."""
import contextlib
import glob
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

for folder in ("../../../tools/lib", "../softhca", "../spinwire", "../gen"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), folder))
import documents  # noqa: E402  (found by the lines above)
import spwlab  # noqa: E402
import stacks  # noqa: E402
import strict  # noqa: E402

SPINWIRE = os.environ["SPINWIRE"]
SKIP = 77
LIMIT_S = 60  # for one run of spinwire beyond the seconds that it was asked for
SANITIZED = "asan" in os.environ.get("SPW_VARIANT", "")


class Skip(Exception):
    """The machine lacks what the test needs; the text names it."""


def skip(why):
    raise Skip(why)


def need(*programs):
    for program in programs:
        if not spwlab.find(program):
            raise Skip(f"{program} is not installed (tools/deps test)")


def need_root():
    if os.geteuid() != 0:
        raise Skip("needs root (a network namespace of its own)")


def need_card():
    if SANITIZED or not spwlab.has_mlx5():
        raise Skip("needs spinwire's mlx5 port and a software ConnectX in front of a program without sanitizers")


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def forgiven():
    """No software ConnectX behind this test has met what a card would not forgive."""
    broken = strict.said()
    check(not broken, f"a card would not forgive:\n{broken}")


def equal(got, want, what):
    check(got == want, f"{what}: got {got!r}, expected {want!r}")


def cpu_s(process):
    """CPU time that a process has used so far."""
    fields = spwlab.read(f"/proc/{process.pid}/stat").rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


class Run:
    """One spinwire, started; finish() waits and reads the summary."""

    serial = 0

    def __init__(self, app, lcores=None, eal=(), json_file=True, env=None, no_pci=True, under=()):
        Run.serial += 1
        self.prefix = f"{spwlab.prefix('e2e')}-{Run.serial}"
        self.folder = tempfile.mkdtemp(prefix="spinwire-e2e-")
        self.out_path = os.path.join(self.folder, "out")
        self.json_path = os.path.join(self.folder, "summary.json")
        place = spwlab.Cores()
        lcores = lcores or f"0@{place.main},1@{place.receive}"
        own = [arg for arg in spwlab.eal(lcores, self.prefix, telemetry=True) if no_pci or arg != "--no-pci"]
        cmd = [*under, SPINWIRE, *own, *eal, "--", *app]
        if json_file:
            cmd += ["--json", self.json_path]
        self.cmd = cmd
        with open(self.out_path, "wb") as out:
            self.process = spwlab.spawn(cmd, stdout=out, stderr=out, env={**os.environ, **(env or {})})

    def output(self):
        return spwlab.read(self.out_path)

    def signal(self, number):
        self.process.send_signal(number)

    def wait_ready(self, seconds=60):
        """Until it receives: telemetry answers."""
        spwlab.wait_for(lambda: self.process.poll() is not None or self.telemetry("/spinwire/ledger"), seconds,
                        "spinwire")
        check(self.process.poll() is None, f"spinwire left early:\n{self.output()}")

    def end(self, seconds=LIMIT_S):
        """SIGINT, and it is gone; finish() judges it."""
        self.signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)

    def telemetry(self, command):
        return spwlab.telemetry(self.prefix, command)

    def frames(self):
        return (self.telemetry("/spinwire/ledger") or {}).get("received", 0)

    def finish(self, status=0, seconds=0):
        """Waits, checks status and remains; the summary (or None)."""
        try:
            self.process.wait(seconds + LIMIT_S)
        except Exception:
            print(stacks.of(self.process.pid))
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise AssertionError(f"spinwire did not end:\n{self.output()}") from None
        check(self.process.returncode == status,
              f"status {self.process.returncode}, expected {status}\n{' '.join(self.cmd)}\n{self.output()}")
        left = remains(self.prefix)
        check(not left, f"not removed: {left}")
        summary = None
        if os.path.exists(self.json_path):
            summary = documents.load(self.json_path)
        return summary

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for path in glob.glob(os.path.join(self.folder, "*")):
            os.unlink(path)
        os.rmdir(self.folder)
        for path in glob.glob(os.path.join(spwlab.runtime_folder(self.prefix), "*")):
            os.unlink(path)
        spwlab.forget_prefix(self.prefix)


class Terminal:
    """A command on one, and what it writes there."""

    def __init__(self, cmd):
        ours, theirs = pty.openpty()
        self.job = spwlab.spawn(cmd, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self.text = ""
        self.reader = threading.Thread(target=self._read, args=(ours,), daemon=True)
        self.reader.start()

    def _read(self, fd):
        with os.fdopen(fd, "rb", buffering=0) as stream, contextlib.suppress(OSError):
            while data := stream.read(4096):
                self.text += data.decode(errors="replace")

    def interrupt(self, pattern, what, limit_s):
        """Ctrl-C once its text matches, or it has ended; (status, text)."""
        try:
            spwlab.wait_for(lambda: self.job.poll() is not None or re.search(pattern, self.text), limit_s, what)
            self.job.send_signal(signal.SIGINT)
            return self.end()
        finally:
            spwlab.stop(self.job)

    def end(self):
        status = self.job.wait(60)
        self.reader.join(10)
        return status, self.text


def remains(prefix):
    """Files and sockets that the run with this prefix has left; other runs on the machine have other prefixes."""
    places = [os.path.join(spwlab.runtime_folder(prefix), "*"), f"/dev/hugepages/{prefix}*", f"/dev/shm/{prefix}*",
              os.path.join(tempfile.gettempdir(), f"*{prefix}*")]
    return sorted(path for place in places for path in glob.glob(place))


def balanced(summary, frames=None):
    """No frame and no slot is missing."""
    equal(summary["ledger"]["residual"], 0, f"residual of {summary['ledger']}")
    equal(summary["pool"]["leaked"], 0, "leaked slots")
    if frames is not None:
        equal(summary["ledger"]["received"], frames, "frames received")


def one_line(run, *words):
    """The error text is one line of ours that holds every word."""
    lines = [line for line in run.output().splitlines() if line.startswith("spinwire: error: ")]
    equal(len(lines), 1, f"error lines in:\n{run.output()}\n")
    for word in words:
        check(word in lines[0], f"{word!r} is not in: {lines[0]}")


# ---- captures ---------------------------------------------------------------------------------------

def _crc32c_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC32C = _crc32c_table()


def crc32c(data):
    """RFC 3720's CRC, bit-reflected."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC32C[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def ip_checksum(header):
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def udp_frame(payload, flow=0, ip_total=None, udp_len=None, proto=17, ether_type=0x0800):
    """Ethernet, IPv4, UDP with the given payload; lengths and types may be wrong on purpose."""
    udp = struct.pack("!HHHH", 1024 + flow, 9, udp_len if udp_len is not None else 8 + len(payload), 0) + payload
    total = ip_total if ip_total is not None else 20 + len(udp)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, total, flow, 0, 64, proto, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
    ip = ip[:10] + struct.pack("!H", ip_checksum(ip)) + ip[12:]
    return bytes.fromhex("020000000002020000000001") + struct.pack("!H", ether_type) + ip + udp


def trailed(payload):
    """Payload followed by its CRC32C, little-endian."""
    return payload + struct.pack("<I", crc32c(payload))


def swapped(frame):
    """What echo makes of a good frame: MAC, IP and UDP addresses change places, nothing else does."""
    return (frame[6:12] + frame[0:6] + frame[12:26] + frame[30:34] + frame[26:30] + frame[36:38] + frame[34:36]
            + frame[38:])


def write_file(folder, name, data):
    """data: bytes or text. The path."""
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)
    return path


def write_pcap(path, frames):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number, frame in enumerate(frames):
            file.write(struct.pack("<IIII", number // 1000, number % 1000 * 1000, len(frame), len(frame)) + frame)


def read_pcap(path):
    with open(path, "rb") as file:
        data = file.read()
    nano_or_micro = struct.unpack_from("<I", data)[0]
    check(nano_or_micro in (0xA1B2C3D4, 0xA1B23C4D), f"{path} is not a little-endian pcap")
    frames, at = [], 24
    while at < len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        frames.append(data[at + 16:at + 16 + length])
        at += 16 + length
    return frames


# ---- peers ------------------------------------------------------------------------------------------

@contextlib.contextmanager
def memif_peer(folder, options, core=None):
    """testpmd that owns a memif server socket; yields (socket path, process, log path)."""
    need("dpdk-testpmd")
    sock, log = os.path.join(folder, "memif.sock"), os.path.join(folder, "testpmd.log")
    core = spwlab.Cores().generator if core is None else core
    with spwlab.testpmd(core, f"net_memif0,role=server,socket={sock},socket-abstract=no", options, log) as process:
        yield sock, process, log


def memif_port(sock):
    return f"ethdev:net_memif0,role=client,socket={sock},socket-abstract=no"


# ---- running tests by name ---------------------------------------------------------------------------

def main(tests):
    """tests: {name: function}. One name on the command line runs that one; meson gives each its own time limit."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in tests:
        print("tests: " + " ".join(tests))
        sys.exit(2)
    begin = time.monotonic()
    try:
        tests[name]()
        forgiven()
    except Skip as why:
        print(f"skipped: {why}")
        sys.exit(SKIP)
    except Exception:
        traceback.print_exc()
        sys.exit(1)
    print(f"{name}: good, {time.monotonic() - begin:.1f} s")
    sys.exit(0)


def tests_of(namespace):
    return {re.sub(r"^test_", "", name): item for name, item in namespace.items() if name.startswith("test_")
            and callable(item)}
