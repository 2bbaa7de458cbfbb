"""Find the bin of a value of a category, which is a column (see `CategoryBins`)."""

from __future__ import annotations

from collections.abc import Callable

from pipelines.monitoring.profiles.reference import CategoryBins
from pipelines.monitoring.profiles.texts import select_normalizer

OTHER, UNSEEN, MISSING = -3, -2, -1
"""Indices of the last three entries in a list of a category's counts. The entries before them count the values with a
bin of their own. OTHER: the other values in training. UNSEEN: values that were not in training; if the reference does
not list the values of OTHER, unseen values count as OTHER, too. MISSING: rows without a value. `Column.counts` is this
list without its last entry; `Column.missing` has that count."""


def build_bin_finder(category: CategoryBins) -> Callable[[str | None], int]:
    """Build the function that returns the position of a value's count: of its bin, or OTHER, UNSEEN or MISSING."""
    normalize = select_normalizer(category.family)
    positions = {value: position for position, value in enumerate(category.values)}
    other_values = None if category.rest is None else set(category.rest)

    def find_bin(text: str | None) -> int:
        value = None if text is None else normalize(text)
        if value is None:
            return MISSING
        return positions.get(value, OTHER if other_values is None or value in other_values else UNSEEN)

    return find_bin
