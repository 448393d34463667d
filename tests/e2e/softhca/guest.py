# SPDX-License-Identifier: BSD-3-Clause
"""The virtual machine of tools/rxe-guest, whose kernel has an rxe0, and the software ConnectX outside that shares a
wire with it."""
import glob
import os
import re
import shlex
import subprocess
import time

import peers

TOOL = os.path.join(peers.ROOT, 'tools', 'rxe-guest')
IP, MAC = '10.99.0.2', '02:73:70:77:00:02'
HOST_IP, HOST_MAC = '10.99.0.1', '02:73:70:77:00:01'
WITH_SOFTHCA = os.path.join(peers.ROOT, 'tools', 'with-softhca')
SECONDS = float(os.environ.get('SPW_RXE_SECONDS', 500))


def need():
    """Built, or the test is skipped."""
    peers.need('qemu-system-x86_64')
    built = subprocess.run([TOOL, 'build'], capture_output=True, text=True, check=False)
    if built.returncode == peers.SKIP:
        peers.skip(built.stderr.strip().splitlines()[-1])
    if built.returncode:
        raise peers.Failed('the guest cannot be built: ' + built.stderr)


def start(job, seconds, folder=None, forward=None, carry=()):
    """Boots it for JOB, a shell command; with a wire to host() if there is a folder for its two ends, a TCP port into
    it, and files of this machine."""
    wire = ['--frames', f'{folder}/guest,{folder}/host', '--ip', IP, '--mac', MAC, '--neighbour',
            f'{HOST_IP}={HOST_MAC}']
    return peers.Proc([TOOL, 'run', *(wire if folder else []),
                       *(['--forward', f'{forward}={forward}'] if forward else []),
                       *(word for file in carry for word in ('--carry', file)), '--seconds', str(int(seconds)),
                       f'export NO_COLOR=1; {job}'], # its console is a terminal
                      'guest', peers.env())


def host(argv, folder, name='host'):
    """A program under the software ConnectX at the other end of the wire."""
    fabric = peers.Fabric(cable=f'unix:{folder}/host,{folder}/guest', extra=['--ip', HOST_IP, '--mac', HOST_MAC])
    return peers.Proc(fabric.argv(argv), name, peers.env())


def softhca():
    """What the software ConnectX needs inside the guest: itself, libmlx5, and the file that makes libibverbs load
    it."""
    library = os.environ['SPW_SOFTHCA_LIB']
    where = subprocess.run(['pkg-config', '--variable=libdir', 'libibverbs'], capture_output=True, text=True,
                           check=True).stdout.strip()
    found = glob.glob(f'{where}/libibverbs/libmlx5-rdmav*.so')
    if not found:
        peers.skip('no libmlx5 (ibverbs-providers)')
    return [WITH_SOFTHCA, library, os.path.join(os.path.dirname(library), 'softhca-check'), *found,
            '/etc/libibverbs.d/mlx5.driver']


def phases(names, argv, carry):
    """Runs a script of the shell, whose words are argv, in the guest. Each phase of it prints "PHASE NAME ok", or what
    went wrong."""
    with peers.together():
        vm = start('sh ' + shlex.join(argv), SECONDS, carry=carry)
        vm.wait(time.monotonic() + SECONDS + 20)
        peers.report(vm)
        ended = dict(re.findall(r'^PHASE (\w+) (.*)$', vm.output(), re.M))
        failed = [f'{name}: {ended.get(name, "did not run")}' for name in names if ended.get(name) != 'ok']
        if failed or vm.p.returncode:
            raise peers.Failed('; '.join(failed) or f'exit status {vm.p.returncode}')
