"""Test the steps evaluate, gate and promote against a real MLflow server."""

import datetime as dt
import json
import re
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipelines.dataset import load_dataset
from pipelines.errors import DataError, InvalidError, PromotionError, ServiceError
from pipelines.evaluation import metrics
from pipelines.evaluation.tables import write_tables
from pipelines.registry import artifacts, lifecycle, lineage
from pipelines.registry.lifecycle import Journal
from pipelines.registry.versions import Registry
from pipelines.settings import settings
from pipelines.steps import evaluate as evaluating
from pipelines.steps import gate as gating
from pipelines.steps import promote as promoting
from pipelines.system.files import sha256, write_json
from tests.tools import forking
from tests.tools.candidates import register
from tests.tools.policies import EASY_POLICY, HARD_POLICY


def evaluate(name: str = "", **fields: Any) -> evaluating.EvaluateResult:
    return evaluating.run(evaluating.EvaluateSpec(model=name, **{"dataset": "flights", **fields}))


def run_gate(name: str, version: str, **policy: Any) -> gating.GateResult:
    return gating.run(gating.GateSpec(dataset="flights", model=name, version=version, policy={**EASY_POLICY, **policy}))


def promote(name: str, version: str, verdict: str = "data/verdict.json") -> promoting.PromoteResult:
    return promoting.run(promoting.PromoteSpec(model=name, version=version, verdict=verdict))


def set_as_of(day: str) -> None:
    """Set another as_of of the snapshot, which makes another candidate of the same model."""
    path = Path("data/snapshot.json")
    write_json(path, {**json.loads(path.read_text()), "as_of": day})


def open_client(uri: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(uri, uri)


# evaluate


def test_the_evaluation_is_complete_and_reproducible(data: Path, trained: SimpleNamespace) -> None:
    before = sha256(data / "evaluation")
    result = evaluate()
    files = [path for path in (data / "evaluation").rglob("*") if path.is_file()]
    assert {str(path.relative_to(data / "evaluation")) for path in files} == {
        "metrics.json", "evaluation.png", "predictions.parquet", "plots/pr_curve.csv", "plots/calibration.csv",
        "plots/importance.csv", "reference.json", "tuning.json",
    }  # fmt: skip
    assert sha256(data / "evaluation") == before
    assert result.metrics == json.loads((data / "evaluation/metrics.json").read_text()) == trained.evaluation.metrics
    predictions = pd.read_parquet(data / "evaluation/predictions.parquet")
    assert len(predictions) == result.metrics["rows"] == trained.features.rows_holdout
    assert result.version == ""


def test_the_gate_shows_the_tuning_beside_its_refit(data: Path) -> None:
    assert "tuning" not in gating.run(gating.GateSpec()).facts, (
        "the hyperparameters of the example are not from a tuning"
    )
    params = json.loads((data / "training/params.json").read_text())
    hyperparameters = {"max_depth": params["max_depth"]}
    record = {"name": "t", "trials": 50, "strategy": "random", "objective": 0.421, "hyperparameters": hyperparameters}
    write_json(data / "training/tuning.json", {"tuning": {**record, "metric": "logloss"}})
    log_loss = evaluate().metrics["log_loss"]
    text = gating.run(gating.GateSpec()).facts["tuning"]
    assert text.startswith("50 trials ran (random); the winner's mean logloss was 0.4210 (best of 50: optimistic)")
    assert text.endswith(f"and {log_loss:.4f} on the holdout") and "its refit on the whole window has 0." in text


def test_a_candidate_is_registered_once_with_its_lineage(data: Path, model: str, with_mlflow: str) -> None:
    first = evaluate(model, lineage={"cost_usd": "0.1"})
    repeat = evaluate(model, lineage={"cost_usd": "0.1"})
    assert (first.version, repeat.version) == ("1", "1")
    assert first.run_id == repeat.run_id
    version = open_client(with_mlflow).get_model_version(model, "1")
    snapshot = json.loads((data / "snapshot.json").read_text())
    expected = {
        "leeway.as_of": "2013-01-25",
        "leeway.snapshot_id": str(snapshot["snapshot_id"]),
        "leeway.table": "flights",
        "leeway.dvc_lock": sha256(Path("dvc.lock")),
        "leeway.model_digest": sha256(data / "model"),
        "leeway.data_version": sha256(data / "features")[:12],
        "leeway.cost_usd": "0.1",
        "leeway.training_job": json.loads((data / "training/environment.json").read_text())["training_job"],
    }
    assert {key: version.tags.get(key) for key in expected} == expected
    assert version.tags["leeway.window"].count("..") == 2
    assert int(version.tags["leeway.rows_train"]) > int(version.tags["leeway.rows_holdout"]) > 0
    assert {"leeway.git_commit", "leeway.candidate"} <= set(version.tags)
    assert version.tags["leeway.git_dirty"] in ("true", "false")
    provenance = json.loads(
        Path(open_client(with_mlflow).download_artifacts(first.run_id, "provenance.json")).read_text()
    )
    assert next(iter(load_dataset("flights").features)) in provenance["schema"]
    assert len(version.tags["leeway.features_schema"]) == 12
    run = open_client(with_mlflow).get_run(first.run_id)
    assert run.data.metrics["holdout_auc"] == first.metrics["auc"]
    artifact_paths = {artifact.path for artifact in open_client(with_mlflow).list_artifacts(first.run_id)}
    assert {"evaluation", "snapshot.json", "dvc.lock", "params.yaml"} <= artifact_paths
    assert [event.kind for event in Journal.open().read_state(model).events] == ["registered"]


def test_another_as_of_makes_another_version_and_another_training_another_run(data: Path, model: str) -> None:
    first = register(model)
    set_as_of("2013-02-01")
    second = register(model)
    assert (first, second) == ("1", "2")
    environment = data / "training/environment.json"
    environment.write_text(json.dumps({**json.loads(environment.read_text()), "training_job": "another-job"}))
    set_as_of("2013-02-02")
    third = register(model, has_own_package=True)
    runs = [Registry.open().get_version(model, number).run_id for number in (first, third)]
    assert all(runs) and runs[0] != runs[1]


def test_refuses_a_record_without_a_training_job(data: Path, model: str) -> None:
    (data / "training/environment.json").write_text("{}")
    with pytest.raises(DataError, match="training job"):
        register(model)
    assert register(model, has_own_package=True, training_job=f"job-{model}") == "1"


def test_the_package_has_signature_example_and_requirements(data: Path, model: str, with_mlflow: str) -> None:
    import mlflow

    version = register(model)
    mlflow.set_tracking_uri(with_mlflow)
    folder = Path(mlflow.artifacts.download_artifacts(f"models:/{model}/{version}"))
    assert not list(folder.rglob("*.pyc")), "bytecode differs between two packages of the same files"
    info = mlflow.models.get_model_info(str(folder))
    types = {"number": "double", "category": "string"}
    assert [(column.name, column.type.name, column.required) for column in info.signature.inputs.inputs] == [
        (name, types[kind], True) for name, kind in load_dataset("flights").features.items()
    ]
    assert [(column.name, column.type.name) for column in info.signature.outputs.inputs] == [("score", "float")]
    assert len(mlflow.models.Model.load(str(folder)).load_input_example(str(folder))) == 3
    requirements = (folder / "requirements.txt").read_text().split()
    assert all("==" in line for line in requirements) and any(line.startswith("xgboost") for line in requirements)


def test_other_columns_give_another_schema(data: Path) -> None:
    before = lineage.read_schema(data / "features")
    path = data / "features/holdout/data.parquet"
    pd.read_parquet(path).assign(more=1.0).to_parquet(path)
    assert set(lineage.read_schema(data / "features").items()) - set(before.items()) >= {("more", "double")}


def test_the_packaged_model_gives_the_scores_of_the_training(data: Path, model: str, with_mlflow: str) -> None:
    import mlflow

    version = register(model)
    mlflow.set_tracking_uri(with_mlflow)
    packaged_model = mlflow.pyfunc.load_model(f"models:/{model}/{version}")
    rows = pd.read_parquet(data / "features/holdout/data.parquet")
    features = [column.name for column in packaged_model.metadata.get_input_schema().inputs]
    assert features == list(load_dataset("flights").features)
    scores = np.asarray(packaged_model.predict(rows[features]))
    expected_scores = pd.read_parquet(data / "evaluation/predictions.parquet")["score"].to_numpy()
    assert np.abs(scores - expected_scores).max() < 1e-6
    assert scores.std() > 0.01
    # Rows may have categories that the training did not have, and missing values.
    unknown_rows = rows[features].head(3).copy()
    unknown_rows["carrier"], unknown_rows["weather_temp"] = "??", np.nan
    assert np.isfinite(packaged_model.predict(unknown_rows)).all()


@pytest.mark.parametrize(
    "missing_file", ["model/model.ubj", "features/holdout/data.parquet", "features/train/data.parquet"]
)
def test_names_a_missing_file_and_keeps_the_old_evaluation(data: Path, missing_file: str) -> None:
    before = sha256(data / "evaluation")
    (data / missing_file).unlink()
    with pytest.raises(DataError, match=missing_file.split("/", maxsplit=1)[0]):
        evaluate()
    assert sha256(data / "evaluation") == before


def test_refuses_features_that_the_model_was_not_trained_with(data: Path) -> None:
    path = data / "features/holdout/data.parquet"
    pd.read_parquet(path).drop(columns="distance").to_parquet(path)
    with pytest.raises(DataError, match="distance"):
        evaluate()


def test_refuses_a_holdout_of_one_class(data: Path) -> None:
    path = data / "features/holdout/data.parquet"
    pd.read_parquet(path).assign(late=False).to_parquet(path)
    with pytest.raises(DataError, match="both labels"):
        evaluate()


def test_registers_no_version_without_a_snapshot(data: Path, model: str, with_mlflow: str) -> None:
    (data / "snapshot.json").unlink()
    with pytest.raises(DataError, match="snapshot"):
        evaluate(model)
    assert open_client(with_mlflow).search_model_versions(f"name = '{model}'") == []


def test_refuses_to_register_without_mlflow_tracking_uri(data: Path) -> None:
    with pytest.raises(InvalidError, match="MLFLOW_TRACKING_URI"):
        evaluate("x")


def test_an_unreachable_server_gives_one_line_and_exit_code_75(
    data: Path, commands: Any, free_port: Callable[[], int]
) -> None:
    env = {"MLFLOW_TRACKING_URI": f"http://127.0.0.1:{free_port()}"}
    process = commands.run_step("promote", "--model", "x", "--version", "1", "--verdict", "v.json", env=env)
    assert process.code == 75, process.err
    assert process.out == ""
    assert next(line for line in process.err.splitlines() if line.startswith("error: ")).startswith(
        "error: MLflow at http"
    )
    assert "Traceback" not in process.err


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(evaluate, marks=pytest.mark.soak),
        lambda name: run_gate(name, "1"),
        lambda name: promote(name, "1"),
    ],
)
def test_an_unreachable_server_is_a_service_error_of_each_step(
    data: Path,
    free_port: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
    fresh_settings: Callable[[], None],
    step: Callable[[str], Any],
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{free_port()}")
    fresh_settings()
    with pytest.raises(ServiceError, match="MLflow at http") as error:
        step("x")
    assert error.value.exit_code == 75


@pytest.mark.soak
def test_stdout_has_only_the_result(data: Path, commands: Any, mlflow_uri: str) -> None:
    process = commands.run_step("evaluate", "--model", "by-command", env={"MLFLOW_TRACKING_URI": mlflow_uri})
    assert process.code == 0, process.err
    assert json.loads(process.out)["version"] == "1"


# gate


def test_a_passed_verdict_is_written_to_file_and_version(data: Path, model: str, with_mlflow: str) -> None:
    version = register(model)
    result = run_gate(model, version)
    assert result.passed, result.reason
    assert result.champion == ""
    registered = open_client(with_mlflow).get_model_version(model, version)
    assert registered.tags["leeway.verdict"] == "passed"
    assert registered.tags["leeway.verdict_digest"] == sha256(data / "verdict.json")
    assert registered.description.startswith(f"**passed**: {result.reason}. [Report]({result.report})")
    assert f"Trained as of {registered.tags['leeway.as_of']} on" in registered.description
    params = json.loads((data / "training/params.json").read_text())
    assert {name: str(value) for name, value in params.items()}.items() <= result.hyperparameters.items()
    page = (data / "report/report.html").read_text()
    assert f'href="{with_mlflow}/#/models/{model}/versions/{version}"' in page and "<dt>max_depth</dt>" in page
    assert f'href="{settings().build_dataset_url("flights")}">Validations of the data</a>' in page
    training_days, holdout_days = registered.tags["leeway.window"].replace("..", " to ").split(" | ")
    for name, days in {"training days": training_days, "holdout days": holdout_days}.items():
        assert re.search(rf"<dt>{name}</dt>\s*<dd>{re.escape(days)}</dd>", page), name
    assert training_days != holdout_days
    assert f'href="{version}/report.html"' in (settings().home / f"docs/models/{model}/index.html").read_text()
    before = (data / "verdict.json").read_bytes()
    assert run_gate(model, version) == result
    assert (data / "verdict.json").read_bytes() == before


def test_the_gate_refuses_a_version_that_does_not_exist(data: Path, model: str) -> None:
    for version in ("7", "x", ""):
        with pytest.raises(DataError, match="version"):
            run_gate(model, version)


def test_the_champion_is_scored_on_the_same_rows(data: Path, model: str, trained: SimpleNamespace) -> None:
    from pipelines.steps.train import TrainSpec
    from pipelines.steps.train import run as train

    first = register(model)
    assert run_gate(model, first).passed
    promote(model, first)
    # A much weaker candidate, of a later as_of.
    train(TrainSpec(dataset="flights", hyperparameters={"num_round": 1, "max_depth": 1}))
    set_as_of("2013-02-01")
    second = evaluate(model)
    result = run_gate(model, second.version, champion=[{"metric": "auc", "margin": 0.001}])
    check = next(check for check in result.checks if "champion" in check.name)
    assert (result.champion, result.outcome) == ("1", "failed")
    difference = second.metrics["auc"] - trained.evaluation.metrics["auc"]
    assert check.value == pytest.approx(difference, abs=1e-6), "equal rows give an equal AUC"
    with pytest.raises(PromotionError, match="did not pass"):
        promote(model, second.version)
    # The control: the same candidate passes with a large margin.
    assert run_gate(model, second.version).passed


def test_refuses_files_that_changed_after_the_verdict(data: Path, model: str, with_mlflow: str, tmp_path: Path) -> None:
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    version = register(model, has_own_package=True)
    run_gate(model, version)
    repository = get_artifact_repository(open_client(with_mlflow).get_model_version_download_uri(model, version))
    (folder,) = (artifact.path for artifact in repository.list_artifacts("artifacts"))
    copy = tmp_path / "copy"
    shutil.copytree(repository.download_artifacts(folder), copy)
    (tmp_path / "schema.json").write_text("{}")
    repository.log_artifact(str(tmp_path / "schema.json"), folder)
    with pytest.raises(PromotionError, match="its files are not those that were judged"):
        promote(model, version)
    with pytest.raises(DataError, match="not those that were judged"):
        run_gate(model, version)
    assert "champion" not in open_client(with_mlflow).get_registered_model(model).aliases
    repository.log_artifact(str(copy / "schema.json"), folder)
    assert promote(model, version).changed


@pytest.mark.soak
def test_refuses_to_judge_a_version_without_files(data: Path, model: str, with_mlflow: str) -> None:
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    version = register(model, has_own_package=True)
    get_artifact_repository(open_client(with_mlflow).get_model_version_download_uri(model, version)).delete_artifacts()
    with pytest.raises(DataError, match=r"has no model files: \S+"):
        artifacts.download_package(Registry.open().get_version(model, version), data / "downloaded")
    with pytest.raises(DataError, match="has no model files"):
        run_gate(model, version)


@pytest.mark.soak
def test_names_a_champion_that_cannot_be_loaded_and_judges_nothing(data: Path, model: str, with_mlflow: str) -> None:
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    first = register(model, has_own_package=True)
    assert run_gate(model, first).passed
    promote(model, first)
    get_artifact_repository(open_client(with_mlflow).get_model_version_download_uri(model, first)).delete_artifacts()
    set_as_of("2013-02-01")
    second, before = register(model), (data / "verdict.json").read_bytes()
    with pytest.raises(DataError, match=f"version {first} has no model files"):
        run_gate(model, second)
    assert (data / "verdict.json").read_bytes() == before
    assert "leeway.verdict" not in open_client(with_mlflow).get_model_version(model, second).tags


# promote


def test_promotion_is_idempotent_and_only_moves_forward(data: Path, model: str, with_mlflow: str) -> None:
    first = register(model)
    run_gate(model, first)
    result = promote(model, first)
    assert (result.changed, result.previous) == (True, "")
    repeat = promote(model, first)
    assert (repeat.changed, repeat.version) == (False, first)
    assert open_client(with_mlflow).get_model_version_by_alias(model, "champion").version in (1, "1")

    set_as_of("2013-02-20")
    newer = register(model)
    assert run_gate(model, newer).passed
    result = promote(model, newer)
    assert (result.changed, result.previous) == (True, first)
    tags = open_client(with_mlflow).get_model_version(model, newer).tags
    assert tags["leeway.promoted_over"] == first
    assert dt.datetime.fromisoformat(tags["leeway.promoted_at"]).tzinfo is not None


@pytest.mark.soak
def test_gate_and_promotion_refuse_an_older_window(data: Path, model: str) -> None:
    set_as_of("2013-01-20")
    older = register(model)
    assert run_gate(model, older).passed, "there is no champion yet"
    shutil.copy("data/verdict.json", "older.json")
    set_as_of("2013-01-25")
    newer = register(model)
    run_gate(model, newer)
    promote(model, newer)
    with pytest.raises(PromotionError, match="only moves forward"):
        promote(model, older, "older.json")
    assert not run_gate(model, older).passed
    with pytest.raises(PromotionError, match="did not pass"):
        promote(model, older)


def test_a_failed_verdict_is_written_to_file_and_version_which_is_not_promoted(
    data: Path, model: str, with_mlflow: str
) -> None:
    from mlflow.exceptions import MlflowException

    version = register(model)
    result = run_gate(model, version, **HARD_POLICY)
    assert not result.passed
    assert "auc is" in result.reason
    tags = open_client(with_mlflow).get_model_version(model, version).tags
    assert (tags["leeway.verdict"], tags["leeway.verdict_reason"]) == ("failed", result.reason)
    with pytest.raises(PromotionError, match="did not pass the gate") as error:
        promote(model, version)
    assert error.value.exit_code == 2
    with pytest.raises(MlflowException):
        open_client(with_mlflow).get_model_version_by_alias(model, "champion")


def change_verdict(change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change the file of the verdict after the gate wrote it."""
    path = Path("data/verdict.json")
    write_json(path, change(json.loads(path.read_text())))


KILLED_GATE = """
import os, signal, sys
from pathlib import Path
from pipelines.registry import artifacts, lifecycle
from pipelines.registry.versions import Registry
from pipelines.steps.gate import GateSpec, run

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

owner, name = {function}
setattr(owner, name, die)
run(GateSpec.parse({spec!r}, "test"))
"""


@pytest.mark.parametrize(
    "function",
    [
        pytest.param("(artifacts, 'upload_folder')", marks=pytest.mark.soak, id="report"),
        pytest.param("(Registry, 'set_tags')", marks=pytest.mark.soak, id="tags"),
        pytest.param("(lifecycle, 'record_verdict')", id="event"),
    ],
)
def test_a_killed_gate_leaves_nothing_to_promote_and_can_be_run_again(data: Path, model: str, function: str) -> None:
    version = register(model)
    run_gate(model, version, **HARD_POLICY)
    spec = {"model": model, "version": version, "policy": EASY_POLICY}
    process = forking.run(
        [sys.executable, "-c", KILLED_GATE.format(function=function, spec=spec)], capture_output=True, text=True
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    if "record_verdict" not in function:  # the tags have the first verdict, and the file has one that was not recorded
        with pytest.raises(PromotionError, match="is not the gate's latest verdict"):
            promote(model, version)
    run_gate(model, version)
    assert promote(model, version).changed
    kinds = [(event.kind, event.evidence.get("verdict")) for event in Journal.open().read_state(model).events]
    assert kinds == [("registered", None), ("judged", "failed"), ("judged", "passed"), ("promoted", None)]


def test_measured_times_do_not_change_the_digest_of_the_verdict(data: Path, model: str) -> None:
    version = register(model)
    results, digests = [], set()
    for _ in range(2):
        results.append(run_gate(model, version, serving={}))
        digests.add(sha256(data / "verdict.json"))
    (verdict,) = [event for event in Journal.open().read_state(model).events if event.kind == "judged"]
    recorded = {check["name"]: check["value"] for check in verdict.evidence["checks"]}
    assert recorded == {check.name: check.value for check in results[0].checks if not check.timed}
    first, second = ([check.value for check in result.checks if check.timed] for result in results)
    assert len(first) == 2 and first != second
    assert results[0].checks != results[1].checks
    assert len(digests) == 1
    assert "time for" in (data / "report/report.html").read_text()


def test_refuses_a_verdict_that_was_changed(data: Path, model: str) -> None:
    version = register(model)
    run_gate(model, version, **HARD_POLICY)
    change_verdict(lambda verdict: {**verdict, "passed": True, "outcome": "passed"})
    with pytest.raises(PromotionError, match="is not the gate's latest verdict"):
        promote(model, version)
    run_gate(model, version)
    change_verdict(lambda verdict: {**verdict, "reason": "because"})
    with pytest.raises(PromotionError, match="is not the gate's latest verdict"):
        promote(model, version)
    change_verdict(lambda verdict: {**verdict, "version": "2"})
    with pytest.raises(PromotionError, match="is about"):
        promote(model, version)
    run_gate(model, version)
    assert promote(model, version).changed


@pytest.mark.parametrize("text", [None, "{", "[]", "null", "{}"])
def test_refuses_a_file_that_is_no_verdict(data: Path, model: str, text: str | None) -> None:
    version = register(model)
    verdict = Path("verdict.json")
    if text is not None:
        verdict.write_text(text)
    with pytest.raises((DataError, PromotionError)):
        promote(model, version, "verdict.json")


def test_refuses_a_version_without_a_verdict(data: Path, model: str) -> None:
    first = register(model)
    run_gate(model, first)
    set_as_of("2013-02-01")
    second = register(model)
    change_verdict(lambda verdict: {**verdict, "version": second})
    with pytest.raises(PromotionError):
        promote(model, second)
    with pytest.raises(DataError, match=r"no .* version 9"):
        promote(model, "9")


def test_an_error_of_mlflow_can_be_retried(data: Path, with_mlflow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.exceptions import MlflowException

    from pipelines.registry.mlflow_errors import translate_mlflow_errors

    with pytest.raises(ServiceError, match="MLflow failed") as error, translate_mlflow_errors():
        raise MlflowException("the database is locked")
    assert error.value.exit_code == 75


def test_importance_keeps_the_names_of_the_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pandas would read the names as numbers or missing values. The drift of these features would then never alarm."""
    monkeypatch.setattr(artifacts, "download_artifact", lambda *_: tmp_path / "importance.csv")
    shares = {"2013": 0.5, "null": 0.25, "NA": 0.125, 'a "b", c': 0.125}
    write_tables(tmp_path, {"importance": metrics.tabulate_importance(shares)})
    assert artifacts.download_importance(None, None) == shares


def test_the_report_of_the_gate_keeps_a_feature_that_is_named_na(
    data: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines.evaluation.report import report
    from pipelines.evaluation.report.figures import draw_figures

    shares = {"NA": 0.75, "2013": 0.25}
    write_tables(data / "evaluation/plots", {"importance": metrics.tabulate_importance(shares)})
    importances: list[dict[str, float]] = []

    def record_importance(folder: Path, content: Any) -> list[Path]:
        importances.append(dict(content.importance))
        return draw_figures(folder, content)

    monkeypatch.setattr(report, "draw_figures", record_importance)
    gating.run(gating.GateSpec(dataset="flights", policy=EASY_POLICY))
    assert importances == [shares]


@pytest.mark.soak
@pytest.mark.parametrize("backfill", [False, True])
def test_the_gate_reads_each_thing_of_the_registry_once(
    data: Path, model: str, with_mlflow: str, monkeypatch: pytest.MonkeyPatch, backfill: bool
) -> None:
    """Two reads of the same thing could give two states, if an alias or files change in between."""
    import mlflow
    from mlflow import MlflowClient

    first = register(model)
    run_gate(model, first)
    promote(model, first)
    set_as_of("2013-02-01")
    second = register(model)
    reads: list[tuple[str, ...]] = []

    def record_calls(owner: Any, name: str, describe: Callable[..., tuple[str, ...]]) -> None:
        function = getattr(owner, name)

        def record_and_call(*args: Any, **kwargs: Any) -> Any:
            reads.append((name, *describe(*args, **kwargs)))
            return function(*args, **kwargs)

        monkeypatch.setattr(owner, name, record_and_call)

    for name in ("get_model_version", "get_model_version_by_alias", "get_run"):
        record_calls(MlflowClient, name, lambda _, *args: tuple(map(str, args)))
    record_calls(
        mlflow.artifacts, "download_artifacts", lambda uri="", *, artifact_path="", **_: (uri or artifact_path,)
    )
    record_calls(mlflow.pyfunc, "load_model", lambda uri, **_: (uri if uri.startswith("models:") else "a folder",))
    reads_before_event: list[tuple[str, ...]] = []
    record_verdict = lifecycle.record_verdict

    def record_reads(*args: Any, **kwargs: Any) -> None:
        reads_before_event.extend(reads)  # later reads are for the alias
        record_verdict(*args, **kwargs)

    monkeypatch.setattr(lifecycle, "record_verdict", record_reads)
    policy = {**EASY_POLICY, "serving": {}}
    result = gating.run(
        gating.GateSpec(dataset="flights", model=model, version=second, policy=policy, backfill=backfill)
    )
    assert result.champion == first
    runs = {open_client(with_mlflow).get_model_version(model, number).run_id for number in (first, second)}
    assert sorted(read for read in reads_before_event if read[0] != "get_run") == sorted(
        [
            ("get_model_version", model, second),
            ("get_model_version_by_alias", model, "champion"),
            ("download_artifacts", f"models:/{model}/{second}"),
            ("download_artifacts", "training/scores.parquet"),
            ("load_model", "a folder"),
            ("download_artifacts", f"models:/{model}/{first}"),
            ("load_model", "a folder"),
        ]
    )
    assert {read[1] for read in reads_before_event if read[0] == "get_run"} == runs
