#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""hang_draw.py RING [--seeds FIRST-LAST] [--culprit NAME,...] [--evidence WHAT,...] [--keep FOLDER]: draws by seed who
hangs a job of two to four ranks (ring.c, ring.py) and how, asks spinwire-doctor hang, and compares rank and layer.

Each draw is asked with all evidence, with one host silent, and, in jobs of their own, with one host's page gone and
without the profiler's calls. With less evidence "unknown" is right too; another rank or layer never is. What this
machine cannot do is drawn again, and reported. Of 60 draws at least 57 must be named. "late" does not count: a busy
machine left a host's doctor without a CPU for 5 s, twice."""
import argparse
import collections
import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time

import ring  # noqa: I001  (finds the others)
import peers
import strict

CULPRITS = {}
EVIDENCE = ('all', 'silent', 'nopage', 'noprofiler')
RESULTS = ('right', 'unknown', 'late', 'moves', 'WRONG')
LATE = 'no answer in time'
SETTLE_S = 1.5  # what stands still must do so before the first look
SLOW_FROM = 20e6  # bytes/s of a port; the doctor wants 16 MiB of both in 4.5 s
HOG_LEAVES = 0.06  # Linux keeps a twentieth of each second from SCHED_FIFO
Truth = collections.namedtuple('Truth', 'ranks layer rules evidence')
Culprit = collections.namedtuple('Culprit', 'inject devices joined env')


class Cannot(Exception):
    """What this machine cannot do."""


def culprit(devices=(1, 2), joined=True, env=lambda ranks, victim: {}):
    """A function that makes victim hang the job and returns the truth; devices: how many a host may have; joined: the
    ranks have connected before; env: of ranks, before they start."""
    def add(function):
        CULPRITS[function.__name__] = Culprit(function, devices, joined, env)
        return function
    return add


def endless(job):
    for host in job.hosts:
        host.say('run 1000000 AllReduce 4 2')
    time.sleep(1)


def ends(job, victim):
    """The ranks that a connection joins with the victim, and the victim: of packets that are lost between two ports
    nothing says at which."""
    return {victim, (victim + 1) % job.ranks, (victim - 1) % job.ranks}


# ---- processes ----

@culprit()
def killed(job, victim, _):
    endless(job)
    os.kill(job.hosts[victim].pid, signal.SIGKILL)
    return Truth({victim}, 'process', {'ended'}, '')


@culprit()
def stopped(job, victim, _):
    endless(job)
    os.kill(job.hosts[victim].pid, signal.SIGSTOP)
    return Truth({victim}, 'process', {'stopped'}, 'state T')


def cgroup_new(job, controller):
    """A control group below this program's own, which ends with the job."""
    with open('/proc/self/cgroup', encoding='ascii') as f:
        rows = [line.rstrip('\n').split(':', 2) for line in f]
    v1 = next((row for row in rows if controller in row[1].split(',')), None)
    base = f'/sys/fs/cgroup/{v1[1]}{v1[2]}' if v1 else '/sys/fs/cgroup' + next(row[2] for row in rows if not row[1])
    path = f'{base}/spw-draw-{os.getpid()}'
    try:
        if not v1 and controller == 'cpu':
            write(f'{base}/cgroup.subtree_control', '+cpu')
        os.mkdir(path)
    except OSError as why:
        raise Cannot(f'no control group of its own: {why}') from why
    job.kept.callback(cgroup_end, path)
    return path, v1


def cgroup_end(path):
    for _ in range(200):
        with contextlib.suppress(OSError):
            os.rmdir(path)
            return
        time.sleep(0.05)


def write(path, text):
    with open(path, 'w', encoding='ascii') as f:
        f.write(text)


def cgroup_put(path, pid, files):
    try:
        for name, text in files:
            write(f'{path}/{name}', text)
        write(f'{path}/cgroup.procs', str(pid))
    except OSError as why:
        raise Cannot(f'{path}: {why}') from why


@culprit()
def frozen(job, victim, _):
    endless(job)
    path, v1 = cgroup_new(job, 'freezer')
    cgroup_put(path, job.hosts[victim].pid, [])
    name, text, thaw = ('freezer.state', 'FROZEN', 'THAWED') if v1 else ('cgroup.freeze', '1', '0')
    try:
        write(f'{path}/{name}', text)
    except OSError as why:
        raise Cannot(f'{path}: {why}') from why
    job.kept.callback(write, f'{path}/{name}', thaw)
    return Truth({victim}, 'quota', {'frozen'}, 'frozen')


@culprit()
def quota(job, victim, _):
    endless(job)
    path, v1 = cgroup_new(job, 'cpu')
    cgroup_put(path, job.hosts[victim].pid, [('cpu.cfs_period_us', '100000'), ('cpu.cfs_quota_us', '1000')] if v1
               else [('cpu.max', '1000 100000')])
    return Truth({victim}, 'quota', {'throttled', 'throttled-slow'}, 'stood still')


HOG = '''import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
def real_time():
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
try:
    try:
        real_time()
    except PermissionError:  # only the top group has real-time time
        open("/sys/fs/cgroup/cpu/cgroup.procs", "w").write("0")
        real_time()
except OSError as why:
    sys.exit(f"no SCHED_FIFO: {why}")
print("up", flush=True)
while True:
    pass
'''


def run_ns(tid):
    """How long a thread has run."""
    with open(f'/proc/{tid}/schedstat', encoding='ascii') as f:
        return int(f.read().split()[0])


@culprit()
def hog(job, victim, draw):
    endless(job)
    core = draw.choice(sorted(os.sched_getaffinity(0)))
    host = job.hosts[victim] # what runs outside its PID namespace, its doctor does not see
    proc = peers.Proc(host.words(sys.executable, '-c', HOG, str(core)), 'hog', peers.env())
    try:
        proc.wait_for('(?m)^up$', time.monotonic() + 10)
    except peers.Failed as why:
        raise Cannot(proc.output().strip()) from why
    job.kept.callback(os.killpg, proc.p.pid, signal.SIGKILL)
    proxy = host.proxy()
    os.sched_setaffinity(proxy, {core})
    before = run_ns(proxy)
    time.sleep(2)
    left = (run_ns(proxy) - before) / 2e9
    if left > HOG_LEAVES:
        raise Cannot(f'SCHED_FIFO does not keep others off a core: {left:.0%} were left')
    return Truth({victim}, 'scheduler', {'starved', 'starved-slow'}, 'python3')


# ---- the network ----

@culprit()
def qp_error(job, victim, draw):
    """Its QPs fail, and cannot be made again."""
    endless(job)
    device = draw.randrange(job.devices)
    host = job.hosts[victim]
    for command in ('fault=fail=create_qp:EIO', 'fault=fail=modify_qp:EIO'):
        host.control(device, command)
    for qpn in re.search(r' qp=([\d,]+)', host.control(device, 'objects'))[1].split(','):
        host.control(device, f'qp-error={qpn}')
    return Truth({victim}, 'qp', {'qp'}, f'mlx5_{device}')


@culprit(devices=(2,))
def loss(job, victim, draw):
    endless(job)
    device = draw.randrange(job.devices)
    job.hosts[victim].control(device, 'fault=loss=1')
    return Truth(ends(job, victim), 'loss', {'loss'}, f'mlx5_{device}')


@culprit()
def port_down(job, victim, draw):
    endless(job)
    device = draw.randrange(job.devices)
    job.hosts[victim].control(device, 'link-down=1000s')
    # Two ports on a cable are down together; with more there is a switch between them.
    return Truth({0, 1} if job.ranks * job.devices == 2 else {victim}, 'link', {'link'}, f'mlx5_{device}: port DOWN')


@culprit(devices=(2,))
def slow_port(job, victim, draw):
    """It carries an eighth of what it carried before."""
    endless(job)
    device = draw.randrange(job.devices)
    sent = job.hosts[victim].sent(device, 1.0)
    if sent < SLOW_FROM:
        raise Cannot(f'a port sends {sent / 1e6:.0f} MB/s, too few for an eighth to be seen')
    job.hosts[victim].control(device, f'fault=port-rate={sent * 1e-9:.4f}') # Gbit/s
    return Truth(ends(job, victim), 'link', {'slow-rail'}, f'mlx5_{device}')


# ---- the program ----

def last_call(job, victim, others, own):
    """Some calls alike, then one that differs."""
    for host in job.hosts:
        host.say('run 5 AllReduce 4 0')
        host.say(own if host.number == victim else others)
    for host in job.hosts:
        host.heard('ran')


@culprit()
def skipped(job, victim, draw):
    """It leaves one call out and makes the next one."""
    calls = draw.randrange(2, 6)
    last_call(job, victim, f'run {calls} AllReduce 4 0', f'run {calls - 1} AllReduce 4 0')
    return Truth({victim}, 'program', {'not-come'}, 'has enqueued')


@culprit()
def never_comes(job, victim, _):
    """It has joined, and makes no call."""
    for host in job.hosts:
        if host.number != victim:
            host.say('run 1 AllReduce 4 0')
    return Truth({victim}, 'program', {'not-come'}, 'has enqueued')


@culprit()
def other_size(job, victim, draw):
    last_call(job, victim, 'run 1 AllReduce 4 0', f'run 1 AllReduce {draw.choice((3, 6))} 0')
    return Truth({None}, 'program', {'diverged'}, f'on rank {victim}')


@culprit()
def unlike(job, victim, draw):
    last_call(job, victim, 'run 1 AllReduce 4 0', f'run 1 {draw.choice(("AllGather", "Broadcast"))} 4 0')
    return Truth({None}, 'program', {'diverged'}, f'on rank {victim}')


@culprit(joined=False)
def never_joins(job, victim, _):
    """It listens, and neither accepts nor connects."""
    for host in job.hosts:
        if host.number != victim:
            host.say('join')
    time.sleep(11)  # until then it may still come
    return Truth({victim}, 'bootstrap', {'start'}, 'accepts nothing')


@culprit(joined=False, env=lambda ranks, victim: {(victim + 1) % ranks: {
    'NCCL_SPINWIRE_BIND': ring.ELSEWHERE.format((victim + 1) % ranks + 1) + ':0'}})
def wrong_interface(job, victim, _):
    """It connects to an interface of the next rank that it does not reach."""
    for host in job.hosts:
        host.say('join')
    time.sleep(11)  # until then it may still be made
    return Truth({victim}, 'bootstrap', {'start'}, ring.ELSEWHERE.format((victim + 1) % job.ranks + 1))


# ---- a draw ----

def judge(answer, truth):
    """"right", "unknown", "late", "moves" or "WRONG", and why."""
    if answer['outcome'] != 'culprit':
        return 'late' if LATE in answer['missing'] else answer['outcome'], answer['missing']
    for one in answer['verdicts']:
        rank = one['rank'] if one['rank'] is not None or not one['host'] else int(one['host'].removeprefix('node'))
        named = f'rank {rank} ({one["layer"]}, by {one["rule"]}: {one["evidence"]})'
        if one['layer'] != truth.layer or rank not in truth.ranks or one['host'] not in ('', f'node{rank}'):
            return 'WRONG', named
        if one['rule'] not in truth.rules or truth.evidence not in one['evidence']:
            return 'WRONG', f'for another reason: {named}'
    return 'right', answer['verdicts'][0]['evidence']


Draw = collections.namedtuple('Draw', 'seed name ranks devices victim other')


def draw_of(seed, cannot, only):
    draw = random.Random(seed)
    names = [name for name in CULPRITS if name not in cannot and (not only or name in only)]
    if not names:
        peers.skip('; '.join(cannot.values()))
    # As cards from a deck: so many draws as there are culprits have each of them once.
    name = random.Random(seed // len(names)).sample(names, len(names))[seed % len(names)]
    ranks = draw.randrange(2, 5)
    victim = draw.randrange(ranks)
    other = draw.choice([n for n in range(ranks) if n != victim])
    return Draw(seed, name, ranks, draw.choice(CULPRITS[name].devices), victim, draw.choice((victim, other)))


def job_of(program, d, evidence):
    """With the variables of torchrun, or without."""
    more = CULPRITS[d.name].env(d.ranks, d.victim)
    env = {n: {**({'RANK': str(n), 'WORLD_SIZE': str(d.ranks)} if d.seed % 2 else {}), **more.get(n, {})}
           for n in range(d.ranks)}
    job = ring.Job(program, d.ranks, d.devices, nopage=d.other if evidence == 'nopage' else None,
                   profiler=evidence != 'noprofiler', env=env)
    job.devices = d.devices
    return job


def ask(job, asker, silent, path):
    """Where the answer is that one should ask again, or that a busy machine was late, it is asked again, once."""
    got = job.ask(asker, silent, path)
    if re.search(f'ask again|{LATE}', got[0]['missing']):
        got = job.ask(asker, silent, path)
    return got


def asked(program, d, evidence, keep):
    """[(evidence, result, why, seconds)] of one job: with all evidence also with one host silent."""
    with peers.together():
        job = job_of(program, d, evidence)
        try:
            if CULPRITS[d.name].joined:
                job.join()
            truth = CULPRITS[d.name].inject(job, d.victim, random.Random(d.seed))
            time.sleep(SETTLE_S)
            kinds = [evidence] + (['silent'] if evidence == 'all' and 'silent' in keep.evidence else [])
            asker = (d.other + 1) % d.ranks
            answers = ring.together([lambda kind=kind: ask(job, asker, d.other if kind == 'silent' else None,
                                                           keep.path(d, kind)) for kind in kinds])
        finally:
            job.end()
    return [(kind, *judge(document, truth), seconds) for kind, (document, _, seconds) in zip(kinds, answers)]


class Keep:
    """What is asked, and where cases are saved."""

    def __init__(self, folder, evidence):
        self.folder, self.evidence = folder, evidence

    def path(self, d, kind):
        return f'{self.folder}/{d.seed}-{d.name}-{kind}.json' if self.folder else None


def draw_one(program, seed, cannot, only, keep):
    """Returns: (draw, [(evidence, result, why, seconds)])"""
    while True:
        d = draw_of(seed, cannot, only)
        rows = []
        try:
            for evidence in keep.evidence:
                if evidence != 'silent':
                    rows += asked(program, d, evidence, keep)
            return d, rows
        except Cannot as why:
            cannot[d.name] = f'{d.name}: {why}'
            print(f'not on this machine, drawn again: {cannot[d.name]}', flush=True)


def table(counts):
    print(f'{"culprit":16} {"evidence":11}' + ''.join(f'{result:>8}' for result in RESULTS))
    for (name, kind), results in sorted(counts.items()):
        print(f'{name:16} {kind:11}' + ''.join(f'{results[result]:8}' for result in RESULTS))


def check(counts, slowest):
    total = collections.Counter()
    for (_, kind), results in counts.items():
        if results['WRONG']:
            raise peers.Failed(f'{results["WRONG"]} wrong names')
        if kind == 'all':
            total += results
    asked_cnt = sum(total.values()) - total['late']
    if not asked_cnt:
        peers.skip(f'this machine is too busy: all {total["late"]} answers were late')
    print(f'{total["right"]} of {asked_cnt} right; the slowest question took {slowest:.1f} s')
    if total['right'] * 60 < asked_cnt * 57:
        raise peers.Failed('less than 57 of 60 are right')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('ring')
    parser.add_argument('--seeds', default='1-60')
    parser.add_argument('--culprit', type=lambda text: text.split(','), help=', '.join(CULPRITS))
    parser.add_argument('--evidence', type=lambda text: text.split(','), default=EVIDENCE)
    parser.add_argument('--keep', help='a folder for the saved cases')
    args = parser.parse_args()
    first, _, last = args.seeds.partition('-')
    counts, cannot, slowest = collections.defaultdict(collections.Counter), {}, 0
    for seed in range(int(first), int(last or first) + 1):
        start = time.monotonic()
        d, rows = draw_one(args.ring, seed, cannot, args.culprit, Keep(args.keep, args.evidence))
        for kind, result, why, seconds in rows:
            counts[d.name, kind][result] += 1
            slowest = max(slowest, seconds)
            print(f'{d.seed}: {d.name}, rank {d.victim} of {d.ranks}, {d.devices} devices, {kind} '
                  f'{d.other if kind in ("silent", "nopage") else ""}: {result} in {seconds:.1f} s: {why}', flush=True)
        print(f'    {time.monotonic() - start:.1f} s', flush=True)
    table(counts)
    check(counts, slowest)


ring.enter()
peers.main(main)
