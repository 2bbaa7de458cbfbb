"""reference.json: a model's reference, and what its own rows look like over it, as `evaluate` keeps them with it."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import DataError
from pipelines.monitoring.profiles.profile import Profile
from pipelines.monitoring.profiles.reference import Reference
from pipelines.system.files import read_json, write_json

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

    from pipelines.registry.versions import Registry

FILE = "reference.json"
ARTIFACT = f"evaluation/{FILE}"
"""Of a version's run."""
DIGITS = 9
"""Of sums that are kept: an engine's threads take them in any order, and equal rows are to give equal bytes."""
WANTED = "`evaluate` writes it, and keeps it with a registered version"


@dataclass(frozen=True)
class Record:
    """A reference with the profiles of the training's days, and of the holdout's with their scores and labels.

    By day, since the rows of a day go together: only days can tell how much a shift is more than the usual.
    """

    reference: Reference
    training: Mapping[dt.date, Profile]
    holdout: Mapping[dt.date, Profile]

    def write(self, path: Path) -> None:
        """`path` holds the record. Equal rows give equal bytes: there are no sketches in it."""
        days = {name: _days(getattr(self, name)) for name in ("training", "holdout")}
        write_json(path, {"reference": self.reference.model_dump(mode="json"), **days})

    @classmethod
    def read(cls, path: Path) -> Record:
        """The record of a file.

        Raises:
            DataError: it is not there, or holds none.
        """
        told = read_json(path, WANTED)
        try:
            reference = Reference.model_validate_json(json.dumps(told["reference"]))
            profiles = [_profiles(told[name]) for name in ("training", "holdout")]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            what = str(error).splitlines()[0]
            raise DataError(f"{path} is no reference ({type(error).__name__}: {what}): {WANTED}.") from None
        return cls(reference, *profiles)


def of_version(registry: Registry, version: ModelVersion) -> Record:
    """The record of a registered version.

    Raises:
        DataError: it was registered without one.
        ServiceError: MLflow does not answer. A retry can help.
    """
    from pipelines.registry.artifacts import download_artifact

    with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
        path = download_artifact(registry, version, ARTIFACT, Path(folder))
        if path is None:
            what = (
                f"{version.name} version {version.version} has no {ARTIFACT}: it was registered before profiles were."
            )
            raise DataError(what, "Train and evaluate anew, or give `--reference`.")
        return Record.read(path)


def _days(profiles: Mapping[dt.date, Profile]) -> dict[str, list[dict[str, Any]]]:
    return {day.isoformat(): [_plain(row) for row in profiles[day].to_rows()] for day in sorted(profiles)}


def _profiles(told: Mapping[str, Any]) -> dict[dt.date, Profile]:
    return {dt.date.fromisoformat(day): Profile.from_rows(rows) for day, rows in told.items()}


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    kept = {name: _rounded(value) for name, value in row.items() if name != "sketch"}
    return {**kept, "sums": [_rounded(one) for one in row["sums"]]}


def _rounded(value: Any) -> Any:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
