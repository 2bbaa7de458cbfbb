"""Render the files of a project and of a model from the templates beside this module."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import pyarrow as pa

from pipelines.dataset import Dataset
from pipelines.errors import SpecError
from pipelines.lake import DATE_COLUMN
from pipelines.scaffold import sizes as size_rules
from pipelines.scaffold.literals import escape, format_assignment, format_tuple, format_tuple_argument, quote
from pipelines.scaffold.plan import Plan
from pipelines.scaffold.sizes import TIME_OF_DAY_ROWS, Sizes
from pipelines.scaffold.source_code import describe_source, list_columns

PROJECT_FILES = {
    "gitignore.j2": ".gitignore",
    "dvcignore.j2": ".dvcignore",
    "dvc_config.j2": ".dvc/config",
    "dvc_gitignore.j2": ".dvc/.gitignore",
    "ruff.toml.j2": "ruff.toml",
    "README.md.j2": "README.md",
    "dvc.yaml.j2": "dvc.yaml",
    "params.yaml.j2": "params.yaml",
}
"""Maps each template to the file of a project. params.yaml is written last, because a folder with this file is a
project."""
MODEL_FILES = {
    "dataset.py.j2": "datasets/{name}/__init__.py",
    "source.py.j2": "datasets/{name}/source.py",
    "features.py.j2": "datasets/{name}/features.py",
    "params.yaml.j2": "models/{name}/params.yaml",
    "dag.py.j2": "dags/{name}.py",
    "test.py.j2": "tests/test_{name}.py",
}
"""Maps each template to the file of a model."""
TYPE_NAMES = {
    pa.float64(): "pa.float64()",
    pa.int64(): "pa.int64()",
    pa.string(): "pa.string()",
    pa.bool_(): "pa.bool_()",
    pa.date32(): "pa.date32()",
    pa.timestamp("us", "UTC"): "UTC",
}
"""Maps each type to its expression in source.py, where UTC is a constant."""
SIZES = ("train_days", "holdout_days", "min_train_days", "max_missing_days", "validation_days")
"""Attributes of `Sizes` that the templates use."""
MODELS_LINE = re.compile(r"^(\s*- models: \[)([^\]]*)\]", re.M)
"""The line of dvc.yaml that lists the models."""
EXAMPLES_LINE = re.compile(r"^(\s*)- \.\./\.\./pipelines/datasets\n(?!\s*- \.\./\.\./datasets\n)", re.M)
"""The line of a stage's dependency on the example datasets, if no dependency on the project's `datasets/` follows
it."""


def list_project_values(plan: Plan, sizes: Sizes, folder: Path) -> dict[str, Any]:
    """Return the values of the templates of a project, in types that JSON has."""
    project, as_of = folder.name, str(sizes.as_of)
    return {"name": plan.request.name, "project": project, "as_of": as_of, "command": _find_command()}


def render_project(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the files of a new project: path to text."""
    return {path: _render(f"project/{template}", values) for template, path in PROJECT_FILES.items()}


def render_model(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the files of a model: path to text."""
    templates = [name for name in MODEL_FILES if name != "features.py.j2" or values["expressions"]]
    return {MODEL_FILES[name].format(name=values["name"]): _render(f"model/{name}", values) for name in templates}


def add_model(dvc_yaml: str, name: str) -> str:
    """Return the text of dvc.yaml with one more model in its list.

    In a checkout of Leeway, a stage that depends on the example datasets then also depends on the project's own
    datasets.

    Raises:
        SpecError: dvc.yaml has no list of models. A retry cannot help.
    """
    match = MODELS_LINE.search(dvc_yaml)
    if not match:
        raise SpecError(
            "dvc.yaml has no line `- models: [...]` to which a model can be added.", "Add one below `vars`."
        )
    names = [part.strip() for part in match[2].split(",") if part.strip()]
    text = MODELS_LINE.sub(lambda line: f"{line[1]}{', '.join([*names, name])}]", dvc_yaml, count=1)
    return EXAMPLES_LINE.sub(lambda line: f"{line[0]}{line[1]}- ../../datasets\n", text)


def build_dataset(plan: Plan, sizes: Sizes) -> Dataset:
    """Build the new dataset in this process, as its file `datasets/NAME/__init__.py` will define it.

    Raises:
        SpecError: a column has a name that cannot be used. A retry cannot help.
    """
    values = list_values(plan, sizes)
    return Dataset(
        name=plan.request.name,
        key=tuple(values["key"]),
        label=plan.label.name,
        known_later=tuple(values["known_later"]),
        features=values["features"],
        event_time=values["event_time"],
        timezone=values["timezone"],
        task=plan.label.task,
    )


def list_values(plan: Plan, sizes: Sizes) -> dict[str, Any]:
    """Return the values of all templates of a model, in types that JSON has; no secret is among them."""
    label, request = plan.label, plan.request
    expressions = _list_expressions(plan)
    has_usable_times = plan.has_time_of_day and sizes.rows_per_day >= TIME_OF_DAY_ROWS
    known_later = {label.name: "", **{name: _get_inference_reason(reason) for name, reason in plan.known_later.items()}}
    prediction = {"binary": "whether {0}", "multiclass": "which {0}", "regression": "the number {0}"}[label.task]
    source = describe_source(plan)
    return {
        **source,
        "name": request.name,
        "task": label.task,
        "label": label.name,
        "about": f"A model of {request.name} predicts {prediction.format(label.name)}.",
        "rows": f"{plan.sample.table.num_rows:,}",
        "key": list(dict.fromkeys((DATE_COLUMN, *plan.key))),
        "known_later": known_later,
        "known_before": list(request.known_before),
        "features": {**dict.fromkeys(expressions, "number"), **plan.features},
        "expressions": expressions,
        "dropped": dict(plan.dropped_columns),
        "event_time": plan.time if has_usable_times else "",
        "timezone": request.timezone if has_usable_times else "",
        "columns": {name: TYPE_NAMES[column_type] for name, column_type in list_columns(plan).items()},
        "url": plan.sample.url if source["variable"] else "",
        "sizes": {name: getattr(sizes, name) for name in SIZES},
        "as_of": str(sizes.as_of),
        "size": f"{sizes.rows:,} rows with a label in {sizes.days} days, {sizes.rows_per_day:.1f} a day",
        "label_delay_days": request.label_delay_days,
        "hyperparameters": size_rules.choose_hyperparameters(plan, sizes),
        "gate": size_rules.choose_gate(plan, sizes),
        "drift": size_rules.choose_drift(plan, sizes),
        "start": f"{sizes.first.year}, {sizes.first.month}, {sizes.first.day}",
        "schedule": request.schedule,
    }


def _get_inference_reason(reason: str) -> str:
    """Return the reason why a column was inferred to be known later; empty if an option says so."""
    return "" if reason.startswith("as the option") else reason


def _list_expressions(plan: Plan) -> dict[str, str]:
    """Return the features of the day and the hour as ibis expressions. Leave out a feature if a column has its name."""
    lower_names = {name.lower() for name in plan.sample.table.column_names}
    expressions = {"weekday": f"rows[{quote(DATE_COLUMN)}].day_of_week.index()"}
    if plan.has_time_of_day:
        expressions["hour"] = f"rows[{quote(plan.time)}].hour()"
    return {name: expression for name, expression in expressions.items() if name not in lower_names}


def _find_command() -> str:
    """Return the command that runs Leeway here: `leeway` if its console script is installed."""
    from importlib.metadata import entry_points

    has_script = any(script.name == "leeway" for script in entry_points(group="console_scripts"))
    return "leeway" if has_script else "python -m pipelines"


def _render(template: str, values: Mapping[str, Any]) -> str:
    loader = jinja2.FileSystemLoader(Path(__file__).parent / "templates")
    environment = jinja2.Environment(  # noqa: S701 - the files are not HTML
        loader=loader, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    environment.filters |= {
        "py": _format_python,
        "text": escape,
        "yaml": _format_yaml,
        "assign": lambda literal, name: format_assignment(name, literal),
        "tuple": lambda items, beginning, indent: format_tuple_argument(beginning, items, indent),
    }
    return environment.get_template(template).render(values)


def _format_python(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return format_tuple(value)
    return quote(value) if isinstance(value, str) else repr(value)


def _format_yaml(value: Any) -> str:
    """Write a value on one line of YAML, which is easier to read than JSON: {auc: {at_least: 0.5}}."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_format_yaml(item)}' for key, item in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_format_yaml, value))}]"
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        return value
    if isinstance(value, float) and value < 1e-4 and value:
        return f"{value:.1e}".replace("e-0", "e-")
    return json.dumps(value)
