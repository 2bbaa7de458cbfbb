"""Update the files of a project that `new` wrote, if their templates changed, and keep what a person changed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2

from pipelines import __version__
from pipelines.errors import SpecError
from pipelines.scaffold import project_files, rendering

RECORD = "models/{name}/.scaffold.json"
"""File of a model that records the values of the templates, and the texts that were rendered from them."""
CONFLICT = "<<<<<<< "
"""Beginning of the first line of a conflict, as git writes it."""


@dataclass(frozen=True)
class Update:
    """The files that an update changed."""

    old_version: str
    """Version of Leeway whose templates the files came from before the update."""
    changed_files: list[str] = field(default_factory=list)
    """Files that the update changed; some may have conflicts."""
    conflicts: list[str] = field(default_factory=list)
    """Those of the changed files in which a person and the templates changed the same lines."""


def format_record(values: Mapping[str, Any], project_values: Mapping[str, Any] | None) -> str:
    """Format the record of a model as JSON.

    Args:
        values: values of the templates of the model.
        project_values: values of the templates of the project; None if the model was added to a project.
    """
    record = {"leeway": __version__, "values": values, "project": project_values}
    return json.dumps({**record, "files": _render(values, project_values)}, indent=1, ensure_ascii=False) + "\n"


def update(name: str, project: Path) -> Update:
    """Render the templates again, and merge what changed in them into the files of the project.

    A file that a person removed stays removed. After an interruption, run it again.

    Raises:
        SpecError: the model has no record, or a file still has conflicts. Nothing is written. A retry cannot help.
    """
    project_files.remove_leftovers(project)
    record = _read_record(name, project)
    try:
        files = _render(record["values"], record["project"])
    except jinja2.UndefinedError as error:
        message = f"the templates of Leeway {__version__} need a value that {record['leeway']} did not record: {error}."
        raise SpecError(message, "CHANGELOG.md says what to change by hand.") from None
    result = Update(record["leeway"])
    with project_files.open_temporary_folder(project) as folder:
        texts = {path: _merge(project, folder, path, record["files"], text, result) for path, text in files.items()}
        changed_texts = {path: text for path, text in texts.items() if text is not None}
        result.changed_files.extend(changed_texts)
        changed_texts[RECORD.format(name=name)] = format_record(record["values"], record["project"])
        project_files.write_files(project, folder, new_files={}, changed_files=changed_texts)
    return result


def _render(values: Mapping[str, Any], project_values: Mapping[str, Any] | None) -> dict[str, str]:
    files_of_project = rendering.render_project(project_values) if project_values else {}
    return rendering.render_model(values) | files_of_project


def _read_record(name: str, project: Path) -> dict[str, Any]:
    path = project / RECORD.format(name=name)
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return {key: record[key] for key in ("leeway", "values", "project", "files")}
    except FileNotFoundError:
        raise SpecError(
            f"{path} does not exist, so {name} cannot be updated.", "`new` writes it with a model."
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SpecError(f"{path} cannot be read: {type(error).__name__}.", "Restore it from git.") from None


def _merge(
    project: Path, folder: Path, name: str, old_files: Mapping[str, str], text: str, result: Update
) -> str | None:
    """Return the new text of a file; None if the file does not change. Add the file to `result` if it has conflicts."""
    path, old_text = project / name, old_files.get(name)
    if not path.is_file():
        return text if old_text is None else None
    current_text = path.read_text(encoding="utf-8")
    if CONFLICT in current_text:
        raise SpecError(f"{path} has conflicts.", "Resolve them first. Nothing was written.")
    if text in (old_text, current_text):
        return None
    if current_text == old_text:
        return text
    merged_text, has_conflicts = _merge_texts(folder, current_text, old_text or "", text)
    if has_conflicts:
        result.conflicts.append(name)
    return merged_text


def _merge_texts(folder: Path, current_text: str, old_text: str, text: str) -> tuple[str, bool]:
    """Merge two changes of a text, as `git merge-file` does; return the text, and whether it has conflicts."""
    texts = {"yours": current_text, "before": old_text, f"Leeway {__version__}": text}
    command = ["git", "merge-file", "-p"]
    for number, (label, content) in enumerate(texts.items()):
        (folder / str(number)).write_text(content, encoding="utf-8")
        command += ["-L", label]
    process = subprocess.run([*command, "0", "1", "2"], cwd=folder, capture_output=True, encoding="utf-8", check=False)
    if process.returncode > 127 or process.returncode < 0:
        raise SpecError(f"git could not merge the files: {' '.join(process.stderr.split())[:200]}.")
    return process.stdout, process.returncode > 0
