#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rxe_rc.py guest-calls|guest-serves OP[,KEY...] DRIVER: mode=rc between the kernel's own soft-RoCE in a virtual machine and the software
ConnectX outside. In the guest our program runs on `verbs:rxe0`; outside DRIVER runs on mlx5_0. spinwire-gen makes messages on
one side, spinwire echoes them on the other; every one must come back whole. KEYs are the guest's."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'mlx5'))
from app import peers, spwlab  # noqa: E402  (found by the line above)

GUEST = os.path.join(peers.ROOT, 'tools', 'rxe-guest')
SPINWIRE, GEN = os.environ['SPINWIRE'], os.environ['SPINWIRE_GEN']
GUEST_IP, GUEST_MAC = '10.99.0.2', '02:73:70:77:00:02'
HOST_IP, HOST_MAC = '10.99.0.1', '02:73:70:77:00:01'
SECONDS = float(os.environ.get('SPW_RXE_SECONDS', 400))
PLAN = ['--rate', '200pps', '--seconds', '4s', '--flows', '4', '--size', 'imix']
EAL = ['--no-huge', '-m', '128', '--no-pci', '--no-shconf', '--no-telemetry', '--file-prefix']


def spec(driver, device, op, end):
    """Both ends have the guest's path MTU: its interface carries 1500 bytes."""
    op = op if device == 'rxe0' else op.split(',')[0]
    return f'{driver}:{device},mode=rc,op={op},mtu=1024,exchange_ms=30000,{end}'


def spinwire_args(port):
    return ['--', '--port', port, '--executor', 'inline', '--handler', 'echo', '--seconds', str(int(SECONDS))]


def guest_argv(folder, job, forward):
    return [GUEST, 'run', '--frames', f'{folder}/guest,{folder}/host', '--ip', GUEST_IP, '--mac', GUEST_MAC,
            '--neighbour', f'{HOST_IP}={HOST_MAC}', '--carry', SPINWIRE, '--carry', GEN,
            *(['--forward', f'{forward}={forward}'] if forward else []), '--seconds', str(int(SECONDS)), job]


def host_argv(folder, argv):
    return peers.Fabric(cable=f'unix:{folder}/host,{folder}/guest', extra=['--ip', HOST_IP, '--mac', HOST_MAC]).argv(argv)


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
    host = peers.Proc(host_argv(folder, [SPINWIRE, '--lcores', f'0@{place.main},1@{place.receive}', *EAL, 'rxe-host',
                                         *spinwire_args(spec(driver, 'mlx5_0', op, f'listen=127.0.0.1:{port},peers=127.0.0.1,peer_max=1')),
                                         '--json', summary]), 'spinwire', peers.env())
    host.wait_for(lambda: peers.listening(port), deadline)
    gen = ' '.join([GEN, '--lcores', '0@0,1@1', *EAL, 'gen', '--', '--port', spec('verbs', 'rxe0', op, f'connect=10.0.2.2:{port}'),
                    *PLAN, '--json', '/tmp/gen.json'])
    raw = ' '.join([SPINWIRE, '--lcores', '0@0,1@1', *EAL, 'raw', '--', '--port', 'verbs:rxe0,mode=eth', '--seconds', '1'])
    job = f'mkdir -p /var/run; {raw}; {gen}; s=$?; echo; echo JSON; cat /tmp/gen.json; echo; echo NOSJ; exit $s'
    guest = peers.Proc(guest_argv(folder, job, None), 'guest', peers.env())
    guest.wait(deadline)
    host.p.send_signal(signal.SIGINT)
    host.wait(deadline)
    found = re.search(r'^JSON$(.*)^NOSJ$', guest.output(), re.S | re.M)
    if not found or guest.p.returncode or host.p.returncode:
        raise peers.Failed('one of them failed')
    if not re.search(r'spinwire: error: .*rxe0 has no raw Ethernet', guest.output()):
        raise peers.Failed('mode=eth on rxe was not refused as it should be')
    with open(summary, encoding='utf-8') as f:
        check(json.loads(found.group(1)), json.load(f)['ledger'])


def guest_serves(folder, op, driver, port, deadline):
    """The echo is in the guest."""
    place, summary = spwlab.Cores(), f'{folder}/gen.json'
    echo = ' '.join([SPINWIRE, '--lcores', '0@0,1@1', *EAL, 'echo',
                     *spinwire_args(spec('verbs', 'rxe0', op, f'listen=0.0.0.0:{port},peers=10.0.2.0/24,peer_max=1'))])
    guest = peers.Proc(guest_argv(folder, f'mkdir -p /var/run; {echo}', port), 'guest', peers.env())
    guest.wait_for('GUEST READY', deadline)
    while True: # QEMU accepts for a guest that does not listen yet
        host = peers.Proc(host_argv(folder, [GEN, '--lcores', f'0@{place.main},1@{place.generator}', *EAL, 'rxe-gen', '--', '--port',
                                             spec(driver, 'mlx5_0', op, f'connect=127.0.0.1:{port}'), *PLAN, '--json', summary]),
                          'gen', peers.env())
        host.wait(deadline)
        with open(summary, encoding='utf-8') as f:
            gen = json.load(f)
        if gen['echoed'] or time.monotonic() > deadline:
            break
    check(gen, None)


def main():
    peers.need('qemu-system-x86_64')
    built = subprocess.run([GUEST, 'build'], capture_output=True, text=True)
    if built.returncode == peers.SKIP:
        peers.skip(built.stderr.strip().splitlines()[-1])
    if built.returncode:
        raise peers.Failed('the guest cannot be built: ' + built.stderr)
    folder = tempfile.mkdtemp()
    run = guest_serves if sys.argv[1] == 'guest-serves' else guest_calls
    started = []
    peers.Proc = lambda *args, kind=peers.Proc: started.append(kind(*args)) or started[-1]
    try:
        run(folder, sys.argv[2], sys.argv[3], peers.free_port(), time.monotonic() + SECONDS)
    except (peers.Failed, OSError, ValueError):
        peers.report(*started)
        raise
    finally:
        peers.stop_all()
        shutil.rmtree(folder, ignore_errors=True)


peers.main(main)
