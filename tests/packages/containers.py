# SPDX-License-Identifier: BSD-3-Clause
"""An image of container/, made by buildah without a registry, and two containers of it, run by an ordinary user with
crun: no daemon, a network namespace each, a read-only root, no capability."""
import glob
import os
import re
import shutil

import peers

HERE = os.path.dirname(os.path.abspath(__file__))
BUILDAH = ["buildah", "--storage-driver", "vfs"]


def must(text, *patterns):
    for pattern in patterns:
        if not re.search(pattern, text, re.M):
            print(text[-4000:])
            raise peers.Failed(f"no {pattern!r}")


def image(folder, base, context, containerfile, config):
    """The root file system of the image; no registry: BASE is the Debian in the folder base. config: what the image's
    user and command look like."""
    peers.need("buildah", "crun")
    buildah = [*BUILDAH, "--root", f"{folder}/storage", "--runroot", f"{folder}/run"]
    start = peers.run([*buildah, "from", "scratch"], 60).strip()
    peers.run([*buildah, "add", "--quiet", start, base, "/"], 300)
    peers.run([*buildah, "commit", "--quiet", start, "localhost/base"], 300)
    peers.run([*buildah, "bud", "--isolation", "chroot", "--build-arg", "BASE=localhost/base", "-f", containerfile,
               "-t", "localhost/test:test", context], 1800)
    made = peers.run([*buildah, "from", "--pull-never", "localhost/test:test"], 300).strip()
    must(peers.run([*buildah, "inspect", "--type", "image", "--format", "{{.OCIv1.Config.User}} {{.OCIv1.Config.Cmd}}",
                    "localhost/test:test"], 60), config)
    return peers.run([*buildah, "mount", made], 60).strip()


def pair(folder, root, runs):
    """What the script `runs` beside this file prints, which starts programs in the two."""
    own = os.path.join(folder, "pair")
    os.makedirs(own)
    for path in (folder, *glob.glob(f"{folder}/storage"), *glob.glob(f"{folder}/storage/vfs"),
                 *glob.glob(f"{folder}/storage/vfs/dir")):
        os.chmod(path, 0o755)
    os.chown(own, 65532, 65532)
    for name in ("two_containers", "container_config.py", runs):
        shutil.copy(os.path.join(HERE, name), own)
    text = peers.run(["setpriv", "--reuid", "65532", "--regid", "65532", "--clear-groups", "--inh-caps=-all",
                      "--ambient-caps=-all", "sh", f"{own}/two_containers", root, own, f"{own}/{runs}"], 300)
    print(text)
    return text
