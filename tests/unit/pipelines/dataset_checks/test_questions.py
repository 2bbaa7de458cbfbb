"""Test the questions of `leeway check` about the policy of the gate and the DAG files."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.dataset_checks import questions
from pipelines.datasets.flights import DATASET

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize(
    ("metric", "outcome"), [("mae", "yes"), ("pinball/0.1", "yes"), ("mea", "no"), ("auc", "no"), ("recall/x", "no")]
)
def test_a_metric_that_the_task_does_not_have_is_a_no(metric: str, outcome: str) -> None:
    dataset = replace(DATASET, task="regression")
    sections = {"gate": {"policy": {"bounds": {metric: {"at_most": 1.0}}}}}
    answer = questions._answer("?", questions._check_gate, questions.CheckedModel("delays", dataset, Path(), sections))
    assert answer.outcome == outcome
    if outcome == "no":
        assert f"the gate's policy names the metric {metric!r}" in answer.text
        assert "They have rmse, mae, median_ae, r2, bias" in answer.text


def test_the_dag_files_of_a_model_are_found(
    monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    monkeypatch.setenv("LEEWAY_PROJECT", str(ROOT))
    fresh_settings()
    subject = questions.CheckedModel("flights", DATASET, Path(), {})
    answer = questions._answer("?", questions._check_dag_files, subject)
    assert (answer.outcome, answer.text) == ("yes", 'the word "airflow" is in dags/flights.py')
    nobody = questions._answer("?", questions._check_dag_files, questions.CheckedModel("nobody", DATASET, Path(), {}))
    assert (nobody.outcome, nobody.text) == (
        "not yet",
        "no file in dags/ names nobody: `create_lifecycle_dags` creates its DAGs",
    )


def test_a_dag_file_without_the_word_is_a_no(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags/orders.py").write_text(
        'from leeway.lifecycle import create_lifecycle_dags\ncreate_lifecycle_dags(model="orders")\n'
    )
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    fresh_settings()
    answer = questions._answer("?", questions._check_dag_files, questions.CheckedModel("orders", DATASET, Path(), {}))
    assert answer.outcome == "no" and answer.text.startswith('the word "airflow" is missing in dags/orders.py. Write')


def test_a_label_that_does_not_fit_the_task_is_one_no_and_is_not_searched_for_leaks() -> None:
    dataset = replace(DATASET, task="regression", label="grade")
    subject = questions.CheckedModel("orders", dataset, Path(), {})
    subject.__dict__["rows"] = pa.table({"grade": ["low", "high"]})
    answers = [questions._answer("?", check, subject) for check in (questions._check_label, questions._check_leaks)]
    assert [answer.outcome for answer in answers] == ["no", "not yet"]
    assert "the label grade of flights is string: it must be" in answers[0].text
    assert answers[1].text == "the label does not fit the task"


def test_rows_without_any_label_are_named() -> None:
    dataset = replace(DATASET, task="regression", label="grade")
    subject = questions.CheckedModel("orders", dataset, Path(), {})
    subject.__dict__["rows"] = pa.table({"grade": pa.array([None, None], pa.float64())})
    label = questions._answer("?", questions._check_label, subject)
    assert (label.outcome, label.text.partition(".")[0]) == ("no", "none of the last 2 rows has a label")
