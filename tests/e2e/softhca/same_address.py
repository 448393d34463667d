#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Who shares what. The processes below one with-softhca are on one machine: they share its card, with one address, and
reach each other through it. Another machine's address is refused with a text that names whose it is, in no time. A file
that is cut under two programs takes their link down, and ends neither of them."""
import os
import re
import shlex
import time

import peers

PROMPT_S = 20
GUID = '0253:57ff:fe01:[0-9a-f]{4}'


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


def one_card():
    """Both ends on one device, while others read who it is, as programs and as shells do."""
    fabric, port = peers.Fabric(), peers.free_port()
    who = 'cat /sys/class/infiniband/mlx5_0/node_guid; ibv_devinfo | grep node_guid'
    end = f'ibv_rc_pingpong -g 3 -c -n 100 -p {port}'
    script = f'{who}; {end} & until {end} 127.0.0.1; do {who}; done; wait $!; {who}'
    guids = re.findall(GUID, peers.run(fabric.argv(['sh', '-c', script]), 60))
    if len(guids) < 4 or len(set(guids)) != 1:
        raise peers.Failed(f'the card is {guids}')
    inside = shlex.join(fabric.argv(['sh', '-c', who]))
    guids = re.findall(GUID, peers.run(fabric.argv(['sh', '-c', f'{who}; {inside}']), 60))
    if len(guids) != 4 or len(set(guids)) != 2:
        raise peers.Failed(f'the cards of two machines are {guids}')


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
        one_card()
        same_address()
        cut_file()


peers.main(main)
