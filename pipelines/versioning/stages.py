"""Read the stages of a dvc.yaml and their dependencies without DVC: Airflow reads them whenever it parses a DAG."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from pipelines.errors import SpecError

PLACEHOLDER = re.compile(r"(?<!\\)\$\{\s*([^}\s]+)\s*\}")
"""DVC's reference to a variable: ${NAME}."""
OUTS = ("outs", "metrics", "plots")
"""Keys of a stage that list outputs."""


@dataclass(frozen=True)
class Stage:
    """One stage of a dvc.yaml."""

    name: str
    cmd: str
    deps: tuple[str, ...] = ()
    """Paths of inputs. Like those of `outs` and `params`, they are relative to the folder of dvc.yaml."""
    outs: tuple[str, ...] = ()
    params: tuple[tuple[str, str], ...] = field(default=())
    """File and key of each parameter; an empty key stands for the whole file."""
    folder: str = "."
    """Folder in which the command runs, relative to the folder of dvc.yaml."""

    def make_relative(self, path: str) -> str:
        """Return a path relative to the stage's folder, as DVC writes it to dvc.lock."""
        return posixpath.relpath(path, self.folder)


def load_stages(path: Path) -> dict[str, Stage]:
    """Return the stages of a dvc.yaml by name, in its order; each stage of a `foreach` or `matrix` has its own name.

    Raises:
        SpecError: the file does not exist, or is not a dvc.yaml. A retry cannot help.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        variables = _load_variables(path.parent, content.get("vars", []))
        stages = [stage for name, body in content["stages"].items() for stage in _expand(name, body, variables)]
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}.") from None
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise SpecError(f"{path} has no stages that can be read: {type(error).__name__} {error}.") from None
    return {stage.name: stage for stage in stages}


def find_dependencies(stages: Mapping[str, Stage]) -> dict[str, set[str]]:
    """Return for each stage the stages whose outputs it depends on: the edges of `dvc dag`."""
    return {
        name: {
            other_stage.name
            for other_stage in stages.values()
            if other_stage.name != name
            and any(_has_overlap(dep, out) for dep in stage.deps for out in other_stage.outs)
        }
        for name, stage in stages.items()
    }


def select_with_dependencies(stages: Mapping[str, Stage], targets: Iterable[str]) -> list[Stage]:
    """Return the targets and all stages that they depend on, in the order of the file.

    Unknown targets are ignored here, because DVC itself reports them.
    """
    dependencies = find_dependencies(stages)
    selected_names, pending_names = set[str](), [name for name in targets if name in stages]
    while pending_names:
        name = pending_names.pop()
        if name not in selected_names:
            selected_names.add(name)
            pending_names += dependencies[name]
    return [stage for name, stage in stages.items() if name in selected_names]


def list_source_inputs(stage: Stage, stages: Iterable[Stage]) -> list[str]:
    """Return the files and folders that `stage` depends on, and that none of `stages` writes."""
    outs = [out for other_stage in stages for out in other_stage.outs]
    return [dep for dep in stage.deps if not any(_has_overlap(dep, out) for out in outs)]


def name_stages_of_model(names: Iterable[str], model: str, stages: Mapping[str, Stage]) -> list[str]:
    """Return the names of a model's stages: `train` becomes `train@MODEL` if this stage exists and `train` does not."""
    return [name if name in stages else f"{name}@{model}" if f"{name}@{model}" in stages else name for name in names]


def strip_model_suffix(name: str, model: str) -> str:
    """Return the name of a stage without its suffix `@MODEL`: the inverse of `name_stages_of_model`."""
    return name.removesuffix(f"@{model}") if model else name


def _has_overlap(path: str, other_path: str) -> bool:
    """Return whether two paths are the same, or one is inside the other."""
    first, second = PurePosixPath(path), PurePosixPath(other_path)
    return first.is_relative_to(second) or second.is_relative_to(first)


def _expand(name: str, body: Mapping[str, Any], variables: Mapping[str, Any]) -> Iterator[Stage]:
    """Yield the stage, or the stages that its `foreach` or `matrix` defines, with the names that DVC gives them."""
    if "foreach" in body:
        items = _substitute(body["foreach"], variables)
        for key, item in _list_items(items):
            yield _parse_stage(f"{name}@{key}", body["do"], {**variables, "item": item, "key": key})
    elif "matrix" in body:
        axes = _substitute(body["matrix"], variables)
        for values in itertools.product(*(list(enumerate(axis)) for axis in axes.values())):
            item = dict(zip(axes, (value for _, value in values), strict=True))
            key = "-".join(_format_key(value, f"{axis}{n}") for axis, (n, value) in zip(axes, values, strict=True))
            yield _parse_stage(f"{name}@{key}", body, {**variables, "item": item, "key": key})
    else:
        yield _parse_stage(name, body, variables)


def _list_items(items: Any) -> Iterable[tuple[str, Any]]:
    """Return name and value of each item of a `foreach`; in a list with mappings or lists, the index is the name."""
    if isinstance(items, dict):
        return ((str(key), item) for key, item in items.items())
    has_composite_items = any(isinstance(item, dict | list) for item in items)
    return ((str(n) if has_composite_items else _format_key(item, n), item) for n, item in enumerate(items))


def _format_key(value: Any, fallback: object) -> str:
    """Format a value for a stage's name; a mapping or a list has no name, and becomes `fallback`."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(fallback) if isinstance(value, dict | list) else str(value)


def _parse_stage(name: str, body: Mapping[str, Any], variables: Mapping[str, Any]) -> Stage:
    body_without_matrix = {key: value for key, value in body.items() if key != "matrix"}
    fields = _substitute(body_without_matrix, variables)
    folder = str(fields.get("wdir", "."))
    cmd = fields.get("cmd", "")
    return Stage(
        name=name,
        cmd="\n".join(cmd) if isinstance(cmd, list) else str(cmd),
        deps=tuple(_join_path(folder, path) for path in fields.get("deps", [])),
        outs=tuple(_join_path(folder, _get_output_path(entry)) for kind in OUTS for entry in fields.get(kind, [])),
        params=tuple(_parse_params(folder, fields.get("params", []))),
        folder=posixpath.normpath(folder),
    )


def _join_path(folder: str, path: Any) -> str:
    return posixpath.normpath(posixpath.join(folder, str(path)))


def _get_output_path(entry: Any) -> Any:
    """Return the path of an output. Its entry may have options."""
    return next(iter(entry)) if isinstance(entry, dict) else entry


def _parse_params(folder: str, entries: Sequence[Any]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        if isinstance(entry, dict):
            for file, keys in entry.items():
                yield from ((_join_path(folder, file), str(key)) for key in keys or [""])
        else:
            yield _join_path(folder, "params.yaml"), str(entry)


def _load_variables(folder: Path, entries: Sequence[Any]) -> dict[str, Any]:
    """Return the variables that `${...}` can name: of params.yaml, then of the files and values of `vars`."""
    variables: dict[str, Any] = {}
    for entry in ["params.yaml", *entries]:
        if isinstance(entry, dict):
            variables |= entry
            continue
        path = folder / str(entry).partition(":")[0]
        if path.is_file():  # a JSON file is read as YAML
            variables |= yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    return variables


def _substitute(value: Any, variables: Mapping[str, Any]) -> Any:
    r"""Replace each `${NAME}` in a value by the variable. A text that is one placeholder becomes the variable itself.

    The text `\${` stands for `${` itself.
    """
    if isinstance(value, dict):
        return {_substitute(key, variables): _substitute(item, variables) for key, item in value.items()}
    if isinstance(value, list):
        return [_substitute(item, variables) for item in value]
    if not isinstance(value, str):
        return value
    match = PLACEHOLDER.fullmatch(value)
    if match:
        return _look_up(match[1], variables)
    return PLACEHOLDER.sub(lambda match: str(_look_up(match[1], variables)), value).replace(r"\${", "${")


def _look_up(name: str, variables: Mapping[str, Any]) -> Any:
    """Return the variable of a name such as `section.names[0]`."""
    value: Any = variables
    for part in re.findall(r"[^.\[\]]+", name):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value
