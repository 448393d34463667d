#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""container_config.py ROOT FOLDER COMMAND...: the config.json of an OCI runtime (crun spec --rootless, in the current
folder) for a container as docs/090 gives it: user 65532, no capability, a read-only ROOT; FOLDER is its /mnt. It keeps
the network namespace that it is started in."""
import json
import sys

root, folder, *command = sys.argv[1:]
with open("config.json", encoding="utf-8") as file:
    config = json.load(file)
config["root"] = {"path": root, "readonly": True}
PATH = "/opt/softhca/bin:/usr/sbin:/usr/bin:/sbin:/bin"
config["process"].update(args=command, terminal=False, user={"uid": 65532, "gid": 65532}, cwd="/",
                         env=[f"PATH={PATH}", "RUNTIME_DIRECTORY=/tmp/own"],
                         capabilities={name: [] for name in config["process"]["capabilities"]}, noNewPrivileges=True)
config["linux"]["namespaces"] = [space for space in config["linux"]["namespaces"]
                                 if space["type"] not in ("network", "cgroup")]
for ids in ("uidMappings", "gidMappings"):
    config["linux"][ids] = [{"containerID": 65532, "hostID": 0, "size": 1}]
config["mounts"] = [mount for mount in config["mounts"] if not mount["destination"].startswith("/sys/fs/cgroup")]
config["mounts"] += [{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs",
                      "options": ["nosuid", "nodev", "mode=1777"]},
                     {"destination": "/tmp/own", "type": "tmpfs", "source": "tmpfs",
                      "options": ["nosuid", "nodev", "mode=0777"]},
                     {"destination": "/mnt", "type": "bind", "source": folder, "options": ["bind"]}]
with open("config.json", "w", encoding="utf-8") as file:
    json.dump(config, file)
