#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The recipes of examples/ci, read and run: each container is a set of namespaces (network, PID, mount, UTS, IPC) in
which a user without any capability runs what the recipe says, with the memory that Docker lets one lock and share. What
a recipe installs, and docker, kind and kubectl themselves, are not run here (tests/packages builds the image).

  github, gitlab    the steps, in one container          compose, pods    the commands, in two
  ucx, nccl         every byte between two               loss             a network that loses frames shows in counters
  tree              --tree, read without the library     cold_starts N    a container and its device, N times;
                                                         cold_starts_all: more of them"""
import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

for kit in ('softhca', 'kit'):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', kit))
import peers  # noqa: E402  (found by the lines above)

try:
    import yaml
except ImportError:
    peers.skip('python3-yaml is not installed (tools/deps test)')

RECIPES = os.path.join(peers.ROOT, 'examples', 'ci')
TOOLS = os.path.join(peers.ROOT, 'tools')
SECONDS = 600
ADDRESS = '10.79.0.{}'
LOCKED, SHARED = 8 << 20, 64 << 20 # bytes: Docker's limits for one that is not told otherwise
LOSES_EACH, ARP_BYTES = 37, 60 + 28 # a short Ethernet frame, in UDP and IPv4
COUNTERS = ('out_of_sequence', 'packet_seq_err', 'local_ack_timeout_err')
# A container: its name, its hosts file, its own /dev/shm. It ends with the process that made it.
INIT = '''hostname "$1" && ip link set lo up && mount --bind "$2" /etc/hosts &&
mount -t tmpfs -o size=$3,mode=1777 shm /dev/shm && echo up && exec sleep infinity'''


def recipe(name):
    with open(os.path.join(RECIPES, name), encoding='utf-8') as file:
        return list(yaml.safe_load_all(file))


def sh(*words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise peers.Failed(f'{" ".join(words)}: {done.stdout}{done.stderr}')
    return done.stdout


def enter():
    """The rest runs in namespaces in which it may make others: of root, or of a user as root of his own."""
    peers.need('unshare', 'nsenter', 'setpriv', 'prlimit', 'ip')
    os.environ.setdefault('SPW_CI_USER', 'root' if os.getuid() == 0 else 'user')
    peers.namespace.enter(peers.skip, '--net', '--mount', user=True, needs=[
        '--pid', '--fork', '--uts', '--ipc', '--mount-proc', 'ip', 'link', 'add', 'v0', 'type', 'veth', 'peer', 'name',
        'v1'])


class Container:
    def __init__(self, name, folder, locked=False):
        self.name, hosts = name, os.path.join(folder, 'hosts')
        self.proc = peers.Proc(['unshare', '--mount', '--uts', '--pid', '--net', '--ipc', '--fork', '--kill-child',
                                '--mount-proc', 'sh', '-c', INIT, 'sh', name, hosts, str(SHARED)], name)
        self.proc.wait_for('up', time.monotonic() + SECONDS)
        with open(f'/proc/{self.proc.p.pid}/task/{self.proc.p.pid}/children', encoding='ascii') as file:
            self.init = file.read().split()[0]
        # Root of a user namespace has no other user to become; without capabilities it has none of root's rights. Who
        # may lock more has the right that the limit does not bind, since not every root may raise the limit.
        other = os.environ['SPW_CI_USER'] == 'root'
        right = ',+ipc_lock' if locked else ''
        self.as_user = ['prlimit', f'--memlock={LOCKED}:{LOCKED}', '--', 'setpriv',
                        *(['--reuid=65534', '--regid=65534', '--clear-groups'] if other else []),
                        f'--bounding-set=-all{right}', f'--inh-caps=-all{right}', f'--ambient-caps=-all{right}',
                        '--no-new-privs', '--']

    def as_root(self, *words):
        return ['nsenter', '--target', self.init, '--mount', '--uts', '--net', '--pid', '--ipc', '--', *words]

    def start(self, argv, extra_env=None):
        env = {**peers.env(), 'PATH': f'{TOOLS}:{RECIPES}:{os.environ["PATH"]}', **(extra_env or {})}
        env.pop('TMPDIR', None)  # that of the tests is closed to other users
        into = ['sh', '-c', 'cd "$0" && exec "$@"', os.getcwd()] # nsenter leaves one in /
        return peers.Proc(self.as_root(*self.as_user, *into, *argv), f'{self.name} {argv[0]}', env)

    def run(self, argv, extra_env=None, seconds=SECONDS):
        proc = self.start(argv, extra_env)
        peers.both_end(proc, deadline=time.monotonic() + seconds)
        return proc.output()


def work_folder(kept):
    """For all users; the programs of a container run in it, beside a link to the tree, as after a checkout."""
    folder = kept.enter_context(tempfile.TemporaryDirectory(prefix='spw-ci-'))
    os.chmod(folder, 0o777)
    os.symlink(peers.ROOT, os.path.join(folder, 'spinwire'))
    os.chdir(folder)
    return folder


def containers(kept, *names, locked=False):
    """The containers of these names, on one network if they are two."""
    if locked and os.environ['SPW_CI_USER'] != 'root':
        peers.skip('needs root: a container that may lock more memory than this user')
    folder = work_folder(kept)
    with open(os.path.join(folder, 'hosts'), 'w', encoding='ascii') as file:
        file.write('127.0.0.1 localhost\n')
        file.writelines(f'{ADDRESS.format(i + 1)} {name}\n' for i, name in enumerate(names))
    made = [Container(name, folder, locked) for name in names]
    if len(made) == 2:
        sh('ip', 'link', 'add', 'eth0', 'netns', made[0].init, 'type', 'veth', 'peer', 'name', 'eth0', 'netns',
           made[1].init)
        for i, one in enumerate(made):
            sh(*one.as_root('ip', 'addr', 'add', ADDRESS.format(i + 1) + '/24', 'dev', 'eth0'))
            sh(*one.as_root('ip', 'link', 'set', 'eth0', 'up'))
        for one in made:  # UCX leaves out an interface that is not running yet
            peers.namespace.wait_for_carrier('eth0', one.as_root())
    return made


def together(server, client):
    """Processes of the two, to their ends; their outputs."""
    peers.both_end(client, server, deadline=time.monotonic() + SECONDS)
    return server.output(), client.output()


def counted(text):
    return {name: sum(map(int, re.findall(rf'hw_counters/{name}=(\d+)', text))) for name in COUNTERS}


# ---- in one container ----

def test_github():
    """A step is a script of its own; "install" and the two jobs that need Docker are left out."""
    job = recipe('github.yaml')[0]['jobs']['programs']
    lines = [step['run'] for step in job['steps'] if 'run' in step and step.get('name') != 'install']
    if len(lines) != 2:
        raise peers.Failed(f'{len(lines)} steps')
    with contextlib.ExitStack() as kept, peers.together():
        box = containers(kept, 'runner')[0]
        texts = [box.run(['bash', '-e', '-c', line]) for line in lines]
    if 'PORT_ACTIVE' not in texts[0]:
        raise peers.Failed(texts[0])
    halves(texts[1])


def test_gitlab():
    """GitLab makes one script of all lines; the first device is none of the pair's."""
    lines = recipe('gitlab.yaml')[0]['rdma']['script']
    with contextlib.ExitStack() as kept, peers.together():
        text = containers(kept, 'runner')[0].run(['sh', '-e', '-c', '\n'.join(lines)])
    halves(re.split(r'state:\s+PORT_ACTIVE', text, maxsplit=1)[1])


def halves(text, ucx=False):
    """What examples/ci/pair prints at both ends if all went well."""
    wants = {r'^hca_id:\s+mlx5_0': 2, r'state:\s+PORT_ACTIVE': 2, r'^100 iters in': 2, r'^ *8192 +500 ': 2,
             r'^ *2 +100 ': 2, r'^== ucx_perftest': 2 * ucx, r'^Final: +100 ': ucx}
    found = {want: len(re.findall(want, text, re.M)) for want in wants}
    if found != wants or re.search(r'invalid data|UCX +(ERROR|FATAL)', text):
        raise peers.Failed(f'{found} in:\n{text}')


# ---- in two ----

def pair_of(kept, sides, locked=False):
    """[(name, command)] of server and client; their containers, and a function that runs the commands."""
    boxes = containers(kept, *(name for name, _ in sides), locked=locked)
    env = {'PAIR_UCX': 'yes'} if locked else {}

    def run():
        text = ''.join(together(*(box.start(command, env) for box, (_, command) in zip(boxes, sides))))
        halves(text, locked)
        print(counted(text))
        return text
    return boxes, run


def composed(kept):
    services = recipe('compose.yaml')[0]['services']
    for name, one in services.items():
        if one.get('privileged') or one['cap_drop'] != ['ALL'] or one['ulimits'] != {'memlock': -1}:
            raise peers.Failed(f'{name} has other rights')
    return pair_of(kept, [(name, services[name]['command']) for name in ('server', 'client')], True)


def test_compose():
    with contextlib.ExitStack() as kept, peers.together():
        composed(kept)[1]()


def test_pods():
    """A pod's name is that of its host in the domain of the headless service."""
    docs = recipe('pods.yaml')
    service = next(doc for doc in docs if doc['kind'] == 'Service')
    pods = [doc['spec'] for doc in docs if doc['kind'] == 'Pod']
    if service['spec']['clusterIP'] != 'None' or {pod['subdomain'] for pod in pods} != {service['metadata']['name']}:
        raise peers.Failed('the pods have no names')
    with contextlib.ExitStack() as kept, peers.together():
        pair_of(kept, [(f'{pod["hostname"]}.{pod["subdomain"]}', pod['containers'][0]['command']) for pod in pods])[1]()


def card(peer, *more):
    return ['with-softhca', '--cable', f'udp:{peer}', '--mtu', '1400', *more]


def until_it_listens(box, port):
    """Nothing of the container's is waited for but its own table of sockets."""
    deadline = time.monotonic() + SECONDS
    while not sh(*box.as_root('ss', '-Hltn', f'sport = :{port}')).strip():
        if time.monotonic() > deadline:
            raise peers.Failed(f'nobody listens on port {port} of {box.name}')
        time.sleep(0.05)


def test_ucx():
    """io_demo checks every byte."""
    peers.need('io_demo', 'ss')
    env = {'UCX_TLS': 'rc_mlx5,ud_mlx5:aux,tcp', 'UCX_NET_DEVICES': 'mlx5_0:1,eth0'}
    program = ['io_demo', '-q', '-o', 'read,write', '-d', '64:300000', '-k', '100000', '-p', '18700']
    with contextlib.ExitStack() as kept, peers.together():
        server, client = containers(kept, 'server', 'client', locked=True)
        server.start([*card('client'), *program], env)
        until_it_listens(server, 18700)
        text = client.run([*card('server'), *program, '-i', '50', ADDRESS.format(1)], env)
    if "exit with status 'OK'" not in text or re.search('UCX +(ERROR|FATAL)|corruption|mismatch', text):
        raise peers.Failed(text)


def test_nccl():
    """Our net plugin as NCCL drives it (tests/e2e/ncclnet/rank.c), which compares every message."""
    program = os.path.abspath(sys.argv[2])  # the containers run elsewhere
    with contextlib.ExitStack() as kept, peers.together():
        boxes = containers(kept, 'recv', 'send', locked=True)
        sides = [box.start([*card(other), program, '11', box.name, os.getcwd(), '20', '70000'])
                 for box, other in zip(boxes, ('send', 'recv'))]
        for text in together(*sides):
            if 'done' not in text:
                raise peers.Failed(text)


def lose(box):
    """Makes the container's network lose what comes to it, but for ARP: each program asks once for its peer's address,
    and like Linux takes no answer in a second for an error. Returns what counts the loss."""
    peers.need('iptables')
    sh(*box.as_root('iptables', '-A', 'INPUT', '-p', 'udp', '-m', 'length', '!', '--length', str(ARP_BYTES), '-m',
                    'statistic', '--mode', 'nth', '--every', str(LOSES_EACH), '--packet', '0', '-j', 'DROP'))
    return lambda: int(sh(*box.as_root('iptables', '-nvxL', 'INPUT')).splitlines()[2].split()[0])


def test_loss():
    """A network that loses one in LOSES_EACH frames, both ways: all messages arrive, every byte is right, and a card's
    counters have it: the receiver's that a frame is missing, the sender's that it was asked for one, or heard
    nothing."""
    with contextlib.ExitStack() as kept, peers.together():
        boxes, run = composed(kept)
        lost = [lose(box) for box in boxes]
        text = run()
        lost = [count() for count in lost]
    found = counted(text)
    print('lost', lost)
    if not all(lost) or not found['out_of_sequence'] or not found['packet_seq_err'] + found['local_ack_timeout_err']:
        raise peers.Failed(f'the loss is not in the counters: {found}\n{text}')


# ---- the rest ----

def test_tree():
    """--tree: mounted at /sys, programs without the library find the device that COMMAND has."""
    with contextlib.ExitStack() as kept, peers.together():
        box = containers(kept, 'runner')[0]
        folder = os.path.join(os.getcwd(), 'tree')
        text = box.run(['with-softhca', '--tree', folder, '--as', 'cx7', 'ibv_devinfo'])
        look = ('mount --bind "$0" /sys; cd /sys/class/infiniband; ls; '
                'cat mlx5_0/node_guid mlx5_0/fw_ver mlx5_0/ports/1/state mlx5_0/device/vendor')
        shown = sh(*box.as_root('unshare', '--mount', 'sh', '-ec', look, folder)).split('\n')
        if os.path.islink(folder) or any(os.readlink(path).startswith('/') for path in links(folder)):
            raise peers.Failed('a link leads out of the folder')
        want = [re.search(rf'{name}:\s+(\S+)', text).group(1) for name in ('hca_id', 'node_guid', 'fw_ver')]
        if shown[:5] != [want[0], want[1], want[2], '4: ACTIVE', '0x15b3']:
            raise peers.Failed(f'{shown}, ibv_devinfo has {want}')
        full = box.start(['with-softhca', '--tree', folder])
        if full.wait(time.monotonic() + SECONDS) != 1 or 'must be a new or an empty folder' not in full.output():
            raise peers.Failed(f'a folder that is not empty: {full.output()}')


def links(folder):
    for top, folders, files in os.walk(folder):
        yield from (path for path in (os.path.join(top, name) for name in folders + files) if os.path.islink(path))


def test_cold_starts():
    """A container, then its device, again and again; the median is for whoever reads this, not a limit."""
    took = []
    with contextlib.ExitStack() as kept:
        folder = work_folder(kept)
        with open(os.path.join(folder, 'hosts'), 'w', encoding='ascii') as file:
            file.write('127.0.0.1 localhost\n')
        for _ in range(int(sys.argv[2])):
            start = time.monotonic()
            with peers.together():
                text = Container('runner', folder).run(['with-softhca', 'ibv_devinfo', '-v'])
            took.append(time.monotonic() - start)
            if 'PORT_ACTIVE' not in text:
                raise peers.Failed(text)
    print(f'{len(took)} cold starts: {min(took):.2f} to {max(took):.2f} s, median {statistics.median(took):.2f} s')


def main():
    enter()
    peers.need('ibv_devinfo', 'ibv_rc_pingpong', 'ib_write_bw', 'ucx_perftest')
    globals()['test_' + sys.argv[1].removesuffix('_all')]()


peers.main(main)
