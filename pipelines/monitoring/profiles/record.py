"""Read and write reference.json: a model's reference, with the profiles of its own training and holdout rows."""

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
"""Path among the artifacts of the version's MLflow run."""
DIGITS = 9
"""Significant digits of the stored floats. Engines add the rows in any order, so the last digits of a sum vary."""
HINT = "`evaluate` writes this file, and stores it with a registered version"


@dataclass(frozen=True)
class ReferenceRecord:
    """A reference, and a profile of each training day and holdout day.

    Each day has its own profile, because the rows of a day are correlated: the statistical tests need the variance
    between days.
    """

    reference: Reference
    training: Mapping[dt.date, Profile]
    """Profiles of the training days, without scores: the model has seen these rows."""
    holdout: Mapping[dt.date, Profile]
    """Profiles of the holdout days, with counts of scores and labels."""

    def write(self, path: Path) -> None:
        """Write the record as JSON: equal rows give equal bytes. Idempotent."""
        days = {name: _format_days(getattr(self, name)) for name in ("training", "holdout")}
        write_json(path, {"reference": self.reference.model_dump(mode="json"), **days})

    @classmethod
    def read(cls, path: Path) -> ReferenceRecord:
        """Read the record from a file.

        Raises:
            DataError: the file does not exist, or is not a valid record. A retry cannot help.
        """
        content = read_json(path, HINT)
        try:
            reference = Reference.model_validate_json(json.dumps(content["reference"]))
            profiles = [_parse_days(content[name]) for name in ("training", "holdout")]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            cause = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            raise DataError(f"{path} is not a valid reference ({cause}): {HINT}.") from None
        return cls(reference, *profiles)


def load_record(registry: Registry, version: ModelVersion) -> ReferenceRecord:
    """Load the record of a registered version.

    Raises:
        DataError: the version was registered without a record, or its record is not valid. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    from pipelines.registry.artifacts import download_artifact

    with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
        path = download_artifact(registry, version, ARTIFACT, Path(folder))
        if path is None:
            raise DataError(
                f"{version.name} version {version.version} has no {ARTIFACT}.",
                "Train and evaluate again, or give `--reference`.",
            )
        return ReferenceRecord.read(path)


def _format_days(profiles: Mapping[dt.date, Profile]) -> dict[str, list[dict[str, Any]]]:
    return {day.isoformat(): [_format_row(row) for row in profiles[day].to_rows()] for day in sorted(profiles)}


def _parse_days(content: Mapping[str, Any]) -> dict[dt.date, Profile]:
    return {dt.date.fromisoformat(day): Profile.from_rows(rows) for day, rows in content.items()}


def _format_row(row: dict[str, Any]) -> dict[str, Any]:
    fields = {name: _round_float(value) for name, value in row.items()}
    return {**fields, "sums": [_round_float(value) for value in row["sums"]]}


def _round_float(value: Any) -> Any:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
