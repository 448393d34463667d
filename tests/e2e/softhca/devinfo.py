#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What unmodified tools report about the device: one mlx5 device, its port up, the GIDs of a RoCE port; with
--as dgx-spark the four names of that machine, in two PCI domains; and each option that changes what a device
reports."""
import re

import peers


def output(*options, program=('ibv_devinfo', '-v')):
    return peers.run(peers.Fabric(extra=options).argv(list(program)), 60)


def listed(text):
    """The names that ibv_devices lists."""
    return re.findall(r'^ +(\w+) +\t[0-9a-f]{16}$', text, re.M)


def options_show():
    for gbps in (10, 25, 40, 50, 100, 200, 400):
        text = output('--speed', str(gbps))
        width, speed = (re.search(rf'active_{what}:\s*([\d.]+)', text).group(1) for what in ('width', 'speed'))
        rate = output('--speed', str(gbps), program=['cat', '/sys/class/infiniband/mlx5_0/ports/1/rate'])
        if int(width) * float(speed) != gbps or not rate.startswith(f'{gbps} Gb/sec'):
            raise peers.Failed(f'--speed {gbps}: width {width}, speed {speed}, rate {rate}')
    for mtu, active in ((600, 512), (1500, 1024), (9000, 4096)):
        if not re.search(rf'active_mtu:\s*{active} ', output('--mtu', str(mtu))):
            raise peers.Failed(f'--mtu {mtu}: the active MTU is not {active}')
    text = output('--name', 'left,right', '--mac', '02:00:00:00:00:0a,02:00:00:00:00:0b', '--ip', '10.1.2.3,10.1.2.4')
    found = re.findall(r'hca_id:\s*(\w+)(?s:.*?)fe80::ff:fe00:(\w)(?s:.*?)::ffff:([\d.]+), RoCE v2', text)
    if found[:2] != [('left', 'a', '10.1.2.3'), ('right', 'b', '10.1.2.4')]:
        raise peers.Failed(f'--name, --mac, --ip: {found} in\n{text}')


def main():
    peers.need('ibv_devinfo', 'ibv_devices')
    text = peers.run(peers.Fabric().argv(['ibv_devinfo', '-v']), 60)
    print(text)
    for want in (r'hca_id:\s*mlx5_0', r'state:\s*PORT_ACTIVE', r'link_layer:\s*Ethernet', r'transport:\s*InfiniBand',
                 r'vendor_id:\s*0x02c9', r'GID\[\s*\d+\]:\s*::ffff:[\d.]+, RoCE v2',
                 r'GID\[\s*\d+\]:\s*fe80:[0-9a-f:]+, RoCE v2',
                 r'phys_state:\s*LINK_UP', r'max_mtu:\s*4096'):
        if not re.search(want, text):
            raise peers.Failed(f'ibv_devinfo -v does not say {want}')
    real = [name for name in listed(peers.run(['ibv_devices'], 60, status=None)) if name != 'mlx5_0'] # of this machine
    if re.findall(r'hca_id:\s*(\w+)', text) != ['mlx5_0', *real]:
        raise peers.Failed(f'not one device, before {real}')
    spark = peers.run(peers.Fabric(extra=['--as', 'dgx-spark']).argv(['ibv_devices']), 60)
    print(spark)
    if listed(spark)[:4] != ['rocep1s0f0', 'rocep1s0f1', 'roceP2p1s0f0', 'roceP2p1s0f1']:
        raise peers.Failed('not the four devices of --as dgx-spark in their order')
    names = peers.run(peers.Fabric(extra=['--as', 'dgx-spark']).argv(['sh', '-c', 'realpath /sys/class/infiniband/*']),
                      60)
    domains = {name: domain for domain, name in re.findall(r'/sys/devices/pci(\w+):.*/infiniband/(\w+)', names)}
    if len(domains) != 4 or len(set(domains.values())) != 2 or domains['rocep1s0f0'] == domains['roceP2p1s0f0']:
        raise peers.Failed(f'not in two PCI domains: {domains}')
    options_show()


peers.main(main)
