#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""two_test.py PEER CASE: two processes of lib/xfer (peer.c), one of which is killed, stopped or cut off. The other one
must say so in one line, and serve the next peer; what arrives in between is compared byte by byte."""
import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'softhca'))
import peers  # noqa: E402  (found by the line above)

PEER = sys.argv[1]
# Short only where its end is what a test waits for.
EXCHANGE_MS, SHORT_EXCHANGE_MS = 20000, 2000
GONE_MS = 3000 if sys.argv[2] in ('stopped_for_long', 'tcp_cut', 'tcp_cut_and_a_rail_lost', 'rdma_cut') else 10000
WAIT_S = 60
# (rails of the server, of the client)
TWO = ('mlx5_0+mlx5_1', 'mlx5_0+mlx5_1')


class End:
    """A peer under the software ConnectX, with a control socket; prefix: what runs it (ip netns exec NAME)."""

    def __init__(self, world, role, *args, prefix=(), exchange_ms=EXCHANGE_MS):
        self.control = os.path.join(world.folder, f'{role}{world.started}')
        world.started += 1
        side = ['--name', 'mlx5_0,mlx5_1', '--control', self.control]
        argv = [*prefix, *world.fabric.argv([PEER, role, *args], *side)]
        self.proc = peers.Proc(argv, role, {**peers.env(), 'SPW_TEST_GONE_MS': str(GONE_MS),
                                            'SPW_TEST_EXCHANGE_MS': str(exchange_ms)})

    def said(self, pattern):
        return re.findall(pattern, self.proc.output(), re.M)

    def wait(self, pattern, count=1):
        """Until so many lines match; the last match."""
        self.proc.wait_for(lambda: len(self.said(pattern)) >= count, time.monotonic() + WAIT_S)
        if self.said('^wrong'):
            raise peers.Failed(f'{self.proc.name}: {self.said("^wrong.*")[0]}')
        return self.said(pattern)[-1]

    def messages(self):
        counts = self.said(r'^messages (\d+)')
        return int(counts[-1]) if counts else 0

    def wait_messages(self, more=20):
        """Until so many more messages arrived."""
        begin = self.messages()
        self.proc.wait_for(lambda: self.messages() >= begin + more, time.monotonic() + WAIT_S)

    def ended(self, error, text, count=1):
        """Until the connection ended with this error, described by this text."""
        line = self.wait(r'^ended .*', count)
        if not line.startswith(f'ended {error} ') or text not in line:
            raise peers.Failed(f'{self.proc.name}: "{line}", not {error} and "{text}"')
        return line

    def fault(self, line):
        """To both of its devices. Their answers."""
        return [peers.spwlab.nic_ask(path, line)
                for path in (self.control, f'{self.control}.mlx5_1.{self.proc.p.pid}')]

    def wait_links(self):
        """Until both links are up."""
        self.proc.wait_for(lambda: all(' link=1 ' in f' {answer} ' for answer in self.fault('status')),
                           time.monotonic() + WAIT_S)

    def signal(self, number):
        os.kill(self.proc.p.pid, number)


class World:
    """A cable, a server that stays, and clients that come and go."""

    def __init__(self, folder, bind='127.0.0.1:0', prefix=((), ())):
        self.folder, self.prefix, self.bind, self.started = folder, prefix, bind, 0
        self.fabric = peers.Fabric()
        self.server = None

    def serve(self, *more):
        self.server = End(self, 'serve', TWO[0], self.bind, *more, prefix=self.prefix[0])
        self.handle = self.server.wait(r'^handle (\w+)')
        return self.server

    def client(self, *more, exchange_ms=EXCHANGE_MS):
        return End(self, 'connect', TWO[1], self.handle, *more, prefix=self.prefix[1], exchange_ms=exchange_ms)

    def pair(self, *more):
        """Server and client, messages flowing (idle: not)."""
        server, client = self.serve(*more), self.client(*more)
        client.wait('^up 2')
        server.wait('^up 2')
        if not more:
            server.wait_messages()
            client.wait_messages()
        return server, client

    def next_peer(self):
        """The server serves another client."""
        ups = len(self.server.said('^up'))
        client = self.client()
        client.wait('^up 2')
        self.server.wait('^up 2', ups + 1)
        client.wait_messages()
        client.signal(signal.SIGKILL)


# ---- killed ----

def client_killed(world):
    server, client = world.pair()
    client.signal(signal.SIGKILL)
    server.ended(104, 'the peer closed the connection, or died')
    world.next_peer()


def client_killed_idle(world):
    server, client = world.pair('idle')
    client.signal(signal.SIGKILL)
    server.ended(104, 'the peer closed the connection, or died')


def server_killed(world):
    server, client = world.pair()
    server.signal(signal.SIGKILL)
    client.ended(104, 'the peer closed the connection, or died')


def killed_while_connecting(world):
    """After any number of milliseconds; the server serves the next one."""
    world.serve()
    for ms in (5, 20, 50, 80, 120, 160, 200, 300):
        client = world.client()
        time.sleep(ms / 1000)
        client.signal(signal.SIGKILL)
    world.next_peer()
    if world.server.said('protocol'):
        raise peers.Failed('a client that died was taken for one that breaks the protocol')


def killed_while_a_rail_is_down(world):
    server, client = world.pair()
    server.fault('link-down=400ms')
    client.signal(signal.SIGKILL)
    server.ended(104, 'the peer closed the connection, or died')
    server.wait_links()
    world.next_peer()


# ---- stopped ----

def stopped_for_a_moment(world):
    """A second without a core, the emulated NIC's included: retries run out, rails fail and come back, nothing is
    lost."""
    server, client = world.pair()
    for end, other in ((client, server), (server, client)):
        end.signal(signal.SIGSTOP)
        time.sleep(1.2)
        end.signal(signal.SIGCONT)
        end.wait_messages()
        other.wait_messages()
    if server.said('^ended') or client.said('^ended'):
        raise peers.Failed('the connection ended')


def stop_under_way(server, client):
    """Stops the client while the server's NIC has sent it something. Where all was acknowledged, and the server waits
    for a grant, nothing is lost by the stop, and the connection lives on."""
    for _ in range(10):
        client.signal(signal.SIGSTOP)
        with contextlib.suppress(peers.Failed):
            server.proc.wait_for(lambda: server.said('^ended'), time.monotonic() + 3 * GONE_MS / 1000)
            return
        client.signal(signal.SIGCONT)
        client.wait_messages()
    raise peers.Failed('the server never had anything under way')


def stopped_for_long(world):
    server, client = world.pair()
    stop_under_way(server, client)
    server.ended(110, f'for {GONE_MS} ms')
    client.signal(signal.SIGCONT)
    client.wait('^ended .*')
    world.next_peer()


def stopped_before_it_answers(world):
    world.serve()
    world.server.signal(signal.SIGSTOP)
    client = world.client(exchange_ms=SHORT_EXCHANGE_MS)
    client.ended(110, f'no answer in {SHORT_EXCHANGE_MS} ms')
    world.server.signal(signal.SIGCONT)
    world.next_peer()


# ---- cut off ----

def drop(namespace, verb):
    """iptables in a namespace: -A drops all its TCP, -D lets it through. Both ways: the end that gives up first sends a
    reset, which the other would take for a peer that died."""
    for program, chain in itertools.product(('iptables', 'ip6tables'), ('OUTPUT', 'INPUT')):
        subprocess.run(['ip', 'netns', 'exec', namespace, program, verb, chain, '-p', 'tcp', '-j', 'DROP'], check=True)


def tcp_cut(world):
    """RDMA carries on, and when TCP has had no answer for long enough the connection ends."""
    server, client = world.pair()
    drop(world.names[1], '-A')
    server.wait_messages()
    client.wait_messages()
    client.ended(110, 'TCP has no answer')
    server.ended(110, 'TCP has no answer')
    drop(world.names[1], '-D')
    world.next_peer()


def tcp_cut_and_a_rail_lost(world):
    """What waits for the peer's word over TCP does not wait for ever."""
    server, client = world.pair()
    drop(world.names[1], '-A')
    server.fault('link-down=100ms')
    server.ended(110, f'for {GONE_MS} ms')
    drop(world.names[1], '-D')
    client.wait('^ended')
    world.next_peer()


def tcp_cut_before(world):
    world.serve()
    drop(world.names[1], '-A')
    client = world.client(exchange_ms=SHORT_EXCHANGE_MS)
    client.ended(110, f'no answer in {SHORT_EXCHANGE_MS} ms')
    drop(world.names[1], '-D')
    world.next_peer()


def rdma_cut(world):
    """TCP works, no frame of RDMA does."""
    server, client = world.pair()
    client.fault('fault loss=1')
    client.ended(110, f'for {GONE_MS} ms')
    server.wait('^ended')
    world.next_peer()


def rdma_cut_before(world):
    server = world.serve()
    server.fault('fault loss=1')
    client = world.client(exchange_ms=5000)  # rails are tried as long as it lasts
    line = client.ended(101, 'no rail leads there (mlx5_0')
    if 'mlx5_1: ' not in line or not line.endswith(')'):
        raise peers.Failed(f'the reason of each rail, whole: {line}')
    server.fault('fault loss=0')
    world.next_peer()


def ipv6(world):
    world.pair()


# ---- together with others ----

def beside_ucx(world):
    """UCX over two rails on the same cable at the same time: each carries all of its own messages."""
    peers.need('ucx_perftest')
    server, client = world.pair()
    port, deadline, begin = peers.free_port(), time.monotonic() + 150, server.messages()
    env = {**peers.env(), 'UCX_TLS': 'rc_mlx5,ud_mlx5:aux', 'UCX_NET_DEVICES': 'mlx5_0:1,mlx5_1:1',
           'UCX_MAX_RNDV_RAILS': '2'}
    program = ['ucx_perftest', '-p', str(port), '-t', 'tag_bw', '-s', '1000000', '-n', '100', '-w', '20']
    ends = [peers.Proc(world.fabric.argv(program, '--name', 'mlx5_0,mlx5_1'), 'UCX server', env)]
    ends[0].wait_for(lambda: peers.listening(port), deadline)
    ends.append(peers.Proc(world.fabric.argv([*program, '127.0.0.1'], '--name', 'mlx5_0,mlx5_1'), 'UCX client', env))
    peers.both_end(*ends, deadline=deadline)
    if not re.search(r'^Final: +100', ends[1].output(), re.M) or 'UCX  ERROR' in ends[1].output():
        raise peers.Failed('UCX has not sent all of its messages')
    print(f'{server.messages() - begin} messages beside 100 of UCX')
    if server.messages() == begin:
        raise peers.Failed('no message arrived beside UCX')
    server.wait_messages()
    client.wait_messages()
    if server.said('^ended') or client.said('^ended'):
        raise peers.Failed('the connection ended')


# ---- limits ----

def locked_memory(world):
    """64 KiB of locked memory, as a fresh Debian has it: refused with the remedy."""
    prefix = ['prlimit', '--memlock=65536:65536']
    if os.getuid() == 0:
        prefix += ['setpriv', '--bounding-set=-ipc_lock', '--inh-caps=-ipc_lock']
    end = End(world, 'serve', TWO[0], world.bind, prefix=prefix)
    line = end.wait(r'^(?:open|register|listen).*')
    print(line)
    if not re.search('ulimit -l|memlock|locked memory', line):
        raise peers.Failed(f'no remedy in: {line}')


CASES = {f.__name__: f for f in (client_killed, client_killed_idle, server_killed, killed_while_connecting,
                                 killed_while_a_rail_is_down,
                                 stopped_for_a_moment, stopped_for_long, stopped_before_it_answers, rdma_cut,
                                 rdma_cut_before, beside_ucx, locked_memory)}
APART = {f.__name__: f for f in (tcp_cut, tcp_cut_and_a_rail_lost, tcp_cut_before, ipv6)}


@contextlib.contextmanager
def namespaces():
    """Two of them, a veth between, addresses of both kinds: each has a TCP of its own."""
    if os.getuid() or not shutil.which('ip') or not shutil.which('iptables'):
        peers.skip('two network namespaces need root, iproute2 and iptables')
    names = [f'spwx{os.getpid()}{side}' for side in 'ab']
    try:
        for name in names:
            if subprocess.run(['ip', 'netns', 'add', name], capture_output=True).returncode:
                peers.skip('network namespaces cannot be made here')
        subprocess.run(['ip', 'link', 'add', 'v0', 'netns', names[0], 'type', 'veth', 'peer', 'name', 'v0', 'netns',
                        names[1]], check=True)
        for i, name in enumerate(names):
            for line in (f'addr add 10.9.0.{i + 1}/24 dev v0', f'addr add fd00:9::{i + 1}/64 dev v0 nodad',
                         'link set v0 up', 'link set lo up'):
                subprocess.run(['ip', '-n', name, *line.split()], check=True)
        yield names
    finally:
        for name in names:
            subprocess.run(['ip', 'netns', 'del', name], capture_output=True)


def main():
    name = sys.argv[2]
    with tempfile.TemporaryDirectory(prefix='spw-') as folder, peers.together():
        if name in CASES:
            CASES[name](World(folder))
            return
        with namespaces() as names:
            bind = '[fd00:9::1]:0' if name == 'ipv6' else '10.9.0.1:0'
            world = World(folder, bind, [['ip', 'netns', 'exec', n] for n in names])
            world.names = names
            APART[name](world)
            peers.stop_all()


if __name__ == '__main__':
    peers.main(main)
