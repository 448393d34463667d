#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""split_test.py PROGRAM: what a message over two rails (split_test.c) looks like on the wire. tshark reads the trace of
each rail: their writes cover the message, no byte twice, and each rail carried what lib/xfer says."""
import glob
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'softhca'))
import peers  # noqa: E402  (found by the line above)


def writes(trace, first, bytes_):
    """[(address, bytes)] of the RDMA writes into the message that this rail sent."""
    fields = ['-e', 'infiniband.reth.va', '-e', 'infiniband.reth.dmalen']
    text = peers.run(['tshark', '-r', trace, '-Y', 'infiniband.reth', '-T', 'fields', *fields], 100)
    rows = [line.split('\t') for line in text.splitlines() if line.count('\t') == 1]
    pairs = [(int(va, 0), int(length, 0)) for va, length in rows]
    return [(va, length) for va, length in pairs if first <= va < first + bytes_ and length]


def must_cover(pieces, first, bytes_):
    at = first
    for va, length in sorted(pieces):
        if va != at:
            raise peers.Failed(f'byte {min(va, at) - first} goes {"over no rail" if va > at else "twice"}')
        at += length
    if at != first + bytes_:
        raise peers.Failed(f'{at - first} of {bytes_} bytes')


def main():
    peers.need('tshark')
    with tempfile.TemporaryDirectory(prefix='spw-') as folder:
        text = peers.run(peers.Fabric(extra=['--devices', '4', '--trace', folder]).argv([sys.argv[1]]), 100)
        first, bytes_ = (int(n, 0) for n in re.search(r'^message (\w+) (\d+)', text, re.M).groups())
        pieces = []
        for device, said in re.findall(r'^rail (\w+) (\d+)', text, re.M):
            own = writes(glob.glob(f'{folder}/{device}-*.pcapng')[0], first, bytes_)
            carried = sum(length for _, length in own)
            print(f'{device}: {len(own)} writes of {carried} bytes')
            if carried != int(said) or not carried:
                raise peers.Failed(f'{device} carried {carried} bytes; lib/xfer says {said}')
            pieces += own
        must_cover(pieces, first, bytes_)


peers.main(main)
