#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Both pages in a headless Chromium at three widths, light and dark: nothing but a table's own box scrolls sideways, on
a phone not even that; no text leaves its drawing; nothing is written to the console; light and dark differ."""
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
import perf_test  # noqa: E402
import report_test  # noqa: E402
from spwreport import page, perf  # noqa: E402

BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
WIDTHS = (390, 900, 1400)
MEASURE = """<script>document.title = JSON.stringify({
over: document.documentElement.scrollWidth - document.documentElement.clientWidth,
phone: document.documentElement.clientWidth < 700,
scrolling: [...document.querySelectorAll(".scroll")].filter(box => box.scrollWidth > box.clientWidth).length,
tables: document.querySelectorAll("table").length,
outside: [...document.querySelectorAll("figure svg text")].filter(text => {
	const box = text.getBoundingClientRect(), svg = text.ownerSVGElement.getBoundingClientRect();
	return box.width > 0 && (box.left < svg.left - 1 || box.right > svg.right + 1);
}).map(text => text.textContent),
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
            (("sweep", page.html(report_test.record(steps))), ("perf", perf.html(perf_test.record(*rows))))}


def measured(folder, text, width, dark):
    """What the browser reports of a page; the lines on its console."""
    path = os.path.join(folder, "page.html")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("</body>", MEASURE))
    done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                           f"--blink-settings=preferredColorScheme={0 if dark else 1}",
                           f"--user-data-dir={folder}/browser", f"--window-size={width},2000", "--dump-dom",
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
                            self.assertEqual((got["over"], got["outside"], console), (0, [], []))
                            self.assertGreater(got["tables"], 2)
                            self.assertEqual(got["phone"], width < 700)
                            self.assertTrue(got["scrolling"] == 0 or not got["phone"], got)
                            grounds.add(got["ground"])
        self.assertEqual(len(grounds), 2)


if __name__ == "__main__":
    if not BROWSER:
        print(f"none of {', '.join(BROWSERS)} is installed (tools/deps all)", file=sys.stderr)
        sys.exit(77)
    unittest.main()
