# SPDX-License-Identifier: BSD-3-Clause
"""What Python programs use of spinwire: spinwire.results reads what its programs write."""
