"""Rebuild a registered version in a workspace step by step, and compare each result with the record."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pipelines.code_files import PARAMS_FILE
from pipelines.registry.reproduction.comparison import Comparison
from pipelines.registry.reproduction.features import compare_features, restore_stored_features
from pipelines.registry.reproduction.record import Record
from pipelines.registry.versions import Registry
from pipelines.system.files import read_json, sha256
from pipelines.system.log import log
from pipelines.system.temporary_folders import make_temporary_folder
from pipelines.versioning import dvc_calls, workspaces
from pipelines.versioning.checkouts import Code
from pipelines.versioning.workspaces import Workspace


def rebuild_version(name: str, selector: str, *, retrain: bool) -> Comparison:
    """Rebuild a version, and compare it with its record.

    If the code differs, nothing else is compared, because other code gives other results.

    Args:
        name: registered model.
        selector: number or alias of the version.
        retrain: whether to train again as well, and compare the model's bytes.

    Raises:
        DataError: there is no such version, or its run lacks artifacts that the rebuild needs. A retry cannot help.
        InvalidError: a step failed. A retry cannot help.
        RetryableError: a step or a service failed. A retry can help.
    """
    version = Registry.open().find_version(name, selector)
    comparison = Comparison(name, str(version.version))
    with make_temporary_folder("reproduce-") as folder:
        record = Record.download(version, folder)
        # If no commit contains the code, `record.commit` is empty, and the workspace gets the project's code. It may be
        # the same code: `_compare_code` compares the digests. `record.git_commit` is the recorded text.
        workspace_name = f"reproduce.{name}.{version.version}"
        with workspaces.open_workspace(workspace_name, overrides=None, commit=record.commit, model=name) as workspace:
            comparison.workspace, comparison.git_commit = workspace.model_folder, record.git_commit
            _rebuild(comparison, record, workspace, retrain=retrain)
    return comparison


def _rebuild(comparison: Comparison, record: Record, workspace: Workspace, *, retrain: bool) -> None:
    comparison.notes += _describe_environment_changes(
        record.provenance["code"], asdict(Code.describe(workspace.folder))
    )
    if not _compare_code(comparison, record, workspace):
        return
    _restore_inputs(record, workspace)
    stored_folder = restore_stored_features(comparison, record, workspace)
    log.info("building the features of %s version %s again", comparison.name, comparison.version)
    dvc_calls.run_step(workspace, "preprocess")
    compare_features(comparison, record, workspace.model_folder, stored_folder)
    comparison.compare("the registered model", record.provenance["model_digest"], sha256(record.model))
    dvc_calls.run_step(workspace, "evaluate")
    _compare_metrics(comparison, record, workspace.model_folder)
    if retrain:
        _compare_retrained_model(comparison, record, workspace)


def _describe_environment_changes(recorded_code: Mapping[str, Any], code: Mapping[str, Any]) -> list[str]:
    """Describe the libraries whose version changed. Such a change is no failure."""
    old_versions, new_versions = recorded_code["versions"], code["versions"]
    notes = [
        f"{name} was {old_versions.get(name) or 'not installed'}, is {new_versions.get(name) or 'not installed'}"
        for name in sorted({*old_versions, *new_versions})
        if old_versions.get(name) != new_versions.get(name)
    ]
    return [*notes, "uv.lock has changed"] if recorded_code["uv_lock"] != code["uv_lock"] else notes


def _compare_code(comparison: Comparison, record: Record, workspace: Workspace) -> bool:
    code, note = record.provenance["code"], ""
    if not record.commit:
        note = f"no commit contains it (recorded: {record.git_commit!r}), and the project's code differs from it"
    return comparison.compare("the code", code["digest"], workspace.code.digest, note)


def _restore_inputs(record: Record, workspace: Workspace) -> None:
    """Remove all data from the workspace; copy the recorded parameters, dvc.lock, snapshot and model into it.

    The files get the names that the steps use by default, so that no options are needed: the options of the version's
    code may have other names.
    """
    data = workspace.model_folder / "data"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    for name, folder in ((PARAMS_FILE, data.parent), ("dvc.lock", workspace.folder), ("snapshot.json", data)):
        shutil.copy2(record.folder / name, folder / name)
    shutil.copytree(record.model, data / "model")


def _compare_metrics(comparison: Comparison, record: Record, folder: Path) -> None:
    origin = "the step `evaluate` writes it"
    recorded_metrics = read_json(record.folder / "evaluation" / "metrics.json", origin)
    metrics = read_json(folder / "data" / "evaluation" / "metrics.json", origin)
    comparison.compare_all("metric", recorded_metrics, metrics)


def _compare_retrained_model(comparison: Comparison, record: Record, workspace: Workspace) -> None:
    """Train again with the recorded hyperparameters, and compare the models.

    The training does not use MLflow, so that the MLflow run of the version does not change.
    """
    params = read_json(record.folder / "training" / "params.json", "the training script writes it")
    hyperparameters = json.dumps({name: value for name, value in params.items() if value is not None})
    dvc_calls.run_step(workspace, "train", "--hyperparameters", hyperparameters, MLFLOW_TRACKING_URI="")
    digest = sha256(workspace.model_folder / "data" / "model")
    comparison.compare("the retrained model", record.provenance["model_digest"], digest)
