#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""DPDK's own PMD for ConnectX (net_mlx5) as a port: ethdev:PCI-ADDRESS over the software ConnectX, in a network
namespace of the test's own, where each device has the interface that the PMD asks for its MTU, its address and its
statistics."""
import os
import subprocess

import spwtest
from gen_test import generate
from spwtest import Run, Skip, balanced, check, equal, one_line, spwlab
from veth_test import in_namespace, ip

TOOL = os.path.join(spwlab.TOOLS, "with-softhca")
MACS = [f"02:53:57:aa:00:0{i}" for i in range(1, 5)]
INTERFACES = [f"spwp{i}" for i in range(4)]
CABLE = f"shm:{spwlab.prefix('pmd')}"
PMD = "dv_flow_en=0"  # flow rules by verbs


def under(*options):
    """The command in front of a program, in a namespace with four interfaces; the devices share the test's cable."""
    spwtest.need_card()
    in_namespace()
    ip("link", "set", "lo", "up")
    for near, far in (INTERFACES[:2], INTERFACES[2:]):
        if subprocess.run([spwlab.find("ip"), "link", "add", near, "type", "veth", "peer", "name", far]).returncode:
            raise Skip("this kernel has no veth")
    for name in INTERFACES:
        ip("link", "set", name, "up")
    return [TOOL, "--cable", CABLE, *options]


def echo(port):
    """Frames of spinwire's own mlx5 driver, received and echoed through the PMD."""
    near = under("--netdev", INTERFACES[0])
    with Run(["--port", port, "--handler", "echo"], no_pci=False, under=near) as run, spwlab.scratch() as folder:
        run.wait_ready()
        gen, out = generate(["--port", "mlx5:mlx5_0,mode=eth", "--seconds", "1s", "--rate", "1kpps"], folder,
                            under=[TOOL, "--cable", CABLE])
        run.end()
        summary = run.finish()
    check(gen["echoed"] == gen["sent"] > 0, out)
    balanced(summary, gen["sent"])
    equal(summary["ports"][0]["physical_port"]["inside_nic"], False, "inside_nic")


def test_echo():
    echo(f"ethdev:5c00:01:00.0,{PMD}")


def test_no_arguments():
    """The PMD's own choice: flow rules of matchers."""
    echo("ethdev:5c00:01:00.0")


def test_no_silent_loop():
    """By the PMD's own statistics: frames to the other half of a port turn round inside the card, those to the other
    port cross the cable."""
    devices = under("--as", "dgx-spark", "--netdev", ",".join(INTERFACES), "--mac", ",".join(MACS))
    for mac, inside in ((MACS[2], True), (MACS[1], False)):
        with spwlab.scratch() as folder:
            gen, out = generate(["--port", f"ethdev:0000:01:00.0,{PMD}", "--seconds", "1s", "--rate", "1kpps", "--echo",
                                 "no", "--dst-mac", mac, "--link-wait", "1s", "--linger", "3s", "--slots", "2048"],
                                folder, under=devices, no_pci=False)
        phy = gen["ports"][0]["physical_port"]
        equal(phy["inside_nic"], inside, f"inside_nic of {phy}")
        equal(phy["tx_packets"] >= gen["sent"] > 0, not inside, f"{phy}, {gen['sent']} sent")
        equal(f"NO CABLE: {gen['sent']} frames" in out, inside, out)


def test_flow_hint():
    """Where the PMD cannot make its flow rules its start fails: the error names the key that helps."""
    near = under("--as", "no-devx", "--netdev", INTERFACES[0], "--fault", "fail=create_flow:EOPNOTSUPP")
    with Run(["--port", "ethdev:5c00:01:00.0", "--executor", "inline", "--seconds", "1"], no_pci=False,
             under=near) as run:
        run.finish(status=2)
        one_line(run, "ethdev:5c00:01:00.0,dv_flow_en=0")


def test_interface_in_use():
    """An interface that the kernel uses is not taken from it whole, unless the port says so; frames that are named
    are."""
    near = under("--netdev", INTERFACES[0])
    ports = ("mlx5:mlx5_0,mode=eth", "verbs:mlx5_0,mode=eth", f"ethdev:5c00:01:00.0,{PMD}")

    def opens(port, status=0, *says):
        with Run(["--port", port, "--executor", "inline", "--seconds", "0.1", "--litmus", "off"], no_pci=False,
                 under=near) as run:
            run.finish(status=status)
            if status:
                one_line(run, *says)

    opens(ports[0])
    ip("route", "add", "default", "dev", INTERFACES[0])
    opens(ports[0], 2, f"{INTERFACES[0]} has the default route", "flow=all")
    ip("route", "del", "default")
    ip("addr", "add", "10.77.0.1/24", "dev", INTERFACES[0])
    for port in ports:
        opens(port, 2, f"{INTERFACES[0]} has the address 10.77.0.1", "flow=all")
        opens(f"{port},flow=all")
    opens(f"{ports[0]},udp=5357")


def members():
    """Groups that the first interface is a member of by a program, as /proc/net/igmp writes them."""
    interface, found = "", []
    for line in spwlab.read("/proc/net/igmp").splitlines()[1:]:
        words = line.split()
        if not line.startswith("\t"):
            interface = words[1]
        elif interface == INTERFACES[0] and words[0] != "010000E0":
            found.append(words[0])
    return sorted(found)


def test_group():
    """The kernel is a member of the groups of a port while it is open, and no longer; a source has its own list."""
    near = under("--netdev", INTERFACES[0])
    equal(members(), [], "before")
    for driver in ("mlx5", "verbs"):
        port = f"{driver}:mlx5_0,mode=eth,group=239.1.2.3,group=10.0.0.7@232.1.2.4,udp=5357"
        with Run(["--port", port, "--executor", "inline"], no_pci=False, under=near) as run:
            run.wait_ready()
            equal(members(), ["030201EF", "040201E8"], "while it runs")
            check("0x0a000007" in spwlab.read("/proc/net/mcfilter"), "no membership of a source")
            run.end()
            run.finish()
            check(f"interface {INTERFACES[0]} has no IPv4 address" in run.output(), run.output())
        equal(members(), [], "afterwards")


def test_group_refused():
    """The kernel's limit is named with what to do; an address on the interface needs no warning."""
    near = under("--netdev", INTERFACES[0])
    ip("addr", "add", "10.77.0.1/24", "dev", INTERFACES[0])
    try:
        with open("/proc/sys/net/ipv4/igmp_max_memberships", "w", encoding="ascii") as file:
            file.write("1")
    except OSError as error:
        raise Skip(f"sysctl of a namespace: {error}") from None
    for groups, status in (("group=239.1.2.3", 0), ("group=239.1.2.3,group=239.1.2.4", 2)):
        with Run(["--port", f"mlx5:mlx5_0,mode=eth,{groups}", "--executor", "inline", "--seconds", "0.1", "--litmus",
                  "off"], no_pci=False, under=near) as run:
            run.finish(status=status)
            check("has no IPv4 address" not in run.output(), run.output())
            if status:
                one_line(run, "group=239.1.2.4", "igmp_max_memberships")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
