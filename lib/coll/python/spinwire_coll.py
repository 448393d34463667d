# SPDX-License-Identifier: BSD-3-Clause
"""One-shot collectives between 2 to 8 ranks (coll/spw_coll.h), by ctypes: torch is used where a tensor is given, and
not needed.

    import spinwire_coll
    group = spinwire_coll.Group(rank, ranks, root='10.0.0.1:29600', secret='/etc/spinwire.secret', device='cuda')
    group.all_reduce(tensor)                       # in place, in the current stream
    group.all_gather(whole, tensor)
    group.check(); group.close()                   # after a synchronize: how it went

With torch.distributed already up, from_torch() makes the group. A buffer is a contiguous tensor (float32, bfloat16,
float16), or any writable buffer of the CPU with dtype='f32', 'bf16' or 'f16'. On CUDA a call returns when its kernel is
launched; what went wrong shows in check(), and in every later call. libspinwire-coll.so is found beside this file, in
$SPW_COLL_LIB, or by the dynamic linker."""
import ctypes
import functools
import os
import warnings

TYPES = {'f32': (0, 4), 'bf16': (1, 2), 'f16': (2, 2)}
TORCH_TYPES = {'torch.float32': 'f32', 'torch.bfloat16': 'bf16', 'torch.float16': 'f16'}
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
def _torch_type(dtype):
    return TORCH_TYPES.get(str(dtype))


class _Buffer:
    """Address, type and length of a tensor or of a buffer."""

    def __init__(self, thing, dtype, writable):
        if hasattr(thing, 'data_ptr'):
            if not thing.is_contiguous():
                raise ValueError('the tensor is not contiguous')
            self.type, self.cuda, self.at = _torch_type(thing.dtype), thing.is_cuda, thing.data_ptr()
            self.count = thing.numel()
        else:
            view = memoryview(thing).cast('B')
            self.type, self.cuda = dtype, False
            if self.type in TYPES and len(view) % TYPES[self.type][1]:
                raise ValueError(f'{len(view)} bytes are no whole number of {self.type}')
            self.count = len(view) // TYPES[self.type][1] if self.type in TYPES else 0
            kept = (ctypes.c_char * len(view)).from_buffer(view) if not view.readonly else None
            if kept is None:
                if writable:
                    raise ValueError('the buffer is read-only')
                kept = ctypes.create_string_buffer(bytes(view), len(view))
            self.kept, self.at = kept, ctypes.addressof(kept)
        if self.type not in TYPES:
            raise ValueError(f'a tensor of {", ".join(TORCH_TYPES)}, or a buffer with dtype= one of {", ".join(TYPES)}')


class Group:
    """rank of ranks; they find each other by root ('host:port' of rank 0), or by exchange: a function that gets this
    rank's bytes and returns the list of all ranks' bytes. secret: a file of 16 to 256 bytes that all ranks have (mode
    600): nobody else can join, or change what root= brings together. rails: 'mlx5_0+mlx5_1'; None: found by itself."""

    def __init__(self, rank, ranks, root=None, exchange=None, device='cpu', rails=None, bind=None, secret=None,
                 bytes_max=0, timeout_ms=0,
                 join_ms=0, progress_thread=True):
        self.lib, self.rank, self.ranks, self.device, self.handle = _load(), rank, ranks, device, ctypes.c_void_p()
        tcp = ctypes.c_void_p()
        if device not in ('cpu', 'cuda') or not (root or exchange):
            raise ValueError("device 'cpu' or 'cuda'; root= or exchange=")
        if not exchange:
            if not (secret or rank or root.startswith(('127.', '[::1]', 'localhost:'))):
                warnings.warn(f'rank 0 listens on {root} without secret=: whoever reaches that port first may take a '
                              f'rank\'s place')
            tcp_conf = _TcpConf(root=root.encode(), rank=rank, rank_cnt=ranks, timeout_ms=join_ms,
                                secret=secret and os.fsencode(secret))
            self._must(self.lib.spw_coll_tcp_open(ctypes.byref(tcp_conf), ctypes.byref(tcp)))
        self.failed = self.torch = None
        function = EXCHANGE(self._exchange_of(exchange)) if exchange else self.lib.spw_coll_tcp_exchange
        conf = _Conf(rank=rank, rank_cnt=ranks, exchange=ctypes.cast(function, ctypes.c_void_p), exchange_arg=tcp,
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
            self.lib.spw_coll_tcp_close(tcp)

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

    def _call(self, kind, out, inp, op, dtype, stream):
        if not self.handle:
            raise Error('the group is closed')
        a = _Buffer(inp, dtype, out is inp)
        b = a if out is inp else _Buffer(out, dtype, True)
        if a.type != b.type or b.count != a.count * (self.ranks if kind == ALL_GATHER else 1):
            raise ValueError(f'{a.count} elements of {a.type} in, {b.count} of {b.type} out')
        if a.cuda != b.cuda or a.cuda != (self.device == 'cuda'):
            raise ValueError(f'this group is for buffers of {self.device}')
        call = _Call(kind, TYPES[a.type][0], OPS[op], a.count, a.at, b.at)
        if self.device == 'cuda':
            if stream is None:
                stream = self._stream()
            self._must(self.lib.spw_coll_launch(self.handle, ctypes.byref(call), stream))
        else:
            self._must(self.lib.spw_coll_run(self.handle, ctypes.byref(call)))

    def all_reduce(self, data, op='sum', out=None, dtype=None, stream=None):
        """Into out, or in place. stream: an address of a CUDA stream; None: torch's current one."""
        self._call(ALL_REDUCE, data if out is None else out, data, op, dtype, stream)

    def all_gather(self, out, data, dtype=None, stream=None):
        """out has room for every rank's data, in the order of ranks."""
        self._call(ALL_GATHER, out, data, 'sum', dtype, stream)

    def check(self):
        """Raises Error if the group has ended. On CUDA after a synchronize."""
        self._must(self.lib.spw_coll_error(self.handle))

    def lost(self):
        mask = self.lib.spw_coll_lost(self.handle) if self.handle else 0
        return [rank for rank in range(self.ranks) if mask >> rank & 1]

    def abort(self):
        """From any thread."""
        self.lib.spw_coll_abort(self.handle)

    def close(self):
        if self.handle:
            self.lib.spw_coll_close(self.handle)
        self.handle = ctypes.c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def from_torch(device='cuda', **more):
    """A group of all ranks of torch.distributed, which only brings the addresses together."""
    import torch.distributed as dist  # pylint: disable=import-outside-toplevel

    def exchange(mine):
        everyone = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, mine)
        return everyone
    return Group(dist.get_rank(), dist.get_world_size(), exchange=exchange, device=device, **more)
