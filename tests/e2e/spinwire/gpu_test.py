#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A GPU that is there and cannot be used: the run goes on without it and says why; one that was asked for is refused.
The driver is the tests' own, on which the CUDA runtime does not start."""
import os

import spwtest
from spwtest import Run, check, spwlab

HAVE_CUDA = os.environ["SPW_HAVE_CUDA"] == "1"
RTX, QUADRO, TITAN = "8.9 NVIDIA GeForce RTX 4090", "7.5 Quadro RTX 6000", "7.0 NVIDIA TITAN V"
PACKAGE = ["cannot be used", "libspinwire-cuda.so", "install spinwire-cuda", "nvidia-cuda-toolkit", "CUDA_HOME"]


def driver(folder, gpu, more):
    os.symlink(os.environ["SPW_FAKE_CUDA"], os.path.join(folder, "libcuda.so.1"))
    return {**os.environ, "LD_LIBRARY_PATH": folder, "FAKE_GPU": gpu, **more}


def goes_on(gpu, *words, **more):
    with spwlab.scratch() as folder:
        with Run(["--port", "null", "--frames", "1000"], env=driver(folder, gpu, more)) as run:
            summary = run.finish()
            check(summary["executor"]["kind"] in ("cpu", "inline"), "the run goes on without the GPU")
            why = summary["executor"]["why"]
            for word in (gpu[4:], *words):
                check(word in why, f"{word!r} in {why!r}")
            check(run.output().count(f": {why}") > 0, "the log says it too")


def refused(gpu, *words, **more):
    with spwlab.scratch() as folder:
        with Run(["--port", "null", "--executor", "cuda-graph"], env=driver(folder, gpu, more)) as run:
            run.finish(status=2)
            spwtest.one_line(run, "executor cuda-graph", gpu[4:], *words)


def test_ada():
    goes_on(RTX, *(["the CUDA runtime cannot use it"] if HAVE_CUDA else PACKAGE))


def test_turing():
    goes_on(QUADRO, *(["the CUDA runtime cannot use it"] if HAVE_CUDA else PACKAGE))


def test_volta():
    goes_on(TITAN, "compute capability 7.0", "7.5 or later")


def test_asked_for():
    refused(RTX, *(["the CUDA runtime cannot use it"] if HAVE_CUDA else PACKAGE))
    refused(TITAN, "compute capability 7.0", "7.5 or later")


def test_no_module():
    """As after the installation of the package spinwire alone."""
    goes_on(RTX, *PACKAGE, SPW_CUDA_MODULE="/nowhere/libspinwire-cuda.so")
    refused(RTX, *PACKAGE, SPW_CUDA_MODULE="/nowhere/libspinwire-cuda.so")


if __name__ == "__main__":
    spwtest.main(spwtest.tests_of(globals()))
