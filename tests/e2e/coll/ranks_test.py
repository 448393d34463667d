#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""ranks_test.py RANKS: ranks as processes, through the Python module and the exchange over TCP, with a secret.
Strangers come to the port of rank 0 first and keep coming; nobody notices. One rank is killed, or stopped and continued
later: the others name it in bounded time and go on without it; the stopped one learns that it is late, and never gets a
sum."""
import contextlib
import os
import re
import signal
import socket
import struct
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'softhca'))
import peers  # noqa: E402  (found by the line above)

RANK = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'rank.py')
SECONDS = 60
ENDED = r'ended after ([\d.]+) s, lost \[([\d, ]*)\]: (.*)'


def pester(port, stop):
    """Heads of an earlier version, which once ended a group or took a rank's place; noise; silence."""
    words = [struct.pack('<4I', 0x58435753, 1, 9, 0), struct.pack('<4I', 0x58435753, 1, 3, 0),
             b'GET / HTTP/1.1\r\n' * 9, b'']
    held = []
    while not stop.is_set():
        with contextlib.suppress(OSError):
            held.append(socket.create_connection(('127.0.0.1', port), 1, ('127.0.0.2', 0)))  # never connected to itself
            held[-1].sendall(words[len(held) % len(words)])
        del held[:-50]
        stop.wait(0.005)


@contextlib.contextmanager
def strangers(port):
    stop = threading.Event()
    thread = threading.Thread(target=pester, args=(port, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def start(ranks, ports, secret):
    fabric = peers.Fabric()
    return [peers.Proc(fabric.argv([sys.executable, RANK, str(rank), str(ranks), 'mlx5_0', *map(str, ports), secret]),
                       f'rank {rank}',
                       peers.env()) for rank in range(ranks)]


def expect_named(proc, victim, deadline, limit_s):
    proc.wait_for(ENDED, deadline)
    took, lost, text = re.search(ENDED, proc.output()).groups()
    if lost != str(victim) or f'rank {victim} (' not in text or float(took) > limit_s:
        raise peers.Failed(f'{proc.name}: after {took} s, lost [{lost}]: {text}')


def harm(ranks, victim, sig):
    deadline = time.monotonic() + SECONDS
    ports = [peers.free_port(), peers.free_port()]
    with peers.together(), tempfile.NamedTemporaryFile('w', prefix='spw-') as secret, \
            strangers(ports[0]), strangers(ports[1]):
        secret.write('a secret of some twenty bytes')
        secret.flush()
        procs = start(ranks, ports, secret.name)
        for proc in procs:
            proc.wait_for('under way', deadline)
        os.kill(procs[victim].p.pid, sig)
        others = [proc for proc in procs if proc is not procs[victim]]
        for proc in others:
            expect_named(proc, victim, deadline, 15)
        peers.both_end(*others, deadline=deadline)
        for proc in others:
            proc.wait_for('again', deadline)
        if sig == signal.SIGSTOP:
            os.kill(procs[victim].p.pid, signal.SIGCONT)
            procs[victim].wait_for(ENDED, deadline)
            procs[victim].wait(deadline)
        for proc in procs:
            if 'WRONG' in proc.output():
                raise peers.Failed(f'{proc.name} got a wrong sum')
        print(f'{ranks} ranks, {sig.name} to rank {victim}:',
              *(re.search(ENDED, proc.output()).group(0) for proc in others), sep='\n  ')


def main():
    ranks = int(sys.argv[1])
    harm(ranks, ranks - 1, signal.SIGKILL)
    harm(ranks, 0, signal.SIGKILL)
    harm(ranks, 1, signal.SIGSTOP)


peers.main(main)
