# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the tests of the software ConnectX: start the two ends of a third-party program under
tools/with-softhca, wait for conditions (never for a guessed time), and end every process that was started."""
import atexit
import contextlib
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), '..', '..', '..'))
sys.path[:0] = [os.path.join(ROOT, 'tools', 'lib'), os.path.join(ROOT, 'tests', 'e2e', 'kit')]
import namespace  # noqa: E402  (found by the line above)
import spwlab  # noqa: E402
import strict  # noqa: E402

SKIP = 77
# A line of perftest's table: bytes, iterations, two results. They are no numbers where it could not measure the CPU's
# clock, which happens on a busy machine ("Correlation coefficient"); with -F it goes on then, without it it fails.
PERFTEST_ROW = r'^ *(\d+) +(\d+) +(-?nan|inf|[\d.]+) +(-?nan|inf|[\d.]+)'
_alive = []
_ports = []


class Failed(Exception):
    """A condition that the test asked for did not come true."""
    ends = () # of a pair: (exit status, output) of each


def skip(why):
    print('SKIP: ' + why)
    sys.exit(SKIP)


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            skip(f'{program} is not installed')


def cpus(count):
    """Keep this process and its children on `count` cores (0: leave them all)."""
    if count:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def drop_root():
    """From here on this process and its children are nobody, who has no privilege."""
    if os.getuid() == 0:
        strict.hand_over(65534, 65534)
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
    library = os.environ.get('SPW_SOFTHCA_LIB', '')
    if not os.access(ROOT, os.X_OK) or (library and not os.access(library, os.R_OK)):
        skip('nobody may not read this folder')


def free_port(kind=socket.SOCK_STREAM):
    """A port below the range the kernel hands to clients, that nobody listens on. An abstract
    socket of that name, held until this test ends, keeps it from tests that run beside this one."""
    for port in range(20000, 30000):
        mutex, probe = socket.socket(socket.AF_UNIX), socket.socket(type=kind)
        try:
            mutex.bind(f'\0spinwire-test-port-{port}')
            probe.bind(('0.0.0.0', port))
            _ports.append(mutex)
            return port
        except OSError:
            mutex.close()
        finally:
            probe.close()
    raise Failed('no free port')


def listening(port):
    for table in ('/proc/net/tcp', '/proc/net/tcp6'):
        with open(table) as f:
            for field in map(str.split, f):
                if field[1].endswith(f':{port:04X}') and field[3] == '0A':
                    return True
    return False


class Proc:
    """A child in its own process group, its output kept in a file (or read from a terminal). Not in a session of its
    own: Linux groups tasks by session for scheduling, and spinners of one group can starve those of another for seconds
    (docs/050)."""

    def __init__(self, argv, name, env=None, tty=False, stdin=None):
        self.name, self.argv = name, argv
        self.log = tempfile.TemporaryFile(mode='w+b')
        self.master = None
        out = self.log
        if tty:
            self.master, out = os.openpty()
        self.p = subprocess.Popen(argv, stdin=stdin or subprocess.DEVNULL, stdout=out,
                                  stderr=subprocess.STDOUT, env=env, process_group=0)
        if tty:
            os.close(out)
        _alive.append(self)

    def _drain(self):
        while self.master is not None and select.select([self.master], [], [], 0)[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                data = b''
            if not data:
                os.close(self.master)
                self.master = None
            self.log.write(data)

    def output(self):
        self._drain()
        self.log.flush()
        # A descriptor of our own: the child's offset must not move.
        with open(f'/proc/self/fd/{self.log.fileno()}', 'rb') as f:
            return f.read().decode(errors='replace').replace('\r', '')

    def say(self, line):
        self.p.stdin.write((line + '\n').encode())
        self.p.stdin.flush()

    def wait(self, deadline):
        while self.p.poll() is None:
            if time.monotonic() > deadline:
                raise Failed(f'{self.name} did not end in time')
            self._drain()
            time.sleep(0.01)
        return self.p.returncode

    def wait_for(self, what, deadline):
        """what: a regular expression in the output, or a callable."""
        test = what if callable(what) else lambda: re.search(what, self.output())
        while not test():
            if self.p.poll() is not None and not test():
                raise Failed(f'{self.name} ended with {self.p.returncode} too early')
            if time.monotonic() > deadline:
                raise Failed(f'{self.name}: waited in vain for {what}')
            time.sleep(0.01)

    def stop(self):
        for sig in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.p.pid, sig)
            except ProcessLookupError:
                pass
            try:
                self.p.wait(1)
                break
            except subprocess.TimeoutExpired:
                continue


def stop_all():
    while _alive:
        _alive.pop().stop()


atexit.register(stop_all)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def report(*procs):
    for proc in procs:
        if proc:
            print(f'--- {proc.name} (exit {proc.p.poll()}): {" ".join(proc.argv)}')
            print(proc.output()[-6000:])
    sys.stdout.flush()


@contextlib.contextmanager
def together():
    """Whatever goes wrong inside, every process that was started shows its output; none of them outlives it."""
    try:
        yield
    except Exception:
        report(*_alive)
        raise
    finally:
        stop_all()


class Fabric:
    """One private cable; argv() is the command line that plugs a program into it. Every NIC has the adversary of the
    seed in $SPW_TEST_ADVERSARY, if there is one."""
    count = 0

    def __init__(self, faults=(), extra=(), cable=None):
        Fabric.count += 1
        self.name = f'spwt-{os.getpid()}-{Fabric.count}'
        self.cable = cable or f'shm:{self.name}'
        # Promiscuous, so that a test chooses its addresses freely; the test of the filter says otherwise.
        self.faults, self.extra = list(faults), ['--accept', 'all', *extra]
        if os.environ.get('SPW_TEST_ADVERSARY') and not self.cable.startswith('afpacket:'):
            self.extra += ['--adversary', os.environ['SPW_TEST_ADVERSARY']]
        if not cable:
            atexit.register(self.clean)

    def clean(self):
        try:
            os.unlink(self.shm_path())
        except FileNotFoundError:
            pass

    def shm_path(self):
        return f'/dev/shm/spinwire-{os.getuid()}-{self.name}'

    def argv(self, program, *more):
        opts = ['--cable', self.cable, *self.extra, *more]
        if self.faults:
            opts += ['--fault', ','.join(self.faults)]
        return [os.environ.get('SPW_WITH_SOFTHCA') or os.path.join(ROOT, 'tools', 'with-softhca'),
                *opts, *program]


def card(*without):
    """Options for the card that $SPW_TEST_CARD names, or `without` if it names none. Four fixed functions are mlx5_0 to
    mlx5_3, and their interfaces have the MTU that the tests' slots hold."""
    name = os.environ.get('SPW_TEST_CARD')
    if name == 'dgx-spark':
        return ['--as', name, '--name', 'mlx5_0,mlx5_1,mlx5_2,mlx5_3', '--mtu', '1500']
    return [*(['--as', name] if name else []), *without]


def env():
    e = dict(os.environ)
    e.pop('LD_PRELOAD', None)
    e['NO_COLOR'] = '1' # some get a terminal, for its lines at once; words are looked for
    return e


def pair(fabric, program, deadline, host='127.0.0.1', client_options=()):
    """Server, then client once the server listens. Returns both outputs; raises if either fails."""
    port = free_port()
    args = [program[0], '-p', str(port), *program[1:]]
    with together():
        server = Proc(fabric.argv(args), 'server', env())
        server.wait_for(lambda: listening(port), deadline)
        client = Proc(fabric.argv([*args, host], *client_options), 'client', env())
        both_end(client, server, deadline=deadline)
        return server.output(), client.output()


def enter_netns(why):
    """This test goes on in a network namespace that has two ends of a veth pair, spwt0 and spwt1, as 10.78.0.1 and
    10.78.0.2."""
    if os.geteuid() != 0:
        skip(f'needs root: a network namespace with the netdevs that {why}')
    namespace.enter(skip, '--net')
    made = subprocess.run('ip link set lo up && ip link add spwt0 type veth peer name spwt1 && ip link set spwt0 up '
                          '&& ip link set spwt1 up && ip addr add 10.78.0.1/24 dev spwt0 '
                          '&& ip addr add 10.78.0.2/24 dev spwt1', shell=True, capture_output=True, check=False)
    if made.returncode:
        skip('no veth: ' + made.stderr.decode().strip())
    for dev in ('spwt0', 'spwt1'):
        namespace.wait_for_carrier(dev)


def both_end(*procs, deadline, excused=None):
    """Each ends with status 0, or excused(process) is true of it."""
    try:
        for proc in procs:
            proc.wait(deadline)
        for proc in procs:
            if proc.p.returncode and not (excused and excused(proc)):
                raise Failed(f'{proc.name} exit status {proc.p.returncode}')
    except Failed as why:
        why.ends = [(proc.p.poll(), proc.output()) for proc in procs]
        raise


def roce_gid(fabric):
    """The index of the IPv4 RoCE v2 GID, as ibv_devinfo prints it."""
    text = run(fabric.argv(['ibv_devinfo', '-v']), 60)
    found = re.search(r'GID\[\s*(\d+)\]:\s*::ffff:[\d.]+, RoCE v2', text)
    if not found:
        raise Failed('ibv_devinfo shows no IPv4 RoCE v2 GID:\n' + text)
    return found.group(1)


def run(argv, seconds, status=0, extra_env=None):
    """Run to the end; its output. Fails unless it exits with `status`."""
    # On a terminal programs write each line at once: the last one before a hang is not lost in a buffer.
    proc = Proc(argv, os.path.basename(argv[0]), {**env(), **(extra_env or {})}, tty=True)
    with together():
        got = proc.wait(time.monotonic() + seconds)
        text = proc.output()
    if status is not None and got != status:
        print(text[-6000:])
        raise Failed(f'{" ".join(argv)}: exit status {got}, not {status}')
    return text


def main(function):
    try:
        function()
        if broken := strict.said():
            raise Failed(f'a card would not forgive:\n{broken}')
    except Failed as why:
        print(f'FAIL: {why}')
        sys.exit(1)
