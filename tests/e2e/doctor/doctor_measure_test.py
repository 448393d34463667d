#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spinwire-doctor --measure on the software card of a DGX Spark: each way carries what --rate allows, crossed the cable
or turned round inside the card, by the card's own counters; and a card that carries less yields its finding, a healthy
one none. The rates are small: what one core can play."""
import json
import os
import re
import signal
import subprocess
import time

import documents
import spwtest
from spwtest import Skip, check, equal, spwlab

DOCTOR = os.environ["SPINWIRE_DOCTOR"]
TOOL = os.path.join(spwlab.TOOLS, "with-softhca")
PORT, HALF = 0.2, 0.1  # Gb/s
BOUND_S = 60  # of a measurement, on a busy machine too
TRIES = 3  # a busy machine carries less than its cable


def card(*options, name="m"):
    spwtest.need_card()
    return [TOOL, "--as", "dgx-spark", "--mtu", "9000", "--cable", f"shm:{spwlab.prefix(name)}", "--rate",
            f"port={PORT},pcie={HALF}", *options]


def measure(under, *words, env=None):
    """(ways by (from, to), ids of measured findings)"""
    done = subprocess.run([*under, DOCTOR, "--measure", "--expect", f"{HALF}Gbps", *words, "--json", "-"],
                          capture_output=True, text=True,
                          timeout=BOUND_S, check=False, env=env)
    check(done.returncode in (0, 2), done)
    out = documents.loads(done.stdout)
    return {(way["from"], way["to"]): way for way in out["measured"]}, {f["id"] for f in out["findings"]
                                                                        if f["id"].startswith("measured")}


def until(wanted, *args, **kwargs):
    """Measures until the findings are those; the last try's ways."""
    for _ in range(TRIES):
        ways, found = measure(*args, **kwargs)
        if found == wanted:
            break
    equal(found, wanted, f"findings of {json.dumps(list(ways.values()), indent=1)}")
    return ways


def test_healthy():
    ways = until(set(), card())
    functions = ["rocep1s0f0", "rocep1s0f1", "roceP2p1s0f0", "roceP2p1s0f1"]
    for name in functions:
        way = ways[name, name]
        equal((way["crossed"], way["cable"], way["wire_packets"]), ("inside the NIC", False, 0), f"{name} to itself")
    for pair in (("rocep1s0f0", "rocep1s0f1"), ("rocep1s0f1", "rocep1s0f0")):
        equal((ways[pair]["crossed"], ways[pair]["cable"]), ("cable", True), f"{pair}")
        check(ways[pair]["wire_packets"] >= ways[pair]["packets"] > 0, ways[pair])
    both = ways["+".join(functions[0::2]), "+".join(functions[1::2])]
    equal(both["promised_mbps"], 2 * HALF * 1000, "both halves promise")
    check(both["mbps"] > 1.2 * HALF * 1000, f"both halves carry no more than one: {both}")
    for way in ways.values():
        check(way["mbps"] <= 1.3 * way["promised_mbps"], f"more than the card lets through: {way}")


def test_thirteen():
    """The port carries a fraction of what all else promises; PCIe does not suffer."""
    ways = until({"measured-slow"}, card("--fault", "port-rate=0.03"))
    check(ways["rocep1s0f0", "rocep1s0f1"]["mbps"] < 45, ways)
    check(ways["rocep1s0f0", "rocep1s0f0"]["mbps"] > 60, ways)


def test_pcie_slow():
    until({"measured-slow", "measured-pcie"}, card("--rate", f"port={PORT},pcie=0.02"))


def test_unverified():
    """A function without counters of its physical port: the rate counts, the cable is unverified."""
    spwtest.need_card()
    ways = until(set(), [TOOL, "--as", "vf", "--devices", "2", "--mtu", "9000", "--cable", f"shm:{spwlab.prefix('u')}",
                         "--rate", "port=0.1,pcie=0.1"])
    equal({way["crossed"] for way in ways.values()}, {"unverified"}, "crossed")
    equal({way["wire_packets"] for way in ways.values()}, {None}, "packets of the physical port")


def fake_ssh(folder, *command):
    """This one answers for any host."""
    path = os.path.join(folder, "ssh")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\necho \"$@\" > {folder}/asked\nexec env -u LD_PRELOAD -u SPW_SOFTHCA "
                   f"{' '.join(command)}\n")
    os.chmod(path, 0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def test_peer():
    """Another card answers over ssh, behind a shell with a banner: there and back, one half after the other and both at
    once."""
    with spwlab.scratch() as folder:
        banner = spwtest.write_file(folder, "banner",
                                    "#!/bin/sh\necho Welcome to spark-2; echo '{\"motd\": 1}'; exec \"$@\"\n")
        os.chmod(banner, 0o755)
        env = fake_ssh(folder, banner, *card(), DOCTOR, "answer")
        ways = until(set(), card(), "--peer", "ada@spark-2", env=env)
        equal(spwlab.read(os.path.join(folder, "asked")).split()[-3:], ["ada@spark-2", "spinwire-doctor", "answer"],
              "what ssh got")
    equal(len(ways), 12, "ways")
    equal({way["crossed"] for way in ways.values()}, {"cable"}, "crossed")
    check(("rocep1s0f0", "ada@spark-2/rocep1s0f0") in ways and ("ada@spark-2/rocep1s0f0", "rocep1s0f0") in ways, ways)


def test_peer_thirteen():
    """The peer's second port is slow; the first one is not blamed."""
    with spwlab.scratch() as folder:
        env = fake_ssh(folder, *card("--fault", "port-rate=0.03"), DOCTOR, "answer")
        ways = until({"measured-slow"}, card(), "--peer", "spark-2", env=env)
    check(all(way["mbps"] < 45 for way in ways.values()), ways)


def test_peer_bad():
    """What is no peer is one line; nothing hangs."""
    with spwlab.scratch() as folder:
        none = '{"schema":"spinwire.measure/1","ports":[]}'
        hello = none.replace("[]", '[{"device":"mlx5_9","promised":100}]')
        for answer, says in (("true", "does not answer"), ("echo nonsense", "does not answer"),
                             (f"echo '{none}'", "no RDMA port"),
                             (f"echo '{hello}'", "does not answer"), (f"printf '%s\\n' '{hello}' '{{}}'",
                                                                      "answers no address"),
                             (f"printf '%s\\n' '{hello}' '{{\"error\":\"spark-2 is busy\"}}'", "spark-2 is busy")):
            env = fake_ssh(folder, "sh", "-c", '"' + answer.replace('"', '\\"') + '"')
            done = subprocess.run([*card(), DOCTOR, "--measure", "--peer", "spark-2"], capture_output=True, text=True,
                                  timeout=BOUND_S, check=False, env=env)
            check(done.returncode in (1, 2) and says in done.stderr, f"{answer}: {done}")
            equal(len([line for line in done.stderr.splitlines() if "error" in line]), 1, done.stderr)


def test_peer_silent():
    """Half a line, and then nothing, from a peer that does not end by itself: an error, in the time that an answer may
    take."""
    with spwlab.scratch() as folder:
        env = fake_ssh(folder, "sh", "-c", '"printf \'{\'; exec sleep 300"')
        done = subprocess.run([*card(), DOCTOR, "--measure", "--peer", "spark-2"], capture_output=True, text=True,
                              timeout=BOUND_S, check=False, env=env)
    check(done.returncode == 2 and "does not answer" in done.stderr, done)


def test_stopped():
    """A doctor that is stopped again and again, each time for longer than it waits for an answer, blames no port for
    it."""
    spwtest.need_card()
    tool = [TOOL, "--as", "vf", "--devices", "2", "--mtu", "9000", "--cable", f"shm:{spwlab.prefix('s')}", "--rate",
            "port=0.1,pcie=0.1"]
    process = spwlab.spawn([*tool, DOCTOR, "--measure", "--json", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True)
    while process.poll() is None:
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.15)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.4)  # less than one measurement takes
    out, err = process.communicate()
    check(process.returncode in (0, 2), err)
    ways = documents.loads(out)["measured"]
    check(ways and all(way["mbps"] for way in ways), ways)


def test_same_address():
    """Two machines that both have the address that the other one should have."""
    with spwlab.scratch() as folder:
        ips = "10.9.0.1,10.9.1.1,10.9.2.1,10.9.3.1"
        env = fake_ssh(folder, *card("--ip", ips, name="other"), DOCTOR, "answer")
        done = subprocess.run([*card("--ip", ips), DOCTOR, "--measure", "--peer", "spark-2"], capture_output=True,
                              text=True, timeout=BOUND_S, check=False,
                              env=env)
    check(done.returncode in (1, 2) and "have the same address" in done.stderr, done)


def test_answer_hostile():
    """The answering side refuses what it must not do, and goes on."""
    asks = ["nonsense", "[]", "{}", '{"op":"open"}', '{"op":"open","slot":99,"device":"rocep1s0f0"}',
            '{"op":"open","slot":0,"device":"../x"}',
            '{"op":"join","slot":0}', '{"op":"run","cnt":1,"ms":100}', '{"op":"run","cnt":-1,"ms":100}',
            '{"op":"reboot","slot":0}',
            '{"op":"open","slot":0,"device":"rocep1s0f0"}', '{"op":"run","cnt":1,"ms":100}',
            '{"op":"join","slot":0,"there":{"qpn":-1,"rkey":0,"mtu":4096,"addr":0,"gid":"::"}}',
            '{"op":"join","slot":0,"there":{"qpn":1,"rkey":0,"mtu":77777,"addr":0,"gid":"::"}}',
            '{"op":"join","slot":0,"there":{"qpn":1,"rkey":0,"mtu":4096,"addr":0,"gid":"here"}}', '{"op":"close"}']
    done = subprocess.run([*card(), DOCTOR, "answer"], input="\n".join(asks) + "\n", capture_output=True, text=True,
                          timeout=BOUND_S, check=False)
    equal(done.returncode, 0, done.stderr)
    hello, *replies = [documents.foreign(line) for line in done.stdout.splitlines()]
    equal([port["device"] for port in hello["ports"]], ["rocep1s0f0", "rocep1s0f1", "roceP2p1s0f0", "roceP2p1s0f1"],
          "ports")
    equal([ask for ask, reply in zip(asks, replies) if "error" not in reply], [asks[10], asks[15]], "what was done")
    equal(len(replies), len(asks), "replies")


def test_recorded():
    """A receipt has the figures, and its machine their findings."""
    with spwlab.scratch() as folder:
        path = os.path.join(folder, "receipt.json")
        subprocess.run([*card("--fault", "port-rate=0.03"), DOCTOR, "--measure", "--expect", f"{HALF}Gbps", "--receipt",
                        path], capture_output=True,
                       timeout=BOUND_S, check=False)
        done = subprocess.run([DOCTOR, "replay", path], capture_output=True, text=True, timeout=BOUND_S, check=False)
    check("measured-slow" in done.stdout and "inside the NIC:" in done.stdout, done.stdout)


def test_software():
    """Nobody promised what emulated links and PCIe carry: without --expect no pair is slow, and one line says why.
    What is the same of all four functions is one finding."""
    done = subprocess.run([*card("--mtu", "1500"), DOCTOR, "--measure"], capture_output=True, text=True,
                          timeout=BOUND_S, check=False)
    equal(done.returncode, 0, done)
    equal(done.stdout.count("software ConnectX"), 1, done.stdout)
    equal(re.findall(r"^\w+ +(measured\S*|link-mtu) ", done.stdout, re.M), ["link-mtu"], done.stdout)
    mtu = r"^warn +link-mtu +(\w+, ){3}\w+: MTU 1500: .*\n +mend: with-softhca --mtu 9000"
    check(re.search(mtu, done.stdout, re.M), done.stdout)


def test_interrupted():
    """Ctrl-C while pairs are measured: one line of how far it was, 130, and no findings."""
    status, text = spwtest.Terminal([*card(), DOCTOR, "--measure"]).interrupt(r"measuring \w+ to", "a pair", BOUND_S)
    equal((status, text.count("interrupted after ")), (130, 1), text)
    check("promised" not in text and "mend:" not in text, text)


def test_nothing_to_measure():
    done = subprocess.run([DOCTOR, "--measure"], capture_output=True, text=True, timeout=BOUND_S, check=False)
    if done.returncode == 0:
        raise Skip("there is an RDMA port here")
    check("no RDMA port with a link" in done.stderr, done)
    for words in (["--measure", "--expect", "x"], ["--expect", "1Gbps"], ["replay", "x", "--measure"], ["--peer", "x"]):
        done = subprocess.run([DOCTOR, *words], capture_output=True, text=True, timeout=BOUND_S, check=False)
        check(done.returncode == 1 and done.stderr.count("\n") == 1, (words, done))


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
