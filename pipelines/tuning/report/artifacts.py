"""Download the results of a tuning from its MLflow run, such as a run that TuningOperator made."""

from __future__ import annotations

from pathlib import Path

from pipelines.errors import DataError, ServiceError, SpecError
from pipelines.tuning.trials.mlflow_runs import REPORT_FOLDER, RUN_ID, require_client


def is_run_id(text: str) -> bool:
    """Return whether a text is the id of an MLflow run, and not a folder."""
    return bool(RUN_ID.fullmatch(text)) and not Path(text).is_dir()


def download_results(run_id: str, folder: Path) -> Path:
    """Download the artifacts of a tuning's run to a folder; return the folder with trials.csv and best.json.

    Raises:
        SpecError: MLFLOW_TRACKING_URI is not set, or there is no such run. A retry cannot help.
        DataError: the run has no results of a tuning. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    from mlflow.exceptions import MlflowException

    client = require_client()
    try:
        client.get_run(run_id)
        if not client.list_artifacts(run_id, REPORT_FOLDER):
            message = f"the MLflow run {run_id} has no results of a tuning."
            raise DataError(message, "Give the run of the tuning itself, not that of a trial.")
        return Path(client.download_artifacts(run_id, REPORT_FOLDER, str(folder)))
    except MlflowException as error:
        if error.get_http_status_code() == 404:
            raise SpecError(f"MLflow has no run {run_id}.", "Correct the id.") from None
        raise ServiceError(f"MLflow failed: {' '.join(str(error).split())}.") from None
