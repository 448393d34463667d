# SPDX-License-Identifier: BSD-3-Clause
"""The virtual machine of tools/rxe-guest, whose kernel has an rxe0, and the software ConnectX outside that shares a wire with it."""
import os
import subprocess

import peers

TOOL = os.path.join(peers.ROOT, 'tools', 'rxe-guest')
IP, MAC = '10.99.0.2', '02:73:70:77:00:02'
HOST_IP, HOST_MAC = '10.99.0.1', '02:73:70:77:00:01'


def need():
    """Built, or the test is skipped."""
    peers.need('qemu-system-x86_64')
    built = subprocess.run([TOOL, 'build'], capture_output=True, text=True, check=False)
    if built.returncode == peers.SKIP:
        peers.skip(built.stderr.strip().splitlines()[-1])
    if built.returncode:
        raise peers.Failed('the guest cannot be built: ' + built.stderr)


def start(job, seconds, folder=None, forward=None, carry=()):
    """Boots it for JOB, a shell command; with a wire to host() if there is a folder for its two ends, a TCP port into it, and files of
    this machine."""
    wire = ['--frames', f'{folder}/guest,{folder}/host', '--ip', IP, '--mac', MAC, '--neighbour', f'{HOST_IP}={HOST_MAC}']
    return peers.Proc([TOOL, 'run', *(wire if folder else []), *(['--forward', f'{forward}={forward}'] if forward else []),
                       *(word for file in carry for word in ('--carry', file)), '--seconds', str(int(seconds)), job], 'guest', peers.env())


def host(argv, folder, name='host'):
    """A program under the software ConnectX at the other end of the wire."""
    fabric = peers.Fabric(cable=f'unix:{folder}/host,{folder}/guest', extra=['--ip', HOST_IP, '--mac', HOST_MAC])
    return peers.Proc(fabric.argv(argv), name, peers.env())
