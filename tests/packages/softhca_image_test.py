#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The image of container/Containerfile.softhca, from the last commit, and the recipes' pair in two containers of it.
Needs root for debootstrap, and the network."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e", "softhca"))
import debian_root  # noqa: E402  (found by the line above)
import peers  # noqa: E402
import containers  # noqa: E402


def main():
    debian_root.enter_namespace()
    peers.need("debootstrap", "git", "setpriv")
    uri, proxy = debian_root.mirror(), debian_root.proxies()
    with debian_root.folder() as folder, peers.together():
        debian_root.make_root(f"{folder}/base", uri, proxy)
        context = f"{folder}/context"
        subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{folder}/base/srv/spinwire.git", context],
                       check=True)
        root = containers.image(folder, f"{folder}/base", context, f"{context}/container/Containerfile.softhca",
                                r"^65532:65532 \[with-softhca ibv_devinfo -v\]")
        containers.must(containers.pair(folder, root, "run_pair"), "PORT_ACTIVE", "^100 iters in", "^ *2 +100 ")


peers.main(main)
