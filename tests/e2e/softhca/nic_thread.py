#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""--nic-cpu: the NIC thread runs on that core and no other; a core that does not exist is refused with a text. Without
work it naps, and reports that over the control socket."""
import glob
import os
import tempfile
import time

import peers

SECONDS = 30


def allowed(pid, name):
    """The cores on which the process's thread of that name may run, '' while there is none."""
    for path in glob.glob(f'/proc/{pid}/task/*/status'):
        with open(path, encoding='ascii', errors='replace') as f:
            fields = dict(line.split(':', 1) for line in f)
        if fields['Name'].strip() == name:
            return fields['Cpus_allowed_list'].strip()
    return ''


def watcher(cpu, *options):
    argv = peers.Fabric(extra=['--nic-cpu', str(cpu), *options]).argv(['ibv_asyncwatch', '-d', 'mlx5_0'])
    return peers.Proc(argv, f'core {cpu}', peers.env(), tty=True)


def naps(path):
    """0: the socket is not there yet."""
    words = peers.spwlab.nic_thread(path)
    if words and list(words) != ['naps', 'switches', 'lost_us', 'other_us', 'late_us', 'helped']:
        raise peers.Failed(f'thread: {words}')
    return words.get('naps', 0)


def idle(cpu):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'control')
        watch = watcher(cpu, '--control', path)
        try:
            watch.wait_for(lambda: allowed(watch.p.pid, 'softhca-nic') and naps(path) > 100, time.monotonic() + SECONDS)
        finally:
            peers.stop_all()


def main():
    peers.need('ibv_asyncwatch')
    for cpu in sorted(os.sched_getaffinity(0))[-2:]:
        watch = watcher(cpu)
        try:
            watch.wait_for(lambda pid=watch.p.pid: allowed(pid, 'softhca-nic'), time.monotonic() + SECONDS)
            if allowed(watch.p.pid, 'softhca-nic') != str(cpu):
                raise peers.Failed(f'the NIC thread may run on {allowed(watch.p.pid, "softhca-nic")}, not only on '
                                   f'{cpu}')
        finally:
            peers.report(watch)
            peers.stop_all()
    idle(cpu)
    refused = watcher(1023)
    if refused.wait(time.monotonic() + SECONDS) == 0 or '--nic-cpu' not in refused.output():
        raise peers.Failed('core 1023 was taken: ' + refused.output())


peers.main(main)
