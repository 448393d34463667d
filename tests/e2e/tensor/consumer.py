#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""consumer.py CASE CONFIG: one consumer of publisher.c's objects; an assertion that fails ends it with status 1. Cases
that are to be killed, or to meet others, print a line when they are where they are to be."""
import ctypes
import errno
import gc
import os
import signal
import sys
import time

import numpy
import spinwire
import spinwire.stream

COUNT = 20
FAKE_AT = 1 << 48  # tests/unit/tensor/fake_driver.h
LCORES = ("--lcores", "0@0,1@0")


def expect(tensor, number=None):
    """The object is the one that its receipt names, whole."""
    number = tensor.receipt.id if number is None else number
    assert tensor.receipt.id == number, f"object {tensor.receipt.id}, not {number}"
    want = number * 1000 + numpy.arange(1024, dtype=numpy.int32).reshape(4, 256)
    got = numpy.asarray(tensor)
    assert got.shape == (4, 256) and got.dtype == numpy.int32, (got.shape, got.dtype)
    assert (got == want).all(), f"object {number}: {got}"


def refused(call, number, *words):
    try:
        call()
    except spinwire.Error as error:
        assert error.errno == number, error
        assert all(word in str(error) for word in words), f"{words} in: {error}"
        return
    raise AssertionError("not refused")


def numpy_reads(config):
    """In order, each with its receipt, by both interfaces; the stream ends."""
    seen = 0
    with spinwire.open(config) as stream:
        assert (stream.name, stream.shape, stream.dtype, stream.gpu) == ("camera", (4, 256), "<i4", -1)
        for tensor in stream:
            expect(tensor, seen)
            whole = numpy.from_dlpack(tensor)
            assert (whole == numpy.asarray(tensor)).all()
            receipt = tensor.receipt
            assert receipt.complete == (seen % 2 == 0) and receipt.packets_present == 4 and receipt.packets_bad == 7
            assert receipt.cause == ("all" if receipt.complete else "deadline"), receipt
            assert receipt.missing == (() if receipt.complete else ((32, 48),)), receipt
            assert receipt.first_nic_ns == 5 and receipt.bytes_due == 4096 and receipt.missing_more == 0
            seen += 1
    assert seen == COUNT, seen
    assert stream.next() is None


def capsules(config):
    """Both forms, taken or not; nothing of them keeps the buffer once it is gone."""
    name = ctypes.pythonapi.PyCapsule_GetName
    name.argtypes, name.restype = [ctypes.py_object], ctypes.c_char_p
    with spinwire.open(config) as stream:
        for number in range(COUNT):  # more than there are buffers
            tensor = stream.next(5)
            assert tensor.__dlpack_device__() == (1, 0)
            assert name(tensor.__dlpack__(max_version=(1, 0))) == b"dltensor_versioned"
            kept = [tensor.__dlpack__(), tensor.__dlpack__(max_version=(0, 8), dl_device=(1, 0))]
            assert [name(one) for one in kept] == [b"dltensor"] * 2
            array = numpy.from_dlpack(tensor)
            tensor.release()
            assert array[0, 0] == number * 1000 and array[3, 255] == number * 1000 + 1023
            for wrong in ({"copy": True}, {"dl_device": (2, 0)}):
                try:
                    tensor.__dlpack__(**wrong)
                    raise AssertionError(f"not refused: {wrong}")
                except BufferError:
                    pass
            del kept, array


def stays_valid(config):
    """An object is not rewritten while anything that was made of it is there, whatever is published meanwhile."""
    with spinwire.open(config) as stream:
        kept = []
        for number in range(3):
            with stream.next(5) as tensor:
                kept.append(numpy.from_dlpack(tensor))
        for number in range(3, COUNT):
            stream.next(5).release()
            for old, array in enumerate(kept):
                assert array[0, 0] == old * 1000, f"object {old} was rewritten while {number} came"
    assert [array[3, 255] for array in kept] == [1023, 2023, 3023]  # after the end as well


def holds_for_ever(config):
    with spinwire.open(config) as stream:
        kept = [stream.next(5) for _ in range(stream.buffers)]
        try:
            stream.next(0.3)
            raise AssertionError("an object without a buffer")
        except TimeoutError:
            pass
        for number, tensor in enumerate(kept):
            expect(tensor, number)
        kept[1].release()
        expect(stream.next(5), stream.buffers)


def release_twice(config):
    """The second is refused, and harms neither this object nor the buffer's next one."""
    with spinwire.open(config) as stream:
        tensor = stream.next(5)
        raw, handle = tensor._raw, tensor._handle  # pylint: disable=protected-access
        tensor.release()
        tensor.release()
        others = [stream.next(5) for _ in range(stream.buffers)]
        quick = spinwire.stream._library()[1]  # pylint: disable=protected-access
        assert quick.spw_tensor_release(handle, ctypes.byref(raw)) == -errno.EALREADY
        assert b"released" in quick.spw_tensor_error()
        for number, other in enumerate(others):
            expect(other, number + 1)
        for use in (lambda: numpy.asarray(tensor.__array_interface__), tensor.__dlpack__):
            try:
                use()
                raise AssertionError("a released object is used")
            except ValueError:
                pass


def again(config):
    """One process, one stream after the other; a view keeps the first one's claim."""
    for number in range(2):
        with spinwire.open(config) as stream:
            tensor = stream.next(5)
            assert tensor.receipt.id == number
    with spinwire.open("camera") as stream:
        view = numpy.asarray(stream.next(5))
    refused(lambda: spinwire.open(config), errno.EBUSY, "camera", "this process")
    assert view[0, 0] == 2000
    del view
    gc.collect()
    with spinwire.open(config + ".description") as stream:
        expect(stream.next(5), 3)


def forked(config):
    """A child of fork() has the parent's objects in its memory: it can neither take nor release."""
    with spinwire.open(config) as stream:
        tensor = stream.next(5)
        array = numpy.from_dlpack(tensor)
        child = os.fork()
        if child == 0:
            try:
                refused(lambda: stream.next(1), errno.ECHILD)
                refused(tensor.release, errno.ECHILD)
                del array, tensor
                gc.collect()
                stream.close()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        for number in range(1, COUNT):
            expect(stream.next(5), number)
            assert array[0, 0] == 0 and (numpy.asarray(tensor) == array).all(), "the child gave it back"


def refuses(config):
    refused(lambda: spinwire.open("radio"), errno.ENOENT, "radio", "there is camera")
    refused(lambda: spinwire.open(config, stream="radio"), errno.EINVAL, "stream radio", "there is camera")
    refused(lambda: spinwire.open(config, device="cuda"), errno.ENOTSUP, "CUDA")
    for wrong in ("gpu", "cuda:x"):
        try:
            spinwire.open(config, device=wrong)
            raise AssertionError(f"device {wrong}")
        except ValueError:
            pass
    with spinwire.open() as stream:
        try:
            stream.next(5).record_stream(3)
            raise AssertionError("a CUDA stream on the CPU")
        except spinwire.Error as error:
            assert error.errno == errno.ENOTSUP
        assert not hasattr(stream.next(5), "__cuda_array_interface__")


def own_memory(config):
    refused(lambda: spinwire.open(config, device="cpu"), errno.ENOTSUP, "the CPU cannot read", "--object-memory")
    refused(lambda: spinwire.open(config, device="cuda:1"), errno.EINVAL, "GPU 0, not 1")
    with spinwire.open(config) as stream:
        for tensor, number in zip(stream, range(20)):
            assert tensor.receipt.id == number and tensor.__dlpack_device__() == (2, 0)
            address = tensor.__cuda_array_interface__["data"][0] - FAKE_AT
            got = numpy.ctypeslib.as_array((ctypes.c_int32 * 1024).from_address(address))
            assert (got == numpy.arange(1024) + number * 1000).all(), number
            for take, wrong in ((numpy.asarray, TypeError), (lambda t: t.__dlpack__(dl_device=(1, 0)), BufferError)):
                try:
                    take(tensor)
                    raise AssertionError("the CPU read it")
                except wrong:
                    pass
            tensor.__dlpack__()


def no_library(config):
    refused(lambda: spinwire.open(config), errno.ELIBACC, "nowhere.so", "spinwire-tools", "SPW_TENSOR_LIB")


def second(config):
    refused(lambda: spinwire.open(config), errno.EBUSY, "camera", "(pid ", "consumes it")


def two_streams(_):
    refused(spinwire.open, errno.EINVAL, "camera", "radio", "name one")
    with spinwire.open("radio") as radio, spinwire.open(stream="camera") as camera:
        expect(radio.next(5), 0)
        expect(camera.next(5), 0)


def dies_holding(config):
    stream = spinwire.open(config)
    kept = [stream.next(5), numpy.from_dlpack(stream.next(5))]
    print("holds", len(kept), flush=True)
    time.sleep(60)


def after_a_death(config):
    with spinwire.open(config) as stream:
        seen = [stream.next(5).receipt.id for _ in range(2 * stream.buffers)]
    assert seen == list(range(2, 2 + len(seen))), seen


def keeps_open(config):
    """Starts the spinwire of a stream, and leaves the stream to others; ends with SIGTERM."""
    child = spinwire.stream._Child(config, LCORES)  # pylint: disable=protected-access
    conf = spinwire.stream._Conf(None, None, child.prefix.encode(), 1, -1)  # pylint: disable=protected-access
    child.attach(lambda prefix: spinwire.Stream(conf)).close()
    print("open", flush=True)
    signal.sigwait([signal.SIGTERM])
    child.stop()


def drains(config):
    with spinwire.open(config) as stream:
        seen = []
        try:
            while True:
                seen.append(stream.next(0.5).receipt.id)
        except TimeoutError:
            print(*seen)


def wait_for_full():
    """Until the publisher has found no free buffer."""
    mark = os.path.join(os.environ["RUNTIME_DIRECTORY"], "dpdk", "camera", "dpdk_telemetry.v2.full")
    end = time.monotonic() + 20
    while not os.path.exists(mark):
        assert time.monotonic() < end, "a buffer is still free"
        time.sleep(0.01)


def owner_dies(config):
    """What was published can still be read; then the error names the process."""
    with spinwire.open(config) as stream:
        first = stream.next(5)
        wait_for_full()
        os.kill(stream.pid, 9)
        time.sleep(0.1)
        seen = []
        refused(lambda: seen.extend(iter(stream)), errno.EOWNERDEAD, "camera", str(stream.pid), "died")
        assert len(seen) == stream.buffers - 1, seen
        for number, tensor in enumerate([first, *seen]):
            expect(tensor, number)


def starts(config):
    """Nobody publishes it: a spinwire is started, and ended."""
    with spinwire.open(config, eal=LCORES) as stream:
        expect(stream.next(5), 0)
        pid = stream.pid
        if "stay" in config:
            print("child", pid, flush=True)
            time.sleep(60)
    assert not os.path.exists(f"/proc/{pid}"), "it still runs"


def interrupted(config):
    """Ctrl-C reaches the process group of the terminal: the spinwire that was started is ended by close() alone."""
    try:
        with spinwire.open(config, eal=LCORES) as stream:
            stream.next(5).release()
            os.kill(0, signal.SIGINT)
            time.sleep(60)
    except KeyboardInterrupt:
        assert stream._child.process.returncode in (0, -signal.SIGTERM)  # pylint: disable=protected-access
        return
    raise AssertionError("no signal")


def silent(config):
    """What has waited long without an object says so once. None is published while all buffers are held."""
    with spinwire.open(config) as stream:
        _kept = [stream.next(5) for _ in range(stream.buffers)]
        stream._silent_at = 1e-9  # pylint: disable=protected-access
        for _ in range(2):
            try:
                stream.next(0.1)
            except TimeoutError:
                print("nothing")


def starts_in_vain(config):
    refused(lambda: spinwire.open(config), errno.ECHILD, "ended with status 1", config)


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2])
