#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spinwire on the mlx5 port, fed by programs with ways of their own to make frames."""
import argparse
import os
import signal
import time

import app
from app import PORT, Cable, Run, Source, peers, spinwire, spwtest
from spwtest import balanced, check, equal, one_line

MAC = "02:73:70:77:0a:01"


def echo(queues, profile):
    """Frames to spinwire and back: every one that the generator sent reached the NIC and is accounted for."""
    cable = Cable()
    with spinwire(cable, "--handler", "echo", queues=queues, profile=profile) as run:
        run.wait_ready()
        gen = Source(cable, "--rate", "20kpps", "--seconds", "1s", "--flows", "64", "--size", "imix").finish()
        app.arrived(run, gen["sent"])
        run.signal(signal.SIGINT)
        summary = run.finish()
    balanced(summary)
    check(gen["sent"] > 0, "nothing was sent")
    equal(summary["ledger"]["wire"], gen["sent"], "frames that reached the port")
    check(0 < gen["echoed"] <= summary["ledger"]["echoed"], f"{gen['echoed']} echoes of {summary['ledger']['echoed']}")
    equal([gen[name] for name in ("duplicated", "corrupted", "foreign", "old_run")], [0] * 4, "strange frames")
    equal(summary["ports"][0]["driver"], "mlx5", "driver")


def test_echo_1_latency():
    echo(1, "latency")


def test_echo_2_latency():
    echo(2, "latency")


def test_echo_4_latency():
    echo(4, "latency")


def test_echo_1_throughput():
    echo(1, "throughput")


def test_echo_2_throughput():
    echo(2, "throughput")


def test_echo_4_throughput():
    echo(4, "throughput")


def raw_ethernet(profile):
    """perftest's raw_ethernet_bw sends a known number of frames."""
    peers.need("raw_ethernet_bw")
    cable, frames = Cable(), 20000
    with spinwire(cable, "--handler", "null", profile=profile) as run:
        run.wait_ready()
        peers.run(cable.wrap() + ["raw_ethernet_bw", "--client", "-F", "-B", "02:73:70:77:0a:02", "-E", MAC, "-s",
                                  "256", "-n",
                                  str(frames)], 90)
        app.arrived(run, frames)
        run.signal(signal.SIGINT)
        summary = run.finish()
    balanced(summary)
    equal(summary["ledger"]["wire"], frames, "frames that reached the port")


def test_raw_ethernet_latency():
    raw_ethernet("latency")


def test_raw_ethernet_throughput():
    raw_ethernet("throughput")


def test_testpmd():
    """DPDK's own PMD sends to us and gets its frames back: two drivers, one wire."""
    import testpmd  # noqa: PLC0415  (it needs root and a namespace; others do not)
    peers.need("dpdk-testpmd", "unshare", "ip")
    peers.enter_netns('net_mlx5 needs')
    deadline, cable = time.monotonic() + 100, Cable()
    cores = sorted(os.sched_getaffinity(0))
    with spinwire(cable, "--handler", "echo", queues=2 if len(cores) >= 4 else 1) as run:
        run.wait_ready()
        pmd = testpmd.Testpmd(cable.fabric, "pmd", "spwt1", argparse.Namespace(stock=False, comp=0, card=None), 1,
                              (cores[0], cores[-1]))
        try:
            pmd.ready(deadline)
            pmd.ask("set promisc 0 on", "testpmd>", deadline)
            pmd.ask("set burst 4", "testpmd>", deadline)
            pmd.ask("set fwd flowgen", "flowgen", deadline)
            pmd.ask("start", "testpmd>", deadline)
            while pmd.stats(deadline)["RX-packets"] < 20000:
                time.sleep(0.1)
            pmd.ask("stop", "testpmd>", deadline)
            stats = pmd.stats(deadline)
            app.arrived(run, stats["TX-packets"])
            pmd.quit(deadline)
        except peers.Failed:
            peers.report(pmd.proc)
            raise
        finally:
            peers.stop_all()
        run.signal(signal.SIGINT)
        summary = run.finish()
    balanced(summary)
    equal(summary["ledger"]["wire"], stats["TX-packets"], "frames that reached the port")


def rules(keys, all_come, port=PORT, *to):
    """(sent, arrived at a port with these rules, all or none of them). The generator's frames go to UDP port 5357 of
    198.18.0.2, unless to says otherwise."""
    cable = Cable()
    with spinwire(cable, "-v", "--handler", "null", port=f"{port},{keys}") as run:
        run.wait_ready()
        gen = Source(cable, "--rate", "10kpps", "--seconds", "300ms", "--echo", "no", *to).finish()
        if all_come:
            app.arrived(run, gen["sent"])
        run.signal(signal.SIGINT)
        summary, text = run.finish(), run.output()
    balanced(summary)
    equal(text.count("no network interface to join"), "group=" in keys, text)
    return gen["sent"], summary["ledger"]["wire"]


def test_rules_take():
    """What a rule names comes, each frame once, although two rules hold for it."""
    for keys in ("udp=7,udp=5357,tcp=80", "ipv4=198.18.0.2", "mac=02:00:00:00:00:02,udp=5357,ipv4=198.18.0.2"):
        sent, came = rules(keys, True)
        equal(came, sent, keys)
        check(sent > 0, "nothing was sent")


def test_rules_leave():
    """What no rule names stays out."""
    for keys in ("udp=7,udp=4789,tcp=5357", "ipv4=198.18.0.3", "ipv6=2001:2::1", "mac=02:00:00:00:00:03", "vlan=7"):
        equal(rules(keys, False)[1], 0, keys)


def test_rules_group():
    """Frames to a group's MAC and IP address come to a port of either driver that names it, and those to another group
    do not, which has the same MAC address. The software ConnectX has no interface to join on, and says so."""
    to = ("--dst-mac", "01:00:5e:01:02:03", "--dst-ip", "239.1.2.3")
    for driver in ("mlx5", "verbs"):
        for group, all_come in (("239.1.2.3", True), ("239.129.2.3", False)):
            sent, came = rules(f"group={group},udp=5357", all_come, f"{driver}:mlx5_0,mode=eth", *to)
            equal(came, sent if all_come else 0, f"{driver}, group={group}")
            check(sent > 0, "nothing was sent")


def test_litmus_refuses():
    """A NIC that sends other bytes than it was given: exit status 2 before any traffic."""
    cable = Cable()
    with Run(["--port", PORT, "--executor", "inline", "--seconds", "1"],
             under=cable.wrap("spinwire", "--fault", "corrupt=1", "--seed", "1")) as run:
        run.finish(2)
        one_line(run, "pattern echo failed on port mlx5_0, memory host, executor inline", "--litmus off")
    with Run(["--port", PORT, "--executor", "inline", "--seconds", "1", "--litmus", "off"],
             under=cable.wrap("spinwire", "--fault", "corrupt=1", "--seed", "1")) as run:
        equal(run.finish()["litmus"]["result"], "not_run", "result")


def test_litmus_beside_traffic():
    """Frames come before, during and after it: none of them takes part, and no frame of the litmus is counted or goes
    elsewhere."""
    cable = Cable()
    source = Source(cable, "--rate", "20kpps", "--seconds", "3s")
    with spinwire(cable, "--handler", "echo", queues=2) as run:
        run.wait_ready()
        gen = source.finish()
        run.signal(signal.SIGINT)
        summary = run.finish()
    balanced(summary)
    litmus = summary["litmus"]
    equal(litmus["nics"], [{"port": "mlx5_0", "why_not": None}], "NICs that took no part")
    check(min(litmus["frames"].values()) > 256, f"{litmus}")
    check(summary["ledger"]["wire"] <= gen["sent"], f"{summary['ledger']['wire']} of {gen['sent']} frames")
    equal([gen[name] for name in ("duplicated", "corrupted", "foreign")], [0] * 3, "strange frames")


def test_device_unknown():
    cable = Cable()
    with spinwire(cable, "--seconds", "1", port="mlx5:mlx5_5,mode=eth") as run:
        run.finish(2)
        one_line(run, "mlx5_5", "this machine has mlx5_0")


def test_device_goes():
    """A device that cannot be recovered: an ordered stop, exit status 4, every slot in the pool."""
    for port in (PORT, "verbs:mlx5_0,mode=eth"):
        cable = Cable()
        with spinwire(cable, "--handler", "null", port=port) as run:
            run.wait_ready()
            cable.control("spinwire", "fault fail=modify_wq:EIO")
            cable.control("spinwire", f"cq-overrun={cable.objects('spinwire')['cq'][0]}")
            summary = run.finish(4)
            check("cannot be recovered" in run.output(), run.output())
        balanced(summary)


def removed(port):
    """The device is taken away under us: it says so, and then answers nothing. An ordered stop, exit status 4."""
    cable = Cable()
    with spinwire(cable, "--handler", "echo", port=port) as run:
        run.wait_ready()
        cable.control("spinwire", "remove")
        summary = run.finish(4)
        check("the device failed or was removed: restart this program when it is back" in run.output(), run.output())
    balanced(summary)


def test_device_removed():
    removed(PORT)
    removed("verbs:mlx5_0,mode=eth")


def test_device_removed_rc():
    for driver in ("mlx5", "verbs"):
        removed(f"{driver}:mlx5_0,mode=rc,listen=127.0.0.1:{peers.free_port()},peers=127.0.0.1")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
