# SPDX-License-Identifier: BSD-3-Clause
"""Cases that what ranks called decides: jobs whose network is not spinwire's, ranks that have not begun, and rings in
which a kernel does not run. The like of each was seen on two H200 (tests/gpu/nccl_hang.py). vectors.py has the rest."""
from hang_case import COMM, SECOND, Case, vector


def foreign(cnt=2):
    """NET/IB: pages have no connections, and all ranks are in AllReduce 8 on eight channels."""
    c = Case(cnt)
    for rank in range(cnt):
        c.rows(rank, "conn").clear()
        c.rows(rank, "rail").clear()
        c.set(rank, "comm", sends_begun=64, sends_ended=56, recvs_begun=64, recvs_ended=56)
    return c


def rests(c, rank, **values):
    c.set(rank, "comm", sends_begun=56, recvs_begun=56, **values)


@vector("culprit 1 program")
def skipped_over_another_network():
    c = foreign(3)
    rests(c, 1, colls=7, sequence=6)
    c.idle(1)
    return c


@vector("culprit 1 process")
def stopped_over_another_network():
    c = foreign()
    for at in (0, 1):
        c.set(1, "thread", at, state="T", **{"run_ns+": 0})
    return c


@vector("culprit -1 program")
def unlike_calls_over_another_network():
    c = foreign()
    c.set(1, "comm", function="AllGather", sequence=3)
    return c


@vector("culprit -1 program")
def unlike_calls_of_which_one_is_done():
    c = unlike_calls_over_another_network()
    rests(c, 1)
    c.idle(1)
    return c


@vector("moves")
def healthy_over_another_network():
    c = foreign()
    for rank in range(2):
        c.grow(rank, "comm", sends_begun=80, sends_ended=80, recvs_begun=80, recvs_ended=80, colls=10)
    return c


@vector("unknown")
def nothing_under_way_over_another_network():
    c = foreign()
    for rank in range(2):
        rests(c, rank)
    return c


@vector("unknown")
def all_wait_over_another_network():
    return foreign()


@vector("unknown")
def done_its_part_or_replays_a_graph_over_another_network():
    """A captured graph's calls are counted once."""
    c = foreign()
    rests(c, 1)
    return c


@vector("moves")
def moved_once_over_another_network():
    c = skipped_over_another_network()
    c.set(0, "comm", **{"sends_ended?": 48})
    return c


@vector("unknown")
def skipped_over_another_network_and_a_host_silent():
    c = skipped_over_another_network()
    c.hosts[2]["silent"] = "no answer in 5 s"
    return c


@vector("unknown")
def skipped_over_another_network_and_a_host_not_asked():
    c = skipped_over_another_network()
    del c.hosts[2]
    return c


@vector("culprit 2 program")
def waits_in_another_communicator():
    """Rank 1 has not come to the first one because rank 2 has not come to the second."""
    c = foreign(3)
    rests(c, 1, colls=7, sequence=6)
    rests(c, 2)
    c.rows(2, "comm").clear()
    c.set(0, "comm", rank_cnt=2, node_cnt=2)
    c.set(1, "comm", rank_cnt=2, node_cnt=2)
    for rank, colls, begun in ((1, 4, 32), (2, 3, 24)):
        c.rows(rank, "comm").append(dict(c.rows(0, "comm")[0], pid=4000 + rank, comm="00000000000bead5", rank=rank - 1,
                                         colls=colls, sends_begun=begun, sends_ended=24, recvs_begun=begun,
                                         recvs_ended=24))
        c.idle(rank)
    return c


def listens(cnt=2, seconds=12):
    """Rank 0 waits for the connection of the one that sends to it; the others have none."""
    c = Case(cnt)
    for rank in range(cnt):
        c.rows(rank, "conn").clear()
        c.rows(rank, "rail").clear()
        c.set(rank, "comm", colls=0, function="", datatype="", algorithm="")
        c.idle(rank)
    c.rows(0, "conn").append(dict(c.conn(0, 0, 0, "", 0), state="listening", state_ns=seconds * SECOND, begun=0,
                                  ended=0))
    return c


@vector("culprit 1 program")
def not_begun():
    return listens()


@vector("unknown")
def not_begun_for_a_moment():
    return listens(seconds=8)


@vector("culprit 1 process")
def not_begun_and_stopped():
    c = listens()
    for at in (0, 1):
        c.set(1, "thread", at, state="T", **{"run_ns+": 0})
    return c


@vector("unknown")
def not_begun_and_a_host_not_asked():
    c = listens(3)
    del c.hosts[2]
    return c


@vector("culprit 1 program 2 program")
def two_have_not_begun():
    return listens(3)


@vector("unknown")
def connections_of_no_known_communicator():
    """NCCL before 2.28 does not say to which one a connection belongs."""
    c = listens()
    c.rows(1, "conn").append(dict(c.conn(1, 0, 0, "", 1), state="listening", state_ns=SECOND, begun=0, ended=0,
                                  comm=""))
    return c


@vector("culprit 1 gpu")
def kernel_in_a_ring_of_three():
    c = Case(3)
    c.owes(1)
    return c


@vector("unknown")
def kernel_in_a_tree():
    """An older operation over a tree: rank 0 has received from one of two, and what hangs is the other."""
    c = Case(3)
    c.owes(0)
    for rank, at, left in ((0, 2, 1), (1, 2, 0)):
        c.rows(rank, "conn").append(dict(c.conn(rank, at, 0, f"{left:08x}{rank:08x}ff", left), begun=74, receiving=4))
        c.rows(left, "conn").append(c.conn(left, at + 1, 1, f"{left:08x}{rank:08x}ff", rank))
    return c


@vector("unknown")
def receives_of_unlike_number_in_a_program_with_p2p():
    c = Case()
    c.owes(1)
    for rank in range(2):
        c.set(rank, "comm", p2ps=2)
    return c


@vector("unknown")
def kernel_in_one_of_two_communicators():
    """What is under way is not of the communicator whose last call is known."""
    c = Case()
    c.owes(1)
    for rank in range(2):
        for at in (0, 1):
            c.set(rank, "conn", at, comm=COMM.replace("c0ffe", "bead5"))
    return c
