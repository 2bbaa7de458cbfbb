"""Create a model in a project; if there is no project, create it first."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from pipelines.errors import DataError, SpecError
from pipelines.scaffold import project_files, rendering, source_code, updating
from pipelines.scaffold.plan import Plan, make_plan
from pipelines.scaffold.request import AskFunction, Request
from pipelines.scaffold.sampling.reading import read_sample
from pipelines.scaffold.sizes import Sizes, measure
from pipelines.system.log import log


@dataclass(frozen=True)
class Creation:
    """A new model, and perhaps a new project."""

    plan: Plan
    """The purpose of each column."""
    sizes: Sizes
    """The size of the data, and the windows that follow from it."""
    files: list[str]
    """Paths of the new files, relative to the project."""
    expectation_count: int
    """Number of drafted expectations."""
    is_new_project: bool
    """Whether the project was created, too."""
    address_variable: str
    """Environment variable that must hold the address of the source, because the address has a secret; else empty."""


def create(request: Request, project: Path, ask: AskFunction) -> Creation:
    """Create all files of a model and, if the project is new, all files of the project; none of them after an error.

    Raises:
        SpecError: the name is in use, an option is missing or wrong. A retry cannot help.
        DataError: no model can be made of the data; the message says why. A retry cannot help.
        ServiceError: the source does not answer. A retry can help.
    """
    is_new = not (project / "params.yaml").is_file()
    project_files.remove_leftovers(project)
    _check_name(request.name, project)
    with project_files.open_temporary_folder(project) as folder:
        sample = read_sample(request, ask)
        plan = make_plan(request, sample, ask)
        sizes = measure(plan)
        log.info("%s: %d rows, %s to %s", sample.origin, sample.table.num_rows, sizes.first, sizes.last)
        _check_source(plan)
        suite = _draft_expectations(plan, sizes, folder)
        values = rendering.list_values(plan, sizes)
        project_values = rendering.list_project_values(plan, sizes, project) if is_new else None
        files = {
            **rendering.render_model(values),
            f"expectations/{request.name}.json": suite,
            updating.RECORD.format(name=request.name): updating.format_record(values, project_values),
            # params.yaml comes last, because a folder with this file is a project.
            **(rendering.render_project(project_values) if project_values else {}),
        }
        changed_files = {} if is_new else {"dvc.yaml": rendering.add_model(_read_dvc_yaml(project), request.name)}
        repository = _create_repository(project, folder) if is_new else None
        project_files.write_files(project, folder, files, changed_files)
        if repository:
            os.replace(repository, project / ".git")
    return Creation(
        plan, sizes, list(files), len(json.loads(suite)["expectations"]), is_new, source_code.find_secret_variable(plan)
    )


def _check_name(name: str, project: Path) -> None:
    from pipelines.dataset import list_datasets

    if (project / "models" / name).exists():
        raise SpecError(f"the project already has a model {name}.", "Choose another name.")
    if (project / "datasets" / name).exists() or name in list_datasets():
        raise SpecError(f"there is already a dataset {name}.", "Choose another name.")


def _read_dvc_yaml(project: Path) -> str:
    try:
        return (project / "dvc.yaml").read_text(encoding="utf-8")
    except OSError as error:
        message = f"{project} has a params.yaml, but no dvc.yaml that can be read ({error.strerror})."
        raise SpecError(message, "Run `new` in an empty folder, or in a project.") from None


def _draft_expectations(plan: Plan, sizes: Sizes, folder: Path) -> str:
    """Draft the suite from the rows of the sample, in the types of the new source; return the suite as JSON."""
    from pipelines.validation.suggesting import draft_suite, summarize_file

    dataset = rendering.build_dataset(plan, sizes)
    path = folder / "rows.parquet"
    pq.write_table(source_code.build_rows(plan), path)
    suite = draft_suite(summarize_file(path, dataset.table, dataset.key), plan.request.name)
    path.unlink()
    return json.dumps(suite, indent=2, ensure_ascii=False) + "\n"


def _check_source(plan: Plan) -> None:
    """Check that the new source returns as many rows of the first and of the last day as the sample has.

    If the sample is not complete, only check that these days can be read.

    Raises:
        DataError: a value does not fit its type, or the numbers of rows differ. A retry cannot help.
    """
    source = source_code.build_source(plan)
    counts = Counter(plan.days.to_pylist())
    for day in (min(counts), max(counts)):
        rows = source.read(day).read_all().num_rows
        if rows != counts[day] and plan.sample.is_complete:
            message = f"{plan.sample.origin} has {counts[day]} rows of {day}, but the new source returns {rows}."
            raise DataError(message, "Give other options, such as --time-format or --timezone.")


def _create_repository(project: Path, folder: Path) -> Path | None:
    """Create a git repository in `folder`, because DVC needs one; return its .git, to be moved to the project.

    Return None if the project is in a repository already.

    Raises:
        SpecError: git is not installed, or it failed. A retry cannot help.
    """
    path = folder / "repository"
    try:
        process = subprocess.run(["git", "rev-parse", "--git-dir"], cwd=project, capture_output=True, check=False)
        if process.returncode == 0:
            return None
        subprocess.run(["git", "init", "--quiet", str(path)], check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise SpecError("git is not installed, and DVC needs it.", "Install git. Nothing was written.") from None
    except subprocess.CalledProcessError as error:
        reason = " ".join(error.stderr.split())[:200]
        raise SpecError(f"git could not create a repository: {reason}.", "Nothing was written.") from None
    return path / ".git"
