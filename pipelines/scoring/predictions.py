"""What the tables of predictions and outcomes share: their columns, and how a write of a partition is kept current.

Both have a row for each key and version of a model, and are written a day, model (and version) at a time.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import TypeVar

from pipelines.dataset import Dataset
from pipelines.errors import DataError, SpecError
from pipelines.lake import Lake
from pipelines.system.log import log

SCORE, MODEL, VERSION, SCORED_AT, LABEL = "score", "model_name", "model_version", "scored_at", "label"
T = TypeVar("T")


def demand_published(lake: Lake, chosen: Dataset, day: dt.date) -> None:
    """The day has rows to score.

    Raises:
        SpecError: nothing is predicted of the dataset. A retry cannot help.
        DataError: the day is not published. A retry helps once it is.
    """
    if not chosen.label:
        raise SpecError(f"the dataset {chosen.name} has no label: there is nothing to predict.")
    if not lake.count_rows_of_days(chosen.published, [day]):
        raise DataError(f"{chosen.published} has no partition {day}.", "Publish it first: `ingest`, then `validate`.")


def current(lake: Lake, tables: Sequence[str], day: dt.date, work: Callable[[], T]) -> T:
    """What `work()` gave, done again as long as the day was written anew in one of the tables meanwhile.

    So of two at once the one that ends last has seen what is there: none leaves what it made of older rows.
    """
    while True:
        seen = [lake.pin_window(one, day, day) for one in tables]
        made = work()
        if [lake.pin_window(one, day, day) for one in tables] == seen:
            return made
        log.info("%s %s was written meanwhile: once more", " or ".join(tables), day)
