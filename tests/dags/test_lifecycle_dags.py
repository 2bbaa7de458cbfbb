"""Test the DAGs that one call creates for a model."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag

START = """
import datetime as dt
from leeway.lifecycle import lifecycle_dags
start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
"""
KINDS = ("train", "score", "monitor", "rollback")


@pytest.fixture
def load_dags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> Callable[..., DagBag]:
    """Return the function that loads a file of DAGs in a project with the models `late` and `delay`."""
    for model, text in {
        "late": "snapshot: {dataset: trains}\n",
        "delay": "snapshot: {dataset: trains}\n",
        "new": "",
    }.items():
        (tmp_path / "models" / model).mkdir(parents=True)
        (tmp_path / "models" / model / "params.yaml").write_text(text)
    monkeypatch.setenv("LEEWAY_PROJECT", str(tmp_path))
    fresh_settings()

    def load(*calls: str) -> DagBag:
        (tmp_path / "dags").mkdir()
        # Airflow skips files in which the word airflow does not occur.
        (tmp_path / "dags" / "all.py").write_text(f"# for airflow\n{START}" + "\n".join(calls))
        return DagBag(str(tmp_path / "dags"))

    return load


def test_two_models_of_a_dataset_share_the_dag_of_its_days(load_dags: Callable[..., DagBag]) -> None:
    bag = load_dags(
        'lifecycle_dags(model="late", start=start, max_run_s=60)',
        'lifecycle_dags(model="delay", start=start, with_ingestion=False, train_schedule="0 0 * * 1")',
    )
    assert bag.import_errors == {}
    assert set(bag.dags) == {"trains_ingest", *(f"{model}_{kind}" for model in ("late", "delay") for kind in KINDS)}
    train = bag.dags["late_train"].get_task("train")
    assert (train.model, train.max_run_s, train.max_wait_s) == ("late", 60, 7_200)
    for model in ("late", "delay"):
        names = {getattr(task, "model_name", model) for kind in KINDS for task in bag.dags[f"{model}_{kind}"].tasks}
        assert names == {model}
        assert (
            bag.dags[f"{model}_monitor"].get_task("drift").asset == bag.dags[f"{model}_train"].schedule.asset_condition
        )
        assert bag.dags[f"{model}_score"].schedule.asset_condition.name == "trains"


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("lat", "there is no model 'lat'.*The models are delay, late, new"),
        ("new", "the parameters of model new name no dataset"),
    ],
)
def test_a_model_without_parameters_or_dataset_is_one_line(
    load_dags: Callable[..., DagBag], model: str, text: str
) -> None:
    bag = load_dags(f'lifecycle_dags(model="{model}", start=start)')
    (error,) = bag.import_errors.values()
    assert bag.dags == {}
    assert re.search(text, error.replace("\n", " "))
