"""Answer the questions of `python -m pipelines check` about a model, from its dataset to its package."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines import params
from pipelines.dataset import Dataset, load_dataset
from pipelines.dataset_checks import dag_files, leaks, policies
from pipelines.dataset_checks.rows import open_source, read_last_partitions
from pipelines.errors import DataError, LeewayError
from pipelines.feature_files import FILE_NAME
from pipelines.features import label_column
from pipelines.lake import Lake
from pipelines.settings import settings

Outcome = Literal["yes", "no", "not yet"]
EXAMPLE_ROWS = 100
"""Largest number of rows of features that the packaged model scores."""


@dataclass(frozen=True)
class Answer:
    """The answer to one question."""

    question: str
    outcome: Outcome
    text: str
    """The finding; for a "no", also what to do; for a "not yet", what must be done first."""


class NotAnswerableYet(Exception):
    """The question cannot be answered yet. The text says why, mostly what must be run first."""


@dataclass(frozen=True)
class CheckedModel:
    """A model and its dataset."""

    name: str
    dataset: Dataset
    folder: Path
    """Folder of the model in the project."""
    sections: Mapping[str, Mapping[str, Any]]
    """Parameters of the model."""
    known_before: Collection[str] = ()
    """Features that the question about leaks accepts even if one of them alone predicts the label, because a person has
    stated that they are known when the prediction is made."""

    @cached_property
    def rows(self) -> pa.Table:
        """Rows of the last days of the source.

        Raises:
            NotAnswerableYet: the source is an API, which does not report which days it has, and no day is published.
        """
        is_api = open_source(self.dataset).describe().kind == "API"
        if is_api and not Lake.open().count_rows_by_day(self.dataset.table):
            raise NotAnswerableYet(f"no day is published: run `dvc repro snapshot@{self.name}`")
        return read_last_partitions(self.dataset)


def answer_questions(name: str, known_before: Collection[str] = ()) -> list[Answer]:
    """Answer all questions about a model of the project.

    Args:
        name: name of the model.
        known_before: see `CheckedModel.known_before`.

    Raises:
        SpecError: there is no such model, or its dataset cannot be loaded. A retry cannot help.
    """
    sections = params.load(settings().project, name)
    dataset = load_dataset(str(sections.get("snapshot", {}).get("dataset") or name))
    subject = CheckedModel(name, dataset, settings().project / "models" / name, sections, known_before)
    return [_answer(question, check, subject) for question, check in QUESTIONS.items()]


def _answer(question: str, check: Callable[[CheckedModel], str], subject: CheckedModel) -> Answer:
    """Answer a question. Its check returns the text of a "yes", and raises an error for another answer."""
    try:
        return Answer(question, "yes", check(subject))
    except NotAnswerableYet as error:
        return Answer(question, "not yet", str(error))
    except LeewayError as error:
        return Answer(question, "no", str(error))


def _check_label(subject: CheckedModel) -> str:
    dataset, rows = subject.dataset, subject.rows
    label_column.check_label_type(dataset, rows.schema)
    known_labels = label_column.compute_labels(dataset, rows).drop_null()
    if not len(known_labels):
        raise DataError(f"none of the last {len(rows)} rows has a label.", "Correct the source or label.py.")
    if len(known_labels.unique()) < 2:
        message = f"the last {len(known_labels)} rows with a label all have the same one: nothing can be learned."
        raise DataError(message, "Correct the source or label.py, or use more days.")
    return (
        f"{dataset.task}: {dataset.label} is {known_labels.type}, known in {len(known_labels):,} of {len(rows):,} rows"
    )


def _check_leaks(subject: CheckedModel) -> str:
    try:
        label_column.check_label_type(subject.dataset, subject.rows.schema)
    except DataError:
        raise NotAnswerableYet("the label does not fit the task") from None
    lines = leaks.find_leaks(subject.dataset, subject.rows, subject.known_before)
    if lines:
        raise DataError(
            f"{'; '.join(lines)}.",
            "Compute no feature from columns that are known later, and list these in `known_later`.",
        )
    text, known_later = f"{len(subject.dataset.features)} features", subject.dataset.known_later
    return f"{text}, none from {', '.join(known_later)}" if known_later else text


def _check_suite(subject: CheckedModel) -> str:
    from pipelines.validation import suites

    suite = suites.load_suite(settings().project / "expectations", subject.dataset.table)
    critical_count = sum(expectation.severity == "critical" for expectation in suite.expectations)
    if not critical_count:
        message = f"none of the {len(suite.expectations)} expectations is critical, so nothing blocks a bad day."
        raise DataError(message, "Set the severity of some expectations to critical.")
    return f"{len(suite.expectations)} expectations, {critical_count} of them critical"


def _check_quarantine(subject: CheckedModel) -> str:
    lake, dataset = Lake.open(), subject.dataset
    published_rows = sum(lake.count_rows_by_day(dataset.table).values())
    quarantined_rows = sum(lake.count_rows_by_day(dataset.quarantine).values())
    unpublished_days = lake.count_rows_by_day(dataset.staging).keys() - lake.count_rows_by_day(dataset.table).keys()
    if not published_rows and not unpublished_days:
        raise NotAnswerableYet(f"no day is published: run `dvc repro snapshot@{subject.name}`")
    rows = published_rows + quarantined_rows
    days_text = (
        f"{len(unpublished_days)} ingested {'day is' if len(unpublished_days) == 1 else 'days are'} not published"
    )
    text = f"{quarantined_rows:,} of {rows:,} rows are quarantined, {days_text}"
    if quarantined_rows or unpublished_days:
        raise DataError(f"{text}.", f"See `python -m pipelines quarantine list --dataset {dataset.table}`.")
    return text


def _check_package(subject: CheckedModel) -> str:
    from pipelines.registry.package.clean_load import find_load_problem
    from pipelines.registry.package.packaging import save_package

    model, holdout = subject.folder / "data/model", subject.folder / "data/features/holdout" / FILE_NAME
    if not model.is_dir() or not holdout.is_file():
        raise NotAnswerableYet(f"no model is trained: run `dvc repro gate@{subject.name}`")
    rows = pq.read_table(holdout, columns=list(subject.dataset.features)).slice(0, EXAMPLE_ROWS).to_pandas()
    with tempfile.TemporaryDirectory(prefix="leeway-") as folder:
        save_package(subject.dataset, model, rows.head(5), Path(folder) / "package")
        problem = find_load_problem(Path(folder) / "package", rows)
    if problem:
        raise DataError(f"{problem}.", "List the files that it needs in bundle.txt of the dataset.")
    return f"it scored {len(rows)} rows in a process without the project's code"


def _check_gate(subject: CheckedModel) -> str:
    from pipelines.evaluation.gates.early_check import check_gate_section

    check_gate_section(subject.sections.get("gate", {}), subject.dataset)
    return f"models of the task {subject.dataset.task} have each metric that the policy names"


def _check_policies(subject: CheckedModel) -> str:
    rows_by_day = Lake.open().count_rows_by_day(subject.dataset.table)
    if not rows_by_day:
        raise NotAnswerableYet(f"no day is published: run `dvc repro snapshot@{subject.name}`")
    problems = policies.find_problems(subject.sections, rows_by_day)
    if problems:
        raise DataError(f"{'; '.join(problems)}.", f"Correct models/{subject.name}/params.yaml.")
    return f"{len(rows_by_day)} days, {sum(rows_by_day.values()) / len(rows_by_day):.1f} rows a day"


def _check_dag_files(subject: CheckedModel) -> str:
    project = settings().project
    files = dag_files.find_dag_files(project, subject.name)
    if not files:
        raise NotAnswerableYet(f"no file in dags/ names {subject.name}: `create_lifecycle_dags` creates its DAGs")
    if skipped_files := dag_files.find_skipped_files(project, subject.name):
        hint = "Write it in a comment: in its safe mode, Airflow skips a file without this word, and reports no error."
        raise DataError(f'the word "airflow" is missing in {", ".join(skipped_files)}.', hint)
    return f'the word "airflow" is in {", ".join(str(file.relative_to(project)) for file in files)}'


QUESTIONS: Mapping[str, Callable[[CheckedModel], str]] = {
    "does the label fit the task?": _check_label,
    "are the features free of leaks?": _check_leaks,
    "is there a suite of expectations?": _check_suite,
    "are all rows published, none quarantined?": _check_quarantine,
    "does the model load in a clean process?": _check_package,
    "does the policy of the gate fit the task?": _check_gate,
    "do the policies fit the size of the data?": _check_policies,
    "does Airflow load the file of the DAGs?": _check_dag_files,
}
