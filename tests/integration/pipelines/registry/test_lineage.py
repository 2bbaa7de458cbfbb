"""Test `python -m pipelines lineage` with versions that the steps registered, judged and promoted in MLflow."""

import datetime as dt
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from typer.testing import CliRunner

from pipelines.cli import lineage as lineage_cli
from pipelines.errors import DataError, ServiceError, SpecError
from pipelines.registry.lifecycle import Journal
from pipelines.settings import settings
from pipelines.steps import evaluate as evaluating
from pipelines.steps import gate as gating
from pipelines.steps import promote as promoting
from pipelines.system.files import sha256, write_json
from tests.tools.candidates import register
from tests.tools.policies import EASY_POLICY

NAME = "lineage"


@pytest.fixture(scope="module")
def folder_of_versions(tmp_path_factory: pytest.TempPathFactory, trained: SimpleNamespace, mlflow_uri: str) -> Path:
    """Return the folder in which two versions of a model were registered. The second one is champion."""
    folder = tmp_path_factory.mktemp("lineage")
    shutil.copytree(trained.data, folder / "data")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("LEEWAY_HOME", str(folder / "home"))
        patch.setenv("LEEWAY_PROJECT", str(Path(__file__).parents[4]))
        patch.setenv("MLFLOW_TRACKING_URI", mlflow_uri)
        settings.cache_clear()
        register_version(NAME, "2013-01-25")
        register_version(NAME, "2013-02-20")
    settings.cache_clear()
    return folder


@pytest.fixture
def model(
    folder_of_versions: Path, with_mlflow: str, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> str:
    """Return the name of the model. The test runs in its folder and changes nothing there."""
    monkeypatch.chdir(folder_of_versions)
    monkeypatch.setenv("LEEWAY_HOME", str(folder_of_versions / "home"))
    fresh_settings()
    return NAME


def register_version(name: str, as_of: str) -> None:
    """Register, judge and promote a version as of a day."""
    path = Path("data/snapshot.json")
    write_json(path, {**json.loads(path.read_text()), "as_of": as_of, "table": f"table-of-{name}"})
    lineage = {"cost_usd": "0.0125", "dag_run": "flights_train/r1"}
    number = register(name, lineage=lineage)
    gating.run(gating.GateSpec(dataset="flights", model=name, version=number, policy=EASY_POLICY))
    spec = {"model": name, "version": number, "verdict": "data/verdict.json"}
    promoting.run(promoting.PromoteSpec(**spec))


def run_cli(*arguments: str) -> str:
    """Run the command and return its stdout."""
    return CliRunner().invoke(lineage_cli.app, arguments, catch_exceptions=False).stdout


def test_prints_the_lineage_of_a_version(model: str, trained: SimpleNamespace) -> None:
    output = run_cli(f"{model}@champion")
    assert output.splitlines()[0] == f"{model} version 2, champion"
    snapshot = json.loads(Path("data/snapshot.json").read_text())
    days = trained.snapshot.get_window()
    window = (
        f"train {days.train} ({len(days.train)} partitions), holdout {days.holdout} ({len(days.holdout)} partitions)"
    )
    for line in (
        "git_commit: ",
        f"snapshot_id: {snapshot['snapshot_id']}",
        f"window: {window}",
        f"data_version: {sha256(Path('data/features'))[:12]}",
        "features_schema: ",
        f"training_job: {json.loads(Path('data/training/environment.json').read_text())['training_job']}",
        "dag_run: flights_train/r1",
        "cost_usd: 0.0125",
        f"auc: {trained.evaluation.metrics['auc']:g}",
        "verdict: passed",
        f"verdict_digest: {sha256(Path('data/verdict.json'))}",
        "promoted_over: 1",
        "Z registered: by ",
        "Z judged: by ",
        "Z promoted 1 -> 2: by ",
    ):
        assert line in output, line
    first = run_cli(f"{model}@1")
    assert first.splitlines()[0] == f"{model} version 1"
    assert "Z promoted none -> 1: by" in first and "Z promoted 1 -> 2: by " in first
    assert "Z judged" in first


@pytest.mark.soak
def test_the_steps_record_events(model: str) -> None:
    events = Journal.open().read_state(model).events
    assert [event.kind for event in events] == ["registered", "judged", "promoted"] * 2
    assert [event.version for event in events] == ["1"] * 3 + ["2"] * 3
    verdict_event = events[4]
    assert verdict_event.evidence["verdict"] == "passed"
    assert verdict_event.evidence["champion"] == "1"
    assert verdict_event.evidence["verdict_digest"] == sha256(Path("data/verdict.json"))
    evaluating.run(evaluating.EvaluateSpec(dataset="flights", model=model))
    assert len(Journal.open().read_state(model).events) == 6, "evaluating again adds no event"


def test_the_registration_records_in_the_lake_what_the_version_was_made_from(model: str) -> None:
    snapshot = json.loads(Path("data/snapshot.json").read_text())
    first, _, _, second, *_ = Journal.open().read_state(model).events
    origin = second.evidence["origin"]
    assert origin["snapshot_id"] == str(snapshot["snapshot_id"]) and origin["table"] == f"table-of-{model}"
    assert origin["data_version"] == sha256(Path("data/features"))[:12]
    assert origin["training_job"] and origin["git_commit"] and int(origin["rows_train"]) > 0
    assert origin["dag_run"] == "flights_train/r1" and first.evidence["origin"]["as_of"] != origin["as_of"]
    assert "cost_usd" not in origin, "the ledger has the costs"


@pytest.mark.parametrize("role", ["train", "holdout"])
def test_finds_the_versions_that_saw_a_partition(model: str, trained: SimpleNamespace, role: str) -> None:
    days = getattr(trained.snapshot.get_window(), role)
    lines = run_cli("--partition", str(days.first), "--table", f"table-of-{model}").splitlines()
    assert [line.split("  ")[0] for line in lines] == [f"{model} version 1", f"{model} version 2"]
    assert all(role in line and "passed" in line for line in lines)
    between = trained.snapshot.get_window().holdout.first - dt.timedelta(1)
    for day in (between, days.first - dt.timedelta(60)):
        assert run_cli("--partition", str(day), "--table", f"table-of-{model}") == (
            f"No version's window contains {day} of table-of-{model}.\n"
        ), "the control: no window contains the days of the label's delay, between training and holdout"


def test_an_error_of_mlflow_can_be_retried(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version is found, and then MLflow fails for its run."""

    def fail(*_: Any) -> None:
        raise MlflowException("the database is locked")

    monkeypatch.setattr(MlflowClient, "get_run", fail)
    with pytest.raises(ServiceError, match="MLflow failed: the database is locked"):
        run_cli(f"{model}@champion")


def test_refuses_invalid_arguments(with_mlflow: str) -> None:
    for arguments in (
        (),
        ("a@1", "--partition", "2013-01-01"),
        ("a",),
        ("a@",),
        ("@1",),
        ("--partition", "2013-02-30"),
        ("--partition", "2013-02-08"),  # of which table? the project has several datasets
    ):
        with pytest.raises(SpecError):
            run_cli(*arguments)
    with pytest.raises(DataError, match="no nobody@champion"):
        run_cli("nobody@champion")


def test_the_command_line_reports_a_missing_registry(commands: Any) -> None:
    process = commands.run_step("lineage", "--partition", "2013-02-08", "--table", "flights")
    assert (process.code, process.out) == (2, "")
    assert process.err.startswith("error: there is no registry: MLFLOW_TRACKING_URI is not set.")
