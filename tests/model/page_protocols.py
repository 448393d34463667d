# SPDX-License-Identifier: BSD-3-Clause
"""The live page of a process under NCCL (lib/hang/spw_hang_page.h), as protocol_test.py wants protocols."""


def live_page(o):
    """spw_hang_page_open, spw_hang_page_is_open: who finds the magic finds the rest."""
    def writer(t):
        t.store("bytes", 1)
        t.store("magic", 1, o.rel("LP1 release"))

    def reader(t):
        t.wait(t.load("magic", o.acq("LP1 acquire")) == 1)
        t.reg("bytes", t.load("bytes"))
    return [writer, reader], lambda r: r["bytes"] == 0


def live_page_entry(o):
    """spw_hang_entry_write, spw_hang_entry_read: words of one change, or the entry is read again."""
    def writer(t):
        t.store("mark", 1)
        t.fence(o.fence("LP2 fence", "dmb ish"))
        t.store("calls", 1)
        t.store("bytes", 1)
        t.store("mark", 2, o.rel("LP3 release"))

    def reader(t):
        before = t.load("mark", o.acq("LP3 acquire"))
        calls = t.load("calls", o.acq("LP2 acquire of one word"))
        words = t.load("bytes", o.acq("LP2 acquire of the next"))
        t.wait(t.load("mark") == before)
        t.wait(before != 1)
        t.reg("torn", int(calls.number != before.number // 2 or words.number != before.number // 2))
    return [writer, reader], lambda r: r["torn"]
