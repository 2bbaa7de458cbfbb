"""Collect the evidence by which the gate judges a registered version."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pandas as pd
from mlflow.entities.model_registry import ModelVersion

from pipelines.dataset import Dataset, Task
from pipelines.errors import DataError
from pipelines.evaluation.gates import Policy
from pipelines.evaluation.gates.inputs import read_holdout
from pipelines.evaluation.gates.judge import JudgedData
from pipelines.evaluation.gates.serving import PackageMeasurements, measure_package
from pipelines.registry.artifacts import download_artifact
from pipelines.registry.description import read_cost_usd
from pipelines.registry.package.clean_load import find_load_problem
from pipelines.registry.registered_candidate import RegisteredCandidate
from pipelines.registry.scorer import load_scorer
from pipelines.system.data_files import read_parquet

SAMPLE_ROWS = 1_000
"""Number of holdout rows with which the packaged model is measured."""


def collect_evidence(
    candidate: RegisteredCandidate, dataset: Dataset, features: Path, evaluation: Path, policy: Policy
) -> JudgedData:
    """Collect the holdout with the scores of candidate and champion, measurements of the package, and training cost.

    Args:
        candidate: the version to judge, and the champion to compare it with.
        dataset: dataset of the model.
        features: folder with train/ and holdout/, as `preprocess` wrote it.
        evaluation: folder that `evaluate` wrote.
        policy: policy of the gate. The package is measured only if the policy has a section `serving`.

    Raises:
        DataError: a file does not exist, the holdout cannot be judged, or a model cannot be loaded. A retry cannot
            help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    champion, days_after_champion = candidate.champion, candidate.days_after_champion
    if champion:
        check_task(champion, dataset.task)
    # `days_after_champion` counts from the champion's as_of to the candidate's. A champion with a later as_of may have
    # been trained on this holdout: a comparison with its scores would be unfair.
    is_comparable = champion is not None and (days_after_champion or 0) >= 0
    score_champion = load_scorer(champion) if champion and is_comparable else None
    holdout = read_holdout(dataset, features, evaluation, score_champion)
    columns = tuple(dataset.features)
    sample = holdout.features.head(SAMPLE_ROWS)[list(columns)]
    return JudgedData(
        holdout=holdout,
        features=columns,
        days_after_champion=days_after_champion,
        package=_measure_candidate(candidate, sample, policy.serving.batch_rows) if policy.serving else None,
        cost_usd=read_cost_usd(candidate.version),
    )


def check_task(champion: ModelVersion, task: Task) -> None:
    """Check that the champion is a model of this task. A version without the tag `leeway.task` passes.

    Raises:
        DataError: the champion is a model of another task. A retry cannot help.
    """
    champion_task = champion.tags.get("leeway.task", task)
    if champion_task != task:
        message = (
            f"the champion, {champion.name} version {champion.version}, is a model of the task {champion_task}, but "
            f"the candidate is a model of the task {task}: they cannot be compared."
        )
        raise DataError(message, "Register models of another task under another name.")


def _measure_candidate(candidate: RegisteredCandidate, sample: pd.DataFrame, batch_rows: int) -> PackageMeasurements:
    """Measure the candidate's package as a server would use it, and whether it loads without the project's code."""
    with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
        path = download_artifact(candidate.registry, candidate.version, "training/scores.parquet", Path(folder))
        training_scores = read_parquet(path, "train") if path else None
    score = load_scorer(candidate.version, candidate.package)
    measurements = measure_package(score, sample, training_scores, candidate.package, batch_rows)
    return replace(measurements, load_problem=find_load_problem(candidate.package, sample))
