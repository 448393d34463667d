#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""counters.py: perftest's own report of the port's counters (it keeps the files open and reads them again) against what
it sent, and the trace of the same run as tshark's RoCE dissector reads it: the frames, and a record of each WQE and
CQE."""
import os
import re
import subprocess
import tempfile
import time

import peers

MESSAGES, BYTES, SECONDS = 1000, 1024, 90
PATIENT = '20'  # 4.096 us * 2^20 until an unacknowledged request is repeated: a busy machine repeats none
NAMES = ['counters/port_xmit_packets', 'counters/port_rcv_packets', 'counters/unicast_xmit_packets',
         'hw_counters/rx_write_requests',
         'hw_counters/out_of_sequence', 'hw_counters/local_ack_timeout_err']
WRITE_ONLY, ACKNOWLEDGE = '10', '17' # BTH opcodes


def reported(text):
    found = {name: int(value) for name, value in re.findall(r'((?:hw_)?counters/\w+)=(\d+)', text)}
    if set(found) != set(NAMES):
        raise peers.Failed('perftest did not report all counters:\n' + text)
    return [found[name] for name in NAMES]


def must_be(what, got, want):
    print(what, got)
    if got != want:
        raise peers.Failed(f'{what}: {got}, not {want}')


def tshark(path, which, *fields):
    text = subprocess.run(['tshark', '-r', path, '-Y', which, '-T', 'fields',
                           *(word for field in fields for word in ('-e', field))],
                          check=True, capture_output=True, text=True).stdout
    return [line.split('\t') for line in text.splitlines()]


def records(path, kind):
    """The records of the trace, one for each WQE or each CQE."""
    return [comment for comment, in tshark(path, f'frame.interface_name == "{kind}"', 'frame.comment')]


def dissected(path):
    """How often tshark saw each BTH opcode, and the packet sequence numbers of the requests."""
    rows = tshark(path, 'infiniband', 'infiniband.bth.opcode', 'infiniband.bth.psn')
    return [op for op, _ in rows], [int(psn) for op, psn in rows if op == WRITE_ONLY]


def main():
    peers.need('ib_write_bw', 'tshark', 'ibv_devinfo')
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, 'trace.pcapng')
        fabric = peers.Fabric()
        program = ['ib_write_bw', '-F', '-x', peers.roce_gid(fabric), '-s', str(BYTES), '-m', str(BYTES), '-n',
                   str(MESSAGES),
                   '-u', PATIENT, f'--report-counters={",".join(NAMES)}']
        server, client = map(reported, peers.pair(fabric, program, time.monotonic() + SECONDS))
        acks = client[1]
        must_be('client', client, [MESSAGES, acks, MESSAGES, 0, 0, 0])
        must_be('server', server, [acks, MESSAGES, acks, MESSAGES, 0, 0])
        peers.pair(fabric, program, time.monotonic() + SECONDS, client_options=['--trace', trace])
        opcodes, psn = dissected(trace)
        must_be('requests in the trace', opcodes.count(WRITE_ONLY), MESSAGES)
        must_be('others', set(opcodes) - {WRITE_ONLY, ACKNOWLEDGE}, set())
        must_be('WQEs in the trace', sum(' RDMA_WRITE ' in text for text in records(trace, 'wqe')), MESSAGES)
        cqes = records(trace, 'cqe')
        must_be('CQEs of other kinds', [text for text in cqes if ' REQ of RDMA_WRITE ' not in text], [])
        if not 0 < len(cqes) <= MESSAGES:
            raise peers.Failed(f'{len(cqes)} CQEs')
        must_be('steps of their sequence numbers', {(b - a) % (1 << 24) for a, b in zip(psn, psn[1:])}, {1})


peers.main(main)
