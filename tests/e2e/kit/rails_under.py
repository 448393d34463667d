#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""under.py PROGRAM [ARGS]: a test of lib/xfer under tools/with-softhca, with $SPW_TEST_DEVICES devices (4) on a cable
of its own, their control socket at $SPW_TEST_CONTROL, and $SPW_TEST_OPTIONS of with-softhca. What a card would not
forgive fails the test."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'softhca'))
import peers  # noqa: E402  (found by the line above)


def main():
    with tempfile.TemporaryDirectory(prefix='spw-') as folder:
        path = os.path.join(folder, 'c')
        extra = ['--devices', os.environ.get('SPW_TEST_DEVICES', '4'), '--control', path,
                 *os.environ.get('SPW_TEST_OPTIONS', '').split()]
        text = peers.run(peers.Fabric(extra=extra).argv(sys.argv[1:]), float(os.environ.get('SPW_TEST_SECONDS', 110)),
                         extra_env={'SPW_TEST_CONTROL': path})
        print(text)


peers.main(main)
