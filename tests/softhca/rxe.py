#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rxe.py guest-serves|guest-calls PROGRAM [ARGS]: the software ConnectX against the kernel's rdma_rxe in a
virtual machine, joined by AF_UNIX datagrams (tools/rxe-guest). PROGRAM runs on both sides."""
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import peers

GUEST = os.path.join(peers.ROOT, 'tools', 'rxe-guest')
GUEST_IP, GUEST_MAC = '10.99.0.2', '02:73:70:77:00:02'
HOST_IP, HOST_MAC = '10.99.0.1', '02:73:70:77:00:01'
RESULT = r'usec/iter|^ *\d+ +\d+ +[\d.]+ +[\d.]+'


def gid_option(program, gid):
    return ['-g' if program.startswith('ibv_') else '-x', str(gid)]


def guest_command(folder, port, job, serves):
    forward = ['--forward', f'{port}={port}'] if serves else []
    return [GUEST, 'run', '--frames', f'{folder}/guest,{folder}/host', '--ip', GUEST_IP, '--mac', GUEST_MAC,
            '--neighbour', f'{HOST_IP}={HOST_MAC}', *forward, '--seconds', '280', job]


def host_command(folder, argv):
    fabric = peers.Fabric(cable=f'unix:{folder}/host,{folder}/guest',
                          extra=['--ip', HOST_IP, '--mac', HOST_MAC])
    return fabric.argv(argv)


def until_it_connects(argv, deadline):
    """QEMU accepts for a guest that does not listen yet; the program then fails at once."""
    while True:
        proc = peers.Proc(argv, 'host', peers.env())
        proc.wait(deadline)
        if proc.p.returncode == 0 or time.monotonic() > deadline:
            return proc
        time.sleep(0.5)


def run(serves, program, folder):
    deadline = time.monotonic() + float(os.environ.get("SPW_RXE_SECONDS", 290))
    port = peers.free_port()
    base = [program[0], '-p', str(port), *program[1:]]
    on_guest = ' '.join(map(shlex.quote, base + gid_option(program[0], 1)))
    on_host = base + gid_option(program[0], 3)
    guest = host = None
    try:
        if serves:
            guest = peers.Proc(guest_command(folder, port, on_guest, True), 'guest', peers.env())
            guest.wait_for('GUEST READY', deadline)
            host = until_it_connects(host_command(folder, [*on_host, '127.0.0.1']), deadline)
        else:
            host = peers.Proc(host_command(folder, on_host), 'host', peers.env())
            host.wait_for(lambda: peers.listening(port), deadline)
            guest = peers.Proc(guest_command(folder, port, on_guest + ' 10.0.2.2', False), 'guest', peers.env())
            host.wait(deadline)
        guest.wait(deadline)
        for proc in (host, guest):
            if proc.p.returncode or not re.search(RESULT, proc.output(), re.M) or 'invalid' in proc.output():
                raise peers.Failed(f'{proc.name} failed')
        peers.report(host)
    except peers.Failed:
        peers.report(guest, host)
        raise
    finally:
        peers.stop_all()


def main():
    peers.need('qemu-system-x86_64')
    built = subprocess.run([GUEST, 'build'], capture_output=True, text=True)
    if built.returncode == peers.SKIP:
        peers.skip(built.stderr.strip().splitlines()[-1])
    if built.returncode:
        raise peers.Failed('the guest cannot be built: ' + built.stderr)
    folder = tempfile.mkdtemp()
    try:
        run(sys.argv[1] == 'guest-serves', sys.argv[2:], folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


peers.main(main)
