"""Divide the points of a grid that were not tried into smaller grids.

SageMaker tries all points of a grid, in an order of its own, and has no warm start for it. A tuning job tries all
combinations of the values in its request, so it cannot leave out single points. Therefore the points that are left
after a failure are divided into grids that have no other points, and each of these grids is a tuning job.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any

from pipelines.tuning.space import CheckedSpace, list_grid_values

Point = tuple[str, ...]
"""The values of a point, as texts, in the order of the space."""


def find_next_grid(space: CheckedSpace, tried_points: Collection[Point]) -> dict[str, list[Any]]:
    """Return a grid of points that were not tried.

    At first, the grid has only the first such point. Then each hyperparameter, from the last to the first, gets
    every value that adds no tried point to the grid.

    Args:
        space: the space of the whole grid.
        tried_points: points that are not tried again.

    Returns:
        Maps each hyperparameter to its values. If no point is left, the last point alone: a tuning job needs one.
    """
    values = list_grid_values(space)
    texts = [[str(value) for value in items] for items in values.values()]
    points = list(itertools.product(*texts))
    points_left = set(points) - set(tried_points)
    grid = [[text] for text in next((point for point in points if point in points_left), points[-1])]
    for index in reversed(range(len(grid))) if points_left else ():
        grid[index] = [
            text
            for text in texts[index]
            if points_left.issuperset(itertools.product(*grid[:index], [text], *grid[index + 1 :]))
        ]
    return {
        name: [value for value in items if str(value) in selected_texts]
        for (name, items), selected_texts in zip(values.items(), grid, strict=True)
    }


def count_points_left(space: CheckedSpace, tried_points: Collection[Point]) -> int:
    """Return how many points of a grid were not tried."""
    texts = [[str(value) for value in items] for items in list_grid_values(space).values()]
    return len(set(itertools.product(*texts)) - set(tried_points))
