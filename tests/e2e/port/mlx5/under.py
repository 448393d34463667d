#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""under.py [--trap] PROGRAM [ARGS]: a test program of the mlx5 port under tools/with-softhca, with two devices on a
cable of its own and their control sockets at $SPW_TEST_CONTROL. What a card would not forgive fails the test; --trap
looks at BlueFlame too. $SPW_TEST_CARD: --as."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'softhca'))
import peers  # noqa: E402  (found by the line above)


def main():
    with tempfile.TemporaryDirectory(prefix='spw-') as folder:
        path = os.path.join(folder, 'c')
        trap = sys.argv[1] == '--trap'
        extra = [*peers.card('--devices', '2'), '--control', path, *(['--trap', 'blueflame'] if trap else [])]
        argv = peers.Fabric(extra=extra).argv(sys.argv[1 + trap:])
        text = peers.run(argv, float(os.environ.get('SPW_TEST_SECONDS', 280)), extra_env={'SPW_TEST_CONTROL': path})
        print(text)


peers.main(main)
