#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The control socket's name, mode and clients: it is its user's alone; a killed process's is taken over, a live one's
is not, and a client that never reads does not hold the program's end."""
import os
import socket
import subprocess
import sys
import tempfile
import time

import peers

PROGRAM = [sys.executable, '-uc', "open('/sys/class/infiniband/mlx5_0/fw_ver').read(); print('up'); input()"]


def start(path, name):
    argv = peers.Fabric(extra=['--control', path]).argv(PROGRAM)
    proc = peers.Proc(argv, name, peers.env(), stdin=subprocess.PIPE)
    proc.wait_for('(?m)^up$', time.monotonic() + 30)
    return proc


def nobody_else_may_open(path):
    """Whatever the umask is."""
    before = os.umask(0)
    proc = start(path, 'umask 0')
    os.umask(before)
    mode = os.stat(path).st_mode & 0o777
    if mode != 0o600:
        raise peers.Failed(f'{path} has mode {mode:o}')
    proc.say('end')
    proc.wait(time.monotonic() + 10)


def main():
    with tempfile.TemporaryDirectory() as folder, peers.together():
        path = os.path.join(folder, 'control')
        nobody_else_may_open(path)
        killed = start(path, 'killed').p
        killed.kill()
        killed.wait()
        live = start(path, 'live')
        second = start(path, 'second')
        other = f'{path}.mlx5_0.{second.p.pid}'
        if sorted(os.listdir(folder)) != ['control', os.path.basename(other)] or other not in second.output():
            raise peers.Failed(f'{os.listdir(folder)}; {second.output()}')
        for name in (path, other):
            peers.spwlab.nic_ask(name, 'status')
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.connect(path)
            deaf.settimeout(0.5)
            try:
                while True:
                    deaf.sendall(b'status\n' * 1000)
            except OSError:
                pass # it is full, or we were dropped
            live.say('end')
            live.wait(time.monotonic() + 10)
        second.say('end')
        second.wait(time.monotonic() + 10)
        if os.listdir(folder):
            raise peers.Failed(f'left behind: {os.listdir(folder)}')


peers.main(main)
