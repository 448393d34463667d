#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A Debian 12 with nothing but git: the project is cloned there and `tools/with-softhca ibv_devinfo` must show a device
within two minutes, with all that it installs and builds. What is judged is the last commit."""
import re
import time

import debian_root
import peers

LIMIT = 120 # seconds from the clone to the device
WORKS = r'hca_id:\s*mlx5_0(?s:.*)state:\s*PORT_ACTIVE'


def attempt(root, base):
    """In a copy of it; the seconds from the end of the clone to the end of the command, and its output."""
    inside = debian_root.copy_root(root, base)
    peers.run([*inside, 'git', 'clone', '-q', '/srv/spinwire.git', '/root/spinwire'], 120)
    start = time.monotonic()
    text = peers.run([*inside, '/root/spinwire/tools/with-softhca', 'ibv_devinfo'], 3 * LIMIT)
    return time.monotonic() - start, text


def main():
    debian_root.enter_namespace()
    peers.need('debootstrap', 'git', 'chroot')
    uri, proxy = debian_root.mirror(), debian_root.proxies()
    seconds = []
    with debian_root.folder() as folder:
        with peers.together():
            debian_root.make_root(f'{folder}/base', uri, proxy)
        while len(seconds) < 2 and (not seconds or seconds[-1] > LIMIT): # something else may have wanted the machine
            took, text = attempt(f'{folder}/root{len(seconds)}', f'{folder}/base')
            seconds.append(took)
            print(f'{text}\n{took:.1f} s from clone to device')
            if not re.search(WORKS, text):
                raise peers.Failed('ibv_devinfo shows no device')
    if min(seconds) > LIMIT:
        raise peers.Failed(f'{min(seconds):.0f} s, limit {LIMIT}')


peers.main(main)
