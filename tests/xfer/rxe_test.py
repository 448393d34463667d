#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""rxe_test.py PROGRAM...: tests of lib/xfer in the guest of tools/rxe-guest, over the kernel's own soft-RoCE (rxe0) as their only rail, and
as one of two beside the software ConnectX. They compare every byte; rxe_guest.sh looks at what rxe0 sent."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'softhca'))
import guest  # noqa: E402  (found by the line above)
import peers  # noqa: E402


def main():
    guest.need()
    programs, script = [os.path.abspath(p) for p in sys.argv[1:]], os.path.join(peers.ROOT, 'tests/xfer/rxe_guest.sh')
    names = [os.path.basename(p) + way for p in programs for way in ('_alone', '_of_two')]
    guest.phases(names, [script, guest.WITH_SOFTHCA, os.environ['SPW_SOFTHCA_LIB'], *programs], [script, *programs, *guest.softhca()])


peers.main(main)
