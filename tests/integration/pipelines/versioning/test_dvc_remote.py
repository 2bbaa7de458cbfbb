"""LEEWAY_DVC_REMOTE: what one machine computed, another takes from the remote."""

import shutil
from pathlib import Path
from typing import Any

import yaml


def count(tmp_path: Path) -> int:
    return len((tmp_path / "count").read_text().split())


def test_another_machine_takes_it_from_the_remote(repro: Any, home: Path, tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    env = {"LEEWAY_DVC_REMOTE": str(remote)}
    assert repro("one", "2013-02-01", **env).wait(300) == 0, (tmp_path / "one.log").read_text()
    assert repro("two", "2013-02-02", **env).wait(300) == 0
    assert len([path for path in (remote / "files/md5").rglob("*") if path.is_file()]) == 2 * 4
    assert len([path for path in (remote / "runs").rglob("*") if path.is_file()]) == 2
    shutil.rmtree(home)
    assert repro("three", "2013-02-01", **env).wait(300) == 0, (tmp_path / "three.log").read_text()
    assert count(tmp_path) == 2, "nothing was computed again"
    assert (home / "workspaces/three/data/features/1").read_text() == "2013-02-01 1\n"
    cached = [path for path in (home / "dvc/cache/files/md5").rglob("*") if path.is_file()]
    assert len(cached) == 4, "and only what was wanted came"


def test_without_a_remote_it_is_computed_again(repro: Any, home: Path, tmp_path: Path) -> None:
    assert repro("one", "2013-02-01").wait(300) == 0
    shutil.rmtree(home)
    assert repro("two", "2013-02-01").wait(300) == 0
    assert count(tmp_path) == 2


def test_only_whole_entries_of_this_workspace_are_sent(repro: Any, home: Path, tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    assert repro("one", "2013-02-01").wait(300) == 0, "before there was a remote"
    (entry,) = (path for path in (home / "dvc/cache/runs").rglob("*") if path.is_file())
    (entry.parent / ("0" * 64)).write_text("cmd: half")
    (entry.parent / "tmp").write_text(entry.read_text())
    assert repro("two", "2013-02-02", LEEWAY_DVC_REMOTE=str(remote)).wait(300) == 0
    (sent,) = (path for path in (remote / "runs").rglob("*") if path.is_file())
    lock = yaml.safe_load((home / "workspaces/two/dvc.lock").read_text())["stages"]["features"]
    assert yaml.safe_load(sent.read_text())["outs"][0]["md5"] == lock["outs"][0]["md5"]


def test_a_remote_that_refuses_is_75_and_one_line(repro: Any, home: Path, tmp_path: Path, free_port: Any) -> None:
    address = {"LEEWAY_DVC_REMOTE": "s3://nowhere/dvc", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{free_port()}"}
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1"}
    assert repro("one", "2013-02-01", **address, **keys, AWS_MAX_ATTEMPTS="1").wait(300) == 75
    told = (tmp_path / "one.log").read_text()
    assert "Traceback" not in told
    assert [line for line in told.splitlines() if line.startswith("error: ")][-1].endswith("Is it up?")
