#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""vllm_rank.py RANK RANKS DEVICE PORT: one rank of tensors_test.py. The plugin of vLLM in a tree of modules that has
vLLM's names (vllm_tree), with arrays of NumPy for tensors: torch's part is one class, which is replaced here. Who sums
which array, what happens if one rank cannot, and if one is lost."""
import importlib
import importlib.metadata
import logging
import os
import sys
import threading
import time

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', '..', '..', 'lib', 'coll', 'python'), os.path.join(HERE, 'vllm_tree')]
import spinwire_coll  # noqa: E402  (found by the line above)
import spinwire_limits  # noqa: E402
import spinwire_vllm  # noqa: E402

SECONDS = 60


class Ranks:
    """A process group, as far as the tree uses one."""

    def __init__(self, rank, ranks, port):
        self.rank, self.ranks = rank, ranks
        self.exchange = spinwire_coll.TcpExchange(f'127.0.0.1:{port}', rank, ranks)

    def summed(self, x):
        parts = [numpy.frombuffer(part, x.dtype).reshape(x.shape) for part in self.exchange(x.tobytes())]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total


class Platform:
    """spinwire_vllm.Platform without torch."""
    kind = 'cpu'

    def __init__(self, comm):
        self.exchange = comm.cpu_group.exchange

    @staticmethod
    def zeros(size):
        return numpy.zeros(size // 4, 'float32')

    @staticmethod
    def synchronize():
        pass


class Log(logging.Handler):
    lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def must(right, *what):
    if not right:
        raise SystemExit(f'WRONG: {what}, {Log.lines}')


def said(text):
    found = any(text in line for line in Log.lines)
    Log.lines.clear()
    return found


def module():
    return importlib.import_module(spinwire_vllm.MODULE)


def check_unknown_layouts():
    """A tree with other names stays as it is."""
    real, name = module().CudaCommunicator, spinwire_vllm.MODULE

    class NoSlot(real):
        def all_reduce(self, input_):
            return self.cpu_group.summed(input_)

    class NoName(real):
        def __init__(self, cpu_group, device=None):
            super().__init__(cpu_group, device)
    for other, text in ((NoSlot, '(ca_comm, custom_all_reduce, disabled, should_custom_ar)'),
                        (NoName, '(unique_name)')):
        before = other.__init__
        module().CudaCommunicator = other
        must(not spinwire_vllm.register() and said(text) and other.__init__ is before, text)
    del module().CudaCommunicator
    must(not spinwire_vllm.register() and said('CudaCommunicator'), 'no class')
    module().CudaCommunicator = real
    spinwire_vllm.MODULE = name + '_of_another_name'
    must(not spinwire_vllm.register() and said('No module named'), 'no module')
    spinwire_vllm.MODULE = name


def load_as_vllm_does():
    points = [point for point in importlib.metadata.entry_points(group='vllm.general_plugins')
              if point.name == 'spinwire']
    must(points and points[0].load() is spinwire_vllm.register, points)
    must(spinwire_vllm.register() and spinwire_vllm.register(), 'not in place')  # vLLM may call it again


def communicator(ranks, name='tp:0'):
    return module().CudaCommunicator(ranks, 'cpu', None, unique_name=name)


def check_left_alone(ranks):
    """Groups within a host, other groups, and a rank that cannot."""
    kept = module().CustomAllreduce
    must(isinstance(communicator(ranks).ca_comm, kept) and said('ranks of'), 'within a host')
    spinwire_vllm.boot_id = lambda: str(ranks.rank).encode()
    must(communicator(ranks, 'pp:0').ca_comm is None and not Log.lines, 'pipeline')
    if ranks.rank == 1:
        os.environ['SPINWIRE_TIMEOUT_MS'] = 'soon'
    must(isinstance(communicator(ranks).ca_comm, kept), 'a rank that cannot')
    must(ranks.rank or said("rank 1: invalid literal for int() with base 10: 'soon'; not used"), 'its reason')
    os.environ['SPINWIRE_TIMEOUT_MS'] = '20000'
    os.environ['SPINWIRE_LIMIT_BYTES'] = '0' if ranks.rank == 1 else '4096'
    must(isinstance(communicator(ranks).ca_comm, kept), 'limit 0 of one rank')


def data(ranks, count, dtype='float32'):
    return ((numpy.arange(count) + 1) * (ranks.rank + 1) / 3).astype(dtype)


def check_dispatch(ranks):
    os.environ['SPINWIRE_LIMIT_BYTES'] = '4096' if ranks.rank else '8192'  # the smallest one counts
    comm = communicator(ranks)
    own, theirs = comm.ca_comm, comm.ca_comm.before
    must(isinstance(own, spinwire_vllm.OneShot) and own.limit == 4096, 'not in its place')
    must(ranks.rank or said('up to 4096 bytes'), 'line')
    theirs.disabled = False
    with own.capture():
        must(theirs.capturing, 'vLLM\'s own is to know, too')
        for x, who in ((data(ranks, 1024), 'spinwire'), (data(ranks, 1025), 'pynccl'),
                       (data(ranks, 2048, 'float16'), 'spinwire'), (data(ranks, 2049, 'float16'), 'pynccl'),
                       (data(ranks, 64)[::2], 'pynccl'), (data(ranks, 8, 'int32'), 'pynccl'),
                       (data(ranks, 8, 'float64'), 'custom')):
            before = {'pynccl': comm.calls, 'custom': theirs.calls, 'spinwire': 0}
            got = comm.all_reduce(x)
            now = {'pynccl': comm.calls, 'custom': theirs.calls, 'spinwire': 0}
            must([name for name in now if now[name] != before[name]] == ([who] if who != 'spinwire' else []), x, who)
            must(x.dtype == 'float16' or got.tobytes() == ranks.summed(x).tobytes(), x, got)
            must(numpy.allclose(got.astype('float64'), ranks.summed(x.astype('float64')), rtol=1e-3), x, got)
    must(not theirs.capturing, 'captured')
    thread = own.thread
    del own
    comm.ca_comm = None  # as vLLM's destroy()
    must(not thread.is_alive(), 'the thread goes on')


def check_measured(ranks):
    del os.environ['SPINWIRE_LIMIT_BYTES']
    spinwire_limits.ROW, spinwire_limits.TURNS, spinwire_limits.SIZES = 2, 1, [1024, 2048]
    comm = communicator(ranks)
    used = isinstance(comm.ca_comm, spinwire_vllm.OneShot)
    everyone = ranks.exchange(f'{used} {used and comm.ca_comm.limit}'.encode())
    must(len(set(everyone)) == 1, everyone)
    must(ranks.rank or said('us, spinwire/other: 1 KB'), 'line')


def must_raise(comm, x, lost):
    try:
        comm.all_reduce(x)
    except spinwire_coll.Error as why:
        must(why.lost == [lost] and f'rank {lost} (' in str(why), why, why.lost)
    else:
        must(False, 'no error')


def check_lost(ranks):
    """The last rank is lost. Rank 1 notices by a call, rank 0 by its thread, as steps of a CUDA graph call nothing
    here; from then on every call raises, and who goes on is aborted."""
    aborted = threading.Event()
    spinwire_vllm.abort = aborted.set
    os.environ['SPINWIRE_LIMIT_BYTES'] = '4096'
    comm = communicator(ranks)
    comm.all_reduce(data(ranks, 8))
    ranks.exchange(b'all have called')
    last = ranks.ranks - 1
    if ranks.rank == last:
        print('good: lost', flush=True)
        os._exit(0)
    if ranks.rank:
        must_raise(comm, data(ranks, 8), last)
    end = time.monotonic() + SECONDS
    while not comm.ca_comm.ended and time.monotonic() < end:
        time.sleep(0.01)
    must(said('restart all ranks'), 'the thread did not notice')
    must_raise(comm, data(ranks, 8), last)
    must_raise(comm, data(ranks, 100000), last)  # what others would sum, too
    must(aborted.wait(SECONDS) and said('is aborted'), 'it goes on')


def main():
    rank, count = map(int, sys.argv[1:3])
    os.environ.update(SPINWIRE_RAILS=sys.argv[3], SPINWIRE_BIND='127.0.0.1:0')
    spinwire_vllm.log.addHandler(Log())
    spinwire_vllm.log.setLevel(logging.INFO)
    spinwire_vllm.Platform = Platform
    ranks = Ranks(rank, count, sys.argv[4])
    check_unknown_layouts()
    load_as_vllm_does()
    check_left_alone(ranks)
    check_dispatch(ranks)
    check_measured(ranks)
    check_lost(ranks)
    print('good: the plugin', flush=True)


main()
