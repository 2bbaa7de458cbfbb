"""Test `python -m pipelines reproduce`: it rebuilds a registered version and reports each kind of difference."""

import datetime as dt
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pytest
import yaml

from tests.tools import forking
from tests.tools.packages import change_package

ROOT = Path(__file__).parents[4]
SMALL = {"as_of": "2013-01-20", "train_days": 8, "holdout_days": 4, "min_train_days": 4, "missing": "fail"}
PARAMS = {
    "snapshot": SMALL,
    "preprocess": {"validation_days": 2},
    "train": {"hyperparameters": {"num_round": 20, "early_stopping_rounds": 10, "eta": 0.3}},
}
FEATURES_FILE = "pipelines/datasets/flights/features.py"


REGRESSION = "flights-delay"
MODELS = {"flights-a": "flights", "flights-dirty": "flights", REGRESSION: "flight_delay"}
"""Name of each model of the project, and the model of the example whose parameters it has."""


@dataclass
class Project:
    """A project with its lake, its registry and its commands."""

    folder: Path
    home: Path
    env: dict[str, str]

    def run_step(self, *arguments: str, **env: str) -> SimpleNamespace:
        """Run `python -m pipelines` with these arguments; return its exit code, stdout and stderr."""
        command = [sys.executable, "-m", "pipelines", *arguments]
        process = forking.run(
            command, cwd=self.folder, env={**self.env, **env}, capture_output=True, text=True, timeout=400,
            executable_of_child=forking.ensure_stand_in(),
        )  # fmt: skip
        return SimpleNamespace(code=process.returncode, out=process.stdout, err=process.stderr)

    def register(self, name: str) -> Path:
        """Train and register version 1 of model `name`; return its workspace."""
        result = self.run_step(
            "repro", "--workspace", name, "--model", name, "--targets", '["train"]', "--refresh", '["snapshot"]',
            "--params", json.dumps(PARAMS),
        )  # fmt: skip
        assert result.code == 0, result.err[-3_000:]
        folder = Path(json.loads(result.out)["workspace"])
        paths = {option: folder / "data" / option for option in ("features", "evaluation")}
        paths |= {"trained-model": folder / "data/model", "record": folder / "data/training"}
        paths |= {"snapshot": folder / "data/snapshot.json"}
        paths |= {"lock": self.home / "workspaces" / name / "dvc.lock"}
        options = [str(text) for option, value in paths.items() for text in (f"--{option}", value)]
        result = self.run_step("evaluate", "--model", name, *options)
        assert result.code == 0, result.err[-3_000:]
        assert json.loads(result.out)["version"] == "1"
        return folder

    def run_git(self, *arguments: str) -> None:
        """Run git in the project."""
        git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run([*git, *arguments], cwd=self.folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, source: Any, mlflow_uri: str) -> Iterator[Project]:
    """Create a project in a git repository; its lake has two weeks of flights."""
    from pipelines.lake import Lake
    from pipelines.settings import settings

    root = tmp_path_factory.mktemp("reproduce")
    folder, home = root / "project", root / "home"
    folder.mkdir()
    for name in ("pipelines", "expectations"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("dvc.yaml", "params.yaml", "uv.lock", ".gitignore", ".dvcignore"):
        shutil.copy2(ROOT / name, folder / name)
    for name, example in MODELS.items():
        (folder / "models" / name).mkdir(parents=True)
        shutil.copy2(ROOT / f"models/{example}/params.yaml", folder / "models" / name)
    dvc_yaml = (folder / "dvc.yaml").read_text()
    (folder / "dvc.yaml").write_text(re.sub("models: .*", f"models: {json.dumps(list(MODELS))}", dvc_yaml, count=1))
    env = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "LEEWAY_PROJECT": str(folder),
        "LEEWAY_HOME": str(home),
        "MLFLOW_TRACKING_URI": mlflow_uri,
    }
    project = Project(folder, home, env)
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        project.run_git(*arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEEWAY_HOME", str(home))
        settings.cache_clear()
        lake = Lake.open()
        for day in (dt.date(2013, 1, n) for n in range(5, 20)):
            lake.write_partition("flights", day, source.read(day))
    settings.cache_clear()
    yield project
    settings.cache_clear()


@pytest.fixture(scope="module")
def model(project: Project) -> str:
    """Register a model; return its name."""
    project.register("flights-a")
    return "flights-a"


@pytest.fixture
def restore_after_test(project: Project, model: str) -> Iterator[Callable[[Path], Path]]:
    """Return the function that makes a file writable. Its content and mode are restored after the test."""
    files: dict[Path, tuple[bytes, int]] = {}

    def make_writable(path: Path) -> Path:
        files[path] = path.read_bytes(), path.stat().st_mode
        path.chmod(0o644)
        return path

    yield make_writable
    for path, (content, mode) in files.items():
        path.write_bytes(content)
        path.chmod(mode)


def read_error(result: SimpleNamespace) -> str:
    """Return the one error line about the reproduction."""
    (line,) = [line for line in result.err.splitlines() if line.startswith("error: ") and "reproduced" in line]
    return str(line)


def test_a_version_is_rebuilt_with_identical_files_and_metrics(project: Project, model: str) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(project.env["MLFLOW_TRACKING_URI"])
    client.set_registered_model_alias(model, "champion", "1")
    run = client.get_run(client.get_model_version(model, "1").run_id)
    # The code changes after the registration: reproduce must check out the version's commit.
    (project.folder / FEATURES_FILE).write_text("raise SystemExit('this is the wrong code')\n")
    project.run_git("commit", "-qam", "broken")
    result = project.run_step("reproduce", f"{model}@champion", "--retrain", "true")
    assert result.code == 0, result.err[-3_000:]
    report = json.loads(result.out)
    assert (report["version"], report["files"], report["metrics"], report["retrained"]) == ("1", 3, 9, True)
    assert report["notes"] == []
    checks = json.loads((Path(report["workspace"]) / "reproduction.json").read_text())["checks"]
    assert {check["recorded_value"] == check["rebuilt_value"] for check in checks} == {True}
    prefixes = {"stored features", "the code", "the registered model", "the retrained model", "metric auc"}
    assert not [prefix for prefix in prefixes if not any(check["name"].startswith(prefix) for check in checks)]
    after = client.get_run(run.info.run_id)
    assert after.data.to_dictionary() == run.data.to_dictionary(), "the version's run did not change"


@pytest.mark.soak
def test_a_version_of_a_regression_is_rebuilt_with_identical_files_and_metrics(project: Project) -> None:
    (project.folder / FEATURES_FILE).write_text((ROOT / FEATURES_FILE).read_text())
    project.run_git("commit", "-qam", "features", "--allow-empty")
    folder = project.register(REGRESSION)
    metrics = json.loads((folder / "data/evaluation/metrics.json").read_text())
    result = project.run_step("reproduce", f"{REGRESSION}@1", "--retrain", "true")
    assert result.code == 0, result.err[-3_000:]
    report = json.loads(result.out)
    assert (report["files"], report["metrics"], report["retrained"], report["notes"]) == (3, len(metrics), True, [])
    checks = json.loads((Path(report["workspace"]) / "reproduction.json").read_text())["checks"]
    rebuilt = {check["name"]: check["rebuilt_value"] for check in checks}
    assert {f"metric {name}": str(value) for name, value in metrics.items()}.items() <= rebuilt.items()
    assert {"metric rmse", "metric mae", "metric r2", "metric bias", "the retrained model"} <= rebuilt.keys()
    # Negative control: another value in the record, in the last digit.
    path = find_artifact(project, REGRESSION, "evaluation/metrics.json")
    path.chmod(0o644)
    path.write_text(json.dumps({**metrics, "mae": np.nextafter(metrics["mae"], 0.0)}))
    result = project.run_step("reproduce", f"{REGRESSION}@1")
    assert result.code == 2, result.err[-3_000:]
    assert f"metric mae was {np.nextafter(metrics['mae'], 0.0)}, is {metrics['mae']}" in read_error(result)
    assert "metric rmse" not in read_error(result) and "features" not in read_error(result)


@pytest.mark.soak
def test_a_version_is_rebuilt_without_dvcs_cache(project: Project, model: str) -> None:
    cache = project.home / "dvc/cache"
    cache.rename(cache.with_name("away"))
    result = project.run_step("reproduce", "--model-version", f"{model}@1")
    shutil.rmtree(cache, ignore_errors=True)
    cache.with_name("away").rename(cache)
    assert result.code == 0, result.err[-3_000:]
    assert json.loads(result.out)["notes"] == ["DVC has no copy of the features any more"]


def test_a_changed_row_of_the_lake_is_reported(
    project: Project, model: str, restore_after_test: Callable[[Path], Path]
) -> None:
    (path,) = (project.home / "lake").rglob("date=2013-01-16/*.parquet")
    restore_after_test(path)
    with duckdb.connect() as connection:
        first_labelled_row = "late IS NOT NULL AND row_number() OVER (PARTITION BY late IS NULL) = 1"
        distance = f"CASE WHEN {first_labelled_row} THEN distance + 1 ELSE distance END AS distance"
        rows = f"SELECT * REPLACE ({distance}) FROM read_parquet('{path}', hive_partitioning = false)"
        connection.execute(f"COPY ({rows}) TO '{path}.new' (FORMAT parquet)")
    Path(f"{path}.new").replace(path)
    result = project.run_step("reproduce", f"{model}@1")
    assert result.code == 2, result.err[-3_000:]
    line = read_error(result)
    assert "features holdout/data.parquet was " in line
    assert "(1 rows are missing, 1 are new)" in line
    assert "train/data.parquet" not in line
    assert "stored features" not in line


def test_changed_features_in_the_cache_are_reported(
    project: Project, model: str, restore_after_test: Callable[[Path], Path]
) -> None:
    lock = yaml.safe_load((project.home / "workspaces" / model / "dvc.lock").read_text())
    digest = lock["stages"][f"preprocess@{model}"]["outs"][0]["md5"]
    cache = project.home / "dvc/cache/files/md5"
    entries = json.loads((cache / digest[:2] / digest[2:]).read_text())
    md5 = next(entry["md5"] for entry in entries if entry["relpath"] == "train/data.parquet")
    path = restore_after_test(cache / md5[:2] / md5[2:])
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    path.chmod(0o444)  # DVC trusts files with this mode
    result = project.run_step("reproduce", f"{model}@1")
    assert result.code == 2, result.err[-3_000:]
    assert "stored features train/data.parquet was " in read_error(result)
    assert "; " not in read_error(result).split("differ: ")[1].split("All checks")[0], (
        "the rebuilt features do not differ"
    )


def find_artifact(project: Project, model: str, name: str) -> Path:
    """Return the path of an artifact of the version's run on the MLflow server."""
    from mlflow import MlflowClient

    run = MlflowClient(project.env["MLFLOW_TRACKING_URI"]).get_model_version(model, "1").run_id
    paths = {path.resolve() for path in project.folder.parents[1].glob(f"mlflow*/artifacts/*/{run}/artifacts/{name}")}
    (path,) = paths  # pytest creates a second link to each folder, NAMEcurrent
    return path


def test_other_metrics_libraries_and_code_are_reported(
    project: Project, model: str, restore_after_test: Callable[[Path], Path]
) -> None:
    path = restore_after_test(find_artifact(project, model, "evaluation/metrics.json"))
    metrics = json.loads(path.read_text())
    path.write_text(json.dumps({**metrics, "auc": metrics["auc"] + 1e-12}))
    provenance = restore_after_test(find_artifact(project, model, "provenance.json"))
    content = json.loads(provenance.read_text())
    content["code"]["versions"] |= {"duckdb": "0.0.1"}
    provenance.write_text(json.dumps(content))
    result = project.run_step("reproduce", f"{model}@1")
    assert result.code == 2, result.err[-3_000:]
    assert f"metric auc was {metrics['auc'] + 1e-12}, is {metrics['auc']}" in read_error(result)
    assert "Also: duckdb was 0.0.1, is " in read_error(result)

    content["code"]["digest"] = "0" * 64
    provenance.write_text(json.dumps(content))
    result = project.run_step("reproduce", f"{model}@1")
    assert result.code == 2, result.err[-3_000:]
    assert "the code was 000000000000…, is " in read_error(result)


def test_a_model_that_is_not_the_registered_one_is_not_loaded(
    project: Project, model: str, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", project.env["MLFLOW_TRACKING_URI"])
    fresh_settings()
    with change_package(model, "1", "artifacts/model/more.json", lambda text: f"{text}{{}}"):
        result = project.run_step("reproduce", f"{model}@1")
    assert result.code == 2, result.err[-3_000:]
    assert f"the files of {model} version 1 are not those that were registered" in result.err.splitlines()[-1]
    assert "building the features" not in result.err


@pytest.mark.soak
def test_uncommitted_code_is_reproduced_while_it_exists(project: Project) -> None:
    text = (ROOT / FEATURES_FILE).read_text()
    (project.folder / FEATURES_FILE).write_text(f"{text}# not committed\n")
    project.register("flights-dirty")
    assert project.run_step("reproduce", "flights-dirty@1").code == 0
    (project.folder / FEATURES_FILE).write_text(text)
    result = project.run_step("reproduce", "flights-dirty@1")
    assert result.code == 2
    assert "-dirty'), and the project's code differs from it" in read_error(result)


def test_an_invalid_request_gives_one_line(project: Project, model: str, free_port: Callable[[], int]) -> None:
    cases: dict[str, tuple[int, str]] = {
        "flights": (2, "model"),
        f"{model}@77": (2, "no flights-a version 77"),
        f"{model}@nobody": (2, "no flights-a@nobody"),
    }
    for version, (code, message) in cases.items():
        result = project.run_step("reproduce", version)
        assert (result.code, result.out) == (code, ""), result.err
        assert message in result.err.splitlines()[-1]
    unreachable = project.run_step("reproduce", f"{model}@1", MLFLOW_TRACKING_URI=f"http://127.0.0.1:{free_port()}")
    assert unreachable.code == 75
    provenance = find_artifact(project, model, "provenance.json")
    provenance.rename(provenance.with_suffix(".away"))
    result = project.run_step("reproduce", f"{model}@1")
    provenance.with_suffix(".away").rename(provenance)
    assert result.code == 2
    assert "its run lacks provenance.json" in result.err
