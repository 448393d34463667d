#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""raw_ethernet.py bw|lat [ARGS]: perftest's raw Ethernet programs, server and client on one cable. They
exchange nothing but frames, so the server is watched on a terminal until it prints its table's head."""
import re
import sys
import time

import peers

SERVER_MAC, CLIENT_MAC = '02:73:70:77:0a:01', '02:73:70:77:0a:02'


def command(kind, side, args):
    mine, other = (SERVER_MAC, CLIENT_MAC) if side == '--server' else (CLIENT_MAC, SERVER_MAC)
    return [f'raw_ethernet_{kind}', side, '-F', '-B', mine, '-E', other, *args]


def attempt(kind, args, deadline):
    fabric = peers.Fabric()
    with peers.together():
        server = peers.Proc(fabric.argv(command(kind, '--server', args)), 'server', peers.env(), tty=True)
        server.wait_for(r'#bytes', deadline)
        client = peers.Proc(fabric.argv(command(kind, '--client', args)), 'client', peers.env())
        peers.both_end(client, server, deadline=deadline)
        return server.output(), client.output()


def main():
    kind, args = sys.argv[1], sys.argv[2:]
    peers.need(f'raw_ethernet_{kind}')
    for text in attempt(kind, args, time.monotonic() + 90):
        rows = re.findall(peers.PERFTEST_ROW, text, re.M)
        print(text)
        if not rows or int(rows[0][1]) == 0:
            raise peers.Failed('no frames were counted')


peers.main(main)
