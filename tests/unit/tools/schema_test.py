#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The schemas of share/schema: valid themselves, every key described and every object closed; names that come from a
list of lib are that list; no end-to-end test reads JSON around them; and tables that know causes by name or number know
each."""
import glob
import json
import os
import re
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
sys.path[:0] = [os.path.join(ROOT, "tools", "lib"), os.path.join(ROOT, "tests", "e2e", "kit")]
import documents  # noqa: E402  (found by the line above)
import spwplaces  # noqa: E402
from spinwire import results  # noqa: E402
from spwreport import advice, charts  # noqa: E402

FILES = sorted(glob.glob(os.path.join(documents.SCHEMAS, "*.json")))


def source(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def listed(path, what):
    """The names of an enumeration that is one list (base/spw_enum.h), in their order."""
    return tuple(re.findall(r"X\(P, (\w+),", re.search(rf"define {what}_LIST\(.*?\n\n", source(path), re.S).group(0)))


def names(path, what):
    return set(listed(path, what))


def schema(name):
    return json.loads(source(f"share/schema/{name}.json"))


def objects(value, where=""):
    """(where, schema) of every schema in it that names keys."""
    if isinstance(value, dict):
        if isinstance(value.get("properties"), dict):
            yield where, value
        for key, inner in value.items():
            yield from objects(inner, f"{where}/{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from objects(inner, where)


class Schemas(unittest.TestCase):
    def test_each_is_one(self):
        self.assertGreater(len(FILES), 10)
        for path in FILES:
            one = json.loads(source(path))
            documents.jsonschema.Draft202012Validator.check_schema(one)
            name = os.path.basename(path)
            self.assertEqual(one["$id"].rsplit("/", 1)[1], name)
            self.assertTrue(one["title"] and one["description"], name)
            if "properties" in one:
                self.assertRegex(one["properties"]["schema"]["const"], rf"^spinwire\.{name[:-5]}/\d+$")

    def test_keys_are_described(self):
        for path in FILES:
            for where, one in objects(json.loads(source(path))):
                for key, value in one["properties"].items():
                    self.assertTrue({"description", "$ref"} & value.keys(), f"{path}: {where}: {key}")
                self.assertEqual(set(one.get("required", ())) - one["properties"].keys(), set(), f"{path}: {where}")

    def test_objects_are_closed(self):
        """But those of common.json that others add to."""
        for path in FILES:
            for where, one in objects(json.loads(source(path))):
                closed = one.get("additionalProperties", one.get("unevaluatedProperties")) is False
                base = path.endswith("common.json") and where.count("/") == 2
                self.assertTrue(closed or base, f"{path}: {where}")

    def test_a_wrong_document_is_refused(self):
        good = {"schema": "spinwire.bench/1", "bench": "rx", "machine": "m", "rows": []}
        self.assertEqual(documents.faults(good), [])
        for wrong in ({**good, "more": 1}, {**good, "rows": 1}, {**good, "schema": "spinwire.bench/2"}, {},
                      {key: value for key, value in good.items() if key != "rows"}, {"schema": "spinwire.nosuch/1"}):
            self.assertTrue(documents.faults(wrong), wrong)
        with self.assertRaises(AssertionError):
            documents.foreign(json.dumps(good))

    def test_names_are_those_of_lib(self):
        common, summary, gen, nccl = (schema(name) for name in ("common", "summary", "gen", "ncclnet"))
        port, ledger = (common["$defs"][name]["properties"] for name in ("port", "ledger"))
        latency = summary["properties"]["latency"]["items"]["properties"]
        peer = nccl["properties"]["communicators"]["items"]["properties"]["peers"]["items"]["properties"]
        for path, what, got in (
                ("lib/rec/spw_cause.h", "SPW_CAUSE", common["$defs"]["cause"]["enum"]),
                ("lib/frame/spw_port_event.h", "SPW_PORT_ERR", port["errors"]["properties"]),
                ("lib/exec/spw_gring.h", "SPW_BAD", ledger["bad"]["properties"]),
                ("lib/hist/spw_hist.h", "SPW_HIST_POINT",
                 [key[:-3] for key in common["$defs"]["points"]["properties"] if key.endswith("_ns")]),
                ("lib/rec/spw_stage.h", "SPW_STAGE", latency["stage"]["enum"]),
                ("lib/rec/spw_stage.h", "SPW_REGIME", summary["properties"]["regimes"]["properties"]),
                ("lib/topo/spw_topo_litmus.h", "SPW_LITMUS",
                 summary["properties"]["litmus"]["properties"]["frames"]["properties"]),
                ("lib/obj/spw_obj_page.h", "SPW_OBJ_STATE", schema("object")["properties"]["state"]["enum"]),
                ("lib/obj/spw_obj_page.h", "SPW_OBJ_CAUSE", schema("object")["properties"]["cause"]["enum"]),
                ("lib/obj/spw_obj_slow.h", "SPW_OBJ_SLOW", common["$defs"]["object_slow"]["enum"]),
                ("lib/obj/spw_obj_slow.h", "SPW_OBJ_PART", common["$defs"]["object_way"]["properties"]["parts"]
                 ["items"]["properties"]["part"]["enum"]),
                ("lib/gen/spw_gen_slow.h", "GEN_CAUSE", gen["$defs"]["cause"]["enum"]),
                ("lib/rec/spw_stamps.h", "SPW_STAMPS_CAUSE", nccl["$defs"]["cause"]["enum"]),
                ("lib/rec/spw_stamps.h", "SPW_STAMPS_STAGE", peer["latency"]["items"]["properties"]["stage"]["enum"])):
            self.assertEqual(set(got), names(path, what), what)
        self.assertEqual(set(ledger["dropped"]["properties"]), names("lib/frame/spw_port_event.h", "SPW_PORT_DROP")
                         | names("lib/rec/spw_ledger.h", "SPW_DROP"))

    def test_places_are_those_of_the_join(self):
        self.assertEqual(set(schema("profile")["$defs"]["place"]["enum"]), {*spwplaces.INDEX, "held"})

    def test_nothing_is_read_around_them(self):
        for path in glob.glob(os.path.join(ROOT, "tests", "e2e", "**", "*.py"), recursive=True):
            if not path.endswith("kit/documents.py"):
                self.assertFalse("json.load" in source(path), f"{path}: documents.load, or documents.foreign")


class Causes(unittest.TestCase):
    def test_every_table_has_each(self):
        want = names("lib/rec/spw_cause.h", "SPW_CAUSE")
        for table in (spwplaces.TEXTS, advice.REMEDY, charts.CAUSE_CLASS):
            self.assertEqual(set(), want - set(table))
        self.assertEqual(set(), set(spwplaces.HOLD_CAUSE.values()) - want)

    def test_recordings_number_them_alike(self):
        self.assertEqual(results.CAUSES, listed("lib/rec/spw_cause.h", "SPW_CAUSE"))
        self.assertEqual(results.REGIMES, listed("lib/rec/spw_stage.h", "SPW_REGIME"))
        holds = source("lib/rec/spw_cause.h").split("SPW_HOLD_CNT")[0]
        self.assertEqual(results.HOLDS, tuple(name.lower() for name in re.findall(r"^\tSPW_HOLD_(\w+),", holds, re.M)))

    def test_the_joining_tables_agree(self):
        self.assertEqual(set(spwplaces.TEXTS), set(advice.REMEDY))
        self.assertEqual(set(spwplaces.TEXTS), set(charts.CAUSE_CLASS))


if __name__ == "__main__":
    unittest.main()
