"""Test LEEWAY_DVC_REMOTE: a machine uses what another machine computed and pushed to the remote."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml


def count_runs(tmp_path: Path) -> int:
    """Return how often the stage ran."""
    return len((tmp_path / "runs").read_text().split())


@pytest.mark.soak
def test_another_machine_pulls_the_outputs_from_the_remote(start_repro: Any, home: Path, tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    env = {"LEEWAY_DVC_REMOTE": str(remote)}
    assert start_repro("one", "2013-02-01", **env).wait(300) == 0, (tmp_path / "one.log").read_text()
    assert start_repro("two", "2013-02-02", **env).wait(300) == 0
    assert len([path for path in (remote / "files/md5").rglob("*") if path.is_file()]) == 2 * 4
    assert len([path for path in (remote / "runs").rglob("*") if path.is_file()]) == 2
    shutil.rmtree(home)
    assert start_repro("three", "2013-02-01", **env).wait(300) == 0, (tmp_path / "three.log").read_text()
    assert count_runs(tmp_path) == 2, "the stage must not run again"
    assert (home / "workspaces/three/data/features/1").read_text() == "2013-02-01 1\n"
    cache_files = [path for path in (home / "dvc/cache/files/md5").rglob("*") if path.is_file()]
    assert len(cache_files) == 4, "only the files of 2013-02-01 must be pulled"


@pytest.mark.soak
def test_without_a_remote_the_stage_runs_again(start_repro: Any, home: Path, tmp_path: Path) -> None:
    assert start_repro("one", "2013-02-01").wait(300) == 0
    shutil.rmtree(home)
    assert start_repro("two", "2013-02-01").wait(300) == 0
    assert count_runs(tmp_path) == 2


@pytest.mark.soak
def test_only_complete_entries_of_the_workspace_are_pushed(start_repro: Any, home: Path, tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    assert start_repro("one", "2013-02-01").wait(300) == 0, "this run has no remote"
    (entry,) = (path for path in (home / "dvc/cache/runs").rglob("*") if path.is_file())
    (entry.parent / ("0" * 64)).write_text("cmd: half")
    (entry.parent / "tmp").write_text(entry.read_text())
    assert start_repro("two", "2013-02-02", LEEWAY_DVC_REMOTE=str(remote)).wait(300) == 0
    (pushed_entry,) = (path for path in (remote / "runs").rglob("*") if path.is_file())
    lock = yaml.safe_load((home / "workspaces/two/dvc.lock").read_text())["stages"]["features"]
    assert yaml.safe_load(pushed_entry.read_text())["outs"][0]["md5"] == lock["outs"][0]["md5"]


def test_an_unreachable_remote_gives_75_and_one_line(
    start_repro: Any, home: Path, tmp_path: Path, free_port: Any
) -> None:
    address = {"LEEWAY_DVC_REMOTE": "s3://nowhere/dvc", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}"}
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1"}
    assert start_repro("one", "2013-02-01", **address, **keys, AWS_MAX_ATTEMPTS="1").wait(300) == 75
    output = (tmp_path / "one.log").read_text()
    assert "Traceback" not in output
    assert [line for line in output.splitlines() if line.startswith("error: ")][-1].endswith("Check whether it is up.")
