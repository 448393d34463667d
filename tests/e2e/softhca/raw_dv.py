#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""raw_dv.py PROGRAM FRAMES BYTES: numbered raw frames through hand-written WQEs and CQEs, one process to another. No
frame may be wrong or out of order; some must come (an overrun receiver loses frames, as a card would)."""
import re
import sys
import time

import peers


def main():
    program, frames, size = sys.argv[1:4]
    deadline = time.monotonic() + 90
    fabric = peers.Fabric()
    with peers.together():
        rx = peers.Proc(fabric.argv([program, 'rx', frames, size, '1000']), 'rx', peers.env())
        rx.wait_for('ready', deadline)
        tx = peers.Proc(fabric.argv([program, 'tx', frames, size]), 'tx', peers.env())
        peers.both_end(tx, rx, deadline=deadline)
        result = re.search(r'frames (\d+) bad (\d+) lost (\d+) seconds ([\d.]+)', rx.output())
        if not result:
            raise peers.Failed('no result')
        print(result.group(0))
        good, bad, lost = map(int, result.groups()[:3])
        if bad or not good or good + lost > int(frames) + 63:
            raise peers.Failed('wrong frames')


peers.main(main)
