#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What unmodified tools say of the device: one mlx5 device, its port up, the GIDs of a RoCE port; with
--as dgx-spark the four names of that machine."""
import re

import peers


def main():
    peers.need('ibv_devinfo', 'ibv_devices')
    text = peers.run(peers.Fabric().argv(['ibv_devinfo', '-v']), 60)
    print(text)
    for want in (r'hca_id:\s*mlx5_0', r'state:\s*PORT_ACTIVE', r'link_layer:\s*Ethernet', r'transport:\s*InfiniBand',
                 r'vendor_id:\s*0x02c9', r'GID\[\s*\d+\]:\s*::ffff:[\d.]+, RoCE v2', r'GID\[\s*\d+\]:\s*fe80:[0-9a-f:]+, RoCE v2',
                 r'phys_state:\s*LINK_UP', r'max_mtu:\s*4096'):
        if not re.search(want, text):
            raise peers.Failed(f'ibv_devinfo -v does not say {want}')
    if len(re.findall(r'hca_id:', text)) != 1:
        raise peers.Failed('more than one device')
    spark = peers.run(peers.Fabric(extra=['--as', 'dgx-spark']).argv(['ibv_devices']), 60)
    print(spark)
    if re.findall(r'^ +(roce\w+)', spark, re.M) != ['rocep1s0f0', 'rocep1s0f1', 'roceP2p1s0f0', 'roceP2p1s0f1']:
        raise peers.Failed('not the four devices of --as dgx-spark in their order')


peers.main(main)
