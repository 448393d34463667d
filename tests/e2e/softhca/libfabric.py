#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""libfabric.py TYPE: fi_pingpong of Debian's libfabric over its verbs provider: connected endpoints (msg), datagrams
(dgram), and reliable datagrams over connected ones (rdm). Endpoints come by rdma_cm, the server's by a loopback
address; both ends compare every byte. What the two say to each other before goes over TCP, so both have the addresses
of a veth pair."""
import sys
import time

import peers

PROVIDER = {'msg': 'verbs', 'dgram': 'verbs', 'rdm': 'verbs;ofi_rxm'}
SIZES = {'msg': ['64', '256', '1k', '4k', '64k', '1m'], 'dgram': ['64', '256', '1k', '4k']}


def main():
    kind = sys.argv[1]
    peers.need('fi_pingpong')
    peers.enter_netns("fi_pingpong's two ends name by their addresses")
    deadline = time.monotonic() + 100
    fabric = peers.Fabric()
    argv = ['fi_pingpong', '-p', PROVIDER[kind], '-e', kind, '-c', '-I', '20']
    with peers.together():
        server = peers.Proc(fabric.argv(argv, '--netdev', 'spwt0', '--ip', '10.78.0.1'), 'server',
                            peers.env())
        while not peers.listening(47592):
            if server.p.poll() is not None or time.monotonic() > deadline:
                raise peers.Failed('the server does not listen:\n' + server.output())
            time.sleep(0.1)
        client = peers.Proc(fabric.argv([*argv, '10.78.0.1'], '--netdev', 'spwt1', '--ip', '10.78.0.2'),
                            'client', peers.env())
        peers.both_end(client, server, deadline=deadline)
    for proc in (client, server):
        rows = [line.split() for line in proc.output().splitlines() if '=20' in line]
        if [row[0] for row in rows] != SIZES.get(kind, SIZES['msg']):
            raise peers.Failed(f'{proc.name} has not measured every size:\n{proc.output()}')
    peers.report(client, server)


peers.main(main)
