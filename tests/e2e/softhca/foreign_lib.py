#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""with-softhca in a folder that all users share: the library of a build folder that is another user's is not preloaded,
however new it is."""
import os
import shutil
import subprocess
import tempfile

import peers

STRANGER = 65533


def library(tree, build, owner):
    folder = os.path.join(tree, build, 'lib', 'softhca')
    os.makedirs(folder)
    path = shutil.copy(os.environ['SPW_SOFTHCA_LIB'], folder)
    for name in (folder, path):
        os.chown(name, owner, owner)
    return path


def preloaded(tool):
    env = {key: value for key, value in os.environ.items() if key != 'SPW_SOFTHCA_LIB'}
    return subprocess.run([tool, 'cat', '/proc/self/maps'], env=env, capture_output=True, text=True, check=False,
                          timeout=60)


def main():
    if os.geteuid():
        peers.skip('needs root')
    with tempfile.TemporaryDirectory(prefix='spw-') as tree:
        os.makedirs(os.path.join(tree, 'tools'))
        tool = shutil.copy(os.path.join(peers.ROOT, 'tools', 'with-softhca'), os.path.join(tree, 'tools'))
        own, foreign = library(tree, 'build-own', 0), library(tree, 'build-foreign', STRANGER)
        os.utime(own, (1, 1))
        done = preloaded(tool)
        if own not in done.stdout or foreign in done.stdout or "another user's" not in done.stderr:
            raise peers.Failed(f'{done.stdout}{done.stderr}')
        os.unlink(own)
        done = preloaded(tool)
        if done.returncode == 0 or foreign in done.stdout:
            raise peers.Failed(f'{done.stdout}{done.stderr}')


peers.main(main)
