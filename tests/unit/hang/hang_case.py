# SPDX-License-Identifier: BSD-3-Clause
"""A case of lib/hang, made by hand: a healthy job at rest, edits to it, and the document that is read. VECTORS has
all that were made."""

SECOND = 1_000_000_000
COMM = "00000000000c0ffe"
VECTORS = []


def vector(expect, source=""):
    """Registers the case that the function below makes; its name is the function's."""
    def add(make):
        VECTORS.append(make().document(make.__name__.replace("_", "-"), expect, source))
        return make
    return add


class Case:
    """A job of `cnt` ranks in a ring, one a host, standing still in AllReduce 8, in each of three snapshots. Edits
    are made to all snapshots; what moves is told apart by the factor 0, 1 or 10 of each, and "name?" is what a column
    was before the last one."""

    def __init__(self, cnt=2, page=1, cuda=1):
        self.cnt = cnt
        self.hosts = [self.host(rank, page, cuda) for rank in range(cnt)]

    def host(self, rank, page, cuda):
        pid = 4000 + rank
        proc = {"pid": pid, "start": 1000, "gone": 0, "name": "python", "rank": rank, "world": self.cnt, "page": page,
                "frozen": 0, "throttled_us": 0, "tracer": 0, "cuda": cuda}
        threads = [thread(pid, pid, "S"), thread(pid, pid + 50, "R", proxy=1, run=99)]
        snap = {"why": {}, "proc": [proc], "thread": threads, "addr": [{"addr": f"192.0.2.{rank + 1}"}],
                "port": [port("rocep1s0f0"), port("rocep1s0f1")]}
        if cuda:
            snap["gpu"] = [{"pid": pid, "gpu": 0, "alone": 1, "busy": 96, "memory_busy": 0, "power_mw": 20000,
                            "sm_mhz": 2400, "sm_max_mhz": 3000, "reasons": 0}]
        if page:
            proc["profiler"] = 1
            snap["comm"] = [{"pid": pid, "comm": COMM, "rank": rank, "rank_cnt": self.cnt, "node_cnt": self.cnt,
                             "colls": 8, "p2ps": 0, "function": "AllReduce", "sequence": 7, "count": 1 << 20,
                             "datatype": "ncclFloat32", "algorithm": "RING"}]
            left, right = (rank - 1) % self.cnt, (rank + 1) % self.cnt
            snap["conn"] = [self.conn(rank, 0, 1, f"{rank:08x}{right:08x}", right),
                            self.conn(rank, 1, 0, f"{left:08x}{rank:08x}", left)]
            snap["rail"] = [self.rail(pid, entry, at) for entry in (0, 1) for at in (0, 1)]
        return {"name": f"spark{rank + 1}", "silent": "", "snap": snap}

    def conn(self, rank, entry, is_send, pair, other):
        return {"pid": 4000 + rank, "entry": entry, "is_send": is_send, "pair": pair, "comm": COMM, "state": "ready",
                "state_ns": 100 * SECOND, "error": 0, "tid": 4050 + rank, "calls": 500, "calls+": 1000, "begun": 70,
                "ended": 70, "oldest_ns": -1, "moved_ns": 40 * SECOND, "waiting": 0, "granted": 0, "posted": 0,
                "acked": 0, "receiving": 0, "received": 0, "flushing": 0, "view_age_ns": 1000,
                "peer": f"192.0.2.{other + 1}:7000"}

    @staticmethod
    def rail(pid, entry, at):
        return {"pid": pid, "entry": entry, "rail": at, "state": "up", "device": f"rocep1s0f{at}", "qpn": 100 + at,
                "mbps": 100000, "open_bytes": 0, "acked_bytes": 1 << 30, "resent": 0, "outages": 0, "down_ns": -1}

    # ---- edits ----
    def rows(self, rank, table):
        return self.hosts[rank]["snap"].setdefault(table, [])

    def set(self, rank, table, at=0, **values):
        self.rows(rank, table)[at].update(values)

    def grow(self, rank, table, at=0, **values):
        """Columns that grow by so much in 0.5 s."""
        self.set(rank, table, at, **{name + "+": value for name, value in values.items()})

    def receives(self, rank, stage="receiving", cnt=1):
        """cnt receives are open."""
        row = self.rows(rank, "conn")[1]
        row.update({"begun": row["ended"] + cnt, stage: cnt, "oldest_ns": 40 * SECOND})

    def sends(self, rank, stage, cnt=1):
        row = self.rows(rank, "conn")[0]
        row.update({"begun": row["ended"] + cnt, stage: cnt, "oldest_ns": 40 * SECOND})

    def waits(self, rank):
        """Has sent its first chunk, and waits for its left neighbour."""
        row = self.rows(rank, "conn")[0]
        row.update(begun=row["begun"] + 1, ended=row["ended"] + 1)
        self.receives(rank)

    def absent(self, rank):
        """Everybody else is in the collective; this rank is not."""
        for other in range(self.cnt):
            if other == rank:
                self.set(rank, "comm", colls=7, sequence=6)
                continue
            self.receives(other)
            if (other + 1) % self.cnt == rank:
                self.sends(other, "waiting")
            else:
                self.waits_sent(other)

    def owes(self, rank):
        """Four receives are open on each rank; this one has taken what has come, and its kernel does not run."""
        for other in range(self.cnt):
            self.receives(other, cnt=4)
        left = self.rows((rank - 1) % self.cnt, "conn")[0]
        left.update(begun=72, ended=72)
        self.rows(rank, "conn")[1].update(ended=72, receiving=2)

    def waits_sent(self, rank):
        row = self.rows(rank, "conn")[0]
        row.update(begun=row["begun"] + 1, ended=row["ended"] + 1)

    def calls_nothing(self, rank):
        for at in (0, 1):
            self.grow(rank, "conn", at, calls=0)

    def qps(self):
        """Each rank has a queue pair that the kernel shows."""
        for rank in range(self.cnt):
            self.rows(rank, "qp").append({"device": "rocep1s0f0", "qpn": 9, "pid": 4000 + rank, "state": "RTS"})

    def fails(self, rank, at):
        """The other end of a connection has ended: NCCL asks for nothing more."""
        row = self.rows(rank, "conn")[at]
        row.update(state="failed", error=104, peer=row["peer"] + ": the peer closed the connection, or died")
        self.calls_nothing(rank)

    def vanish(self, rank):
        """Its process has ended before anyone looked."""
        for table in ("proc", "thread", "comm", "conn", "rail", "gpu"):
            self.rows(rank, table).clear()

    def idle(self, rank, busy=0):
        self.set(rank, "gpu", busy=busy)

    def drop(self, rank, table, source, why="not there"):
        self.hosts[rank]["snap"].pop(table, None)
        self.hosts[rank]["snap"]["why"][source] = why

    def moves(self, ranks=None):
        for rank in ranks or range(self.cnt):
            for at in (0, 1):
                self.grow(rank, "conn", at, begun=100, ended=100)
            for at in range(4):
                self.grow(rank, "rail", at, acked_bytes=100 << 20)
                self.set(rank, "rail", at, open_bytes=1 << 20)

    def late(self, rank, share=0):
        """It moves, and all others wait for this rank each time; its proxy waits for its CPU for `share` percent."""
        self.moves()
        for other in range(self.cnt):
            if other != rank:
                self.receives(other)
        self.set(rank, "thread", 1, **{"wait_ns+": share * SECOND // 200})

    def clock(self, rank, mhz, reasons=0, busy=96):
        self.set(rank, "gpu", sm_mhz=mhz, reasons=reasons, busy=busy)

    def dial(self, rank, remote):
        """A TCP connection that nobody answers."""
        self.rows(rank, "dial").append({"pid": 4000 + rank, "local": f"192.0.2.{rank + 1}:40000", "remote": remote,
                                        "state": "SYN_SENT"})

    def recorded(self, rank, function, sizes="[8]", sequence=41):
        """The newest entry of its flight recorder."""
        self.rows(rank, "op").append({"pid": 4000 + rank, "group": "0", "sequence": sequence, "is_p2p": 0,
                                      "rank": rank, "function": function, "sizes": sizes, "state": "scheduled",
                                      "site": f"train.py:{10 + rank} step"})

    # ---- result ----
    def document(self, name, expect, source):
        hosts = []
        for host in self.hosts:
            snaps = [snap_at(host["snap"], factor) for factor in (0, 1, 10)] if not host["silent"] else []
            hosts.append({"name": host["name"], "silent": host["silent"], "snaps": snaps})
        return {"schema": "spinwire.hangcase/1", "name": name, "expect": expect, "source": source, "hosts": hosts}


def lossy(up):
    c = Case()
    c.sends(1, "posted")
    c.receives(0)
    for at in (0, 1):
        c.set(1, "rail", at, open_bytes=1 << 20)
        if not up:
            c.set(1, "rail", at, state="trying", why="transport retry counter exceeded", down_ns=9 * SECOND)
            c.set(0, "rail", 2 + at, state="trying", why="the peer took it out of service", down_ns=9 * SECOND)
    return c


def login_node():
    """A machine without ranks that hides the processes of others."""
    return {"name": "login", "silent": "",
            "snap": {"why": {"proc": "90 processes of other users cannot be looked at"},
                     "addr": [{"addr": "192.0.2.99"}]}}


def thread(pid, tid, state, proxy=0, run=0, wait=0, stime=0, frame=""):
    """run, wait, stime: percent of the time."""
    return {"pid": pid, "tid": tid, "proxy": proxy, "name": "python", "state": state, "utime": 0, "utime+": 0,
            "stime": 0, "stime+": stime // 2, "run_ns": 0, "run_ns+": run * SECOND // 200, "wait_ns": 0,
            "wait_ns+": wait * SECOND // 200, "cpu": 3, "frame": frame}


def port(device):
    return {"device": device, "port": 1, "state": "ACTIVE", "carrier": 1, "mbps": 100000, "mtu": 9000,
            "packet_seq_err": 5, "local_ack_timeout_err": 0, "out_of_sequence": 5}


def snap_at(snap, factor):
    out = {"at_ns": 77 * SECOND + factor * SECOND // 2, "why": snap["why"]}
    for table, rows in snap.items():
        if table == "why":
            continue
        out[table] = []
        for row in rows:
            new = {name: value for name, value in row.items() if name[-1] not in "+?" and value != ""}
            for name, value in row.items():
                if name.endswith("?") and factor < 10:
                    new[name[:-1]] = value
                if name.endswith("+"):
                    new[name[:-1]] += value * factor
            out[table].append(new)
    return out
