"""Compare a tuning with the refit of its winner, for the reports of an evaluation and of the gate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.system.files import read_json_object, write_json
from pipelines.system.s3 import open_folder
from pipelines.tuning.record import RECORD_FILE, TuningRecord, read_record

HOLDOUT_METRICS = {"logloss": "log_loss", "mlogloss": "log_loss", "rmse": "rmse"}
"""Maps the name of a metric in a training to the name of the same metric on the holdout."""


def write_refit(output: Path, record: str, section: Mapping[str, Any], metrics: Mapping[str, float]) -> None:
    """Write to tuning.json in a folder what `describe_refit` returns: the comparison of a tuning with its refit.

    Args:
        output: folder of the evaluation.
        record: folder of the training's record, with its params.json and resources.json; or
            s3://BUCKET/KEY/output.tar.gz.
        section: as for `describe_refit`.
        metrics: as for `describe_refit`.

    Raises:
        DataError, SpecError, ServiceError: as `pipelines.system.s3.open_folder` raises them.
    """
    content: dict[str, Any] = {}
    is_remote = record.startswith("s3://")
    if (is_remote and section.get("tuning")) or Path(record).is_dir():  # on SageMaker, only `section` names the tuning
        with open_folder(record, "training") as folder:
            content = describe_refit(folder, section, metrics)
    write_json(output / RECORD_FILE, content)


def describe_refit(record: Path, section: Mapping[str, Any], metrics: Mapping[str, float]) -> dict[str, Any]:
    """Describe how the losses of a training compare with those of the tuning that found its hyperparameters.

    Args:
        record: folder of the training's record. Its tuning.json names the tuning; if there is none, `section` does.
        section: section `train` of the parameters, for a training whose record has no tuning.json, as on SageMaker.
        metrics: metrics of the holdout.

    Returns:
        The tuning, the hyperparameters that were changed since, the losses on validation and holdout, and a text;
        empty if the hyperparameters are not from a tuning.
    """
    tuning = read_record(record) or _read_section(section)
    if tuning is None:
        return {}
    changes = tuning.list_changes(read_json_object(record / "params.json"))
    validation = read_json_object(record / "resources.json").get(f"best_validation-{tuning.metric}")
    holdout = metrics.get(HOLDOUT_METRICS.get(tuning.metric, ""))
    return {
        "tuning": tuning.model_dump(),
        "changed": changes,
        "validation": validation,
        "holdout": holdout,
        "text": tuning.describe(validation, holdout, changes),
    }


def read_refit_text(evaluation: Path) -> str:
    """Return the text of `describe_refit` that an evaluation wrote; empty if there is none."""
    return str(read_json_object(evaluation / RECORD_FILE).get("text", ""))


def _read_section(section: Mapping[str, Any]) -> TuningRecord | None:
    values = section.get("tuning")
    return TuningRecord.model_validate(values) if values else None
