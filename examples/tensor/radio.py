#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""radio.py CONFIG [OBJECTS]: where a radio's strongest carrier is. Objects are float32 [samples, 2], I and Q."""
import sys

import spinwire

try:
    import numpy
except ImportError:
    sys.exit("it needs NumPy: apt install python3-numpy")

RATE_HZ = 1_000_000


def strongest(samples):
    """(Hz, dB above the mean) by a windowed FFT."""
    wave = samples[:, 0] + 1j * samples[:, 1]
    power = numpy.abs(numpy.fft.fft(wave * numpy.hanning(len(wave)))) ** 2
    best = int(power.argmax())
    return numpy.fft.fftfreq(len(wave), 1 / RATE_HZ)[best], 10 * numpy.log10(power[best] / power.mean())


def main(config, objects=10):
    with spinwire.open(config, device="cpu") as stream:
        for tensor in stream:
            hertz, above = strongest(numpy.asarray(tensor))
            print(f"block {tensor.receipt.id}: {tensor.receipt.state}, {hertz:.0f} Hz, {above:.1f} dB", flush=True)
            objects = int(objects) - 1
            if objects == 0:
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
