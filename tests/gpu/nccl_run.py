#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""run [--rounds N] [--skip-nccl] [--skip-perftest] [VARIANT...]: how fast the software ConnectX of this bundle carries
large messages. A VARIANT is NAME=LIBRARY[,OPTION...] with options of with-softhca; by default old=old.so and
new=new.so. The variants take turns in each round, and medians are printed.

  perftest   ib_write_bw, ib_send_bw, ib_read_bw: 64 KB messages over 8 queue pairs, two processes, GB/s
  NCCL       all_gather over NET/IB between two GPUs, two devices a process, bus bandwidth in GB/s; no other transport
  is allowed"""
import argparse
import os
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
SIZES = ['131072', '2097152', '33554432', '134217728']
PERFTEST = [['ib_write_bw'], ['ib_send_bw'], ['ib_read_bw']]
NCCL_ENV = {'NCCL_P2P_DISABLE': '1', 'NCCL_SHM_DISABLE': '1', 'NCCL_SOCKET_IFNAME': 'lo', 'NCCL_IB_GID_INDEX': '3',
            'NCCL_NVLS_ENABLE': '0', 'NCCL_DMABUF_ENABLE': '0', 'NCCL_NET_GDR_LEVEL': 'LOC', 'NCCL_NET': 'IB'}
cable = 0


def under(variant, devices, command):
    library, *options = variant.split('=', 1)[1].split(',')
    words = [os.path.join(HERE, 'with-softhca'), '--cable', f'shm:bundle{os.getpid()}x{cable}', '--devices',
             str(devices)]
    for option in options:
        words += option.split(' ')
    return words + command, os.path.join(HERE, library)


def start(variant, devices, command, env):
    words, library = under(variant, devices, command)
    path = os.path.join(HERE, 'lib') + ':' + os.environ.get('LD_LIBRARY_PATH', '')
    return subprocess.Popen(words, env={**os.environ, 'SPW_SOFTHCA_LIB': library, 'LD_LIBRARY_PATH': path, **env},
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def both(first, second, seconds):
    """Outputs of two processes that run together; ends both after a time."""
    timer = threading.Timer(seconds, lambda: (first.kill(), second.kill()))
    timer.start()
    out = [None, None]
    reader = threading.Thread(target=lambda: out.__setitem__(0, first.communicate()[0]))
    reader.start()
    out[1] = second.communicate()[0]
    reader.join()
    timer.cancel()
    if first.returncode or second.returncode:
        print(f'FAILED {first.returncode} {second.returncode}\n{out[0][-1500:]}\n{out[1][-1500:]}', file=sys.stderr,
              flush=True)
        return ['', '']
    return out


def perftest(variant, program):
    global cable
    cable += 1
    command = [os.path.join(HERE, program[0]), *program[1:], '-F', '-x', '3', '-q', '8', '-s', '65536', '-n', '20000',
               '--report_gbits',
               '-p', str(20000 + cable)]
    server = start(variant, 1, command, {})
    time.sleep(0.7)
    _, text = both(server, start(variant, 1, command + ['127.0.0.1'], {}), 60)
    rows = [line.split() for line in text.splitlines() if line.split()[:1] == ['65536']]
    return {program[0]: float(rows[0][3]) / 8} if rows else {}


def nccl(variant):
    global cable
    cable += 1
    port = str(21000 + cable)
    ranks = [start(variant, 2, ['python3', os.path.join(HERE, 'nccl_gather.py'), str(rank), port, *SIZES], NCCL_ENV)
             for rank in (0, 1)]
    text, _ = both(*ranks, 150)
    rows = [line.split() for line in text.splitlines()]
    return {f'all_gather {row[0]}': float(row[2]) for row in rows if len(row) == 3 and row[0] in SIZES}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--skip-nccl', action='store_true')
    parser.add_argument('--skip-perftest', action='store_true')
    parser.add_argument('variants', nargs='*', metavar='VARIANT')
    opt = parser.parse_args()
    variants = opt.variants or ['old=old.so', 'new=new.so']
    measured = {}
    for _ in range(opt.rounds):
        for variant in variants:
            results = {}
            for program in [] if opt.skip_perftest else PERFTEST:
                results.update(perftest(variant, program))
            if not opt.skip_nccl:
                results.update(nccl(variant))
            for what, value in results.items():
                measured.setdefault(what, {}).setdefault(variant, []).append(value)
            print(variant, results, flush=True)
    for what, by_variant in measured.items():
        print(what + ':',
              ', '.join(f'{variant.split("=")[0]} {statistics.median(values):.2f} [{min(values):.2f}, '
                        f'{max(values):.2f}]'
                                    for variant, values in by_variant.items()))


main()
