#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The software ConnectX inside a machine that has a real RDMA device: tools/with-softhca in the guest of tools/rxe-guest, whose kernel
has an rxe0. beside_guest.sh does the work and names each phase."""
import glob
import os
import re
import subprocess
import time

import guest
import peers

PHASES = ['plain', 'emulated_first', 'emulated_named', 'untouched', 'both_listed', 'five_listed', 'side_by_side', 'real_under_the_library',
          'same_name']
SECONDS = float(os.environ.get('SPW_RXE_SECONDS', 500))


def provider():
    """Of libmlx5, and the file that makes libibverbs load it."""
    where = subprocess.run(['pkg-config', '--variable=libdir', 'libibverbs'], capture_output=True, text=True, check=True).stdout.strip()
    found = glob.glob(f'{where}/libibverbs/libmlx5-rdmav*.so')
    if not found:
        peers.skip('no libmlx5 (ibverbs-providers)')
    return [*found, '/etc/libibverbs.d/mlx5.driver']


def main():
    guest.need()
    script, library = os.path.join(peers.ROOT, 'tests/softhca/beside_guest.sh'), os.environ['SPW_SOFTHCA_LIB']
    with_softhca = os.path.join(peers.ROOT, 'tools/with-softhca')
    files = [script, with_softhca, library, os.path.join(os.path.dirname(library), 'softhca-check'), *provider()]
    with peers.together():
        vm = guest.start(f'sh {script} {with_softhca} {library}', SECONDS, carry=files)
        vm.wait(time.monotonic() + SECONDS + 20)
        peers.report(vm)
        ended = dict(re.findall(r'^PHASE (\w+) (.*)$', vm.output(), re.M))
        failed = [f'{name}: {ended.get(name, "did not run")}' for name in PHASES if ended.get(name) != 'ok']
        if failed or vm.p.returncode:
            raise peers.Failed('; '.join(failed) or f'exit status {vm.p.returncode}')


peers.main(main)
