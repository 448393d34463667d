#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""fault.py TEST [PROGRAM]: faults on purpose, observed from outside: by programs of the distribution, the fault log and
what is left in /dev/shm."""
import contextlib
import os
import re
import signal
import sys
import tempfile
import time

import peers

SECONDS = 100


def on_request(program, *options):
    """The C test that breaks its own device."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'control')
        print(peers.run(peers.Fabric([], ['--control', path, *options]).argv([program, path]), SECONDS))


def link(program):
    """The C test whose first device goes down: at one end of a cable, and beside two others at a switch."""
    for devices, what in (('2', 'cable'), ('3', 'switch')):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'control')
            print(peers.run(peers.Fabric([], ['--control', path, '--devices', devices]).argv([program, path, what]),
                            SECONDS))


def frames_log(program, folder, seed):
    """The fault log of 3000 frames sent one way by PROGRAM (raw_dv)."""
    fabric = peers.Fabric()
    log = os.path.join(folder, f'log-{seed}-{peers.Fabric.count}')
    faults = f'loss=0.01,dup=0.01,reorder=0.01,corrupt=0.01,delay=0.01:50us,log={log}'
    deadline = time.monotonic() + SECONDS
    with peers.together():
        rx = peers.Proc(fabric.argv([program, 'rx', '1000000', '64', '1000']), 'rx', peers.env())
        rx.wait_for('ready', deadline)
        tx = peers.Proc(fabric.argv([program, 'tx', '3008', '64'], '--fault', faults, '--seed', str(seed)), 'tx',
                        peers.env())
        tx.wait(deadline)
        rx.wait(deadline)
    with open(log, encoding='ascii') as file:
        return file.read(), rx.output()


def same_seed_same_faults(program):
    with tempfile.TemporaryDirectory() as folder:
        (first, output), (again, _), (other, _) = (frames_log(program, folder, seed) for seed in (7, 7, 8))
    kinds = {kind: len(re.findall(kind, first)) for kind in ('lost', 'duplicated', 'reordered', 'corrupted', 'delayed')}
    print(kinds, output)
    if first != again or first == other:
        raise peers.Failed('the same seed gave other faults, or another seed the same')
    if any(not 5 <= count <= 70 for count in kinds.values()):
        raise peers.Failed('30 of each kind were to be expected')
    # Each frame is lost, or comes once, or twice; those that a bit fell out of are not whole.
    got = re.search(r'frames (\d+) bad (\d+)', output)
    if int(got.group(1)) > 3008 - kinds['lost'] or not int(got.group(2)):
        raise peers.Failed('what came does not fit to what was lost and damaged')


def delay(_):
    fabric = peers.Fabric(['delay=0.2:300us'])
    out = peers.pair(fabric, ['ibv_rc_pingpong', '-g', peers.roce_gid(fabric), '-c', '-s', '512', '-n', '500'],
                     time.monotonic() + SECONDS)
    us = float(re.search(r'= ([\d.]+) usec/iter', out[1]).group(1))
    print(us, 'us per iteration')
    if us < 60: # two messages and their ACKs; a fifth of the messages takes 300 us longer
        raise peers.Failed('faster than the delay allows')


def async_events(_):
    """ibv_asyncwatch tells of the port's way down and up."""
    peers.need('ibv_asyncwatch')
    fabric = peers.Fabric(['at=500ms:link-down=200ms'])
    with peers.together():
        watch = peers.Proc(fabric.argv(['ibv_asyncwatch', '-d', 'mlx5_0']), 'watch', peers.env(), tty=True)
        watch.wait_for(r'(?s)IBV_EVENT_PORT_ERR .*port 1.*IBV_EVENT_PORT_ACTIVE .*port 1', time.monotonic() + SECONDS)
        peers.report(watch)


def running_pair(folder, args, server_options=()):
    """ib_send_bw between two processes, each with a control socket; (fabric, server, client, their sockets,
    deadline)."""
    fabric, port, deadline = peers.Fabric(), peers.free_port(), time.monotonic() + SECONDS
    program = [*args, '-F', '-x', peers.roce_gid(fabric), '-p', str(port)]
    paths = [os.path.join(folder, name) for name in ('server', 'client')]
    server = peers.Proc(fabric.argv(program, '--control', paths[0], *server_options), 'server', peers.env())
    server.wait_for(lambda: peers.listening(port), deadline)
    client = peers.Proc(fabric.argv([*program, '127.0.0.1'], '--control', paths[1]), 'client', peers.env())
    for path, proc in zip(paths, (server, client)):
        proc.wait_for(lambda path=path: os.path.exists(path), deadline)
    return fabric, server, client, paths, deadline


def sent(control):
    return int(peers.spwlab.nic_pairs(control, 'status')['tx'])


def moving(control, deadline, more=1000):
    """Waits until so many more frames have gone out."""
    start = sent(control)
    while sent(control) < start + more:
        if time.monotonic() > deadline:
            raise peers.Failed('nothing moves')
        time.sleep(0.01)


def while_running(_):
    """ib_send_bw goes on through a link that goes down and a receiver that is not ready."""
    peers.need('ib_send_bw')
    with tempfile.TemporaryDirectory() as folder, peers.together():
        _, server, client, (at_server, at_client), deadline = running_pair(folder, ['ib_send_bw', '-s', '4096', '-D',
                                                                                    '6'])
        moving(at_client, deadline)
        for control, fault in ((at_client, 'link-down=100ms'), (at_server, 'link-down=100ms'),
                               (at_server, 'rnr=100ms')):
            peers.spwlab.nic_ask(control, fault)
            moving(at_client, deadline)
        peers.both_end(client, server, deadline=deadline)


def no_core(_):
    """A peer whose NIC thread is away for longer than all retries take (-u 9: 2 + 7 * 8.4 ms) is not one that does not
    answer."""
    peers.need('ib_send_bw')
    with tempfile.TemporaryDirectory() as folder, peers.together():
        _, server, client, (_, at_client), deadline = running_pair(folder, ['ib_send_bw', '-s', '4096', '-u', '9', '-D',
                                                                            '5'])
        moving(at_client, deadline)
        for _ in range(5):
            os.killpg(server.p.pid, signal.SIGSTOP)
            time.sleep(0.12)
            os.killpg(server.p.pid, signal.SIGCONT)
            moving(at_client, deadline)
        peers.both_end(client, server, deadline=deadline)


def come_by(deadline):
    """Some other process on some other cable: it sweeps."""
    other = peers.Proc(peers.Fabric().argv(['ibv_devinfo']), 'other', peers.env())
    if other.wait(deadline):
        raise peers.Failed('ibv_devinfo failed')


def killed_peer(_):
    """The survivor's retries fail, and the next process at the latest deletes the cable's file."""
    with tempfile.TemporaryDirectory() as folder, peers.together():
        args = ['ib_send_bw', '-s', '4096', '-D', '60', '-u', '10'] # timeout 4 ms
        fabric, server, client, (at_server, at_client), deadline = running_pair(folder, args)
        moving(at_client, deadline)
        with contextlib.suppress(ValueError, OSError): # nobody is left to answer
            peers.spwlab.nic_ask(at_server, 'kill')
        server.wait(deadline)
        client.wait(deadline)
        if server.p.returncode != -9:
            raise peers.Failed(f'the server ended with {server.p.returncode}')
        if client.p.returncode == 0 or not re.search(r'(?i)retry exceeded|Completion with error', client.output()):
            raise peers.Failed('the client got no error')
        come_by(deadline)
        if os.path.exists(fabric.shm_path()):
            raise peers.Failed(f'{fabric.shm_path()} is left')


def stale_files_go(_):
    """A cable whose last user was killed is removed by whoever comes next, on any cable; one in use is not."""
    dead, live = peers.Fabric(), peers.Fabric()
    deadline = time.monotonic() + SECONDS
    with peers.together():
        procs = [peers.Proc(fabric.argv(['ibv_asyncwatch', '-d', 'mlx5_0']), name, peers.env(), tty=True)
                 for fabric, name in ((dead, 'dead'), (live, 'live'))]
        for proc in procs:
            proc.wait_for('async event FD', deadline)
        procs[0].p.kill()
        procs[0].wait(deadline)
        come_by(deadline)
        if os.path.exists(dead.shm_path()):
            raise peers.Failed(f'{dead.shm_path()} is still there')
        if not os.path.exists(live.shm_path()):
            raise peers.Failed(f'{live.shm_path()} was in use and is gone')


TESTS = {test.__name__: test for test in (on_request, link, same_seed_same_faults, delay, async_events, while_running,
                                          no_core, killed_peer,
                                          stale_files_go)}
peers.main(lambda: TESTS[sys.argv[1]](*(sys.argv[2:] or [None])))
