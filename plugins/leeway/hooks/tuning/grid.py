"""Divide the points of a grid that were not tried into smaller grids.

SageMaker tries all points of a grid, in an order of its own, and has no warm start for it. A tuning job can leave out a
point only if the values of all hyperparameters are chosen so. Therefore what is left after a failure is divided into
grids that have no other points, and each is a tuning job.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any

from pipelines.tuning.space import CheckedSpace, list_grid_values

Point = tuple[str, ...]
"""The values of a point, as texts, in the order of the space."""


def find_next_grid(space: CheckedSpace, tried_points: Collection[Point]) -> dict[str, list[Any]]:
    """Return a grid of points that were not tried: that of the first such point, as large as possible.

    Args:
        space: the space of the whole grid.
        tried_points: points that are not tried again.

    Returns:
        Hyperparameter to its values. If no point is left, the grid of the last point: a tuning job needs one.
    """
    values = list_grid_values(space)
    texts = [[str(value) for value in items] for items in values.values()]
    points = list(itertools.product(*texts))
    left = set(points) - set(tried_points)
    box = [[text] for text in next((point for point in points if point in left), points[-1])]
    for index in reversed(range(len(box))) if left else ():
        box[index] = [
            text for text in texts[index] if left.issuperset(itertools.product(*box[:index], [text], *box[index + 1 :]))
        ]
    return {
        name: [value for value in items if str(value) in selected]
        for (name, items), selected in zip(values.items(), box, strict=True)
    }


def count_points_left(space: CheckedSpace, tried_points: Collection[Point]) -> int:
    """Return how many points of a grid were not tried."""
    texts = [[str(value) for value in items] for items in list_grid_values(space).values()]
    return len(set(itertools.product(*texts)) - set(tried_points))
