#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Debian packages, from the last commit: built and judged by lintian in a Debian 12 made by debootstrap, installed
in another one and used there; and the container image made from them, which two containers of an ordinary user run: no
daemon, a network namespace each, a read-only root, no capability but those of docs/010. Needs root for debootstrap, and
the network."""
import glob
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e", "softhca"))
import debian_root  # noqa: E402  (found by the line above)
import peers  # noqa: E402
import containers  # noqa: E402
from containers import must  # noqa: E402

PACKAGES = ["spinwire", "spinwire-tools", "spinwire-softhca", "spinwire-dev", "spinwire-nccl"]
PROGRAMS = ["spinwire", "spinwire-gen", "spinwire-doctor", "spinwire-run", "spinwire-profile", "spinwire-top",
            "spinwire-exporter", "with-softhca"]
APT = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-y", "--no-install-recommends"]


def build(root, base):
    """Paths of the packages, built in root."""
    inside = debian_root.copy_root(root, base)
    peers.run([*inside, *APT, "install", "dpkg-dev", "lintian"], 900)
    peers.run([*inside, "git", "clone", "-q", "/srv/spinwire.git", "/root/spinwire"], 120)
    peers.run([*inside, *APT, "build-dep", "/root/spinwire"], 900)
    peers.run([*inside, "sh", "-c", "cd /root/spinwire && dpkg-buildpackage -us -uc -b"], 3000)
    print(peers.run([*inside, "sh", "-c", "cd /root && lintian --allow-root --fail-on error,warning *.changes"], 600))
    found = glob.glob(f"{root}/root/*.deb")
    names = {os.path.basename(path).split("_")[0] for path in found}
    if not set(PACKAGES) <= names:
        raise peers.Failed(f"built {names}")
    return [path for path in found if "dbgsym" not in path]


def use(root, base, packages):
    """What a user does first, after apt install."""
    inside = debian_root.copy_root(root, base)
    os.makedirs(f"{root}/root/packages")
    for path in packages:
        shutil.copy(path, f"{root}/root/packages")
    peers.run([*inside, "sh", "-c", f"{' '.join(APT)} install /root/packages/*.deb librte-meta-net librte-meta-mempool "
               f"ibverbs-utils gcc libc6-dev pkgconf"], 900)
    for name in PROGRAMS:
        must(peers.run([*inside, name, "--help"], 60), rf"man\s+{name}")
        if not os.path.exists(f"{root}/usr/share/man/man1/{name}.1.gz"):
            raise peers.Failed(f"{name} has no man page")
    peers.run([*inside, "python3", "-c", "import spinwire.results"], 60)
    must(peers.run([*inside, "with-softhca", "ibv_devinfo"], 60), r"state:\s*PORT_ACTIVE")
    must(peers.run([*inside, "spinwire-doctor", "replay", "/usr/share/spinwire/platforms/bare-vm.json"], 60,
                   status=None), "spinwire-doctor|finding")
    for path in ((), ("--ethdev",)):
        must(peers.run([*inside, "spinwire-run", *path, "--full", "--seconds", "1", "--rate", "5000", "--out",
                        "/tmp/run"], 120),
             r"^ +residual +0")
    peers.run([*inside, "sh", "-c",
               "cd /tmp && cc -Wall -Werror -shared -fPIC $(pkg-config --cflags spinwire-handler) -o ttl.so "
               "/usr/share/doc/spinwire-dev/examples/ttl.c"], 60)
    must(peers.run([*inside, "spinwire", "--lcores", "0@0,1@0", "--no-huge", "-m", "64", "--", "--port",
                    "null:rate=1000", "--executor", "inline", "--handler",
                    "/tmp/ttl.so", "--seconds", "1s", "--full"], 60), r"^ +residual +0")
    peers.run([*inside, "env", "PYTHONPATH=/usr/share/spinwire", "python3", "-B", "-c",
               "import spinwire_coll, importlib.metadata as m; spinwire_coll._load(); "
               "[point] = m.entry_points(group='vllm.general_plugins'); point.load()"], 60)
    peers.run([*inside, "python3", "-B", "-c", "import spinwire.stream; spinwire.stream._library()"], 60)
    for path in ("/usr/share/spinwire/kubernetes/rc.yaml", "/usr/share/doc/spinwire/README.md",
                 "/usr/share/doc/spinwire/docs/050-measuring-tails.md",  # as the README links to it
                 "/usr/share/doc/spinwire-dev/examples/syn.c",
                 "/usr/share/doc/spinwire-tools/examples/tensor/radio.py"):
        peers.run([*inside, "test", "-s", path], 60)
    peers.run([*inside, *APT, "purge", *PACKAGES], 300)
    left = peers.run([*inside, "sh", "-c",
                      "find / -xdev -name '*spinwire*' -not -path '/root/*' -not -path '/srv/*' -not -path '/var/*' "
                      "-not -path '/tmp/*'"], 60)
    if left.strip():
        raise peers.Failed(f"purge leaves {left}")


def pair(folder, root):
    """Two containers on it: RC by rdma-core's ping-pong, and by spinwire."""
    must(containers.pair(folder, root, "run_spinwire"), r"^pingpong: .* bytes in .* seconds",
         r"^refused: .*Read-only file system", r"^rights: 0000000000000000 1$",
         r"^spinwire: wire +(\d{4}) = received \1 ", r"^spinwire: residual +0$")


def main():
    debian_root.enter_namespace()
    peers.need("debootstrap", "git", "chroot", "setpriv")
    uri, proxy = debian_root.mirror(), debian_root.proxies()
    with debian_root.folder() as folder, peers.together():
        base = f"{folder}/base"
        debian_root.make_root(base, uri, proxy)
        packages = build(f"{folder}/build", base)
        use(f"{folder}/use", base, packages)
        context = f"{folder}/context"
        os.makedirs(context)
        for path in packages:
            shutil.copy(path, context)
        pair(folder, containers.image(folder, base, context, os.path.join(peers.ROOT, "container", "Containerfile"),
                                      r"^65532:65532 \[spinwire-doctor\]"))


peers.main(main)
