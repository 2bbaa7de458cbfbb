"""Register the model that `dvc repro` trained, let the gate judge it, and make it champion if it passed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipelines import params
from pipelines.cli.step_commands.request import build_request
from pipelines.settings import settings
from pipelines.steps import load_run_function

if TYPE_CHECKING:
    from pipelines.steps.promote import PromoteResult

OUTPUT_FOLDER = "registered"
"""Folder in a model's data/ for the evaluation, the verdict and the report of the registered version. DVC does not
track it. The evaluation, verdict and report that DVC tracks, from before the registration, are not changed."""


def promote_model(model: str) -> PromoteResult:
    """Register the model of models/MODEL/data, let the gate judge it, and make it champion if it passed. Idempotent.

    Raises:
        SpecError: there is no such model, or its parameters are not valid. A retry cannot help.
        InvalidError: MLFLOW_TRACKING_URI is not set. A retry cannot help.
        DataError: the model is not trained, or the champion was deleted in MLflow. A retry cannot help.
        PromotionError: the gate did not pass the model, or it may not be promoted. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
        ConflictError: other processes add events of the model at the same time. A retry can help.
    """
    from pipelines.registry.versions import Registry

    folder = params.find_model_folder(settings().project, model)
    Registry.open()  # raises an error if there is no registry, before anything is written
    data, output = folder / "data", folder / "data" / OUTPUT_FOLDER
    inputs = {"model": model, "features": data / "features", "evaluation": output / "evaluation"}
    training_outputs = {"trained_model": str(data / "model"), "record": str(data / "training")}
    files = {"snapshot": data / "snapshot.json", "lock": folder / "dvc.lock"}
    version = _run("evaluate", inputs | training_outputs | files).version
    verdict = output / "verdict.json"
    _run("gate", inputs | {"version": version, "verdict": verdict, "report": output / "report"})
    result: PromoteResult = _run("promote", {"model": model, "version": version, "verdict": verdict})
    return result


def _run(step: str, values: dict[str, Any]) -> Any:
    return load_run_function(step)(build_request(step, values))
