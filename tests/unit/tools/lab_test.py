#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/lib/spwlab.py: the rights over software devices of who is not root, and one line where there are none."""
import os
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools", "lib"))
import spwlab  # noqa: E402  (found by the line above)

FORBIDDEN = "unshare: write failed /proc/self/uid_map: Operation not permitted"


class Rights(unittest.TestCase):
    def rights(self, uid, unshare):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "unshare")
            with open(path, "w", encoding="ascii") as file:
                file.write(f"#!/bin/sh\n{unshare}\n")
            os.chmod(path, 0o755)
            with mock.patch.dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}"), \
                    mock.patch("os.geteuid", return_value=uid):
                return spwlab.user_rights()

    def test_root_needs_none(self):
        self.assertEqual(self.rights(0, "exit 1"), ())

    def test_namespace(self):
        self.assertEqual(self.rights(1000, "exit 0")[:3], ("unshare", "-r", "env"))

    def test_forbidden(self):
        with self.assertRaises(OSError) as caught:
            self.rights(1000, f"echo '{FORBIDDEN}' >&2; exit 1")
        text = str(caught.exception)
        self.assertTrue(text.startswith(FORBIDDEN), text)
        self.assertIn("sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0", text)
        self.assertNotIn("\n", text)


class OwnCard(unittest.TestCase):
    """A software ConnectX that is there from outside: its NIC thread has a core, unless it was given one."""

    def wrap(self, core, options):
        with mock.patch.dict(os.environ, SPW_SOFTHCA=options), mock.patch("os.geteuid", return_value=0):
            return spwlab.own_card(core)

    def test_core(self):
        self.assertEqual(self.wrap(3, "as=cx5;"), ("env", "SPW_SOFTHCA=as=cx5;nic-cpu=3;"))
        self.assertEqual(self.wrap(None, "as=cx5;"), ())
        self.assertEqual(self.wrap(3, "nic-cpu=1;"), ())


class Drivers(unittest.TestCase):
    def test_mlx5_is_found_in_the_list_of_drivers_alone(self):
        for text, has in (("port drivers (man spinwire-ports): ethdev, mlx5, null\n", True),
                          ("port drivers (man spinwire-ports): ethdev, null\nexample: --port mlx5:mlx5_0\n", False),
                          ("port drivers: ethdev, mlx5x\n", False), ("", False)):
            with mock.patch.object(spwlab, "help_of", lambda _, text=text: text), \
                    mock.patch.object(spwlab, "softhca_lib", lambda: __file__):
                self.assertEqual(spwlab.has_mlx5(), has, text)

    def test_a_program_is_found_once_it_is_built(self):
        """tools/profile asks for the options before its first build, and for the drivers after it."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "spinwire")
            with mock.patch.dict(os.environ, SPINWIRE=path), mock.patch.object(spwlab, "softhca_lib", lambda: __file__):
                self.assertFalse(spwlab.has_mlx5())
                with open(path, "w", encoding="ascii") as file:
                    file.write("#!/bin/sh\necho 'port drivers: mlx5'\n")
                os.chmod(path, 0o755)
                self.assertTrue(spwlab.has_mlx5())

    def test_a_fallback_is_named(self):
        args = mock.Mock(device=None, ethdev=False)
        with mock.patch.object(spwlab, "has_mlx5", lambda: False), mock.patch.object(spwlab, "pick", lambda _: (0, 1)):
            self.assertIn("no mlx5 port", spwlab.choose_path(args, "folder")[0].text)
            args.ethdev = True
            self.assertNotIn("no mlx5 port", spwlab.choose_path(args, "folder")[0].text)


if __name__ == "__main__":
    unittest.main()
