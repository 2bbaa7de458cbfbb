"""Build the request of a step from the values of the command line and the parameters of the model; describe it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines import params
from pipelines.code_files import MODELS_FOLDER, find_model
from pipelines.contract import Result, Spec
from pipelines.dataset import choose_dataset, load_dataset
from pipelines.errors import SpecError
from pipelines.settings import settings
from pipelines.steps import load_spec_class

SPAN_FIELDS = ("dataset", "partition", "as_of", "version")
"""Fields of a request that the trace span of the step shows. Others may hold data, addresses or secrets."""


def build_request(step: str, field_values: Mapping[str, Any]) -> Spec:
    """Build the Spec of a step. A field without a value gets it from the parameters, or else its default.

    If no model is named, it is the model in whose folder the process runs. If no dataset is named, it is the dataset of
    the model, or else the only dataset of the project.

    Raises:
        SpecError: a value or a parameter is wrong, no model or dataset is named where one is needed, or the parameters
            of the model name another dataset. A retry cannot help.
    """
    spec_class = load_spec_class(step)
    model = str(field_values.get(spec_class.model_field) or find_model(Path.cwd()))
    if not model:
        _require_model(step, field_values)
    sections = params.load(settings().project, model)
    values = {**sections.get(step, {}), **field_values}
    if "dataset" in spec_class.model_fields:
        values["dataset"] = _find_dataset(spec_class, sections, model, str(values.get("dataset") or ""))
    request = spec_class.parse(values, step)
    if step in {"snapshot", "train"}:
        _check_gate(step, request, sections.get("gate", {}))
    return request


def _find_dataset(spec_class: type[Spec], sections: params.Sections, model: str, dataset: str) -> str:
    """Return the dataset of the model, or else `dataset`, or else the project's only one if the step needs a dataset.

    The result is empty if there is none of these.

    Raises:
        SpecError: `dataset` is not the one of the model, or none is named and the project has several. A retry cannot
            help.
    """
    if model and spec_class.model_field in spec_class.model_fields:
        dataset = params.choose_dataset(sections, model, dataset)
    if not dataset and spec_class.model_fields["dataset"].is_required():
        return choose_dataset().name
    return dataset


def _require_model(step: str, field_values: Mapping[str, Any]) -> None:
    """Refuse a DVC stage for which neither a model nor a path is given, if the project has models.

    The default paths of a stage are in data/, and each model has a data/ of its own.

    Raises:
        SpecError: the step is such a stage. A retry cannot help.
    """
    fields = load_spec_class(step).model_fields
    path_fields = [name for name, field in fields.items() if str(field.default).startswith("data/")]
    names = params.list_model_names(settings().project)
    if step in params.STAGES and names and not field_values.keys() & set(path_fields):
        hint = f"Run it in {' or '.join(f'{MODELS_FOLDER}/{name}' for name in names)}"
        raise SpecError("no model is named.", f"{hint}, or run `dvc repro {step}@{names[0]}`.")


def _check_gate(step: str, request: Any, section: dict[str, Any]) -> None:
    """Raise a SpecError, before the training, if the gate would refuse the policy of the parameters."""
    if section:
        from pipelines.evaluation.gates.early_check import check_gate_section
        from pipelines.feature_files import load_dataset_of_features

        if step == "train":
            dataset = load_dataset_of_features(request.features, request.dataset)
        else:
            dataset = load_dataset(request.dataset)
        check_gate_section(section, dataset)


def describe_request(request: Spec) -> dict[str, Any]:
    """Return the attributes of a step's span: the model and the `SPAN_FIELDS` of the request that are given."""
    values = {name: getattr(request, name, None) for name in SPAN_FIELDS}
    values["model"] = getattr(request, request.model_field, "") or find_model(Path.cwd())
    return {f"leeway.{name}": str(value) for name, value in values.items() if value}


def describe_result(result: Result) -> dict[str, Any]:
    """Return the attributes of a step's span: the outcome, such as a verdict; `done` if the result has none."""
    return {"leeway.outcome": str(getattr(result, "outcome", "") or "done")}
