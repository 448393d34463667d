#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""iproute2's rdma about the emulated devices, beside a ping-pong in the same machine: what it shows is what
ibv_devinfo, sysfs and the ping-pong itself say."""
import os
import re
import shutil
import sys
import time

import peers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'kit'))
import documents  # noqa: E402  (found by the line above)

# One with-softhca is one machine: a server that waits with its QP, and a shell for the rest.
SCRIPT = r'''
stdbuf -oL ibv_rc_pingpong -p PORT -n 1000000 & server=$!
while ! read -r line; do sleep 0.1; done
for command in dev link res 'res show qp' 'res show cq' 'res show mr' 'res show pd' 'res show ctx' 'stat show'; do
    echo "== $command"; rdma -j -d $command || exit 1
done
echo "== plain"; rdma dev && rdma link && rdma res show qp && rdma stat show link mlx5_0/1 || exit 1
echo "== sysfs"; cd /sys/class/infiniband/mlx5_0/ports/1/hw_counters && grep -H . * | grep -v lifespan
echo "== devinfo"; ibv_devinfo -v
echo "== server $server"
kill $server
'''


def parts(text):
    """{command: what it printed}."""
    pieces = re.split(r'^== (.*)\n', text, flags=re.M)
    return dict(zip(pieces[1::2], pieces[2::2]))


def must(what, seen, wanted):
    if seen != wanted:
        raise peers.Failed(f'{what}: {seen!r}, not {wanted!r}')


def devices_agree(shown):
    info = shown['devinfo']
    device = documents.foreign(shown['dev'])[0]
    must('name', device['ifname'], 'mlx5_0')
    must('firmware', device['fw'], re.search(r'fw_ver:\s*(\S+)', info).group(1))
    for key, name in (('node_guid', 'node_guid'), ('sys_image_guid', 'sys_image_guid')):
        must(key, device[key].replace(':', ''), re.search(rf'{name}:\s*(\S+)', info).group(1).replace(':', ''))
    link = documents.foreign(shown['link'])[0]
    must('state', 'PORT_' + link['state'], re.search(r'state:\s*(\S+)', info).group(1))
    must('plain dev', bool(re.search(r'mlx5_0: node_type ca .*fw', shown['plain'])), True)


def queue_pairs_agree(shown, server):
    """server: QPN and PSN that the ping-pong printed, its PID."""
    qpn, pid = server
    mine = [qp for qp in documents.foreign(shown['res show qp']) if qp['lqpn'] == qpn]
    must('QPs of that number', len(mine), 1)
    must('type, state, pid', (mine[0]['type'], mine[0]['state'], mine[0]['pid']), ('RC', 'INIT', pid))
    must('name of the process', mine[0]['comm'], 'ibv_rc_pingpong')
    total = next(dev for dev in documents.foreign(shown['res']) if dev['ifname'] == 'mlx5_0')
    for kind in ('qp', 'cq', 'mr', 'pd', 'ctx'):
        must('number of ' + kind, total[kind], len(documents.foreign(shown['res show ' + kind])))
        must('somebody has a ' + kind, total[kind] > 0, True)


def counters_agree(shown):
    sysfs = {name: int(value) for name, value in re.findall(r'^(\w+):(\d+)$', shown['sysfs'], re.M)}
    stat = next(link for link in documents.foreign(shown['stat show']) if link['ifname'] == 'mlx5_0')
    must('counters', {name: stat.get(name) for name in sysfs}, sysfs)


def main():
    peers.need('rdma', 'ibv_rc_pingpong', 'ibv_devinfo')
    deadline = time.monotonic() + 100
    script = SCRIPT.replace('PORT', str(peers.free_port()))
    with peers.together():
        proc = peers.Proc(peers.Fabric().argv([shutil.which('sh'), '-c', script]), 'machine', peers.env(),
                          stdin=-1)
        proc.wait_for('local address', deadline)
        proc.say('go')
        peers.both_end(proc, deadline=deadline)
        text = proc.output()
    print(text)
    shown = parts(text)
    pid = int(next(name for name in shown if name.startswith('server ')).split()[1])
    qpn = int(re.search(r'QPN (0x\w+)', text).group(1), 16)
    devices_agree(shown)
    queue_pairs_agree(shown, (qpn, pid))
    counters_agree(shown)


peers.main(main)
