#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Two unequal cards on one cable, each with rates of its own (--as, --rate): ib_write_bw carries what the slower one
can, whichever side that is, and each side shows its own card."""
import re
import time

import peers

SLOW, FAST = ('--as', 'cx5', '--rate', 'port=0.1'), ('--as', 'cx7', '--rate', 'port=0.4')
MBIT = 100


def carried(server, client):
    """Mb/s of payload."""
    fabric = peers.Fabric(extra=server)
    program = ['ib_write_bw', '-F', '-x', peers.roce_gid(fabric), '-s', '65536', '-n', '300']
    # 2 s for an ACK (-u 19): at these rates they are late.
    _, text = peers.pair(fabric, [*program, '-u', '19'], time.monotonic() + 100, client_options=client)
    return float(re.search(peers.PERFTEST_ROW, text, re.M).group(4)) * 8 * 1.048576


def main():
    peers.need('ib_write_bw', 'ibv_devinfo')
    for server, client in ((FAST, SLOW), (SLOW, FAST)):
        mbit = carried(server, client)
        print(f'{server[1]} receives from {client[1]}: {mbit:.0f} Mb/s')
        if not 0.5 * MBIT < mbit < 1.1 * MBIT:
            raise peers.Failed(f'{mbit:.0f} Mb/s, not {MBIT}')


peers.main(main)
