#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spinwire-doctor plan: the same plan from both ends, what it refuses, and what it applies and takes back."""
import glob
import os
import re
import resource
import shutil
import subprocess

import spwtest
from doctor_test import DOCTOR, doctor, platform, second_spark
from spwtest import check, equal, spwlab, write_file


# ---- plans -----------------------------------------------------------------------------------------

def netplan_of(out, whose):
    return re.search(rf"# ---- {whose}.*?netplan apply\n((?:#.*\n)*)(network:\n(?: .*\n)+)", out).group(2)


def test_two_sparks():
    """Both halves get an address in a subnet of their own; the interface of the default route is left alone."""
    with spwlab.scratch() as folder:
        out = doctor("plan", "--replay", platform("dgx-spark"), "--peer", second_spark(folder)).stdout
        own, peer = netplan_of(out, "this machine"), netplan_of(out, "the peer")
        for text, last in ((own, 1), (peer, 2)):
            equal(re.findall(r"^    (\w+):$", text, re.M), ["enp1s0f0np0", "enP2p1s0f0np0"], "interfaces")
            equal(re.findall(r"- (\S+)", text), [f"10.10.0.{last}/24", f"10.10.1.{last}/24"], "addresses")
            equal(text.count("mtu: 9000"), 2, "MTU")
        check("enP7s7 has the default route and is left alone" in out, out)
        for line in ("export NCCL_IB_HCA==rocep1s0f0:1,roceP2p1s0f0:1",
                     "export UCX_NET_DEVICES=rocep1s0f0:1,roceP2p1s0f0:1",
                     "OMPI_MCA_btl_tcp_if_include=enp1s0f0np0"):
            check(line in out, f"{line} is not in\n{out}")


def test_without_product_names():
    """Machines whose firmware has no name: what the user called the peer stands above its half."""
    with spwlab.scratch() as folder:
        nameless = [write_file(folder, name, text.replace('"sys/class/dmi/id/product_name": "NVIDIA_DGX_Spark",', ""))
                    for name, text in (("a.json", spwlab.read(platform("dgx-spark"))),
                                       ("b.json", spwlab.read(second_spark(folder))))]
        out = doctor("plan", "--replay", nameless[0], "--peer", nameless[1]).stdout
        check("# ---- this machine (recorded): " in out and f"# ---- the peer ({nameless[1]}): " in out, out)


def test_is_the_same_from_both_ends():
    with spwlab.scratch() as folder:
        peer = second_spark(folder)
        there = doctor("plan", "--replay", platform("dgx-spark"), "--peer", peer).stdout
        back = doctor("plan", "--replay", peer, "--peer", platform("dgx-spark")).stdout
        equal(netplan_of(there, "this machine"), netplan_of(back, "the peer"), "one file")
        equal(netplan_of(there, "the peer"), netplan_of(back, "this machine"), "the other file")


def emulated(number, *words):
    """A command on an emulated Spark, whose four functions have a link: on a cable of this test's own, or a link that a
    test beside this one takes down there would be theirs."""
    macs = ",".join(f"02:00:00:00:{number:02x}:{k:02x}" for k in range(1, 5))
    return subprocess.run([spwlab.WITH_SOFTHCA, "--as", "dgx-spark", "--cable", f"shm:{spwlab.prefix('plan')}", "--mac",
                           macs, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          check=False)


def receipts(folder, cnt):
    """Of so many emulated Sparks."""
    paths = [os.path.join(folder, f"{n}.json") for n in range(cnt)]
    for n, path in enumerate(paths):
        emulated(n, DOCTOR, "--receipt", path)
    return paths


def test_emulated():
    """Two emulated Sparks, one after the other: two that have the same addresses are told to take --mac."""
    spwtest.need_card()
    with spwlab.scratch() as folder:
        path, = receipts(folder, 1)
        check("with-softhca --mac A,B" in emulated(0, DOCTOR, "plan", "--peer", path).stderr, "what to do")
        done = emulated(1, DOCTOR, "plan", "--peer", path)
        check("2 cables, 4 pairs of functions" in done.stdout, f"{done.stdout}{done.stderr}")


def triangle(own, *peers, status=0):
    return doctor("plan", "--replay", own, *(word for peer in peers for word in ("--peer", peer)), status=status)


def test_triangle():
    """Three machines: everybody's plan has the same files, a cable has a port at both ends, and each two machines share
    one, with a subnet for each of its halves."""
    spwtest.need_card()
    with spwlab.scratch() as folder:
        paths = receipts(folder, 3)
        files = []
        for n, own in enumerate(paths):
            others = paths[:n] + paths[n + 1:]
            out = triangle(own, *others).stdout
            found = {own: netplan_of(out, "this machine")}
            found.update((path, netplan_of(out, f"peer {i + 1}")) for i, path in enumerate(others))
            files.append([found[path] for path in paths])
            check("export UCX_MAX_RNDV_RAILS=2\n" in out and "export NCCL_IB_SUBNET_AWARE_ROUTING=1\n" in out, out)
        equal(files[1:], files[:1] * 2, "plans of the others")
        ends = {}
        for n, text in enumerate(files[0]):
            equal(len(re.findall(r"^    \w+:$", text, re.M)), 4, f"functions of {n}")
            for name, net, last in re.findall(r"^    (\w+):\n(?:      .*\n)*?        - 10\.10\.(\d)\.(\d)/24", text,
                                              re.M):
                equal(int(last), n + 1, f"{name} of {n}")
                ends.setdefault(net, []).append((n, name))
        equal(sorted(ends), list("012345"), "subnets")
        equal(sorted(tuple(n for n, _ in pair) for pair in ends.values()), sorted([(0, 1), (1, 2), (0, 2)] * 2),
              "cables")
        for (_, a), (_, b) in ends.values():
            equal({a[:-5], b[:-5]} == {a[:-5]} and {a[-5:], b[-5:]} == {"f0np0", "f1np1"}, True, f"{a} and {b}")


def test_triangle_refused():
    spwtest.need_card()
    with spwlab.scratch() as folder:
        a, b = receipts(folder, 2)
        for peers, text in (((b, platform("dgx-spark")), "peer 2 has 1 port with a link: in a triangle each machine"),
                            ((platform("bare-vm"), b), "peer 1 has no RDMA port with a link"),
                            ((b, b), "peer 2 is the other peer: a port of it has the same MAC address"),
                            ((a, b), "peer 1 is this machine: a port of it has the same MAC address")):
            check(text in triangle(a, *peers, status=1).stderr, text)


def test_refuses():
    with spwlab.scratch() as folder:
        spark = platform("dgx-spark")
        check("the peer is this machine" in doctor("plan", "--replay", spark, "--peer", spark, status=1).stderr,
              "two names of one machine")
        check("no RDMA port" in doctor("plan", "--replay", spark, "--peer", platform("bare-vm"), status=1).stderr,
              "a peer without ports")
        check("which cable" in doctor("plan", "--replay", spark, "--peer", platform("x86-connectx5"), status=1).stderr,
              "one cable and two")
        odd = write_file(folder, "odd.json", spwlab.read(second_spark(folder)).replace("rocep1s0f0", "$(reboot)"))
        out = doctor("plan", "--replay", spark, "--peer", odd)
        check("reboot" not in out.stdout, "a name that a shell would run")
        taken = write_file(folder, "taken", '{"addr/enP7s7": "10.10.7.7/24"}')
        out = doctor("plan", "--replay", spark, "--replay", taken, "--peer", second_spark(folder)).stdout
        check("10.11.0." in out and "10.10." not in out, "a subnet that is in use")


def test_over_ssh():
    """HOST is asked by ssh: this one answers for any host, with the doctor itself."""
    with spwlab.scratch() as folder:
        peer = second_spark(folder)
        ssh = write_file(folder, "ssh",
                         f'#!/bin/sh\necho "$@" > {folder}/asked\necho Welcome '
                         f'"{{"; exec {DOCTOR} replay {peer} --receipt -\n')
        os.chmod(ssh, 0o755)
        env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        out = doctor("plan", "--replay", platform("dgx-spark"), "--peer", "ada@spark-2", env=env).stdout
        check("10.10.0.2" in out, out)
        equal(spwlab.read(os.path.join(folder, "asked")).split()[-4:], ["ada@spark-2", "spinwire-doctor", "--receipt",
                                                                        "-"], "what ssh got")
        write_file(folder, "ssh", "#!/bin/sh\nexit 255\n")
        err = doctor("plan", "--replay", platform("dgx-spark"), "--peer", "spark-2", status=2, env=env).stderr
        check("no receipt came" in err and "--peer FILE" in err, err)


def apply(folder, **kwargs):
    return subprocess.run([DOCTOR, "plan", "--replay", platform("dgx-spark"), "--peer", second_spark(folder), "--apply",
                           folder], capture_output=True,
                          text=True, check=False, **kwargs)


def test_apply():
    with spwlab.scratch() as folder:
        os.makedirs(os.path.join(folder, "etc/netplan"))
        done = apply(folder)
        equal(done.returncode, 0, done.stderr)
        path = os.path.join(folder, "etc/netplan/60-spinwire.yaml")
        equal(spwlab.read(path), netplan_of(done.stdout, "this machine"), "what was written")
        equal(os.stat(path).st_mode & 0o777, 0o600, "mode")
        equal(os.listdir(os.path.dirname(path)), ["60-spinwire.yaml"], "what else was left")
        shutil.rmtree(os.path.join(folder, "etc"))


def test_apply_elsewhere():
    """A root that has no netplan: the remedy is named."""
    with spwlab.scratch() as folder:
        done = apply(folder)
        check(done.returncode == 1 and "its folder is missing; --apply takes the root" in done.stderr, done.stderr)


def test_apply_killed():
    """Whatever ends it before the rename leaves the old file as it was."""
    with spwlab.scratch() as folder:
        os.makedirs(os.path.join(folder, "etc/netplan"))
        path = os.path.join(folder, "etc/netplan/60-spinwire.yaml")
        write_file(folder, "etc/netplan/60-spinwire.yaml", "old\n")
        for limit in (0, 1, 100, 200):  # the file size at which the kernel kills it

            def small(limit=limit):
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            done = apply(folder, preexec_fn=small)
            check(done.returncode != 0, "the limit did not stop it")
            equal(spwlab.read(path), "old\n", f"the file, killed at {limit} bytes")
        shutil.rmtree(os.path.join(folder, "etc"))


def test_apply_killed_at_each_step():
    """SIGKILL at each system call of the writing: the old file is whole, or the new one is; what is left beside it is
    no file of netplan's."""
    spwtest.need("strace")
    with spwlab.scratch() as folder:
        os.makedirs(os.path.join(folder, "etc/netplan"))
        path = os.path.join(folder, "etc/netplan/60-spinwire.yaml")
        # which rename it is depends on the machine; the writes are the file's and stdout's
        for step, when in [("fsync", 1), ("/^rename", 1), ("write", 1), ("write", 2), ("close", 1)]:
            write_file(folder, "etc/netplan/60-spinwire.yaml", "old\n")
            trace = ["strace", "-o", os.path.join(folder, "trace"), "-e", f"trace={step}", "-e",
                     f"inject={step}:signal=KILL:when={when}+"]
            done = subprocess.run([*trace, DOCTOR, "plan", "--replay", platform("dgx-spark"), "--peer",
                                   second_spark(folder), "--apply", folder],
                                  capture_output=True, text=True, check=False)
            check(done.returncode != 0 and "killed by SIGKILL" in spwlab.read(os.path.join(folder, "trace")),
                  (step, done))
            text = spwlab.read(path)
            check(text == "old\n" or text.startswith("network:\n") and text.endswith("/24\n"),
                  f"killed at {step}: {text}")
            others = set(os.listdir(os.path.join(folder, "etc/netplan"))) - {"60-spinwire.yaml"}
            check(not [name for name in others if name.endswith(".yaml")], f"killed at {step}: {others}")
        equal(apply(folder).returncode, 0, "the next one")
        equal(spwlab.read(path).splitlines()[0], "network:", "what it wrote")
        shutil.rmtree(os.path.join(folder, "etc"))


def test_netplan_takes_it():
    spwtest.need("netplan")
    with spwlab.scratch() as folder:
        os.makedirs(os.path.join(folder, "etc/netplan"))
        equal(apply(folder).returncode, 0, "plan --apply")
        done = subprocess.run(["netplan", "generate", "--root-dir", folder], capture_output=True, text=True,
                              check=False)
        equal(done.returncode, 0, done.stdout + done.stderr)
        made = "".join(spwlab.read(path) for path in sorted(glob.glob(os.path.join(folder, "run/systemd/network/*"))))
        check("Address=10.10.0.1/24" in made and "MTUBytes=9000" in made and "enP2p1s0f0np0" in made, made)
        check("enP7s7" not in made, "the interface of the default route")
        shutil.rmtree(os.path.join(folder, "run"))
        shutil.rmtree(os.path.join(folder, "etc"))


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
