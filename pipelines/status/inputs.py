"""Read the data that the documents of all models need from the lake and the project, each value once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import cached_property

from pipelines import params
from pipelines.costs.endpoints.running import RunningFleet
from pipelines.dataset import Dataset, choose_dataset, load_dataset
from pipelines.lake.cached import CachedLake
from pipelines.loop.journal import Journal as LoopJournal
from pipelines.partitions import get_last_day, parse_partition
from pipelines.registry.lifecycle import Journal
from pipelines.serving.metering.running import list_running_fleets
from pipelines.settings import settings
from pipelines.status.drift_history import WEEKS, DriftHistory, read_drift_histories
from pipelines.status.model_status import find_newest_partition


class StatusInputs:
    """What the documents or the metrics of all models are built from.

    Each value is read when it is first needed, and is then cached. So one object serves for one time of writing.

    Args:
        lake: lake to read.
    """

    def __init__(self, lake: CachedLake) -> None:
        self.lake = lake
        self.registry, self.loop = Journal.open(lake), LoopJournal.open(lake)
        self.now = dt.datetime.now(dt.UTC)
        self._datasets: dict[str, Dataset] = {}

    @cached_property
    def models(self) -> Sequence[str]:
        """Models of the project; if it has no folder models/, the models that have events. Sorted by name."""
        names = params.list_model_names(settings().project)
        return names or sorted({*self.registry.list_models(), *self.loop.list_models()})

    def load_dataset(self, model: str) -> Dataset:
        """Load the dataset of a model: the one that its parameters name, or else the project's only dataset.

        Raises:
            SpecError: the parameters are not valid, or name no dataset and the project has several. A retry cannot
                help.
        """
        if model not in self._datasets:
            name = params.choose_dataset(params.load(settings().project, model), model)
            self._datasets[model] = load_dataset(name) if name else choose_dataset()
        return self._datasets[model]

    def find_newest_day(self, dataset: Dataset) -> dt.date | None:
        """Return the last day of the newest published partition of a dataset; None if there is none."""
        newest_partition = find_newest_partition(self.lake, dataset)
        return get_last_day(parse_partition(newest_partition)) if newest_partition else None

    @cached_property
    def running_fleets(self) -> list[RunningFleet]:
        """Endpoints that run, according to the lake."""
        return list_running_fleets(self.lake)

    @cached_property
    def common_last_day(self) -> dt.date:
        """The earliest of the newest published days of the models' datasets; today if nothing is published.

        Datasets without a published day, or whose table cannot be read, are left out.
        """
        days = [day for model in self.models if (day := self._find_newest_day_of_model(model))]
        return min(days, default=self.now.date())

    def read_drift_history(self, model: str) -> DriftHistory:
        """Read the drift decisions about a model, from `WEEKS` weeks before `common_last_day` on."""
        return read_drift_histories(self.lake, self.common_last_day - dt.timedelta(weeks=WEEKS)).get(
            model, DriftHistory()
        )

    def _find_newest_day_of_model(self, model: str) -> dt.date | None:
        try:
            return self.find_newest_day(self.load_dataset(model))
        except Exception:  # a damaged table is reported where the document of its model is built
            return None
