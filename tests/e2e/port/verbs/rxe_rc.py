#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rxe_rc.py guest-calls|guest-serves OP[,KEY...] DRIVER: mode=rc between the kernel's own soft-RoCE in a virtual
machine and the software ConnectX outside. In the guest our program runs on `verbs:rxe0`; outside DRIVER runs on mlx5_0.
spinwire-gen makes messages on one side, spinwire echoes them on the other; every one must come back whole. KEYs are the
guest's."""
import os
import re
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'mlx5'))
from app import documents, peers, spwlab  # noqa: E402  (found by the line above)
import guest  # noqa: E402  (found by app)

SPINWIRE, GEN = os.environ['SPINWIRE'], os.environ['SPINWIRE_GEN']
SECONDS = float(os.environ.get('SPW_RXE_SECONDS', 400))
PLAN = ['--rate', '200pps', '--seconds', '4s', '--flows', '4', '--size', 'imix', '--link-wait', '120s']
EAL = ['--no-huge', '-m', '128', '--no-pci', '--no-shconf', '--no-telemetry', '--file-prefix']


def spec(driver, device, op, end):
    """Both ends have the guest's path MTU: its interface carries 1500 bytes."""
    op = op if device == 'rxe0' else op.split(',')[0]
    return f'{driver}:{device},mode=rc,op={op},mtu=1024,exchange_ms=30000,{end}'


def spinwire_args(port):
    return ['--', '--port', port, '--executor', 'inline', '--handler', 'echo']


def start_guest(folder, job, forward=None):
    return guest.start(job, SECONDS, folder, forward, [SPINWIRE, GEN])


def check(gen, ledger):
    if not gen['sent'] or gen['echoed'] != gen['sent']:
        raise peers.Failed(f"{gen['echoed']} echoes of {gen['sent']} messages")
    for name in ('duplicated', 'reordered', 'corrupted', 'foreign'):
        if gen[name]:
            raise peers.Failed(f'{name}: {gen[name]}')
    if ledger and (ledger['residual'] or ledger['wire'] != gen['sent']):
        raise peers.Failed(f'ledger: {ledger}')
    print(f"{gen['sent']} messages sent, {gen['echoed']} came back")


def guest_calls(folder, op, driver, port, deadline):
    """The generator is in the guest."""
    place, summary = spwlab.Cores(), f'{folder}/summary.json'
    host = guest.host([SPINWIRE, '--lcores', f'0@{place.main},1@{place.receive}', *EAL, 'rxe-host',
                       *spinwire_args(spec(driver, 'mlx5_0', op,
                                           f'listen=127.0.0.1:{port},peers=127.0.0.1,peer_max=1')),
                       '--json', summary], folder, 'spinwire')
    host.wait_for(lambda: peers.listening(port), deadline)
    gen = ' '.join([GEN, '--lcores', '0@0,1@1', *EAL, 'gen', '--', '--port',
                    spec('verbs', 'rxe0', op, f'connect=10.0.2.2:{port}'),
                    *PLAN, '--json', '/tmp/gen.json'])
    raw = ' '.join([SPINWIRE, '--lcores', '0@0,1@1', *EAL, 'raw', '--', '--port', 'verbs:rxe0,mode=eth,flow=all',
                    '--seconds', '1'])
    other = raw.replace('verbs:rxe0', 'mlx5:rxe0')
    job = (f'mkdir -p /var/run; {raw}; {other}; {gen}; s=$?; echo; echo JSON; cat /tmp/gen.json; echo; echo NOSJ; exit '
           f'$s')
    vm = start_guest(folder, job)
    vm.wait(deadline)
    host.p.send_signal(signal.SIGINT)
    host.wait(deadline)
    found = re.search(r'^JSON$(.*)^NOSJ$', vm.output(), re.S | re.M)
    if not found or vm.p.returncode or host.p.returncode:
        raise peers.Failed('one of them failed')
    if not re.search(r'spinwire: error: .*rxe0 has no raw Ethernet', vm.output()):
        raise peers.Failed('mode=eth on rxe was not refused as it should be')
    if not re.search(r'spinwire: error: .*rxe0 is not an mlx5 device: use verbs:rxe0', vm.output()):
        raise peers.Failed('mlx5:rxe0 was not refused as it should be')
    check(documents.loads(found.group(1)), documents.load(summary)['ledger'])


def guest_serves(folder, op, driver, port, deadline):
    """The echo is in the guest."""
    place, summary = spwlab.Cores(), f'{folder}/gen.json'
    echo = ' '.join([SPINWIRE, '--lcores', '0@0,1@1', *EAL, 'echo',
                     *spinwire_args(spec('verbs', 'rxe0', op, f'listen=0.0.0.0:{port},peers=10.0.2.0/24,gids=10.99.0.0/'
                                         f'24,peer_max=1'))])
    vm = start_guest(folder, f'mkdir -p /var/run; {echo}', port)
    vm.wait_for('GUEST READY', deadline)
    host = guest.host([GEN, '--lcores', f'0@{place.main},1@{place.generator}', *EAL, 'rxe-gen', '--', '--port',
                       spec(driver, 'mlx5_0', op, f'connect=127.0.0.1:{port}'), *PLAN, '--json', summary], folder,
                      'gen')
    host.wait(deadline) # QEMU accepts for a guest that does not listen yet; the port tries again and again
    gen = documents.load(summary)
    check(gen, None)


def main():
    guest.need()
    run = guest_serves if sys.argv[1] == 'guest-serves' else guest_calls
    with tempfile.TemporaryDirectory() as folder, peers.together():
        run(folder, sys.argv[2], sys.argv[3], peers.free_port(), time.monotonic() + SECONDS)


peers.main(main)
