#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""own_tests.py UNDER BUILD PLUGIN FILTER: those of NIXL's own gtest that FILTER names, as NIXL was built in BUILD, with
PLUGIN where they look for UCX: in a folder of BUILD that a NIXL built without UCX does not have. They fail as well if
NIXL logs a warning that they do not expect."""
import os
import sys

SKIP = 77


def main(under, build, plugin, which):
    gtest = os.path.join(build, "test", "gtest", "gtest")
    place = os.path.join(build, "src", "plugins", "ucx")
    link = os.path.join(place, "libplugin_UCX.so")
    if not os.path.exists(gtest):
        print(f"skipped: no {gtest}: build NIXL with its tests (libgtest-dev, libgmock-dev; buildtype=debug)")
        return SKIP
    if os.path.exists(link) and not os.path.islink(link):
        print(f"skipped: {link} is NIXL's: build it with -Denable_plugins=POSIX")
        return SKIP
    os.makedirs(place, exist_ok=True)
    if os.path.islink(link):
        os.unlink(link)
    os.symlink(os.path.abspath(plugin), link)
    os.environ["NIXL_PLUGIN_DIR"] = place
    os.execv(sys.executable, [sys.executable, under, gtest, "--gtest_filter=" + which])


sys.exit(main(*sys.argv[1:]))
