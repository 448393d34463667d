#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The build that tools/with-softhca makes by itself where nothing has been built: of the library alone, without DPDK. A
folder of lib/ that the library needs must be named in meson.build for it."""
import os
import tempfile

import peers


def main():
    with tempfile.TemporaryDirectory(prefix='spw-') as folder:
        peers.run(['meson', 'setup', '-Dsofthca_only=true', '-Doptimization=0', folder, peers.ROOT], 60)
        peers.run(['ninja', '-C', folder], 200)
        for name in ('libspinwire-softhca.so', 'softhca-check'):
            if not os.access(os.path.join(folder, 'lib', 'softhca', name), os.R_OK):
                raise peers.Failed(f'{name} was not built')


peers.main(main)
