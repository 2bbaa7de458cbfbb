"""Test the reports of a backtest and of the loop, with real models in a real MLflow over real days."""

import datetime as dt
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score

from pipelines.backtest import study
from pipelines.backtest.study import NEVER_STRATEGY
from pipelines.dataset import load_dataset
from pipelines.errors import DataError
from pipelines.features.building import build_features
from pipelines.lake import Lake
from pipelines.loop.study import DRIFT_STRATEGY, MONTHLY_STRATEGY
from pipelines.loop.study import run_study as loop_study
from pipelines.steps import gate, guard, promote, record_outcome
from pipelines.system.files import write_json
from tests.tools.candidates import register
from tests.tools.policies import EASY_POLICY, HARD_POLICY
from tests.tools.short_gate import shorten_gate


@pytest.fixture
def model(quarter_home: Path, trained: SimpleNamespace, mlflow_uri: str, monkeypatch: Any, fresh_settings: Any) -> str:
    """Return the name of a model. The lake has January to March; data/ has a trained model."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_uri)
    fresh_settings()
    shutil.copytree(trained.data, "data")
    return "report"


def register_version(model: str, as_of: str, passes: bool = True) -> str:
    """Register the model in data/ as of a day, judge it, and return its version."""
    path = Path("data/snapshot.json")
    write_json(path, {**json.loads(path.read_text()), "as_of": as_of})
    number = register(model)
    policy = EASY_POLICY if passes else HARD_POLICY
    with shorten_gate():
        gate.run(gate.GateSpec(dataset="flights", model=model, version=number, policy=policy, backfill=True))
    return number


@pytest.mark.soak
def test_the_report_has_the_right_numbers_and_uses_no_later_model(model: str, commands: Any, mlflow_uri: str) -> None:
    env = {"MLFLOW_TRACKING_URI": mlflow_uri}
    no_model = commands.run_step("backtest", "report", "--model", "nobody", "--dataset", "flights", env=env)
    assert (no_model.code, no_model.out) == (2, "")
    assert "no version of nobody that passed the gate. Backfill its training DAG first" in no_model.err

    first, second, third = (register_version(model, f"2013-0{n}-01") for n in (2, 3, 4))
    failed_version = register_version(model, "2013-02-15", passes=False)
    result = study.run_backtest(model, load_dataset("flights"), None, None, 1, 0.02)
    assert [(candidate.version, candidate.has_passed) for candidate in result.models] == [
        (first, True), (failed_version, False), (second, True), (third, True),
    ]  # fmt: skip
    # The lake has no day of April, so the model of April scores nothing. The model of March does not score February.
    assert [(str(month.days), set(month.values)) for month in result.months] == [
        ("2013-02-01..2013-02-28", {first}),
        ("2013-03-01..2013-03-31", {first, failed_version, second}),
    ]
    monthly, never, _ = result.strategies
    assert [champion.version for champion in monthly.serving_models] == [first, second]
    assert [champion.version for champion in never.serving_models] == [first, first]
    assert result.months[0].values[first] == pytest.approx(
        compute_auc(model, first, "2013-02-01", "2013-02-28"), abs=1e-9
    )

    process = commands.run_step(
        "backtest", "report", "--model", model, "--dataset", "flights", "--out", "report", env=env
    )
    assert process.code == 0, process.err
    assert (
        f"mean AUC {np.mean(monthly.list_monthly_values(result.months)):.4f}, 3 trainings, cost unknown" in process.out
    )
    page = (commands.cwd / "report" / "backtest.html").read_text()
    assert f"{result.months[1].values[second]:.4f}" in page
    assert (commands.cwd / "report" / "backtest.png").read_bytes().startswith(b"\x89PNG")


def compute_auc(model: str, version: str, first: str, last: str) -> float:
    """Compute the AUC of some days in another way: read all rows at once, and load the booster from its files."""
    lake = Lake.open()
    days = pd.date_range(first, last)
    rows = pa.concat_tables([lake.read_partition("flights", day.date()) for day in days])
    frame = build_features(load_dataset("flights"), ibis.memtable(rows)).to_pandas()
    frame = frame[frame["late"].notna()]
    score = load_dataset("flights").load_model(Path("data/model")).score(frame)
    return float(roc_auc_score(frame["late"].astype(bool), score))


def run_training(model: str, as_of: str, trigger: str, passes: bool = True, champion: bool = True) -> tuple[str, str]:
    """Run the steps of the loop once; return the outcome of the guard, and the version that was registered."""
    common = {"model": model, "run": f"flights_train/{trigger} {as_of}"}
    outcome = guard.run(
        guard.GuardSpec(as_of=as_of, trigger=trigger, dataset="flights", reason="wind", **common)
    ).outcome
    if outcome != "started":
        return outcome, ""
    number = register_version(model, as_of, passes)
    if passes and champion:
        spec = promote.PromoteSpec(model=model, version=number, verdict=Path("data/verdict.json"))
        assert promote.run(spec).promoted
    record_outcome.run(record_outcome.RecordOutcomeSpec(version=number, **common))
    return outcome, number


@pytest.mark.soak
def test_a_loop_is_measured_by_the_scores_of_its_champions(model: str, commands: Any, mlflow_uri: str) -> None:
    """The registry and the loop's events give each strategy's versions. Each day is scored by an earlier version."""
    begin, end = dt.date(2013, 2, 1), dt.date(2013, 3, 31)
    with pytest.raises(DataError, match="report has no promoted version with an as_of of 2013-02-01"):
        loop_study(model, load_dataset("flights"), begin, end)
    _, first = run_training(model, "2013-02-01", "manual")
    _, version_of_month = run_training(model, "2013-03-01", "backfill", champion=False)
    assert run_training(model, "2013-02-03", "drift") == ("held_back", "")
    _, version_of_drift = run_training(model, "2013-02-20", "drift")
    _, failed_version = run_training(model, "2013-03-10", "drift", passes=False)
    result = loop_study(model, load_dataset("flights"), begin, end)
    assert {
        strategy.name: [(champion.version, str(champion.since)) for champion in strategy.serving_versions]
        for strategy in result.strategies
    } == {
        NEVER_STRATEGY: [(first, "2013-02-01")],
        MONTHLY_STRATEGY: [(first, "2013-02-01"), (version_of_month, "2013-03-01")],
        DRIFT_STRATEGY: [(first, "2013-02-01"), (version_of_drift, "2013-02-20")],
    }
    assert [len(strategy.runs) for strategy in result.strategies] == [1, 2, 3], (
        f"the run of version {failed_version} counts, though the version never scored a day"
    )
    assert [strategy.cost_usd for strategy in result.strategies] == [None] * 3, "no training was charged"
    assert [str(week.days) for week in (result.weeks[0], result.weeks[-1])] == [
        "2013-02-01..2013-02-07", "2013-03-29..2013-03-31",
    ]  # fmt: skip
    assert result.weeks[0].values[NEVER_STRATEGY] == pytest.approx(
        compute_auc(model, first, "2013-02-01", "2013-02-07"), abs=1e-9
    )
    assert [(str(event.day), event.kind) for event in result.timeline if event.kind != "started"] == [
        ("2013-02-01", "promoted"), ("2013-02-03", "held_back"), ("2013-02-20", "passed"), ("2013-02-20", "promoted"),
        ("2013-03-10", "not_passed"),
    ]  # fmt: skip
    command = ("loop", "report", model, "--dataset", "flights", "--from", "2013-02-01", "--out", "loop")
    process = commands.run_step(*command, env={"MLFLOW_TRACKING_URI": mlflow_uri})
    assert process.code == 0, process.err
    assert f"{result.weeks[0].values[NEVER_STRATEGY]:.4f}" in (commands.cwd / "loop" / "loop.html").read_text()


def test_refuses_days_in_which_no_month_can_be_scored(model: str) -> None:
    register_version(f"{model}-late", "2013-03-02")
    with pytest.raises(DataError, match=r"in a month that begins on 2013-03-02 or later"):
        study.run_backtest(f"{model}-late", load_dataset("flights"), None, None, 1, 0.02)
    register_version(f"{model}-no", "2013-02-01", passes=False)
    with pytest.raises(DataError, match="that passed the gate"):
        study.run_backtest(f"{model}-no", load_dataset("flights"), None, None, 1, 0.02)


def test_invalid_arguments_give_an_error_message(model: str, commands: Any) -> None:
    for arguments, message in (
        (("--from", "March"), "--from 'March' is not a day"),
        (("--from", "2013-03-01", "--to", "2013-02-01"), "is after --to"),
        (("--drop", "2"), "--drop"),
    ):
        process = commands.run_step("backtest", "report", "--model", model, *arguments)
        assert (process.code, process.out) == (2, "")
        assert message in process.err
        assert "Traceback" not in process.err
