#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""net [--json FILE] [--quick] [--only STEP,...] [--apart] [--ranks N]: spinwire's net plugin under NCCL, beside NCCL's
NET/IB and its sockets, over the software ConnectX. Pack it with `tests/gpu/nccl_bundle OUT BUILD`, and run OUT/net on a
machine with a GPU for each rank (by default two), torch 2.11 and NCCL 2.28 or later; it needs no other file, no network
and about 6 minutes with two ranks. Steps:

  one     one device a rank: all_gather and all_reduce; only if named
  two     two devices a rank: six collectives, 1 KB to 128 MB; CPU time of the threads
  ways    where the time of a message goes, by the plugin's own report: broadcast, then all_gather
  four    four devices a rank: all_gather and all_reduce
  rates   enforced rates: one rail beside two
  faults  a rail cut, slow, and flapping in mid-run: every byte right, and how long a call took at most
  beside  four devices a rank: the plugin and NET/IB at the same time, and on rank 0's devices also UCX and a raw
  Ethernet port, with
          either flow rule: every byte right, both ledgers exact

The nets take turns within the same processes (a communicator each), so ratios are of one run. --apart: a run for
each net instead, if this torch cannot name a communicator's network. Exit status 1: a step failed; the others are
printed all the same."""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from nccl_pair import ENV, HERE, free_port

KB, MB = 1 << 10, 1 << 20
NETS = [['spinwire', 'spinwire', None], ['IB', 'IB', None], ['Socket', 'Socket', None]]
rows, failed = [], []


class Run:
    """Ranks, each a process with software devices on one cable."""
    count, ranks = 0, 2

    def __init__(self, name, devices, todo, options=(), env=None):
        Run.count += 1
        self.name, self.folder = name, tempfile.mkdtemp(prefix='spw-net-')
        port, self.lines, self.control = free_port(), [], []
        self.procs = []
        for rank in range(Run.ranks):
            self.control.append(os.path.join(self.folder, f'c{rank}'))
            words = [os.path.join(HERE, 'with-softhca'), '--cable', f'shm:net{os.getpid()}x{Run.count}', '--devices',
                     str(devices),
                     '--control', self.control[rank], *options, sys.executable, os.path.join(HERE, 'nccl_ranks.py'),
                     str(rank), str(Run.ranks), port, json.dumps(todo)]
            path = os.path.join(HERE, 'lib') + ':' + os.environ.get('LD_LIBRARY_PATH', '')
            log = os.path.join(self.folder, f'nccl{rank}.log')
            self.procs.append(subprocess.Popen(words, stdout=subprocess.PIPE,
                                               stderr=open(os.path.join(self.folder, f'err{rank}'), 'w'),
                                               text=True, env={**os.environ, **ENV,
                                                               'SPW_SOFTHCA_LIB': os.path.join(HERE, 'new.so'),
                                                               'LD_LIBRARY_PATH': path, 'NCCL_DEBUG_FILE': log,
                                                               **(env or {})}))
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        for process in self.procs[1:]:
            threading.Thread(target=process.stdout.read, daemon=True).start()

    def _read(self):
        for line in self.procs[0].stdout:
            if line.startswith('{'):
                self.lines.append(json.loads(line))
                rows.append({'step': self.name, **{k: v for k, v in self.lines[-1].items() if k != 'rows'}})

    def wait_for(self, kind, seconds):
        end = time.time() + seconds
        while time.time() < end and not any(x['kind'] == kind for x in self.lines):
            if self.procs[0].poll() is not None and not self.reader.is_alive():
                break
            time.sleep(0.02)
        return any(x['kind'] == kind for x in self.lines)

    def tell(self, rank, device, line):
        """To the control socket of a device of a rank."""
        path = self.control[rank]
        if device != 'mlx5_0':
            found = [x for x in os.listdir(self.folder) if x.startswith(f'c{rank}.{device}.')]
            path = os.path.join(self.folder, found[0])
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(path)
            s.sendall((line + '\n').encode())
            answer = s.recv(4096).decode()
        if not answer.startswith('ok'):
            raise RuntimeError(f'{line}: {answer}')

    def end(self, seconds):
        """Returns: whether all ranks ended well; else their last lines are printed."""
        good = self.wait_for('end', seconds)
        for p in self.procs:
            try:
                good &= p.wait(20 if good else 1) == 0
            except subprocess.TimeoutExpired:
                good = False
                p.kill()
        if not good:
            failed.append(self.name)
            for rank in range(Run.ranks):
                print(f'FAILED {self.name}, rank {rank}: exit {self.procs[rank].poll()}')
                for name in (f'err{rank}', f'nccl{rank}.log'):
                    path = os.path.join(self.folder, name)
                    text = open(path, errors='replace').read() if os.path.exists(path) else ''
                    print(f'--- {name}\n' + '\n'.join(text.splitlines()[-25:]), flush=True)
        return good

    def used(self):
        """The networks that NCCL says it used, and what the plugin says of its rails."""
        log = os.path.join(self.folder, 'nccl0.log')
        text = open(log, errors='replace').read() if os.path.exists(log) else ''
        return sorted({line.split('NCCL INFO ')[-1] for line in text.splitlines() if 'Using network' in line
                       or 'NET/spinwire:' in line})


def launch(name, devices, nets, steps, seconds, apart, **how):
    """One run with all nets, or one for each."""
    for some in [[n] for n in nets] if apart else [nets]:
        env = {'NCCL_NET': some[0][1]} if apart else {}
        run = Run(name, devices, {'nets': some, 'steps': steps}, env=env, **how)
        run.end(seconds)
        for line in run.used():
            print(f'  {name}: {line}', flush=True)


def two(opt):
    sizes = [KB, 8 * KB, 64 * KB, MB, 8 * MB, 32 * MB, 128 * MB]
    some = [KB, 64 * KB, MB, 32 * MB]
    ops = {'all_gather': sizes, 'all_reduce': sizes, 'broadcast': some, 'reduce_scatter': some, 'all_to_all': some,
           'sendrecv': some}
    steps = [{'do': 'pairs', 'ops': ops, 'rounds': 5 if opt.quick else 15},
             {'do': 'cpu', 'op': 'all_gather', 'bytes': MB, 'calls': 2000}]
    launch('two', 2, NETS, steps, 170, opt.apart)


def stages(folder):
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding='utf8') as f:
            peers = [p for c in json.load(f)['communicators'] for p in c['peers']]
        for p in peers:
            print(f'  {name}: sent {p["sent"]}, received {p["received"]}, slow {p["causes"]}')
            for r in p['latency']:
                rows.append({'step': 'stages', 'report': name, **r})
                print(f'    {r["stage"]:15} {r["count"]:8}  p50 {(r["p50_ns"] or 0) / 1e3:8.1f}  p90 '
                      f'{(r["p90_ns"] or 0) / 1e3:8.1f}'
                      f'  max {r["max_ns"] / 1e3:8.1f} us')
    sys.stdout.flush()


def ways(_opt):
    for op in ('broadcast', 'all_gather'):
        for size in (KB, 512 * KB):
            folder = tempfile.mkdtemp(prefix='spw-net-')
            todo = {'nets': NETS[:1], 'steps': [{'do': 'pairs', 'ops': {op: [size]}, 'rounds': 50}]}
            run = Run(f'{op} {size}', 2, todo, env={'NCCL_SPINWIRE_REPORT': os.path.join(folder, 'report.%p')})
            if run.end(60):
                print(f'  {op} of {size} bytes, all ranks:')
                stages(folder)


def gather_and_reduce(name, devices, opt):
    ops = {'all_gather': [KB, MB, 32 * MB, 128 * MB], 'all_reduce': [KB, MB, 32 * MB]}
    launch(name, devices, NETS, [{'do': 'pairs', 'ops': ops, 'rounds': 5 if opt.quick else 15}], 90, opt.apart)


def one(opt):
    gather_and_reduce('one', 1, opt)


def four(opt):
    gather_and_reduce('four', 4, opt)


def rates(opt):
    nets = [['two rails', 'spinwire', 'mlx5_0+mlx5_1'], ['one rail', 'spinwire', 'mlx5_0']]
    steps = [{'do': 'pairs', 'ops': {'all_gather': [MB, 8 * MB, 64 * MB]}, 'rounds': 5 if opt.quick else 15}]
    launch('rates', 2, nets, steps, 90, False, options=['--rate', 'port=8'])


FAULTS = [ # name, [(seconds after the start, what the second device of rank 0 is told)]
    ('cut', [(2.0, 'link-down=1s')]),
    ('slow', [(5.0, 'fault=port-rate=0.5'), (7.0, 'fault=port-rate=1000')]),
    ('flapping', [(9.0 + 0.4 * i, 'link-down=100ms') for i in range(5)]),
]


def inject(run):
    start = next(x for x in run.lines if x['kind'] == 'ready')['at']
    for name, steps in FAULTS:
        for after, line in steps:
            time.sleep(max(0, start + after - time.time()))
            try:
                run.tell(0, 'mlx5_1', line)
            except (OSError, RuntimeError, IndexError) as why:
                print(f'  {name}: {line}: {why}')
    return start


def faults(opt):
    folder = tempfile.mkdtemp(prefix='spw-net-')
    report = os.path.join(folder, 'report.%p')
    todo = {'nets': NETS[:1], 'steps': [{'do': 'endure', 'op': 'all_gather', 'bytes': 8 * MB, 'seconds': 13}]}
    run = Run('faults', 2, todo, env={'NCCL_SPINWIRE_REPORT': report})
    if not run.wait_for('ready', 60):
        run.end(1)
        return
    start = inject(run)
    if not run.end(60):
        return
    calls = next(x for x in run.lines if x['kind'] == 'endured')['rows']
    calm = statistics.median(took for _, took in calls)
    edges = [steps[0][0] for _, steps in FAULTS] + [99]
    for i, (name, _) in enumerate(FAULTS):
        within = [took for at, took in calls if edges[i] - 0.5 <= at - start < edges[i + 1] - 0.5]
        row = {'step': 'faults', 'fault': name, 'calls': len(within), 'calm_us': calm * 1e6,
               'longest_us': max(within, default=0) * 1e6,
               'away_us': sum(t for t in within if t > 5 * calm) * 1e6}
        rows.append(row)
        print('  {fault:9} {calls:5} calls, every byte right; median of the run {calm_us:.0f} us; longest '
              '{longest_us:.0f} us'.format(**row),
              flush=True)
    stages(folder)


def beside(_opt):
    for rule in ('udp=9', 'flow=all'):
        todo = {'nets': NETS[:2], 'steps': [{'do': 'endure', 'op': 'all_gather', 'bytes': MB, 'seconds': 6,
                                             'neighbours': rule,
                                            'library': os.path.join(HERE, 'spw_neighbours.so')}]}
        run = Run(f'beside {rule}', 4, todo)
        if not run.end(60):
            continue
        said = {x['kind']: x for x in run.lines}
        calls, passed = said['endured'], said['neighbours']
        print(f'  {rule}: {calls["calls"]} all_gathers of 1 MB by each of {" and ".join(calls["nets"])}, '
              f'{passed["messages"]} messages of UCX '
              f'({passed["message_bytes"] / 1e6:.0f} MB), {passed["frames"]} frames and echoes of the raw ports: all '
              f'right', flush=True)
        for line in run.used():
            print(f'  {run.name}: {line}', flush=True)


def table(name):
    mine = [r for r in rows if r['step'] == name and r.get('kind') in ('pairs', 'ratio', 'cpu')]
    if not mine:
        return
    print(f'\n{name}: medians in us and GB/s of bus bandwidth; ratio: median over the rounds, [least, most]')
    nets = list(dict.fromkeys(r['net'] for r in mine if r['kind'] == 'pairs'))
    print(f'{"op":15}{"bytes":>11}' + ''.join(f'{n:>24}' for n in nets) + '   ratio of bus bandwidth')
    for op, size in dict.fromkeys((r['op'], r['bytes']) for r in mine if r['kind'] == 'pairs'):
        here = [r for r in mine if r['op'] == op and r['bytes'] == size]
        cells = ''.join(next((f'{r["us"]:13.1f} us{r["busbw"]:8.3f}' for r in here if r['kind'] == 'pairs'
                              and r['net'] == n), f'{"-":>24}')
                        for n in nets)
        ratios = '  '.join(f'{r["net"]}/{r["over"]} {r["busbw_ratio"]:.2f} [{r["least"]:.2f}, {r["most"]:.2f}]'
                           for r in here if r['kind'] == 'ratio')
        print(f'{op:15}{size:>11}{cells}   {ratios}')
    for r in (r for r in mine if r['kind'] == 'cpu'):
        print(f'  cores of each thread, {r["net"]}, {r["seconds"]:.1f} s of {r["op"]} of {r["bytes"]} bytes: '
              + ', '.join(f'{n} {v:.2f}' for n, v in sorted(r['threads'].items(), key=lambda x: -x[1])[:8]))
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--json')
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--apart', action='store_true')
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--only', default='two,ways,four,rates,faults,beside')
    opt = parser.parse_args()
    Run.ranks = opt.ranks
    steps = {'one': one, 'two': two, 'ways': ways, 'four': four, 'rates': rates, 'faults': faults, 'beside': beside}
    for name in opt.only.split(','):
        start = time.time()
        print(f'== {name}', flush=True)
        steps[name](opt)
        table(name)
        print(f'== {name}: {time.time() - start:.0f} s', flush=True)
    if opt.json:
        with open(opt.json, 'w', encoding='utf8') as f:
            json.dump({'schema': 'spinwire.nccl/1', 'rows': rows, 'failed': failed}, f, indent=1)
    sys.exit(bool(failed))


main()
