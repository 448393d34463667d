#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spinwire-doctor: statuses, recorded machines and receipts, plans; and its facts against the tools that people use for
each."""
import hashlib
import json
import os
import re
import signal
import subprocess
import time
from xml.etree import ElementTree

import documents
import namespace
import spwtest
from spwtest import SANITIZED, Skip, check, equal, spwlab, write_file

DOCTOR = os.environ["SPINWIRE_DOCTOR"]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
SPEED_S = 2
FINDINGS = "lib/plat/findings.h"


def platform(name):
    return os.path.join(ROOT, "config", "platforms", name + ".json")


def doctor(*words, status=0, under=(), **kwargs):
    done = subprocess.run([*under, DOCTOR, *words], capture_output=True, text=True, timeout=120, check=False,
                          stdin=subprocess.DEVNULL, **kwargs)
    equal(done.returncode, status, f"status of {words}\n{done.stdout}{done.stderr}")
    return done


def findings(*words, status=0):
    return {f["id"]: f for f in documents.loads(doctor(*words, "--json", "-", status=status).stdout)["findings"]}


def facts(*words, **kwargs):
    """{(of, name): value} of what is known."""
    receipt = documents.loads(doctor(*words, "--receipt", "-", **kwargs).stdout)
    return {(f["of"], f["name"]): f["value"] for f in receipt["facts"] if "value" in f}


def second_spark(folder):
    """The machine at the other end of the cable."""
    text = spwlab.read(platform("dgx-spark")).replace("4c:bb:47:00:00:0",
                                                      "4c:bb:47:00:01:0").replace('"10.10.0.1/24"', '"10.10.0.9/24"')
    return write_file(folder, "peer.json", text)


# ---- findings --------------------------------------------------------------------------------------

def test_status():
    """0 without a finding and with warnings only, 2 with an error finding."""
    check("no finding" in doctor("replay", platform("dgx-spark")).stdout, "a healthy machine has a finding")
    with spwlab.scratch() as folder:
        warn = write_file(folder, "warn", json.dumps({"sys/class/net/enP2p1s0f0np0/mtu": "1500"}))
        error = write_file(folder, "error", json.dumps({"env/NCCL_IB_GID_INDEX": "0"}))
        done = doctor("replay", platform("dgx-spark"), warn)
        check("nic-halves-differ" in done.stdout and "mend: ip link set enP2p1s0f0np0 mtu 9000" in done.stdout,
              done.stdout)
        doctor("replay", platform("dgx-spark"), error, status=2)
        lines = doctor("replay", platform("dgx-spark"), warn, error, status=2).stdout.splitlines()
        check(lines[1].startswith("error") and any(line.startswith("warn") for line in lines[2:]),
              "the worst is not first")


def test_brief():
    """Notes are one line of codes; --full has each with what to do. Warnings have it in both."""
    with spwlab.scratch() as folder:
        args = ["replay", platform("bare-vm"),
                write_file(folder, "shared", json.dumps({
                    "sys/devices/system/cpu/isolated": "",
                    "sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages": "0"}))]
        rows = findings(*args)
        brief, full = doctor(*args).stdout, doctor(*args, "--full").stdout
    notes = {code for code, row in rows.items() if row["severity"] == "note"}
    check(len(notes) > 1 and len(rows) > len(notes), rows)
    line = re.search(r"^note   (.*): what to do is in --full$", brief, re.M)
    equal(set(line[1].split(", ")), notes, brief)
    equal(set(re.findall(r"^note   (\S+) +\S", full, re.M)), notes, full)
    warn = re.compile(r"^warn .*\n +mend: .*", re.M)
    check(warn.findall(brief) == warn.findall(full) != [], brief)


def test_interrupted():
    """Ctrl-C ends a probe with how far it was, and 130; no table of what it did not see to its end."""
    probe = spwlab.spawn([DOCTOR, "idle", "--seconds", "30"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    spwlab.wait_for(lambda: spwtest.cpu_s(probe) >= 0.2, 30, "a probe that spins")
    probe.send_signal(signal.SIGINT)
    out, err = probe.communicate(timeout=60)
    equal((probe.returncode, out), (130, ""), err)
    check(re.fullmatch(r"spinwire-doctor: interrupted after [\d.]+ s of 30: watching 1 core\n", err), err)


# What owners of such machines complain of, and the findings that stand for it.
COMPLAINTS = {
    "modules absent": ["modules-absent", "uverbs-absent"], "link down": ["link-down", "link-none"],
    "half a cable in use": ["nic-half-idle"],
    "speed or PCIe width below nominal": ["link-slow", "nic-pcie-narrow", "gpu-pcie-narrow", "measured-pcie"],
    "13 Gb/s state": ["measured-slow"],
    "gone after a restart": ["roce-volatile"],
    "MTU not 9000": ["link-mtu"], "MTU unequal on the halves": ["nic-halves-differ"], "no RoCE v2 GID": ["gid-none"],
    "another index than NCCL and UCX would take": ["gid-variable", "gid-link-local"], "pause moving": ["port-pause"],
    "ECN moving": ["port-ecn"],
    "discards moving": ["port-discards", "port-errors"], "peermem": ["peermem-useless", "peermem-absent"],
    "/dev/infiniband rights": ["uverbs-rights"],
    "memlock": ["memlock-low"], "ENOMEM of ibv_reg_mr": ["cma-lost"], "hugepages": ["hugepages-none"],
    "governor": ["cores-governor", "cores-idle"],
    "cores not isolated": ["cores-shared", "cores-ticks"], "IRQs on data cores": ["nic-irqs"],
    "slow cores": ["cores-slow"],
    "container with too few cores or too little time": ["cores-few", "cores-outside", "cores-quota"],
    "NUMA": ["cores-far", "gpu-far"], "IOMMU": ["nic-iommu"], "relaxed ordering": ["nic-relaxed-ordering"],
    "firmware": ["nic-firmware-mixed"],
    "AER": ["nic-aer"], "GPU slow": ["gpu-throttled", "measured-gpu"],
    "container without device or capability": ["container-no-device", "cap-net-raw"],
    "renamed by netplan": ["nic-renamed"], "cable pulled": ["nic-gone"], "InfiniBand mode": ["link-infiniband"],
    "NCCL hangs": ["nccl-hang-version", "nccl-differ", "nccl-conf"],
    "RoCE LAG": ["nic-lag"], "did it cross the wire": ["measured-inside", "measured-no-answer"],
}


def test_each_complaint_has_its_finding():
    """A recorded machine of tests/unit/plat/variants.json has each; and no finding is without a machine that has it."""
    variants = documents.foreign(spwlab.read(os.path.join(ROOT, "tests/unit/plat/variants.json")))
    shown = {code for variant in variants for code in variant["finds"]}
    for complaint, names in COMPLAINTS.items():
        check(set(names) <= shown, f"{complaint}: no machine shows {set(names) - shown}")
    coded = re.findall(r'^PLAT_FINDING\(\s*\w+, \w+, "([a-z-]+)"', spwlab.read(os.path.join(ROOT, FINDINGS)), re.M)
    check(len(coded) > 50, "the list of findings is not read")
    equal(set(coded) - shown, set(), "findings that no machine shows")


def test_json():
    with spwlab.scratch() as folder:
        change = write_file(folder, "change", json.dumps({"sys/class/net/enp65s0f0np0/speed": "25000"}))
        got = findings("replay", platform("x86-connectx5"), change)
        equal(set(got), {"link-slow"}, "findings")
        equal(got["link-slow"]["severity"], "warn", "severity")
        check("25" in got["link-slow"]["evidence"] and got["link-slow"]["mend"].startswith("ethtool -s enp65s0f0np0"),
              got)


def test_facts():
    """Each fact names its source, and an unknown one says why."""
    for line in doctor("replay", platform("bare-vm"), "--facts").stdout.splitlines():
        check(re.search(r"\[[^\]]+.*\]$", line), f"no source: {line}")
    check("unknown: absent" in doctor("replay", platform("bare-vm"), "--facts").stdout, "nothing is unknown")


def test_record_and_replay():
    with spwlab.scratch() as folder:
        path = os.path.join(folder, "tree")
        doctor("record", path)
        live, again = doctor("record", "-").stdout, spwlab.read(path)
        for text in live, again:
            check(text.startswith('{\n "#": "a machine recorded by spinwire-doctor",\n'), "head of a recorded machine")
        first = facts("replay", path, status=doctor_status(path))
        check(first[("host", "cores_online")] == spwlab.read("/sys/devices/system/cpu/online").strip(), first)


def doctor_status(path):
    return subprocess.run([DOCTOR, "replay", path], capture_output=True, check=False).returncode


def test_receipt():
    """It is a machine, to be replayed; its hash is that of its content; a change is noticed."""
    with spwlab.scratch() as folder:
        path = os.path.join(folder, "receipt.json")
        doctor("replay", platform("dgx-spark"), "--receipt", path)
        receipt = documents.load(path)
        equal(receipt["schema"], "spinwire.receipt/1", "schema")
        sha = receipt.pop("sha256")
        text = json.dumps(receipt, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        equal(hashlib.sha256(text.encode()).hexdigest(), sha, "sha256")
        equal(facts("replay", path), facts("replay", platform("dgx-spark")), "facts of the receipt")
        changed = write_file(folder, "changed.json", spwlab.read(path).replace("4 0 0",
                                                                               "").replace("mlx5_core", "mlx5_corf", 1))
        check("SHA-256" in doctor("replay", changed, status=1).stderr, "a change was not noticed")
        other = write_file(folder, "other.json", '{"schema": "spinwire.summary/1"}')
        check("not a receipt" in doctor("replay", other, status=1).stderr, "another JSON was taken")


def test_receipt_torn():
    with spwlab.scratch() as folder:
        path = os.path.join(folder, "receipt.json")
        doctor("replay", platform("bare-vm"), "--receipt", path)
        text = spwlab.read(path).rstrip()
        for bytes_left in range(0, len(text), max(1, len(text) // 60)):
            done = doctor("replay", write_file(folder, "torn", text[:bytes_left]), status=1)
            equal(done.stderr.count("\n"), 1, f"error lines at {bytes_left}: {done.stderr}")


def test_wrong_documents():
    """By the line where it is no JSON, by the path where it is no machine."""
    with spwlab.scratch() as folder:
        for text, wanted in (('{"a": "1",\n "b": "\\x00"}', "wrong:2: "), ('{"a": "1", "a": "2"}', "wrong:1: "),
                             ('{"a": {"b": 1}}', "wrong: a/b: is no text"), ("[]", "not an object")):
            done = doctor("replay", platform("bare-vm"), write_file(folder, "wrong", text), status=1)
            check(wanted in done.stderr, f"{text}: {done.stderr}")


def test_diff():
    with spwlab.scratch() as folder:
        changed = write_file(folder, "changed.json", json.dumps({
            **documents.foreign(spwlab.read(platform("dgx-spark"))), "sys/class/net/enP2p1s0f0np0/mtu": "1500"}))
        equal(doctor("diff", platform("dgx-spark"), platform("dgx-spark")).stdout, "", "diff of a machine and itself")
        out = doctor("diff", platform("dgx-spark"), changed, status=2).stdout
        check("+ nic-halves-differ: " in out and "  nic enP2p1s0f0np0 mtu: 9000 | 1500" in out, out)


def test_usage():
    for words in (["--nothing"], ["record"], ["diff", "a"], ["plan"], ["check", "--peer", "x"], ["replay"], ["--json"],
                  ["replay", "/nonexistent"],
                  ["plan", "--peer", "-oProxyCommand=x"], ["plan", "--peer", "a b"], ["--seconds", "1"],
                  ["idle", "x"], ["idle", "--seconds", "0"], ["idle", "--cores", "1,,2"],
                  ["idle", "--cores", "1023", "--seconds", "0.01"]):
        done = subprocess.run([DOCTOR, *words], capture_output=True, text=True, check=False)
        check(done.returncode in (1, 2) and done.stderr.startswith("spinwire-doctor: error: ")
              and done.stderr.count("\n") == 1, (words, done))
    equal(doctor("--version").stdout.split()[0], "spinwire-doctor", "--version")


def test_speed():
    took = float("inf")
    for _ in range(3):
        start = time.monotonic()
        done = subprocess.run([DOCTOR], capture_output=True, check=False)
        took = min(took, time.monotonic() - start)
        check(done.returncode in (0, 2), done)
    check(took <= SPEED_S * (5 if SANITIZED else 1), f"took {took:.2f} s")


# ---- the same facts by other tools -----------------------------------------------------------------

def said(*words, under=()):
    spwtest.need(words[0])
    return subprocess.run([*under, *words], capture_output=True, text=True, check=False).stdout


def live_facts(**kwargs):
    return facts(status=subprocess.run([*kwargs.get("under", ()), DOCTOR], capture_output=True, check=False).returncode,
                 **kwargs)


def netdevs(got):
    names = sorted({of[4:] for of, name in got if of.startswith("nic ") and name == "mac"})
    if not names:
        raise Skip("no network interface here is a PCI function")
    return names


def test_agrees_with_ip_and_ethtool():
    spwtest.need("ip", "ethtool")
    got = live_facts()
    for name in netdevs(got):
        link = documents.foreign(said("ip", "-j", "addr", "show", name))[0]
        equal(got["nic " + name, "mac"], link["address"], "MAC address")
        equal(got["nic " + name, "mtu"], str(link["mtu"]), "MTU")
        equal(got["nic " + name, "carrier"] == "1", "LOWER_UP" in link["flags"], "carrier")
        addresses = [f"{a['local']}/{a['prefixlen']}" for a in link["addr_info"] if a["family"] == "inet"]
        equal(got["nic " + name, "ipv4"].split(), addresses, "addresses")
        default = documents.foreign(said("ip", "-j", "route", "show", "default"))
        equal(got["nic " + name, "default_route"] == "1", any(route["dev"] == name for route in default),
              "default route")
        speed = re.search(r"Speed: (\d+)Mb/s", said("ethtool", name))
        words = got.get(("nic " + name, "link_modes"), "speed -1 max -1").split()
        equal(words[1], speed.group(1) if speed else "-1", "speed")
        modes = re.search(r"Supported link modes:((?:\s+\d+base\S+)+)", said("ethtool", name))
        equal(int(words[3]), max((int(mode) for mode in re.findall(r"(\d+)base", modes.group(1))), default=-1) if modes
              else -1, "fastest mode")
        firmware = re.search(r"firmware-version: *(.*)", said("ethtool", "-i", name)).group(1)
        equal(got["nic " + name, "driver_firmware"], firmware.strip(), "firmware")
        pause = re.search(r"RX:\s+(\w+)\nTX:\s+(\w+)", said("ethtool", "-a", name))
        equal(("nic " + name, "pause") in got, pause is not None, "whether pause is known")


def test_agrees_with_lspci():
    got = live_facts()
    for name in netdevs(got):
        nic = "nic " + name
        pci = said("lspci", "-n", "-s", got[nic, "pci"]).split()
        equal(pci[2], f"{int(got[nic, 'vendor'], 16):04x}:{int(got[nic, 'device'], 16):04x}", "vendor and device")
        driver = re.search(r"Kernel driver in use: (\S+)", said("lspci", "-k", "-s", got[nic, "pci"]))
        equal(got.get((nic, "driver")), driver.group(1) if driver else None, "driver")
        status = re.search(r"LnkSta:\s+Speed ([\d.]+)GT/s.*Width x(\d+)", said("lspci", "-vv", "-s", got[nic, "pci"]))
        if status and (nic, "pcie_width") in got:
            equal(got[nic, "pcie_width"], status.group(2), "PCIe width")
        relaxed = re.search(r"RlxdOrd([+-])", said("lspci", "-vv", "-s", got[nic, "pci"]))
        if relaxed and (nic, "relaxed_ordering") in got:
            equal(got[nic, "relaxed_ordering"], "1" if relaxed.group(1) == "+" else "0", "relaxed ordering")


def test_agrees_with_lstopo():
    if not spwlab.find("lstopo-no-graphics"):
        raise Skip("lstopo-no-graphics is not installed (tools/deps test)")
    got = live_facts()
    out = said("lstopo-no-graphics", "--of", "console", "--no-io",
               "--whole-system" if "--whole-system" in said("lstopo-no-graphics", "--help") else "--no-io")
    threads = re.findall(r"PU L#\d+ \(P#(\d+)\)", out) or re.findall(r"PU L#\d+", out)
    cores = sorted({of for of, _ in got if of.startswith("core ")})
    equal(len(cores), len(threads), "threads")
    physical = {(got.get((of, "package")), got.get((of, "core_id"))) for of in cores}
    equal(len(physical), len(re.findall(r"\bCore L#", out)), "physical cores")
    nodes = {of for of, name in got if of.startswith("node ") and name == "mem_total_kb"}
    equal(len(nodes), len(re.findall(r"NUMANode L#", out)), "NUMA nodes")
    caches = re.findall(r"L3 L#\d+ \((\d+)(KB|MB)\)", out)
    if caches and ("core 0", "l3_size") in got:
        size, unit = caches[0]
        equal(int(got["core 0", "l3_size"].rstrip("K")), int(size) * (1024 if unit == "MB" else 1), "L3 in KB")


def test_agrees_with_lstopo_about_place():
    """What the doctor asks hwloc: package, core, L3 group and node of each thread, memory-side caches, the place of PCI
    functions."""
    if not spwlab.find("lstopo-no-graphics"):
        raise Skip("lstopo-no-graphics is not installed (tools/deps test)")
    got = live_facts()
    above = {}  # of each object those that it is below

    def walk(obj, line):
        above[obj] = line
        for child in obj.findall("object"):
            walk(child, [obj, *line])

    def nearest(obj, kind):
        return next((o for o in above[obj] if o.get("type") == kind), None)

    for top in ElementTree.fromstring(said("lstopo-no-graphics", "--of", "xml", "--whole-io", "-")).findall("object"):
        walk(top, [])
    threads = [obj for obj in above if obj.get("type") == "PU"]
    equal(len(threads), len([1 for of, name in got if of.startswith("core ") and name == "hwloc"]), "threads")
    for pu in threads:
        l3 = nearest(pu, "L3Cache")
        words = got["core " + pu.get("os_index"), "hwloc"].split()
        said_of = dict(zip(words[::2], words[1::2]))
        for word, kind in (("package", "Package"), ("core", "Core")):
            obj = nearest(pu, kind)
            equal(said_of[word], obj.get("os_index") if obj is not None else "-1", f"{word} of {words}")
        if l3 is not None:
            mask = 0
            for part in l3.get("cpuset").split(","):
                mask = mask << 32 | int(part or "0", 16)
            cpus = {cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1}
            spans = [[int(end) for end in span.split("-")] for span in said_of["l3"].split(",")]
            equal({cpu for span in spans for cpu in range(span[0], span[-1] + 1)}, cpus, "L3 group")
        equal(int(pu.get("nodeset"), 16) >> int(said_of["node"]) & 1, 1, f"node of {words}")
    for obj in above:
        if obj.get("type") == "PCIDev" and any(of for of, name in got if name == "pci"
                                               and got[of, name] == obj.get("pci_busid")):
            place = next(o for o in above[obj] if o.get("type") not in ("Bridge", "PCIDev"))
            of = next(of for of, name in got if name == "pci" and got[of, name] == obj.get("pci_busid"))
            equal(got[of, "hwloc"].startswith("node -1"), place.get("type") == "Machine",
                  f"place of {of}: {got[of, 'hwloc']}")


def in_namespace():
    """Starts this test again in a network namespace with an interface of 4200 bytes; returns inside it."""
    spwtest.need_root()
    spwtest.need("unshare", "ip")
    namespace.enter(spwtest.skip, "--net")
    if subprocess.run(["ip", "link", "add", "spwdoc0", "type", "veth", "peer", "name", "spwdoc1"], capture_output=True,
                      check=False).returncode:
        raise Skip("no veth pair here")
    for words in (("spwdoc0", "mtu", "4200", "up"), ("spwdoc1", "up")):
        subprocess.run(["ip", "link", "set", *words], check=True)


def test_agrees_with_ibv_devinfo():
    spwtest.need_card()
    spwtest.need("ibv_devinfo")
    in_namespace()
    under = [os.path.join(ROOT, "tools", "with-softhca"), "--netdev", "spwdoc0", "--cable",
             f"shm:{spwlab.prefix('doctor')}", "--mac", "02:53:57:0d:0c:01", "--ip", "10.54.1.1"]  # alike in each run
    got = live_facts(under=under)
    out = said("ibv_devinfo", "-v", under=under)

    def devinfo(pattern):
        return re.search(pattern, out).group(1)
    nic = "nic spwdoc0"
    equal(got[nic, "rdma_device"], devinfo(r"hca_id:\s+(\S+)"), "device")
    equal(got[nic, "firmware"], devinfo(r"fw_ver:\s+(\S+)"), "firmware")
    equal(got[nic, "sys_image_guid"], devinfo(r"sys_image_guid:\s+(\S+)"), "system image GUID")
    equal(got[nic, "board"], devinfo(r"board_id:\s+(\S+)"), "board")
    equal(got[nic, "port_state"].split()[1], devinfo(r"state:\s+PORT_(\w+)"), "state")
    equal(got[nic, "link_layer"], devinfo(r"link_layer:\s+(\w+)"), "link layer")
    equal(got[nic, "path_mtu"], devinfo(r"active_mtu:\s+(\d+)"), "path MTU")
    index, address = re.search(r"GID\[\s*(\d+)\]:\s+::ffff:([\d.]+), RoCE v2", out).groups()
    equal(got[nic, "gid_roce_v2_ipv4"], index, "GID index")
    equal(got[nic, "gid_address"], address, "GID address")
    counters = said("ethtool", "-S", "spwdoc0", under=under)
    for name in ("rx_packets_phy", "rx_discards_phy", "link_down_events_phy"):
        equal(got[nic, name], re.search(rf"\b{name}: (\d+)", counters).group(1), name)
    equal(got[nic, "driver_firmware"], re.search(r"firmware-version: (\S+)", said("ethtool", "-i", "spwdoc0",
                                                                                  under=under)).group(1),
          "firmware by ethtool")


def test_states_of_this_process():
    """What is taken from a process on the software ConnectX is found, and nothing else is."""
    spwtest.need_card()
    in_namespace()
    spwtest.need("setpriv", "prlimit")
    softhca = [os.path.join(ROOT, "tools", "with-softhca"), "--netdev", "spwdoc0", "--cable",
               f"shm:{spwlab.prefix('doctor')}", "--mtu"]
    no_raw, no_lock = (["setpriv", f"--bounding-set=-{cap}", f"--inh-caps=-{cap}"] for cap in ("net_raw", "ipc_lock"))

    def found(*under, mtu="9000", **env):
        done = subprocess.run([*softhca, mtu, *under, DOCTOR, "--json", "-"], capture_output=True, text=True,
                              check=False, env={**os.environ, **env})
        check(done.returncode in (0, 2), done)
        return {f["id"] for f in documents.loads(done.stdout)["findings"]}
    healthy = found()
    equal(found(*no_raw) ^ healthy, {"cap-net-raw"}, "without CAP_NET_RAW")
    equal(found("prlimit", "--memlock=8388608", *no_lock) ^ healthy, {"memlock-low"}, "8 MiB and no CAP_IPC_LOCK")
    equal(found("prlimit", "--memlock=8388608") ^ healthy, set(), "8 MiB and CAP_IPC_LOCK")
    equal(found(mtu="1500") ^ healthy, {"link-mtu"}, "MTU 1500")
    equal(found(NCCL_IB_GID_INDEX="0") ^ healthy, {"gid-variable"}, "NCCL_IB_GID_INDEX of RoCE v1")
    equal(found(NCCL_IB_GID_INDEX="3") ^ healthy, set(), "NCCL_IB_GID_INDEX of RoCE v2")


def test_lcores_auto():
    """spinwire prints the cores that it stands for, and EAL takes them."""
    if len(os.sched_getaffinity(0)) < 2:
        raise Skip("needs two cores")
    prefix = spwlab.prefix("auto")
    cmd = [spwtest.SPINWIRE, *spwlab.eal("auto", prefix), "--", "--port", "null:rate=10000", "--executor", "inline",
           "--seconds", "1s"]
    done = subprocess.run(cmd, capture_output=True, text=True, timeout=60, check=False)
    spwlab.forget_prefix(prefix)
    equal(done.returncode, 0, done.stderr)
    check(re.search(r"cores: auto stands for -l \d+,\d+ --main-lcore=\d+", done.stderr), done.stderr)


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
