#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""cards.py PROGRAM: each card of --as as ibv_devinfo -v and /sys show it: the values of the table in docs/060, which
this test reads, so that the table is true. PROGRAM (own/devx_test.c) compares them with the pages that DEVX answers.
ethtool's statistics of the physical port are absent on a function that has none."""
import os
import re
import sys

import peers

DOC = os.path.join(peers.ROOT, 'docs', '060-software-connectx.md')
SHOW = ('ibv_devinfo -v; d=$(ls -d /sys/class/infiniband/* | head -1); p=$(realpath $d/device); case $p in *sf*) '
        'p=${p%/*};; esac; '
        'echo width $(cat $p/current_link_width) speed $(cat $p/current_link_speed) rate $(cat $d/ports/1/rate) device '
        '$(cat $p/device)')


def table():
    """The rows of the table of cards: name to cells."""
    with open(DOC) as f:
        rows = [[cell.strip(' `') for cell in line.strip().strip('|').split('|')] for line in f if line.startswith('|')]
    head = next(row for row in rows if row[0] == 'card')
    return {row[0]: dict(zip(head, row)) for row in rows if len(row) == len(head) and re.search('^0x', row[1])}


def one(text, what):
    found = re.search(what, text)
    return found.group(1) if found else None


def seen(card):
    """The same cells, as the programs show them."""
    text = peers.run(peers.Fabric(extra=['--as', card]).argv(['sh', '-c', SHOW]), 60)
    gts = float(one(text, r'speed ([\d.]+) GT/s'))
    clock = one(text, r'hca_core_clock:\s*(\d+)kHZ')
    return {'PCI device': one(text, r'device (0x\w+)'), 'firmware': one(text, r'fw_ver:\s*(\S+)'),
            'Gb/s': one(text, r'rate (\d+)'),
            'PCIe': f'Gen{ {8: 3, 16: 4, 32: 5}[gts]} x{one(text, r"width (.+?) speed")}',
            'clock': f'{clock} kHz' if clock else '-', 'RSS': one(text, r'indirection_table_size:\s*(\d+)'),
            'QPs': one(text, r'max_qp:\s*(\d+)')}


def main():
    peers.need('ibv_devinfo')
    cards = table()
    want = one(peers.run(peers.Fabric(extra=['--as', 'none']).argv(['true']), 30, status=1), r'want (.*)').split(', ')
    if list(cards) != want:
        raise peers.Failed(f'docs/060 lists {list(cards)}, with-softhca knows {want}')
    for card, row in cards.items():
        got = seen(card)
        wrong = [f'{what} {value}, not {row[what]}' for what, value in got.items() if value != row[what]]
        print(card, got)
        if wrong:
            raise peers.Failed(f'{card}: {", ".join(wrong)}')
        devx = 'no-devx' if 'no DEVX' in row['what else differs'] else 'caps'
        peers.run(peers.Fabric(extra=['--as', card]).argv([sys.argv[1], devx]), 60)
    for card, phy in (('cx5', True), ('vf', False), ('sf', False)):
        argv = peers.Fabric(extra=['--as', card, '--netdev', 'lo']).argv([sys.executable,
                                                                          os.path.join(os.path.dirname(__file__),
                                                                                       'ethtool.py'), 'inside'])
        if ('rx_packets_phy' in peers.run(argv, 60)) != phy:
            raise peers.Failed(f'{card}: rx_packets_phy {"is missing" if phy else "is there"}')


peers.main(main)
