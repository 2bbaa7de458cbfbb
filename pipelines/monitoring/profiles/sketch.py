"""Estimate quantiles from a sketch of a few KB: Apache DataSketches KLL (Karnin, Lang & Liberty 2016).

The rank error is 1.3 % at K = 200. The algorithm is random: sketches of equal rows differ in their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from datasketches import kll_doubles_sketch  # type: ignore[import-untyped]

SKETCH_SIZE = 200
"""Parameter K of the sketch: its accuracy, and its size."""


class Sketch:
    """A quantile sketch that is filled batch by batch; its size does not grow with the number of values."""

    def __init__(self) -> None:
        self._kll = kll_doubles_sketch(SKETCH_SIZE)

    def update(self, values: np.ndarray[Any, Any]) -> None:
        """Add values; those that are not finite are ignored."""
        self._kll.update(np.ascontiguousarray(values[np.isfinite(values)], dtype=np.float64))

    def to_bytes(self) -> bytes:
        """Serialize the sketch in the portable format; empty bytes where it has no values."""
        return b"" if self._kll.is_empty() else bytes(self._kll.serialize())


def merge_sketches(first: bytes, second: bytes) -> bytes:
    """Merge two serialized sketches into the sketch of the values of both."""
    if not first or not second:
        return first or second
    merged_sketch = kll_doubles_sketch.deserialize(first)
    merged_sketch.merge(kll_doubles_sketch.deserialize(second))
    return bytes(merged_sketch.serialize())


def estimate_quantiles(sketch: bytes, ranks: Sequence[float]) -> list[float]:
    """Estimate the values at the ranks (0 to 1); an empty list for an empty sketch."""
    if not sketch:
        return []
    return [float(value) for value in kll_doubles_sketch.deserialize(sketch).get_quantiles(list(ranks))]
