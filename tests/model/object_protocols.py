# SPDX-License-Identifier: BSD-3-Clause
"""The page that a stream shares with its consumers (lib/obj/spw_obj_page.h), as protocol_test.py wants protocols."""


def object_publish(o):
    """obj/publish.c and page.c: who takes an object finds its bytes and receipt, and the right buffer."""
    def owner(t):
        t.store("object", 1)
        t.store("state", 1, o.rel("OB1 release"))
        t.store("queue", 1)
        t.store("head", 1, o.rel("OB3 release"))

    def consumer(t):
        t.wait(t.load("head", o.acq("OB3 acquire")) == 1)
        t.reg("queue", t.load("queue"))
        t.wait(t.load("state", o.acq("OB1 acquire")) == 1)  # half of its CAS
        t.reg("object", t.load("object"))
    return [owner, consumer], lambda r: r["queue"] == 0 or r["object"] == 0


def object_reuse(o):
    """A buffer that was released is written again only after its consumer's last read."""
    def consumer(t):
        t.reg("read", t.load("object"))
        t.store("state", 1, o.rel("OB2 release"))

    def owner(t):
        t.wait(t.load("state", o.acq("OB2 acquire")) == 1)
        t.store("object", 2)
    return [consumer, owner], lambda r: r["read"] == 2


def object_take_back(o):
    """READY is left by one CAS, the consumer's or the owner's: what was taken is not written."""
    def consumer(t):
        t.wait(t.exchange("state", 2, "AL", expected=1) == 1)
        t.reg("read", t.load("object"))

    def owner(t):
        t.wait(t.exchange("state", 3, "AL", expected=1) == 1)
        t.store("object", 2)
        t.reg("took", 1)
    return [consumer, owner], lambda r: True, {}, {"state": 1}


def object_end(o):
    """obj/window.c: who learns of the end finds the last object."""
    def owner(t):
        t.store("head", 1, o.rel("OB3 release"))
        t.store("ended", 1, o.rel("OB4 release"))

    def consumer(t):
        t.wait(t.load("ended", o.acq("OB4 acquire")) == 1)
        t.reg("head", t.load("head"))
    return [owner, consumer], lambda r: r["head"] == 0
