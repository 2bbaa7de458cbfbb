"""Test that `priority` of the operators of jobs reaches Airflow's scheduler, by a real parse of a DAG file."""

from pathlib import Path

from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

DAG_FILE = """
import datetime as dt

from airflow.sdk import DAG
from leeway.operators.batch_score import BatchScoreOperator
from leeway.operators.ingest import IngestOperator
from leeway.operators.spark_preprocess import SparkPreprocessOperator
from leeway.operators.spot_training import SpotTrainingOperator
from leeway.operators.tuning import TuningOperator

with DAG("prioritized", schedule=None, start_date=dt.datetime(2026, 1, 1), default_args=DEFAULT_ARGS):
    ingest = IngestOperator(task_id="ingest", dataset="flights", partition="2013-01-01")
    for priority in ("", "low", "normal", "high"):
        task = SpotTrainingOperator(task_id=f"train_{priority}", channels={}, priority=priority)
        ingest >> task >> IngestOperator(task_id=f"after_{priority}", dataset="flights", partition="2013-01-01")
    SpotTrainingOperator(task_id="train_own", channels={}, priority="high", priority_weight=7, pool="own")
    BatchScoreOperator(task_id="score", model="flights", priority="high")
    SparkPreprocessOperator(task_id="spark", priority="high")
    TuningOperator(task_id="tune", channels={}, model="flights", priority="high")
"""


def parse(folder: Path, text: str) -> DagBag:
    file = folder / "prioritized.py"
    file.write_text(text)
    return DagBag(str(file), collect_dags=True)


def read_tasks(folder: Path, default_args: str = "{}"):
    """Parse the DAG file, and return its tasks as the scheduler reads them, by their ids."""
    bag = parse(folder, DAG_FILE.replace("DEFAULT_ARGS", default_args))
    assert bag.import_errors == {}
    dag = DagSerialization.from_dict(DagSerialization.to_dict(bag.dags["prioritized"]))
    return {task.task_id: task for task in dag.tasks}


def get_weight(task) -> int:
    """Return the weight by which the scheduler orders the task."""
    return task.weight_rule.get_weight(type("TaskInstance", (), {"task": task})())


def test_priority_is_the_weight_by_which_the_scheduler_orders_tasks(tmp_path: Path) -> None:
    tasks = read_tasks(tmp_path)
    weights = {name: get_weight(task) for name, task in tasks.items()}
    assert (weights["train_low"], weights["train_normal"], weights["train_high"]) == (0, 2, 1_000)
    assert weights["train_"] == weights["train_normal"], "normal is Airflow's own order: the task and the one behind it"
    assert weights["train_low"] < weights["after_"] < weights["train_high"] < weights["ingest"]
    assert {weights[name] for name in ("score", "spark", "tune")} == {1_000}
    assert weights["train_own"] == 7
    assert {task.pool for name, task in tasks.items() if name != "train_own"} == {"default_pool"}


def test_jobs_have_a_pool_of_their_own_if_a_setting_names_it(tmp_path: Path, monkeypatch, fresh_settings) -> None:
    monkeypatch.setenv("LEEWAY_JOB_POOL", "sagemaker")
    fresh_settings()
    tasks = read_tasks(tmp_path)
    assert {tasks[name].pool for name in ("train_low", "train_", "score", "spark", "tune")} == {"sagemaker"}
    assert (tasks["ingest"].pool, tasks["train_own"].pool) == ("default_pool", "own")


def test_priority_of_an_operator_has_precedence_over_default_args(tmp_path: Path) -> None:
    tasks = read_tasks(tmp_path, "{'priority_weight': 5}")
    assert (get_weight(tasks["train_high"]), get_weight(tasks["after_high"])) == (1_000, 5)


def test_an_unknown_priority_is_an_import_error_of_the_file(tmp_path: Path) -> None:
    text = DAG_FILE.replace("DEFAULT_ARGS", "{}").replace('priority="high")', 'priority="urgent")')
    (error,) = parse(tmp_path, text).import_errors.values()
    assert "priority must be low, normal or high, not 'urgent'." in error
