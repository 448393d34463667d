#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Each strict rule of the software ConnectX (docs/060) is broken once in a copy of the port, and a test must fail. The
tests pass before anything is broken. A row whose line is no longer in its file fails too: the rule is then to be broken
where it is kept now;
--rows looks at no more than that. A word picks the rows that have it in their rule."""
import collections
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..", "..")
UNDER = os.path.join(HERE, "under.py")
SECONDS = 40  # a test that hangs has noticed
UNFORGIVEN = "would not forgive|written over unread"

Break = collections.namedtuple("Break", "rule file old new test shows card trap", defaults=(".", None, False))
SINGLE, ECHO = "eth test_one_at_a_time", "eth test_echo_2_latency"


BREAKS = [
    Break("a doorbell names its queue", "lib/port/mlx5/eth/tx.c",
          "spw_prm_st32(wqe + 4, q->qpn_ds);", "spw_prm_st32(wqe + 4, q->qpn_ds ^ 0x100);", SINGLE),
    Break("a doorbell names a WQE of its record", "lib/prm/spw_prm_ring.h",
          "spw_cpu_to_be32(pi & 0xffffu)", "spw_cpu_to_be32((pi - 1) & 0xffffu)", SINGLE),
    Break("the record is big-endian", "lib/prm/spw_prm_ring.h",
          "spw_cpu_to_be32(pi & 0xffffu)", "(SPW_FORCE spw_be32)(pi & 0xffffu)", SINGLE),
    Break("the halves of a register take turns", "lib/port/mlx5/eth/tx.c",
          "q->bf_off ^= q->bf_toggle;", "", SINGLE, UNFORGIVEN),
    Break("the turn is the register's, not the peer's", "lib/port/mlx5/rc/tx.c",
          "q->bf_off ^= p->bf_toggle;", "q->bf_off ^= p == mlx5_rc_peer_at(q, 0) ? p->bf_toggle : 0;",
          "rc test_one_at_a_time", UNFORGIVEN),
    Break("a BlueFlame copy equals its WQE", "lib/prm/spw_prm_ring.h",
          "\t\tspw_mmio_wc_copy64(reg, wqe);",
          "\t{\n\t\tuint8_t SPW_ALIGNED(64) other[64];\n\n\t\tmemcpy(other, wqe, 64);\n"
          "\t\tother[40] ^= 1;\n\t\tspw_mmio_wc_copy64(reg, other);\n\t}", SINGLE, UNFORGIVEN, trap=True),
    Break("a frame that is too long leaves the queue ready", "lib/port/mlx5/eth/err.c",
          "return syndrome != SPW_PRM_SYN_LOCAL_QP_OP_ERR &&",
          "return syndrome != SPW_PRM_SYN_LOCAL_LENGTH_ERR && syndrome != SPW_PRM_SYN_LOCAL_QP_OP_ERR &&",
          "fault test_frame_too_long"),
    Break("the state of a WQ that the kernel knows may be old", "lib/port/eth_port.c",
          "{.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = state}",
          "{.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE, .wq_state = state, "
          ".curr_wq_state = state == IBV_WQS_RESET ? IBV_WQS_ERR : IBV_WQS_RESET}", "fault test_memory_key_revoked"),
    Break("WQ_FATAL may never come", "lib/port/mlx5/eth/err.c",
          "\tmlx5_eth_err_begin(&q->rx_err, mlx5_eth_cqe_is_error(cqe) ? mlx5_eth_cqe_syndrome(cqe) : 0,\n\t\t\t   "
          "NULL);",
          "\t(void)cqe;", "fault test_failure_becomes_known_late"),
    Break("flushes may never come", "lib/port/rc_turn.c",
          "if (!rdma_drain_is_over(", "if (p->slot_cnt || !rdma_drain_is_over(", "rc_fault test_no_flush"),
    Break("a CQ that checks for overrun is told what was read", "lib/rdma/mlx5.c",
          ".dbrec = ignore ? NULL : (spw_be32 *)dv.dbrec", ".dbrec = NULL", "eth test_laps"),
    Break("IGNORE_OVERRUN may be refused", "lib/rdma/mlx5.c",
          "if (!*cq_out && ignore) {", "if (!*cq_out && ignore && !cnt) {", "cq"),
    Break("the RSS key has 40 bytes", "lib/rdma/flow.c",
          ".rx_hash_key_len = sizeof(rss_key)", ".rx_hash_key_len = sizeof(rss_key) - 1", ECHO),
    Break("no hash fields only with a table of one", "lib/rdma/flow.c",
          "kind == KIND_NO_IP ? steer->table_one : steer->table", "steer->table", ECHO),
    Break("raw queues need CAP_NET_RAW", "lib/rdma/flow.c",
          "if (errno == EPERM)\n\t\treturn spw_err(EPERM, \"raw",
          "if (errno == ENOTTY)\n\t\treturn spw_err(EPERM, \"raw", "bad"),
    Break("locked memory has a limit", "lib/rdma/mem.c", "if (code != ENOMEM && code != EAGAIN)", "if (code != ENOTTY)",
          "bad"),
    Break("a card may want the header inside the WQE", "lib/port/mlx5/dev.c",
          "dev->wants_inline = mlx5_is_cx4(dev->rdma.attr.orig_attr.vendor_part_id);", "(void)mlx5_is_cx4;", ECHO,
          card="cx4lx"),
    Break("a register may not combine writes", "lib/port/mlx5/eth/obj.c",
          ".bf_bytes = tx->td ? dv.bf.size : 0", ".bf_bytes = 256", "eth test_own_registers", card="no-wc"),
    Break("stamps may be of another clock", "lib/port/mlx5/eth/port.c",
          "if (rc != -EOPNOTSUPP || !(eq->plan.flags & MLX5_F_STAMP))", "if (rc)", ECHO, card="real-time"),
]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Copy:
    """The sources in a folder of their own, built there."""

    def __init__(self, folder):
        self.src, self.build = os.path.join(folder, "src"), os.path.join(folder, "build")
        shutil.copytree(ROOT, self.src, symlinks=True, ignore=shutil.ignore_patterns("build*", ".git"))
        self.output(["meson", "setup", "-Dtests=enabled", self.build, self.src])

    def output(self, cmd):
        done = subprocess.run(cmd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        if done.returncode:
            raise AssertionError(f"{' '.join(cmd)}\n{done.stdout[-4000:]}")

    def program(self, name):
        return f"tests/e2e/port/mlx5/mlx5_{name}_test"

    def make(self, names):
        self.output(["ninja", "-C", self.build, *(self.program(name) for name in names)])

    @contextlib.contextmanager
    def broken(self, row):
        """The row's rule is broken inside."""
        path = os.path.join(self.src, row.file)
        text = read(path)
        try:
            write(path, text.replace(row.old, row.new, 1))
            yield
        finally:
            write(path, text)

    def run(self, row):
        """(exit status, output) of the row's test."""
        name, *words = row.test.split()
        env = {**os.environ, "SPW_TEST_SECONDS": str(SECONDS), **({"SPW_TEST_CARD": row.card} if row.card else {})}
        cmd = [sys.executable, UNDER, *(["--trap"] if row.trap else []), os.path.join(self.build, self.program(name)),
               *words]
        done = subprocess.run(cmd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True,
                              errors="replace", check=False)
        return done.returncode, done.stdout


def moved(rows):
    """1 if a line that is to be broken is no longer in its file."""
    gone = [row for row in rows if row.old not in read(os.path.join(ROOT, row.file))]
    for row in gone:
        print(f"{row.rule}: {row.file} has no {row.old!r}")
    return 1 if gone else 0


def whole(copy, rows):
    """The tests pass while nothing is broken."""
    copy.make(sorted({row.test.split()[0] for row in rows}))
    for row in {(row.test, row.card, row.trap): row for row in rows}.values():
        status, output = copy.run(row)
        if status:
            raise AssertionError(f"{row.test} fails although nothing is broken\n{output[-4000:]}")


def noticed(copy, row):
    """The test of a rule that is broken fails, and shows why."""
    with copy.broken(row):
        copy.make([row.test.split()[0]])
        status, output = copy.run(row)
    if status and re.search(row.shows, output):
        print(f"mlx5_{row.test} notices: {row.rule}", flush=True)
        return True
    print(f"mlx5_{row.test} DOES NOT NOTICE: {row.rule}\n{output[-3000:]}", flush=True)
    return False


def main():
    if sys.argv[1:] == ["--rows"]:
        return moved(BREAKS)
    rows = [row for row in BREAKS if len(sys.argv) < 2 or sys.argv[1] in row.rule]
    if moved(rows):
        return 1
    with tempfile.TemporaryDirectory(prefix="spw-break-") as folder:
        copy = Copy(folder)
        whole(copy, rows)
        missed = [row for row in rows if not noticed(copy, row)]
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
