# SPDX-License-Identifier: BSD-3-Clause
"""Plots as SVG text: scales, axes, marks. Colours are classes, so that one drawing serves light and dark."""
import html
import math

FONT_PX = 12
CHAR_PX = 6.6  # a generous mean width at FONT_PX: labels are placed by it


def esc(text):
    return html.escape(str(text), quote=True)


def text_px(text):
    return CHAR_PX * len(text)


def num(value):
    """A coordinate: short, and never in exponent form."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


# ---- how quantities are written --------------------------------------------------------------------

def short(value, digits=3):
    """Three significant digits, without trailing zeros."""
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    out = f"{value:.{places}f}"
    return out.rstrip("0").rstrip(".") if "." in out else out


def time_ns(ns):
    """A length of time with its unit, from nanoseconds."""
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(ns) >= 0.9995 * scale:
            return f"{short(ns / scale)} {unit}"
    return f"{short(ns)} ns"


def rate(fps):
    """Frames a second with a prefix: "2.5 M"."""
    for unit, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(fps) >= 0.9995 * scale:
            return f"{short(fps / scale)} {unit}"
    return short(fps)


def count(value):
    """Whole numbers in groups of three, with thin spaces."""
    return f"{value:,}".replace(",", "\u202f")


def percentile(p):
    """"p99.9" from 99.9."""
    return "max" if p >= 100 else "p" + f"{p:.6f}".rstrip("0").rstrip(".")


# ---- scales ------------------------------------------------------------------------------------------

class Linear:
    def __init__(self, low, high, begin, end):
        self.low, self.high, self.begin, self.end = low, high if high > low else low + 1, begin, end

    def __call__(self, value):
        return self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)

    def ticks(self, wanted):
        """About that many round values within the scale."""
        raw = (self.high - self.low) / max(1, wanted)
        step = 10 ** math.floor(math.log10(raw))
        step *= next(m for m in (1, 2, 2.5, 5, 10) if m * step >= raw * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]


class Log:
    """Base ten; low and high are positive."""

    def __init__(self, low, high, begin, end):
        self.low, self.high = low, max(high, low * 1.001)
        self.begin, self.end = begin, end

    def __call__(self, value):
        value = min(max(value, self.low), self.high)
        return self.begin + math.log(value / self.low) / math.log(self.high / self.low) * (self.end - self.begin)

    def _within(self, steps):
        out = []
        for exp in range(math.floor(math.log10(self.low)) - 1, math.ceil(math.log10(self.high)) + 1):
            out += [m * 10.0 ** exp for m in steps if self.low * 0.999 <= m * 10.0 ** exp <= self.high * 1.001]
        return out

    def ticks(self):
        """Decades, or 1-2-5 where there are few of them."""
        decades = self._within((1,))
        return decades if len(decades) >= 3 else self._within((1, 2, 5))

    def minor(self):
        return self._within(range(2, 10))


def decades(values):
    """(low, high) that hold all values, which are positive, on 1-2-5 borders."""
    low, high = min(values), max(values)
    borders = [m * 10.0 ** e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
               for m in (1, 2, 5)]
    low, high = max(b for b in borders if b <= low * 1.000001), min(b for b in borders if b >= high * 0.999999)
    return low, high if high > low else 2 * high


# ---- the drawing -------------------------------------------------------------------------------------

class Plot:
    """A drawing area with margins; x and y are set before anything is drawn."""

    serial = 0

    def __init__(self, width, height, title, description, left=64, right=16, top=16, bottom=44):
        Plot.serial += 1
        self.id, self.width, self.height = f"g{Plot.serial}", width, height
        self.title, self.description = title, description
        self.x0, self.x1, self.y0, self.y1 = left, width - right, height - bottom, top
        self.x = self.y = None
        self.out = []

    def add(self, text):
        self.out.append(text)

    def text(self, x, y, text, anchor="start", cls="", title=""):
        tip = f"<title>{esc(title)}</title>" if title else ""
        mark = f' class="{cls}"' if cls else ""
        self.add(f'<text x="{num(x)}" y="{num(y)}" text-anchor="{anchor}"{mark}>{esc(text)}{tip}</text>')

    def line(self, x1, y1, x2, y2, cls):
        self.add(f'<line x1="{num(x1)}" y1="{num(y1)}" x2="{num(x2)}" y2="{num(y2)}" class="{cls}"/>')

    def rect(self, x, y, width, height, cls, title=""):
        tip = f"<title>{esc(title)}</title>" if title else ""
        self.add(f'<rect x="{num(x)}" y="{num(y)}" width="{num(max(width, 0))}" height="{num(max(height, 0))}" '
                 f'class="{cls}">{tip}</rect>')

    def path(self, points, cls):
        """A line through points in pixels."""
        if len(points) > 1:
            self.add(f'<polyline class="ln {cls}" points="{" ".join(num(x) + "," + num(y) for x, y in points)}"/>')

    def area(self, points, cls):
        """A filled shape through points in pixels."""
        if len(points) > 2:
            self.add(f'<polygon class="{cls}" points="{" ".join(num(x) + "," + num(y) for x, y in points)}"/>')

    def mark(self, x, y, shape, cls, title):
        draw = {
            "circle": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", "square": "M-3.5-3.5h7v7h-7z",
            "triangle": "M0-4.6L4.4 3.4H-4.4z", "diamond": "M0-5L5 0L0 5L-5 0z", "cross": "M-4-4L4 4M-4 4L4-4",
            "ring": "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
        }[shape]
        self.add(f'<path class="mk {cls}{" open" if shape in ("cross", "ring") else ""}" transform="translate({num(x)} '
                 f'{num(y)})" '
                 f'd="{draw}"><title>{esc(title)}</title></path>')

    def x_ticks(self, ticks, label, grid=False):
        """ticks: [(value, text)]; a text that would touch its neighbour is left out, its tick stays."""
        free_from = -1e9
        for value, text in ticks:
            at, half = self.x(value), text_px(text) / 2
            middle = min(at, self.width - half)  # the last one ends within the drawing
            self.line(at, self.y0, at, self.y1 if grid else self.y0 + 4, "grid" if grid else "axis")
            if middle - half >= free_from:
                self.text(middle, self.y0 + 18, text, "middle", "tick")
                free_from = middle + half + 8
        self.line(self.x0, self.y0, self.x1, self.y0, "axis")
        self.text((self.x0 + self.x1) / 2, self.y0 + 38, label, "middle", "label")

    def y_ticks(self, ticks, label):
        for value, text in ticks:
            at = self.y(value)
            self.line(self.x0, at, self.x1, at, "grid")
            self.text(self.x0 - 8, at + 4, text, "end", "tick")
        widest = max([text_px(text) for _, text in ticks] or [0])
        self.text(max(0, self.x0 - 8 - widest), self.y1 - 10, label, "start", "label")

    def svg(self):
        return (f'<svg viewBox="0 0 {self.width} {num(self.height)}" width="{self.width}" height="{num(self.height)}" '
                f'role="img" '
                f'aria-labelledby="{self.id}t {self.id}d"><title id="{self.id}t">{esc(self.title)}</title>'
                f'<desc id="{self.id}d">{esc(self.description)}</desc>{"".join(self.out)}</svg>')


def spread(wanted, gap, low, high):
    """Positions near the wanted ones, in their order, at least gap apart and within [low, high] as far as they fit."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    at = [min(max(wanted[i], low), high) for i in order]
    for _ in range(200):
        moved = False
        for i in range(1, len(at)):
            lack = gap - (at[i] - at[i - 1])
            if lack > 0.01:
                at[i - 1] -= lack / 2
                at[i] += lack / 2
                moved = True
        at = [min(max(a, low), high) for a in at]
        if not moved:
            break
    out = [0.0] * len(wanted)
    for place, i in enumerate(order):
        out[i] = at[place]
    return out
