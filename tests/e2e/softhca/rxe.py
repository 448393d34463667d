#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rxe.py guest-serves|guest-calls PROGRAM [ARGS]: the software ConnectX against the kernel's rdma_rxe in a
virtual machine, joined by AF_UNIX datagrams (tools/rxe-guest). PROGRAM runs on both sides."""
import os
import re
import shlex
import sys
import tempfile
import time

import guest
import peers

SECONDS = float(os.environ.get('SPW_RXE_SECONDS', 290))


def options(program, gid):
    return ['-g', str(gid)] if program.startswith('ibv_') else ['-F', '-x', str(gid)]


def until_it_connects(argv, folder, deadline):
    """QEMU accepts for a guest that does not listen yet; the program then fails at once."""
    while True:
        proc = guest.host(argv, folder)
        proc.wait(deadline)
        if proc.p.returncode == 0 or time.monotonic() > deadline:
            return proc
        time.sleep(0.5)


def run(serves, program, folder):
    deadline = time.monotonic() + SECONDS
    port = peers.free_port()
    base = [program[0], '-p', str(port), *program[1:]]
    there = ' '.join(map(shlex.quote, base + options(program[0], 1)))
    here = base + options(program[0], 3)
    if serves:
        vm = guest.start(there, SECONDS - 10, folder, forward=port)
        vm.wait_for('GUEST READY', deadline)
        host = until_it_connects([*here, '127.0.0.1'], folder, deadline)
    else:
        host = guest.host(here, folder)
        host.wait_for(lambda: peers.listening(port), deadline)
        vm = guest.start(there + ' 10.0.2.2', SECONDS - 10, folder)
    peers.both_end(host, vm, deadline=deadline)
    for proc in (host, vm):
        if not re.search('usec/iter|' + peers.PERFTEST_ROW, proc.output(), re.M) or 'invalid' in proc.output():
            raise peers.Failed(f'{proc.name} failed')
    peers.report(host)


def main():
    guest.need()
    with tempfile.TemporaryDirectory() as folder, peers.together():
        run(sys.argv[1] == 'guest-serves', sys.argv[2:], folder)


peers.main(main)
