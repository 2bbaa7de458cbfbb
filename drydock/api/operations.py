"""Define what drydock does with each operation of SageMaker: run it, only store the request's content, or refuse it.

moto invents the answers of some operations: an AutoML job is Completed as soon as it is created, and an endpoint that
does not exist predicts a constant. drydock refuses such an operation, unless the option `--invented-answers`
allows moto's answers. An operation that is not listed here is refused, too, so that a new version of moto cannot add
invented answers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from moto.core.utils import camelcase_to_underscores


class Handling(StrEnum):
    """The way in which drydock handles an operation."""

    RUN = "run"
    """drydock runs what the operation is about, such as a job or an endpoint."""
    STORED = "stored"
    """drydock or moto stores the content of the request and returns it later. Nothing has to run for that."""
    REFUSED = "refused"
    """The operation needs something that drydock cannot run. The request fails with the code NotImplemented."""


@dataclass(frozen=True)
class OperationGroup:
    """The operations on one kind of resource that drydock handles in the same way.

    Attributes:
        resources: The resources, in the plural, for messages and the documentation.
        handling: What drydock does with the operations.
        operations: The operations' names in the API.
    """

    resources: str
    handling: Handling
    operations: Sequence[str]


def _build_operation_names(verbs: str, resource: str, plural: str | None = None) -> list[str]:
    """Return names of operations, such as CreateModel and ListModels.

    Args:
        verbs: The verbs, separated by spaces.
        resource: The resource's name in the API.
        plural: The resource's plural; its name with an s if None.
    """
    names = {verb: plural or f"{resource}s" if verb == "List" else resource for verb in verbs.split()}
    return [f"{verb}{name}" for verb, name in names.items()]


_JOB_VERBS, _DEFINITION_VERBS = "Create Describe Stop List", "Create Describe Delete List"

OPERATION_GROUPS = (
    OperationGroup("training jobs", Handling.RUN, _build_operation_names(_JOB_VERBS, "TrainingJob")),
    OperationGroup("processing jobs", Handling.RUN, _build_operation_names(_JOB_VERBS, "ProcessingJob")),
    OperationGroup("transform jobs", Handling.RUN, _build_operation_names(_JOB_VERBS, "TransformJob")),
    OperationGroup(
        "tuning jobs",
        Handling.RUN,
        (
            *_build_operation_names("Create Describe Stop Delete List", "HyperParameterTuningJob"),
            "ListTrainingJobsForHyperParameterTuningJob",
        ),
    ),
    OperationGroup(
        "endpoint configurations", Handling.RUN, _build_operation_names(_DEFINITION_VERBS, "EndpointConfig")
    ),
    OperationGroup(
        "endpoints",
        Handling.RUN,
        (
            *_build_operation_names("Create Describe Update Delete List", "Endpoint"),
            "UpdateEndpointWeightsAndCapacities",
            "InvokeEndpoint",
            "InvokeEndpointAsync",
        ),
    ),
    OperationGroup(
        "feature groups and their records",
        Handling.RUN,
        (
            *_build_operation_names(_DEFINITION_VERBS, "FeatureGroup"),
            *("PutRecord", "GetRecord", "BatchGetRecord", "DeleteRecord"),
        ),
    ),
    OperationGroup(
        "notebook instances, without Jupyter",
        Handling.STORED,
        _build_operation_names("Create Describe Start Stop Delete List", "NotebookInstance"),
    ),
    OperationGroup("Studio apps, without Jupyter", Handling.STORED, _build_operation_names(_DEFINITION_VERBS, "App")),
    OperationGroup("tags and searches", Handling.STORED, ("AddTags", "DeleteTags", "ListTags", "Search")),
    OperationGroup("models", Handling.STORED, _build_operation_names(_DEFINITION_VERBS, "Model")),
    OperationGroup(
        "model packages",
        Handling.STORED,
        (
            *_build_operation_names("Create Describe Update List", "ModelPackage"),
            *_build_operation_names("Create Describe List", "ModelPackageGroup"),
        ),
    ),
    OperationGroup(
        "model cards",
        Handling.STORED,
        (*_build_operation_names("Create Describe Update Delete List", "ModelCard"), "ListModelCardVersions"),
    ),
    OperationGroup(
        "definitions of pipelines",
        Handling.STORED,
        _build_operation_names("Create Describe Update Delete List", "Pipeline"),
    ),
    OperationGroup(
        "experiments and trials",
        Handling.STORED,
        (
            *_build_operation_names(_DEFINITION_VERBS, "Experiment"),
            *_build_operation_names(_DEFINITION_VERBS, "Trial"),
            *_build_operation_names("Create Describe Update Delete List Associate Disassociate", "TrialComponent"),
        ),
    ),
    OperationGroup("metrics of trial components", Handling.STORED, ("BatchPutMetrics",)),
    OperationGroup(
        "definitions of monitoring jobs",
        Handling.STORED,
        [
            name
            for kind in ("DataQuality", "ModelBias", "ModelExplainability", "ModelQuality")
            for name in _build_operation_names(_DEFINITION_VERBS, f"{kind}JobDefinition")
        ],
    ),
    OperationGroup(
        "lifecycle configurations of notebooks",
        Handling.STORED,
        _build_operation_names("Create Describe Delete", "NotebookInstanceLifecycleConfig"),
    ),
    OperationGroup(
        "executions of pipelines",
        Handling.REFUSED,
        (
            *_build_operation_names("Start Describe List", "PipelineExecution"),
            "DescribePipelineDefinitionForExecution",
            "ListPipelineParametersForExecution",
        ),
    ),
    OperationGroup(
        "AutoML jobs",
        Handling.REFUSED,
        ("CreateAutoMLJobV2", "DescribeAutoMLJobV2", "StopAutoMLJob", "ListAutoMLJobs"),
    ),
    OperationGroup("compilation jobs", Handling.REFUSED, _build_operation_names(_DEFINITION_VERBS, "CompilationJob")),
    OperationGroup(
        "clusters",
        Handling.REFUSED,
        (
            *_build_operation_names(_DEFINITION_VERBS, "Cluster"),
            *_build_operation_names("Describe List", "ClusterNode"),
        ),
    ),
    OperationGroup("Studio domains", Handling.REFUSED, _build_operation_names(_DEFINITION_VERBS, "Domain")),
)
"""The operations that moto or drydock implements. All other operations of SageMaker are refused."""


def iter_operations() -> Iterator[tuple[str, OperationGroup]]:
    """Yield the name of each operation that moto or drydock implements, and its group."""
    for group in OPERATION_GROUPS:
        for operation in group.operations:
            yield operation, group


# The keys are moto's method names, since moto accepts "create_endpoint" as the name of an operation, too.
_GROUPS_BY_METHOD = {camelcase_to_underscores(operation): group for operation, group in iter_operations()}


def check_operation(name: str) -> None:
    """Raise an error if drydock refuses an operation of SageMaker.

    Args:
        name: The operation's name, as the request spells it.

    Raises:
        NotImplementedError: The operation is refused. A retry cannot help.
    """
    group = _GROUPS_BY_METHOD.get(camelcase_to_underscores(name))
    if group is None:
        raise NotImplementedError(f"SageMaker's operation {name} is not implemented by drydock.")
    if group.handling is Handling.REFUSED:
        refuse_operation(name, group.resources)


def refuse_operation(name: str, resources: str) -> NoReturn:
    """Refuse an operation whose answer moto would invent.

    Args:
        name: The operation's name.
        resources: The resources that do not run here, in the plural.

    Raises:
        NotImplementedError: Always. A retry cannot help.
    """
    raise NotImplementedError(
        f"{name} is refused, since {resources} do not run in drydock. "
        "Start drydock with --invented-answers to get the answers that moto invents."
    )


def format_operations_table() -> str:
    """Return the table of docs/reference/drydock.md: each kind of resource, what drydock does, and the operations."""
    rows = [
        f"| {group.resources} | {group.handling} | {', '.join(group.operations)} |\n"
        for handling in Handling
        for group in OPERATION_GROUPS
        if group.handling is handling
    ]
    return "| resources | handling | operations |\n|---|---|---|\n" + "".join(rows)
