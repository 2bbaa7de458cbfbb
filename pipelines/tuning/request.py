"""Build the request of a tuning: what is run, with which fixed values, and under which name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.container.local_job import Script
from pipelines.dataset import Dataset
from pipelines.defaults.arguments import InvalidInput, parse_arguments
from pipelines.errors import DataError, SpecError
from pipelines.feature_files import FILE_NAME
from pipelines.settings import settings
from pipelines.system.files import sha256
from pipelines.tuning.plan import PlanSpec
from pipelines.tuning.rungs import get_num_round
from pipelines.tuning.sagemaker_job import CHANNELS
from pipelines.tuning.space import Range, count_points
from pipelines.versioning.git import describe_commit

IDENTITY_FIELDS = ("space", "strategy", "early_stopping", "folds", "fold_days", "seed", "warm_start")
"""Fields of the plan that change what a trial is, or which trials are proposed, and so the name of the tuning. A tuning
continues if only other fields change."""


@dataclass(frozen=True)
class Request:
    """The script, the data and the plan of a tuning."""

    name: str
    """Name from the digest of the features, the code and the plan: equal requests continue the same tuning."""
    script: Script
    """Training script of the dataset."""
    channels: Mapping[str, Path]
    """Folder of each input channel, by name."""
    plan: PlanSpec
    hyperparameters: Mapping[str, Any]
    """Arguments of the script that are equal in all trials."""
    num_round: int
    """Largest number of rounds of a trial."""

    @property
    def folder(self) -> Path:
        """Folder of the tuning's state."""
        return settings().home / "tuning" / self.name


def build_request(plan: PlanSpec, dataset: Dataset, features: Path, hyperparameters: Mapping[str, Any]) -> Request:
    """Build the request of a tuning.

    Args:
        plan: section `tune` of the parameters.
        dataset: dataset whose training script is run.
        features: folder with train/ and validation/.
        hyperparameters: hyperparameters of section `train`; those that are searched are ignored.

    Raises:
        DataError: a channel does not exist. A retry cannot help.
        SpecError: the training script refuses a value of the space, num_round is no number, or the space has fewer
            points than the plan has trials. A retry cannot help.
    """
    channels = {name: (features / name).absolute() for name in CHANNELS}
    for name, folder in channels.items():
        if not (folder / FILE_NAME).exists():
            raise DataError(f"{features / name / FILE_NAME} does not exist.", "The step `preprocess` writes it.")
    path = dataset.find_file("training.py")
    script = Script(dataset.name, path, dataset.locate_bundle(), describe_commit(settings().project))
    fixed_values = {name: value for name, value in hyperparameters.items() if name not in plan.space}
    fixed_values |= {"folds": plan.folds, "fold_days": plan.fold_days}
    # A dataset's own script may have other arguments. If it refuses one, the first trial fails.
    is_default = path.parent.name == "defaults"
    num_round = _check_values(plan, fixed_values) if is_default else _find_largest_num_round(plan, fixed_values)
    _check_points(plan)
    digests = [sha256(path) for path in (*channels.values(), *script.list_code())]
    values = {**plan.model_dump(mode="json", include=set(IDENTITY_FIELDS)), "hyperparameters": fixed_values}
    inputs = " ".join([*digests, json.dumps(values, sort_keys=True, default=str)])
    name = f"tune-{dataset.name}-{hashlib.sha256(inputs.encode()).hexdigest()[:12]}"
    return Request(name, script, channels, plan, fixed_values, num_round)


def _check_points(plan: PlanSpec) -> None:
    """Check that no point must be tried twice. SageMaker refuses such a space, too.

    Raises:
        SpecError: the space has too few points. A retry cannot help.
    """
    count = count_points(plan.space)
    if count < plan.count_trials():
        raise SpecError(
            f"the space has {count:,} points, and trials is {plan.trials}: some would be tried twice.",
            "Lower trials, extend the space, or set strategy to grid, which tries each point once.",
        )


def _check_values(plan: PlanSpec, fixed_values: Mapping[str, Any]) -> int:
    """Check that the default training script accepts the fixed values and those of the space: both ends of a range.

    Return the largest number of rounds of a trial.

    Raises:
        SpecError: the script refuses a name or a value. A retry cannot help.
    """
    num_round = _parse(fixed_values, "train.hyperparameters").num_round
    for name, item in plan.space.items():
        values = [item.low, item.high] if isinstance(item, Range) else item
        for value in values:
            argument = int(value) if isinstance(item, Range) and item.type == "int" else value
            num_round = max(num_round, _parse({**fixed_values, name: argument}, f"space.{name}").num_round)
    return int(num_round)


def _find_largest_num_round(plan: PlanSpec, fixed_values: Mapping[str, Any]) -> int:
    """Return the largest number of rounds of a trial of a dataset's own script.

    Raises:
        SpecError: num_round is no whole number. A retry cannot help.
    """
    item = plan.space.get("num_round")
    if item is None:
        return get_num_round(fixed_values)
    values = [int(item.high)] if isinstance(item, Range) else item
    return max(get_num_round({"num_round": value}) for value in values)


def _parse(hyperparameters: Mapping[str, Any], origin: str) -> Any:
    """Parse hyperparameters as the default training script does; an error names their place, `origin`."""
    arguments: Sequence[str] = [part for name, value in hyperparameters.items() for part in (f"--{name}", str(value))]
    try:
        return parse_arguments(list(arguments))
    except InvalidInput as error:
        raise SpecError(f"{origin}: {error}", "Correct section `tune` or `train` of the parameters.") from None
