"""Test the backtest and the loop's report of registered models that are not binary, over real days."""

import datetime as dt
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml

from pipelines import params
from pipelines.backtest.study import NEVER_STRATEGY, run_backtest
from pipelines.dataset import load_dataset
from pipelines.features.building import build_features
from pipelines.lake import Lake
from pipelines.loop.study import DRIFT_STRATEGY, MONTHLY_STRATEGY, run_study
from pipelines.steps import evaluate, gate, guard, preprocess, promote, record_outcome, snapshot, train
from pipelines.system.files import write_json
from tests.conftest import SMALL_HYPERPARAMETERS, set_home
from tests.tools.imports import ROOT
from tests.tools.policies import EASY_POLICY
from tests.tools.short_gate import shorten_gate

BOUNDS: dict[str, dict[str, Any]] = {
    "flight_delay": {"mae": {"at_most": 500.0}},
    "flight_status": {"accuracy": {"at_least": 0.01}},
}
METRICS = {"flight_delay": "mae", "flight_status": "accuracy"}
TITLES = {"flight_delay": "MAE", "flight_status": "accuracy"}


@dataclass
class Trainer:
    """Train and register versions of a model of a dataset in the working directory."""

    dataset: str
    model: str

    def prepare(self) -> None:
        """Build the features of three weeks of January."""
        window = {"as_of": "2013-01-25", "train_days": 12, "holdout_days": 6, "min_train_days": 4}
        snapshot.run(snapshot.SnapshotSpec.parse({"dataset": self.dataset, **window}, "test"))
        preprocess.run(preprocess.PreprocessSpec(validation_days=2))

    def register(self, as_of: str, rounds: int) -> str:
        """Train with this number of rounds, register the model as of a day, judge it; return its version."""
        hyperparameters: dict[str, Any] = {**SMALL_HYPERPARAMETERS, "num_round": rounds}
        train.run(train.TrainSpec(dataset=self.dataset, hyperparameters=hyperparameters))
        path = Path("data/snapshot.json")
        write_json(path, {**json.loads(path.read_text()), "as_of": as_of})
        version = evaluate.run(evaluate.EvaluateSpec(dataset=self.dataset, model=self.model)).version
        shutil.copytree("data/model", f"model-{version}")
        policy = {**EASY_POLICY, "bounds": BOUNDS[self.dataset], "champion": []}
        spec = {"dataset": self.dataset, "model": self.model, "version": version, "policy": policy, "backfill": True}
        with shorten_gate():
            assert gate.run(gate.GateSpec.parse(spec, "test")).passed
        return version

    def run_loop(self, as_of: str, trigger: str, rounds: int) -> str:
        """Run the steps of the loop once, with a promotion; return the version."""
        common = {"model": self.model, "run": f"train/{trigger} {as_of}"}
        fields = {"as_of": as_of, "trigger": trigger, "dataset": self.dataset, "reason": "wind"}
        assert guard.run(guard.GuardSpec.parse({**fields, **common}, "test")).outcome == "started"
        version = self.register(as_of, rounds)
        spec = promote.PromoteSpec(model=self.model, version=version, verdict=Path("data/verdict.json"))
        assert promote.run(spec).promoted
        outcome = record_outcome.run(record_outcome.RecordOutcomeSpec(version=version, **common))
        assert outcome.outcome == "passed"
        return version


@pytest.fixture(params=["flight_delay", pytest.param("flight_status", marks=pytest.mark.soak)])
def trainer(
    request: pytest.FixtureRequest,
    quarter_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fresh_settings: Callable[[], None],
    mlflow_uri: str,
) -> Trainer:
    """Return a trainer of flight_delay or flight_status. The lake has January to March."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "params.yaml").write_text(yaml.safe_dump(params.load(ROOT, request.param)))
    set_home(monkeypatch, quarter_home, project)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_uri)
    monkeypatch.chdir(tmp_path)
    fresh_settings()
    trainer = Trainer(request.param, f"tasks-{request.param}")
    trainer.prepare()
    return trainer


def compute_value(dataset: str, version: str, first: str, last: str) -> float:
    """Compute the metric of some days in another way: labels from the source's columns, scores from the booster."""
    description, lake = load_dataset(dataset), Lake.open()
    days = pd.date_range(first, last)
    rows = pa.concat_tables([lake.read_partition("flights", day.date()) for day in days])
    features = build_features(description, ibis.memtable(rows)).to_pandas().drop(columns=description.label)
    columns = (
        rows.select([*description.key, "dep_time", "arr_delay"]).to_pandas().astype({"date": features["date"].dtype})
    )
    frame = features.merge(columns, on=list(description.key))
    scores = description.load_model(Path(f"model-{version}")).score(frame)
    if dataset == "flight_delay":
        is_known = frame["arr_delay"].notna()
        return float((scores - frame["arr_delay"])[is_known].abs().mean())
    late = np.where(frame["arr_delay"].isna() | (frame["arr_delay"] > 15), "late", "on_time")
    truth = np.where(frame["dep_time"].isna(), "cancelled", late)
    assert isinstance(scores, pd.DataFrame)
    return float((scores.idxmax(axis=1).to_numpy() == truth).mean())


def test_backtest_and_loop_compare_registered_versions_by_the_metric_of_their_task(
    trainer: Trainer, commands: Any, tmp_path: Path, mlflow_uri: str, published_quarter: Path
) -> None:
    dataset, model = load_dataset(trainer.dataset), trainer.model
    first = trainer.run_loop("2013-02-01", "manual", rounds=20)
    second = trainer.run_loop("2013-03-01", "drift", rounds=1)

    last = dt.date(2013, 3, 7)
    result = run_backtest(model, dataset, None, last, 1, None)
    assert result.metric.name == METRICS[trainer.dataset]
    assert [(candidate.version, candidate.has_passed) for candidate in result.models] == [(first, True), (second, True)]
    february, march = result.months
    assert (set(february.values), set(march.values)) == ({first}, {first, second})
    expected = {version: compute_value(trainer.dataset, version, "2013-03-01", str(last)) for version in march.values}
    assert dict(march.values) == pytest.approx(expected, abs=1e-5)
    assert abs(expected[first] - expected[second]) > 1e-3, "another version would give another value"
    assert february.values[first] == pytest.approx(
        compute_value(trainer.dataset, first, "2013-02-01", "2013-02-28"), abs=1e-5
    )
    monthly, never, _ = result.strategies
    assert [champion.version for champion in monthly.serving_models] == [first, second]
    assert [champion.version for champion in never.serving_models] == [first, first]

    study = run_study(model, dataset, dt.date(2013, 2, 20), last)
    assert {
        strategy.name: [(champion.version, str(champion.since)) for champion in strategy.serving_versions]
        for strategy in study.strategies
    } == {
        NEVER_STRATEGY: [(first, "2013-02-20")],
        MONTHLY_STRATEGY: [(first, "2013-02-20")],
        DRIFT_STRATEGY: [(first, "2013-02-20"), (second, "2013-03-01")],
    }
    last_week = study.weeks[-1]
    assert str(last_week.days) == "2013-03-06..2013-03-07"
    for strategy, version in ((NEVER_STRATEGY, first), (DRIFT_STRATEGY, second)):
        value = compute_value(trainer.dataset, version, "2013-03-06", str(last))
        assert last_week.values[strategy] == pytest.approx(value, abs=1e-5)
    assert last_week.values[NEVER_STRATEGY] != pytest.approx(last_week.values[DRIFT_STRATEGY], abs=1e-4)
    env = {
        "MLFLOW_TRACKING_URI": mlflow_uri,
        "LEEWAY_HOME": str(published_quarter),
        "LEEWAY_PROJECT": str(tmp_path / "project"),
    }

    def run(*arguments: str) -> str:
        process = commands.run_step(*arguments, env=env)
        assert process.code == 0, process.err[-2_000:]
        return str(process.out)

    named = ("--dataset", trainer.dataset)
    summary = run("backtest", "report", "--model", model, "--to", str(last), "--out", "backtest", *named)
    assert f"mean {TITLES[trainer.dataset]} {np.mean(monthly.list_monthly_values(result.months)):.4f}" in summary
    assert f"{march.values[second]:.4f}" in (tmp_path / "backtest/backtest.html").read_text()
    run("loop", "report", model, "--from", "2013-02-20", "--to", str(last), "--out", "loop", *named)
    page = (tmp_path / "loop/loop.html").read_text()
    assert f"{last_week.values[DRIFT_STRATEGY]:.4f}" in page and TITLES[trainer.dataset] in page
    status = run("loop", "status", model, "--as-of", "2013-03-02", *named)
    assert "cooldown      holds back" in status
    assert status.endswith(f"{model} as of 2013-03-02: drift would be held back\n")
