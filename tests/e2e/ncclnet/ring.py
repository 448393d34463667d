# SPDX-License-Identifier: BSD-3-Clause
"""A job of ring.c's ranks, each on a host of its own: a network namespace with an interface to a bridge, a PID
namespace with its /proc, a host name, and a software ConnectX on the cable of the job. spinwire-doctor is run on a host
as a user runs it there, and reaches the others by a stand-in for ssh.

The software ConnectX shows its /sys to its own process only. The rank keeps it written (ring.c), and the doctor's mount
namespace has that folder at /sys: the doctor is not changed and not preloaded."""
import concurrent.futures
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

for kit in ('softhca', 'kit'):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', kit))
import documents  # noqa: E402  (found by the lines above)
import peers  # noqa: E402

DOCTOR = os.environ['SPINWIRE_DOCTOR']
ADDRESS = '10.77.0.{}'  # of host N - 1, on the bridge; .254 is the bridge, which forwards nothing
ELSEWHERE = '10.78.0.{}'  # of its second interface, which no other host reaches
SECONDS = 120
SSH = '''#!{python} -IS
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect({path!r})
s.sendall(sys.argv[sys.argv.index('spinwire-doctor') - 1].encode() + b'\\n')
got = s.makefile('rb').read()
sys.stdout.buffer.write(got)
sys.exit(0 if got else 255)
'''
# The rank's folder in place of /sys, with the control groups of the machine.
SYS = '''set -e
mount -t tmpfs none "$0"
mkdir -p "$0/fs/cgroup" "$0/class" "$0/devices"
mount --rbind /sys/fs/cgroup "$0/fs/cgroup"
mount --bind "$1/sys/class" "$0/class"
mount --bind "$1/sys/devices" "$0/devices"
mount --rbind "$0" /sys
echo up
exec sleep infinity
'''


def sh(*words):
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def enter():
    """The rest of this program runs in namespaces of its own: what it makes there ends with it."""
    peers.need('unshare', 'nsenter', 'ip')
    peers.namespace.enter(peers.skip, '--net', '--mount', user=True, needs=[
        '--pid', '--fork', '--uts', '--mount-proc', 'ip', 'link', 'add', 'br0', 'type', 'bridge'])
    sh('ip', 'link', 'set', 'lo', 'up')
    sh('ip', 'link', 'add', 'br0', 'type', 'bridge')
    sh('ip', 'addr', 'add', ADDRESS.format(254) + '/24', 'dev', 'br0')
    sh('ip', 'link', 'set', 'br0', 'up')


def children(pid):
    try:
        with open(f'/proc/{pid}/task/{pid}/children', encoding='ascii') as f:
            return [int(word) for word in f.read().split()]
    except OSError:
        return []


def below(pid):
    for child in children(pid):
        yield child
        yield from below(child)


def comm(pid):
    try:
        with open(f'/proc/{pid}/comm', encoding='ascii') as f:
            return f.read().strip()
    except OSError:
        return ''


class Host:
    """One host, and the rank on it."""

    def __init__(self, job, number):
        self.job, self.number, self.name = job, number, f'node{number}'
        self.address = ADDRESS.format(number + 1)
        self.box = peers.Proc(['unshare', '--mount', '--uts', '--pid', '--net', '--fork', '--kill-child',
                               '--mount-proc', 'sh', '-c', f'hostname {self.name}; echo up; exec sleep infinity'],
                              self.name)
        self.box.wait_for('(?m)^up$', job.deadline)
        self.init = str(next(pid for pid in children(self.box.p.pid)))
        for name, peer, address in (('v', 'eth0', self.address), ('w', 'wlan0', ELSEWHERE.format(number + 1))):
            sh('ip', 'link', 'add', f'{name}{number}', 'type', 'veth', 'peer', 'name', peer, 'netns', self.init)
            sh('ip', 'link', 'set', f'{name}{number}', 'up')
            self.run('ip', 'addr', 'add', address + ('/24' if name == 'v' else '/32'), 'dev', peer)
            self.run('ip', 'link', 'set', peer, 'up')
        sh('ip', 'link', 'set', f'v{number}', 'master', 'br0')
        self.run('ip', 'link', 'set', 'lo', 'up')
        self.run('ip', 'route', 'add', 'default', 'via', ADDRESS.format(254))
        self.rank = self.pid = self.desk = self.tree = None
        os.mkdir(f'{job.folder}/{self.name}')

    def words(self, *words, target=None):
        return ['nsenter', '--target', target or self.init, '--mount', '--uts', '--net', '--pid', '--', *words]

    def run(self, *words):
        sh(*self.words(*words))

    def start(self, *more, env):
        """The rank; it listens, and waits for commands."""
        argv = self.job.fabric.argv([self.job.program, str(self.number), str(self.job.ranks), self.job.folder, *more],
                                    '--control', f'{self.job.folder}/{self.name}/control')
        self.rank = peers.Proc(self.words(*argv), self.name, {**peers.env(), **env}, stdin=subprocess.PIPE)
        self.rank.wait_for('ready', self.job.deadline)
        self.pid = next(pid for pid in below(self.rank.p.pid) if comm(pid) == 'ncclnet_ring')
        for fd in os.listdir(f'/proc/{self.pid}/fd'):
            with contextlib.suppress(FileNotFoundError):
                path = os.readlink(f'/proc/{self.pid}/fd/{fd}')
                if '/spw-softhca-' in path and path.endswith('/sys/class/infiniband'):
                    self.tree = path.removesuffix('/sys/class/infiniband')
        os.mkdir(f'{self.job.folder}/{self.name}/sys')
        self.desk = peers.Proc(self.words('unshare', '--mount', 'sh', '-c', SYS, f'{self.job.folder}/{self.name}/sys',
                                          self.tree), f'{self.name} /sys')
        self.desk.wait_for('(?m)^up$', self.job.deadline)

    def say(self, line):
        self.rank.say(line)

    def heard(self, word, seconds=SECONDS):
        self.rank.wait_for(rf'(?m)^{word}$', time.monotonic() + seconds)

    def control(self, device, line):
        """A command for a device of the rank's software ConnectX."""
        folder = f'{self.job.folder}/{self.name}'
        path = next(f'{folder}/{name}' for name in os.listdir(folder)
                    if (name == 'control' if device == 0 else name.startswith(f'control.mlx5_{device}.')))
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(path)
            s.sendall((line + '\n').encode())
            answer = s.recv(4096).decode()
        if not answer.startswith('ok'):
            raise peers.Failed(f'{line}: {answer}')
        return answer

    def sent(self, device, seconds):
        """Bytes/s that a device of the rank's sends, over so long. The counter's unit is four bytes."""
        path = f'{self.tree}/sys/class/infiniband/mlx5_{device}/ports/1/counters/port_xmit_data'
        words = []
        for pause in (seconds, 0):
            with open(path, encoding='ascii') as f:
                words.append(int(f.read()))
            time.sleep(pause)
        return (words[1] - words[0]) * 4 / seconds

    def proxy(self):
        """The thread that moves messages, as this script's /proc has it."""
        return next(int(tid) for tid in os.listdir(f'/proc/{self.pid}/task') if comm(tid) == 'proxy')

    def doctor(self, *words, env=None):
        """Where /sys is the rank's."""
        return subprocess.run(self.words(DOCTOR, 'hang', *words, target=str(next(below(self.desk.p.pid)))),
                              capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=env)


class Job:
    """Hosts on one cable. nopage: the host without a live page; profiler: NCCL calls the profiler's tables."""

    def __init__(self, program, ranks, devices, nopage=None, profiler=True, env=None):
        self.program, self.ranks = os.path.abspath(program), ranks
        self.kept = contextlib.ExitStack()
        self.folder = self.kept.enter_context(tempfile.TemporaryDirectory(prefix='spw-ring-'))
        self.fabric = peers.Fabric(extra=['--devices', str(devices)])
        self.deadline = time.monotonic() + SECONDS
        self._ssh()
        with open(f'{self.folder}/libnccl.so.2', 'wb') as f:
            f.write(b'\n')
        self.hosts = [Host(self, n) for n in range(ranks)]
        more = [{**({'NCCL_SPINWIRE_LIVE': '0'} if n == nopage else {}), **(env or {}).get(n, {})}
                for n in range(ranks)]
        together([lambda host=host: host.start(*([] if profiler else ['noprofiler']), env=more[host.number])
                  for host in self.hosts])

    def _ssh(self):
        os.mkdir(f'{self.folder}/bin')
        with open(f'{self.folder}/bin/ssh', 'w', encoding='ascii') as f:
            f.write(SSH.format(python=sys.executable, path=f'{self.folder}/ssh.sock'))
        os.chmod(f'{self.folder}/bin/ssh', 0o755)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(f'{self.folder}/ssh.sock')
        self.listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                conn, _ = self.listener.accept()
                threading.Thread(target=self._answer, args=(conn,), daemon=True).start()

    def _answer(self, conn):
        with conn:
            name = conn.makefile('r').readline().strip()
            silent = name.removesuffix('.silent') != name
            host = next(host for host in self.hosts if host.name == name.removesuffix('.silent'))
            if not silent:
                answer = host.doctor('--save=-').stdout.encode()
                with contextlib.suppress(BrokenPipeError): # it came too late
                    conn.sendall(answer)

    def join(self):
        for host in self.hosts:
            host.say('join')
        for host in self.hosts:
            host.heard('joined')

    def ask(self, asker, silent=None, keep=None):
        """The question, on one host, with the names of the others. A host that is silent does not answer over ssh.
        Returns: (the document, its text, seconds)."""
        path = f'{self.folder}/answer-{asker}-{silent}'
        others = ','.join(host.name + ('.silent' if host.number == silent else '') for host in self.hosts
                          if host.number != asker)
        start = time.monotonic()
        got = self.hosts[asker].doctor('--hosts', others, '--json', path, '--save', keep or path + '.case', env={
            **os.environ, 'PATH': f'{self.folder}/bin:{os.environ["PATH"]}'})
        seconds = time.monotonic() - start
        if got.returncode not in (0, 1, 2) or not os.path.exists(path):
            raise peers.Failed(f'spinwire-doctor hang: {got.returncode}\n{got.stdout}{got.stderr}')
        return documents.load(path), got.stdout, seconds

    def end(self):
        for host in self.hosts:
            for proc in filter(None, (host.box, host.rank, host.desk)): # nsenter stops where its child is stopped
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(proc.p.pid, signal.SIGKILL)
                proc.wait(time.monotonic() + 10)
            for name in 'vw':
                subprocess.run(['ip', 'link', 'del', f'{name}{host.number}'], capture_output=True, check=False)
        self.listener.close()
        self.fabric.clean()
        self.kept.close()


def together(calls):
    """Calls made at the same time; their results in order."""
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        return [one.result() for one in [pool.submit(call) for call in calls]]
