#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_flight_corpus.py SPINWIRE FOLDER TEST...: short recordings for fuzz_flight, made by spinwire itself, by
mlx5_record_test those with raw CQEs, by pipe_backend_test one with two executors: each kind of record is in one."""
import os
import subprocess
import sys

CASES = {
    "inline_echo": ["--port", "null:size=64,rate=20k,stamps=1", "--executor", "inline", "--handler", "echo"],
    "snap": ["--port", "null:size=64,rate=20k", "--executor", "inline", "--handler", "crc32c", "--record-snap", "16B"],
    "cpu_sink": ["--port", "null:size=64,rate=20k,stamps=1", "--executor", "cpu", "--handler", "sum", "--batches", "4"],
}


def main():
    for name, args in CASES.items():
        path = os.path.join(sys.argv[2], name)
        subprocess.run([sys.argv[1], "-l", "0,1", "--no-huge", "-m", "64", "--no-pci", "--file-prefix", "corpus", "--",
                        *args, "--frames", "60",
                        "--slow-threshold", "1us", "--record", path, "--record-rule", "end"], check=True,
                       stdout=subprocess.DEVNULL)
    for test in sys.argv[3:]:
        subprocess.run([test, sys.argv[2]], check=True)


if __name__ == "__main__":
    main()
