"""Test steps on a full disk, a real tmpfs: exit code 75, one line, no partial output. With space, the command works."""

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
from tests.tools.evaluations import write_evaluation


def parametrize_levels(levels: list[int], more_levels: list[int]) -> Any:
    """Return the decorator that gives a test the KiB that are left: the first list, and in `make soak` the second."""
    return pytest.mark.parametrize("levels", [levels, pytest.param(more_levels, marks=pytest.mark.soak)], ids=str)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a tmpfs of 24 MiB and return its folder."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "leeway-test", str(folder)], capture_output=True, text=True
    )
    if mount.returncode:
        pytest.skip(f"this machine does not permit a mount: {mount.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def fill_disk(disk: Path) -> Callable[[int], None]:
    """Return the function that fills the disk until `left_kib` KiB are free."""

    def fill(left_kib: int) -> None:
        path = disk / "filler"
        path.unlink(missing_ok=True)
        free = shutil.disk_usage(disk).free
        with path.open("wb") as file:
            file.write(bytes(max(0, free - left_kib * 1024)))

    return fill


def check_no_space(result: SimpleNamespace) -> None:
    """Check that a command ended with 75 and one line about the disk's space."""
    assert result.code == 75, result.err[-1_500:]
    errors = [line for line in result.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "space" in errors[0]
    assert "Traceback" not in result.err
    assert result.out == ""


@parametrize_levels([0, 40], [0, 8, 40, 120])
def test_ingest_fails_with_75_in_a_full_home(
    disk: Path, fill_disk: Callable[[int], None], commands: Any, levels: list[int]
) -> None:
    env = {"LEEWAY_HOME": str(disk / "home")}
    ingest = ("ingest", "--dataset", "flights", "--partition")
    first = commands.run_step(*ingest, "2013-01-01", env=env)
    assert first.code == 0, first.err
    for left_kib in levels:
        fill_disk(left_kib)
        result = commands.run_step(*ingest, "2013-01-02", "--out", "result.json", env=env)
        if result.code == 0:
            assert left_kib >= 120, "120 KiB are enough"
            return
        check_no_space(result)
        assert Report.model_validate_json(Path("result.json").read_text()).error == "StorageError"
    (disk / "filler").unlink()
    unchanged_day = commands.run_step(*ingest, "2013-01-01", env=env)
    assert json.loads(unchanged_day.out)["changed"] is False, "the day that was ingested before is unchanged"
    after = commands.run_step(*ingest, "2013-01-02", env=env)
    assert json.loads(after.out)["changed"] is True
    assert json.loads(after.out)["rows"] == 943


@pytest.mark.soak
@pytest.mark.parametrize("levels", [[0, 8, 40]], ids=str)
def test_validate_fails_with_75_in_a_full_home(
    disk: Path, fill_disk: Callable[[int], None], commands: Any, levels: list[int]
) -> None:
    env = {"LEEWAY_HOME": str(disk / "home")}
    backfill = commands.run_step(
        "backfill", "--dataset", "flights", "--first", "2013-01-01", "--last", "2013-01-01", env=env
    )
    assert backfill.code == 0, backfill.err
    assert commands.run_step("ingest", "--dataset", "flights", "--partition", "2013-01-02", env=env).code == 0
    validate = ("validate", "--dataset", "flights", "--partition")
    for left_kib in levels:
        fill_disk(left_kib)
        check_no_space(commands.run_step(*validate, "2013-01-02", env=env))
    (disk / "filler").unlink()
    unchanged_day = commands.run_step(*validate, "2013-01-01", env=env)
    assert json.loads(unchanged_day.out)["changed"] is False, "the day that was published before is unchanged"
    after = commands.run_step(*validate, "2013-01-02", env=env)
    assert (json.loads(after.out)["changed"], json.loads(after.out)["rows"]) == (True, 943)


def test_a_new_home_on_a_full_disk_fails_with_75(disk: Path, fill_disk: Callable[[int], None], commands: Any) -> None:
    fill_disk(0)
    env = {"LEEWAY_HOME": str(disk / "home")}
    check_no_space(commands.run_step("ingest", "--dataset", "flights", "--partition", "2013-01-01", env=env))
    (disk / "filler").unlink()
    assert commands.run_step("ingest", "--dataset", "flights", "--partition", "2013-01-01", env=env).code == 0


@parametrize_levels([0, 300], [0, 60, 300])
def test_train_fails_with_75_in_a_full_home(
    disk: Path, fill_disk: Callable[[int], None], commands: Any, trained: SimpleNamespace, levels: list[int]
) -> None:
    shutil.copytree(trained.data / "features", "data/features")
    env = {"LEEWAY_HOME": str(disk / "home")}
    hyperparameters = '{"num_round": 60, "early_stopping_rounds": 60, "checkpoint_rounds": 5}'
    for left_kib in levels:
        fill_disk(left_kib)
        check_no_space(commands.run_step("train", "--hyperparameters", hyperparameters, env=env))
        assert not Path("data/model").exists()
    (disk / "filler").unlink()
    result = commands.run_step("train", "--hyperparameters", hyperparameters, env=env)
    assert result.code == 0, result.err
    other_process = commands.run_step(
        "train", "--hyperparameters", hyperparameters, "--trained-model", "m2", "--record", "r2"
    )
    assert json.loads(other_process.out)["digest"] == json.loads(result.out)["digest"]


@pytest.mark.parametrize(
    ("step", "output", "option"),
    [
        ("train", "model", "--trained-model"),
        pytest.param("evaluate", "evaluation", "--evaluation", marks=pytest.mark.soak),
        pytest.param("preprocess", "features", "--features", marks=pytest.mark.soak),
    ],
)
def test_a_full_disk_keeps_the_old_output(
    disk: Path, fill_disk: Callable[[int], None], commands: Any, trained: SimpleNamespace, published_quarter: Path,
    step: str, output: str, option: str,
) -> None:  # fmt: skip
    shutil.copytree(trained.data, "data")
    target = disk / output
    shutil.copytree(f"data/{output}", target)
    before = sha256(target)
    fill_disk(8)
    arguments = {"train": ("--hyperparameters", '{"num_round": 9}'), "preprocess": ("--validation-days", "3")}.get(
        step, ()
    )
    env = {"LEEWAY_HOME": str(published_quarter)} if step == "preprocess" else {}
    check_no_space(commands.run_step(step, option, str(target), *arguments, env=env))
    assert sha256(target) == before, "the old output is unchanged"
    assert {path.name for path in disk.iterdir()} == {output, "filler"}, "no partial file is left"
    (disk / "filler").unlink()
    result = commands.run_step(step, option, str(target), *arguments, env=env)
    assert result.code == 0, result.err
    if step != "evaluate":
        assert sha256(target) != before


def test_a_full_disk_keeps_the_old_result_file(disk: Path, fill_disk: Callable[[int], None], commands: Any) -> None:
    write_evaluation(Path("data"))
    (disk / "result.json").write_text("old")
    fill_disk(0)
    result = commands.run_step("gate", "--out", str(disk / "result.json"))
    assert result.code == 75
    assert "Traceback" not in result.err
    assert (disk / "result.json").read_text() == "old"
