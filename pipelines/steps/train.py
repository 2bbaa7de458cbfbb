"""Trains on this machine, by the same script and contract as a SageMaker training job.

The dataset's training script runs in a process of its own with the folders and variables of SageMaker's script mode.
Checkpoints stay until the training is done, so a killed run goes on where it was. On a spot instance instead:
SpotTrainingOperator.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pipelines.contract import Result, Spec

Hyperparameters = dict[str, int | float | str]


class TrainSpec(Spec):
    """What to train on, how, and where to."""

    dataset: str = "flights"
    """Dataset whose training script runs."""
    features: Path = Path("data/features")
    """Folder with train/ and validation/, as `preprocess` wrote it."""
    hyperparameters: Hyperparameters = Field(default_factory=dict)
    """Passed to the script as --NAME VALUE; the script's own defaults apply where one is not given."""
    model: Path = Path("data/model")
    """Folder of the trained model, to write."""
    record: Path = Path("data/training")
    """Folder of the training's record, to write: parameters, environment, metrics a round, resources."""


class TrainResult(Result):
    """A trained model."""

    model: Path
    """Folder of the model."""
    record: Path
    """Folder of the training's record."""
    training_job: str
    """Name of the training: its MLflow run is tagged with it."""
    digest: str
    """SHA-256 of the model folder."""
    metrics: dict[str, float]
    """Metrics of the round that was kept, and seconds and memory used."""


def run(spec: TrainSpec) -> TrainResult:
    """`spec.model` and `spec.record` are whole.

    Raises:
        DataError: the features are not there.
        TrainingError: the script crashed; its last lines are in the message. A retry cannot help.
    """
    from pipelines.container import local_job
    from pipelines.system.files import read_json, sha256

    job = local_job.train(spec.dataset, spec.features, spec.hyperparameters, spec.model, spec.record)
    return TrainResult(
        model=spec.model,
        record=spec.record,
        training_job=job,
        digest=sha256(spec.model),
        metrics=read_json(spec.record / "resources.json", "the training script writes it"),
    )
