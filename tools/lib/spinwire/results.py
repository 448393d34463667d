# SPDX-License-Identifier: BSD-3-Clause
"""Reads what spinwire's programs write, as plain dicts and columns that pandas.DataFrame takes:

    summary(path)    a JSON document: --json, --receipt, profile.json (share/spinwire/schema describes each)
    hdr(path)        a HdrHistogram log, --hdr: a dict for each interval and tag
    trail(path)      --trail: a dict for each thread, with columns by kind of record
    recording(path)  a flight recording, --record: a dict, with columns by kind of record for each lane

    pandas.DataFrame(summary("run.json")["latency"])
    pandas.concat(map(pandas.DataFrame, hdr("run.hlog")))
    pandas.DataFrame(trail("source.trail")[0]["slow"])

OSError and ValueError name the file and what is wrong with it. Times are ns where a name ends in _ns, and ticks of the
machine's counter where it ends in _tsc: summary(path)["tsc_hz"] ticks are a second."""
import base64
import json
import struct
import zlib


def _bytes(path):
    with open(path, "rb") as file:
        return file.read()


def _columns(names, rows):
    return dict(zip(names, map(list, zip(*rows)) if rows else ([] for _ in names)))


# ---- JSON --------------------------------------------------------------------------------------------

def summary(path, kind=""):
    """The document. kind: "summary", "gen", "profile"...: another one is refused."""
    with open(path, encoding="utf-8") as file:
        try:
            got = json.load(file)
        except ValueError as error:
            raise ValueError(f"{path}: no JSON: {error}") from None
    if not isinstance(got, dict) or not str(got.get("schema")).startswith(f"spinwire.{kind}{'/' if kind else ''}"):
        raise ValueError(f"{path}: is no {f'spinwire.{kind}' if kind else 'document of spinwire'}")
    return got


# ---- HdrHistogram logs: HistogramLogWriter and AbstractHistogram.encodeIntoByteBuffer, V2 ----------------

_COOKIE, _COOKIE_PACKED = 0x1c849313, 0x1c849314
_HDR_HEAD = struct.Struct(">IIIIQQd")


def _counts(data):
    """[(index, count)]: zig-zag LEB128; a negative number is a run of empty buckets."""
    at = index = 0
    while at < len(data):
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte if shift == 56 else byte & 0x7f) << shift
            if byte < 0x80 or shift == 56:
                break
            shift += 7
        count = value >> 1 ^ -(value & 1)
        if count > 0:
            yield index, count
        index += 1 if count >= 0 else -count


def _buckets(text):
    """Columns of one encoded histogram: counted values from from_ns to to_ns."""
    packed = base64.b64decode(text, validate=True)
    if struct.unpack_from(">I", packed)[0] != _COOKIE_PACKED:
        raise ValueError("is not compressed as V2 does it")
    data = zlib.decompress(packed[8:])
    cookie, size, _, digits, lowest, _, _ = _HDR_HEAD.unpack_from(data)
    if cookie != _COOKIE:
        raise ValueError("is no V2 histogram")
    half_log2 = (2 * 10 ** digits - 1).bit_length() - 1
    unit, rows = lowest.bit_length() - 1, []
    for index, count in _counts(data[_HDR_HEAD.size:_HDR_HEAD.size + size]):
        bucket = max((index >> half_log2) - 1, 0)
        low = (index - (bucket << half_log2)) << bucket + unit
        rows.append((low, low + (1 << bucket + unit) - 1, count))
    return _columns(("from_ns", "to_ns", "count"), rows)


def hdr(path):
    """Yields a dict for each interval: its tag, start (seconds since 1970), seconds, and columns from_ns, to_ns, count
    of the values in it."""
    with open(path, encoding="ascii", errors="replace") as file:
        for number, line in enumerate(file, 1):
            tag, _, rest = line[4:].partition(",") if line.startswith("Tag=") else ("", "", line)
            words = rest.rstrip("\n").split(",")
            if line.startswith(("#", '"')) or not line.strip():
                continue
            try:
                start, seconds, _, text = words
                yield {"tag": tag, "start": float(start), "seconds": float(seconds), **_buckets(text)}
            except (ValueError, IndexError, struct.error, zlib.error) as error:
                raise ValueError(f"{path}: line {number}: {error}") from None


# ---- trails: lib/trail/spw_trail.h -----------------------------------------------------------------------

TRAIL_VERSION = 2
TRAIL_HEAD = struct.Struct("=8sIIQQ480s")
TRAIL_RECORD = struct.Struct("=BBHI7Q")
TRAIL_KINDS = {"gap": "from_tsc to_tsc", "slow": "due_tsc taken_tsc handed_tsc drained_tsc echo_tsc",
               "sent": "taken_tsc committed_tsc flushed_tsc", "held": "put_tsc", "came": "stamped_tsc completed_tsc",
               "frame": "nic_tsc batch empty_tsc number unc_tsc",
               "batch": "batch polled_tsc pushed_tsc start_tsc end_tsc reaped_tsc sent_tsc", "blame": "",
               "done": "number stamp_tsc unc_tsc"}


class TrailThread:
    """What one thread noted: the records as they lie in the file, a list for each of TRAIL_KINDS."""

    def __init__(self, every, overwritten, names):
        self.every, self.overwritten, self.names = every, overwritten, names
        self.of = [[] for _ in TRAIL_KINDS]


def _trail_names(text):
    words = (part.partition("=") for part in text.rstrip(b"\0").decode(errors="replace").split(";") if part)
    return {key: [word for word in value.split(",") if word] for key, _, value in words}


def trail_threads(path):
    """[TrailThread]: trail() without the columns."""
    data, out, at = _bytes(path), [], 0
    while at < len(data):
        if len(data) - at < TRAIL_HEAD.size:
            raise ValueError(f"{path} ends within a head")
        magic, version, every, everything, kept, names = TRAIL_HEAD.unpack_from(data, at)
        if magic != b"SPWTRAIL" or version != TRAIL_VERSION:
            raise ValueError(f"{path} is no trail of version {TRAIL_VERSION}")
        at += TRAIL_HEAD.size
        end = at + kept * TRAIL_RECORD.size
        if end > len(data):
            raise ValueError(f"{path} ends within a record")
        one = TrailThread(every, everything - kept, _trail_names(names))
        of = one.of
        try:
            for rec in TRAIL_RECORD.iter_unpack(data[at:end]):
                of[rec[0]].append(rec)
        except IndexError:
            raise ValueError(f"{path} has a record of a kind that there is not") from None
        out.append(one)
        at = end
    return out


def _named(names, index):
    return names[index] if index < len(names) else str(index)


def trail(path):
    """[{"every", "overwritten", kind: columns}] by thread: one frame in `every` was followed, and so many records were
    overwritten. Kinds and columns are those of TRAIL_KINDS, with flow and seq of the frame; gap: what, blame: batch,
    part (of its time, from 0), cause, ticks."""
    out = []
    for one in trail_threads(path):
        got = {"every": one.every, "overwritten": one.overwritten}
        for (kind, names), rows in zip(TRAIL_KINDS.items(), one.of):
            if kind == "gap":
                names, rows = ("what", *names.split()), [(_named(one.names.get("gap", ()), rec[1]), *rec[4:6])
                                                         for rec in rows]
            elif kind == "blame":
                causes, names = one.names.get("cause", ()), ("batch", "part", "cause", "ticks")
                rows = [(rec[4], rec[1], _named(causes, word >> 56), word & (1 << 56) - 1)
                        for rec in rows for word in rec[5:] if word]
            elif kind in ("batch", "done"):
                names = names.split()
                rows = [rec[4:4 + len(names)] for rec in rows]
            else:
                names = ("flow", "seq", *names.split())
                rows = [rec[2:2 + len(names)] for rec in rows]
            got[kind] = _columns(names, rows)
        out.append(got)
    return out


# ---- flight recordings: lib/flight/spw_flight.h ------------------------------------------------------------

RECORDING_VERSION = 6
CAUSES = ("poll_gap", "port_late", "port_backlog", "refill_stall", "batch_ahead", "exec_late", "gpu_sliced",
          "relaunched", "handler_slow", "reap_late", "tx_stall", "cpu_quota")
HOLDS = ("lost", "port", "push", "tx", "refill", "quota")
REGIMES = ("idle_poll", "rx", "push", "reap", "tx", "refill", "housekeeping")
_FILE = struct.Struct("=8sIIQQQQ64s13QII")
_BACKEND = struct.Struct("=32s6I")
_LANE = struct.Struct("=64s64s256s3Q280s4I4H16s")
_SEGMENT = struct.Struct("=QII")
_RECORD = struct.Struct("=BBHI")
# kind: name, what the record has, the columns that are made of (frames, what, *that)
_KINDS = {2: ("polls", struct.Struct("=8QI"), "frames full spill seq polled_tsc pushed_tsc since_tsc empty_tsc "
              "before_tsc turn_tsc exec_busy ahead",
              lambda cnt, what, *at: (cnt, bool(what & 1), bool(what & 2), *at)),
          4: ("done", struct.Struct("=3Q"), "sent reaped_tsc tx_tsc refill_tsc", lambda cnt, what, *at: (what, *at)),
          5: ("gaps", struct.Struct("=3Q"), "regime hold from_tsc to_tsc lost_tsc",
              lambda cnt, what, *at: (_named(REGIMES, what >> 8), _named(HOLDS, what & 0xff), *at)),
          6: ("dry", struct.Struct("=2Q"), "from_tsc to_tsc", lambda cnt, what, *at: at),
          8: ("ident", struct.Struct("=QHHI"), "seq run flow number", lambda cnt, what, *at: at),
          9: ("judged", struct.Struct("=3Q"), "cause seq whole_tsc frames_above",
              lambda cnt, what, *at: (_named(CAUSES, what & 0xff), *at))}


def _text(data):
    return data.partition(b"\0")[0].decode(errors="replace")


def _records(data, at, end, rows):
    """Appends the records of one segment to rows, {name: [row]}."""
    while at < end:
        kind, cnt, what, size = _RECORD.unpack_from(data, at)
        if size < _RECORD.size or size > end - at:
            raise ValueError(f"a record of {size} bytes")
        if kind in _KINDS:
            name, fields, _, make = _KINDS[kind]
            rows[name].append(make(cnt, what, *fields.unpack_from(data, at + _RECORD.size)))
        at += size


def _lane(data, at):
    """(lane, where the next one begins)"""
    port, handler, plugin, slow, wait, _, backends, backend_cnt, _, snap, segments, lcore, queue, *_ = \
        _LANE.unpack_from(data, at)
    at += _LANE.size
    rows, broken = {name: [] for name, *_ in _KINDS.values()}, 0
    for _ in range(segments):
        _, size, is_broken = _SEGMENT.unpack_from(data, at)
        at += _SEGMENT.size
        if size > len(data) - at:
            raise ValueError("ends within a segment")
        broken += bool(is_broken)
        _records(data, at, at + size, rows)
        at += size
    return {"port": _text(port), "handler": _text(handler), "plugin": _text(plugin), "lcore": lcore, "queue": queue,
            "executors": [_text(exec_) for exec_, *_ in _BACKEND.iter_unpack(backends)][:backend_cnt],
            "slow_tsc": slow, "wait_tsc": wait, "snap_bytes": snap, "broken": broken,
            **{name: _columns(columns.split(), rows[name]) for name, _, columns, _ in _KINDS.values()}}, at


def recording(path):
    """{"why", "tsc_hz", "slow_ns", "from_tsc", "lanes": [...]}: what it was written for, ticks/s, the threshold of slow
    frames, the start of the run. A lane has its port, handler and executors, how often records are missing (broken),
    and columns: polls (bursts), done (settled batches; sent: frames echoed), gaps (long steps of the loop), dry (the
    port had no slots), ident (batches whose oldest frame is the generator's), judged (slow batches). What only a replay
    needs is left out."""
    data = _bytes(path)
    try:
        magic, version, lane_cnt, size, tsc_hz, slow_ns, from_tsc, why, *_ = _FILE.unpack_from(data)
        if magic != b"SWFLIGHT" or version != RECORDING_VERSION:
            raise ValueError(f"is no recording of version {RECORDING_VERSION}")
        if size != len(data):
            raise ValueError(f"has {len(data)} of {size} bytes")
        lanes, at = [], _FILE.size
        for _ in range(lane_cnt):
            lane, at = _lane(data, at)
            lanes.append(lane)
    except (struct.error, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
    return {"why": _text(why), "tsc_hz": tsc_hz, "slow_ns": slow_ns, "from_tsc": from_tsc, "lanes": lanes}
