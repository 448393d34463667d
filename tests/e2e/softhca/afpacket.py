#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""afpacket.py pingpong | tags | link | tcpreplay RAW_DV: the cable that is any Linux interface, here a veth pair in a
network namespace of the test's own. Two NICs on its two ends; a port that follows the interface's link; and frames of a
real generator, received by direct verbs."""
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time

import peers

SECONDS = 90
FRAMES, BYTES = 1920, 200
RX_MAC, TX_MAC = bytes.fromhex('027370770b01'), bytes.fromhex('027370770b02') # raw_dv's, which counts in 64s


def enter_namespace():
    if os.geteuid() != 0:
        peers.skip('needs root: a veth pair in a network namespace')
    peers.namespace.enter(peers.skip, '--net')
    made = subprocess.run('ip link set lo up && ip link add spwa0 mtu 4000 type veth peer name spwa1 mtu 4000 && '
                          'for i in spwa0 spwa1; do echo 1 > /proc/sys/net/ipv6/conf/$i/disable_ipv6; ip link set $i '
                          'up; done',
                          shell=True, capture_output=True, check=False)
    if made.returncode:
        peers.skip('no veth: ' + made.stderr.decode().strip())
    for dev in 'spwa0', 'spwa1':
        peers.namespace.wait_for_carrier(dev)


def pingpong(_):
    """RC over the veth pair, the bytes checked; its frames pass the interface."""
    port, deadline = peers.free_port(), time.monotonic() + SECONDS
    ends = [peers.Fabric(cable=f'afpacket:spwa{i}', extra=['--ip', f'10.9.0.{i + 1}', '--mac',
                                                           f'02:73:70:77:09:0{i + 1}'])
            for i in range(2)]
    program = ['ibv_rc_pingpong', '-g', '3', '-c', '-n', '500', '-p', str(port)]
    with peers.together():
        server = peers.Proc(ends[0].argv(program), 'server', peers.env())
        server.wait_for(lambda: peers.listening(port), deadline)
        client = peers.Proc(ends[1].argv([*program, '127.0.0.1']), 'client', peers.env())
        peers.both_end(client, server, deadline=deadline)
        if 'invalid data' in client.output() + server.output():
            raise peers.Failed('wrong bytes')
        print(client.output())
        with open('/proc/net/dev', encoding='ascii') as file: # of this namespace, as /sys is not
            sent = re.search(r'spwa1:(?: +\d+){9} +(\d+)', file.read())
        if int(sent.group(1)) < 500:
            raise peers.Failed('the frames did not go over the interface')


def tags(_):
    """The kernel takes VLAN tags off what it hands to a packet socket: the NIC sees customer's and service tags as they
    were sent."""
    peers.need('ibv_asyncwatch')
    frames = [RX_MAC + TX_MAC + tag + b'\x88\xb5' + b'tagged'.ljust(60, b'.')
              for tag in (b'\x81\0\x20\7', b'\x88\xa8\x30\5', b'')]
    with tempfile.TemporaryDirectory() as folder, peers.together():
        trace = os.path.join(folder, 'trace')
        fabric = peers.Fabric(cable='afpacket:spwa0', extra=['--mac', ':'.join(f'{b:02x}' for b in RX_MAC), '--trace',
                                                             trace])
        watch = peers.Proc(fabric.argv(['ibv_asyncwatch', '-d', 'mlx5_0']), 'watch', peers.env(), tty=True)
        watch.wait_for('event FD', time.monotonic() + SECONDS)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
            sock.bind(('spwa1', 0))
            for frame in frames:
                sock.send(frame)

        def seen():
            with open(trace, 'rb') as file:
                text = file.read()
            return all(frame in text for frame in frames)
        watch.wait_for(seen, time.monotonic() + SECONDS)


def link(_):
    """The port is down while its interface is, or while the other end of the veth pair is; each change is an event."""
    peers.need('ibv_asyncwatch', 'ibv_devinfo')
    fabric, deadline = peers.Fabric(cable='afpacket:spwa0'), time.monotonic() + SECONDS

    def port_is(state):
        while f'state:\t\t\t{state}' not in peers.run(fabric.argv(['ibv_devinfo']), 60):
            if time.monotonic() > deadline:
                raise peers.Failed(f'the port of a new process is not {state}')

    def switch(interface, up):
        subprocess.run(['ip', 'link', 'set', interface, 'up' if up else 'down'], check=True)

    switch('spwa0', False)
    port_is('PORT_DOWN')
    switch('spwa0', True)
    port_is('PORT_ACTIVE')
    with peers.together():
        watch = peers.Proc(fabric.argv(['ibv_asyncwatch', '-d', 'mlx5_0']), 'watch', peers.env(), tty=True)
        watch.wait_for('async event FD', deadline)
        for turn, interface in enumerate(('spwa0', 'spwa1'), 1):
            for event, up in (('IBV_EVENT_PORT_ERR', False), ('IBV_EVENT_PORT_ACTIVE', True)):
                switch(interface, up)
                watch.wait_for(lambda event=event, turn=turn: len(re.findall(event, watch.output())) == turn, deadline)


def write_capture(path):
    with open(path, 'wb') as file:
        file.write(struct.pack('<IHHiIII', 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        for number in range(FRAMES):
            frame = (RX_MAC + TX_MAC + b'\x88\xb5' + struct.pack('<Q', number)).ljust(BYTES, b'\xa5')
            file.write(struct.pack('<IIII', 0, number, BYTES, BYTES) + frame)


def tcpreplay(program):
    """Every frame that tcpreplay put on the other end is received, whole and in order."""
    peers.need('tcpreplay')
    deadline = time.monotonic() + SECONDS
    fabric = peers.Fabric(cable='afpacket:spwa0', extra=['--mac', ':'.join(f'{b:02x}' for b in RX_MAC)])
    with tempfile.TemporaryDirectory() as folder, peers.together():
        capture = os.path.join(folder, 'frames.pcap')
        write_capture(capture)
        rx = peers.Proc(fabric.argv([program, 'rx', str(FRAMES), str(BYTES), '20000']), 'rx', peers.env())
        rx.wait_for('ready', deadline)
        replay = peers.Proc(['tcpreplay', '-i', 'spwa1', '--pps', '1000', capture], 'tcpreplay', peers.env())
        replay.wait(deadline)
        rx.wait(deadline)
        result = re.search(r'frames (\d+) bad (\d+) lost (\d+)', rx.output())
        if replay.p.returncode or not result or result.group(0) != f'frames {FRAMES} bad 0 lost 0':
            raise peers.Failed('not what was sent')
        print(result.group(0))


def main():
    peers.need('unshare', 'ip')
    enter_namespace()
    {'pingpong': pingpong, 'tags': tags, 'link': link, 'tcpreplay': tcpreplay}[sys.argv[1]]((sys.argv[2:] or [None])[0])


peers.main(main)
