# SPDX-License-Identifier: BSD-3-Clause
"""One-shot collectives between 2 to 8 ranks (coll/spw_coll.h), by ctypes: torch is used where a tensor is given, and
not needed.

    import spinwire_coll
    group = spinwire_coll.Group(rank, ranks, root='10.0.0.1:29600', secret='/etc/spinwire.secret', device='cuda')
    group.all_reduce(tensor)                       # in place, in the current stream
    group.all_gather(whole, tensor)
    total = group.all_reduced(tensor)              # a new tensor
    wide = group.all_gathered(tensor, dim=-1)      # likewise: one behind the other, along any dimension
    group.check(); group.close()                   # after a synchronize: how it went

With torch.distributed already up, from_torch() makes the group. A buffer is a contiguous tensor of torch or array of
NumPy (float32, bfloat16, float16), or any writable buffer of the CPU with dtype='f32', 'bf16' or 'f16'. On CUDA a call
returns when its kernel is launched; what went wrong shows in check(), and in every later call. A group is used by one
thread at a time, and by another that calls check(). libspinwire-coll.so is found beside this file, in $SPW_COLL_LIB, or
by the dynamic linker."""
import ctypes
import functools
import math
import os
import threading
import warnings

TYPES = {'f32': (0, 4), 'bf16': (1, 2), 'f16': (2, 2)}
TENSOR_TYPES = {'float32': 'f32', 'bfloat16': 'bf16', 'float16': 'f16'}
OPS = {'sum': 0, 'max': 1}
ALL_REDUCE, ALL_GATHER = 0, 1
EXCHANGE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Error(RuntimeError):
    """The group has ended; lost: ranks without which the others may open another."""

    def __init__(self, text, lost=()):
        super().__init__(text)
        self.lost = lost


class _XferConf(ctypes.Structure):  # struct spw_xfer_conf
    _fields_ = [('rails', ctypes.c_char_p), ('hca', ctypes.c_char_p), ('bind', ctypes.c_char_p),
                ('secret', ctypes.c_char_p),
                ('gid', ctypes.c_char_p), ('chunk_bytes', ctypes.c_uint32), ('exchange_ms', ctypes.c_uint32),
                ('gone_ms', ctypes.c_uint32),
                ('traffic_class', ctypes.c_uint8), ('timeout', ctypes.c_uint8), ('retry', ctypes.c_uint8)]


class _Conf(ctypes.Structure):  # struct spw_coll_conf
    _fields_ = [('rank', ctypes.c_uint32), ('rank_cnt', ctypes.c_uint32), ('exchange', ctypes.c_void_p),
                ('exchange_arg', ctypes.c_void_p),
                ('exec', ctypes.c_int), ('progress', ctypes.c_int), ('bytes_max', ctypes.c_uint32),
                ('timeout_ms', ctypes.c_uint32),
                ('join_ms', ctypes.c_uint32), ('xfer', _XferConf)]


class _TcpConf(ctypes.Structure):  # struct spw_coll_tcp_conf
    _fields_ = [('root', ctypes.c_char_p), ('rank', ctypes.c_uint32), ('rank_cnt', ctypes.c_uint32),
                ('timeout_ms', ctypes.c_uint32),
                ('secret', ctypes.c_char_p)]


class _Call(ctypes.Structure):  # struct spw_coll_call
    _fields_ = [('kind', ctypes.c_int), ('type', ctypes.c_int), ('op', ctypes.c_int), ('count', ctypes.c_uint64),
                ('in_', ctypes.c_void_p),
                ('out', ctypes.c_void_p)]


def _load():
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'libspinwire-coll.so')
    name = os.environ.get('SPW_COLL_LIB') or (beside if os.path.exists(beside) else 'libspinwire-coll.so')
    lib = ctypes.CDLL(name)
    pointer, u32 = ctypes.c_void_p, ctypes.c_uint32
    for call, args in {'open': [pointer, pointer], 'run': [pointer, pointer], 'launch': [pointer, pointer, pointer],
                       'error': [pointer],
                       'tcp_open': [pointer, pointer], 'tcp_exchange': [pointer, pointer, pointer,
                                                                        ctypes.c_size_t]}.items():
        getattr(lib, 'spw_coll_' + call).argtypes = args
    for call in ('close', 'abort', 'tcp_close'):
        function = getattr(lib, 'spw_coll_' + call)
        function.argtypes, function.restype = [pointer], None
    lib.spw_coll_lost.argtypes, lib.spw_coll_lost.restype = [pointer], u32
    lib.spw_err_text.restype = ctypes.c_char_p
    return lib


@functools.lru_cache
def _type_of(dtype):
    return TENSOR_TYPES.get(str(dtype).rpartition('.')[2])


class _Buffer:
    """Address, type and length of a tensor, an array or a buffer."""

    def __init__(self, thing, dtype, writable):
        self.cuda = False
        self.type = hasattr(thing, 'dtype') and _type_of(thing.dtype) or dtype
        if self.type not in TYPES:
            raise ValueError(f'a tensor of {", ".join(TENSOR_TYPES)}, or a buffer with dtype= one of '
                             f'{", ".join(TYPES)}')
        if hasattr(thing, 'data_ptr'):
            size, readonly = thing.numel() * thing.element_size(), False
            contiguous, self.cuda, self.at = thing.is_contiguous(), thing.is_cuda, thing.data_ptr()
        elif hasattr(thing, '__array_interface__'):
            size, contiguous, (self.at, readonly) = thing.nbytes, thing.flags.c_contiguous, \
                thing.__array_interface__['data']
        else:
            view = memoryview(thing).cast('B')
            size, readonly, contiguous = len(view), view.readonly, True
            self.kept = (ctypes.create_string_buffer(bytes(view), size) if readonly
                         else (ctypes.c_char * size).from_buffer(view))
            self.at = ctypes.addressof(self.kept)
        self.count, rest = divmod(size, TYPES[self.type][1])
        if not contiguous or readonly and writable or rest:
            raise ValueError('the tensor is not contiguous' if not contiguous else
                             f'{size} bytes are no whole number of {self.type}' if rest else 'the buffer is read-only')


def _contiguous(x):
    """x, or a copy of it that is contiguous; and what makes an empty one of another shape."""
    if hasattr(x, 'data_ptr'):
        return x.contiguous(), x.new_empty
    import numpy  # pylint: disable=import-outside-toplevel
    return x if x.flags.c_contiguous else x.copy(), functools.partial(numpy.empty, dtype=x.dtype)


class TcpExchange:
    """Brings bytes of all ranks together over TCP, as exchange= of a group does: called by all ranks alike, it returns
    the list of everyone's. root: 'host:port' of rank 0."""

    def __init__(self, root, rank, ranks, secret=None, timeout_ms=0):
        self.lib, self.ranks, self.handle = _load(), ranks, ctypes.c_void_p()
        if not (secret or rank or root.startswith(('127.', '[::1]', 'localhost:'))):
            warnings.warn(f'rank 0 listens on {root} without secret=: whoever reaches that port first may take a '
                          f'rank\'s place')
        conf = _TcpConf(root=root.encode(), rank=rank, rank_cnt=ranks, timeout_ms=timeout_ms,
                        secret=secret and os.fsencode(secret))
        self._must(self.lib.spw_coll_tcp_open(ctypes.byref(conf), ctypes.byref(self.handle)))

    def _must(self, status):
        if status:
            raise Error(self.lib.spw_err_text().decode(errors='replace'))

    def _exchange(self, mine):
        """All have as many bytes."""
        everyone = ctypes.create_string_buffer(len(mine) * self.ranks)
        self._must(self.lib.spw_coll_tcp_exchange(self.handle, mine, everyone, len(mine)))
        return [everyone.raw[i:i + len(mine)] for i in range(0, len(everyone), len(mine))]

    def __call__(self, mine):
        sizes = [int.from_bytes(size, 'little') for size in self._exchange(len(mine).to_bytes(8, 'little'))]
        parts = self._exchange(mine.ljust(max(1, *sizes), b'\0'))
        return [part[:size] for part, size in zip(parts, sizes)]

    def close(self):
        self.lib.spw_coll_tcp_close(self.handle)
        self.handle = ctypes.c_void_p()


class Group:
    """rank of ranks; they find each other by root ('host:port' of rank 0), or by exchange: a function that gets this
    rank's bytes and returns the list of all ranks' bytes. secret: a file of 16 to 256 bytes that all ranks have (mode
    600): nobody else can join, or change what root= brings together. rails: 'mlx5_0+mlx5_1'; None: found by itself."""

    def __init__(self, rank, ranks, root=None, exchange=None, device='cpu', rails=None, bind=None, secret=None,
                 bytes_max=0, timeout_ms=0,
                 join_ms=0, progress_thread=True):
        self.lib, self.rank, self.ranks, self.device, self.handle = _load(), rank, ranks, device, ctypes.c_void_p()
        self.lock = threading.RLock()  # of the handle: check() may come from a thread of its own
        tcp = None
        if device not in ('cpu', 'cuda') or not (root or exchange):
            raise ValueError("device 'cpu' or 'cuda'; root= or exchange=")
        if not exchange:
            exchange = tcp = TcpExchange(root, rank, ranks, secret, join_ms)
        self.failed = self.torch = None
        function = EXCHANGE(self._exchange_of(exchange))
        conf = _Conf(rank=rank, rank_cnt=ranks, exchange=ctypes.cast(function, ctypes.c_void_p),
                     exec=int(device == 'cuda'),
                     progress=int(not progress_thread), bytes_max=bytes_max, timeout_ms=timeout_ms, join_ms=join_ms,
                     xfer=_XferConf(rails=rails and rails.encode(), bind=bind and bind.encode(),
                                    secret=secret and os.fsencode(secret)))
        try:
            status = self.lib.spw_coll_open(ctypes.byref(conf), ctypes.byref(self.handle))
            if self.failed:
                raise self.failed
            self._must(status)
        finally:
            if tcp:
                tcp.close()

    def _exchange_of(self, exchange):
        def call(_, mine, everyone, size):
            try:
                whole = b''.join(exchange(ctypes.string_at(mine, size)))
                if len(whole) != size * self.ranks:
                    raise ValueError(f'exchange returned {len(whole)} bytes, not {self.ranks} times {size}')
                ctypes.memmove(everyone, whole, len(whole))
                return 0
            except Exception as why:  # pylint: disable=broad-except  (it may not pass through C; __init__ raises it)
                self.failed = why
                return -5
        return call

    def _stream(self):
        if not self.torch:
            import torch  # pylint: disable=import-outside-toplevel
            self.torch = torch
        return self.torch.cuda.current_stream().cuda_stream

    def _must(self, status):
        if status:
            raise Error(self.lib.spw_err_text().decode(errors='replace'), self.lost())

    def _must_be_open(self):
        if not self.handle:
            raise Error('the group is closed')

    def _call(self, kind, out, inp, op, dtype, stream):
        a = _Buffer(inp, dtype, out is inp)
        b = a if out is inp else _Buffer(out, dtype, True)
        if a.type != b.type or b.count != a.count * (self.ranks if kind == ALL_GATHER else 1):
            raise ValueError(f'{a.count} elements of {a.type} in, {b.count} of {b.type} out')
        if a.cuda != b.cuda or a.cuda != (self.device == 'cuda'):
            raise ValueError(f'this group is for buffers of {self.device}')
        call = _Call(kind, TYPES[a.type][0], OPS[op], a.count, a.at, b.at)
        if self.device == 'cuda' and stream is None:
            stream = self._stream()
        with self.lock:
            self._must_be_open()
            self._must(self.lib.spw_coll_launch(self.handle, ctypes.byref(call), stream) if self.device == 'cuda'
                       else self.lib.spw_coll_run(self.handle, ctypes.byref(call)))

    def all_reduce(self, data, op='sum', out=None, dtype=None, stream=None):
        """Into out, or in place. stream: an address of a CUDA stream; None: torch's current one."""
        self._call(ALL_REDUCE, data if out is None else out, data, op, dtype, stream)

    def all_gather(self, out, data, dtype=None, stream=None):
        """out has room for every rank's data, in the order of ranks."""
        self._call(ALL_GATHER, out, data, 'sum', dtype, stream)

    def bytes_taken(self, x):
        """Bytes of a tensor or an array that a call takes as it lies; 0: another type, device or layout."""
        try:
            a = _Buffer(x, None, False)
        except (ValueError, TypeError):
            return 0
        return a.count * TYPES[a.type][1] if a.cuda == (self.device == 'cuda') else 0

    def all_reduced(self, x, op='sum', dtype=None):
        """The same into a new tensor (torch: in the current stream, where it may be captured) or array of NumPy. x need
        not be contiguous."""
        x, new = _contiguous(x)
        out = new(x.shape)
        self.all_reduce(x, op, out, dtype)
        return out

    def all_gathered(self, x, dim=-1, dtype=None):
        """A new tensor or array: those of all ranks, one behind the other along dim. Not copied again if dim is 0, or
        all dimensions before it are 1."""
        if not -len(x.shape) <= dim < len(x.shape):
            raise ValueError(f'dimension {dim} of {len(x.shape)}')
        x, new = _contiguous(x)
        before, along, behind = (x.shape[:dim % len(x.shape)], x.shape[dim], x.shape[dim % len(x.shape) + 1:])
        whole = new((self.ranks, math.prod(before), along * math.prod(behind)))
        self.all_gather(whole, x, dtype)
        return whole.swapaxes(0, 1).reshape((*before, self.ranks * along, *behind))

    def check(self):
        """Raises Error if the group has ended. On CUDA after a synchronize. From any thread."""
        with self.lock:
            self._must_be_open()
            self._must(self.lib.spw_coll_error(self.handle))

    def lost(self):
        with self.lock:
            mask = self.lib.spw_coll_lost(self.handle) if self.handle else 0
        return [rank for rank in range(self.ranks) if mask >> rank & 1]

    def abort(self):
        """From any thread, but not beside close()."""
        if self.handle:
            self.lib.spw_coll_abort(self.handle)

    def close(self):
        with self.lock:
            if self.handle:
                self.lib.spw_coll_close(self.handle)
            self.handle = ctypes.c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def torch_exchange(of=None):
    """An exchange by torch.distributed between the ranks of a process group; None: all."""
    import torch.distributed as dist  # pylint: disable=import-outside-toplevel

    def exchange(mine):
        everyone = [None] * dist.get_world_size(of)
        dist.all_gather_object(everyone, mine, of)
        return everyone
    return exchange


def from_torch(device='cuda', **more):
    """A group of all ranks of torch.distributed, which only brings the addresses together."""
    import torch.distributed as dist  # pylint: disable=import-outside-toplevel
    return Group(dist.get_rank(), dist.get_world_size(), exchange=torch_exchange(), device=device, **more)
