"""Build a request for a recommendation: from a model's size or its past jobs, limits, regions and types."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pipelines.costs.prices import suggest_prices
from pipelines.errors import DataError, SpecError
from pipelines.instances.catalogue import Instance, list_instances
from pipelines.planning.recommendation.history import list_observations
from pipelines.planning.recommendation.language_model import COUNTS, LanguageModelWorkload, Method
from pipelines.planning.recommendation.limits import Limits
from pipelines.planning.recommendation.measured import MeasuredWorkload, build_measured_workload
from pipelines.planning.recommendation.past_jobs import (
    Row,
    list_unusable_jobs,
    select_rows,
    select_until,
)
from pipelines.planning.recommendation.quotes import read_quotes
from pipelines.planning.recommendation.recommend import Request
from pipelines.planning.recommendation.workloads import Workload

MAX_COUNT = 64
SIZE_OPTIONS = {
    **{"tokens": "--tokens", "method": "--method", "precision": "--precision", "sequence": "--sequence"},
    **{"optimizer": "--optimizer", "model": "--model", "max_instances": "--max-instances"},
}
"""Maps each field of `PlanInputs` that has no effect together with `past_jobs_of` to its command-line option."""


@dataclass(frozen=True)
class PlanInputs:
    """The inputs of a plan.

    Attributes:
        past_jobs_of: a model (MODEL), a version or an alias of it (MODEL@VERSION), or a job. The training is predicted
            from its rows in the ledger: see `find_rows`. Empty if `parameters` is given.
        data_bytes: bytes of the data of the training; None: the bytes of the newest past job. Only with `past_jobs_of`.
        parameters: number of parameters of a language model; None if `past_jobs_of` is given.
        tokens: tokens of the training, of all epochs together.
        method: full or lora.
        precision: number format of the training, such as mixed: a key of `memory.STATES`.
        sequence: tokens of a sequence.
        optimizer: one of `memory.OPTIMIZERS`.
        model: name of the model. The errors of the predictions of its past trainings correct the prediction.
        regions: AWS regions.
        allow: patterns of the instance types to compare; empty: all.
        max_instances: largest number of instances.
        as_of: use only prices of this day or earlier, and jobs that ended on this day or earlier; None: all.
    """

    regions: Sequence[str]
    past_jobs_of: str = ""
    data_bytes: float | None = None
    parameters: float | None = None
    tokens: float | None = None
    method: Method = "full"
    precision: str = "mixed"
    sequence: int = 2_048
    optimizer: str = "adam"
    model: str = ""
    allow: Sequence[str] = ()
    max_instances: int | None = None
    as_of: dt.date | None = None


def build_request(inputs: PlanInputs, limits: Limits, rows: Sequence[Row]) -> Request:
    """Build the request for a recommendation, with the workload that the inputs describe.

    Args:
        inputs: what is planned.
        limits: deadline and budget.
        rows: all rows of the ledger, oldest first.

    Raises:
        SpecError: the inputs are not complete, or not possible. A retry cannot help.
        DataError: the ledger has no usable job, or no region has prices. A retry cannot help.
        ServiceError: AWS or MLflow does not answer. A retry can help.
    """
    if inputs.max_instances is not None and not 1 <= inputs.max_instances <= MAX_COUNT:
        raise SpecError(f"--max-instances must be from 1 to {MAX_COUNT}, not {inputs.max_instances}.")
    known_rows = select_until(rows, inputs.as_of)
    return build_request_for_workload(build_workload(inputs, known_rows), inputs, limits, known_rows)


def build_request_for_workload(workload: Workload, inputs: PlanInputs, limits: Limits, rows: Sequence[Row]) -> Request:
    """Build the request for a workload that is known: add instance types, their quotes, and past jobs.

    `inputs` gives regions, types and `as_of`. Errors: as `build_request`.
    """
    instances = list_instances("training", inputs.allow)
    if not instances:
        raise SpecError(f"SageMaker trains on none of {', '.join(inputs.allow)}.", "For example --allow ml.g5.*")
    quotes = {region: read_quotes(region, inputs.as_of, rows) for region in inputs.regions}
    if not any(quotes.values()):
        day = f" on {inputs.as_of}" if inputs.as_of else ""
        raise DataError(
            f"no price is known in {', '.join(inputs.regions)}{day}.",
            suggest_prices(inputs.regions, inputs.as_of),
        )
    neuron_types = list_neuron_types(instances, inputs.allow, workload.is_neuron)
    return Request(
        workload=workload,
        instances=instances,
        quotes=quotes,
        limits=limits,
        observations=list_observations(rows),
        neuron_types=neuron_types,
        unusable_jobs=list_unusable_jobs(rows),
    )


def list_neuron_types(
    instances: Sequence[Instance], patterns: Sequence[str], is_proven: bool = False
) -> frozenset[str]:
    """Return the types with AWS's own accelerators that may be recommended.

    Args:
        instances: instance types.
        patterns: patterns of types. A pattern that matches only such types, as ml.trn1.* does, allows them. The pattern
            ml.* does not, because it also matches other types.
        is_proven: whether it is known that the training uses the AWS Neuron SDK: then all such types are allowed.
    """
    neuron_types = {instance.name for instance in instances if instance.device and instance.device.is_neuron}
    if is_proven:
        return frozenset(neuron_types)
    names = [instance.name for instance in instances]
    matches = [{name for name in names if fnmatchcase(name, pattern)} for pattern in patterns]
    return frozenset().union(*(matching_names for matching_names in matches if matching_names <= neuron_types))


def build_workload(inputs: PlanInputs, rows: Sequence[Row]) -> Workload:
    """Build the workload: from past jobs, or from the size of a language model.

    Raises:
        SpecError: both or none of `past_jobs_of` and `parameters` are given, or a number is not possible. A retry
            cannot help.
        DataError: the ledger has no usable job. A retry cannot help.
    """
    if bool(inputs.past_jobs_of) == (inputs.parameters is not None):
        raise SpecError("give either --like, or --params and --tokens.", "For example --params 7e9 --tokens 1e9.")
    if inputs.past_jobs_of:
        for name, option in SIZE_OPTIONS.items():
            if getattr(inputs, name) != getattr(PlanInputs, name):
                raise SpecError(
                    f"{option} has no effect beside --like.", "Past jobs already give the size of the training."
                )
        return _measure_past_jobs(inputs, rows)
    if inputs.data_bytes is not None:
        raise SpecError("--data-size has no effect without --like.", "--tokens gives the size of the training.")
    if inputs.tokens is None or inputs.parameters is None:
        raise SpecError("--tokens is missing.", "Give the tokens of all epochs together, such as --tokens 1e9.")
    max_count = inputs.max_instances or COUNTS[-1]
    return LanguageModelWorkload(
        parameters=inputs.parameters,
        tokens=inputs.tokens,
        method=inputs.method,
        precision=inputs.precision,
        sequence=inputs.sequence,
        optimizer=inputs.optimizer,
        counts=tuple(2**power for power in range(max_count.bit_length()) if 2**power <= max_count),
        model=inputs.model,
    )


def _measure_past_jobs(inputs: PlanInputs, rows: Sequence[Row]) -> MeasuredWorkload:
    until = f" until {inputs.as_of}" if inputs.as_of else ""
    workload = build_measured_workload(
        find_rows(inputs.past_jobs_of, rows), f"{inputs.past_jobs_of}{until}", inputs.data_bytes
    )
    if inputs.data_bytes is not None and not workload.has_size:
        raise SpecError(
            f"--data-size has no effect: the ledger has no past job of {inputs.past_jobs_of}{until} on "
            f"{workload.past_type.name} whose data has a known size (input_bytes).",
            "Leave it out, or train once with this version of Leeway.",
        )
    return workload


def find_rows(past_jobs_of: str, rows: Sequence[Row]) -> list[Row]:
    """Return the rows of the ledger from which to predict a training.

    For a model, these are the rows of its trainings; for a version, the rows up to the training that made the version;
    for a job, the rows of this job.

    Args:
        past_jobs_of: MODEL, MODEL@VERSION, MODEL@ALIAS, or the name of a job.
        rows: all rows of the ledger, oldest first.

    Raises:
        SpecError: the name is not of the form MODEL@VERSION. A retry cannot help.
        DataError: the version's job is not in the ledger, or there is no such version. A retry cannot help.
        ServiceError: MLflow does not answer. A retry can help.
    """
    model, separator, version = past_jobs_of.partition("@")
    if not separator:
        return select_rows(rows, past_jobs_of)
    if not (model and version):
        message = f"{past_jobs_of!r} is not of the form MODEL@VERSION."
        raise SpecError(message, "For example: flights@champion, flights@3.")
    from pipelines.registry.versions import Registry

    tags = Registry.open().find_version(model, version).tags
    arn, name = tags.get("leeway.training_job_arn", ""), tags.get("leeway.training_job", "")
    model_rows = select_rows(rows, model)
    positions = [
        index for index, row in enumerate(model_rows) if (arn and row["arn"] == arn) or (name and row["name"] == name)
    ]
    if not positions:
        raise DataError(
            f"the ledger has no row of the training of {past_jobs_of} ({arn or name or 'its job is not known'}).",
            f"Give --like {model} to use the model's other trainings.",
        )
    return model_rows[: positions[-1] + 1]
