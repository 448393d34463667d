#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tensor_rank.py RANK RANKS DEVICE PORT: one rank of tensors_test.py. New tensors of all_reduced and all_gathered, as
arrays of NumPy and, where there is one, as tensors of torch: every bit is compared with what this rank computes from
everyone's input, which it knows."""
import contextlib
import os
import sys
import threading

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', '..', 'lib', 'coll', 'python'))
import spinwire_coll  # noqa: E402  (found by the line above)

SHAPES = [(5,), (1, 6), (3, 4, 5), (2, 0, 3), (64, 100)]  # the last one takes several rounds


class NumPy:
    types = ['float32', 'float16']

    @staticmethod
    def tensor(values, dtype):
        return values.astype(dtype)

    @staticmethod
    def values(tensor):
        return tensor.astype('float32')

    @staticmethod
    def address(tensor):
        return tensor.__array_interface__['data'][0]


class Torch:
    types = ['float32', 'float16', 'bfloat16']

    def __init__(self, torch):
        self.torch = torch

    def tensor(self, values, dtype):
        return self.torch.from_numpy(numpy.ascontiguousarray(values)).to(getattr(self.torch, dtype))

    @staticmethod
    def values(tensor):
        return tensor.float().numpy()

    @staticmethod
    def address(tensor):
        return tensor.data_ptr()


def inputs(kit, ranks, shape, dtype, seed):
    """Each rank's, of the type; thirds, so that sums are rounded."""
    made = [numpy.random.RandomState(seed + rank).randint(-999, 999, shape).astype('float32') / 3
            for rank in range(ranks)]
    return [kit.tensor(values, dtype) for values in made]


def total(kit, parts, dtype):
    """In the order of ranks, in f32, rounded once."""
    acc = kit.values(parts[0])
    for part in parts[1:]:
        acc = acc + kit.values(part)
    return kit.values(kit.tensor(acc, dtype))


def must_be(kit, what, got, want, like):
    if got.dtype != like.dtype or tuple(got.shape) != want.shape or kit.values(got).tobytes() != want.tobytes():
        raise SystemExit(f'WRONG: {what}: {got} instead of {want}')


def check_shape(group, kit, shape, dtype, seed):
    parts = inputs(kit, group.ranks, shape, dtype, seed)
    mine, what = parts[group.rank], f'{type(kit).__name__}, {shape}, {dtype}'
    before = kit.values(mine).tobytes()
    must_be(kit, f'sum of {what}', group.all_reduced(mine), total(kit, parts, dtype), mine)
    most = numpy.maximum.reduce([kit.values(part) for part in parts])
    must_be(kit, f'max of {what}', group.all_reduced(mine, 'max'), most, mine)
    for dim in range(-len(shape), len(shape)):
        want = numpy.concatenate([kit.values(part) for part in parts], dim)
        must_be(kit, f'{what} along {dim}', group.all_gathered(mine, dim), want, mine)
    if kit.values(mine).tobytes() != before:
        raise SystemExit(f'WRONG: {what}: the input was changed')


def check_strides(group, kit):
    """Inputs that are not contiguous."""
    for view in (lambda x: x.T, lambda x: x[:, ::2], lambda x: x[1:, 1:3]):
        parts = [view(part) for part in inputs(kit, group.ranks, (6, 4), 'float32', 77)]
        mine = parts[group.rank]
        must_be(kit, 'sum of a view', group.all_reduced(mine), total(kit, parts, 'float32'), mine)
        want = numpy.concatenate([kit.values(part) for part in parts], -1)
        must_be(kit, 'gather of a view', group.all_gathered(mine), want, mine)


def check_no_copy(group, kit):
    """What lies as all_gather wrote it is returned as it lies."""
    wrote, gather = [], group.all_gather
    group.all_gather = lambda out, *rest: (wrote.append(kit.address(out)), gather(out, *rest))
    for shape, dim, same in (((3, 4), 0, True), ((1, 4), 1, True), ((3, 4), 1, False)):
        got = group.all_gathered(inputs(kit, 1, shape, 'float32', 1)[0], dim)
        if (kit.address(got) == wrote.pop()) != same:
            raise SystemExit(f'WRONG: {shape} along {dim}: copied although it need not be, or the other way round')
    group.all_gather = gather


def refused(text, call, *args):
    try:
        call(*args)
    except (ValueError, spinwire_coll.Error) as why:
        if text in str(why):
            return
        raise
    raise SystemExit(f'WRONG: {args} was not refused: {text}')


def check_refusals(group):
    good = numpy.zeros(4, 'float32')
    refused('a tensor of float32', group.all_reduced, good.astype('float64'))
    refused('dimension 1 of 1', group.all_gathered, good, 1)
    refused('dimension -2 of 1', group.all_gathered, good, -2)
    refused('dimension -1 of 0', group.all_gathered, good[0])
    refused('not contiguous', group.all_reduce, good[::2])
    good.flags.writeable = False
    refused('read-only', group.all_reduce, good)
    group.all_reduced(good)


@contextlib.contextmanager
def checked(group):
    """Another thread asks all the while how the group is."""
    stop, failed = threading.Event(), []

    def ask():
        while not stop.wait(0.001) and not failed:
            try:
                group.check()
            except spinwire_coll.Error as why:
                failed.append(why)
    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failed:
        raise failed[0]


def check_all(group, kit, shapes):
    for seed, shape in enumerate(shapes):
        for dtype in kit.types:
            check_shape(group, kit, shape, dtype, 10 * seed)
    check_strides(group, kit)
    check_no_copy(group, kit)
    check_refusals(group)


def main():
    rank, ranks = map(int, sys.argv[1:3])
    device, port = sys.argv[3:]
    kits = [NumPy()]
    with contextlib.suppress(ImportError):
        import torch  # pylint: disable=import-outside-toplevel
        kits.append(Torch(torch))
    for bytes_max, shapes in ((4096, SHAPES), (0, [(1300000,)])):  # the latter: 5 MB, in rounds of 2 MB
        with spinwire_coll.Group(rank, ranks, root=f'127.0.0.1:{port}', rails=device, bind='127.0.0.1:0',
                                 bytes_max=bytes_max, timeout_ms=20000) as group, checked(group):
            for kit in kits:
                check_all(group, kit, shapes)
        for call, args in ((group.check, ()), (group.all_reduced, (numpy.zeros(4, 'float32'),))):
            refused('the group is closed', call, *args)
    print('good:', *(type(kit).__name__ for kit in kits), flush=True)


main()
