"""What a dataset is to the steps. To bring one's own, see docs/how-to/your-own-data.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pipelines.errors import DataError, SpecError

if TYPE_CHECKING:
    import ibis
    import numpy as np
    import pandas as pd

    from pipelines.source import ChangingSource, Source


IN_ALL = frozenset({"score"})
"""Column of every table and file of scores: no feature, key or label of a dataset has its name."""
IN_OURS = frozenset({"label", "model_name", "model_version", "scored_at"})
"""Columns of the tables of predictions and outcomes, beside those of the key."""


class TrainedModel(Protocol):
    """What a training script left, in memory."""

    def score(self, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
        """Probability of the label for each row (shape: rows)."""

    def importance(self) -> dict[str, float]:
        """Feature name to its share of the total gain, largest first."""


class Features(Protocol):
    """What a model may know of a row."""

    def __call__(self, rows: ibis.Table) -> ibis.Table:
        """`rows`, which have nothing that is known later than the decision, with the feature columns."""


@dataclass(frozen=True)
class Dataset:
    """Names and columns of a dataset; the code is found by the name of its package, `pipelines.datasets.NAME`."""

    name: str
    key: Sequence[str]
    """Columns that name a row uniquely."""
    label: str = ""
    """Column that is to be predicted: true, false, or null where it never became known; empty: nothing is."""
    later_known: Sequence[str] = ()
    """Columns that are not known yet when the prediction is made; features may not use them."""
    features: Mapping[str, str] = field(default_factory=dict)
    """Feature name to its kind: 'number' or 'category'."""

    def __post_init__(self) -> None:
        """Refuses names that the tables of what is predicted have themselves.

        Raises:
            SpecError: there is one.
        """
        everywhere, ours = (*self.key, *self.features, self.label), self.key
        # DuckDB knows no case: Score and score are one column to it.
        taken = [name for names, of in ((IN_ALL, everywhere), (IN_OURS, ours)) for name in of if name.lower() in names]
        if taken and self.label:  # else nothing is predicted, and there are no such tables
            what = f"{self.name} has a column {min(taken)}, which is a name of the tables of scores."
            raise SpecError(what, "Rename it.")

    @property
    def staging(self) -> str:
        """Table that ingest writes."""
        return f"{self.name}_raw"

    @property
    def published(self) -> str:
        """Table that validate publishes."""
        return self.name

    @property
    def quarantine(self) -> str:
        """Table of the rows that validate set aside."""
        return f"{self.name}_quarantine"

    @property
    def predictions(self) -> str:
        """Table of the scores; a dataset's own, as its key's columns are."""
        return f"{self.name}_predictions"

    @property
    def outcomes(self) -> str:
        """Table of the scores whose label is known, with it."""
        return f"{self.name}_outcomes"

    @property
    def package(self) -> Path:
        """Folder of the dataset's code."""
        return Path(__file__).parent / "datasets" / self.name

    def source(self, folder: Path | None = None) -> Source:
        """The dataset's source of days; `folder` replaces its default place.

        Raises:
            SpecError: its source has no days.
        """
        made: Source = self._opened(folder, "read", "has no partitions: the step `sync` reads it")
        return made

    def changing(self, folder: Path | None = None) -> ChangingSource:
        """The dataset's source of changes; `folder` replaces its default place.

        Raises:
            SpecError: its source has no cursor.
        """
        made: ChangingSource = self._opened(folder, "changes", "has partitions: the step `ingest` reads it")
        return made

    def load_model(self, folder: Path) -> TrainedModel:
        """The model that the training script saved in `folder`.

        Raises:
            DataError: the folder does not hold one.
        """
        try:
            made: TrainedModel = import_module(f"pipelines.datasets.{self.name}.model").load(folder)
        except Exception as error:  # what a broken file raises is the model library's own
            raise DataError(f"{folder} holds no model of {self.name} that can be read: {error}.") from None
        return made

    def build(self) -> Features:
        """The function that adds the features to rows."""
        built: Features = import_module(f"pipelines.datasets.{self.name}.features").features
        return built

    def _opened(self, folder: Path | None, can: str, otherwise: str) -> Any:
        made = import_module(f"pipelines.datasets.{self.name}.source").open_source(folder)
        if not hasattr(made, can):
            raise SpecError(f"the source of {self.name} {otherwise}.")
        return made


def dataset(name: str) -> Dataset:
    """The dataset of package `pipelines.datasets.NAME`.

    Raises:
        SpecError: there is no such package.
    """
    try:
        found: Dataset = import_module(f"pipelines.datasets.{name}").DATASET
    except (ModuleNotFoundError, AttributeError):
        known = ", ".join(sorted(path.parent.name for path in Path(__file__).parent.glob("datasets/*/source.py")))
        raise SpecError(f"there is no dataset {name!r}.", f"Known: {known}.") from None
    return found
