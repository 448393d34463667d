#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""spinwire-gen: what it sends is what it reports, and what comes back is counted from the intended time."""
import contextlib
import os
import re
import signal

import documents
import spwtest
from spwtest import Run, balanced, check, equal, spwlab

GEN = os.environ["SPINWIRE_GEN"]
COUNTS = ["intended", "sent", "tx_flushed", "unsent", "echoed", "lost", "duplicated", "reordered", "corrupted",
          "foreign", "old_run"]


def generate(app, folder, lcores=None, status=0, limit=120, then=None, during=None, under=(), no_pci=True):
    """One run of the source: (summary, output). during(process): called once it is started. then: called when the
    report is written, while the source still holds its port (a spinwire on net_memif should end first: the driver
    unmaps its rings when a peer goes, whoever reads them). under: what the command begins with. Whoever expects echoes
    waits for the last of them, also where the other end's cores are away for seconds."""
    place = spwlab.Cores()
    path, out_path = os.path.join(folder, "gen.json"), os.path.join(folder, "gen.out")
    prefix = spwlab.prefix("gen")
    own = [arg for arg in spwlab.eal(lcores or f"0@{place.main},1@{place.generator}", prefix) if no_pci
           or arg != "--no-pci"]
    if not {"--linger", "--echo"} & set(app):
        app = [*app, "--linger", "30s"]
    cmd = [*under, GEN, *own, "--", *app, "--json", path,
           *(["--hold", f"{limit}s"] if then else [])]
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with open(out_path, "wb") as out:
        process = spwlab.spawn(cmd, stdout=out, stderr=out)
    try:
        if during:
            during(process)
        if then:
            spwlab.wait_for(lambda: process.poll() is not None or written(path), limit, "the source's report")
            then()
            process.send_signal(signal.SIGINT)
        process.wait(limit)
    finally:
        spwlab.stop(process)
        spwlab.forget_prefix(prefix)
    out = spwlab.read(out_path)
    equal(process.returncode, status, f"exit status of {' '.join(cmd)}\n{out}")
    summary = written(path)
    if summary:
        adds_up(summary)
    return summary, out


def written(path):
    """The summary, once it is whole."""
    try:
        return documents.load(path)
    except (OSError, ValueError):
        return None


def adds_up(gen):
    equal(gen["schema"], "spinwire.gen/1", "schema")
    for name in COUNTS:
        check(isinstance(gen[name], int) and gen[name] >= 0, f"{name} is {gen[name]!r}")
    equal(gen["intended"], gen["sent"] + gen["unsent"], "intended = sent + unsent")
    equal(sum(flow["sent"] for flow in gen["flows"]), gen["sent"], "flows' sent")
    equal(sum(flow["echoed"] for flow in gen["flows"]), gen["echoed"], "flows' echoed")
    if gen["warm_up_seconds"]:
        check(gen["round_trip"]["count"] < gen["echoed"],
              f"{gen['echoed']} echoes, {gen['round_trip']['count']} in the percentiles")
    else:
        never_sent = gen["round_trip"]["count"] - gen["echoed"]
        check(0 <= never_sent <= gen["bad_flow"], f"{gen['round_trip']['count']} round trips, {gen['echoed']} echoes")
    tells_its_gaps(gen)
    names_the_missing(gen)
    explains_the_slow(gen)


def tells_its_gaps(gen):
    """The loop's gaps, by time, are the run's time; a worst one stands where the histogram has it."""
    whole = 0 if gen["warm_up_seconds"] or gen["senders"] > 1 else gen["seconds"] * 1e9
    for name, ns in (("loop_gap", whole), ("core_alone", 100e6)):
        gap = gen[name]
        check(gap["count"] >= ns - 1000, f"{name}: {gap['count']} ns of at least {ns}")
        worst = max(row["max_ns"] for row in gap["above_1us"].values())
        longest = gap["max_ns"] or 0  # None: the warm-up left no sample
        equal(worst, longest if longest > 1000 else 0, f"{name}: worst")


def names_the_missing(gen):
    if not gen["missing"]["whole"]:
        return
    lost = [0] * len(gen["flows"])
    for flow, first, last in gen["missing"]["ranges"]:
        check(0 <= first <= last < gen["flows"][flow]["sent"], f"flow {flow} never sent {first} to {last}")
        lost[flow] += last - first + 1
    equal(lost, [flow["lost"] for flow in gen["flows"]], "missing numbers by flow")


def explains_the_slow(gen):
    causes, hz = gen["causes"], gen["tsc_hz"]
    equal(sum(row["frames"] for row in causes["by"]), causes["frames_above"], "frames with a cause")
    check(len(gen["host"]["boot_id"]) > 8, f"boot_id {gen['host']['boot_id']}")
    whole = [row["whole_ns"] for row in gen["worst"]]
    equal(whole, sorted(whole, reverse=True), "the worst first")
    equal(whole[:1], [gen["round_trip"]["max_ns"]] if isinstance(gen["round_trip"]["max_ns"], int) else whole[:1],
          "the worst")
    for row in gen["worst"]:
        check(abs((row["echo_tsc"] - row["due_tsc"]) / hz * 1e9 - row["whole_ns"]) < 10, f"stamps of {row}")
        if row["taken_tsc"] is None:
            continue
        late = row["taken_tsc"] - row["due_tsc"]
        check(0 <= late <= row["echo_tsc"] - row["due_tsc"], f"order of {row}")
        half = (row["echo_tsc"] - row["due_tsc"]) // 2
        behind = row["echo_tsc"] - max(row["taken_tsc"], row["drained_tsc"])
        equal(row["cause"], "sender_late" if late > half else "sender_behind" if behind > half else "beyond_sender",
              f"cause of {row}")


def through_spinwire(handler, options, extra=(), during=None):
    """during(spinwire's run, the source's process). The source on one end of net_memif, spinwire on the other:
    (generator's summary, its output, spinwire's summary)."""
    with spwlab.scratch() as folder:
        sock = os.path.join(folder, "memif.sock")
        port = f"ethdev:net_memif0,role=server,socket={sock},socket-abstract=no"
        with Run(["--port", port, "--handler", handler, "--executor", "inline", *extra]) as run:
            run.wait_ready()
            gen, out = generate(["--port", port.replace("server", "client"), *options], folder, then=run.end,
                                during=during and (lambda process: during(run, process)))
            return gen, out, run.finish()


def test_brief():
    """The result in a dozen lines: what was sent and came back, its percentiles, and no table."""
    gen, out, _ = through_spinwire("echo", ["--rate", "5kpps", "--seconds", "500ms"])
    result = out[out.index("\nsource "):].strip().splitlines()
    check(len(result) <= 10, out)
    check(f"  sent {gen['sent']} = echoed {gen['echoed']} + lost {gen['lost']};" in out, out)
    for name in ("round trip", "schedule"):
        row = rf"^{name} +p50 (\S+ [um]?s|lost), p99 (\S+ [um]?s|lost), p99\.9 \S+.*, longest "
        check(re.search(row, out, re.M), out)
    check(re.search(r"^slow +\d+ of \d+ frames took more than 100\.00 us", out, re.M) and "loop gap" not in out, out)


def test_echo():
    """Every frame that spinwire echoed came back whole, in order, once; both sides' counts agree."""
    gen, out, summary = through_spinwire("echo", ["--rate", "20kpps", "--schedule", "poisson", "--seconds", "1s",
                                                  "--flows", "7", "--full"])
    balanced(summary)
    check(all(row in out for row in ("schedule error", "loop gap", "core alone")),
          f"the schedule and what stood against it:\n{out}")
    check(gen["sent"] > 0, "nothing was sent")
    equal(summary["ledger"]["received"], gen["sent"], "frames that spinwire received")
    equal(summary["ledger"]["echoed"], gen["echoed"], "echoes")
    equal([gen[name] for name in ("duplicated", "reordered", "corrupted", "foreign", "old_run")], [0] * 5,
          "strange frames")
    equal(len(gen["flows"]), 7, "flows")


def test_imix_crc32c():
    """The crc32c handler finds the trailer of every frame right: generator and handler mean the same bytes."""
    gen, _, summary = through_spinwire("crc32c", ["--rate", "20kpps", "--size", "imix", "--seconds", "1s", "--echo",
                                                  "no"])
    balanced(summary)
    equal(summary["ledger"]["consumed"], summary["ledger"]["executed"], "right trailers")
    equal(summary["ledger"]["executed"] + sum(summary["ledger"]["dropped"].values()), gen["sent"], "frames")
    equal(gen["lost"], 0, "lost, with nobody to echo")


def test_lost_is_reported():
    """A sink echoes nothing: every percentile of the round trip is among the lost, and none is a number."""
    gen, out, summary = through_spinwire("null", ["--rate", "10kpps", "--seconds", "1s", "--linger", "100ms", "--flows",
                                                  "3"])
    balanced(summary)
    equal(gen["missing"], {"whole": True, "ranges": [[f, 0, gen["flows"][f]["sent"] - 1] for f in range(3)]}, "missing")
    equal([row["frames"] for row in gen["causes"]["by"] if row["cause"] == "lost"], [gen["lost"]],
          "frames that are lost")
    equal(gen["lost"], gen["sent"], "lost")
    equal({gen["round_trip"][f"p{p}_ns"] for p in ("50", "99", "999")}, {"lost"}, "percentiles")
    check("lost" in out, "the table does not say lost")


def test_two_senders():
    """Two lcores, two queues, one plan: flows are shared out, the counts of both add up, and a warm-up is in no
    percentile."""
    place = spwlab.Cores()
    with spwlab.scratch() as folder:
        port = f"ethdev:net_memif0,role={{}},socket={folder}/memif.sock,socket-abstract=no"
        with Run(["--port", port.format("server"), "--queues", "2", "--handler", "echo", "--executor", "inline"],
                 lcores=f"0@{place.main},1@{place.receive},2@{place.receive}") as run:
            run.wait_ready()
            gen, _ = generate(["--port", port.format("client"), "--rate", "10kpps", "--seconds", "1s", "--flows", "7",
                               "--warm-up", "300ms"],
                              folder, lcores=f"0@{place.main},1@{place.generator},2@{place.main}",
                              then=run.end)
            summary = run.finish()
    balanced(summary)
    equal(gen["senders"], 2, "senders")
    check(abs(gen["intended"] - 10000) <= 2, f"intended {gen['intended']} of 10000")
    equal(summary["ledger"]["received"], gen["sent"], "frames that spinwire received")
    equal(summary["ledger"]["echoed"], gen["echoed"], "echoes")
    sent = [flow["sent"] for flow in gen["flows"]]
    check(len(sent) == 7 and min(sent) > 0, f"sent by flow: {sent}")
    check(gen["round_trip"]["count"] <= 0.75 * gen["echoed"] + 7, "the warm-up is among the round trips")


def test_too_fast():
    """A rate that no path carries: it reports that, and what it did."""
    gen, out, summary = through_spinwire("null", ["--rate", "1Gpps", "--seconds", "1s", "--echo", "no"])
    balanced(summary)
    check(gen["unsent"] > 0, "a thousand million frames a second were sent")
    check("did not carry the plan" in out, out)


def test_nobody_there():
    """No peer: it waits for --link-wait, reports that, and every frame is unsent."""
    with spwlab.scratch() as folder:
        port = f"ethdev:net_memif0,role=server,socket={folder}/memif.sock,socket-abstract=no"
        gen, out = generate(["--port", port, "--seconds", "1s", "--rate", "1kpps", "--link-wait", "1s"], folder)
    equal(gen["sent"], 0, "sent to nobody")
    check("did not come up" in out, out)


def test_link_goes():
    """A link that fails while it sends, and no peer that echoes: both are reported."""
    spwtest.need_card()
    tool = os.path.join(spwlab.TOOLS, "with-softhca")
    with spwlab.scratch() as folder:
        control = os.path.join(folder, "control")

        def sent():
            return int(nic_status(control).get("tx", 0))

        def says(process, text):
            spwlab.wait_for(lambda: process.poll() is not None or text in spwlab.read(os.path.join(folder, "gen.out")),
                            60, text)

        def meanwhile(process):
            spwlab.wait_for(lambda: process.poll() is not None or sent() > 100, 60, "frames that leave")
            spwlab.nic_ask(control, "link-down=600s")
            says(process, "the link")
            spwlab.nic_ask(control, "link-down=0s")
            says(process, "up again")

        gen, out = generate(["--port", "mlx5:mlx5_0,mode=eth", "--seconds", "10s", "--rate", "1kpps", "--linger",
                             "100ms"], folder, during=meanwhile,
                            under=[tool, "--cable", f"shm:{spwlab.prefix('link')}", "--control", control])
    equal(gen["link_downs"], 1, "link_downs")
    equal(gen["echoed"], 0, "echoes of nobody")
    for text in ("warning: port mlx5_0: the link", "went down 1 time during the run", "up again",
                 "no echo came back at all"):
        check(text in out, f"no {text!r} in\n{out}")


def test_no_silent_loop():
    """Frames to the other half of the same port turn round inside the card, and those to the other port cross the
    cable: both are said."""
    spwtest.need_card()
    tool = os.path.join(spwlab.TOOLS, "with-softhca")
    macs = "02:53:57:aa:00:01,02:53:57:aa:00:02,02:53:57:aa:00:03,02:53:57:aa:00:04"
    for mac, inside in ((3, True), (2, False)):
        with spwlab.scratch() as folder:
            gen, out = generate(["--port", "mlx5:rocep1s0f0,mode=eth", "--seconds", "1s", "--rate", "1kpps", "--echo",
                                 "no", "--dst-mac",
                                 f"02:53:57:aa:00:0{mac}"], folder,
                                under=[tool, "--as", "dgx-spark", "--mac", macs, "--cable",
                                       f"shm:{spwlab.prefix('loop')}"])
        phy = gen["ports"][0]["physical_port"]
        equal(phy["inside_nic"], inside, f"inside_nic of {phy}")
        equal(phy["tx_packets"] >= gen["sent"] > 0, not inside, f"{phy}, {gen['sent']} sent")
        equal(f"NO CABLE: {gen['sent']} frames" in out, inside, out)


def test_shared_port():
    """Half of a port receives its own address alone. Frames to another: both ends say where they went. Frames to it
    come back to the source's own address, without an option for that."""
    spwtest.need_card()
    nic = [os.path.join(spwlab.TOOLS, "with-softhca"), "--as", "dgx-spark", "--cable", f"shm:{spwlab.prefix('half')}"]
    port, own = ["--port", "mlx5:rocep1s0f0,mode=eth"], "02:53:57:bb:00:01"
    macs = ["--mac", ",".join(f"02:53:57:bb:00:0{i}" for i in range(1, 5))]
    for more, reached in ((["--dst-mac", own], True), ([], False)):
        with spwlab.scratch() as folder, Run([*port, "--handler", "echo", "--executor", "inline"],
                                             under=[*nic, *macs]) as run:
            run.wait_ready()
            gen, out = generate([*port, "--rate", "1kpps", "--seconds", "500ms", "--linger", "30s" if reached else "2s",
                                 *more], folder, under=nic)
            run.end()
            summary, sink = run.finish(), run.output()
        balanced(summary, gen["sent"] if reached else 0)
        equal(gen["echoed"], gen["sent"] if reached else 0, "echoed")
        astray = (f"{gen['sent']} packets came to the physical port and to no queue of this port: "
                  f"not to this MAC ({own})")
        equal(astray in sink, not reached, sink)
        check(re.search(rf"rocep1s0f0: link is up, MAC {own}, \d+ Gbit/s, MTU \d+$", sink, re.M), sink)
        equal("is 02:00:00:00:00:02, where the frames went, the other end's MAC (--dst-mac)" in out, not reached, out)


def test_beyond_mtu():
    """A plan with a frame that the port's MTU does not let pass is refused, with both numbers; one that just fits is
    sent whole."""
    spwtest.need_card()
    under = [os.path.join(spwlab.TOOLS, "with-softhca"), "--mtu", "1500", "--cable", f"shm:{spwlab.prefix('mtu')}"]
    for driver in ("mlx5", "verbs"):
        port = ["--port", f"{driver}:mlx5_0,mode=eth", "--rate", "1kpps", "--seconds", "100ms", "--linger", "0s",
                "--echo", "no"]
        for size in ("1515", "64-9000"):
            bad([*port, "--size", size], ["1500", "1514", "--size"], under)
        with spwlab.scratch() as folder:
            gen, _ = generate([*port, "--size", "1514"], folder, under=under)
        check(gen["sent"] > 0, gen)  # 100, less those that were due while its core was away at the end
        equal((gen["tx_flushed"], gen["ports"][0]["tx"]["frames"]), (0, gen["sent"]), "flushed, completed")
    bad(["--port", "ethdev:net_null0", "--size", "9000"], ["1500", "9000", "mtu=8986"])


def test_not_completed():
    """A send queue that fails without an outage: what the NIC took and did not send is named, and the run has
    failed."""
    spwtest.need_card()
    for driver in ("mlx5", "verbs"):
        with spwlab.scratch() as folder:
            control = os.path.join(folder, "control")

            def fail(_process):
                spwlab.wait_for(lambda: int(nic_status(control).get("tx", 0)) > 100, 60, "frames that leave")
                for qpn in spwlab.nic_pairs(control, "objects")["qp"].split(","):
                    spwlab.nic_ask(control, f"qp-error={qpn}")

            gen, out = generate(["--port", f"{driver}:mlx5_0,mode=eth", "--seconds", "3s", "--rate", "100kpps",
                                 "--echo", "no", "--linger", "0s"], folder,
                                during=fail, status=2,
                                under=[os.path.join(spwlab.TOOLS, "with-softhca"), "--cable",
                                       f"shm:{spwlab.prefix('qp')}", "--control", control])
        equal(gen["tx_flushed"], gen["sent"] - gen["ports"][0]["tx"]["frames"], "flushed = sent - completed")
        check(gen["tx_flushed"] > 0 and f"did not send {gen['tx_flushed']} of the {gen['sent']} frames" in out, out)


def nic_status(control):
    try:
        return spwlab.nic_pairs(control, "status")
    except OSError:
        return {}


def bad(options, says, under=()):
    with spwlab.scratch() as folder:
        _, out = generate(options, folder, status=1, under=under)
    lines = [line for line in out.splitlines() if "error" in line]
    check(len(lines) == 1 and all(word in lines[0] for word in says), f"{says} not in one line:\n{out}")


def test_bad_input():
    bad([], ["--port"])
    bad(["--port", "null:size=64", "--rate", "fast"], ["--rate", "fast"])
    bad(["--port", "null:size=64", "--schedule", "sometimes"], ["--schedule", "poisson"])
    bad(["--port", "null:size=64", "--size", "10"], ["10", "64"])
    bad(["--port", "null:size=64", "--size", "100000"], ["--size: 100000 is out of range; 64 to 9600 bytes"])
    bad(["--port", "null:size=64", "--size", "64-100000"], ["--size: 100000 is out of range"])
    bad(["--port", "null:size=64", "--rate", "0"], ["--rate: 0 frames/s is out of range"])
    bad(["--port", "null:size=64", "--schedule", "capture"], ["--schedule capture", "--capture FILE"])
    bad(["--port", "null:size=64", "--schedule", "capture", "--capture", "/nonexistent.pcap"], ["/nonexistent.pcap"])
    bad(["--port", "null:size=64", "--colour", "blue"], ["--colour"])


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
