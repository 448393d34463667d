# SPDX-License-Identifier: BSD-3-Clause
"""The latency report: sweep.py measures, data.py derives, svg.py and charts.py draw, page.py writes one HTML file."""
