# SPDX-License-Identifier: BSD-3-Clause
"""DPDK's telemetry sockets, as tools read them. A socket may belong to another user, to another DPDK program, or to an
older or broken spinwire: who answers is checked by the kernel's word (SO_PEERCRED), and what is answered is checked
field by field. An OSError means that no process answers (any more), a ValueError that the answer is not that of a
spinwire."""
import contextlib
import glob
import json
import os
import socket
import struct
import time
import typing

import spwtext

ANSWER_BYTES = 1 << 18  # DPDK's own limit is 16 KiB
TEXT_MAX = 200
PORT_COUNTERS = ("rx_frames", "rx_bytes", "tx_frames", "tx_bytes")
LEDGER_COUNTERS = ("received", "executed", "echoed", "consumed", "bad", "pool_slots", "pool_free")
REGIMES = ("idle_poll", "rx", "push", "reap", "tx", "refill", "housekeeping")
REGIMES_TSC = tuple(f"{name}_tsc" for name in REGIMES)


# ---- who is there --------------------------------------------------------------------------------------

def runtime_top():
    """Where EAL keeps its folders, one a file prefix: the service's place, root's, or the user's."""
    own = "/var/run" if os.geteuid() == 0 else os.environ.get("XDG_RUNTIME_DIR", "/tmp")
    return os.path.join(os.environ.get("RUNTIME_DIRECTORY", own), "dpdk")


def runtime_folder(file_prefix):
    return os.path.join(runtime_top(), file_prefix)


def prefixes():
    """File prefixes of all that have, or had, a telemetry socket."""
    found = glob.glob(os.path.join(glob.escape(runtime_top()), "*", "dpdk_telemetry.v2"))
    return sorted(os.path.basename(os.path.dirname(path)) for path in found)


def _no_constant(name):
    raise ValueError(f"{name} is no number")


class Telemetry:
    """A connection to a DPDK program of this user. limit_s is for each answer, whole_s for all of them together."""

    def __init__(self, file_prefix, limit_s=10, whole_s=None):
        self.until = None if whole_s is None else time.monotonic() + whole_s
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.socket.settimeout(limit_s if whole_s is None else max(0.001, min(limit_s, whole_s)))
            self.socket.connect(os.path.join(runtime_folder(file_prefix), "dpdk_telemetry.v2"))
            self.pid = self._peer()
            self._receive()  # its greeting
        except (OSError, ValueError):
            self.socket.close()
            raise

    def _peer(self):
        pid, uid, _ = struct.unpack("3i", self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid != os.geteuid():
            raise PermissionError(f"the socket belongs to user {uid}, this is user {os.geteuid()}")
        return pid

    def _receive(self):
        if self.until is not None:
            self.socket.settimeout(max(0.001, self.until - time.monotonic()))
        data, _, flags, _ = self.socket.recvmsg(ANSWER_BYTES)
        if not data:
            raise ConnectionResetError("the program has ended, or has too many clients")
        if flags & socket.MSG_TRUNC:
            raise ValueError(f"an answer of more than {ANSWER_BYTES} bytes")
        try:
            answer = json.loads(data, parse_constant=_no_constant)
        except RecursionError:
            raise ValueError("JSON that is nested too deeply") from None
        if not isinstance(answer, dict):
            raise ValueError("an answer that is no dictionary")
        return answer

    def ask(self, command):
        self.socket.send(command.encode())
        return self._receive().get(command.split(",")[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def telemetry(file_prefix, command):
    """The answer of a DPDK program to a telemetry command; None while the socket or the command is not there."""
    try:
        with Telemetry(file_prefix) as client:
            return client.ask(command)
    except (OSError, ValueError):
        return None


def running():
    """File prefixes of every spinwire of this user that answers; other DPDK programs are passed over."""
    found = []
    for prefix in prefixes():
        with contextlib.suppress(OSError, ValueError), Telemetry(prefix, whole_s=2) as client:
            if client.ask("/spinwire/info"):
                found.append(prefix)
    return found


# ---- its answers ---------------------------------------------------------------------------------------

def printable(text):
    """Text that a terminal may have, and UTF-8."""
    if not isinstance(text, str):
        raise ValueError(f"{text!r:.40} where a text is due")
    return spwtext.shown(text[:TEXT_MAX])


def number(value):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1 << 64:
        raise ValueError(f"{value!r:.40} where a counter is due")
    return value


def counters(answer, numbers=(), texts=()):
    """A checked copy of a flat dictionary: it has those numbers and texts, and other numbers; what else a newer version
    adds is left out."""
    if not isinstance(answer, dict):
        raise ValueError(f"{answer!r:.40} where a dictionary is due")
    missing = [key for key in (*numbers, *texts) if key not in answer]
    if missing:
        raise ValueError(f"no {missing[0]} among {', '.join(map(printable, sorted(answer)))[:TEXT_MAX]}")
    out = {key: printable(answer[key]) for key in texts}
    for key, value in answer.items():
        if key in numbers or (key not in texts and isinstance(value, (int, float))):
            out[printable(key)] = number(value)
    return out


def _rows(answer, *shape):
    """Dictionaries by name: their own, or their key's."""
    if not isinstance(answer, dict):
        raise ValueError(f"{answer!r:.40} where a dictionary is due")
    checked = [(key, row, counters(row, *shape)) for key, row in answer.items()]
    rows = {printable(row.get("name", key)): out for key, row, out in checked}
    if len(rows) != len(checked):
        raise ValueError(f"two rows of one name among {', '.join(rows)[:TEXT_MAX]}")
    return rows


def _streams(answer):
    """How many objects ended how (states_...), why (causes_...) and why late (slow_...), by the stream's name."""
    return {name: {key: value for key, value in row.items() if key.startswith(("states_", "causes_", "slow_"))}
            for name, row in _rows(answer, (), ("name",)).items()}


def _rules(answer):
    """Flow rules by port (or rail) and words; without "frames" where they are not counted."""
    if not isinstance(answer, dict):
        raise ValueError(f"{answer!r:.40} where a dictionary is due")
    rows = [counters(row, ("port",), ("name", "handler", "rule")) for row in answer.values()]
    return {f"{row['name']}: {row['rule']}": row for row in rows}


class Snapshot(typing.NamedTuple):
    """All answers of one spinwire at one time."""
    info: dict
    ports: dict
    ledger: dict
    lcores: dict
    latency: dict
    causes: dict
    objects: dict
    rules: dict


def snapshot(client):
    """What is at the other end now; None if it is no spinwire, or one that is starting or stopping."""
    got = {}
    for name in Snapshot._fields:
        got[name] = client.ask(f"/spinwire/{name}")
        if not got[name] and name in ("info", "ports", "ledger", "lcores"):
            return None
    info = counters(got["info"], ("running_ms", "tsc_hz"), ("version", "executor", "handler"))
    if not info["tsc_hz"]:
        raise ValueError("a clock of 0 Hz")
    return Snapshot(info, _rows(got["ports"], PORT_COUNTERS), counters(got["ledger"], LEDGER_COUNTERS),
                    _rows(got["lcores"], ("queue", "frames", "turn_max_ns", *REGIMES_TSC), ("port",)),
                    _rows(got["latency"] or {}, ("count",)), counters(got["causes"] or {}),
                    _streams(got["objects"] or {}), _rules(got["rules"] or {}))


def handlers(answer):
    """Rows of /spinwire/handlers by the handler's name. What a table is indexed by is a text; all others are
    counters."""
    if not isinstance(answer or {}, dict) or not all(isinstance(row, dict) for row in (answer or {}).values()):
        raise ValueError(f"{answer!r:.40} where dictionaries are due")
    rows = [counters(row, ("digest",), ("name", "ports", *(key for key in row if key.startswith("by_"))))
            for row in (answer or {}).values()]
    return {row["name"]: row for row in rows}
