#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spinwire-doctor on the live software card of a DGX Spark, not on a recorded tree: four functions, two PCI domains,
halves, the plan between two such cards, the GID that UCX really takes, a cable that is pulled, interfaces with other
names."""
import json
import os
import re
import subprocess
import sys

import documents
import spwtest
from spwtest import check, equal, spwlab, write_file

DOCTOR = os.environ["SPINWIRE_DOCTOR"]
SPARK = os.path.join(spwlab.TOOLS, "..", "config", "platforms", "dgx-spark.json")
TOOL = os.path.join(spwlab.TOOLS, "with-softhca")
FUNCTIONS = {"rocep1s0f0": ("enp1s0f0np0", "0000:01:00.0", "p0"), "rocep1s0f1": ("enp1s0f1np1", "0000:01:00.1", "p1"),
             "roceP2p1s0f0": ("enP2p1s0f0np0", "0002:01:00.0", "p0"),
             "roceP2p1s0f1": ("enP2p1s0f1np1", "0002:01:00.1", "p1")}
ABSENT = {"!": "ENOENT"}  # in a recorded machine
OF_THIS_MACHINE = ("cores-", "hugepages-", "memlock-", "cap-", "gpu-")


def card(*options):
    spwtest.need_card()
    return [TOOL, "--as", "dgx-spark", "--mtu", "9000", "--cable", f"shm:{spwlab.prefix('s')}", *options]


def run(*words, under=(), env=None):
    done = subprocess.run([*under, DOCTOR, *words], capture_output=True, text=True, timeout=60, check=False, env=env)
    check(done.returncode in (0, 2), done)
    return done.stdout


def found(*words, **kwargs):
    """Findings about the card alone."""
    return {f["id"] for f in documents.loads(run(*words, "--json", "-", **kwargs))["findings"]
            if not f["id"].startswith(OF_THIS_MACHINE)}


def facts(*words, **kwargs):
    receipt = documents.loads(run(*words, "--receipt", "-", **kwargs))
    return {(f["of"], f["name"]): f["value"] for f in receipt["facts"] if "value" in f}


def test_four_functions():
    """Each function has its place, name and port, and all are of one adapter; a healthy card has no finding."""
    got = facts(under=card())
    for rdma, (netdev, pci, port) in FUNCTIONS.items():
        nic = "nic " + netdev
        equal((got[nic, "rdma_device"], got[nic, "pci"], got[nic, "port_name"]), (rdma, pci, port), netdev)
        equal(got[nic, "link_modes"], "speed 200000 max 200000 autoneg 1", f"link modes of {netdev}")
        check(got[nic, "pause"].startswith("rx 1 tx 1"), f"pause of {netdev}")
    equal(len({got["nic " + netdev, "sys_image_guid"] for netdev, _, _ in FUNCTIONS.values()}), 1, "adapters")
    equal(found(under=card()), set(), "findings of a healthy card")


def test_states():
    """A link that negotiated low, GIDs that programs are told to take, an MTU that is too small."""
    equal(found(under=card("--fault", "link-speed=40")), {"link-slow"}, "40 Gb/s")
    equal(found(under=card("--mtu", "1500")), {"link-mtu"}, "MTU 1500")
    equal(found(under=card(), env={**os.environ, "NCCL_IB_GID_INDEX": "0"}), {"gid-variable"}, "NCCL_IB_GID_INDEX")


def test_changed():
    """The live card, recorded, with one thing changed: halves that differ, half a cable in use, a function that is half
    gone."""
    with spwlab.scratch() as folder:
        tree = write_file(folder, "tree", run("record", "-", under=card()))
        for path, value, wanted in (("sys/class/net/enP2p1s0f0np0/mtu", "1500", {"nic-halves-differ"}),
                                    ("sys/class/infiniband/roceP2p1s0f1/ports/1/gids", ABSENT, {"nic-half-idle"}),
                                    ("sys/class/net/enp1s0f1np1/carrier", "0", {"nic-halves-differ"}),
                                    ("sys/class/infiniband/rocep1s0f1", ABSENT, {"modules-absent", "nic-half-idle"}),
                                    ("sys/class/infiniband", ABSENT, {"modules-absent"}),
                                    ("sys/class/net/enp1s0f0np0", ABSENT, set())):
            equal(found("replay", tree, write_file(folder, "change", json.dumps({path: value}))), wanted, path)


def test_plan():
    """Two live cards: both cables, each half in a subnet of its own, the same from both ends."""
    other = ",".join(f"02:53:57:bb:00:0{n}" for n in range(1, 5))
    with spwlab.scratch() as folder:
        own = write_file(folder, "own.json", run("--receipt", "-", under=card()))
        peer = write_file(folder, "peer.json", run("--receipt", "-", under=card("--mac", other)))
        there, back = (run("plan", "--replay", a, "--peer", b) for a, b in ((own, peer), (peer, own)))
        same = subprocess.run([DOCTOR, "plan", "--replay", own, "--peer", own], capture_output=True, text=True,
                              timeout=60, check=False)
    check("# 2 cables, 4 pairs of functions" in there, there)
    pairs = {tuple(re.findall(r"10\.\d+\.\d+\.\d+", line)) for line in there.splitlines()
             if line.startswith("# cable ")}
    equal(len(pairs), 4, "pairs of addresses")
    equal({pair[::-1] for pair in pairs}, {tuple(re.findall(r"10\.\d+\.\d+\.\d+", line)) for line in back.splitlines()
                                           if line.startswith("# cable ")},
          "from the other end")
    check("export NCCL_IB_HCA==rocep1s0f0:1,roceP2p1s0f0:1,rocep1s0f1:1,roceP2p1s0f1:1" in there, there)
    check("the peer is this machine" in same.stderr, same)


def test_gid_is_that_of_ucx():
    """UCX itself is asked which GID it takes."""
    spwtest.need("ucx_info")
    got = facts(under=card())
    done = subprocess.run([*card(), "ucx_info", "-d"], capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, "UCX_LOG_LEVEL": "debug", "UCX_LOG_FILE": ""})
    took = dict(re.findall(r"(\w+):1 using gid_index (\d+)", done.stdout + done.stderr))
    equal(set(took), set(FUNCTIONS), "devices that UCX used")
    for rdma, index in took.items():
        equal(got["nic " + FUNCTIONS[rdma][0], "gid_roce_v2_ipv4"], index, f"GID of {rdma}")


def test_unplugged():
    """The cable is pulled while it measures: all four functions leave, which is one line and no crash."""
    done = subprocess.run([*card("--fault", "at=600ms:unplug"), DOCTOR, "--measure"], capture_output=True, text=True,
                          timeout=60, check=False)
    equal(done.returncode, 2, done)
    errors = [line for line in done.stderr.splitlines() if ": error: " in line]
    equal(len(errors), 1, done.stderr)
    # and what is left then: a machine of this make without a function
    with spwlab.scratch() as folder:
        gone = {path: ABSENT for path in ("sys/class/infiniband",
                                          *(f"sys/class/net/{netdev}" for netdev, _, _ in FUNCTIONS.values()),
                                          *(f"sys/bus/pci/devices/{pci}" for _, pci, _ in FUNCTIONS.values()))}
        tree = write_file(folder, "tree", run("record", "-", under=card()))
        change = write_file(folder, "change", json.dumps({**gone, "sys/class/dmi/id/product_name": "NVIDIA_DGX_Spark"}))
        equal(found("replay", tree, change), {"nic-gone"}, "without a cable")


def test_tools_run_says_so():
    """tools/run --device A [--peer B] knows before it starts whether the two are one port."""
    code = ("import sys; sys.path.insert(0, sys.argv[1]); import spwlab\n"
            "for a, b in (x.split('=') for x in sys.argv[2:]): print(a, b, 'NO CABLE' in spwlab.device_path(a, "
            "b).text)")
    pairs = {"rocep1s0f0=rocep1s0f0": True, "rocep1s0f0=roceP2p1s0f0": True, "rocep1s0f0=rocep1s0f1": False,
             "roceP2p1s0f1=rocep1s0f0": False}
    done = subprocess.run([*card(), sys.executable, "-c", code, os.path.join(spwlab.TOOLS, "lib"), *pairs],
                          capture_output=True, text=True, timeout=60,
                          check=False)
    equal(done.stdout.splitlines(), [f"{pair.replace('=', ' ')} {same}" for pair, same in pairs.items()], done.stderr)


def test_tools_run_takes_fast_cores():
    """tools/run on a Spark: the fast, isolated cores for those that spin, core 0 for those that sleep; and a mask or a
    CPU quota counts."""
    code = ("import sys; sys.path.insert(0, sys.argv[1]); import spwlab\n"
            "place = spwlab.Cores(nics=True, near='rocep1s0f0')\n"
            "print(place.receive, place.generator, *place.nics, place.executor, place.main, place.source_main, "
            "place.cnt, place.few())")
    places = (({}, "16 17 18 19 15 0 0 20 False"),
              ({"sys/devices/system/cpu/isolated": "", "proc/self/status": "Cpus_allowed_list:\t0-19"},
               "15 16 17 18 19 0 0 20 False"),
              ({"proc/self/status": "Cpus_allowed_list:\t0-4"}, "1 2 3 4 0 4 3 5 False"),
              ({"sys/fs/cgroup/cpu.max": "350000 100000"}, "16 17 None None 0 17 17 3 True"))
    with spwlab.scratch() as folder:
        for change, wanted in places:
            write_file(folder, "change", json.dumps(change))
            replay = f"--replay {SPARK}" + (f" --replay {folder}/change" if change else "")
            doctor = write_file(folder, "doctor", f'#!/bin/sh\nexec {DOCTOR} "$@" {replay}\n')
            os.chmod(doctor, 0o755)
            done = subprocess.run([sys.executable, "-c", code, os.path.join(spwlab.TOOLS, "lib")],
                                  env={**os.environ, "SPINWIRE_DOCTOR": doctor},
                                  capture_output=True, text=True, timeout=60, check=False)
            equal(done.stdout.strip(), wanted, f"{change} {done.stderr}")


def test_renamed():
    """Functions, interfaces and places with other names are the same card."""
    got = facts(under=card("--name", "a0,a1,b0,b1", "--pci", "0001:02:00.0,0001:02:00.1,0003:02:00.0,0003:02:00.1"))
    names = {value for (_, name), value in got.items() if name == "rdma_device"}
    equal(names, {"a0", "a1", "b0", "b1"}, "RDMA devices")
    with spwlab.scratch() as folder:
        tree = write_file(folder, "tree", run("record", "-", under=card()))
        change = write_file(folder, "change", json.dumps({
            "etc/netplan/40-cx7.yaml": "network:\n  ethernets:\n    cable0:\n      set-name: enp1s0f0np0\n"}))
        equal(found("replay", tree, change), {"nic-renamed"}, "a name that netplan gives")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
