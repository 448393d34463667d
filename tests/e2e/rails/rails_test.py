#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rails: one stream over two and four ports, each with a cable of its own: order, faults of one rail, rails that go and
return."""
import glob
import os
import signal
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "port", "mlx5"))
import app  # noqa: E402  (found by the line above)
import quiet  # noqa: E402
import veth_test  # noqa: E402
from app import Source, peers, spwlab, spwtest  # noqa: E402
from spwtest import balanced, check, equal, one_line  # noqa: E402

WAIT = "rails_wait_us=300000,rails_window=4096"  # a starved NIC thread is no gap
FLOW = f",{WAIT}"
FRAME = f",rails_spread=frame,{WAIT}"  # each flow over all rails: its order has to be restored
STREAM = f",rails_order=stream,{WAIT}"


class Cables(app.Cable):
    """One cable for each rail."""

    def __init__(self, rails):
        super().__init__()
        self.rails = rails
        names = [f"{self.fabric.name}-{rail}" for rail in range(rails)]
        self.fabric.cable = "+".join(f"shm:{name}" for name in names)
        self.fabric.extra += ["--devices", str(rails)]

    def rail(self, name, number, line):
        """A command to the NIC of one rail; the first rail's socket is the program's."""
        path = self.socket(name)
        found = glob.glob(f"{path}.mlx5_{number}.*") if number else [path]
        equal(len(found), 1, f"sockets of {name}, rail {number}")
        return spwlab.nic_ask(found[0], line)

    def counts(self, name):
        """What the NIC of each rail did: {"tx": 12, "lost": 0, ...}; {} of one that has left."""
        def of(number):
            try:
                words = [pair.split("=") for pair in self.rail(name, number, "status").split()]
            except (AssertionError, OSError, ValueError):
                return {}
            return {word: int(cnt) for word, cnt in words if cnt.isdigit()}
        return [of(number) for number in range(self.rails)]


def eth(rails, own, keys=""):
    return "rails:" + "+".join(f"mlx5:mlx5_{rail},mode=eth{keys}" for rail in range(rails)) + own


def answer(run, command):
    """What telemetry says; a starved spinwire may owe the answer."""
    return spwlab.wait_for(lambda: run.telemetry(command), 60, f"an answer to {command}")


def judge(summary, rails):
    """The ledger is exact, in sum and for each rail."""
    balanced(summary)
    port = summary["ports"][0]
    equal(port["driver"], "rails", "driver")
    equal(len(port["rails"]), rails, "rails")
    for rail in port["rails"]:
        equal(rail["residual"], 0, f"residual of {rail}")
    dropped = summary["ledger"]["dropped"]
    for name in ("late", "duplicate"):
        equal(sum(rail[name] for rail in port["rails"]), dropped[name], name)
    equal(sum(rail["wire"] for rail in port["rails"]), summary["ledger"]["wire"], "frames on the wire")
    polled = sum(rail["rx"]["frames"] - rail["late"] - rail["duplicate"] - rail["rx_flushed"] for rail in port["rails"])
    equal(polled, port["rx"]["frames"], "frames that the rails gave and that were lent")
    equal(sum(rail["tx"]["frames"] for rail in port["rails"]), port["tx"]["frames"], "frames sent")
    equal(sum(rail["outages"] for rail in port["rails"]), port["errors"]["rail_down"], "outages")
    return port


def carried(port):
    check(all(rail["rx"]["frames"] > 0 and rail["tx"]["frames"] > 0 for rail in port["rails"]),
          f"every rail carries frames: {port}")


def in_order(path, stream=False):
    """Numbers of each flow, or of the stream, only grow in a capture of what the pipe polled. Returns: frames."""
    with open(path, "rb") as file:
        data = file.read()
    at, last, cnt = 0, {}, 0
    while at + 12 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        frame = data[at + 28:at + size]
        if kind == 6 and frame[42:45] == b"SW\x01":
            flow, seq = struct.unpack_from(">HI", frame, 48)
            key, number = (0, struct.unpack_from(">I", frame, 60)[0]) if stream else (flow, seq)
            check(number > last.get(key, -1),
                  f"number {number} of {key} after {last.get(key)}, frame {cnt} of the capture")
            last[key] = number
            cnt += 1
        at += size
    return cnt


class Both:
    """spinwire and spinwire-gen with rails between them; faults(cables) runs before the source starts,
    meanwhile(cables, run) beside it; an endless source sends until that returns. Once nothing moves, .rails are those
    of telemetry, and .nics and .source_nics what the NICs counted."""

    def __init__(self, rails, own, *gen, handler="echo", spec=None, faults=None, meanwhile=None, endless=False,
                 status=0, still_s=quiet.STILL_S):
        self.cables = Cables(rails)
        here, there = spec(self.cables) if spec else (eth(rails, own), eth(rails, own))
        self.folder = self.cables.folder.name
        capture = os.path.join(self.folder, "rx.pcapng")
        with app.spinwire(self.cables, "--handler", handler, "--litmus", "off", "--capture",
                          capture, port=here) as run:
            run.wait_ready()
            if faults:
                faults(self.cables)
            source = Source(self.cables, "--flows", "24", "--linger", "100s", "--link-wait", "30s", *gen,
                            *(["--seconds", "600s"] if endless else []), port=there)
            if meanwhile:
                meanwhile(self.cables, run)
            if endless:
                source.process.send_signal(signal.SIGINT)
            self.come_to_rest(run, source, still_s)
            self.gen = source.finish(status=130 if endless else 0)
            run.signal(signal.SIGINT)
            self.summary = run.finish(status)
            self.output = run.output()
        self.port = judge(self.summary, rails)
        self.captured = in_order(capture, "order=stream" in own) if self.summary["capture"]["frames"] else 0
        check(self.gen["sent"] > 0, "nothing was sent")
        equal([self.gen[name] for name in ("corrupted", "foreign", "old_run")], [0] * 3, "strange frames")
        equal(self.gen["reordered"], 0, "echoes out of order")

    def come_to_rest(self, run, source, still_s):
        """No frame and no echo is on its way when the source ends: it waits for those that are lost, too, until the
        signal."""
        ends = [quiet.End(process, self.cables.socket(name)) for process, name in ((run.process, "spinwire"),
                                                                                   (source.process, source.name))]

        def counters():
            ends = [self.cables.counts(name) for name in ("spinwire", source.name)]
            return *ends, answer(run, "/spinwire/ledger"), answer(run, "/spinwire/rails")
        spwlab.wait_for(lambda: run.frames() or source.process.poll() is not None, 60, "the first frame")
        self.nics, self.source_nics, _, self.rails = quiet.wait(ends, counters, still_s)
        source.process.send_signal(signal.SIGINT)


def fell(nics, way):
    """Frames that the NICs lost because their link was down: "tx_down" of those that left, "rx_down" of those that
    arrived."""
    return sum(nic.get(way, 0) for nic in nics)


def cut(cables, run, end):
    """One end sets the link of the second rail down, until both have the loss of carrier as an outage and the other
    rail carries all."""
    was = answer(run, "/spinwire/rails")["0_1"]["outages"]
    cables.rail(end, 1, "link-down=600s")
    names = ("spinwire", f"gen{Source.serial}")
    spwlab.wait_for(lambda: all(cables.counts(name)[1]["link"] == 0 for name in names), 60,
                    "the loss of carrier at both ends")
    until(run, lambda _, second: second["outages"] == was + 1, f"the outage that {end} made")
    more(run, 0, "rx_frames")
    more(run, 0, "tx_frames")


def mend(cables, run, end):
    """The link comes back for both, and the second rail carries frames and echoes again."""
    cables.rail(end, 1, "link-down=0s")
    more(run, 1, "rx_frames")
    more(run, 1, "tx_frames")


def judge_cuts(both, cuts):
    """Each was an outage of the same rail at both ends; what is missing is what the NICs lost while their link was
    down, no more."""
    ledger, source = both.summary["ledger"], both.gen["ports"][0]["rails"]
    for name, rails in (("spinwire", both.port["rails"]), ("the source", source)):
        equal([rail["outages"] for rail in rails], [0, cuts], f"outages of {name}")
    equal(both.gen["sent"], ledger["wire"] + fell(both.source_nics, "tx_down") + fell(both.nics, "rx_down"),
          "frames that came or were lost on the way")
    equal(ledger["echoed"], sum(rail["tx"] for rail in both.nics) + fell(both.nics, "tx_down"),
          "echoes that the NICs sent or lost")
    equal(ledger["echoed"], sum(rail["wire"] for rail in source) + fell(both.nics, "tx_down")
          + fell(both.source_nics, "rx_down"),
          "echoes that came or were lost on the way")


LOAD = ("--rate", "10kpps", "--seconds", "1s", "--size", "68-512")


def clean(rails, own, *gen):
    both = Both(rails, own, *LOAD, *gen)
    carried(both.port)
    ledger = both.summary["ledger"]
    equal(both.gen["duplicated"], 0, "duplicates")
    equal(ledger["wire"], both.gen["sent"], "frames that reached the rails")
    equal(ledger["dropped"]["late"] + ledger["dropped"]["duplicate"], 0, "late or duplicate")
    equal(both.captured, both.summary["capture"]["frames"], "frames captured")


def test_flow_2():
    clean(2, FLOW)


def test_flow_4():
    clean(4, FLOW)


def test_frame_4():
    clean(4, FRAME)


def test_stream_2():
    clean(2, STREAM, "--stream", "yes")


def test_stream_4():
    clean(4, STREAM, "--stream", "yes")


def late_start(fault):
    """Faults of the generator's second rail begin once it has its NIC."""
    def begin(cables, run):
        spwlab.wait_for(lambda: glob.glob(f"{cables.socket('gen*')}.mlx5_1.*") or run.process.poll() is not None, 30,
                        "the source's NIC")
        name = os.path.basename(glob.glob(f"{cables.socket('gen*')}.mlx5_1.*")[0]).split(".")[0]
        cables.rail(name, 1, f"fault {fault}")
    return begin


def test_delay():
    """Every frame of one rail comes 3 ms late: the others wait for it, in the order of the stream."""
    both = Both(2, STREAM, *LOAD, "--stream", "yes", meanwhile=late_start("delay=1:3ms"))
    carried(both.port)
    equal(both.summary["ledger"]["wire"], both.gen["sent"], "frames that reached the rails")


def test_loss():
    """What one rail loses is a gap, each number counted once; the other loses nothing."""
    both = Both(2, FRAME, *LOAD, meanwhile=late_start("loss=0.05"))
    ledger = both.summary["ledger"]
    lost = both.gen["sent"] - ledger["received"]
    gap = both.port["errors"]["gap"]
    check(0 < gap <= lost <= gap + 24,
          f"{gap} numbers given up, {lost} frames lost (up to one at the end of each flow is no gap)")


def test_reorder_and_duplicates():
    both = Both(2, FRAME, *LOAD, meanwhile=late_start("reorder=0.1,dup=0.1"))
    ledger = both.summary["ledger"]
    check(ledger["dropped"]["duplicate"] > 0, f"no duplicates: {ledger}")
    equal(ledger["wire"] - ledger["missed"] - ledger["dropped"]["duplicate"] - ledger["dropped"]["late"],
          ledger["executed"], "frames executed once")
    check(ledger["executed"] <= both.gen["sent"], "a frame was executed twice")


def test_late():
    """A window shorter than the delay: what comes after it is not executed, and counted."""
    both = Both(2, ",rails_order=stream,rails_wait_us=500,rails_window=64", *LOAD, "--stream", "yes",
                meanwhile=late_start("delay=0.2:30ms"))
    ledger = both.summary["ledger"]
    check(ledger["dropped"]["late"] > 0, f"no late frames: {ledger}")
    check(ledger["dropped"]["late"] <= both.port["errors"]["gap"], "a late frame was a gap before")


def until(run, condition, what):
    """condition(first rail, second rail), of telemetry."""
    def done():
        rails = answer(run, "/spinwire/rails")
        return condition(rails["0_0"], rails["0_1"])
    spwlab.wait_for(done, 60, what)


def more(run, rail, name, by=200):
    """Until a counter of one rail has grown."""
    was = answer(run, "/spinwire/rails")[f"0_{rail}"][name]
    until(run, lambda *rails: rails[rail][name] >= was + by, f"{by} more {name} of rail {rail}")


# what comes in the seconds for which a machine stands still fits on a cable
ENDLESS = ("--rate", "2kpps", "--size", "128")


def test_cut():
    """A cut cable: the other rail carries all, what was on the way is a gap, and the rail returns."""
    def meanwhile(cables, run):
        more(run, 1, "rx_frames")
        cut(cables, run, "spinwire")
        mend(cables, run, "spinwire")
    both = Both(2, FRAME, *ENDLESS, endless=True, meanwhile=meanwhile)
    check("rail mlx5_1" in both.output and "link is down" in both.output, both.output)
    judge_cuts(both, 1)


def test_removed():
    """The device of one rail is taken away: the run goes on over the other, to its end."""
    def meanwhile(cables, run):
        more(run, 1, "rx_frames")
        cables.rail("spinwire", 1, "remove")
        until(run, lambda _, second: second["outages"] == 1, "the outage")
        more(run, 0, "rx_frames")
    both = Both(2, FLOW, *ENDLESS, endless=True, meanwhile=meanwhile)
    check("rail mlx5_1" in both.output and "removed" in both.output, both.output)
    equal([rail["outages"] for rail in both.port["rails"]], [0, 1], "outages")


def rc(driver, op, rails, own):
    def spec(_):
        ports = [peers.free_port() for _ in range(rails)]
        base = [f"{driver}:mlx5_{rail},mode=rc,op={op}" for rail in range(rails)]
        return ("rails:" + "+".join(f"{b},listen=127.0.0.1:{p},peers=127.0.0.0/8,peer_max=4"
                                    for b, p in zip(base, ports)) + own,
                "rails:" + "+".join(f"{b},connect=127.0.0.1:{p}" for b, p in zip(base, ports)) + own)
    return spec


def messages(driver, op, rails, own, *gen):
    both = Both(rails, own, *LOAD, *gen, spec=rc(driver, op, rails, own))
    carried(both.port)
    equal(both.summary["ledger"]["received"], both.gen["sent"], "messages received")
    equal(both.gen["lost"], both.summary["ledger"]["received"] - both.summary["ledger"]["echoed"], "messages lost")
    equal(both.port["errors"]["gap"], 0, "gaps")


def test_rc_send_2():
    messages("mlx5", "send", 2, FLOW)


def test_rc_write_4():
    messages("mlx5", "write", 4, FRAME)


def test_rc_stream():
    messages("mlx5", "send", 2, STREAM, "--stream", "yes")


def test_rc_verbs_4():
    messages("verbs", "write", 4, FRAME)


# A packet that is lost again and again is repeated after 67 to 268 ms each time (timeout=14; IBTA 9.7.6.1.3), and all
# that follow it wait; three times in a row is one in 10^5.
REPEATED_S = 1.0


def test_rc_loss():
    """One rail loses 2 % both ways: no message is lost, and that rail's row says how often its device had to repeat."""
    def lossy(cables):
        cables.rail("spinwire", 1, "fault loss=0.02")
    both = Both(2, FRAME, *LOAD, spec=rc("mlx5", "send", 2, FRAME), faults=lossy, still_s=REPEATED_S)
    equal([both.gen["lost"], both.summary["ledger"]["received"]], [0, both.gen["sent"]], "messages lost, received")
    lost = both.nics[1]["lost"]
    check(lost > 0, f"the NIC lost nothing: {both.nics}")
    repeated = [end["rails"][1]["retransmits"] for end in (both.port, both.gen["ports"][0])]
    check(sum(repeated) > 0, f"{repeated} retransmits at both ends, for {lost} lost packets")
    equal(both.port["retransmits"], sum(rail["retransmits"] for rail in both.port["rails"]), "the port's row")


def test_rc_cut():
    """A rail's connection ends in the middle: messages go over the other; what was under way there is flushed, and
    counted."""
    def meanwhile(cables, run):
        more(run, 1, "rx_frames")
        name = f"gen{Source.serial}"
        number = cables.rail(name, 1, "objects").split("qp=")[1].split()[0].split(",")[0]
        cables.rail(name, 1, f"qp-error={number}")
        until(run, lambda _, second: second["outages"] == 1, "the outage")
        more(run, 0, "rx_frames")
        more(run, 1, "rx_frames")
        equal([rail["outages"] for rail in answer(run, "/spinwire/rails").values()], [0, 1],
              "outages, before the source leaves")
    both = Both(2, FRAME, *ENDLESS, endless=True, spec=rc("mlx5", "send", 2, FRAME), meanwhile=meanwhile)
    check(both.gen["sent"] - both.summary["ledger"]["received"] <= both.gen["ports"][0]["rails"][1]["tx_flushed"],
          f"messages lost: {both.gen}")


def test_raw_ethernet():
    """perftest's raw_ethernet_bw on both cables: its frames have no number and pass, each one once."""
    peers.need("raw_ethernet_bw")
    cables, frames = Cables(2), 5000
    with app.spinwire(cables, "--handler", "null", "--litmus", "off", port=eth(2, FLOW)) as run:
        run.wait_ready()
        for rail in range(2):
            peers.run(cables.wrap() + ["raw_ethernet_bw", "--client", "-d", f"mlx5_{rail}", "-F", "-B",
                                       "02:73:70:77:0a:02", "-E",
                                       "02:73:70:77:0a:01", "-s", "256", "-n", str(frames)], 90)
        app.arrived(run, 2 * frames)
        run.signal(signal.SIGINT)
        summary = run.finish()
    port = judge(summary, 2)
    equal([rail["wire"] for rail in port["rails"]], [frames] * 2, "frames that reached each rail")


def test_tcpreplay():
    """A capture replayed onto both cables by the kernel: AF_PACKET rails on two veth pairs."""
    veth_test.in_namespace()
    veth_test.make_veth()
    veth_test.make_veth("spw2", "spw3")
    port = "rails:" + "+".join(f"ethdev:net_af_packet{rail},iface={iface},framecnt=4096"
                               for rail, iface in enumerate(("spw1", "spw3")))
    with spwlab.scratch() as folder:
        commands = [[word.replace("spw0", iface) for word in veth_test.tcpreplay(folder)] for iface in ("spw0", "spw2")]
        with spwtest.Run(["--port", port, "--handler", "null", "--executor", "inline", "--litmus", "off"]) as run:
            run.wait_ready()
            for process in [spwlab.spawn(command, stdout=subprocess.DEVNULL) for command in commands]:
                equal(process.wait(60), 0, "tcpreplay")
            spwlab.wait_for(lambda: run.frames() >= 2 * veth_test.FRAMES, 60, "the frames")
            run.signal(signal.SIGINT)
            summary = run.finish()
    port = judge(summary, 2)
    equal([rail["rx"]["frames"] for rail in port["rails"]], [veth_test.FRAMES] * 2, "frames of each rail")


def test_testpmd():
    """Two of dpdk-testpmd, each at the end of one memif rail, send as fast as they can: whatever reached a rail is
    accounted for."""
    spwtest.need("dpdk-testpmd")
    with spwlab.scratch() as one, spwlab.scratch() as two:
        send = ["--forward-mode=txonly"]
        with spwtest.memif_peer(one, send) as (first, _, _), spwtest.memif_peer(two, send) as (second, _, _):
            port = f"rails:{spwtest.memif_port(first)}+{spwtest.memif_port(second).replace('net_memif0', 'net_memif1')}"
            with spwtest.Run(["--port", port, "--handler", "null", "--executor", "inline", "--litmus", "off",
                              "--seconds", "3"]) as run:
                summary = run.finish(seconds=3)
    port = judge(summary, 2)
    check(all(rail["rx"]["frames"] > 1000 for rail in port["rails"]), f"hardly any frames: {port}")


def test_bad_input():
    for spec, words in ((eth(2, "").replace("mlx5_1", "mlx5_0"), ["mlx5_0", "twice"]),
                        ("rails:mlx5:mlx5_0,mtu=1500+mlx5:mlx5_1,mtu=4000", ["MTU", "1500", "4000"]),
                        ("rails:mlx5:mlx5_0,mode=eth", ["1 rail", "2 to 4"]),
                        ("rails:" + "+".join(["null"] * 5), ["5 rails", "2 to 4"]),
                        ("rails:null+rails:null+null", ["a rail cannot be made of rails"]),
                        ("rails:mlx5:mlx5_0+verbs:mlx5_1,mode=rc,listen=127.0.0.1:1,peers=127.0.0.1",
                         ["frames", "messages", "mode="])):
        cables = Cables(2)
        with app.spinwire(cables, "--seconds", "1", port=spec) as run:
            check(run.process.wait(60) in (1, 2), f"{spec} was accepted:\n{run.output()}")
            one_line(run, *words)
    cables = Cables(2)
    with app.spinwire(cables, "--seconds", "1", queues=2, port=eth(2, STREAM)) as run:
        check(run.process.wait(60) in (1, 2), "two queues were accepted")
        one_line(run, "rails_order=stream", "one queue")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
