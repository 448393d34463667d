# SPDX-License-Identifier: BSD-3-Clause
"""What the Arm memory model allows: an exhaustive checker for small programs of two to four agents.

Programs are written as program.py says. Candidate executions pair each load with a store of its value (rf) and order
the stores of each location (co); those that break an axiom are forbidden.

Model: Armv8, multi-copy-atomic, as in C. Pulte et al., "Simplifying ARM concurrency", POPL 2018, figure 4, and Arm ARM
B2.3:
  internal     per location, program order, rf, co and fr have no cycle
  external     observation by others (rfe, coe, fre) and what each thread keeps in order (dob, aob, bob) have no cycle
  atomicity    nothing comes between the load and the store of an atomic operation
One rule is younger than the paper (Arm ARM; `[range([A];amo;[L])];po` in herdtools' aarch64hwreqs.cat): a
single-instruction atomic with acquire and release, SWPAL say, comes before all that follows it. A load-exclusive,
store-exclusive pair does not.

A device is a thread whose accesses are observed in program order (posted writes; reads that wait for the one before).
Barriers of the inner shareable domain do not count where a device takes part.

Not modelled: accesses of mixed or unaligned size, instruction fetch and translation, time (a store may wait for ever in
a write-combining buffer), CUDA's scopes."""
import itertools

from program import Access, all_runs

FULL, LOADS, STORES = "full", "ld", "st"
FENCES = {"dmb ish": FULL, "dmb ishld": LOADS, "dmb ishst": STORES, "dmb osh": FULL, "dmb oshld": LOADS,
          "dmb oshst": STORES,
          "dmb sy": FULL, "dmb ld": LOADS, "dmb st": STORES, "dsb st": STORES, "isb": "isb"}


# ---- what one thread keeps in order ------------------------------------------------------------------------

def _fence_kinds(thread, first, second, void):
    return {FENCES[name] for at, name, _ in thread.fences if first.at < at < second.at and not name.startswith(void)}


def _through_addr(thread, i, upto):
    """Whether an access between i and upto (at) has an address that depends on load i."""
    return any(i in a.addr and a.at < upto for a in thread.access)


def _isb_after(thread, i, second):
    """Load i decides (by a branch, or by an address on the way) that an ISB before the second access is reached."""
    return any(name == "isb" and at < second.at and (i in ctrl or _through_addr(thread, i, at))
               for at, name, ctrl in thread.fences)


def _bob(thread, a, b, fences):
    if FULL in fences or b.order == "L" or a.order in ("A", "Q"):
        return True
    if a.kind == "R" and LOADS in fences or a.kind == b.kind == "W" and STORES in fences:
        return True
    if a.kind == "W" and a.amo and a.order == "L" and thread.access[a.rmw].order == "A":
        return True  # range([A];amo;[L]);po
    return a.order == "L" and b.order == "A"


def _dob(thread, i, b):
    if i in b.addr or i in b.data:
        return True
    if b.kind == "W" and (i in b.ctrl or _through_addr(thread, i, b.at)):
        return True
    return b.kind == "R" and _isb_after(thread, i, b)


def local_order(thread, is_device, void):
    """[(i, j)]: access i is ordered before access j for every observer."""
    edges = []
    for j, b in enumerate(thread.access):
        for i, a in enumerate(thread.access[:j]):
            if is_device or b.rmw == i or _bob(thread, a, b, _fence_kinds(thread, a, b, void)) or _dob(thread, i, b):
                edges.append((i, j))
    return edges


# ---- candidate executions ----------------------------------------------------------------------------------

def _acyclic(cnt, edges):
    before = [0] * cnt
    for a, b in edges:
        before[b] |= 1 << a
    left = (1 << cnt) - 1
    while left:
        free = sum(1 << n for n in range(cnt) if left >> n & 1 and not before[n] & left)
        if not free:
            return False
        left &= ~free
    return True


class Candidate:
    """One run of each thread, put together. Events are numbered: initial stores first, then thread by thread."""

    def __init__(self, threads, orders, init):
        self.event, self.owner, self.order = [], [], []
        used = sorted({a.loc for t in threads for a in t.access}, key=str)
        for loc in used:
            self.event.append(Access(-1, "W", loc, init.get(loc, 0), ""))
            self.owner.append(-1)
        for number, (thread, order) in enumerate(zip(threads, orders)):
            base = len(self.event)
            self.event += thread.access
            self.owner += [number] * len(thread.access)
            self.order += [(base + i, base + j) for i, j in order]
        self.base = {number: self.owner.index(number) for number in set(self.owner) - {-1}}
        self.writes = {loc: [e for e, a in enumerate(self.event) if a.kind == "W" and a.loc == loc] for loc in used}
        self.reads = [e for e, a in enumerate(self.event) if a.kind == "R"]

    def rfs(self):
        """Every way to pair loads with stores of their value; a load never takes a later store of its own thread."""
        from_of = [[w for w in self.writes[self.event[r].loc] if self.event[w].val == self.event[r].val and
                    not (self.owner[w] == self.owner[r] and w > r)] for r in self.reads]
        return itertools.product(*from_of)

    def cos(self, final):
        """Every order of the stores of each location that keeps each thread's own, and ends as the condition wants."""
        orders = []
        for loc, writes in self.writes.items():
            fit = [(writes[0], *rest) for rest in itertools.permutations(writes[1:])
                   if all(not (self.owner[a] == self.owner[b] and a > b) for a, b in itertools.combinations(rest, 2))]
            orders.append([co for co in fit if loc not in final or self.event[co[-1]].val == final[loc]])
        return itertools.product(*orders)

    def allowed(self, rf, co):
        source = dict(zip(self.reads, rf))
        place = {w: n for order in co for n, w in enumerate(order)}
        co_edges = [pair for order in co for pair in itertools.combinations(order, 2)]
        fr_edges = [(r, w) for r, from_w in source.items() for w in self.writes[self.event[r].loc]
                    if place[w] > place[from_w]]
        rf_edges = [(w, r) for r, w in source.items()]
        if not _acyclic(len(self.event), rf_edges + co_edges + fr_edges + self._po_loc()):
            return False
        if not self._atomic(source, place):
            return False
        outside = [(a, b) for a, b in rf_edges + co_edges + fr_edges if self.owner[a] != self.owner[b]]
        return _acyclic(len(self.event), outside + self.order + self._through_own(source, place))

    def _po_loc(self):
        cnt = len(self.event)
        return [(a, b) for a in range(cnt) for b in range(a + 1, cnt)
                if self.owner[a] == self.owner[b] != -1 and self.event[a].loc == self.event[b].loc]

    def _atomic(self, source, place):
        for w, access in enumerate(self.event):
            if access.rmw is None:
                continue
            read = self.base[self.owner[w]] + access.rmw
            between = [o for o in self.writes[access.loc] if place[source[read]] < place[o] < place[w]]
            if any(self.owner[o] != self.owner[w] for o in between):
                return False
        return True

    def _through_own(self, source, place):
        """What a thread's own stores hand on: (addr|data);rfi, range(rmw);rfi;[A|Q], (ctrl|data);coi and po;[L];coi."""
        edges = []
        for r, w in source.items():
            if self.owner[w] != self.owner[r]:
                continue
            access, base = self.event[w], self.base[self.owner[w]]
            edges += [(base + d, r) for d in access.addr | access.data]
            if access.rmw is not None and self.event[r].order in ("A", "Q"):
                edges.append((w, r))
        for w, access in ((w, a) for w, a in enumerate(self.event) if a.kind == "W" and self.owner[w] != -1):
            later = [o for o in self.writes[access.loc] if self.owner[o] == self.owner[w] and place[o] > place[w]]
            base = self.base[self.owner[w]]
            before = set(range(base, w)) if access.order == "L" else {base + d for d in access.data | access.ctrl}
            edges += [(a, o) for a in before for o in later]
        return edges


def find(functions, bad, final=None, init=None, with_ctrl=True):
    """The registers of an allowed execution that meets the condition, or None if the model forbids it.

    bad: of a dict of registers. final: {location: value} at the end. with_ctrl: whether a branch orders later stores,
    which C does not promise: its compiler may turn a branch into a select, or take it out."""
    init, final = init or {}, final or {}
    void = ("dmb ish",) if any(getattr(f, "is_device", False) for f in functions) else ()
    runs = all_runs(functions, init, with_ctrl)
    orders = {id(t): local_order(t, getattr(f, "is_device", False), void) for f, of in zip(functions, runs) for t in of}
    for threads in itertools.product(*runs):
        regs = {name: val for t in threads for name, val in t.regs.items()}
        if not bad(regs):
            continue
        candidate = Candidate(threads, [orders[id(t)] for t in threads], init)
        for co in candidate.cos(final):
            for rf in candidate.rfs():
                if candidate.allowed(rf, co):
                    return regs
    return None
