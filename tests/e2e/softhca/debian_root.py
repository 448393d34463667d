# SPDX-License-Identifier: BSD-3-Clause
"""A Debian 12 with nothing but git, made by debootstrap from where this machine has its packages from, for tests that
begin there. Needs root and the network; all mounts are in a namespace that ends with the test."""
import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time

import peers


def output(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


def enter_namespace():
    if os.geteuid() != 0:
        peers.skip('needs root: debootstrap and chroot')
    peers.namespace.enter(peers.skip, '--mount', '--propagation', 'private')


def mirror():
    """The archive that this machine has Debian 12 from."""
    for line in output('apt-get', 'indextargets', '--format', '$(CODENAME) $(COMPONENT) $(REPO_URI)',
                       'Created-By: Packages').splitlines():
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
    proc = peers.Proc(['debootstrap', '--variant=minbase', '--include=' + include, 'bookworm', root, uri],
                      'debootstrap', env)
    status = proc.wait(time.monotonic() + 600)
    if status and re.search('Failed getting release file|Connection|resolve', proc.output()):
        peers.skip('no network: ' + proc.output().strip().splitlines()[-1])
    if status:
        raise peers.Failed('debootstrap failed')
    with open(f'{root}/etc/apt/apt.conf.d/00proxy', 'w', encoding='ascii') as f:
        f.writelines(f'Acquire::{scheme}::Proxy "{where}";\n' for scheme, where in proxy.items())
    subprocess.run(['git', '-c', 'safe.directory=*', 'clone', '-q', '--bare', peers.ROOT, f'{root}/srv/spinwire.git'],
                   check=True)


@contextlib.contextmanager
def folder():
    """For roots; unmounted and removed."""
    top = tempfile.mkdtemp(prefix='spw-fresh-', dir='/var/tmp')
    try:
        yield top
    finally:
        with open('/proc/mounts', encoding='ascii') as f:
            mounts = re.findall(rf'^\S+ ({re.escape(top)}\S*)', f.read(), re.M)
        for mount in reversed(mounts):
            subprocess.run(['umount', '-l', mount], check=False)
        shutil.rmtree(top)


def copy_root(root, base):
    """A copy of it with /proc, /sys and /dev/shm; the beginning of a command inside."""
    subprocess.run(['cp', '-ax', base, root], check=True)
    for kind, where in (('proc', 'proc'), ('sysfs', 'sys'), ('tmpfs', 'dev/shm')):
        os.makedirs(f'{root}/{where}', exist_ok=True)
        subprocess.run(['mount', '-t', kind, kind, f'{root}/{where}'], check=True)
    return ['chroot', root, 'env', '-i', 'HOME=/root', 'PATH=/usr/sbin:/usr/bin:/sbin:/bin']
