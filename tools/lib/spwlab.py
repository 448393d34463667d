# SPDX-License-Identifier: BSD-3-Clause
"""What the main job and the end-to-end tests share: cores, EAL arguments, and processes that never outlive their
parent."""
import argparse
import contextlib
import ctypes
import functools
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import typing

from spwtel import runtime_folder, runtime_top, telemetry

TOOLS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INSTALLED = os.path.basename(TOOLS) != "tools"  # PREFIX/share/spinwire, with the programs in PREFIX/bin
PREFIX = os.path.normpath(os.path.join(TOOLS, "..", ".."))
WITH_SOFTHCA = os.path.join(PREFIX, "bin", "with-softhca") if INSTALLED else os.path.join(TOOLS, "with-softhca")
BUILD = os.path.join(TOOLS, "..", "build")
SOFTHCA = "libspinwire-softhca.so"
TESTPMD = "dpdk-testpmd"
EXE_FOLDERS = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def program(name):
    """Path of one of ours: SPINWIRE, SPINWIRE_GEN name another than the one in build/, or beside the installed tool."""
    place = os.path.join(PREFIX, "bin", name) if INSTALLED else os.path.join(BUILD, "app", name, name)
    return os.environ.get(name.upper().replace("-", "_"), os.path.normpath(place))


def _build():
    """Installs what is missing and compiles. Ctrl-C is the builder's to answer: it prints how far it was."""
    was = signal.signal(signal.SIGINT, lambda *_: None)
    status = subprocess.run([os.path.join(TOOLS, "lib", "build_tree")], check=False).returncode
    signal.signal(signal.SIGINT, was)
    if status:
        sys.exit(status)


def parsed(arguments, runs):
    """What arguments(names of spinwire's options, its program) returns. In a source tree what the sources can refuse is
    refused before anything is built; the programs, built if runs(args), check the rest."""
    if not INSTALLED and "SPINWIRE" not in os.environ:
        got = arguments(source_options(), None)
        if not runs(got[0]):
            return got
        _build()
    return arguments(options_of("spinwire"), program("spinwire"))


def softhca_lib():
    """The software ConnectX of the build that spinwire comes from, or the installed one; SPW_SOFTHCA_LIB names
    another."""
    if os.environ.get("SPW_SOFTHCA_LIB"):
        return os.environ["SPW_SOFTHCA_LIB"]
    if INSTALLED:
        found = glob.glob(os.path.join(PREFIX, "lib*", "spinwire",
                                       SOFTHCA)) + glob.glob(os.path.join(PREFIX, "lib*", "*", "spinwire", SOFTHCA))
        return found[0] if found else ""
    return os.path.normpath(os.path.join(os.path.dirname(program("spinwire")), "..", "..", "lib", "softhca", SOFTHCA))


def called(name):
    """What this tool is called: tools/NAME, or spinwire-NAME once it is installed."""
    own = os.path.basename(sys.argv[0])
    return own if own.startswith("spinwire-") else f"tools/{name}"


def find(program):
    """Full path, or None; tools of administrators live outside a user's PATH."""
    return shutil.which(program, path=EXE_FOLDERS)


def doctor():
    """spinwire-doctor of the build that spinwire comes from, or the installed one; SPINWIRE_DOCTOR names another."""
    name = "spinwire-doctor"
    beside = os.path.join(os.path.dirname(program("spinwire")), *([] if INSTALLED else ["..", name]), name)
    return os.environ.get("SPINWIRE_DOCTOR", os.path.normpath(beside))


@functools.cache
def pick(near=None):
    """[main, worker, worker...]: the cores that this process may use, in the order in which lib/plat picks them: those
    near a NIC, fast, isolated come first among the workers, and the main lcore's is the one that serves a worker worst.
    Cut to the CPU quota."""
    command = [doctor(), "cores", "8192", *(["--near", near] if near else [])]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                              check=False)
    except FileNotFoundError:  # a build without it (-Dmlx5dv=disabled)
        return sorted(os.sched_getaffinity(0))
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with status {done.returncode}: {done.stderr.strip()}")
    return [int(word) for word in done.stdout.split()]


def cores():
    """Cores that this process may use, the best for a thread that spins first."""
    main, *workers = pick()
    return [*workers, main]


class Cores:
    """Who spins where: the receive lcore, the generator and the executor spin, the two main lcores sleep. nics: the
    path has two threads that spin as well, the sink's and the source's; they come before an executor of its own. near:
    a NIC."""

    def __init__(self, nics=False, near=None):
        spare, *have = pick(near)
        if len(have) < (5 if nics else 3):  # no core is left for those that sleep
            have.append(spare)
            spare = None
        own = iter(have[2:])
        self.receive = have[0]
        self.generator = have[1 % len(have)]
        self.nics = ((next(own), next(own)) if len(have) >= 4 else (None, None)) if nics else ()
        self.executor = next(own, None)
        self.main = self.source_main = self.generator if spare is None else spare
        if self.main == self.generator and self.nics and self.nics[0] is not None:
            # not beside its own NIC thread, whose clock it reads
            self.main, self.source_main = self.nics[1], self.nics[0]
        self.cnt = len(have) + (spare is not None)

    def spinwire(self):
        lcores = f"0@{self.main},1@{self.receive}"
        return lcores + (f",2@{self.executor}" if self.executor is not None else "")

    def source(self):
        return f"0@{self.source_main},1@{self.generator}"

    def spinning(self):
        """Cores whose own jitter a frame meets."""
        return sorted({self.generator, self.receive, *self.nics, self.executor} - {None})

    def few(self):
        """Whether those that spin share cores: rates and tails then say more about the scheduler."""
        return self.cnt < 2 + len(self.nics)

    def text(self):
        third = f"executor {self.executor}" if self.executor is not None else "executor inline (no core to spare)"
        nics = ""
        if self.nics:
            nics = ", two NIC threads " + ("beside them" if self.nics[0] is None else "on {} and {}".format(*self.nics))
        return f"{self.cnt} cores: generator {self.generator}, receive {self.receive}{nics}, {third}"


def prefix(role):
    return f"spinwire-{role}-{os.getpid()}"


def eal(lcores, file_prefix, mem_mb=128, telemetry=False):
    """EAL without hugepages, PCI or root."""
    args = ["--lcores", lcores, "--no-huge", "-m", str(mem_mb), "--no-pci", "--no-shconf", "--file-prefix", file_prefix]
    return args + ([] if telemetry else ["--no-telemetry"])


class Path(typing.NamedTuple):
    """What joins a source and a sink: the port of each end, and what their commands begin with."""
    name: str
    text: str
    source_port: str
    sink_port: str
    source_wrap: tuple = ()
    sink_wrap: tuple = ()
    source_args: tuple = ()
    leftovers: tuple = ()  # files of a sink that was killed, in the way of the next
    nics: tuple = ()       # control sockets of the source's and the sink's software ConnectX


def memif_path(folder):
    """Two processes, one copy each way by DPDK's net_memif, a socket in folder. The sink is the server: it is there
    first."""
    sock = os.path.join(folder, "path.sock")
    port = f"ethdev:net_memif0,role={{}},socket={sock},socket-abstract=no"
    return Path("memif", "DPDK's net_memif between two processes", port.format("client"), port.format("server"),
                leftovers=(sock,))


def user_rights():
    """The beginning of a command with rights over software devices: a user namespace, unless root asks. OSError: none
    may be made, and what allows it."""
    if os.geteuid() == 0:
        return ()
    done = subprocess.run(["unshare", "-r", "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60, check=False)
    if done.returncode:
        raise OSError(f"{done.stderr.strip()}: software devices need a user namespace, unless you are root; on Ubuntu "
                      "24.04: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0")
    # EAL takes the user of that namespace for root, who has another runtime folder.
    return ("unshare", "-r", "env", f"RUNTIME_DIRECTORY={os.path.dirname(runtime_top())}")


def softhca_path(place, folder):
    """spinwire's own mlx5 ports on two software ConnectX. Each NIC thread has a core of its own, if there are so many.
    Raw queues and locked memory need rights, as with a card: whoever is not root gets them in a user namespace."""
    rights = user_rights()
    lib = f"SPW_SOFTHCA_LIB={softhca_lib()}"
    nics = tuple(os.path.join(folder, f"{name}.nic") for name in ("source", "sink"))

    def wrap(core, mac, nic):
        own_core = () if core is None else ("--nic-cpu", str(core))
        return (*rights, "env", lib, WITH_SOFTHCA, "--cable", f"shm:{prefix('run')}", "--mac", mac, "--control", nic,
                *own_core)

    sink_core, source_core = place.nics
    # The MACs are those that spinwire-gen sends from and to, unless options say otherwise.
    source, sink = wrap(source_core, "02:00:00:00:00:01", nics[0]), wrap(sink_core, "02:00:00:00:00:02", nics[1])
    return Path("softhca", "mlx5 ports of spinwire's own on software ConnectX, a cable in shared memory",
                "mlx5:mlx5_0,mode=eth", "mlx5:mlx5_0,mode=eth",
                source, sink, nics=nics)


def nic_ask(path, line, seconds=30):
    """A command to a software ConnectX on its control socket (--control PATH): its answer, without the "ok".
    ValueError: it refuses, in its own words; OSError: it is not there."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(seconds)
        link.connect(path)
        link.sendall(line.encode() + b"\n")
        with link.makefile() as answers:
            answer = answers.readline()
    if not answer.startswith("ok"):
        raise ValueError(f"{path}: {line}: {answer}")
    return answer[2:].strip()


def nic_pairs(path, line, seconds=30):
    """As nic_ask, of an answer that is "name=value ...": a dictionary of words."""
    return dict(word.split("=") for word in nic_ask(path, line, seconds).split())


def nic_thread(path):
    """{"naps": ..., "late_us": ...}: what the thread of a software ConnectX says of itself on its control socket; {} if
    it does not."""
    try:
        return {name: int(value) for name, value in nic_pairs(path, "thread", 2).items()}
    except (OSError, ValueError):
        return {}


def device_mac(device):
    """Of an RDMA device's network interface; None if there is none."""
    for path in sorted(glob.glob(f"/sys/class/infiniband/{device}/device/net/*/address")):
        return read(path).strip()
    return None


def port_of(device):
    """What two functions of one physical port have in common: the adapter and the name of its port; None if that is
    unknown."""
    for netdev in sorted(glob.glob(f"/sys/class/infiniband/{device}/device/net/*")):
        try:
            return (read(f"/sys/class/infiniband/{device}/sys_image_guid").strip(),
                    read(f"{netdev}/phys_port_name").strip())
        except OSError:
            continue
    return None


def one_port(device, peer):
    """Whether two devices are known to be one, or functions of one physical port."""
    return device == peer or (port_of(device) is not None and port_of(device) == port_of(peer))


def is_software(device):
    """Whether an RDMA device is the software ConnectX, by a file that no card has."""
    return os.path.exists(f"/sys/class/infiniband/{device}/enforced_mbps")


def own_card(core):
    """The beginning of a command whose software ConnectX is there from outside: rights as for those of softhca_path,
    and a core for its NIC thread, if there is one and with-softhca has no --nic-cpu."""
    options = os.environ.get("SPW_SOFTHCA", "")
    return (*user_rights(), *(() if core is None or "nic-cpu=" in options else
                              ("env", f"SPW_SOFTHCA={options}nic-cpu={core};")))


def device_path(device, peer, sink_wrap=(), source_wrap=()):
    """Devices by name: spinwire on one, the source on the other (or on the same one, whose own loopback then joins
    them)."""
    macs = [device_mac(name) for name in (peer, device)]
    extra = ("--src-mac", macs[0], "--dst-mac", macs[1]) if all(macs) else ()
    text = f"spinwire's mlx5 port on {device}, the source on {peer}"
    if one_port(device, peer):
        text += (": one physical port, so frames turn round inside the NIC and NO CABLE is tested (--peer names the "
                 "device at its other end)")
    # The rest stays with the kernel: the source's addresses and port are spinwire-gen's own.
    return Path("device", text, f"mlx5:{peer},mode=eth,ipv4=198.18.0.1", f"mlx5:{device},mode=eth,udp=5357",
                source_wrap, sink_wrap, source_args=extra)


def between(low, high, what=float):
    """For argparse: a number in that range, or a one-line error."""
    def number(text):
        value = what(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text} is not from {low:g} to {high:g}")
        return value
    number.__name__ = "number"
    return number


def add_path_options(parser):
    """Which path a tool takes; choose_path() reads them."""
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--ethdev", action="store_true", help="by DPDK's net_memif instead of software ConnectX")
    one.add_argument("--device", metavar="NAME", help="real RDMA devices: spinwire's, as in mlx5_0 ...")
    parser.add_argument("--peer", metavar="NAME", help="... and the source's (default: the same one)")


def check_path_options(parser, args):
    """What is wrong with them is better known before anything has started."""
    if args.peer and not args.device:
        parser.error("--peer is the other end of --device NAME, which is missing")
    there = sorted(os.path.basename(path) for path in glob.glob("/sys/class/infiniband/*"))
    for option, name in (("--device", args.device), ("--peer", args.peer)):
        if name and name not in there:
            parser.error(f"{option} {name}: no such RDMA device; there "
                         f"{'are ' + ', '.join(there) if there else 'is none'} (ibv_devices lists them)")


@functools.cache
def _help_of(path):
    return subprocess.run([path, "--help"], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=60,
                          check=False).stdout


def help_of(name):
    """What one of our programs prints for --help; "" if it is not there."""
    try:
        return _help_of(program(name))
    except OSError:
        return ""


def options_of(name):
    """Names of its options."""
    return set(re.findall(r"--[a-z][a-z-]*", help_of(name)))


def source_options():
    """The same of spinwire, from the tables that it is compiled from."""
    tables = (read(os.path.join(TOOLS, "..", path)) for path in ("lib/conf/keys.c", "lib/opt/spw_opt.h",
                                                                 "app/spinwire/args.c"))
    names = {f"--{name}" for table in tables for name in re.findall(r'\.name = "([a-z-]+)"', table)}
    return names - {"--spinwire"} | {"--help", "--help-all", "--version"}  # the program's own name is in a table, too


def has_mlx5():
    """Whether spinwire was built with its mlx5 port and the software ConnectX is there."""
    return (os.path.exists(softhca_lib())
            and re.search(r"^port drivers\b.*: .*\bmlx5\b", help_of("spinwire"), re.M) is not None)


def choose_path(args, folder):
    """(Path, Cores) by add_path_options; files go to folder."""
    if args.device:
        place = Cores(nics=is_software(args.device), near=args.device)
        return device_path(args.device, args.peer or args.device, *map(own_card, place.nics)), place
    if args.ethdev:
        return memif_path(folder), Cores()
    if not has_mlx5():
        path = memif_path(folder)
        return path._replace(text=f"{path.text}: this build has no mlx5 port, or {SOFTHCA} is missing"), Cores()
    place = Cores(nics=True)
    return softhca_path(place, folder), place


def forget_prefix(file_prefix):
    """Removes the runtime folder that EAL leaves, and what a program that was killed left in it."""
    shutil.rmtree(runtime_folder(file_prefix), ignore_errors=True)


def wait_for(condition, seconds, what):
    """Polls condition() until true; its value. TimeoutError names what was waited for."""
    end = time.monotonic() + seconds
    while True:
        got = condition()
        if got:
            return got
        if time.monotonic() > end:
            raise TimeoutError(f"waited {seconds} s for {what}")
        time.sleep(0.02)


def _tie_to_parent():
    os.setpgid(0, 0)
    # a background shell has it ignored, and the wrappers' sh cannot change that
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def spawn(cmd, **kwargs):
    """A process in a group of its own that heeds SIGINT and is killed when this one dies."""
    return subprocess.Popen(cmd, stdin=subprocess.DEVNULL, preexec_fn=_tie_to_parent, **kwargs)


def signal_name(number):
    """SIGSEGV (Segmentation fault), or the number of one without a name."""
    try:
        return f"{signal.Signals(number).name} ({signal.strsignal(number)})"
    except ValueError:
        return f"signal {number}"


def last_words(path):
    """The last error in a log, or its last line, to append to a sentence."""
    lines = [line for line in read(path).splitlines() if line.strip()] if os.path.exists(path) else []
    errors = [line for line in lines if "error:" in line]
    return f": {(errors or lines)[-1]}" if lines else ", and printed nothing"


def left_with(name, status, log):
    """One sentence on how a program ended."""
    how = f"was ended by {signal_name(-status)}" if status < 0 else f"left with status {status}"
    return f"{name} {how}{last_words(log)}"


def stop(process, seconds=20):
    """SIGINT, then a bounded wait, then SIGKILL. Returns the exit status."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return process.returncode


@contextlib.contextmanager
def scratch():
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="spinwire-") as folder:
        yield folder


@contextlib.contextmanager
def testpmd(core, vdev, options, log_path, ready_seconds=30):
    """The distribution's own dpdk-testpmd, forwarding on one core; yields once it forwards."""
    program = find(TESTPMD)
    if not program:
        raise FileNotFoundError("dpdk-testpmd is not installed (tools/deps run)")
    role = prefix("peer" + os.path.basename(log_path).split(".")[0])
    cmd = [program, *eal(f"0@{core},1@{core}", role), "--vdev", vdev, "--", "--stats-period", "1",
           "--total-num-mbufs=8192", "--no-mlockall", *options]
    with open(log_path, "wb") as log:
        process = spawn(cmd, stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for(lambda: process.poll() is not None or "Port statistics" in read(log_path)
                 or "NIC statistics" in read(log_path), ready_seconds, "testpmd to forward")
        if process.poll() is not None:
            raise RuntimeError(f"testpmd left with {process.returncode}:\n{read(log_path)[-2000:]}")
        yield process
    finally:
        stop(process)
        forget_prefix(role)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
