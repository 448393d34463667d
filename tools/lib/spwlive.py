# SPDX-License-Identifier: BSD-3-Clause
"""Live numbers of a running spinwire: samples of its telemetry, the rates between two of them, and both as lines of
text."""
import time

import spwtel

STAGES = ("nic_polled", "polled_pushed", "pushed_start", "start_end", "end_reaped", "reaped_sent", "polled_sent",
          "nic_start", "nic_sent")
POINTS = ("p50_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns", "max_ns")


class Sample:
    """One sample of one instance. OSError and ValueError if it has ended, or is not a spinwire."""

    def __init__(self, client):
        self.at = time.monotonic()
        got = spwtel.snapshot(client)
        if not got:
            raise ConnectionResetError("spinwire is stopping")
        (self.info, self.ports, self.ledger, self.lcores, self.latency, self.causes, self.objects,
         self.rules) = got


class Feed:
    """Samples of one instance over one connection; now and before are the last two."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.client = spwtel.Telemetry(prefix, 5)
        self.pid = self.client.pid
        try:
            self.before = self.now = Sample(self.client)
        except (OSError, ValueError):
            self.close()
            raise

    def refresh(self):
        self.before, self.now = self.now, Sample(self.client)

    def close(self):
        self.client.socket.close()

    def rate(self, group, *keys):
        """Growth a second of a counter, group "ports", "ledger", "lcores", "causes", "objects" or "rules"."""
        old, new = getattr(self.before, group), getattr(self.now, group)
        for key in keys:
            old, new = old.get(key, 0) if isinstance(old, dict) else 0, new.get(key, 0)
        seconds = self.now.at - self.before.at
        return (new - old) / seconds if seconds > 0 else 0.0


# ---- numbers -----------------------------------------------------------------------------------------

def short(value):
    """At most five characters: 0, 12.3, 999, 1.23M."""
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= 999.5 * scale / 1e3 and scale > 1:
            return f"{value / scale:.{2 if value < 9.995 * scale else 1 if value < 99.95 * scale else 0}f}{unit}"
    return f"{value:.0f}" if value >= 99.95 or value == int(value) else f"{value:.1f}"


def time_ns(ns):
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= 999.5 * scale / 1e3:
            return f"{ns / scale:.{2 if ns < 9.995 * scale else 1 if ns < 99.95 * scale else 0}f} {unit}"
    return f"{ns:.0f} ns"


# ---- the screen's text ---------------------------------------------------------------------------------

def head_line(feed):
    info = feed.now.info
    up = int(info["running_ms"]) // 1000
    return (f"{spwtel.printable(feed.prefix)}  pid {feed.pid}  spinwire {info['version']}  up "
            f"{up // 3600}:{up // 60 % 60:02}:{up % 60:02}  "
            f"{info['handler']} on {info['executor']}")


def _ports(feed):
    yield f"{'PORT':22} {'rx/s':>8} {'rx bit/s':>9} {'tx/s':>8} {'tx bit/s':>9}  drops and errors since start"
    for name, port in feed.now.ports.items():
        errors = [f"{key.split('_', 1)[1]} {port[key]}" for key in port if key.startswith(("dropped_", "errors_"))
                  and port[key]]
        yield (f"{name:22.22} {short(feed.rate('ports', name, 'rx_frames')):>8} "
               f"{short(8 * feed.rate('ports', name, 'rx_bytes')):>9} "
               f"{short(feed.rate('ports', name, 'tx_frames')):>8} "
               f"{short(8 * feed.rate('ports', name, 'tx_bytes')):>9}  {', '.join(errors) or 'none'}")


def _rules(feed):
    if not feed.now.rules:
        return
    yield f"{'RULE':45} {'frames/s':>8} {'frames':>8}  handler"
    for name, rule in feed.now.rules.items():
        rate, total = ((short(feed.rate("rules", name, "frames")), short(rule["frames"])) if "frames" in rule
                       else ("-", "-"))
        yield f"{name:45.45} {rate:>8} {total:>8}  {rule['handler']}"
    yield ""


def _largest_cause(feed, stream, kind):
    """Of the objects that ended since the last sample, or since the start if none did."""
    causes = [(feed.rate("objects", stream, key), total, key.removeprefix(kind))
              for key, total in feed.now.objects[stream].items()
              if key.startswith(kind) and key != "causes_all" and total]
    if not causes:
        return "none since start"
    rate, total, cause = max(causes)
    return f"{cause} {short(rate)} (of {short(total)})"


def _streams(feed):
    if not feed.now.objects:
        return
    yield f"{'STREAM':20} {'complete/s':>10} {'partial/s':>9} {'shed/s':>8}  largest cause other than all"
    for name in feed.now.objects:
        complete, partial, shed = (short(feed.rate("objects", name, f"states_{state}"))
                                   for state in ("complete", "partial", "shed"))
        yield f"{name:20.20} {complete:>10} {partial:>9} {shed:>8}  {_largest_cause(feed, name, 'causes_')}"
        slow = sum(cnt for key, cnt in feed.now.objects[name].items() if key.startswith("slow_"))
        if slow:
            yield f"{'':20} slow or shed {short(slow)} since start, most of them {_largest_cause(feed, name, 'slow_')}"
    yield ""


def _ledger(feed):
    ledger = feed.now.ledger
    yield "FRAMES/s  " + "  ".join(f"{key} {short(feed.rate('ledger', key))}"
                                   for key in ("received", "executed", "echoed", "consumed", "bad"))
    drops = [(key.removeprefix("dropped_"), feed.rate("ledger", key), total) for key, total in ledger.items()
             if key.startswith("dropped_") and total]
    yield "DROPPED/s " + ("  ".join(f"{reason} {short(rate)} (of {short(total)})" for reason, rate, total in drops)
                          or "nothing since start")
    missed = f"  missed by the device {short(ledger['missed'])}" if "missed" in ledger else ""
    yield f"POOL      {ledger.get('pool_free', 0)} of {ledger.get('pool_slots', 0)} slots free{missed}"


def _stages(feed):
    latency = feed.now.latency
    yield f"{'LAST SECOND':16} {'frames':>7} " + " ".join(f"{name:>8}" for name in ("p50", "p90", "p99", "p99.9",
                                                                                    "p99.99", "max"))
    for stage in STAGES:
        if stage in latency:
            row = latency[stage]
            yield f"{stage:16} {short(row['count']):>7} " + " ".join(f"{time_ns(row[p]) if p in row else '-':>8}"
                                                                     for p in POINTS)
    if not latency:
        yield "no frame has been measured (idle, or --stamps no)"


def _slow(feed):
    causes = [(key, total) for key, total in feed.now.causes.items() if total and not key.startswith("held_")]
    yield "SLOW/s    " + ("  ".join(f"{key} {short(feed.rate('causes', key))} (of {short(total)})"
                                    for key, total in causes) or "none since start")


def _lcores(feed):
    yield f"{'LCORE':5} {'frames/s':>8} {'longest':>8}  " + " ".join(f"{name:>6}"
                                                                     for name in ("idle %", "rx", "push", "reap", "tx",
                                                                                  "refill", "house"))
    for name, lcore in feed.now.lcores.items():
        ticks = [feed.rate("lcores", name, key) for key in spwtel.REGIMES_TSC]
        total = sum(ticks)
        yield (f"{name:5} {short(feed.rate('lcores', name, 'frames')):>8} {time_ns(lcore['turn_max_ns']):>8}  "
               + " ".join(f"{100 * part / total:6.1f}" if total else f"{'-':>6}" for part in ticks))


def lines(feed):
    """Everything, without the head."""
    return [*_ports(feed), "", *_rules(feed), *_streams(feed),
            *_ledger(feed), *_slow(feed), "", *_stages(feed), "", *_lcores(feed)]
