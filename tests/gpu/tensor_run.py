#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""run [CASE...]: objects in the hands of those who have a GPU, on a machine with torch; CuPy, JAX and Numba where they
are. tests/gpu/tensor_bundle packs it. A publisher stands in for spinwire, in memory that the GPU maps; where the bundle
has spinwire itself, `resident` runs beside its kernel."""
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
os.environ["SPW_TENSOR_LIB"] = os.path.join(HERE, "libspinwire-tensor.so")
sys.path.insert(0, os.path.join(HERE, "python"))

import numpy  # noqa: E402
import spinwire  # noqa: E402
import torch  # noqa: E402

SLOW_CYCLES = 600_000_000  # some 0.3 s: an owner without order would rewrite every buffer many times
BUFFERS = 4


@contextlib.contextmanager
def published(kind="cuda-host", gap_us=1000, count=1_000_000):
    with tempfile.TemporaryDirectory(prefix="spinwire-") as folder:
        os.environ["RUNTIME_DIRECTORY"] = folder
        os.makedirs(os.path.join(folder, "dpdk", "one"))
        path = os.path.join(folder, "dpdk", "one", "dpdk_telemetry.v2")
        command = [os.path.join(HERE, "publisher"), path, "", "camera", str(BUFFERS), str(count), str(gap_us), kind]
        with subprocess.Popen(command) as process:
            while not os.path.exists(path):
                time.sleep(0.01)
            try:
                yield process
            finally:
                process.terminate()


def want(tensor, device="cuda"):
    return (tensor.receipt.id * 1000 + torch.arange(1024, dtype=torch.int32, device=device)).reshape(4, 256)


def torch_reads():
    """Each object is whole on the device, by DLPack and by __cuda_array_interface__, and on the CPU."""
    with published(), spinwire.open() as stream:
        assert stream.gpu == 0
        for _ in range(200):
            tensor = next(stream)
            got = torch.from_dlpack(tensor)
            assert got.is_cuda and got.dtype == torch.int32 and got.shape == (4, 256), got
            assert torch.equal(got, want(tensor)), tensor
            assert torch.equal(torch.as_tensor(tensor, device="cuda"), want(tensor)), tensor
            assert (numpy.asarray(tensor) == want(tensor, "cpu").numpy()).all()
            assert torch.equal(torch.utils.dlpack.from_dlpack(tensor.__dlpack__(dl_device=(1, 0))), want(tensor, "cpu"))


def has_module():
    """Whether the bundle has spinwire's CUDA module, which finds the GPU whose memory is shared."""
    found = os.path.exists(os.path.join(HERE, "libspinwire-cuda.so"))
    if not found:
        print("  left out: the bundle has no spinwire")
    return found


def own_memory():
    """Objects in the GPU's own memory, which another process made: torch reads every byte, NumPy is refused, streams
    are waited for, and the memory outlives its owner."""
    if not has_module():
        return
    with published("gpu") as publisher:
        with spinwire.open() as stream:
            assert stream.gpu == 0
            for _ in range(200):
                tensor = next(stream)
                assert torch.equal(torch.from_dlpack(tensor), want(tensor)), tensor
                assert torch.equal(torch.as_tensor(tensor, device="cuda"), want(tensor)), tensor
            with contextlib.suppress(TypeError):
                raise AssertionError(f"NumPy read {numpy.asarray(tensor)}")
            tensor.release()
            assert slow_read(stream, lambda tensor, side: torch.from_dlpack(tensor)), "rewritten under the kernel"
        with contextlib.suppress(spinwire.Error):
            spinwire.open(device="cpu")
            raise AssertionError("the CPU was let in")
        with spinwire.open() as stream:
            kept = [next(stream) for _ in range(BUFFERS - 1)]
            publisher.kill()
            publisher.wait()
            for tensor in kept:
                assert torch.equal(torch.from_dlpack(tensor), want(tensor)), tensor


def others_read(kind="cuda-host"):
    """CuPy, JAX and Numba, where they are."""
    with published(kind), spinwire.open() as stream:
        with contextlib.suppress(ImportError):
            import cupy  # pylint: disable=import-outside-toplevel
            for take in (cupy.from_dlpack, cupy.asarray):
                tensor = next(stream)
                assert (cupy.asnumpy(take(tensor)) == want(tensor, "cpu").numpy()).all()
            print("  CuPy", cupy.__version__)
        with contextlib.suppress(ImportError):
            import jax  # pylint: disable=import-outside-toplevel
            tensor = next(stream)
            array = jax.dlpack.from_dlpack(tensor)
            assert (numpy.asarray(array) == want(tensor, "cpu").numpy()).all(), array
            print("  JAX", jax.__version__)
        with contextlib.suppress(ImportError):
            from numba import cuda  # pylint: disable=import-outside-toplevel
            tensor = next(stream)
            assert (cuda.as_cuda_array(tensor).copy_to_host() == want(tensor, "cpu").numpy()).all()
            print("  Numba")


def others_read_own():
    if has_module():
        others_read("gpu")


def slow_read(stream, how):
    """A kernel that is slow to begin reads an object that Python has dropped: whether it found what was there."""
    side, tensor = torch.cuda.Stream(), next(stream)
    right, out = want(tensor), torch.zeros((4, 256), dtype=torch.int32, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(SLOW_CYCLES)  # pylint: disable=protected-access
        out.copy_(how(tensor, side))
    tensor.release()
    del tensor
    taken = 0
    while not side.query():
        next(stream).release()
        taken += 1
    torch.cuda.synchronize()
    assert taken > 4 * BUFFERS, f"only {taken} objects came meanwhile"
    return torch.equal(out, right)


def noted_later(tensor, side):
    got = torch.utils.dlpack.from_dlpack(tensor.__dlpack__(stream=1))
    tensor.record_stream(side)
    return got


def stream_order():
    """The buffer goes back when the stream that __dlpack__ or record_stream named is done, not before; a stream that
    nobody named is not waited for, so this test can fail."""
    with published(), spinwire.open() as stream:
        for _ in range(3):
            assert slow_read(stream, lambda tensor, side: torch.from_dlpack(tensor)), "rewritten under the kernel"
            assert slow_read(stream, noted_later), "rewritten although the stream was recorded"
        torn = not slow_read(stream, lambda tensor, side: torch.utils.dlpack.from_dlpack(tensor.__dlpack__(stream=1)))
        print("  an unnamed stream read", "another object" if torn else "the object by chance")


def graph():
    """Capturing a graph while objects come and go neither breaks the capture nor loses a buffer."""
    with published(), spinwire.open() as stream:
        static, out = (torch.zeros((4, 256), dtype=torch.int32, device="cuda") for _ in range(2))
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            out.copy_(static + torch.from_dlpack(next(stream)) * 0)
            next(stream).release()  # looks at events while the capture is on
        for _ in range(100):
            tensor = next(stream)
            static.copy_(torch.from_dlpack(tensor))
            captured.replay()
            assert torch.equal(out, want(tensor))


def late_deleter():
    """Tensors outlive their stream, and die on another thread; the next consumer finds all buffers."""
    with published():
        with spinwire.open() as stream:
            kept = [torch.from_dlpack(next(stream)) for _ in range(BUFFERS - 1)]
        values = [int(tensor[0, 0]) for tensor in kept]
        assert values == sorted(values) and all(value % 1000 == 0 for value in values), values
        thread = threading.Thread(target=kept.clear)
        thread.start()
        thread.join()
        with spinwire.open() as stream:
            assert len({next(stream).receipt.id for _ in range(20)}) == 20


def sums(objects, **kwargs):
    """The example whose kernel takes objects itself, started."""
    return subprocess.Popen([os.path.join(HERE, "sums"), "camera", str(objects)], stdout=subprocess.PIPE, text=True,
                            **kwargs)


def summed(process):
    """Every object that it added up is whole; how many there are, and whether its kernel missed its host."""
    lines = process.communicate(timeout=60)[0].splitlines()
    silent = lines[-1:] == ["the host was silent"]
    ids = []
    for line in lines[:-1] if silent else lines:
        number, state, total = line.split()
        data = int(number) * 1000 + numpy.arange(1024, dtype=numpy.int32)
        assert int(total) == data.view(numpy.uint8).sum(dtype=numpy.uint64), line
        assert state == ("partial" if int(number) % 2 else "complete"), line
        ids.append(int(number))
    assert ids == sorted(set(ids)) and process.returncode == 0, process.returncode
    return len(ids), silent


def ring():
    """A kernel takes objects itself, one launch for all: until it has enough, until the stream ends, and until its host
    is silent; then another takes from the same stream."""
    signal.alarm(120)
    with published(gap_us=100):
        assert summed(sums(5000)) == (5000, False)
        process = sums(1_000_000)
        time.sleep(2)
        process.send_signal(signal.SIGSTOP)
        time.sleep(2.5)
        process.send_signal(signal.SIGCONT)
        cnt, silent = summed(process)
        assert silent and cnt > 100, (cnt, silent)
        assert summed(sums(100)) == (100, False)
    with published(count=50):
        assert summed(sums(500))[0] <= 50
    signal.alarm(0)


# ---- spinwire itself, its kernel on the same GPU -------------------------------------------------------

MARK = "format: mark\nset: { packets: 32, payload: 1024 }\nbuffers: 16\npolicy: newest\n"
CONFIG = """ports:
  - spec: "mlx5:mlx5_0,mode=eth,udp=5357"
    objects: mark.yaml
executor: {{ kind: {executor} }}
memory: {{ slots: 4096, objects: {memory} }}
"""
SINK, SOURCE = "02:00:00:00:00:02", "02:00:00:00:00:01"


def card(folder, mac):
    """The beginning of a command on a software ConnectX; all in a folder share a cable."""
    return ["env", f"SPW_SOFTHCA_LIB={os.path.join(HERE, 'softhca.so')}", os.path.join(HERE, "with-softhca"), "--cable",
            f"shm:{os.path.basename(folder)}", "--mac", mac]


@contextlib.contextmanager
def fed(executor="cuda-persistent", memory="auto"):
    """A stream of objects whose rows are spinwire-gen's frames, from a spinwire that open() starts."""
    with tempfile.TemporaryDirectory(prefix="spinwire-") as folder:
        os.environ["RUNTIME_DIRECTORY"] = folder
        program = " ".join([*card(folder, SINK), os.path.join(HERE, "spinwire")])
        files = {"mark.yaml": MARK, "mark.conf.yaml": CONFIG.format(executor=executor, memory=memory),
                 "spinwire": f'#!/bin/sh\nexec {program} "$@"\n'}
        for name, text in files.items():
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(text)
        os.environ["SPINWIRE"] = os.path.join(folder, "spinwire")
        os.chmod(os.environ["SPINWIRE"], 0o755)
        source = [*card(folder, SOURCE), os.path.join(HERE, "spinwire-gen"), "--lcores", "0,1", "--no-huge", "-m",
                  "128", "--file-prefix", "source", "--", "--port", "mlx5:mlx5_0,mode=eth", "--dst-mac", SINK,
                  "--rate", "20kpps", "--size", "1066", "--flows", "1", "--echo", "no", "--seconds", "30s"]
        with spinwire.open(os.path.join(folder, "mark.conf.yaml")) as stream, \
                subprocess.Popen(source, stdout=subprocess.DEVNULL) as process:
            try:
                yield stream
            finally:
                process.send_signal(signal.SIGINT)


def mark_of(rows):
    """(run, flow, sequence) of the mark that each row begins with."""
    return [tuple(int.from_bytes(bytes(row[at:at + size]), "big") for at, size in ((4, 2), (6, 2), (8, 4)))
            for row in rows]


def resident(memory="auto"):
    """torch.cuda.synchronize beside spinwire's resident kernel, which is another process's, returns; the kernel goes on
    placing frames, and what it placed is whole."""
    if not os.path.exists(os.path.join(HERE, "spinwire")):
        print("  left out: the bundle has no spinwire")
        return
    signal.alarm(120)  # a hang ends loudly
    with fed(memory=memory) as stream:
        assert stream.gpu == 0, "the objects do not lie in memory that the GPU maps"
        for _ in range(50):
            tensor = stream.next(30)
            rows = torch.from_dlpack(tensor)
            begin = time.monotonic()
            torch.cuda.synchronize()
            took = time.monotonic() - begin
            assert took < 5, f"synchronize took {took:.1f} s"
            numbers = [mark[2] for mark in mark_of(rows.cpu().numpy())]
            if tensor.receipt.complete:
                assert numbers == list(range(32 * tensor.receipt.id, 32 * tensor.receipt.id + 32)), numbers
        print(f"  object {tensor.receipt.id}, {tensor.receipt.state}; the last synchronize took {took * 1e6:.0f} us")
    signal.alarm(0)


def resident_own():
    """The same, and the kernel writes into the GPU's own memory."""
    resident("gpu")


CASES = {case.__name__: case for case in (torch_reads, own_memory, others_read, others_read_own, stream_order, graph,
                                          late_deleter, ring, resident, resident_own)}
if __name__ == "__main__":
    print(torch.cuda.get_device_name(), "torch", torch.__version__, "numpy", numpy.__version__)
    for name in sys.argv[1:] or CASES:
        start = time.monotonic()
        CASES[name]()
        print(f"{name}: good, {time.monotonic() - start:.1f} s", flush=True)
