#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a NIC does about a cable that it cannot share: the address of another one is refused with a text that names
whose it is, in no time; a file that is cut under two programs takes their link down, and ends neither of them."""
import os
import re
import time

import peers

PROMPT_S = 20


def server(fabric, *more):
    port = peers.free_port()
    proc = peers.Proc(fabric.argv(['ibv_rc_pingpong', '-g', '3', '-p', str(port)], *more), 'server', peers.env())
    proc.wait_for(lambda: peers.listening(port), time.monotonic() + 30)
    return proc


def refused(fabric, *more):
    proc = peers.Proc(fabric.argv(['ibv_rc_pingpong', '-g', '3', '-p', str(peers.free_port())], *more), 'second',
                      peers.env())
    status, text = proc.wait(time.monotonic() + PROMPT_S), proc.output()
    print(text)
    if status <= 0:
        raise peers.Failed(f'the second one ended with {status}')
    return text


def holder(text):
    found = re.search(r'process (\d+) ', text)
    if not found:
        raise peers.Failed('no text says whose the address is')
    return int(found.group(1))


def same_address():
    fabric = peers.Fabric()
    first = server(fabric, '--ip', '10.7.0.1', '--mac', '02:00:00:00:07:01')
    for more in (['--ip', '10.7.0.1'], ['--mac', '02:00:00:00:07:01']):
        if os.getpgid(holder(refused(fabric, *more))) != first.p.pid:
            raise peers.Failed('another process is named')
    server(fabric, '--ip', '10.7.0.2', '--mac', '02:00:00:00:07:02').stop()
    first.stop()


def cut_file():
    fabric = peers.Fabric()
    watch = [peers.Proc(fabric.argv(['ibv_asyncwatch', '-d', 'mlx5_0']), f'watch {i}', peers.env(), tty=True)
             for i in range(2)]
    for proc in watch:
        proc.wait_for('async event FD', time.monotonic() + 30)
    os.truncate(fabric.shm_path(), 0)
    for proc in watch:
        proc.wait_for('IBV_EVENT_PORT_ERR', time.monotonic() + PROMPT_S)
        proc.wait_for('was cut while it was in use', time.monotonic() + PROMPT_S)
        proc.stop()


def main():
    peers.need('ibv_rc_pingpong', 'ibv_asyncwatch')
    with peers.together():
        same_address()
        cut_file()


peers.main(main)
