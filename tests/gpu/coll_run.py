#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""run [--cpu] [--one] [--tests | --times | --decode N] [--ranks N] [--runs N] [--out DIR]: one-shot collectives between
the GPUs of this machine, each rank a process with a software ConnectX of its own.

  tests   coll_rank: every bit of all types, operations and sizes, calls inside a kernel, a module that is loaded while
          a kernel waits, a rank that leaves, a rank that is silent; with CUDA_MODULE_LOADING=LAZY and EAGER
  times   all_reduce of bf16, 1 KB to 2 MB: one-shot, NCCL over NET/IB on the same device, and ib_write_lat (a write,
          and a poll of memory: what the software ConnectX itself costs), in turn; LAZY and EAGER
  decode  coll_decode: a Llama split over the ranks, N replays of its step; only if asked for

Every step has a time limit, after which its processes are killed. --cpu: times of the cpu executor, without GPU, torch
and NCCL. --one: a single GPU is enough: two ranks of one process (coll_one.py) with times, but not NCCL's, which needs
a GPU a rank; then the tests, whose two processes get the GPU in turn."""
import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
NCCL_ENV = {'NCCL_P2P_DISABLE': '1', 'NCCL_SHM_DISABLE': '1', 'NCCL_SOCKET_IFNAME': 'lo', 'NCCL_IB_HCA': 'mlx5_0',
            'NCCL_IB_GID_INDEX': '3',
            'NCCL_NVLS_ENABLE': '0', 'NCCL_DMABUF_ENABLE': '0', 'NCCL_NET_GDR_LEVEL': 'LOC', 'NCCL_NET': 'IB'}
WRITE_SIZES = [1 << 10, 8 << 10, 64 << 10, 1 << 20]
step, ranks, gpus = 0, 2, 2
failed = []


def start(command, rank, env, log, devices=1):
    argv = [os.path.join(HERE, 'with-softhca'), '--cable', f'shm:coll{os.getpid()}x{step}', '--devices', str(devices),
            *command]
    path = os.path.join(HERE, 'lib') + ':' + os.environ.get('LD_LIBRARY_PATH', '')
    env = {**os.environ, 'SPW_SOFTHCA_LIB': os.path.join(HERE, 'softhca.so'), 'LD_LIBRARY_PATH': path,
           'CUDA_VISIBLE_DEVICES': str(rank % gpus), **env}
    return subprocess.Popen(argv, env=env, stdout=log, stderr=subprocess.STDOUT, text=True, start_new_session=True)


def kill(processes):
    for process in processes:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def together(name, commands, env, seconds, out, gap_s=0.0, devices=1):
    """Outputs of processes that run at the same time; all are killed after `seconds`, or soon after one has failed."""
    global step
    step += 1
    paths = [os.path.join(out, f'{name}.{rank}.txt') for rank in range(len(commands))]
    logs = [open(path, 'w') for path in paths]  # pylint: disable=consider-using-with
    processes, end = [], time.monotonic() + seconds
    try:
        for rank, command in enumerate(commands):
            processes.append(start(command, rank, env, logs[rank], devices))
            time.sleep(gap_s)
        while time.monotonic() < end and any(process.poll() is None for process in processes):
            if any(process.poll() for process in processes):
                end = min(end, time.monotonic() + 8)
            time.sleep(0.05)
        states = [process.poll() for process in processes]
    finally:
        kill(processes)
        for log in logs:
            log.close()
    texts = [open(path).read() for path in paths]
    if any(states) or None in states:
        failed.append(name)
        print(f'== {name}: exit {states} (None: killed after its time)', *(text[-2500:] for text in texts), sep='\n',
              flush=True)
    return texts


def tests(out):
    for loading in ('LAZY', 'EAGER'):
        for part in ('results', 'inside', 'lazy', 'gone', 'silent'):
            port = 24000 + step
            texts = together(f'test_{part}_{loading}', [[os.path.join(HERE, 'coll_rank'), str(rank), str(ranks),
                                                         f'127.0.0.1:{port}', 'mlx5_0', part]
                                                       for rank in range(ranks)], {'CUDA_MODULE_LOADING': loading}, 60,
                             out)
            print(f'== {part}, {loading}', *(line for text in texts for line in text.splitlines()
                                             if line.startswith('rank ')), sep='\n', flush=True)


def decode(out, replays):
    port = 28000 + step
    texts = together('decode', [[sys.executable, os.path.join(HERE, 'coll_decode.py'), str(rank), str(ranks), str(port),
                                 str(replays)] for rank in range(ranks)], NCCL_ENV, 400, out)
    print('== decode', *(line for text in texts for line in text.splitlines() if line.startswith('rank ')), sep='\n',
          flush=True)


def write_lat(out):
    """{bytes: median microseconds of a write until the other end's poll finds it}"""
    found = {}
    for size in WRITE_SIZES:
        command = [os.path.join(HERE, 'ib_write_lat'), '-F', '-x', '3', '-d', 'mlx5_0', '-s', str(size), '-n', '1000',
                   '-p', str(25000 + step)]
        texts = together(f'write_{size}', [command, command + ['127.0.0.1']], {}, 30, out, gap_s=0.7)
        for row in re.findall(rf'^ *{size} +1000 +(.*)', texts[1], re.M):
            found[size] = float(row.split()[2])
    return found


def times(out, runs, device):
    script = os.path.join(HERE, 'coll_time.py')
    measured, writes = {}, {}
    for i in range(runs):
        for size, value in write_lat(out).items():
            writes.setdefault(size, []).append(value)
        for loading in ('LAZY', 'EAGER') if device == 'cuda' else ('',):
            port = 26000 + 2 * step
            env = {**NCCL_ENV, 'CUDA_MODULE_LOADING': loading} if device == 'cuda' else {}
            texts = together(f'times_{loading}_{i}', [[sys.executable, script, str(rank), str(ranks), str(port), device]
                                                      for rank in range(ranks)],
                             env, 120, out)
            for line in texts[0].splitlines():
                if line.startswith('{'):
                    row = json.loads(line)
                    for way in row.keys() - {'bytes'}:
                        for metric, value in row[way].items():
                            measured.setdefault((row['bytes'], loading, way, metric), []).append(value)
    return measured, writes


def show(measured, writes):
    def med(*key):
        return statistics.median(measured[key]) if key in measured else float('nan')
    print(f'all_reduce of bf16, {ranks} ranks; us, medians of runs. write: one RDMA write until it is polled '
          '(ib_write_lat)')
    print('     bytes loading  nccl p50    p99    row | one-shot p50    p99    row | graph p50    row | write | '
          'one-shot/nccl p50   row')
    for size, loading in sorted({key[:2] for key in measured}):
        a, b, c = ([med(size, loading, way, metric) for metric in ('p50', 'p99', 'row')]
                   for way in ('nccl', 'one-shot', 'graph'))
        write = statistics.median(writes[size]) if size in writes else float('nan')
        print(f'{size:10} {loading or "-":7} {a[0]:9.1f} {a[1]:6.0f} {a[2]:6.1f} | {b[0]:12.1f} {b[1]:6.0f} '
              f'{b[2]:6.1f} | {c[0]:9.1f} {c[2]:6.1f} |'
              f' {write:5.1f} | {b[0] / a[0]:17.2f} {b[2] / a[2]:5.2f}')


def one(out, runs):
    for i in range(runs):
        command = [sys.executable, os.path.join(HERE, 'coll_one.py'), str(27000 + 10 * i)]
        texts = together(f'one_{i}', [command], {'CUDA_MODULE_LOADING': 'EAGER'}, 60, out, devices=2)
        print(f'== two ranks on one GPU, run {i + 1}', *(line for line in texts[0].splitlines() if ' call' in line
                                                         or line.startswith('rank ')), sep='\n', flush=True)


def main():
    global ranks, gpus
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--cpu', action='store_true')
    parser.add_argument('--one', action='store_true')
    parser.add_argument('--tests', action='store_true')
    parser.add_argument('--times', action='store_true')
    parser.add_argument('--decode', type=int, metavar='N')
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--runs', type=int, default=3)
    parser.add_argument('--out', default=os.path.join(HERE, 'results'))
    opt = parser.parse_args()
    ranks = gpus = opt.ranks
    os.makedirs(opt.out, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if opt.one:
        gpus = 1
        one(opt.out, opt.runs)
    if opt.decode:
        decode(opt.out, opt.decode)
    if not (opt.cpu or opt.times or opt.decode):
        tests(opt.out)
    if opt.cpu or not (opt.tests or opt.one or opt.decode):
        measured, writes = times(opt.out, opt.runs, 'cpu' if opt.cpu else 'cuda')
        with open(os.path.join(opt.out, 'times.json'), 'w') as f:
            json.dump([{'bytes': k[0], 'loading': k[1], 'way': k[2], 'metric': k[3], 'us': v}
                       for k, v in sorted(measured.items())]
                      + [{'bytes': size, 'way': 'write', 'us': v} for size, v in sorted(writes.items())], f, indent=1)
        show(measured, writes)
    print(f'failed: {failed}' if failed else 'all steps passed')
    sys.exit(1 if failed else 0)


main()
