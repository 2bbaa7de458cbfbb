"""The stages of a dvc.yaml and how they hang together, read without DVC: Airflow reads them at every parse."""

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

HOLE = re.compile(r"\$\{\s*([^}\s]+)\s*\}")
OUTS = ("outs", "metrics", "plots")


@dataclass(frozen=True)
class Stage:
    """One stage."""

    name: str
    cmd: str
    deps: tuple[str, ...] = ()
    outs: tuple[str, ...] = ()
    params: tuple[tuple[str, str], ...] = field(default=())
    """File and key of each parameter; an empty key is the whole file."""


def load_stages(path: Path) -> dict[str, Stage]:
    """Name to stage, of a dvc.yaml, in its order; those of `foreach` and `matrix` each under its own name.

    Raises:
        SpecError: the file is not there, or is no dvc.yaml.
    """
    try:
        told = yaml.safe_load(path.read_text(encoding="utf-8"))
        known = _load_variables(path.parent, told.get("vars", []))
        made = [one for name, body in told["stages"].items() for one in _expand(name, body, known)]
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}.") from None
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise SpecError(f"{path} has no stages that can be read: {type(error).__name__} {error}.") from None
    return {stage.name: stage for stage in made}


def find_dependencies(stages: Mapping[str, Stage]) -> dict[str, set[str]]:
    """Stage to the stages whose outputs it depends on: the edges of `dvc dag`."""
    return {
        name: {
            other.name
            for other in stages.values()
            if other.name != name and any(_overlap(dep, out) for dep in stage.deps for out in other.outs)
        }
        for name, stage in stages.items()
    }


def select_with_dependencies(stages: Mapping[str, Stage], targets: Iterable[str]) -> list[Stage]:
    """The targets and all that they need, in the order of the file. An unknown target is left for DVC to refuse."""
    before, found, todo = find_dependencies(stages), set[str](), [name for name in targets if name in stages]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += before[name]
    return [stage for name, stage in stages.items() if name in found]


def list_source_inputs(chosen: Sequence[Stage]) -> set[str]:
    """Files and folders that the stages depend on, and none of them makes."""
    made = [out for stage in chosen for out in stage.outs]
    return {dep for stage in chosen for dep in stage.deps if not any(_overlap(dep, out) for out in made)}


def _overlap(one: str, other: str) -> bool:
    """Whether two paths are the same, or one is inside the other."""
    a, b = PurePosixPath(one), PurePosixPath(other)
    return a.is_relative_to(b) or b.is_relative_to(a)


def _expand(name: str, body: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[Stage]:
    """The stage, or the stages that `foreach` and `matrix` make of it, named as DVC names them."""
    if "foreach" in body:
        items = _substitute(body["foreach"], known)
        for key, item in _list_items(items):
            yield _parse_stage(f"{name}@{key}", body["do"], {**known, "item": item, "key": key})
    elif "matrix" in body:
        axes = _substitute(body["matrix"], known)
        for values in itertools.product(*(list(enumerate(axis)) for axis in axes.values())):
            item = dict(zip(axes, (value for _, value in values), strict=True))
            key = "-".join(_format_key(value, f"{axis}{n}") for axis, (n, value) in zip(axes, values, strict=True))
            yield _parse_stage(f"{name}@{key}", body, {**known, "item": item, "key": key})
    else:
        yield _parse_stage(name, body, known)


def _list_items(items: Any) -> Iterable[tuple[str, Any]]:
    """Name to item of a `foreach`; a list that holds more than plain values goes by numbers."""
    if isinstance(items, dict):
        return ((str(key), item) for key, item in items.items())
    composite = any(isinstance(item, dict | list) for item in items)
    return ((str(n) if composite else _format_key(item, n), item) for n, item in enumerate(items))


def _format_key(value: Any, otherwise: object) -> str:
    """The value where it can stand in a name."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(otherwise) if isinstance(value, dict | list) else str(value)


def _parse_stage(name: str, body: Mapping[str, Any], known: Mapping[str, Any]) -> Stage:
    parts = {key: value for key, value in body.items() if key != "matrix"}
    told = _substitute(parts, known)
    folder = str(told.get("wdir", "."))
    cmd = told.get("cmd", "")
    return Stage(
        name=name,
        cmd="\n".join(cmd) if isinstance(cmd, list) else str(cmd),
        deps=tuple(_join(folder, one) for one in told.get("deps", [])),
        outs=tuple(_join(folder, _output_path(one)) for kind in OUTS for one in told.get(kind, [])),
        params=tuple(_parse_params(folder, told.get("params", []))),
    )


def _join(folder: str, path: Any) -> str:
    return posixpath.normpath(posixpath.join(folder, str(path)))


def _output_path(entry: Any) -> Any:
    """The path of an output, which may have options below it."""
    return next(iter(entry)) if isinstance(entry, dict) else entry


def _parse_params(folder: str, entries: Sequence[Any]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        if isinstance(entry, dict):
            for file, keys in entry.items():
                yield from ((_join(folder, file), str(key)) for key in keys or [""])
        else:
            yield _join(folder, "params.yaml"), str(entry)


def _load_variables(folder: Path, told: Sequence[Any]) -> dict[str, Any]:
    """What `${...}` may name: params.yaml, then the files and values of `vars`."""
    found: dict[str, Any] = {}
    for entry in ["params.yaml", *told]:
        if isinstance(entry, dict):
            found |= entry
            continue
        path = folder / str(entry).partition(":")[0]
        if path.is_file():  # YAML 1.2 holds all of JSON
            found |= yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    return found


def _substitute(value: Any, known: Mapping[str, Any]) -> Any:
    """`value` with each `${name}` replaced by what is known under the name; one alone keeps its type."""
    if isinstance(value, dict):
        return {_substitute(key, known): _substitute(one, known) for key, one in value.items()}
    if isinstance(value, list):
        return [_substitute(one, known) for one in value]
    if not isinstance(value, str):
        return value
    whole = HOLE.fullmatch(value)
    return _look_up(whole[1], known) if whole else HOLE.sub(lambda hole: str(_look_up(hole[1], known)), value)


def _look_up(name: str, known: Mapping[str, Any]) -> Any:
    found: Any = known
    for part in re.findall(r"[^.\[\]]+", name):
        found = found[int(part)] if isinstance(found, list) else found[part]
    return found
