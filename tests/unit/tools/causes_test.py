#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every table that knows the causes of slow frames by name knows each of SPW_CAUSE_LIST, and what a long step of the
loop is called by those who wait for it is one of them."""
import os
import re
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
sys.path[:0] = [os.path.join(ROOT, "tools", "lib"), os.path.join(ROOT, "tests", "e2e", "kit")]
import spwplaces  # noqa: E402
import summary_schema  # noqa: E402
from spwreport import advice, charts  # noqa: E402


def causes_of_the_recorder():
    with open(os.path.join(ROOT, "lib", "rec", "spw_cause.h"), encoding="utf-8") as file:
        rows = re.search(r"define SPW_CAUSE_LIST\(.*?\n\n", file.read(), re.S).group(0)
    return set(re.findall(r"X\(P, (\w+),", rows))


class Causes(unittest.TestCase):
    def test_every_table_has_each(self):
        want = causes_of_the_recorder()
        self.assertGreater(len(want), 10)
        self.assertEqual(want, summary_schema.CAUSES)
        for table in (spwplaces.TEXTS, advice.REMEDY, charts.CAUSE_CLASS):
            self.assertEqual(set(), want - set(table))

    def test_the_joining_tables_agree(self):
        self.assertEqual(set(spwplaces.TEXTS), set(advice.REMEDY))
        self.assertEqual(set(spwplaces.TEXTS), set(charts.CAUSE_CLASS))
        self.assertEqual(set(), set(spwplaces.HOLD_CAUSE.values()) - causes_of_the_recorder())


if __name__ == "__main__":
    unittest.main()
