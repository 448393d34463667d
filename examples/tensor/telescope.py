#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""telescope.py CONFIG [HEAPS]: from which direction a telescope's antennas hear something: beams are sums of all
antennas, each turned by its phase. Heaps are int8 [antennas, channels, times, 2]; antennas stand in a line, half a wave
apart. What is missing of a heap is zero and adds nothing."""
import sys

import spinwire

try:
    import numpy
except ImportError:
    sys.exit("it needs NumPy: apt install python3-numpy")

BEAMS = 33


def weights(antennas):
    """[beams, antennas]: sines of direction from -1 to 1."""
    sine = numpy.linspace(-1, 1, BEAMS)
    return numpy.exp(-1j * numpy.pi * numpy.outer(sine, numpy.arange(antennas)))


def directions(heap):
    """Power of each beam, over all channels and times."""
    voltage = heap[..., 0].astype(numpy.float32) + 1j * heap[..., 1]
    beams = numpy.tensordot(weights(len(voltage)), voltage, axes=1)
    return (numpy.abs(beams) ** 2).mean(axis=(1, 2))


def main(config, heaps=10):
    with spinwire.open(config, device="cpu") as stream:
        for tensor in stream:
            power = directions(numpy.asarray(tensor))
            best = numpy.linspace(-1, 1, BEAMS)[power.argmax()]
            print(f"heap {tensor.receipt.id}: {tensor.receipt.state}, strongest from {best:.4f}, "
                  f"{power.max() / power.mean():.1f} times the mean", flush=True)
            heaps = int(heaps) - 1
            if heaps == 0:
                break


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except spinwire.Error as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
