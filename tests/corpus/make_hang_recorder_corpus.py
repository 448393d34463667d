#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""make_hang_recorder_corpus.py FOLDER: dumps of PyTorch's flight recorder, as Python pickles them, for
fuzz_hang_recorder."""
import os
import pickle
import sys


def entry(sequence, state, p2p=False):
    return {"process_group": ("0", "default_pg"), "collective_seq_id": sequence, "p2p_seq_id": 3 if p2p else 0,
            "op_id": sequence, "profiling_name": "nccl:all_reduce", "input_sizes": [[4096], [2, 8]],
            "output_sizes": [[4096]], "time_created_ns": 1700000000000000000, "time_discovered_started_ns": None,
            "state": state, "is_p2p": p2p, "retired": False, "timeout_ms": 600000,
            "frames": [{"name": "all_reduce", "filename": "/v/torch/distributed/c10d.py", "line": 42},
                       {"name": "step", "filename": "train.py", "line": 7}]}


def dump(*entries):
    return {"version": "2.10", "pg_config": {"0": {"name": "0", "ranks": "[0, 1]"}}, "entries": list(entries)}


LOOP = []
LOOP.append(LOOP)
UNDER_WAY = dump(entry(6, "completed"), entry(7, "started"), entry(8, "scheduled", p2p=True))
INPUTS = {
    "under_way": pickle.dumps(UNDER_WAY, protocol=2),
    "protocol_4": pickle.dumps(UNDER_WAY, protocol=4),
    "empty": pickle.dumps(dump(), protocol=2),
    "no_dump": pickle.dumps([1, -1, 2 ** 40, 1.5, "text", None, True, (), (1, 2, 3, 4)], protocol=2),
    "entries_are_none": pickle.dumps({"entries": [None, [], {}, {"state": 3, "process_group": "x"}]}, protocol=2),
    "loop": pickle.dumps({"entries": LOOP}, protocol=2),
    "call": pickle.dumps(os.getcwd, protocol=2),
}


def main():
    for name, data in INPUTS.items():
        with open(os.path.join(sys.argv[1], name), "wb") as file:
            file.write(data)


if __name__ == "__main__":
    main()
