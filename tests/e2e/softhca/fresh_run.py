#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A Debian 12 with nothing but git, where the first two commands of the README are given: how long a newcomer waits for
the first result, phase by phase. What is judged is the last commit, and that the result is right; not the time."""
import os
import re
import time

import debian_root
import peers

LIMIT = 900
RESULT = r'frames +sent (\d+) = echoed \1 \+ lost 0; unsent \d+; spinwire received \1, residual 0'
# In the order of the phases, what is written last in each; %W: when it was made, %Y: when it was written.
PHASES = (('packages', '%W', '../build-setup.log'), ('configuring', '%Y', 'build.ninja'),
          ('compiling', '%Y', 'ninja-run.log'), ('the run', '%Y', 'run/report.html'))


def phases(build, start, end):
    """[(name, seconds)]; what is after the last of them is its own."""
    at, rows = start, []
    for name, what, last in PHASES:
        done = float(debian_root.output('stat', '-c', what.replace('%', '%.1'), os.path.join(build, last)))
        rows.append((name, done - at))
        at = done
    return [*rows, ('the end', end - at)]


def main():
    debian_root.enter_namespace()
    peers.need('debootstrap', 'git', 'chroot')
    uri, proxy = debian_root.mirror(), debian_root.proxies()
    with debian_root.folder() as folder, peers.together():
        debian_root.make_root(f'{folder}/base', uri, proxy)
        inside = debian_root.copy_root(f'{folder}/root', f'{folder}/base')
        peers.run([*inside, 'git', 'clone', '-q', '/srv/spinwire.git', '/root/spinwire'], 120)
        start = time.time()
        text = peers.run([*inside, '/root/spinwire/tools/run'], LIMIT)
        end = time.time()
        print(text)
        rows = phases(f'{folder}/root/root/spinwire/build', start, end)
        print(', '.join(f'{name} {seconds:.1f} s' for name, seconds in rows) + f'; in all {end - start:.1f} s')
        if not re.search(RESULT, text):
            raise peers.Failed('no result, or one that does not balance')
        if min(seconds for _, seconds in rows) < 0:
            raise peers.Failed('the phases are not in this order')


peers.main(main)
