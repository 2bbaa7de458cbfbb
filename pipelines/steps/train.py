"""Train on this machine, with the same script and contract as a SageMaker training job.

The dataset's training script runs in a process of its own, with the folders and variables of SageMaker's script mode.
The script's checkpoints stay until the training is complete, so a training that was killed resumes.
SpotTrainingOperator trains on a spot instance instead.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pipelines.contract import Result, Spec
from pipelines.tuning.record import RECORD_FILE, TuningRecord

Hyperparameters = dict[str, int | float | str | list[float]]


class TrainSpec(Spec):
    """The data, the hyperparameters, and where to write the model."""

    dataset: str = ""
    """Dataset whose training script runs; empty: the one that the features were built from."""
    features: Path = Path("data/features")
    """Folder with train/ and validation/, as `preprocess` wrote it."""
    hyperparameters: Hyperparameters = Field(default_factory=dict)
    """Passed to the script as --NAME VALUE. For those that are not given, the script's own defaults apply."""
    tuning: TuningRecord | None = None
    """The search that found the hyperparameters, as `tune apply` wrote it. It becomes part of the record."""
    trained_model: Path = Path("data/model")
    """Folder to write the trained model to."""
    record: Path = Path("data/training")
    """Folder to write the training's record to: parameters, environment, metrics of each round, resources."""


class TrainResult(Result):
    """A trained model."""

    model: Path
    """Folder of the model."""
    record: Path
    """Folder of the training's record."""
    training_job: str
    """Name of the training, which is a tag of its MLflow run."""
    digest: str
    """SHA-256 of the model folder."""
    metrics: dict[str, float]
    """Metrics of the best round, and seconds and memory used."""


def run(spec: TrainSpec) -> TrainResult:
    """Write the trained model to `spec.trained_model` and the training's record to `spec.record`.

    Raises:
        SpecError: the features were built from another dataset. A retry cannot help.
        DataError: the features do not exist, or cannot be read. A retry cannot help.
        ConflictError: another process runs the same training. A retry can help.
        TrainingError: the script crashed; the message has its last lines. A retry cannot help.
        ServiceError: the script was stopped from outside. A retry can help, and resumes.
    """
    from pipelines.container import local_job
    from pipelines.feature_files import load_dataset_of_features
    from pipelines.settings import settings
    from pipelines.system.files import read_json, sha256, write_json
    from pipelines.system.log import log
    from pipelines.versioning.git import describe_commit

    dataset = load_dataset_of_features(spec.features, spec.dataset)
    path, bundle = dataset.find_file("training.py"), dataset.locate_bundle()
    script = local_job.Script(dataset.name, path, bundle, describe_commit(settings().project))
    job = local_job.train(script, spec.features, spec.hyperparameters, spec.trained_model, spec.record)
    if spec.tuning:
        write_json(spec.record / RECORD_FILE, {"tuning": spec.tuning.model_dump()})
        if changes := spec.tuning.list_changes(spec.hyperparameters):
            log.warning("%s changed since the tuning %s was applied", ", ".join(changes), spec.tuning.name)
    return TrainResult(
        model=spec.trained_model,
        record=spec.record,
        training_job=job,
        digest=sha256(spec.trained_model),
        metrics=read_json(spec.record / "resources.json", "the training script writes it"),
    )
