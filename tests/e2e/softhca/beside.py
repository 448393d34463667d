#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The software ConnectX inside a machine that has a real RDMA device: tools/with-softhca in the guest of
tools/rxe-guest, whose kernel has an rxe0. beside_guest.sh does the work and names each phase."""
import os

import guest
import peers

PHASES = ['plain', 'emulated_first', 'emulated_named', 'untouched', 'both_listed', 'five_listed', 'side_by_side',
          'real_under_the_library',
          'same_name']


def main():
    guest.need()
    script, with_softhca = os.path.join(peers.ROOT, 'tests/e2e/softhca/beside_guest.sh'), guest.WITH_SOFTHCA
    guest.phases(PHASES, [script, with_softhca, os.environ['SPW_SOFTHCA_LIB']], [script, *guest.softhca()])


peers.main(main)
