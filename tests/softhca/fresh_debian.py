#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A Debian 12 with nothing but git, made by debootstrap from where this machine has its packages from: the project is cloned there
and `tools/with-softhca ibv_devinfo` must show a device within two minutes, with all that it installs and builds.
What is judged is the last commit. Needs root and the network; all mounts are in a namespace that ends with the test."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import peers

LIMIT = 120 # seconds from the clone to the device
WORKS = r'hca_id:\s*mlx5_0(?s:.*)state:\s*PORT_ACTIVE'


def output(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


def enter_namespace():
    if os.geteuid() != 0:
        peers.skip('needs root: debootstrap and chroot')
    if os.environ.get('SPW_FRESH_NS') != '1':
        probe = subprocess.run(['unshare', '-m', 'true'], capture_output=True, text=True, check=False)
        if probe.returncode:
            peers.skip('no mount namespaces here: ' + probe.stderr.strip())
        os.environ['SPW_FRESH_NS'] = '1'
        os.execvp('unshare', ['unshare', '-m', '--propagation', 'private', sys.executable, *sys.argv])


def mirror():
    """The archive that this machine has Debian 12 from."""
    for line in output('apt-get', 'indextargets', '--format', '$(CODENAME) $(COMPONENT) $(REPO_URI)', 'Created-By: Packages').splitlines():
        codename, component, uri = line.split(' ', 2)
        if (codename, component) == ('bookworm', 'main'):
            return uri.rstrip('/')
    peers.skip("none of this machine's package sources is Debian 12")


def proxies():
    """apt's, for debootstrap and for the apt inside."""
    found = {scheme: output('apt-config', 'shell', 'P', f'Acquire::{scheme}::Proxy') for scheme in ('http', 'https')}
    return {scheme: re.sub(r"^P='(.*)'\s*$", r'\1', text) for scheme, text in found.items() if text}


def make_root(root, uri, proxy):
    env = {**peers.env(), **{f'{scheme}_proxy': where for scheme, where in proxy.items()}}
    include = 'git,ca-certificates' if uri.startswith('https:') else 'git'
    proc = peers.Proc(['debootstrap', '--variant=minbase', '--include=' + include, 'bookworm', root, uri], 'debootstrap', env)
    status = proc.wait(time.monotonic() + 600)
    if status and re.search('Failed getting release file|Connection|resolve', proc.output()):
        peers.skip('no network: ' + proc.output().strip().splitlines()[-1])
    if status:
        raise peers.Failed('debootstrap failed')
    with open(f'{root}/etc/apt/apt.conf.d/00proxy', 'w', encoding='ascii') as f:
        f.writelines(f'Acquire::{scheme}::Proxy "{where}";\n' for scheme, where in proxy.items())
    subprocess.run(['git', '-c', 'safe.directory=*', 'clone', '-q', '--bare', peers.ROOT, f'{root}/srv/spinwire.git'], check=True)


def attempt(root, base):
    """In a copy of it; the seconds from the end of the clone to the end of the command, and its output."""
    subprocess.run(['cp', '-ax', base, root], check=True)
    for kind, where in (('proc', 'proc'), ('tmpfs', 'dev/shm')):
        os.makedirs(f'{root}/{where}', exist_ok=True)
        subprocess.run(['mount', '-t', kind, kind, f'{root}/{where}'], check=True)
    inside = ['chroot', root, 'env', '-i', 'HOME=/root', 'PATH=/usr/sbin:/usr/bin:/sbin:/bin']
    peers.run([*inside, 'git', 'clone', '-q', '/srv/spinwire.git', '/root/spinwire'], 120)
    start = time.monotonic()
    text = peers.run([*inside, '/root/spinwire/tools/with-softhca', 'ibv_devinfo'], 3 * LIMIT)
    return time.monotonic() - start, text


def main():
    enter_namespace()
    peers.need('debootstrap', 'git', 'chroot')
    uri, proxy = mirror(), proxies()
    folder = tempfile.mkdtemp(prefix='spw-fresh-', dir='/var/tmp')
    seconds = []
    try:
        with peers.together():
            make_root(f'{folder}/base', uri, proxy)
        while len(seconds) < 2 and (not seconds or seconds[-1] > LIMIT): # something else may have wanted the machine
            took, text = attempt(f'{folder}/root{len(seconds)}', f'{folder}/base')
            seconds.append(took)
            print(f'{text}\n{took:.1f} s from clone to device')
            if not re.search(WORKS, text):
                raise peers.Failed('ibv_devinfo shows no device')
    finally:
        for mount in reversed(re.findall(rf'^\S+ ({re.escape(folder)}\S*)', open('/proc/mounts', encoding='ascii').read(), re.M)):
            subprocess.run(['umount', '-l', mount], check=False)
        shutil.rmtree(folder)
    if min(seconds) > LIMIT:
        raise peers.Failed(f'{min(seconds):.0f} s, limit {LIMIT}')


peers.main(main)
