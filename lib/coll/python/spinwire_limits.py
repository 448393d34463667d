# SPDX-License-Identifier: BSD-3-Clause
"""Whether one-shot collectives are used, and up to which size: decided by all ranks alike, before the first use. A rank
that used spinwire while another does not would wait for it in vain.

    exchange = ...                                  # as of spinwire_coll.Group, of its own: the vote needs no group
    group, why = open_together(lambda exchange: Group(rank, ranks, exchange=exchange, device='cuda'), exchange)
    limit, line = faster_up_to(group, exchange, other, make, torch.cuda.synchronize)

Each word that ranks exchange begins with what it is: OPENING with bytes of spinwire_coll.Group, DONE with this rank's
result, or REFUSED with the reason. Ranks are at the same step if all have the same; else it is over for all of them, in
that very exchange."""
import statistics
import struct
import time

OPENING, DONE, REFUSED = b'+', b'=', b'-'
SIZES = [1 << power for power in range(10, 22)]  # bytes: 1 KB to 2 MB
ROW, TURNS = 16, 5  # calls that follow each other; how often each of both has its turn


class _Refused(Exception):
    """A rank cannot; the same text on every rank."""


def _vote(exchange, kind, what=b''):
    """What each rank says, if all say the same kind of word."""
    words = exchange(kind + what)
    for rank, word in enumerate(words):
        if word[:1] == REFUSED:
            raise _Refused(f'rank {rank}: {word[1:].decode(errors="replace")}')
    if {word[:1] for word in words} != {kind}:
        raise _Refused('ranks are not at the same step: do all have the same version?')
    return [word[1:] for word in words]


def _together(exchange, do):
    """Everyone's result of do(), or _Refused on every rank if it failed on one."""
    try:
        word = (DONE, do())
    except _Refused:
        raise
    except Exception as why:  # pylint: disable=broad-except  (whatever it is, the others have to know)
        word = (REFUSED, (str(why) or type(why).__name__).encode())
    return _vote(exchange, *word)


def open_together(open_group, exchange):
    """(group, '') on every rank, or on every rank (None, why). open_group(exchange) returns this rank's group. Raises
    what exchange raises: without it ranks cannot agree."""
    opened = []

    def do():
        opened.append(open_group(lambda mine: _vote(exchange, OPENING, mine)))
        return b''
    try:
        _together(exchange, do)
        return opened[0], ''
    except _Refused as why:
        for group in opened:
            group.close()
        return None, str(why)


def _row_us(call, x, synchronize, clock):
    synchronize()
    begin = clock()
    for _ in range(ROW):
        call(x)
    synchronize()
    return (clock() - begin) * 1e6 / ROW


def _times(calls, make, synchronize, clock):
    """Medians in us, for each of SIZES one of each call. Their turns alternate, so that both meet the same machine; a
    row before warms up."""
    found = []
    for size in SIZES:
        x = make(size)
        turns = [[_row_us(call, x, synchronize, clock) for call in calls] for _ in range(TURNS + 1)]
        found += map(statistics.median, zip(*turns[1:]))
    return found


def _size(size):
    return f'{size >> 10} KB' if size < 1 << 20 else f'{size >> 20} MB'


def faster_up_to(group, exchange, other, make, synchronize=lambda: None, clock=time.perf_counter):
    """(bytes, line): the largest of SIZES up to which group.all_reduced(x) is faster than other(x), 0 if it never is,
    and the times in one line; the same on every rank, whose slowest one counts. make(bytes) returns an x of zeros. A
    group that ends meanwhile has limit 0, and the line says why."""
    form = f'<{2 * len(SIZES)}d'
    try:
        everyone = _together(exchange, lambda: struct.pack(form, *_times((group.all_reduced, other), make, synchronize,
                                                                         clock)))
    except _Refused as why:
        return 0, str(why)
    slowest = [max(times) for times in zip(*(struct.unpack(form, word) for word in everyone))]
    limit, rows = 0, list(zip(SIZES, slowest[::2], slowest[1::2]))
    for size, ours, theirs in rows:
        if ours >= theirs:
            break
        limit = size
    return limit, (f'all_reduce by spinwire {"up to " + _size(limit) if limit else "never"}; us, spinwire/other: ' +
                   ', '.join(f'{_size(size)} {ours:.0f}/{theirs:.0f}' for size, ours, theirs in rows))
