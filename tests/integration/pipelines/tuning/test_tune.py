"""Test the step `tune` with the default training script: it reads no holdout, and its winner can be applied."""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from pipelines.errors import DataError, ServiceError, SpecError, TrainingError
from pipelines.steps import train
from pipelines.steps.tune import TuneSpec, run
from pipelines.system.files import read_json
from pipelines.tuning.report.artifacts import download_results
from pipelines.tuning.trials.mlflow_runs import TuningRuns
from pipelines.tuning.winner import read_winner
from tests.tools.tuning import write_features

TUTORIAL = Path(__file__).parents[4] / "docs/tutorial/tune-flights.md"
PLAN: dict[str, Any] = {
    "space": {"max_depth": [2, 4], "eta": {"low": 0.1, "high": 0.5, "log": True}},
    "trials": 3,
    "parallel": 2,
    "strategy": "random",
    "folds": 2,
    "fold_days": 3,
    "hyperparameters": {"num_round": 15, "early_stopping_rounds": 5},
}


@pytest.fixture
def features(home: Path, tmp_path: Path) -> Path:
    """Write small features, whose holdout nothing can read: a file with garbage, and a folder instead of a file."""
    write_features(tmp_path / "data/features")
    holdout = tmp_path / "data/features/holdout"
    (holdout / "data.parquet").mkdir(parents=True)
    (holdout / "garbage").write_bytes(b"\xff" * 100)
    return tmp_path / "data/features"


OPENED_PATHS: list[str] | None = None


def record_opened_path(event: str, arguments: tuple[Any, ...]) -> None:
    if event in {"open", "os.listdir", "os.scandir"} and OPENED_PATHS is not None:
        OPENED_PATHS.append(str(arguments[0]))


@pytest.fixture
def opened_paths(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of the paths that this process opens. A hook stays, so it records only during the test."""
    paths: list[str] = []
    monkeypatch.setattr(sys.modules[__name__], "OPENED_PATHS", paths)
    sys.addaudithook(record_opened_path)
    return paths


def test_the_step_tunes_without_the_holdout(features: Path, opened_paths: list[str], tmp_path: Path) -> None:
    result = run(TuneSpec(**PLAN))
    assert (result.trials, result.failed, result.pruned) == (3, 0, 0)
    assert not [path for path in opened_paths if "holdout" in path]
    assert [path for path in opened_paths if "features/train" in path], "this is the negative control of the hook"
    logs = [path.read_text() for path in (tmp_path / "home/tuning").glob("*/trials/*/log.txt")]
    assert len(logs) == 3 and all("tuning-objective:" in log for log in logs), "trials ran where a holdout is garbage"
    folder = tmp_path / "data/tuning"
    names = {"best.json", "trials.csv", "report.html", "history.png", "parallel.png", "rounds.png"}
    assert names <= {path.name for path in folder.iterdir()}
    best = read_json(folder / "best.json", "tune writes it")
    assert best["hyperparameters"] == result.hyperparameters and best["metric"] == "logloss"
    assert [fold["first"] for fold in best["folds"]] == ["2013-01-11", "2013-01-14"]
    assert best["objective"] == pytest.approx(sum(best["fold_losses"]) / 2)
    page = (folder / "report.html").read_text()
    assert result.name in page and "No trial has read the holdout" in page and "2013-01-11 to 2013-01-13" in page


def test_a_step_that_reads_the_holdout_would_fail(features: Path) -> None:
    """This is the negative control: the holdout of these tests cannot be read."""
    from pipelines.system.data_files import read_parquet

    with pytest.raises(DataError):
        read_parquet(features / "holdout/data.parquet", "preprocess")


@pytest.mark.parametrize(
    ("values", "error", "text"),
    [
        ({"space": {"etta": [0.1, 0.2]}}, SpecError, r"space\.etta: unknown hyperparameters: --etta 0\.1\. Use one of"),
        ({"space": {"eta": {"low": -1, "high": 0.1}}}, SpecError, r"space\.eta: hyperparameter eta: it must be a num"),
        ({"hyperparameters": {"eta": "x"}, "space": {"max_depth": [2, 3]}}, SpecError, r"train\.hyperparameters: hyp"),
        (
            {"space": {"max_depth": [2, 3]}},
            SpecError,
            "the space has 2 points, and trials is 3: some would be tried twice",
        ),
        ({"warm_start": "data/../data/tuning"}, SpecError, "is the folder that this search replaces"),
        ({"budget_usd": 0.01}, SpecError, "budget_usd 0.0100 USD is less than the cost of one trial"),
        ({"folds": 9, "parallel": 3}, TrainingError, "Trial 0: .*9 folds of 3 days do not fit into the window"),
    ],
)
def test_what_cannot_work_is_refused(features: Path, values: dict[str, Any], error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        run(TuneSpec(**{**PLAN, **values}))
    assert not Path("data/tuning").exists(), "nothing is half-written"


def test_missing_features_are_named(features: Path) -> None:
    shutil.rmtree(features / "validation")
    with pytest.raises(DataError, match=r"data/features/validation/data\.parquet does not exist"):
        run(TuneSpec(**PLAN))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]) -> Path:
    """Write a project with the model flights, small features, and the results of a search."""
    folder = tmp_path / "project/models/flights"
    write_features(folder / "data/features")
    hyperparameters = PLAN["hyperparameters"]
    sections = {"train": {"hyperparameters": hyperparameters}, "tune": {**PLAN, "trials": 2, "tuning": "data/tuning"}}
    del sections["tune"]["hyperparameters"]
    (folder / "params.yaml").write_text(yaml.safe_dump(sections))
    monkeypatch.delenv("LEEWAY_PROJECT", raising=False)
    monkeypatch.setenv("LEEWAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(folder)
    fresh_settings()
    return folder


@pytest.mark.soak
def test_a_winner_is_applied_and_a_training_records_it(
    project: Path, commands: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(*arguments: str) -> SimpleNamespace:
        env = {"LEEWAY_PROJECT": str(project.parents[1])}
        result: SimpleNamespace = commands.run(sys.executable, "-m", "pipelines", *arguments, cwd=project, env=env)
        assert result.code == 0, result.err
        return result

    def call_page(line: str) -> SimpleNamespace:
        """Run a command of the tutorial where a reader runs it: in the project's folder."""
        folder = project.parents[1]
        path = os.pathsep.join([str(Path(sys.executable).parent), commands.env["PATH"]])
        env = {"PATH": path, "LEEWAY_PROJECT": str(folder)}
        result: SimpleNamespace = commands.run("bash", "-ec", line, cwd=folder, env=env)
        assert result.code == 0, result.err
        return result

    report_line, apply_line = re.findall(r"^\$ (python .*)$", TUTORIAL.read_text(), re.MULTILINE)
    tuned = json.loads(call("tune").out)
    report = call_page(report_line)
    assert f"{tuned['name']}: 2 trials (random), best logloss" in report.out
    best_file = project / "data/tuning/best.json"
    best = best_file.read_text()
    best_file.write_text(json.dumps({**json.loads(best), "trials": 1, "earlier_trials": 9}))
    shown = " ".join(call("tune", "report").out.split())
    assert "1 trial, after a warm start from 9 earlier ones (random), best logloss" in shown
    best_file.write_text(best)
    assert f"report: {project}/data/tuning/report.html" in report.out
    listed = json.loads(call("tune", "report", "--json").out)
    assert listed["winner"]["hyperparameters"] == tuned["hyperparameters"] and len(listed["trials"]) == 2
    refused = commands.run(sys.executable, "-m", "pipelines", "tune", "--trials", "9", "report", cwd=project)
    assert refused.code == 2 and "an option before report has no effect. Write it after report." in refused.err
    assert "eta: not set -> " in call_page(apply_line).out
    call("train")
    record = read_json(project / "data/training/tuning.json", "train writes it")["tuning"]
    assert (record["name"], record["trials"]) == (tuned["name"], 2)
    again = json.loads(call("tune").out)
    assert again == tuned, "the values of section train are not part of the search"
    spec = train.TrainSpec(tuning=record, hyperparameters={"eta": 9})
    assert spec.tuning and spec.tuning.list_changes(spec.hyperparameters) == ["eta", "max_depth"]


def test_trials_are_nested_runs(
    features: Path, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch, fresh_settings: Any, tmp_path: Path
) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_uri)
    fresh_settings()
    first = run(TuneSpec(**{**PLAN, "trials": 1}))
    result = run(TuneSpec(**PLAN))
    client = MlflowClient(mlflow_uri)
    experiment = client.get_experiment_by_name("flights")
    assert experiment
    runs = client.search_runs([experiment.experiment_id], f"tags.`leeway.tuning` = '{result.name}'")
    (parent,) = [item for item in runs if "mlflow.parentRunId" not in item.data.tags]
    children = [item for item in runs if item.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    assert (first.name, len(runs), len(children)) == (result.name, 4, 3), "a resumed search continues its runs"
    assert parent.data.metrics["objective"] == result.objective and parent.data.metrics["trials"] == 3
    assert parent.info.status == "FINISHED" and parent.data.params["strategy"] == "random"
    (winner,) = [item for item in children if item.data.metrics["objective"] == result.objective]
    assert {name: float(value) for name, value in winner.data.params.items()} == result.hyperparameters
    assert winner.data.tags["leeway.trial_state"] == "complete" and winner.info.status == "FINISHED"
    history = client.get_metric_history(winner.info.run_id, "objective_of_round")
    assert min(point.value for point in history) == result.objective
    assert sorted(point.step for point in history) == list(range(1, len(history) + 1))
    assert winner.data.metrics["seconds"] > 0 and winner.data.metrics["cost_usd"] == 0
    files = {path.path for path in client.list_artifacts(parent.info.run_id, "report")}
    assert {"report/report.html", "report/history.png", "report/rounds.png"} <= files
    later = run(TuneSpec(**{**PLAN, "trials": 1, "warm_start": parent.info.run_id}))
    assert later.trials == 1
    assert read_json(later.tuning / "best.json", "tune writes it")["earlier_trials"] == 3
    by_run = client.search_runs([experiment.experiment_id], f"tags.`leeway.tuning` = '{later.name}'")
    assert {item.data.metrics.get("earlier_trials") for item in by_run} == {3, None}
    folder = download_results(parent.info.run_id, tmp_path)
    assert read_winner(folder).hyperparameters == result.hyperparameters
    with pytest.raises(DataError, match="has no results of a tuning"):
        download_results(winner.info.run_id, tmp_path)
    with pytest.raises(SpecError, match="MLflow has no run 0000"):
        download_results("0" * 32, tmp_path)


def test_a_run_is_not_read_while_mlflow_does_not_answer(
    features: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Any, tmp_path: Path
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    fresh_settings()
    with pytest.raises(SpecError, match="MLFLOW_TRACKING_URI is not set"):
        download_results("0" * 32, tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    fresh_settings()
    with pytest.raises(ServiceError, match=r"MLflow at http://127\.0\.0\.1:9 does not answer"):
        download_results("0" * 32, tmp_path)
    with pytest.raises(ServiceError, match="does not answer"):
        run(TuneSpec(**{**PLAN, "warm_start": "0" * 32}))


@pytest.mark.parametrize("outage", [pytest.param("all the time", marks=pytest.mark.soak), "while a trial is recorded"])
def test_trials_that_ended_without_mlflow_are_recorded_once_it_answers(
    features: Path, mlflow_uri: str, monkeypatch: pytest.MonkeyPatch, fresh_settings: Any, outage: str
) -> None:
    from mlflow import MlflowClient

    plan = {**PLAN, "seed": 1 + (outage == "all the time")}  # a search of its own
    if outage != "all the time":
        record = TuningRuns._finish_trial
        outages = [ConnectionError("MLflow was killed")]

        def fail_once(self: TuningRuns, *arguments: Any) -> None:
            if outages:
                raise outages.pop()
            record(self, *arguments)

        monkeypatch.setattr(TuningRuns, "_finish_trial", fail_once)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_uri)
        fresh_settings()
    result = run(TuneSpec(**plan))
    if outage == "all the time":
        monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_uri)
        fresh_settings()
        assert run(TuneSpec(**plan)) == result
    client = MlflowClient(mlflow_uri)
    experiment = client.get_experiment_by_name("flights")
    assert experiment
    query = f"tags.`leeway.tuning` = '{result.name}' and tags.`leeway.trial_state` = 'complete'"
    trials = client.search_runs([experiment.experiment_id], query)
    assert sorted(trial.data.tags["leeway.trial"] for trial in trials) == ["0", "1", "2"]
    assert {trial.info.status for trial in trials} == {"FINISHED"}
    assert min(trial.data.metrics["objective"] for trial in trials) == result.objective
    assert all(client.get_metric_history(trial.info.run_id, "objective_of_round") for trial in trials)
