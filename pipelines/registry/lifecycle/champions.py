"""Find the version that was champion of a model at a moment in the past."""

from __future__ import annotations

import datetime as dt

from mlflow.entities.model_registry import ModelVersion

from pipelines.registry.lifecycle.journal import Journal
from pipelines.registry.versions import PROMOTED_TAG, WOULD_PROMOTE_TAG, Registry, read_as_of


def find_champion_as_of(registry: Registry, model: str, moment: dt.date) -> ModelVersion | None:
    """Return the champion that a training as of `moment` would have been compared with; None if there was none.

    The possible versions are the champion, those that were promoted, and those that a backfill would have promoted.
    Versions in `State.rolled_back_versions` are left out. Of the others, the version with the latest as_of before
    `moment` is returned; if several have this as_of, the newest.

    Raises:
        DataError: one of these versions has no tag `leeway.as_of`. A retry cannot help.
        ServiceError: MLflow failed. A retry can help.
    """
    champion = registry.find_champion(model)
    rolled_back_versions = Journal.open().read_state(model).rolled_back_versions
    champion_number = str(champion.version) if champion else None
    champions = [
        version
        for version in registry.list_versions(model)
        if {PROMOTED_TAG, WOULD_PROMOTE_TAG} & set(version.tags) or str(version.version) == champion_number
    ]
    earlier_champions = [
        version
        for version in champions
        if str(version.version) not in rolled_back_versions and read_as_of(version) < moment
    ]
    return max(earlier_champions, key=lambda version: (read_as_of(version), int(version.version)), default=None)
