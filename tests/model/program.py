# SPDX-License-Identifier: BSD-3-Clause
"""Small concurrent programs: a thread is a Python function that loads and stores through its Thread.

It is run once for every value that each of its loads might return (values that somebody stores there), so `if` and
arithmetic on loaded values become control, data and address dependencies, as they are in machine code."""
import contextlib
import itertools


class Blocked(Exception):
    """This run does not go on: a condition that the thread waits for is not met."""


class Val:
    """A loaded value, or what was computed from one: the number, and the loads that it depends on."""

    def __init__(self, thread, number, deps):
        self.thread, self.number, self.deps = thread, number, deps

    def _with(self, other, number):
        return Val(self.thread, number, self.deps | (other.deps if isinstance(other, Val) else frozenset()))

    def __eq__(self, other):
        return self._with(other, int(self.number == plain(other)))

    def __ne__(self, other):
        return self._with(other, int(self.number != plain(other)))

    def __add__(self, other):
        return self._with(other, self.number + plain(other))

    def __bool__(self):  # a branch
        if self.thread.with_ctrl:
            self.thread.ctrl |= self.deps
        return bool(self.number)

    __hash__ = None


def plain(value):
    return value.number if isinstance(value, Val) else value


def deps_of(*values):
    return frozenset().union(*(v.deps for v in values if isinstance(v, Val)))


class Access:
    """One load or store of one thread; at: its place in program order, fences counted."""

    def __init__(self, at, kind, loc, val, order, addr=frozenset(), data=frozenset(), ctrl=frozenset(), rmw=None,
                 amo=False):
        self.at, self.kind, self.loc, self.val, self.order = at, kind, loc, val, order
        self.addr, self.data, self.ctrl, self.rmw, self.amo = addr, data, ctrl, rmw, amo


class Thread:
    """One run of a thread's function; choice: which of the possible values each load returned."""

    def __init__(self, domain, choice, with_ctrl):
        self.domain, self.choice, self.taken, self.width, self.with_ctrl = domain, choice, [], [], with_ctrl
        self.access, self.fences, self.at, self.ctrl, self.regs, self.done = [], [], 0, frozenset(), {}, False

    def _add(self, *args, **more):
        self.access.append(Access(self.at, *args, ctrl=self.ctrl, **more))
        self.at += 1
        return len(self.access) - 1

    def _pick(self, loc):
        values = self.domain.setdefault(loc, [0])
        i = self.choice[len(self.taken)] if len(self.taken) < len(self.choice) else 0
        self.taken.append(i)
        self.width.append(len(values))
        return values[i]

    def load(self, loc, order="", addr=None):
        """order: "" (ldr), "A" (ldar) or "Q" (ldapr). addr: a value that the address is computed from."""
        val = self._pick(loc)
        me = self._add("R", loc, val, order, addr=deps_of(addr))
        return Val(self, val, frozenset([me]))

    def store(self, loc, val, order="", addr=None, data=None):
        """order: "" (str) or "L" (stlr). data: a value that took part in the stored one without a trace."""
        self._add("W", loc, plain(val), order, addr=deps_of(addr), data=deps_of(val, data))

    def fence(self, name):
        """None: no fence."""
        if name:
            self.fences.append((self.at, name, self.ctrl))
            self.at += 1

    def exchange(self, loc, val, order="AL", amo=False, expected=None):
        """Atomic: exclusives (ldaxr, stlxr), or amo: one instruction (swpal, casal). expected: stores only if that was
        there."""
        old = self._pick(loc)
        read = self._add("R", loc, old, "A" if "A" in order else "", amo=amo)
        if expected is None or old == expected:
            self._add("W", loc, plain(val), "L" if "L" in order else "", data=deps_of(val), rmw=read, amo=amo)
        return Val(self, old, frozenset([read]))

    def fetch_add(self, loc, more, order="", amo=False):
        old = self._pick(loc)
        read = self._add("R", loc, old, "A" if "A" in order else "", amo=amo)
        self._add("W", loc, old + more, "L" if "L" in order else "", data=frozenset([read]), rmw=read, amo=amo)
        return Val(self, old, frozenset([read]))

    def wait(self, condition):
        """The run goes on only if it holds: a loop that waits for it, once it ends."""
        if not condition:
            raise Blocked

    def reg(self, name, value):
        """A value for the final condition."""
        self.regs[name] = plain(value)


def device(function):
    """Marks a thread as a device."""
    function.is_device = True
    return function


# ---- runs of one thread ------------------------------------------------------------------------------------

def _runs(function, domain, with_ctrl):
    """Every run of a thread, given what its loads may return; those that came to a wait in vain are not done, but have
    stored."""
    todo = [[]]
    while todo:
        choice = todo.pop()
        thread = Thread(domain, choice, with_ctrl)
        with contextlib.suppress(Blocked):
            function(thread)
            thread.done = True
        for i in range(len(choice), len(thread.taken)):
            todo += [thread.taken[:i] + [other] for other in range(1, thread.width[i])]
        yield thread


def all_runs(functions, init, with_ctrl):
    """Runs of every thread; loads may return whatever somebody stores, found by repeating until nothing new is stored,
    or as often as a value can be handed on: once by each store."""
    domain = {loc: [val] for loc, val in init.items()}
    for turn in itertools.count():
        before = {loc: len(values) for loc, values in domain.items()}
        runs = [list(_runs(function, domain, with_ctrl)) for function in functions]
        for access in (a for thread in itertools.chain(*runs) for a in thread.access if a.kind == "W"):
            values = domain.setdefault(access.loc, [0])
            if access.val not in values:
                values.append(access.val)
        stores = sum(max((sum(a.kind == "W" for a in t.access) for t in of), default=0) for of in runs)
        if turn > stores or before == {loc: len(values) for loc, values in domain.items()}:
            return [[thread for thread in of if thread.done] for of in runs]


