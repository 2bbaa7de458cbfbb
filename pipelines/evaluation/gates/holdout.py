"""What the checks look at: the holdout's rows, with what candidate and champion say of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pipelines.errors import DataError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Holdout:
    """One holdout, all of the same rows in the same order."""

    label: Array
    """Shape (rows,), 0 or 1."""
    candidate: Array
    """Shape (rows,), probability of 1."""
    champion: Array | None
    """The same of the champion; None where there is none to compare with."""
    rows: pd.DataFrame
    """The features, and `date`."""
    base_rate: float
    """Share of 1 in the training rows: what the simplest model says of every row."""
    last_week: float
    """The same of the last seven days of the training rows."""

    def __post_init__(self) -> None:
        """The rows can be judged.

        Raises:
            DataError: one label only, a score that is no number, or scores of other rows.
        """
        if len(np.unique(self.label)) < 2:
            raise DataError(f"the {len(self.label)} rows of the holdout have not both labels: nothing can be judged.")
        for who, score in (("candidate", self.candidate), ("champion", self.champion)):
            if score is None:
                continue
            if score.shape != self.label.shape:
                raise DataError(f"the {who}'s scores are {len(score)}, the holdout's rows {len(self.label)}.")
            if not np.isfinite(score).all():
                raise DataError(f"the {who}'s score is not a number for {int((~np.isfinite(score)).sum())} rows.")

    def column(self, name: str) -> pd.Series[Any]:
        """A column of the rows.

        Raises:
            DataError: there is none.
        """
        if name not in self.rows:
            raise DataError(
                f"the holdout has no column {name} to slice by.", f"It has {', '.join(map(str, self.rows))[:300]}."
            )
        return self.rows[name]
