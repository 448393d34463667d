#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rxe_test.py guest PROGRAM... | wire XFER_PEER: lib/xfer and the kernel's own soft-RoCE (rxe0), in the guest of
tools/rxe-guest. guest: tests of lib/xfer there, over rxe0 as their only rail, and as one of two beside the software
ConnectX. They compare every byte; rxe_guest.sh looks at what rxe0 sent. wire: one end there over rxe0, the other here
over a software ConnectX."""
import os
import re
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'softhca'))
import guest  # noqa: E402  (found by the line above)
import peers  # noqa: E402

MESSAGES = 100 # at each end


def inside(programs):
    script = os.path.join(peers.ROOT, 'tests/e2e/xfer/rxe_guest.sh')
    names = [os.path.basename(p) + way for p in programs for way in ('_alone', '_of_two')]
    guest.phases(names, [script, guest.WITH_SOFTHCA, os.environ['SPW_SOFTHCA_LIB'], *programs],
                 [script, *programs, *guest.softhca()])


def received(proc):
    """That many messages have arrived. They hold what they should, or a line that begins with "wrong" is there."""
    if re.search(r'^wrong.*|^ended.*', proc.output(), re.M):
        raise peers.Failed(f'{proc.name}: a byte is wrong, or the connection ended')
    return int((re.findall(r'^messages (\d+)', proc.output(), re.M) or ['0'])[-1])


def wire(program):
    deadline, address = time.monotonic() + guest.SECONDS, f'127.0.0.1:{peers.free_port()}'
    os.environ['SPW_TEST_OPEN'] = '1'
    with tempfile.TemporaryDirectory(prefix='spw-') as folder, peers.together():
        host = guest.host([program, 'serve', 'mlx5_0', address], folder)
        host.wait_for('listens on', deadline)
        vm = guest.start(f'timeout {int(guest.SECONDS)} {program} connect verbs:rxe0 '
                         f'{address.replace("127.0.0.1", "10.0.2.2")}', guest.SECONDS, folder,
                         carry=[program])
        for proc in (host, vm):
            proc.wait_for(lambda p=proc: received(p) >= MESSAGES, deadline)
            print(f'{proc.name}: {received(proc)} messages, over {re.findall("^up .*", proc.output(), re.M)}')


def main():
    guest.need()
    programs = [os.path.abspath(p) for p in sys.argv[2:]]
    if sys.argv[1] == 'guest':
        inside(programs)
    else:
        wire(*programs)


peers.main(main)
