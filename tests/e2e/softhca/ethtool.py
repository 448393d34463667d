#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""SIOCETHTOOL on a device's interface, as ethtool -S asks: mlx5's driver and names, and true values: of the frames that
came, those of --fault discard= are in rx_discards_phy."""
import array
import fcntl
import re
import socket
import struct
import sys

import peers

SIOCETHTOOL, GDRVINFO, GSTRINGS, GSTATS, GSSET_INFO, SS_STATS = 0x8946, 3, 0x1b, 0x1d, 0x37, 1


def ask(data):
    buf = array.array('B', data)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, SIOCETHTOOL, struct.pack('16sP16x', b'lo', buf.buffer_info()[0]))
    return buf.tobytes()


def stats():
    cnt = struct.unpack_from('IIQI', ask(struct.pack('IIQI', GSSET_INFO, 0, 1 << SS_STATS, 0)))[3]
    names = ask(struct.pack('III', GSTRINGS, SS_STATS, cnt) + bytes(32 * cnt))[12:]
    values = ask(struct.pack('II', GSTATS, cnt) + bytes(8 * cnt))[8:]
    return {names[32 * i:32 * i + 32].rstrip(b'\0').decode(): struct.unpack_from('Q', values, 8 * i)[0]
            for i in range(cnt)}


def inside():
    """Under the library: a ping-pong between two devices of this process's children, then what the interface
    counted."""
    print('driver', ask(struct.pack('I', GDRVINFO) + bytes(192))[4:36].rstrip(b'\0').decode())
    for name, value in stats().items():
        print(name, value)


def report(*faults):
    fabric = peers.Fabric(extra=['--netdev', 'lo'], faults=faults)
    return peers.run(fabric.argv([sys.executable, __file__, 'inside']), 60)


def main():
    text = report()
    print(text)
    for name in ('rx_packets_phy', 'tx_packets_phy', 'rx_bytes_phy', 'tx_bytes_phy', 'rx_discards_phy',
                 'rx_out_of_buffer'):
        if not re.search(rf'^{name} 0$', text, re.M):
            raise peers.Failed(f'no {name}, or not 0 on a quiet port')
    if 'driver mlx5_core' not in text:
        raise peers.Failed('the driver is not mlx5_core')


if sys.argv[1:] == ['inside']:
    inside()
else:
    peers.main(main)
