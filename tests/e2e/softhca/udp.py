#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""udp.py plain | lossy: the cable of UDP datagrams, which joins hosts, containers and pods, by processes without any
privilege. Every byte is checked, over IPv4 and IPv6, with frames longer than the path's MTU; and what a network between
the ends loses shows in the counters that a card has for it."""
import re
import socket
import threading
import time

import peers

SECONDS = 90
MESSAGES, LOSES_EACH = 400, 37 # the relay loses every 37th datagram, so a repeated one as well, but not twice
COUNTERS = ['out_of_sequence', 'packet_seq_err', 'local_ack_timeout_err']


def udp_ports():
    return peers.free_port(socket.SOCK_DGRAM), peers.free_port(socket.SOCK_DGRAM)


def fabrics(host, ports, towards, options=('', '')):
    return [peers.Fabric(cable=f'udp:{host}:{ports[i]},{host}:{towards[i]}', extra=options[i].split())
            for i in range(2)]


def pingpong(ends):
    """RC between the two ends; server and client are told apart by the control connection's port only."""
    port, deadline = peers.free_port(), time.monotonic() + SECONDS
    program = ['ibv_rc_pingpong', '-g', '3', '-c', '-s', '8000', '-n', str(MESSAGES), '-p', str(port)]
    with peers.together():
        server = peers.Proc(ends[0].argv(program), 'server', peers.env())
        server.wait_for(lambda: peers.listening(port), deadline)
        client = peers.Proc(ends[1].argv([*program, '127.0.0.1']), 'client', peers.env())
        peers.both_end(client, server, deadline=deadline)
        text = client.output() + server.output()
    if 'invalid data' in text or len(re.findall(rf'{MESSAGES} iters in', text)) != 2:
        raise peers.Failed('wrong bytes, or too few:\n' + text)


def plain():
    for host in '127.0.0.1', '[::1]':
        ports = udp_ports()
        pingpong(fabrics(host, ports, ports[::-1]))
        print(host, 'carried', MESSAGES, 'messages each way')


class Relay(threading.Thread):
    """The network: it passes datagrams on between the ends, which see its addresses and not each other's, as behind a
    NAT, and loses every LOSES_EACHth."""

    def __init__(self, ends):
        super().__init__(daemon=True)
        self.socks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in ends]
        for sock in self.socks:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            sock.bind(('127.0.0.1', 0))
            sock.setblocking(False)
        self.ends, self.seen, self.lost, self.ended = ends, 0, 0, False
        self.ports = [sock.getsockname()[1] for sock in self.socks]

    def run(self):
        while not self.ended:
            if not any([self.relay(i) for i in range(2)]):
                time.sleep(0.0005)

    def relay(self, i):
        try:
            frame = self.socks[i].recv(65536)
        except (BlockingIOError, ConnectionRefusedError):
            return False
        self.seen += 1
        if self.seen % LOSES_EACH == 0:
            self.lost += 1
            return True
        self.socks[1 - i].sendto(frame, ('127.0.0.1', self.ends[1 - i]))
        return True


def lossy():
    """Writes through a network that loses frames: all arrive, and the sender's counters name the repeats."""
    ports, tcp, deadline = udp_ports(), peers.free_port(), time.monotonic() + SECONDS
    relay = Relay(ports)
    relay.start()
    ends = fabrics('127.0.0.1', ports, relay.ports,
                   [f'--mac 02:73:70:77:0a:0{i} --ip 10.9.1.{i + 1}' for i in range(2)])
    program = ['ib_write_bw', '-F', '-x', '3', '-s', '2048', '-m', '1024', '-n', str(MESSAGES), '-u', '16',
               '-p', str(tcp), '--report-counters=' + ','.join(f'hw_counters/{name}' for name in COUNTERS)]
    with peers.together():
        server = peers.Proc(ends[0].argv(program), 'server', peers.env())
        server.wait_for(lambda: peers.listening(tcp), deadline)
        client = peers.Proc(ends[1].argv([*program, '127.0.0.1']), 'client', peers.env())
        peers.both_end(client, server, deadline=deadline)
        text = client.output() + server.output()
    relay.ended = True
    found = {name: sum(int(n) for n in re.findall(rf'hw_counters/{name}=(\d+)', text)) for name in COUNTERS}
    print('lost', relay.lost, 'of', relay.seen, found)
    if relay.lost < 10 or not found['out_of_sequence'] or not found['packet_seq_err'] + found['local_ack_timeout_err']:
        raise peers.Failed('the loss is not in the counters:\n' + text)


def main():
    peers.need('ibv_rc_pingpong', 'ib_write_bw')
    peers.drop_root()
    {'plain': plain, 'lossy': lossy}[peers.sys.argv[1]]()


peers.main(main)
