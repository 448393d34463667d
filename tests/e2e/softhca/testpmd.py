#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""testpmd.py [--stock [--as CARD]] [--comp 0|1] [--mprq] [--queues N] [--frames N] [--size BYTES]: dpdk-testpmd of the
distribution with its own net_mlx5 PMD on both ends of a cable, one sending, one receiving, in a network namespace of
their own. The receiver must count as many good frames as asked for, and no error; the NIC's own counters must agree.
--stock: without device arguments; every frame that was sent must be counted, with DEVX by a flow rule as well, and
every queue must have some."""
import argparse
import atexit
import os
import re
import shutil
import subprocess
import tempfile
import time

import peers
import spwtel

PCI = '5c00:01:00.0'
# Striding receive ("multi-packet receive queue"), also with one queue, and 64 strides a WQE.
MPRQ = ',mprq_en=1,rxqs_min_mprq=1,mprq_log_stride_num=6'


class Testpmd:
    def __init__(self, fabric, name, netdev, opt, queues, cores, mprq=False):
        self.folder = tempfile.mkdtemp()
        self.has_devx = opt.card != 'no-devx'
        lcores = f'0@{cores[0]},1@{cores[1]}'
        devargs = '' if opt.stock else f',dv_flow_en=0,rxq_cqe_comp_en={opt.comp}{MPRQ if mprq else ""}'
        argv = ['dpdk-testpmd', '--log-level=pmd.net.mlx5:debug', '--log-level=pmd.common.mlx5:debug', '--no-huge',
                '-m', '256', '--no-telemetry', '--file-prefix', f'spw{os.getpid()}{name}',
                '--lcores', lcores, '-a', PCI + devargs, '--',
                '-i', '--no-lsc-interrupt', '--nb-cores=1', f'--rxq={queues}',
                f'--txq={queues}', '--total-num-mbufs=16384', '--rxd=1024', '--txd=1024',
                '--disable-rss' if queues == 1 else
                '--rss-udp' if opt.stock else '--rss-ip']
        if opt.stock and name == 'tx':
            argv.append('--txonly-multi-flow')
        # EAL leaves it
        atexit.register(shutil.rmtree, spwtel.runtime_folder(argv[argv.index('--file-prefix') + 1]), ignore_errors=True)
        self.proc = peers.Proc(fabric.argv(argv, '--netdev', netdev), name, peers.env(), tty=True,
                               stdin=subprocess.PIPE)

    def ready(self, deadline):
        self.proc.wait_for(lambda: 'testpmd> ' in self.said(0), deadline)

    def said(self, mark):
        """The output behind mark, without the lines of the driver's log, which come between any two letters of it."""
        return re.sub(r'mlx5_\w+: [^\n]*\n', '', self.proc.output()[mark:])

    def ask(self, line, answer, deadline):
        """Say a line; the output that came after it, once `answer` is in it."""
        mark = len(self.proc.output())
        self.proc.say(line)
        self.proc.wait_for(lambda: re.search(answer, self.said(mark), re.S), deadline)
        return self.said(mark)

    def stats(self, deadline):
        text = self.ask('show port stats 0', r'RX-nombuf:.*?Tx-bps:', deadline)
        return {key: int(value) for key, value in re.findall(r'([RT]X-\w+): *(\d+)', text)}

    def quit(self, deadline):
        self.proc.say('stop')
        self.proc.say('quit')
        self.proc.wait(deadline)
        if self.proc.p.returncode:
            raise peers.Failed(f'{self.proc.name} ended with {self.proc.p.returncode}')


def count_by_rule(rx, queues, deadline):
    """A rule of the console takes the sender's frames, all of which are UDP, and counts them."""
    rx.ask('flow create 0 ingress pattern eth / ipv4 / udp / end actions count / '
           f'{"queue index 0" if queues == 1 else "rss"} / end', 'Flow rule #0 created', deadline)


def rule_count(rx, deadline):
    text = rx.ask('flow query 0 0 count', r'bytes: \d+', deadline)
    return tuple(int(re.search(rf' {what}: (\d+)', text).group(1)) for what in ('hits', 'bytes'))


def count_all(rx, sent, queues, deadline):
    """Every frame is received or missed; each queue has its share of the received ones."""
    got = rx.stats(deadline)
    while got['RX-packets'] + got['RX-missed'] < sent:
        if time.monotonic() > deadline:
            raise peers.Failed(f'{got} of {sent} frames')
        time.sleep(0.2)
        got = rx.stats(deadline)
    if got['RX-packets'] + got['RX-missed'] != sent:
        raise peers.Failed(f'{got} of {sent} frames')
    if ('DevX is supported' in rx.proc.output()) != rx.has_devx:
        raise peers.Failed('net_mlx5 made its queues in the other way')
    text = rx.ask('stop', r'Accumulated forward statistics.*?\+{20}', deadline)
    share = [int(n) for n in re.findall(r'RX Port= *0/Queue= *\d+ .*?RX-packets: *(\d+)', text, re.S)]
    if queues > 1 and (len(share) != queues or 0 in share or sum(share) != got['RX-packets']):
        raise peers.Failed(f'queues with {share} of {got["RX-packets"]} frames')
    print('by queue', share)
    return got


def drive(fabric, opt, deadline):
    cores = sorted(os.sched_getaffinity(0))
    pick = [(cores[0], cores[1 % len(cores)]), (cores[0], cores[2 % len(cores)])]
    with peers.together():
        rx = Testpmd(fabric, 'rx', 'spwt0', opt, opt.queues, pick[0], opt.mprq)
        rx.ready(deadline)
        rx.ask('set promisc 0 on', 'testpmd>', deadline)
        rx.ask('set fwd rxonly', 'rxonly', deadline)
        rx.ask('start', 'testpmd>', deadline)
        if opt.stock and rx.has_devx:
            count_by_rule(rx, opt.queues, deadline)
        tx = Testpmd(fabric, 'tx', 'spwt1', opt, 1, pick[1])
        tx.ready(deadline)
        tx.ask(f'set txpkts {opt.size}', 'testpmd>', deadline)
        tx.ask('set fwd txonly', 'txonly', deadline)
        tx.ask('start', 'testpmd>', deadline)
        while rx.stats(deadline)['RX-packets'] < opt.frames:
            if time.monotonic() > deadline:
                raise peers.Failed('not all frames came')
            time.sleep(0.2)
        tx.ask('stop', 'testpmd>', deadline)
        sent, got = tx.stats(deadline), rx.stats(deadline)
        if opt.stock:
            got = count_all(rx, sent['TX-packets'], opt.queues, deadline)
            if rx.has_devx and (of_rule := rule_count(rx, deadline)) != (sent['TX-packets'], sent['TX-bytes']):
                raise peers.Failed(f'the rule counted {of_rule} of {sent}')
        print('sent', sent, '\nreceived', got)
        if got['RX-errors'] or sent['TX-errors']:
            raise peers.Failed('errors were counted')
        if got['RX-bytes'] != got['RX-packets'] * opt.size:
            raise peers.Failed(f'{got["RX-bytes"]} bytes in {got["RX-packets"]} frames of {opt.size}')
        if got['RX-packets'] > sent['TX-packets']:
            raise peers.Failed('more frames came than were sent')
        if ('Multi-Packet RQ is enabled' in rx.proc.output()) != opt.mprq:
            raise peers.Failed('the receive queue is not of the kind that was asked for')
        tx.quit(deadline)
        rx.quit(deadline)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--stock', action='store_true')
    parser.add_argument('--as', dest='card')
    parser.add_argument('--comp', type=int, default=0)
    parser.add_argument('--mprq', action='store_true')
    parser.add_argument('--queues', type=int, default=1)
    parser.add_argument('--frames', type=int, default=200000)
    parser.add_argument('--size', type=int, default=64)
    opt = parser.parse_args()
    peers.need('dpdk-testpmd', 'unshare', 'ip')
    peers.enter_netns('net_mlx5 needs')
    drive(peers.Fabric([], ['--as', opt.card] if opt.card else []), opt, time.monotonic() + 100)


if __name__ == "__main__":
    peers.main(main)
