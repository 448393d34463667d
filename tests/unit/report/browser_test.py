#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every page in a headless Chromium at three widths, light and dark: nothing but a table's own box scrolls sideways, on
a phone not even that; no text leaves its drawing, touches another one there, is cut or pale; nothing is written to the
console; light and dark differ."""
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "..", "tools", "lib"), HERE]
import objects_test  # noqa: E402
import perf_test  # noqa: E402
import report_test  # noqa: E402
from spwreport import page, perf  # noqa: E402

BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
WIDTHS = (390, 900, 1400)
# Chromium makes no window narrower than 500 pixels: the page stands in a frame of the width that is asked for.
FRAME = ('<!doctype html><meta name="color-scheme" content="light dark"><title></title>'
         '<iframe style="border:0;width:{width}px;height:20000px" srcdoc="{page}"></iframe>')
MEASURE = """<script>
function light(text) {  // relative luminance, WCAG 2.1
	const part = text.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255);
	const [r, g, b] = part.map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
	return .2126 * r + .7152 * g + .0722 * b;
}
function ground(element) {
	for (; element; element = element.parentElement) {
		const color = getComputedStyle(element).backgroundColor;
		if (!color.startsWith("rgba") || !color.endsWith(" 0)")) return color;
	}
}
function contrast(element) {
	const style = getComputedStyle(element), own = light(element.closest("svg") ? style.fill : style.color);
	const behind = light(ground(element));
	return (Math.max(own, behind) + .05) / (Math.min(own, behind) + .05);
}
function touch(a, b) {
	return Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
		&& Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
}
function seen(element) { return element.getClientRects().length > 0; }
function holds_text(element) { return [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim()); }
const width = document.documentElement.clientWidth;
const texts = [...document.body.querySelectorAll("*")].filter(element =>
	!element.closest("script,style,title,desc") && seen(element) && holds_text(element));
const drawn = [...document.querySelectorAll("figure svg")].filter(seen).flatMap(svg => {
	const text = [...svg.querySelectorAll("text")], box = text.map(one => one.getBoundingClientRect());
	return text.flatMap((one, i) => text.filter((_, j) => j > i && touch(box[i], box[j]))
		.map(other => one.textContent + " | " + other.textContent));
});
parent.document.title = JSON.stringify({width, drawn,
over: document.documentElement.scrollWidth - width,
scrolling: [...document.querySelectorAll(".scroll")].filter(box => box.scrollWidth > box.clientWidth).length,
tables: document.querySelectorAll("table").length,
outside: texts.filter(text => {
	const box = text.getBoundingClientRect(), svg = text.ownerSVGElement?.getBoundingClientRect();
	return svg ? box.left < svg.left - 1 || box.right > svg.right + 1
		: !text.closest(".scroll, .wide thead, .narrow thead") && box.right > width + 1;
}).map(text => text.textContent),
cut: texts.filter(text => getComputedStyle(text).overflowX === "hidden" && text.scrollWidth > text.clientWidth + 1)
	.map(text => text.textContent),
pale: texts.filter(text => !text.classList.contains("inbar") && contrast(text) < 4.5)
	.map(text => text.textContent + " " + contrast(text).toFixed(2)),
ground: getComputedStyle(document.body).backgroundColor})</script></body>"""


def pages():
    """{name: HTML} with everything that is folded open."""
    both = report_test.Where().both()
    stages = [{"stage": name, "count": 1000, "uncertainty_ns": 9, "p50_ns": 700, "max_ns": 9000,
               "spectrum": [[50.0, 700], [99.0, 2000], [100.0, 9000]]}
              for name in ("nic_polled", "polled_pushed", "polled_sent")]
    steps = []
    for i in range(1, 11):
        loaded = report_test.step(i * 1e5, 2000 + i * i * 100, spinwire={"latency": stages})
        steps.append({**loaded, "share": i / 10, "where": both["where"]})
    rows = [perf_test.row("write, rail 1", count, gbps) for count, gbps in ((64, 0.0001), (4096, 0.3), (1 << 20, 92.0))]
    rows += [perf_test.row("write latency, half of a round trip, rail 1", count, p50=5000, p99="lost")
             for count in (64, 4096)]
    return {name: text.replace("<details>", "<details open>") for name, text in
            (("sweep", page.html(report_test.record(steps))),
             ("run", page.html(report_test.record(steps[:1]), "/tmp/run")),
             ("objects", page.html(report_test.record([objects_test.step()]), "/tmp/run")),
             ("perf", perf.html(perf_test.record(*rows))))}


def measured(folder, text, width, dark):
    """What the browser reports of a page; the lines on its console."""
    path = os.path.join(folder, "page.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(FRAME.format(width=width, page=html.escape(text.replace("</body>", MEASURE))))
    done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                           f"--blink-settings=preferredColorScheme={0 if dark else 1}",
                           f"--user-data-dir={folder}/browser", "--window-size=1500,2000", "--dump-dom",
                           f"file://{path}"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                          check=True)
    return (json.loads(html.unescape(re.search(r"<title>(\{.*?\})</title>", done.stdout)[1])),
            [line for line in done.stderr.splitlines() if ":CONSOLE" in line])


class Browser(unittest.TestCase):
    def test_every_page_fits(self):
        grounds = set()
        with tempfile.TemporaryDirectory() as folder:
            for name, text in pages().items():
                for width in WIDTHS:
                    for dark in (False, True):
                        with self.subTest(page=name, width=width, dark=dark):
                            got, console = measured(folder, text, width, dark)
                            self.assertEqual(got["width"], width)
                            self.assertEqual([got["over"], got["outside"], got["cut"], got["pale"], got["drawn"],
                                              console], [0, [], [], [], [], []])
                            self.assertGreater(got["tables"], 2)
                            self.assertTrue(got["scrolling"] == 0 or width >= 700, got)
                            grounds.add(got["ground"])
        self.assertEqual(len(grounds), 2)


if __name__ == "__main__":
    if not BROWSER:
        print(f"none of {', '.join(BROWSERS)} is installed (tools/deps all)", file=sys.stderr)
        sys.exit(77)
    unittest.main()
