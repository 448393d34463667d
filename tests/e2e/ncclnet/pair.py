#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""pair.py RANK CASE...: the net plugin between two processes, each with software devices of its own on one cable; RANK
is rank.c."""
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

for kit in ('softhca', 'kit'):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', kit))
import documents  # noqa: E402  (found by the lines above)
import livepage  # noqa: E402
import peers  # noqa: E402

RANK = sys.argv[1]
SECONDS = 60


def check(good, what):
    if not good:
        raise peers.Failed(what)


class Pair:
    """A sender and a receiver that have been started; version: the plugin API of the receiver and of the sender."""

    def __init__(self, count, size, devices=2, version=(11, 11), env=(), sender_env=(), faults=()):
        self.folder = tempfile.TemporaryDirectory(prefix='spw-')
        self.fabric = peers.Fabric(extra=['--devices', str(devices)], faults=faults)
        self.deadline = time.monotonic() + SECONDS
        self.ranks = []
        for side, api in zip(('recv', 'send'), version):
            more = {**peers.env(), 'NCCL_SPINWIRE_REPORT': f'{self.folder.name}/report.{side}', **dict(env),
                    **(dict(sender_env) if side == 'send' else {})}
            more.pop('NCCL_DEBUG', None)
            argv = self.fabric.argv([RANK, str(api), side, self.folder.name, str(count), str(size)],
                                    '--control', f'{self.folder.name}/{side}')
            self.ranks.append(peers.Proc(argv, side, more))
        self.recv, self.send = self.ranks

    def going(self):
        for rank in self.ranks:
            rank.wait_for('going', self.deadline)

    def tell(self, side, device, line):
        name = side if device == 'mlx5_0' else next(x for x in os.listdir(self.folder.name)
                                                    if x.startswith(f'{side}.{device}.'))
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(os.path.join(self.folder.name, name))
            s.sendall((line + '\n').encode())
            answer = s.recv(4096).decode()
        check(answer.startswith('ok'), f'{line}: {answer}')

    def end(self):
        peers.both_end(*self.ranks, deadline=self.deadline)
        for rank in self.ranks:
            check('done' in rank.output(), f'{rank.name} did not end its work')

    def report(self, side):
        report = documents.load(f'{self.folder.name}/report.{side}')
        check(report['schema'] == 'spinwire.ncclnet/1', report['schema'])
        check(len(report['communicators']) == 1 and len(report['communicators'][0]['peers']) == 1,
              'one communicator, one peer')
        return report['communicators'][0]['peers'][0]


def sums(peer, latency):
    """Percentiles rise, and a stage counts each message once."""
    total = peer['sent']['messages'] + peer['received']['messages']
    check({row['stage'] for row in peer['latency']} == set(latency),
          f'stages {[row["stage"] for row in peer["latency"]]}')
    for row in peer['latency']:
        values = [row[f'{p}_ns'] for p in ('min', 'p50', 'p90', 'p99', 'max') if row[f'{p}_ns'] is not None]
        check(values == sorted(values) and row['count'] == total, f'row {row}')


def case_rails(devices):
    """Every byte, over one, two and four devices; all rails carry, and the reports of both sides agree."""
    def run():
        pair = Pair(40, 1 << 20, devices)
        pair.end()
        sent, got = pair.report('send'), pair.report('recv')
        check(sent['sent'] == {'messages': 40, 'bytes': 40 << 20} == got['received'],
              f'{sent["sent"]} {got["received"]}')
        check(len(sent['rails']) == devices, f'{len(sent["rails"])} rails')
        check(all(rail['tx_bytes'] > 1 << 20 for rail in sent['rails']), f'a rail carried little: {sent["rails"]}')
        check(sum(rail['tx_bytes'] for rail in sent['rails']) == 40 << 20, f'rails do not sum up: {sent["rails"]}')
        sums(sent, ['send_granted', 'granted_posted', 'posted_acked', 'acked_taken', 'send_taken'])
        sums(got, ['recv_arrived', 'arrived_taken', 'recv_taken'])
    return run


def case_versions():
    """An old NCCL on one side, by turns: what travels does not depend on the tables."""
    for version in ((8, 12), (12, 8)):
        Pair(20, 70000, version=version).end()


def case_unlike_rails():
    """A rank with one device and one with two; rails that are named."""
    pair = Pair(20, 1 << 20, 2, sender_env={'NCCL_SPINWIRE_RAILS': 'mlx5_1'})
    pair.end()
    check(len(pair.report('send')['rails']) == 1, 'one rail')


def case_no_rail():
    """Never a silent socket: without NCCL_DEBUG it is on stderr, and it says what NCCL does then."""
    for env, words in (({}, 'set NCCL_NET=spinwire to make this an error'),
                       ({'NCCL_NET': 'spinwire'}, 'NCCL ends here')):
        pair = Pair(1, 1, env={'NCCL_SPINWIRE_RAILS': 'mlx5_9', **env})
        for rank in pair.ranks:
            check(rank.wait(pair.deadline) == 3, f'exit {rank.p.returncode}')
            lines = [line for line in rank.output().splitlines() if line.startswith('NET/spinwire')]
            check(len(lines) == 1 and 'no rail is usable: rail mlx5_9' in lines[0] and words in lines[0], rank.output())


def case_secret():
    """One secret at both ends; then another one, and one end without: no connection is made."""
    with tempfile.TemporaryDirectory(prefix='spw-') as folder:
        secrets = [os.path.join(folder, name) for name in ('a', 'b')]
        for path in secrets:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), 'w', encoding='ascii') as f:
                f.write(f'a secret, which is {path}')
        env = {'NCCL_SPINWIRE_SECRET': secrets[0]}
        Pair(20, 70000, env=env).end()
        for other in (secrets[1], ''):
            pair = Pair(1, 1, env=env, sender_env={'NCCL_SPINWIRE_SECRET': other})
            check(pair.send.wait(pair.deadline) == 3, f'exit {pair.send.p.returncode}')
            check('secret' in pair.send.output(), pair.send.output())


def case_hca():
    """NCCL_IB_HCA: some of the devices; one that names none is an error that lists them."""
    pair = Pair(20, 1 << 20, 2, sender_env={'NCCL_IB_HCA': '^=mlx5_0:1'})
    pair.end()
    rails = pair.report('send')['rails']
    check([rail['device'] for rail in rails] == ['mlx5_1'], f'rails {rails}')
    pair = Pair(1, 1, env={'NCCL_IB_HCA': 'rocep1'})
    for rank in pair.ranks:
        check(rank.wait(pair.deadline) == 3, f'exit {rank.p.returncode}')
        check('mlx5_0: NCCL_IB_HCA leaves it out; mlx5_1: NCCL_IB_HCA leaves it out' in rank.output(), rank.output())


def case_killed():
    """The other side learns it at once: NCCL's ncclRemoteError, and one line."""
    for victim in (0, 1):
        pair = Pair(1000000, 100000)
        pair.going()
        os.killpg(pair.ranks[victim].p.pid, signal.SIGKILL)
        start = time.monotonic()
        other = pair.ranks[1 - victim]
        check(other.wait(pair.deadline) == 3, f'exit {other.p.returncode}')
        check(time.monotonic() - start < 10, 'it took longer than 10 s')
        check('result 6' in other.output(), other.output())
        lines = [line for line in other.output().splitlines() if line.startswith('NET/spinwire')]
        check(len(lines) == 1 and 'the peer closed the connection, or died' in lines[0], other.output())


def case_stopped():
    """A rank that is stopped for a second loses nothing; the longest send of the other one says where the time went."""
    pair = Pair(10000, 20000)
    pair.going()
    os.killpg(pair.recv.p.pid, signal.SIGSTOP)
    time.sleep(1)
    os.killpg(pair.recv.p.pid, signal.SIGCONT)
    pair.end()
    sent = pair.report('send')
    longest = sent['worst'][0]
    check(longest['whole_ns'] > 5e8, f'longest {longest}')
    check(abs(sum(longest['blame_ns'].values()) - longest['whole_ns']) < 10, f'blame {longest}')
    check(sent['causes'].get(longest['cause'], {}).get('max_ns', 0) == longest['whole_ns'],
          f'{sent["causes"]} {longest}')


def case_failover():
    """A rail fails in mid-run and comes back: every byte, and the report says so."""
    pair = Pair(2000, 200000)
    pair.going()
    pair.tell('send', 'mlx5_1', 'link-down=300ms')
    pair.end()
    rails = pair.report('send')['rails']
    check(rails[1]['outages'] >= 1 and rails[1]['why'], f'{rails}')
    check(rails[0]['outages'] == 0, f'{rails}')


def page_of(rank):
    """The page of the process of a rank; what with-softhca has started besides has none."""
    for name in os.listdir('/proc'):
        try:
            if name.isdigit() and os.getpgid(int(name)) == rank.p.pid:
                page = livepage.of(int(name))
                if page:
                    check(page['pid'] == int(name), f'pid {page["pid"]} on the page of {name}')
                    return page
        except (FileNotFoundError, ProcessLookupError):
            pass
    return None


def pages(pair):
    """Both pages, and the one connection of each."""
    both = [page_of(rank) for rank in (pair.recv, pair.send)]
    check(all(both), 'a rank has no page')
    conns = [[c for c in page['conns'] if c['state'] != 'listening'] for page in both]
    check([len(c) for c in conns] == [1, 1], f'{conns}')
    return (*both, *(c[0] for c in conns))


def stands_still(pair):
    """Seconds since the sender made progress, and since its oldest send began: the lesser of them."""
    _, page, _, send = pages(pair)
    return (send['called_tsc'] - max(send['moved_tsc'], send['oldest_tsc'])) / page['tsc_hz']


def case_live():
    """The live pages of two ranks, of which one is stopped. The ends find each other, what moves is told from what does
    not, and nothing is left after kill -9."""
    pair = Pair(1000000, 100000)
    pair.going()
    pair.send.wait_for(lambda: all(r['acked_bytes'] for r in pages(pair)[3]['rails']), pair.deadline)
    up = pages(pair)[3]['rails']
    check([r['device'] for r in up] == ['mlx5_0', 'mlx5_1'] and all(
        r['state'] == 2 and r['qpn'] and r['acked_bytes'] and not r['down_tsc'] for r in up), f'{up}')
    os.killpg(pair.recv.p.pid, signal.SIGSTOP)
    pair.send.wait_for(lambda: stands_still(pair) > 0.1, pair.deadline)
    recv_page, send_page, recv, send = pages(pair)
    check(send['pair'] == recv['pair'] != 0 and send['comm_hash'] == recv['comm_hash'] == 11, f'{send} {recv}')
    check(send['is_send'] == 1 and recv['is_send'] == 0 and send['state'] == recv['state'] == 'ready', f'{send}')
    check(send['tid'] == send_page['pid'] and recv['tid'] == recv_page['pid'], f'{send} {recv}')
    check(send['begun'] - send['ended'] == 8 == send['waiting'] + send['granted'] + send['posted'] + send['acked'],
          f'eight sends are under way: {send}')
    check(send['peer'].count(':') == 1 and send['error'] == 0, f'{send}')
    for rank, page in enumerate((recv_page, send_page)):
        row, = page['comms']
        op = row['coll']
        check([row[k] for k in ('rank', 'rank_cnt', 'comm_hash', 'name')] == [rank, 2, 11, 'harness'], f'{row}')
        check([op[k] for k in ('function', 'count', 'datatype', 'root')] == ['Broadcast', 100000, 'ncclInt8', 1],
              f'{op}')
        way = 'sends' if rank else 'recvs'
        check(0 <= row['colls'] - row[f'{way}_begun'] <= 1 and op['sequence'] + 1 - row['colls'] in (0, 1), f'{row}')
        check(row[f'{way}_begun'] - row[f'{way}_ended'] in ((8,) if rank else (7, 8)), f'stopped anywhere: {row}')
    pair.send.wait_for(lambda: pages(pair)[3]['calls'] > send['calls'] and pages(pair)[3]['taken_tsc'] >
                       send['taken_tsc'], pair.deadline)
    recv_again, send_again = pages(pair)[2:]
    check([send_again[k] for k in ('begun', 'ended')] == [send[k] for k in ('begun', 'ended')], f'{send} {send_again}')
    check(recv_again == recv, f'the receiver is stopped: {recv} {recv_again}')
    os.killpg(pair.recv.p.pid, signal.SIGCONT)
    pair.send.wait_for(lambda: pages(pair)[3]['ended'] > send['ended'] + 100, pair.deadline)
    for rank in pair.ranks:
        os.killpg(rank.p.pid, signal.SIGKILL)
        rank.wait(pair.deadline)
    check(page_of(pair.recv) is None and page_of(pair.send) is None, 'a page was left')


def case_live_wait():
    """Who waits for a peer that does not come, and who has lost one, say so."""
    pair = Pair(1000000, 100000)
    pair.going()
    os.killpg(pair.recv.p.pid, signal.SIGKILL)
    check(pair.send.wait(pair.deadline) == 3, f'exit {pair.send.p.returncode}')
    with tempfile.TemporaryDirectory(prefix='spw-') as folder:
        fabric = peers.Fabric(extra=['--devices', '1'])
        lone = peers.Proc(fabric.argv([RANK, '11', 'recv', folder, '1', '1']), 'recv', peers.env())
        lone.wait_for(lambda: (page_of(lone) or {}).get('conns'), time.monotonic() + SECONDS)
        first = page_of(lone)['conns'][0]
        lone.wait_for(lambda: page_of(lone)['conns'][0]['calls'] > first['calls'], time.monotonic() + SECONDS)
        check(first['state'] == 'listening' and ':' in first['peer'] and first['tid'], f'{first}')
        os.killpg(lone.p.pid, signal.SIGKILL)
        lone.wait(time.monotonic() + SECONDS)


def case_live_off():
    """NCCL_SPINWIRE_LIVE=0: no page."""
    pair = Pair(1000000, 100000, env={'NCCL_SPINWIRE_LIVE': '0'})
    pair.going()
    check(page_of(pair.recv) is None and page_of(pair.send) is None, 'there is a page')
    for rank in pair.ranks:
        os.killpg(rank.p.pid, signal.SIGKILL)
        rank.wait(pair.deadline)


def case_live_private():
    """Another user cannot read the page, and nobody can write it."""
    pair = Pair(1000000, 100000)
    pair.going()
    path = livepage.descriptors(page_of(pair.send)['pid'])[0]
    check(livepage.read(path), 'its user reads it')
    try:
        with open(path, 'r+b') as f, livepage.mmap.mmap(f.fileno(), 4096):
            check(False, 'it was mapped to be written')
    except PermissionError:
        pass
    if os.getuid() == 0:
        got = subprocess.run(['cat', path], user=65534, group=65534, extra_groups=[], capture_output=True, text=True,
                             check=False)
        check(got.returncode and 'Permission denied' in got.stderr, f'nobody: {got}')
    for rank in pair.ranks:
        os.killpg(rank.p.pid, signal.SIGKILL)
        rank.wait(pair.deadline)


def case_hang():
    """NCCL_SPINWIRE_HANG: the rank that runs names the one that is stopped, once, and goes on when that one does."""
    pair = Pair(1000000, 100000, env={'NCCL_SPINWIRE_HANG': '1s', 'SPW_TEST_COMM': str(os.getpid())})
    pair.going()
    time.sleep(3)
    check('nothing has moved' not in pair.send.output() + pair.recv.output(), pair.send.output())
    before = pages(pair)[3]['ended']
    os.killpg(pair.recv.p.pid, signal.SIGSTOP)
    pair.send.wait_for('ranks found', pair.deadline)
    out = pair.send.output()
    check('NET/spinwire: nothing has moved for 1 s, and 8 requests are open' in out, out)
    check(f'NET/spinwire: rank 0 (ncclnet_rank, pid {page_of(pair.recv)["pid"]}, ' in out and
          'holds the others up: its process is stopped' in out, out)
    time.sleep(8)
    os.killpg(pair.recv.p.pid, signal.SIGCONT)
    pair.send.wait_for(lambda: pages(pair)[3]['ended'] > before + 100, pair.deadline)
    check(pair.send.output().count('nothing has moved') == 1 and 'nothing has moved' not in pair.recv.output(),
          f'{pair.send.output()} {pair.recv.output()}')
    for rank in pair.ranks:
        os.killpg(rank.p.pid, signal.SIGKILL)
        rank.wait(pair.deadline)


CASES = {'hang': case_hang,
         'one': case_rails(1), 'two': case_rails(2), 'four': case_rails(4), 'versions': case_versions,
         'unlike_rails': case_unlike_rails,
         'no_rail': case_no_rail, 'hca': case_hca, 'secret': case_secret, 'killed': case_killed,
         'stopped': case_stopped, 'live': case_live, 'live_wait': case_live_wait, 'live_off': case_live_off,
         'live_private': case_live_private,
         'failover': case_failover}


def main():
    for name in sys.argv[2:] or CASES:
        start = time.monotonic()
        with peers.together():
            CASES[name]()
        print(f'{name}: {time.monotonic() - start:.1f} s')


peers.main(main)
