# SPDX-License-Identifier: BSD-3-Clause
"""The objects that a spinwire assembles from frames, as tensors without a copy:

    import spinwire, torch
    with spinwire.open("camera.conf.yaml") as stream:
        for tensor in stream:
            model(torch.from_dlpack(tensor))

open() attaches to the running spinwire that publishes the stream, or starts one that ends with the stream. A tensor has
shape, dtype, receipt; NumPy takes it by numpy.asarray, all who know DLPack or __cuda_array_interface__ by those. Its
buffer goes back when the tensor, and all that was made of it, is gone, and what CUDA streams read of it is done.

libspinwire-tensor.so (tensor/spw_tensor.h) does the work: $SPW_TENSOR_LIB, or where the dynamic linker finds it."""
import contextlib
import ctypes
import errno
import functools
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import typing
import weakref

DL_CPU, DL_CUDA = 1, 2
KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}  # DLPack's type codes that NumPy has as well
DEVICES = {None: 0, "cpu": 1, "cuda": 2}
SLICE_NS = 100_000_000  # a signal is handled between two waits
START_S, STOP_S = 60, 20
SILENT_S = 3  # without a first object, until that is said
_numbers = itertools.count()


class Error(OSError):
    """What libspinwire-tensor.so, or a spinwire that was started here, reports."""


# ---- the library -------------------------------------------------------------------------------------

class _Conf(ctypes.Structure):  # struct spw_tensor_conf
    _fields_ = [("of", ctypes.c_char_p), ("stream", ctypes.c_char_p), ("prefix", ctypes.c_char_p),
                ("device", ctypes.c_int), ("gpu", ctypes.c_int32)]


class _Object(ctypes.Structure):  # struct spw_tensor
    _fields_ = [("data", ctypes.c_void_p), ("cuda", ctypes.c_uint64), ("receipt", ctypes.c_void_p),
                ("generation", ctypes.c_uint64), ("buffer", ctypes.c_uint32)]


class _Export(ctypes.Structure):  # struct spw_tensor_export
    _fields_ = [("versioned", ctypes.c_bool), ("cuda", ctypes.c_bool), ("cuda_stream", ctypes.c_size_t)]


class _Shape(ctypes.Structure):  # struct spw_obj_shape
    _fields_ = [("type_code", ctypes.c_uint8), ("type_bits", ctypes.c_uint8), ("ndim", ctypes.c_uint16),
                ("dim", ctypes.c_int64 * 8), ("stride", ctypes.c_int64 * 8), ("bytes", ctypes.c_uint64)]


class _Page(ctypes.Structure):  # struct spw_obj_page, as far as it is written once
    _fields_ = [("magic", ctypes.c_uint64), ("version", ctypes.c_uint32), ("buffer_cnt", ctypes.c_uint32),
                ("object_bytes", ctypes.c_uint64), ("buffer_stride", ctypes.c_uint64), ("page_bytes", ctypes.c_uint64),
                ("tsc_hz", ctypes.c_uint64), ("name", ctypes.c_char * 64), ("shape", _Shape)]


_COUNTS = ("packets_present", "packets_duplicate", "packets_late", "packets_shed", "packets_bad", "bytes_due",
           "bytes_present", "bytes_duplicate", "bytes_overlap")


class _Receipt(ctypes.Structure):  # struct spw_obj_receipt
    _fields_ = [("id", ctypes.c_uint64), ("generation", ctypes.c_uint64), ("state", ctypes.c_uint32),
                ("cause", ctypes.c_uint32), *((name, ctypes.c_uint64) for name in _COUNTS),
                ("first_nic", ctypes.c_uint64), ("last_nic", ctypes.c_uint64), ("nic_unc_ns", ctypes.c_uint64),
                ("open_tsc", ctypes.c_uint64), ("close_tsc", ctypes.c_uint64), ("publish_tsc", ctypes.c_uint64),
                ("range_cnt", ctypes.c_uint32), ("range_more", ctypes.c_uint32), ("range", ctypes.c_uint64 * 2 * 16)]


@functools.lru_cache(None)
def _library():
    """(calls that may wait, calls that keep Python's lock, Python's own)."""
    name = os.environ.get("SPW_TENSOR_LIB", "libspinwire-tensor.so")
    try:
        waits, quick, python = ctypes.CDLL(name), ctypes.PyDLL(name), ctypes.PyDLL(None)
    except OSError as error:
        raise Error(errno.ELIBACC, f"{error}: install spinwire-tools, or after meson install run ldconfig; "
                    "SPW_TENSOR_LIB names another file") from None
    pointer = ctypes.c_void_p
    for call, args, result in (("open", [pointer, pointer], ctypes.c_int), ("close", [pointer], None),
                               ("next", [pointer, ctypes.c_int64, pointer], ctypes.c_int)):
        function = getattr(waits, "spw_tensor_" + call)
        function.argtypes, function.restype = args, result
    for call, args, result in (("page", [pointer], ctypes.POINTER(_Page)), ("pid", [pointer], ctypes.c_int32),
                               ("gpu", [pointer], ctypes.c_int32), ("release", [pointer, pointer], ctypes.c_int),
                               ("record", [pointer, pointer, ctypes.c_size_t], ctypes.c_int),
                               ("dlpack", [pointer, pointer, pointer, pointer], ctypes.c_int),
                               ("error", [], ctypes.c_char_p), ("state_name", [ctypes.c_uint32], ctypes.c_char_p),
                               ("cause_name", [ctypes.c_uint32], ctypes.c_char_p),
                               ("capsule_name", [ctypes.c_bool], pointer),
                               ("capsule_calls", [pointer, pointer], None)):
        function = getattr(quick, "spw_tensor_" + call)
        function.argtypes, function.restype = args, result
    python.PyCapsule_New.argtypes, python.PyCapsule_New.restype = [pointer, pointer, pointer], ctypes.py_object
    quick.spw_tensor_capsule_calls(ctypes.cast(python.PyCapsule_IsValid, pointer),
                                   ctypes.cast(python.PyCapsule_GetPointer, pointer))
    return waits, quick, python


def _must(status):
    if status:
        text = _library()[1].spw_tensor_error().decode(errors="replace")
        raise (TimeoutError if status == -errno.ETIMEDOUT else Error)(-status, text)


# ---- objects -----------------------------------------------------------------------------------------

class Receipt(typing.NamedTuple):
    """What is known of an object. Times are ns of the machine's counter; NIC stamps too, 0: none."""
    id: int
    state: str  # complete, partial
    cause: str
    packets_present: int
    packets_duplicate: int
    packets_late: int
    packets_shed: int
    packets_bad: int
    bytes_due: int
    bytes_present: int
    bytes_duplicate: int
    bytes_overlap: int
    first_nic_ns: int
    last_nic_ns: int
    nic_unc_ns: int
    open_ns: int
    close_ns: int
    publish_ns: int
    missing: tuple  # (from, to): bytes of the object on the wire
    missing_more: int  # ranges beyond these

    @property
    def complete(self):
        return self.state == "complete"


def _receipt(address, tsc_hz):
    quick, raw = _library()[1], _Receipt.from_address(address)
    return Receipt(raw.id, quick.spw_tensor_state_name(raw.state).decode(),
                   quick.spw_tensor_cause_name(raw.cause).decode(), *(getattr(raw, name) for name in _COUNTS),
                   raw.first_nic, raw.last_nic, raw.nic_unc_ns,
                   *(tsc * 1_000_000_000 // tsc_hz for tsc in (raw.open_tsc, raw.close_tsc, raw.publish_tsc)),
                   tuple(tuple(raw.range[i]) for i in range(min(raw.range_cnt, 16))), raw.range_more)


class Tensor:
    """An object. release(), or the end of `with`, gives it back before Python finds that it is gone."""

    def __init__(self, stream, handle, raw):
        self._stream, self._handle, self._raw = stream, handle, raw
        self._viewed = False  # by an interface that does not say when its user is done
        self.receipt = _receipt(raw.receipt, stream.tsc_hz)

    shape = property(lambda self: self._stream.shape)
    dtype = property(lambda self: self._stream.dtype)

    def _object(self):
        if self._raw is None:
            raise ValueError("the object was released")
        return ctypes.byref(self._raw)

    def __dlpack_device__(self):
        return (DL_CPU, 0) if self._stream.gpu < 0 else (DL_CUDA, self._stream.gpu)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        _, quick, python = _library()
        own = self.__dlpack_device__()
        device = own if dl_device is None else tuple(map(int, dl_device))
        here = (own, (DL_CPU, 0)) if self._raw and self._raw.data else (own,)
        if copy or device not in here:
            raise BufferError("an object is handed over without a copy, and where it is")
        versioned = max_version is not None and max_version[0] >= 1
        how = _Export(versioned, device[0] == DL_CUDA, max(stream or 1, 1))
        managed = ctypes.c_void_p()
        _must(quick.spw_tensor_dlpack(self._handle, self._object(), ctypes.byref(how), ctypes.byref(managed)))
        return python.PyCapsule_New(managed, quick.spw_tensor_capsule_name(versioned),
                                    ctypes.cast(quick.spw_tensor_capsule_free, ctypes.c_void_p))

    def _interface(self, address):
        if not self._stream.dtype:
            raise AttributeError("NumPy has no such type: use DLPack")
        self._object()
        self._viewed = True
        return {"shape": self._stream.shape, "typestr": self._stream.dtype, "data": (address, False), "version": 3,
                "strides": self._stream.strides}

    @property
    def __array_interface__(self):
        if self._raw and not self._raw.data:  # NumPy would make an array of one Python object of an AttributeError
            raise TypeError("the object lies in a GPU's own memory: torch.from_dlpack(tensor).cpu() copies it")
        return self._interface(self._raw and self._raw.data)

    @property
    def __cuda_array_interface__(self):
        if self._stream.gpu < 0:
            raise AttributeError("this stream's objects are for the CPU")
        self.record_stream(1)  # who reads it does not say in which stream
        return {**self._interface(self._raw.cuda), "stream": None}

    def record_stream(self, stream):
        """Kernels in that CUDA stream read the object: a number, or a stream of torch, CuPy, Numba."""
        for name in ("cuda_stream", "ptr", "handle"):
            stream = getattr(stream, name, stream)
        _must(_library()[1].spw_tensor_record(self._handle, self._object(), int(getattr(stream, "value", stream))))

    def release(self):
        """What was made of it by DLPack stays valid; arrays of NumPy's interface do not."""
        raw, self._raw = self._raw, None
        if raw is not None:
            _must(_library()[1].spw_tensor_release(self._handle, ctypes.byref(raw)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()

    def __del__(self):
        with contextlib.suppress(Error, TypeError, AttributeError):  # a forked child; the interpreter's end
            self.release()

    def __repr__(self):
        return f"<spinwire.Tensor {self.receipt.id} {self.shape} {self.dtype} {self.receipt.state}>"


# ---- a spinwire of our own ---------------------------------------------------------------------------

class _Child:
    """`spinwire --config FILE`, which ends with this process, however that ends. The kernel sends its signal when the
    thread ends that started the child, so that is one which waits for it. Ctrl-C is for this process: the child has a
    session of its own, because a second signal after that of stop() would end it before its frames are back."""

    def __init__(self, config, eal):
        program = os.environ.get("SPINWIRE") or shutil.which("spinwire")
        if not program:
            raise Error(errno.ENOENT, "nobody publishes it, and spinwire is not in PATH: install it, or SPINWIRE=FILE")
        self.prefix = f"spinwire-{os.getpid()}-{next(_numbers)}"
        self.command = [program, "--file-prefix", self.prefix, *eal, "--", "--config", config]
        self.process, self.failed, self._started = None, None, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._started.wait()
        if self.failed:
            raise self.failed

    def _run(self):
        tied = ["setpriv", "--pdeathsig", "TERM", "sh", "-c", 'test "$PPID" = "$0" && exec "$@"', str(os.getpid())]
        try:
            # pylint: disable-next=consider-using-with  (it outlives this function's callers)
            self.process = subprocess.Popen([*tied, *self.command], stdin=subprocess.DEVNULL, stdout=2,
                                            start_new_session=True)
        except OSError as error:
            self.failed = Error(error.errno, f"{tied[0]}: {error.strerror}")
        self._started.set()
        if self.process:
            self.process.wait()

    def attach(self, make):
        """make(prefix), until it finds the stream."""
        until = time.monotonic() + START_S
        while True:
            try:
                return make(self.prefix)
            except Error as error:
                if error.errno != errno.ENOENT:
                    raise
            self.check()
            if self.process.poll() is not None:
                raise Error(errno.ECHILD, f"{' '.join(self.command)}: ended, and published no objects")
            if time.monotonic() > until:
                raise Error(errno.ETIMEDOUT, f"{' '.join(self.command)}: publishes no objects within {START_S} s")
            time.sleep(0.02)

    def check(self):
        """It runs, or has ended well."""
        status = self.process.poll()
        if status not in (None, 0, 128 + signal.SIGTERM, -signal.SIGTERM):
            raise Error(errno.ECHILD, f"{' '.join(self.command)}: ended with status {status}, and says why on stderr")

    def stop(self):
        self.process.terminate()
        self._thread.join(STOP_S)
        if self._thread.is_alive():
            self.process.kill()
            self._thread.join()
        top = "/var/run" if os.geteuid() == 0 else os.environ.get("XDG_RUNTIME_DIR", "/tmp")
        with contextlib.suppress(OSError):  # EAL leaves it, empty
            os.rmdir(os.path.join(os.environ.get("RUNTIME_DIRECTORY", top), "dpdk", self.prefix))


# ---- streams -----------------------------------------------------------------------------------------

class Stream:
    """What open() returns: iterate over it, or call next(timeout_s)."""

    def __init__(self, conf, child=None):
        waits, quick, _ = _library()
        handle = ctypes.c_void_p()
        _must(waits.spw_tensor_open(ctypes.byref(conf), ctypes.byref(handle)))
        self._handle, self._child, self._alive = handle, child, weakref.WeakSet()
        page = quick.spw_tensor_page(handle).contents
        shape, item = page.shape, page.shape.type_bits // 8
        self.name, self.tsc_hz, self.buffers = page.name.decode(), page.tsc_hz, page.buffer_cnt
        self.pid, self.gpu = quick.spw_tensor_pid(handle), quick.spw_tensor_gpu(handle)
        self.shape = tuple(shape.dim[:shape.ndim])
        self.strides = tuple(stride * item for stride in shape.stride[:shape.ndim])
        kind = KINDS.get(shape.type_code) if item else None
        self._silent_at = time.monotonic() + SILENT_S  # None: an object came, or the line was printed
        self.dtype = f"{'|' if item == 1 else '<'}{kind}{item}" if kind else None  # NumPy's, None: it has none

    def next(self, timeout_s=None):
        """The next Tensor; None: the stream has ended. TimeoutError."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while self._handle:
            left = SLICE_NS if until is None else max(0, min(SLICE_NS, int((until - time.monotonic()) * 1e9)))
            raw = _Object()
            status = _library()[0].spw_tensor_next(self._handle, left, ctypes.byref(raw))
            if status == 0:
                tensor = Tensor(self, self._handle, raw)
                self._alive.add(tensor)
                self._silent_at = None
                return tensor
            if status == -errno.EPIPE:
                break
            self._warn_silent()
            if status != -errno.ETIMEDOUT or (until is not None and time.monotonic() >= until):
                _must(status)
        return None

    def _warn_silent(self):
        if self._silent_at and time.monotonic() > self._silent_at:
            self._silent_at = None
            print(f"spinwire: still waiting for the first object of {self.name} (spinwire is process {self.pid}): does "
                  "its sender run, with the ports of the description? spinwire-top shows what arrives",
                  file=sys.stderr, flush=True)

    def __iter__(self):
        return self

    def __next__(self):
        tensor = self.next()
        if tensor is None:
            raise StopIteration
        return tensor

    def close(self):
        """Tensors that nothing was made of are released, others stay until that is gone."""
        handle, self._handle = self._handle, None
        if not handle:
            return
        for tensor in list(self._alive):
            if not tensor._viewed:  # pylint: disable=protected-access
                tensor.release()
        if self._child:
            self._child.stop()
        _library()[0].spw_tensor_close(handle)
        if self._child:
            self._child.check()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        with contextlib.suppress(Error, TypeError, AttributeError):
            self.close()


def open(of=None, stream=None, device=None, prefix=None, eal=()):  # pylint: disable=redefined-builtin
    """A Stream of what `of` names: a spinwire's --config, a description of objects, or a stream; None: the only one
    that runs. A config that no running spinwire has is started, with the EAL arguments `eal`.

    stream   its name, where the config has several
    device   "cpu", "cuda", "cuda:1": who reads the objects; None: a GPU if they lie in memory of kind cuda-* or gpu
    prefix   EAL's file prefix of the spinwire that is meant"""
    kind, _, gpu = (device or "").partition(":")
    if (kind or None) not in DEVICES:
        raise ValueError(f"device {device}: cpu, cuda or cuda:NUMBER")

    def make(name, prefix, child=None):
        text = [value if value is None else os.fsencode(value) for value in (name, stream, prefix)]
        return Stream(_Conf(*text, DEVICES[kind or None], int(gpu or -1)), child)
    try:
        return make(of, prefix)
    except Error as error:
        if error.errno != errno.ENOENT or of is None or prefix:
            raise
        if not os.path.isfile(of):
            raise Error(errno.ENOENT, f"{error.strerror}; to start one, name the file of a config: there is no file "
                        f"{os.fspath(of)}") from None
    child = _Child(os.fspath(of), eal)
    try:
        return child.attach(lambda own: make(None, own, child))
    except BaseException:
        child.stop()
        raise
