"""A disk without space, a real one: one line, 75, nothing half-written; the same command works once there is space."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.contract import Report
from pipelines.system.files import sha256
from tests.tools import evaluated


def soaked(left_kib: int) -> Any:
    """A level that only `make soak` tries."""
    return pytest.param(left_kib, marks=pytest.mark.soak)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small tmpfs."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "leeway-test", str(folder)], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def ballast(disk: Path) -> Callable[[int], None]:
    """Leaves so many KiB free."""

    def fill(left_kib: int) -> None:
        path = disk / "ballast"
        path.unlink(missing_ok=True)
        free = shutil.disk_usage(disk).free
        with path.open("wb") as file:
            file.write(bytes(max(0, free - left_kib * 1024)))

    return fill


def refused(done: SimpleNamespace) -> None:
    assert done.code == 75, done.err[-1_500:]
    errors = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "space" in errors[0]
    assert "Traceback" not in done.err
    assert done.out == ""


@pytest.mark.parametrize("left_kib", [0, soaked(8), 40, soaked(120)])
def test_ingest_into_a_full_home(disk: Path, ballast: Callable[[int], None], commands: Any, left_kib: int) -> None:
    env = {"LEEWAY_HOME": str(disk / "home")}
    first = commands.step("ingest", "--partition", "2013-01-01", env=env)
    assert first.code == 0, first.err
    ballast(left_kib)
    full = commands.step("ingest", "--partition", "2013-01-02", "--out", "result.json", env=env)
    if full.code == 0:
        assert left_kib >= 120, "so much is enough"
        return
    refused(full)
    assert Report.model_validate_json(Path("result.json").read_text()).error == "StorageError"
    (disk / "ballast").unlink()
    same = commands.step("ingest", "--partition", "2013-01-01", env=env)
    assert json.loads(same.out)["changed"] is False, "what was there is as it was"
    after = commands.step("ingest", "--partition", "2013-01-02", env=env)
    assert json.loads(after.out)["changed"] is True
    assert json.loads(after.out)["rows"] == 943


@pytest.mark.parametrize("left_kib", [0, soaked(8), 40])
def test_publishing_into_a_full_home(disk: Path, ballast: Callable[[int], None], commands: Any, left_kib: int) -> None:
    env = {"LEEWAY_HOME": str(disk / "home")}
    filled = commands.step("backfill", "--first", "2013-01-01", "--last", "2013-01-01", env=env)
    assert filled.code == 0, filled.err
    assert commands.step("ingest", "--partition", "2013-01-02", env=env).code == 0
    ballast(left_kib)
    refused(commands.step("validate", "--partition", "2013-01-02", env=env))
    (disk / "ballast").unlink()
    same = commands.step("validate", "--partition", "2013-01-01", env=env)
    assert json.loads(same.out)["changed"] is False, "what was published is as it was"
    after = commands.step("validate", "--partition", "2013-01-02", env=env)
    assert (json.loads(after.out)["changed"], json.loads(after.out)["rows"]) == (True, 943)


def test_a_new_home_on_a_full_disk(disk: Path, ballast: Callable[[int], None], commands: Any) -> None:
    ballast(0)
    env = {"LEEWAY_HOME": str(disk / "home")}
    refused(commands.step("ingest", "--partition", "2013-01-01", env=env))
    (disk / "ballast").unlink()
    assert commands.step("ingest", "--partition", "2013-01-01", env=env).code == 0


@pytest.mark.parametrize("left_kib", [0, soaked(60), 300])
def test_training_in_a_full_home(
    disk: Path, ballast: Callable[[int], None], commands: Any, trained: SimpleNamespace, left_kib: int
) -> None:
    shutil.copytree(trained.data / "features", "data/features")
    env = {"LEEWAY_HOME": str(disk / "home")}
    hyperparameters = '{"num_round": 60, "early_stopping_rounds": 60, "checkpoint_rounds": 5}'
    ballast(left_kib)
    refused(commands.step("train", "--hyperparameters", hyperparameters, env=env))
    assert not Path("data/model").exists()
    (disk / "ballast").unlink()
    done = commands.step("train", "--hyperparameters", hyperparameters, env=env)
    assert done.code == 0, done.err
    elsewhere = commands.step("train", "--hyperparameters", hyperparameters, "--model", "m2", "--record", "r2")
    assert json.loads(elsewhere.out)["digest"] == json.loads(done.out)["digest"]


@pytest.mark.parametrize(
    ("step", "made", "option"),
    [
        ("train", "model", "--model"),
        ("evaluate", "evaluation", "--evaluation"),
        ("preprocess", "features", "--features"),
    ],
)
def test_outputs_on_a_full_disk(
    disk: Path, ballast: Callable[[int], None], commands: Any, trained: SimpleNamespace, quarter: Path,
    step: str, made: str, option: str,
) -> None:  # fmt: skip
    shutil.copytree(trained.data, "data")
    target = disk / made
    shutil.copytree(f"data/{made}", target)
    before = sha256(target)
    ballast(8)
    more = {"train": ("--hyperparameters", '{"num_round": 9}'), "preprocess": ("--validation-days", "3")}.get(step, ())
    env = {"LEEWAY_HOME": str(quarter)} if step == "preprocess" else {}
    refused(commands.step(step, option, str(target), *more, env=env))
    assert sha256(target) == before, "what was there is as it was"
    assert {path.name for path in disk.iterdir()} == {made, "ballast"}, "nothing half-written"
    (disk / "ballast").unlink()
    done = commands.step(step, option, str(target), *more, env=env)
    assert done.code == 0, done.err
    if step != "evaluate":
        assert sha256(target) != before


def test_a_result_that_finds_no_space(disk: Path, ballast: Callable[[int], None], commands: Any) -> None:
    evaluated.write(Path("data"))
    (disk / "result.json").write_text("old")
    ballast(0)
    done = commands.step("gate", "--out", str(disk / "result.json"))
    assert done.code == 75
    assert "Traceback" not in done.err
    assert (disk / "result.json").read_text() == "old"
