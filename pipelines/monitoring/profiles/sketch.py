"""A quantile sketch: Apache DataSketches KLL (Karnin, Lang & Liberty 2016), rank error 1.3 % at K = 200.

It flips coins: sketches of equal rows differ in their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from datasketches import kll_doubles_sketch  # type: ignore[import-untyped]

K = 200


class Sketch:
    """Values as they come; a few KB however many they are."""

    def __init__(self) -> None:
        self._kll = kll_doubles_sketch(K)

    def update(self, values: np.ndarray[Any, Any]) -> None:
        """Takes them in; those that are not finite are left out."""
        self._kll.update(np.ascontiguousarray(values[np.isfinite(values)], dtype=np.float64))

    def to_bytes(self) -> bytes:
        """Its portable form; empty where it has seen nothing."""
        return b"" if self._kll.is_empty() else bytes(self._kll.serialize())


def merged(one: bytes, other: bytes) -> bytes:
    """The sketch of the values of both."""
    if not one or not other:
        return one or other
    both = kll_doubles_sketch.deserialize(one)
    both.merge(kll_doubles_sketch.deserialize(other))
    return bytes(both.serialize())


def quantiles(sketch: bytes, ranks: Sequence[float]) -> list[float]:
    """Values at the ranks (0 to 1); none of a sketch that has seen nothing."""
    return [float(one) for one in kll_doubles_sketch.deserialize(sketch).get_quantiles(list(ranks))] if sketch else []
