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
from pipelines.scaffold import placing, rendering, source_code, updating
from pipelines.scaffold.plan import Plan, make_plan
from pipelines.scaffold.request import Ask, Request
from pipelines.scaffold.sampling.reading import read_sample
from pipelines.scaffold.sizes import Sizes, measure
from pipelines.system.log import log


@dataclass(frozen=True)
class Creation:
    """What was created."""

    plan: Plan
    sizes: Sizes
    files: list[str]
    """Paths of the new files, relative to the project."""
    expectations: int
    """Number of drafted expectations."""
    is_new_project: bool
    variable: str
    """Environment variable that has to hold the address of the source, since it has a secret; empty if it has none."""


def create(request: Request, project: Path, ask: Ask) -> Creation:
    """Create all files of a model and, if the project is new, all files of the project; after an error, none of them.

    Raises:
        SpecError: the name is in use, an option is missing or wrong. A retry cannot help.
        DataError: no model can be made of the data; the message says why. A retry cannot help.
        ServiceError: the source does not answer. A retry can help.
    """
    is_new = not (project / "params.yaml").is_file()
    placing.remove_leftovers(project)
    _check_name(request.name, project)
    with placing.open_folder(project) as folder:
        sample = read_sample(request, ask)
        plan = make_plan(request, sample, ask)
        sizes = measure(plan)
        log.info("%s: %d rows, %s to %s", sample.place, sample.table.num_rows, sizes.first, sizes.last)
        _check_source(plan)
        suite = _draft_expectations(plan, sizes, folder)
        values = rendering.list_values(plan, sizes)
        project_values = rendering.list_project_values(plan, sizes, project) if is_new else None
        files = {
            **rendering.render_model(values),
            f"expectations/{request.name}.json": suite,
            updating.RECORD.format(name=request.name): updating.write_record(values, project_values),
            # params.yaml comes last: a folder without it is no project.
            **(rendering.render_project(project_values) if project_values else {}),
        }
        replaced = {} if is_new else {"dvc.yaml": rendering.add_model(_read_dvc_yaml(project), request.name)}
        repository = _make_repository(project, folder) if is_new else None
        placing.place(project, folder, files, replaced)
        if repository:
            os.replace(repository, project / ".git")
    return Creation(
        plan, sizes, list(files), len(json.loads(suite)["expectations"]), is_new, source_code.find_secret_variable(plan)
    )


def _check_name(name: str, project: Path) -> None:
    from pipelines.dataset import list_datasets

    if (project / "models" / name).exists():
        raise SpecError(f"the project has a model {name} already.", "Choose another name.")
    if (project / "datasets" / name).exists() or name in list_datasets():
        raise SpecError(f"there is a dataset {name} already.", "Choose another name.")


def _read_dvc_yaml(project: Path) -> str:
    try:
        return (project / "dvc.yaml").read_text(encoding="utf-8")
    except OSError as error:
        message = f"{project} has a params.yaml and no dvc.yaml that can be read ({error.strerror})."
        raise SpecError(message, "Run `new` in an empty folder, or in a project.") from None


def _draft_expectations(plan: Plan, sizes: Sizes, folder: Path) -> str:
    """Draft the suite from the rows of the sample, in the types of the new source; return its text."""
    from pipelines.validation.suggesting import draft_suite, summarize_file

    dataset = rendering.build_dataset(plan, sizes)
    path = folder / "rows.parquet"
    pq.write_table(source_code.build_rows(plan), path)
    suite = draft_suite(summarize_file(path, dataset.published, dataset.key), plan.request.name)
    path.unlink()
    return json.dumps(suite, indent=2, ensure_ascii=False) + "\n"


def _check_source(plan: Plan) -> None:
    """Read the first and the last day through the new source.

    Raises:
        DataError: a value does not fit, or the source has another number of rows than the sample. A retry cannot
            help.
    """
    source = source_code.build_source(plan)
    counts = Counter(plan.days.to_pylist())
    for day in (min(counts), max(counts)):
        rows = source.read(day).read_all().num_rows
        if rows != counts[day] and plan.sample.is_complete:
            raise DataError(f"{plan.sample.place}: {rows} rows of {day} are read, and it has {counts[day]}.")


def _make_repository(project: Path, folder: Path) -> Path | None:
    """Make a git repository in `folder`, for the project; None if the project is in one: DVC needs a repository.

    Raises:
        SpecError: git is not installed, or it failed. A retry cannot help.
    """
    path = folder / "repository"
    try:
        inside = subprocess.run(["git", "rev-parse", "--git-dir"], cwd=project, capture_output=True, check=False)
        if inside.returncode == 0:
            return None
        subprocess.run(["git", "init", "--quiet", str(path)], check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise SpecError("git is not installed, and DVC needs it.", "Install git. Nothing was written.") from None
    except subprocess.CalledProcessError as error:
        reason = " ".join(error.stderr.split())[:200]
        raise SpecError(f"git made no repository: {reason}.", "Nothing was written.") from None
    return path / ".git"
