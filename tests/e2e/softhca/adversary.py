#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""--adversary: what it refuses, in one line and before COMMAND runs; docs/060 has the words that --adversary help
prints."""
import os
import re
import tempfile

import peers

REFUSED = {
    'x': 'number as SEED',
    '1,': 'is empty',
    '1,rude': 'there is no "rude"',
    '1 --cable afpacket:lo': 'not on --cable afpacket:lo',
}


def refusals(folder):
    mark = os.path.join(folder, 'ran')
    for options, why in REFUSED.items():
        fabric = peers.Fabric(extra=['--adversary', *options.split()])
        text = peers.run(fabric.argv(['touch', mark]), 30, status=1).strip()
        if why not in text or '\n' in text:
            raise peers.Failed(f'--adversary {options}: {text}')
    if os.path.exists(mark):
        raise peers.Failed('COMMAND ran')


def words():
    printed = [line.split(None, 1) for line in peers.run(peers.Fabric().argv([], '--adversary', 'help'),
                                                         30).strip().splitlines()]
    with open(os.path.join(peers.ROOT, 'docs', '060-software-connectx.md')) as f:
        section = f.read().split('\n## The adversary', 1)[1].split('\n## ', 1)[0]
    documented = [list(row) for row in re.findall(r'^\| `([a-z-]+)` \| (.*) \|$', section, re.M)]
    if printed != documented:
        raise peers.Failed(f'docs/060 has\n{documented}\n--adversary help prints\n{printed}')


def main():
    with tempfile.TemporaryDirectory(prefix='spw-') as folder:
        refusals(folder)
    words()


peers.main(main)
