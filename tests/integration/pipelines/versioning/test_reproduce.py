"""`python -m pipelines reproduce`: a registered version is rebuilt, and every kind of difference is told."""

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
import yaml

from tests.tools import forking

ROOT = Path(__file__).parents[4]
SMALL = {"as_of": "2013-01-20", "train_days": 8, "holdout_days": 4, "min_train_days": 4, "missing": "fail"}
PARAMS = {
    "snapshot": SMALL,
    "preprocess": {"validation_days": 2},
    "train": {"hyperparameters": {"num_round": 20, "early_stopping_rounds": 10, "eta": 0.3}},
}
WORK = "pipelines/datasets/flights/features.py"


@dataclass
class Shop:
    """A project with its lake, its registry and its commands."""

    project: Path
    home: Path
    env: dict[str, str]

    def step(self, *arguments: str, **env: str) -> SimpleNamespace:
        command = [sys.executable, "-m", "pipelines", *arguments]
        done = forking.run(
            command, cwd=self.project, env={**self.env, **env}, capture_output=True, text=True, timeout=400,
            executable_of_child=forking.ensure_stand_in(),
        )  # fmt: skip
        return SimpleNamespace(code=done.returncode, out=done.stdout, err=done.stderr)

    def registered(self, name: str) -> Path:
        """Version 1 of model `name`; gives its workspace."""
        told = self.step(
            "repro", "--workspace", name, "--targets", '["train"]', "--refresh", '["snapshot"]',
            "--params", json.dumps(PARAMS),
        )  # fmt: skip
        assert told.code == 0, told.err[-3_000:]
        folder = Path(json.loads(told.out)["workspace"])
        data = {key: folder / "data" / key for key in ("features", "model", "evaluation")}
        data |= {"record": folder / "data/training", "snapshot": folder / "data/snapshot.json"}
        data |= {"lock": folder / "dvc.lock"}
        options = [str(part) for key, value in data.items() for part in (f"--{key}", value)]
        told = self.step("evaluate", "--register-as", name, *options)
        assert told.code == 0, told.err[-3_000:]
        assert json.loads(told.out)["version"] == "1"
        return folder

    def git(self, *arguments: str) -> None:
        git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run([*git, *arguments], cwd=self.project, check=True, capture_output=True)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, source: Any, mlflow_uri: str) -> Iterator[Shop]:
    from pipelines.lake import Lake
    from pipelines.settings import settings

    folder = tmp_path_factory.mktemp("shop")
    project, home = folder / "project", folder / "home"
    project.mkdir()
    for name in ("pipelines", "expectations"):
        shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("dvc.yaml", "params.yaml", "uv.lock", ".gitignore", ".dvcignore"):
        shutil.copy2(ROOT / name, project / name)
    env = {
        **os.environ,
        "PYTHONPATH": str(project),
        "LEEWAY_PROJECT": str(project),
        "LEEWAY_HOME": str(home),
        "MLFLOW_TRACKING_URI": mlflow_uri,
    }
    made = Shop(project, home, env)
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        made.git(*arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEEWAY_HOME", str(home))
        settings.cache_clear()
        lake = Lake.open()
        for day in (dt.date(2013, 1, n) for n in range(5, 20)):
            lake.write_partition("flights", day, source.read(day))
    settings.cache_clear()
    yield made
    settings.cache_clear()


@pytest.fixture(scope="module")
def model(shop: Shop) -> str:
    shop.registered("flights-a")
    return "flights-a"


@pytest.fixture
def restored(shop: Shop, model: str) -> Iterator[Callable[[Path], Path]]:
    """Says which file a test is going to change; it is as before afterwards."""
    kept: dict[Path, tuple[bytes, int]] = {}

    def keep(path: Path) -> Path:
        kept[path] = path.read_bytes(), path.stat().st_mode
        path.chmod(0o644)
        return path

    yield keep
    for path, (content, mode) in kept.items():
        path.write_bytes(content)
        path.chmod(mode)


def error(done: SimpleNamespace) -> str:
    (line,) = [line for line in done.err.splitlines() if line.startswith("error: ") and "reproduced" in line]
    return str(line)


def test_a_version_is_rebuilt_to_the_byte_and_the_digit(shop: Shop, model: str) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(shop.env["MLFLOW_TRACKING_URI"])
    client.set_registered_model_alias(model, "champion", "1")
    run = client.get_run(client.get_model_version(model, "1").run_id)
    # The code has changed since: it is the version's commit that is checked out.
    (shop.project / WORK).write_text("raise SystemExit('not this one')\n")
    shop.git("commit", "-qam", "broken")
    done = shop.step("reproduce", f"{model}@champion", "--retrain", "true")
    assert done.code == 0, done.err[-3_000:]
    told = json.loads(done.out)
    assert (told["version"], told["files"], told["metrics"], told["retrained"]) == ("1", 3, 9, True)
    assert told["notes"] == []
    checks = json.loads((Path(told["workspace"]) / "reproduction.json").read_text())["checks"]
    assert {check["recorded"] == check["found"] for check in checks} == {True}
    kinds = {"kept features", "the code", "the registered model", "the model, trained again,", "metric auc"}
    assert not [kind for kind in kinds if not any(check["what"].startswith(kind) for check in checks)]
    after = client.get_run(run.info.run_id)
    assert after.data.to_dictionary() == run.data.to_dictionary(), "the version's run was not touched"


def test_without_dvcs_copy_it_is_rebuilt_too(shop: Shop, model: str) -> None:
    cache = shop.home / "dvc/cache"
    cache.rename(cache.with_name("away"))
    done = shop.step("reproduce", "--model", f"{model}@1")
    shutil.rmtree(cache, ignore_errors=True)
    cache.with_name("away").rename(cache)
    assert done.code == 0, done.err[-3_000:]
    assert json.loads(done.out)["notes"] == ["DVC has no copy of the features any more"]


def test_a_changed_row_of_the_lake_is_told(shop: Shop, model: str, restored: Callable[[Path], Path]) -> None:
    (path,) = (shop.home / "lake").rglob("date=2013-01-16/*.parquet")
    restored(path)
    with duckdb.connect() as connection:
        one = "late IS NOT NULL AND row_number() OVER (PARTITION BY late IS NULL) = 1"
        changed = f"CASE WHEN {one} THEN distance + 1 ELSE distance END AS distance"
        rows = f"SELECT * REPLACE ({changed}) FROM read_parquet('{path}', hive_partitioning = false)"
        connection.execute(f"COPY ({rows}) TO '{path}.new' (FORMAT parquet)")
    Path(f"{path}.new").replace(path)
    done = shop.step("reproduce", f"{model}@1")
    assert done.code == 2, done.err[-3_000:]
    line = error(done)
    assert "features holdout/data.parquet was " in line
    assert "(1 rows are gone, 1 are new)" in line
    assert "train/data.parquet" not in line
    assert "kept features" not in line


def test_tampered_features_are_told(shop: Shop, model: str, restored: Callable[[Path], Path]) -> None:
    lock = yaml.safe_load((shop.home / "workspaces" / model / "dvc.lock").read_text())
    digest = lock["stages"]["preprocess"]["outs"][0]["md5"]
    cache = shop.home / "dvc/cache/files/md5"
    listed = json.loads((cache / digest[:2] / digest[2:]).read_text())
    md5 = next(one["md5"] for one in listed if one["relpath"] == "train/data.parquet")
    path = restored(cache / md5[:2] / md5[2:])
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    path.chmod(0o444)  # as DVC keeps its own, and so believes it
    done = shop.step("reproduce", f"{model}@1")
    assert done.code == 2, done.err[-3_000:]
    assert "kept features train/data.parquet was " in error(done)
    assert "; " not in error(done).split("differ: ")[1].split("All checks")[0], "what was rebuilt is right"


def artifact(shop: Shop, model: str, name: str) -> Path:
    """Where the MLflow server keeps an artifact of the version's run."""
    from mlflow import MlflowClient

    run = MlflowClient(shop.env["MLFLOW_TRACKING_URI"]).get_model_version(model, "1").run_id
    found = {path.resolve() for path in shop.project.parents[1].glob(f"mlflow*/artifacts/*/{run}/artifacts/{name}")}
    (path,) = found  # pytest links each folder once more, as NAMEcurrent
    return path


def test_other_metrics_libraries_and_code_are_told(shop: Shop, model: str, restored: Callable[[Path], Path]) -> None:
    path = restored(artifact(shop, model, "evaluation/metrics.json"))
    told = json.loads(path.read_text())
    path.write_text(json.dumps({**told, "auc": told["auc"] + 1e-12}))
    provenance = restored(artifact(shop, model, "provenance.json"))
    made_of = json.loads(provenance.read_text())
    made_of["code"]["versions"] |= {"duckdb": "0.0.1"}
    provenance.write_text(json.dumps(made_of))
    done = shop.step("reproduce", f"{model}@1")
    assert done.code == 2, done.err[-3_000:]
    assert f"metric auc was {told['auc'] + 1e-12}, is {told['auc']}" in error(done)
    assert "Also: duckdb was 0.0.1, is " in error(done)

    made_of["code"]["digest"] = "0" * 64
    provenance.write_text(json.dumps(made_of))
    done = shop.step("reproduce", f"{model}@1")
    assert done.code == 2, done.err[-3_000:]
    assert "the code was 000000000000…, is " in error(done)


def test_uncommitted_code_is_reproduced_for_as_long_as_it_is_there(shop: Shop) -> None:
    good = (ROOT / WORK).read_text()
    (shop.project / WORK).write_text(f"{good}# not committed\n")
    shop.registered("flights-dirty")
    assert shop.step("reproduce", "flights-dirty@1").code == 0
    (shop.project / WORK).write_text(good)
    done = shop.step("reproduce", "flights-dirty@1")
    assert done.code == 2
    assert "-dirty, so no commit has it" in error(done)


def test_what_cannot_be_asked_is_one_line(shop: Shop, model: str, free_port: Callable[[], int]) -> None:
    cases: dict[str, tuple[int, str]] = {
        "flights": (2, "model"),
        f"{model}@77": (2, "no flights-a version 77"),
        f"{model}@nobody": (2, "no flights-a@nobody"),
    }
    for given, (code, text) in cases.items():
        done = shop.step("reproduce", given)
        assert (done.code, done.out) == (code, ""), done.err
        assert text in done.err.splitlines()[-1]
    down = shop.step("reproduce", f"{model}@1", MLFLOW_TRACKING_URI=f"http://127.0.0.1:{free_port()}")
    assert down.code == 75
    provenance = artifact(shop, model, "provenance.json")
    provenance.rename(provenance.with_suffix(".away"))
    done = shop.step("reproduce", f"{model}@1")
    provenance.with_suffix(".away").rename(provenance)
    assert done.code == 2
    assert "its run lacks provenance.json" in done.err
