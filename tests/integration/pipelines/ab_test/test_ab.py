"""Test `python -m pipelines ab` on outcomes in a real lake, of versions in a real MLflow."""

import datetime as dt
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from mlflow import MlflowClient
from sklearn.metrics import log_loss

from pipelines.ab_test.outcome_sums import METRICS, find_metric, sum_outcomes
from pipelines.dataset import Dataset
from pipelines.datasets.flights import DATASET
from pipelines.errors import DataError, SpecError
from pipelines.lake import Lake
from pipelines.scored_rows import SCORES_TYPE

FIRST = dt.date(2013, 5, 1)
DAYS = [FIRST + dt.timedelta(day) for day in range(14)]
ORDERS = replace(DATASET, name="orders", key=("date", "number"))


KEY = {"carrier": "AA", "flight": 1, "origin": "JFK", "dest": "BOS", "sched_dep_time": 900}


def write_outcomes(dataset: Dataset, columns: dict[str, list[pa.Array]], versions: list[str], numbers: Any) -> None:
    """Write outcomes of each day; `columns` have the values of each version, and `numbers` differ in the key."""
    for day in DAYS:
        for index, version in enumerate(versions):
            count = len(numbers[index])
            rows = {
                **{name: pa.array([KEY[name]] * count) for name in dataset.key if name in KEY},
                "date": pa.array([day] * count),
                dataset.key[-1]: pa.array(numbers[index]),
                **{name: values[index] for name, values in columns.items()},
                "model_name": pa.array(["ab-orders"] * count),
                "model_version": pa.array([version] * count),
            }
            part_values = {"model_name": "ab-orders", "model_version": version}
            key = (*dataset.key, "model_version")
            Lake.open().write_partition(dataset.outcomes, day, pa.table(rows), key, part_values=part_values)


def draw_scores(noise: float, seed: int, rows: int = 200) -> tuple[pa.Array, pa.Array]:
    """Draw labels and scores; a greater noise makes worse scores."""
    random = np.random.default_rng(seed)
    chance = random.uniform(0.1, 0.9, rows)
    scores = np.clip(chance + random.normal(0, noise, rows), 0.02, 0.98)
    return pa.array(random.uniform(size=rows) < chance), pa.array(scores)


def test_the_better_version_is_found(with_mlflow: str, commands: Any, tmp_path: Path) -> None:
    client = MlflowClient(with_mlflow)
    client.create_registered_model("ab-orders")
    for _ in range(3):
        client.create_model_version("ab-orders", "s3://bucket/nowhere")
    good, bad = draw_scores(0.02, 1), draw_scores(0.3, 2)
    columns = {name: [bad[index], good[index]] for index, name in enumerate(("label", "score"))}
    write_outcomes(DATASET, columns, ["1", "2"], [range(200), range(200, 400)])

    def run(command: str, *arguments: str, days: tuple[dt.date, dt.date] = (DAYS[0], DAYS[-1])) -> Any:
        options = ["--model", "ab-orders", "--dataset", "flights", "--from", str(days[0]), "--to", str(days[1])]
        return commands.run_step("ab", command, *options, *arguments, env={"MLFLOW_TRACKING_URI": with_mlflow})

    report = run("report", "--versions", "1,2", "--png", str(tmp_path / "ab.png"), "--json")
    record = json.loads(report.out)
    losses = [log_loss(item[0].to_pylist(), item[1].to_pylist()) for item in (bad, good)]
    assert record["difference"]["value"] == pytest.approx(losses[1] - losses[0])
    assert (record["outcome"], record["paired"], record["rows"]) == ("better", False, [2800, 2800])
    assert (tmp_path / "ab.png").read_bytes().startswith(b"\x89PNG")
    assert "Version 1 is worse." in run("report", "--versions", "2,1", "--metric", "brier").out

    early = run("report", "--versions", "1,2", days=(DAYS[0], DAYS[3]))
    assert "Undecided: at least 14 days are needed, and there are 4." in early.out
    assert "1,600 of 10,000 planned rows: about 21 days more, at 400 rows a day." in early.out

    plan = run("plan", "--version", "1", "--effect", "0.05", "--json")
    assert 1000 < json.loads(plan.out)["rows"] < 100_000
    assert json.loads(plan.out)["rows_per_day"] == 200

    wrong_requests = {
        ("report", "--versions", "1"): "'1' does not name two versions. Give two, such as 3,4 or champion,4.",
        ("report", "--versions", "1,1"): "names version 1 twice.",
        ("report", "--versions", "1,3"): "ab-orders version 3 has no outcomes on these days.",
        ("plan", "--version", "1", "--effect", "0"): "effect is 0. Give a difference above 0.",
    }
    for arguments, message in wrong_requests.items():
        answer = run(*arguments)
        assert (answer.code, answer.out) == (2, "") and message in answer.err, answer.err


@pytest.mark.soak
def test_multiclass_and_regression_metrics_are_those_of_the_task(home: Path) -> None:
    classes = [{"a": 0.7, "b": 0.3}, {"a": 0.2, "b": 0.8}]
    columns = {
        "label": [pa.array(["a", "a"])] * 2,
        "predicted": [pa.array(["a", "b"])] * 2,
        "score": [pa.array([0.7, 0.8])] * 2,
        "scores": [pa.array([list(item.items()) for item in classes], SCORES_TYPE)] * 2,
    }
    dataset = replace(ORDERS, task="multiclass")
    write_outcomes(dataset, columns, ["1", "2"], [[1, 2], [1, 2]])
    window = (DAYS[0], DAYS[-1])
    metrics = METRICS["multiclass"]
    single = [sum_outcomes(Lake.open(), dataset, "ab-orders", ("1",), window, metric) for metric in metrics.values()]
    assert [sums.samples[0].mean for sums in single] == pytest.approx([-np.log([0.7, 0.2]).mean(), 0.5])
    paired = sum_outcomes(Lake.open(), dataset, "ab-orders", ("1", "2"), window, metrics["log_loss"])
    assert paired.is_paired and paired.samples[0].count == 28 and paired.samples[0].mean == 0

    delays = replace(ORDERS, name="delays", task="regression")
    columns = {"label": [pa.array([1.0, 2.0])], "score": [pa.array([2.0, 4.0])]}
    write_outcomes(delays, columns, ["1"], [[1, 2]])
    values = [
        sum_outcomes(Lake.open(), delays, "ab-orders", ("1",), window, metric).samples[0].mean
        for metric in METRICS["regression"].values()
    ]
    assert values == pytest.approx([1.5, 2.5])
    with pytest.raises(DataError, match=r"ab-orders version 7 has no outcomes on these days\. Score the days with it"):
        sum_outcomes(Lake.open(), delays, "ab-orders", ("1", "7"), window, METRICS["regression"]["mae"])
    with pytest.raises(SpecError, match=r"has no metric 'auc': its metrics are means over rows\. Choose mae or mse"):
        find_metric(delays, "auc")
