#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""ucx.py [--fault F]... [--option O=V]... [--rails N] [--cm] TRANSPORT PROGRAM [ARGS]: UCX between two software
ConnectXs. PROGRAM is ucx_perftest, or io_demo, which checks every byte. UCX writes its WQEs and doorbells itself
(rc_mlx5, ud_mlx5): what a card would not forgive fails the test. Of the bytes of io_demo each rail must carry its
share."""
import argparse
import os
import re
import tempfile
import time

import peers

# Sizes of io_demo's operations, and how many of them. Both sides must name the sizes.
OPS, OP_MAX = 200, 300000
# No interface of this machine has these: what connects by them does so by rdma_cm.
SERVER, CLIENT = '10.99.0.1', '10.99.0.2'
IO_DEMO = ('-q', '-o', 'read,write', '-d', f'64:{OP_MAX}', '-k', '100000')


def settings(opt):
    """UCX's environment: this transport, on these rails. RC connects by UD; io_demo connects by TCP, or by rdma_cm.
    What is lost is sent again soon; a peer whose NIC thread got no core for longer than all retries take must not count
    as gone."""
    is_rc, by_tcp = opt.transport.startswith('rc'), opt.program[0] == 'io_demo' and not opt.cm
    return {'UCX_TLS': ','.join([opt.transport, *['ud_mlx5:aux'] * is_rc, *['tcp'] * by_tcp]),
            'UCX_NET_DEVICES': ','.join([*[f'mlx5_{n}:1' for n in range(opt.rails)], *['lo'] * by_tcp]),
            'UCX_MAX_RNDV_RAILS': str(opt.rails), **({'UCX_RC_TIMEOUT': '2ms'} if is_rc else {}),
            **({'UCX_SOCKADDR_TLS_PRIORITY': 'rdmacm'} if opt.cm else {})}


def check(text):
    if re.search(r'UCX +(ERROR|FATAL|WARN)|corruption|mismatch', text):
        raise peers.Failed('UCX complains')


def perftest(fabric, opt):
    server, client = peers.pair(fabric, [*opt.program, '-w', '20'], time.monotonic() + opt.seconds)
    print(client)
    check(server + client)
    done = re.search(r'^Final: +(\d+)', client, re.M)
    if not done or int(done.group(1)) != int(opt.program[opt.program.index('-n') + 1]):
        raise peers.Failed('no result of all iterations')


def carried(folder, rail):
    """Bytes in the trace of that rail."""
    return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)
               if name.startswith(f'mlx5_{rail}-'))


def io_demo(fabric, opt):
    deadline, port = time.monotonic() + opt.seconds, peers.free_port()
    program = ['io_demo', '-p', str(port), *IO_DEMO]
    with tempfile.TemporaryDirectory(prefix='spw-') as folder, peers.together():
        server = peers.Proc(fabric.argv(program, '--ip', SERVER), 'server', peers.env())
        server.wait_for(' buffers:' if opt.cm else lambda: peers.listening(port), deadline)
        client = peers.Proc(fabric.argv([*program, '-i', str(OPS), SERVER if opt.cm else '127.0.0.1'], '--ip', CLIENT,
                                        '--trace', folder), 'client', peers.env())
        client.wait(deadline)
        check(server.output() + client.output())
        if "exit with status 'OK'" not in client.output():
            raise peers.Failed('io_demo failed')
        rails = [carried(folder, rail) for rail in range(opt.rails)]
        print(f'{rails} bytes')
        if min(rails) < 0.5 * OPS * OP_MAX / 2 / opt.rails: # sizes are evenly distributed
            raise peers.Failed('a rail carried too little')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--fault', action='append', default=[])
    parser.add_argument('--option', action='append', default=[], help='of with-softhca: NAME=VALUE')
    parser.add_argument('--rails', type=int, default=1)
    parser.add_argument('--cm', action='store_true', help='io_demo connects by rdma_cm')
    parser.add_argument('--seconds', type=float, default=100)
    parser.add_argument('transport')
    parser.add_argument('program', nargs=argparse.REMAINDER)
    opt = parser.parse_args()
    peers.need(opt.program[0])
    os.environ.update(settings(opt))
    extra = [word for o in opt.option for word in ('--' + o.split('=', 1)[0], o.split('=', 1)[1])]
    fabric = peers.Fabric(opt.fault, ['--devices', str(opt.rails), *extra])
    (io_demo if opt.program[0] == 'io_demo' else perftest)(fabric, opt)


peers.main(main)
