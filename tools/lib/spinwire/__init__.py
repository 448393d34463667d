# SPDX-License-Identifier: BSD-3-Clause
"""What Python programs use of spinwire: open() hands its objects over as tensors (spinwire.stream), spinwire.results
reads what its programs write."""
from .stream import Error, Receipt, Stream, Tensor, open  # pylint: disable=redefined-builtin

__all__ = ["Error", "Receipt", "Stream", "Tensor", "open"]
