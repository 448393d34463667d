# SPDX-License-Identifier: BSD-3-Clause
"""Recorded cases, for vectors.py: what holds the job up lies between two ranks."""
from hang_case import SECOND, Case, lossy, vector


@vector("culprit 1 loss")
def packets_lost():
    c = lossy(True)
    c.grow(1, "port", 0, local_ack_timeout_err=7)
    c.grow(0, "port", 0, out_of_sequence=7)
    return c


@vector("culprit 1 loss")
def rails_left():
    return lossy(False)


@vector("unknown")
def not_acknowledged_and_counters_still():
    return lossy(True)


@vector("unknown")
def one_rail_down_and_the_other_still():
    c = lossy(True)
    c.set(1, "rail", 0, state="trying", why="local protection error", open_bytes=0)
    return c


@vector("culprit 1 loss")
def rails_left_and_tried_again():
    """The first reason is in an earlier snapshot only."""
    c = lossy(False)
    for at in (0, 1):
        c.set(1, "rail", at, **{"why": "the peer took it out of service", "why?": "transport retry counter exceeded"})
    return c


@vector("culprit 1 link")
def port_down():
    c = lossy(False)
    for at in (0, 1):
        c.set(1, "port", at, state="DOWN", carrier=0)
    return c


@vector("culprit 0 link")
def port_down_at_the_receiver():
    c = lossy(False)
    for at in (0, 1):
        c.set(0, "port", at, state="DOWN", carrier=0)
    return c


@vector("culprit 0 link")
def port_down_without_pages():
    c = Case(page=0)
    c.qps()
    c.set(0, "port", 0, state="DOWN", carrier=0)
    return c


@vector("culprit 1 qp")
def qp_error_without_pages():
    c = Case(page=0)
    for rank in (0, 1):
        c.rows(rank, "qp").append({"device": "rocep1s0f0", "qpn": 9, "pid": 4000 + rank,
                                   "state": "ERR" if rank else "RTS"})
    return c


def joining(calls):
    """Rank 0 connects to rank 1, which listens and calls accept so often."""
    c = Case()
    for rank in (0, 1):
        c.rows(rank, "conn").clear()
        c.rows(rank, "rail").clear()
    for rank, state in ((0, "connecting"), (1, "listening")):
        c.rows(rank, "conn").append({**c.conn(rank, 0, 1 - rank, "", 1), "state": state, "begun": 0, "ended": 0,
                                     "tid": 0, "state_ns": 60 * SECOND, "calls+": 1000 if rank == 0 else calls})
    return c


@vector("culprit 1 bootstrap")
def rank_does_not_accept():
    return joining(0)


@vector("culprit 0 bootstrap")
def nothing_reaches_a_rank_that_accepts():
    return joining(1000)


@vector("culprit 1 process")
def stopped_before_it_accepts():
    c = joining(0)
    c.rows(1, "thread")[0]["state"] = "T"
    return c
