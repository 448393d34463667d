#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The orderings of docs/040-ordering.md, checked against the Arm memory model.

Each protocol is written with its barriers by label. Whole, its bad outcome must be forbidden. With one barrier out it
must be allowed; a barrier that is spare is listed with the one that covers it, and the model must agree that either may
go, but not both.

An acquire is taken as ldapr and an exchange as an exclusive pair: the weakest code that a compiler may make of the C. A
branch orders nothing here, since C does not promise it, and a barrier for threads (dmb ish) does not count where a
device reads."""
import sys
import time

from arm_model import find
from object_protocols import object_end, object_publish, object_reuse, object_take_back
from page_protocols import live_page, live_page_entry
from program import device


class Order:
    """The barriers of a protocol by label; some may be out."""

    def __init__(self, *out):
        self.out, self.labels = out, []

    def _on(self, label, kind):
        if label not in self.labels:
            self.labels.append(label)
        return "" if label in self.out else kind

    def acq(self, label):
        return self._on(label, "Q")

    def rel(self, label):
        return self._on(label, "L")

    def from_device(self, label):
        return self._on(label, "dmb oshld")

    def to_device(self, label):  # and spw_mmio_wc_start
        return self._on(label, "dmb oshst")

    def fence(self, label, kind):
        return self._on(label, kind)


def broken(protocol, *out):
    """Whether the bad outcome is allowed; the labels that the protocol has."""
    order = Order(*out)
    functions, bad, *final = protocol(order)
    return find(functions, bad, *final, with_ctrl=False) is not None, order.labels


# ---- CPU and NIC -------------------------------------------------------------------------------------------

def m1_receive(o):
    """mlx5/eth/rx.c: a completion entry whose op_own says "ours"; the rest of it, a mini array and the frame are read
    next."""
    @device
    def nic(t):
        t.store("frame", 1)
        t.store("byte_cnt", 1)
        t.store("op_own", 1)

    def lcore(t):
        t.wait(t.load("op_own") == 1)
        t.fence(o.from_device("M1"))
        t.reg("byte_cnt", t.load("byte_cnt"))
        t.reg("frame", t.load("frame"))
    return [nic, lcore], lambda r: r["byte_cnt"] == 0 or r["frame"] == 0


def m2_refill(o):
    """mlx5_eth_rx_ring: the WQE is whole before the record says so."""
    def lcore(t):
        t.store("wqe", 1)
        t.fence(o.to_device("M2"))
        t.store("rq_db", 1)

    @device
    def nic(t):
        t.wait(t.load("rq_db") == 1)
        t.reg("wqe", t.load("wqe"))
    return [lcore, nic], lambda r: r["wqe"] == 0


def m2_invalid(o):
    """An entry that was marked invalid is not marked after the NIC has written it anew."""
    def lcore(t):
        t.store("cqe", 7)
        t.fence(o.to_device("M2"))
        t.store("cq_db", 1)

    @device
    def nic(t):
        t.wait(t.load("cq_db") == 1)
        t.store("cqe", 1)
    return [lcore, nic], lambda r: True, {"cqe": 7}


def m2_read(o, kept=True):
    """What was read of an entry is the old one's, though M2 orders only stores: the bytes went into a descriptor, which
    it orders."""
    def lcore(t):
        got = t.load("cqe")
        t.reg("got", got)
        if kept:
            t.store("desc", 1, data=got)
        t.fence(o.to_device("M2"))
        t.store("cq_db", 1)

    @device
    def nic(t):
        t.wait(t.load("cq_db") == 1)
        t.store("cqe", 9)
    return [lcore, nic], lambda r: r["got"] == 9


def m7_records(o):
    """mlx5_eth_rx_ring, and mlx5_rc_refill: a NIC that uses a new WQE finds the consumer index that made room for its
    completion."""
    def lcore(t):
        t.store("wqe", 1)
        t.fence(o.to_device("M2"))
        t.store("cq_db", 1)
        t.fence(o.to_device("M7"))
        t.store("rq_db", 1)

    @device
    def nic(t):
        t.wait(t.load("rq_db") == 1)
        t.reg("wqe", t.load("wqe"))
        t.reg("cq_db", t.load("cq_db"))
    return [lcore, nic], lambda r: r["cq_db"] == 0 or r["wqe"] == 0


def send_side(o, t):
    t.store("frame", 1)
    t.store("wqe", 1)
    t.fence(o.to_device("M3"))
    t.store("sq_db", 1)
    t.fence(o.to_device("M4"))
    t.store("register", 1)


def m3_send(o):
    """mlx5_doorbell: a NIC that still works on an earlier doorbell finds the new record: its WQE and frame are
    whole."""
    @device
    def nic(t):
        t.wait(t.load("sq_db") == 1)
        t.reg("wqe", t.load("wqe"))
        t.reg("frame", t.load("frame"))

    def lcore(t):
        t.store("frame", 1)
        t.store("wqe", 1)
        t.fence(o.to_device("M3"))
        t.store("sq_db", 1)
    return [lcore, nic], lambda r: r["wqe"] == 0 or r["frame"] == 0


def m4_doorbell(o):
    """A NIC that was rung finds a record that covers what it was rung for, and behind it a whole WQE."""
    @device
    def nic(t):
        t.wait(t.load("register") == 1)
        record = t.load("sq_db")
        t.reg("record", record)
        t.reg("wqe", t.load("wqe"))
    return [lambda t: send_side(o, t), nic], lambda r: r["record"] == 0 or r["wqe"] == 0


def echo_chain(o):
    """A frame that the executor changed and the NIC sends: three agents, from the handler's store to the NIC's read."""
    def executor(t):
        t.store("frame", 1)
        t.store("w0", 1, o.rel("G2 release"))

    def lcore(t):
        t.wait(t.load("w0", o.acq("G2 acquire")) == 1)
        t.store("wqe", 1)
        t.fence(o.to_device("M3"))
        t.store("sq_db", 1)

    @device
    def nic(t):
        t.wait(t.load("sq_db") == 1)
        t.reg("wqe", t.load("wqe"))
        t.reg("frame", t.load("frame"))
    return [executor, lcore, nic], lambda r: r["frame"] == 0 or r["wqe"] == 0


# ---- rings between threads ---------------------------------------------------------------------------------

def ring(o):
    """spw_ring.h with one entry, two laps: neither an entry before it is whole, nor the next lap's in its place."""
    def producer(t):
        t.store("entry", 1)
        t.store("write_pos", 1, o.rel("R3"))
        t.wait(t.load("read_pos", o.acq("R1")) == 1)
        t.store("entry", 2)
        t.store("write_pos", 2)

    def consumer(t):
        t.wait(t.load("write_pos", o.acq("R4")) != 0)
        t.reg("first", t.load("entry"))
        t.store("read_pos", 1, o.rel("R2"))
    return [producer, consumer], lambda r: r["first"] != 1


def executor_push(o):
    """gring.c, push and spw_exec_run_one: entry 0's lo word is stored last; who has acquired it reads the rest and the
    frames."""
    def lcore(t):
        t.store("frame", 1)
        for entry in (1, 0):
            t.store(f"hi{entry}", 1, o.rel(f"G1 hi{entry}"))
            t.store(f"lo{entry}", 1, o.rel(f"G1 lo{entry}"))

    def executor(t):
        t.wait(t.load("lo0", o.acq("G1 acquire")) == 1)
        t.reg("words", (t.load("hi0") + t.load("hi1") + t.load("lo1")).number)
        t.reg("frame", t.load("frame"))
    return [lcore, executor], lambda r: r["words"] != 3 or r["frame"] == 0


def executor_reap(o):
    """cpu_done_write, spw_gring_reap: verdicts and an echo's bytes are there once w[0] has the tag, and the frame's
    slot, handed back, is not written again before the executor has read it."""
    def executor(t):
        t.reg("read", t.load("in"))
        t.store("out", 1)
        t.store("w1", 1)
        t.store("w0", 1, o.rel("G2 release"))

    def lcore(t):
        t.wait(t.load("w0", o.acq("G2 acquire w0")) == 1)
        t.wait(t.load("w1", o.acq("G2 acquire w1")) == 1)
        t.reg("out", t.load("out"))
        t.store("in", 2)
    return [executor, lcore], lambda r: r["read"] == 2 or r["out"] == 0


# ---- clocks and stop words -----------------------------------------------------------------------------------

def clock_reader(o, t):
    """How the page must be read. Torn: a field of a write that the second check missed, or the first."""
    before = t.load("sign", o.acq("reader's acquire"))
    nsec, cycles = t.load("nsec"), t.load("cycles")
    t.fence(o.fence("reader's barrier", "dmb ishld"))
    t.wait(t.load("sign") == before)
    t.wait(before != 1)  # 1: being written
    t.reg("torn", int(nsec.number != before.number or cycles.number != before.number))


def clock_fields(t):
    t.store("nsec", 2)
    t.store("cycles", 2)


def clock_page(o):
    """softhca/nic/port/clock.c: the mark, a barrier, the fields, the new sign."""
    def nic(t):
        t.store("sign", 1)
        t.fence(o.fence("N7", "dmb ish"))
        clock_fields(t)
        t.store("sign", 2, o.rel("N8"))
    return [nic, lambda t: clock_reader(o, t)], lambda r: r["torn"]


def clock_page_exchange(amo):
    """The mark by an acq_rel exchange: as one instruction (swpal) it would do. A pair of exclusives, which every
    compiler may emit, keeps later stores behind its load alone."""
    def protocol(o):
        def nic(t):
            t.exchange("sign", 1, "AL", amo=amo)
            clock_fields(t)
            t.store("sign", 2, "L")
        return [nic, lambda t: clock_reader(o, t)], lambda r: r["torn"]
    return protocol


def clock_page_libmlx5(o):
    """mlx5dv_get_clock_info of rdma-core reads the sign by atomic_load, ldar, both times: nothing keeps the fields
    before the second."""
    def nic(t):
        t.store("sign", 1)
        t.fence(o.fence("N7", "dmb ish"))
        clock_fields(t)
        t.store("sign", 2, o.rel("N8"))

    def reader(t):
        before = t.load("sign", "A")
        nsec, cycles = t.load("nsec"), t.load("cycles")
        t.wait(t.load("sign", "A") == before)
        t.wait(before != 1)
        t.reg("torn", int(nsec.number != before.number or cycles.number != before.number))
    return [nic, reader], lambda r: r["torn"]


def clock_map(o):
    """time/clock.c: the feeder writes the map that is not current, then the number; a reader checks the number
    again."""
    def feeder(t):
        t.store("number", 1)
        t.store("word", 1, o.rel("T3"))
        t.store("number", 2, o.rel("T1"))

    def reader(t):
        before = t.load("number", o.acq("T2"))
        word = t.load("word", o.acq("T4"))
        t.wait(t.load("number") == before)
        t.wait(before != 1)
        t.reg("torn", int(word.number != before.number // 2))
    return [feeder, reader], lambda r: r["torn"]


def capture_stop(o):
    """capture.c: the writer that has read the stop word drains once more and finds every frame. Lcore, control thread,
    writer."""
    def lcore(t):
        t.store("entry", 1)
        t.store("write_pos", 1, o.rel("R3"))
        t.store("ended", 1, o.rel("Q3"))

    def control(t):
        t.wait(t.load("ended", o.acq("Q4")) == 1)
        t.store("stop", 1, o.rel("CAP1"))

    def writer(t):
        t.wait(t.load("stop", o.acq("CAP2")) == 1)
        write_pos = t.load("write_pos", o.acq("R4"))
        t.reg("missed", int(write_pos.number == 0))
        t.reg("entry", t.load("entry"))
    return [lcore, control, writer], lambda r: r["missed"] or r["entry"] == 0


# ---- collectives ---------------------------------------------------------------------------------------------

def coll_arrival(o):
    """A peer's NIC writes the contribution, then its flag, by an atomic; the executor that has seen the flag reads
    both."""
    @device
    def nic(t):
        t.store("data", 1)
        t.store("flag", 1)

    def executor(t):
        t.wait(t.load("flag") == 1)
        t.fence(o.from_device("X1"))
        t.reg("data", t.load("data"))
    return [nic, executor], lambda r: r["data"] == 0


def coll_post(o):
    """The executor stages and posts, the proxy rings, the NIC reads what was staged."""
    def executor(t):
        t.store("staged", 1)
        t.store("post", 1, o.rel("CO1 release"))

    def proxy(t):
        t.wait(t.load("post", o.acq("CO1 acquire")) == 1)
        t.store("wqe", 1)
        t.fence(o.to_device("M3"))
        t.store("sq_db", 1)

    @device
    def nic(t):
        t.wait(t.load("sq_db") == 1)
        t.reg("wqe", t.load("wqe"))
        t.reg("staged", t.load("staged"))
    return [executor, proxy, nic], lambda r: r["staged"] == 0 or r["wqe"] == 0


def coll_credit(o):
    """A post says that the round before was read: who gets its flag writes that slot anew."""
    def executor(t):
        t.reg("read", t.load("slot"))
        t.store("post", 1, o.rel("CO1 release"))

    def proxy(t):
        t.wait(t.load("post", o.acq("CO1 acquire")) == 1)
        t.store("sq_db", 1)

    @device
    def nics_and_peer(t):
        t.wait(t.load("sq_db") == 1)
        t.store("slot", 2)
    return [executor, proxy, nics_and_peer], lambda r: r["read"] == 2


def coll_acked(o):
    """Staging is written again only after the NIC has read it for the last time."""
    @device
    def nic(t):
        t.reg("sent", t.load("staged"))
        t.store("cqe", 1)

    def proxy(t):
        t.wait(t.load("cqe") == 1)
        t.fence(o.from_device("X2"))
        t.store("acked", 1, o.rel("CO2 release"))

    def executor(t):
        t.wait(t.load("acked", o.acq("CO2 acquire")) == 1)
        t.store("staged", 2)
    return [nic, proxy, executor], lambda r: r["sent"] == 2


def coll_gone(o):
    """A rank's flag arrived, then its connection ended: the executor that learns the end finds the flag."""
    @device
    def nic(t):
        t.store("flag", 1)
        t.store("closed", 1)

    def proxy(t):
        t.wait(t.load("closed") == 1)
        t.store("gone", 1, o.rel("CO3 release"))

    def executor(t):
        t.wait(t.load("gone", o.acq("CO3 acquire")) == 1)
        t.reg("flag", t.load("flag"))
    return [nic, proxy, executor], lambda r: r["flag"] == 0


# {protocol: {spare: what covers it}}: alone it may go, together with its cover not. A release may be one that C wants
# and Arm does not need, or one for another reader (each entry of the executor ring is polled by a lane of its own on a
# GPU).
PROTOCOLS = {
    m1_receive: {}, m2_refill: {}, m2_invalid: {}, m2_read: {}, m7_records: {"M2": "M7"}, m3_send: {},
    m4_doorbell: {"M3": "M4"}, echo_chain: {},
    object_publish: {"OB1 release": "OB3 release", "OB1 acquire": "OB3 acquire"}, object_reuse: {},
    object_take_back: {}, object_end: {"OB3 release": "OB4 release"},
    ring: {}, executor_push: {"G1 hi1": "G1 lo0", "G1 lo1": "G1 lo0", "G1 hi0": "G1 lo0"},
    executor_reap: {"G2 acquire w1": "G2 acquire w0"}, clock_page: {}, clock_map: {},
    live_page: {}, live_page_entry: {},
    coll_arrival: {}, coll_post: {}, coll_credit: {}, coll_acked: {"X2": "CO2 release", "CO2 release": "X2"},
    coll_gone: {},
    capture_stop: {"R3": "Q3", "Q4": "CAP1", "CAP1": "Q4", "R4": "CAP2"},
}
# [(what, protocol, barriers that are out)]: these do not hold, and the model must show it.
BROKEN = [
    ("a clock page that is marked by an exchange of exclusives", clock_page_exchange(amo=False), ()),
    ("a clock page as libmlx5 reads it on Arm", clock_page_libmlx5, ()),
    ("a capture whose stop word is relaxed at both ends", capture_stop, ("CAP1", "CAP2")),
    ("a completion entry that is read, and nothing is stored of it", lambda o: m2_read(o, kept=False), ()),
    ("a barrier for threads where a device reads", lambda o: m2_refill(Narrow()), ()),
]
HOLD = [("a clock page that is marked by swpal", clock_page_exchange(amo=True), ())]


class Narrow(Order):
    def to_device(self, label):
        return self._on(label, "dmb ishst")


def judge(protocol, spare):
    """What the model says otherwise than this file."""
    name, faults = protocol.__name__, []
    bad, labels = broken(protocol)
    if bad:
        faults.append(f"{name}: the bad outcome is allowed")
    for label in labels:
        if broken(protocol, label)[0] == (label in spare):
            faults.append(f"{name}: without {label} the bad outcome is "
                          f"{'allowed' if label in spare else 'still forbidden'}")
    for label, cover in spare.items():
        if label not in labels or not broken(protocol, label, cover)[0]:
            faults.append(f"{name}: without {label} and {cover} the bad outcome is still forbidden")
    return faults, len(labels) + len(spare)


def main():
    begin, faults, removed = time.monotonic(), [], 0
    for protocol, spare in PROTOCOLS.items():
        found, cnt = judge(protocol, spare)
        faults += found
        removed += cnt
    for cases, want in ((BROKEN, True), (HOLD, False)):
        faults += [f"{what}: expected to be {'broken' if want else 'good'}" for what, protocol, out in cases
                   if broken(protocol, *out)[0] != want]
    print("\n".join([*faults, f"{len(PROTOCOLS)} protocols, barriers taken out {removed} times, {len(BROKEN)} known to "
                     f"be broken: "
                                f"{len(faults)} wrong, {time.monotonic() - begin:.1f} s"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
