#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rdmacm.py JUDGE: programs of the distribution that connect by rdma_cm, over a private cable. Each is a server and a
client, two machines; where the program can compare payload, it does."""
import re
import sys
import time

import peers

SERVER, CLIENT = '10.99.0.1', '10.99.0.2'
GROUP = '239.1.1.1'
PERF = ['-F', '-R']
# What a server prints before it listens, or joins its group.
READY = {'ib': 'Waiting for client', 'ucmatose': 'starting', 'udaddy': 'starting', 'mckey': 'receiving data',
         'rdma': 'start'}
# judge: server, client, what both must print
JUDGES = {
    'rping': (['rping', '-s', '-a', SERVER, '-V', '-v', '-C', '20'],
              ['rping', '-c', '-a', SERVER, '-V', '-v', '-C', '20'], r'ping data: rdma-ping-19: '),
    'rping_threads': (['rping', '-s', '-P', '-a', SERVER, '-V', '-v', '-C', '20'],
                      ['rping', '-c', '-a', SERVER, '-V', '-v', '-C', '20'], r'ping data: rdma-ping-19: '),
    'rping_size': (['rping', '-s', '-a', SERVER, '-V', '-v', '-C', '5', '-S', '60000'],
                   ['rping', '-c', '-a', SERVER, '-V', '-v', '-C', '5', '-S', '60000'], r'ping data: rdma-ping-4: '),
    'ucmatose': (['ucmatose', '-b', SERVER, '-c', '10', '-C', '20'], ['ucmatose', '-s', SERVER, '-c', '10', '-C', '20'],
                 r'return status 0'),
    'ucmatose_migrate': (['ucmatose', '-b', SERVER, '-c', '4', '-m', '-t', '8'],
                         ['ucmatose', '-s', SERVER, '-c', '4', '-m', '-t', '8'], r'return status 0'),
    'udaddy': (['udaddy', '-b', SERVER, '-c', '4', '-C', '10'], ['udaddy', '-s', SERVER, '-c', '4', '-C', '10'],
               r'return status 0'),
    'mckey': (['mckey', '-m', GROUP, '-b', SERVER, '-C', '10'], ['mckey', '-m', GROUP, '-b', CLIENT, '-s', '-C', '10'],
              r'return status 0'),
    'rdma_server': (['rdma_server'], ['rdma_client', '-s', SERVER], r'end 0'),
}
for name, words in {
    'send_bw': ['ib_send_bw', '-s', '4096', '-n', '300'],
    'send_bw_events_qps': ['ib_send_bw', '-e', '-q', '4', '-n', '100'],
    'send_bw_srq': ['ib_send_bw', '--use-srq', '-q', '2', '-s', '4096', '-n', '200'],
    'send_bw_ud': ['ib_send_bw', '-c', 'UD', '-s', '1024', '-n', '200'],
    'send_lat_ud': ['ib_send_lat', '-c', 'UD', '-s', '1024', '-n', '100'],
    'send_lat': ['ib_send_lat', '-s', '64', '-n', '200'],
    'write_bw': ['ib_write_bw', '-b', '-s', '65536', '-n', '200'],
    'write_lat': ['ib_write_lat', '-s', '64', '-n', '200'],
    'read_bw': ['ib_read_bw', '-s', '4096', '-n', '200'],
    'read_lat': ['ib_read_lat', '-s', '4096', '-n', '100'],
    'atomic_bw': ['ib_atomic_bw', '-A', 'FETCH_AND_ADD', '-n', '200'],
    'atomic_lat': ['ib_atomic_lat', '-A', 'CMP_AND_SWAP', '-n', '100'],
}.items():
    JUDGES['perftest_' + name] = ([*words, *PERF], [*words, *PERF, SERVER], peers.PERFTEST_ROW)


TRIES = 8


def came_too_early(client):
    """The server did not listen yet, and refused. perftest listens a second time after it has exchanged its parameters,
    and its client does not wait for that; some have no address yet, or hit what perftest frees twice then."""
    return re.search(r'REJECTED|UNREACHABLE|ADDR_ERROR|Unexpected CM event|connect error|rdma_connect: ',
                     client.output())


def channel_closed_first(proc):
    """rping closes its channel and returns from main; its thread may only then ask for one more event, and exit by that
    error: on every NIC, if the thread gets no core between the two."""
    return proc.output().rstrip().endswith('rdma_get_cm_event: Bad file descriptor')


def attempt(judge, deadline):
    """None: the client came too early."""
    server_words, client_words, wanted = JUDGES[judge]
    fabric = peers.Fabric()
    server = peers.Proc(fabric.argv(['stdbuf', '-oL', *server_words], '--ip', SERVER), 'server', peers.env())
    ready = READY.get(server_words[0].split('_')[0])
    if ready:
        server.wait_for(ready, deadline)
    client = peers.Proc(fabric.argv(['stdbuf', '-oL', *client_words], '--ip', CLIENT), 'client', peers.env())
    client.wait(deadline)
    if client.p.returncode and came_too_early(client):
        peers.report(client)
        server.stop()
        return None
    ends = [client, server]
    if judge == 'rping_threads': # which serves for ever
        ends = [client]
    peers.both_end(*ends, deadline=deadline, excused=channel_closed_first if 'rping' in judge else None)
    # Who waits for READs and atomics has nothing to measure.
    for proc in [client] if judge.endswith(('read_lat', 'atomic_lat')) else ends:
        if not re.search(wanted, proc.output(), re.M):
            raise peers.Failed(f'{proc.name} did not print {wanted}')
    peers.report(client, server)
    return client


def main():
    judge = sys.argv[1]
    peers.need(JUDGES[judge][0][0], JUDGES[judge][1][0])
    deadline = time.monotonic() + 140
    with peers.together():
        if not any(attempt(judge, deadline) for _ in range(TRIES)):
            raise peers.Failed('the server never listened in time')


peers.main(main)
