"""Test the backup of a home: what is in the archive, and what is refused."""

from __future__ import annotations

import signal
import sqlite3
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stack.backups.archive import MANIFEST
from stack.backups.backup import back_up
from stack.errors import UnavailableError
from tests.tools import untar

if TYPE_CHECKING:
    from tests.integration.stack.backups.conftest import HomeWithBackup


def test_archive_holds_all_state_and_only_its_owner_reads_it(home_with_backup: HomeWithBackup) -> None:
    assert home_with_backup.archive.stat().st_mode & 0o777 == 0o600
    assert "keep it safe" in home_with_backup.backup_output
    with tarfile.open(home_with_backup.archive) as tar:
        names = tar.getnames()
    assert names[-1] == MANIFEST
    assert {"airflow/airflow.cfg", "airflow/airflow.db", "mlflow/mlflow.db", "lake/catalog.db"} <= set(names)
    assert {"dvc/cache/files/md5/ab/cd", "drydock/objects/leeway/key", "mlflow/artifacts/1/model.bin"} <= set(names)
    excluded_names = [
        name for name in names if name.startswith(("uv", "workspaces", "stack.")) or name == "airflow/latest"
    ]
    assert excluded_names == []


def test_killed_backup_leaves_no_archive(full_home: HomeWithBackup, tmp_path: Path) -> None:
    archive = tmp_path / "half.tar"
    statement = f"back_up(Layout.from_environment(), Path({str(archive)!r}))"
    result = full_home.run_until_killed(statement, "stack.backups.backup", "_add_path", 9)
    assert result.returncode == -signal.SIGKILL, result.stderr
    assert not archive.exists()
    assert full_home.run_stack("backup", str(archive)).returncode == 0


def test_refuses_backup_and_restore_while_the_stack_runs(full_home: HomeWithBackup, tmp_path: Path) -> None:
    marks = {"LEEWAY_STACK_ID": "it", "LEEWAY_HOME": str(full_home.home)}
    child = full_home.start_python("-c", "print('ready', flush=True); import time; time.sleep(600)", **marks)
    assert child.stdout and child.stdout.readline() == "ready\n"
    try:
        for arguments in (["backup", str(tmp_path / "kept.tar")], ["restore", str(full_home.archive), "--force"]):
            result = full_home.run_stack(*arguments)
            assert result.returncode == 75 and "stop it first, with `make down`" in result.stderr
    finally:
        child.kill()
        child.communicate()
    assert full_home.run_stack("backup", str(tmp_path / "kept.tar")).returncode == 0


def test_copies_a_database_in_use_up_to_its_last_commit(full_home: HomeWithBackup, tmp_path: Path) -> None:
    """The last commit is only in the write-ahead log."""
    writer = sqlite3.connect(full_home.home / "airflow/airflow.db", isolation_level=None)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("INSERT INTO said VALUES ('committed')")
    writer.execute("BEGIN")
    writer.execute("INSERT INTO said VALUES ('not committed')")
    result = full_home.run_stack("backup", str(tmp_path / "kept.tar"))
    writer.close()
    assert result.returncode == 0, result.stderr
    with tarfile.open(tmp_path / "kept.tar") as tar:
        assert not [name for name in tar.getnames() if name.endswith("-wal")]
        tar.extract("airflow/airflow.db", tmp_path, **untar.EXTRACT_OPTIONS)
    with sqlite3.connect(tmp_path / "airflow/airflow.db") as reader:
        assert [text for (text,) in reader.execute("SELECT text FROM said")] == ["a run", "committed"]
    reader.close()


@pytest.mark.soak
def test_reports_a_locked_database_and_does_not_wait_for_ever(full_home: HomeWithBackup, tmp_path: Path) -> None:
    writer = sqlite3.connect(full_home.home / "airflow/airflow.db", isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    child = full_home.start_python("-m", "stack", "backup", str(tmp_path / "kept.tar"))
    try:
        stderr = child.communicate(timeout=120)[1]  # SQLite itself waits for 5 s
    finally:
        child.kill()
        child.communicate()
        writer.close()
    assert child.returncode == 75 and "airflow.db: database is locked" in " ".join(stderr.split()), stderr
    assert list(tmp_path.iterdir()) == []


def test_reports_a_full_disk_in_one_line(
    full_home: HomeWithBackup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect

    def connect_to_full_disk(name: str, *args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(name, *args, **options)
        if "leeway-backup-" in name:  # the copy
            connection.execute("PRAGMA max_page_count = 1")
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect_to_full_disk)
    with pytest.raises(UnavailableError, match=r"Cannot back up to .*: database or disk is full"):
        back_up(full_home.layout, tmp_path / "kept.tar")
    assert list(tmp_path.iterdir()) == []


def test_refuses_a_folder_that_is_a_link(full_home: HomeWithBackup, tmp_path: Path) -> None:
    (full_home.home / "drydock").rename(tmp_path / "drydock")
    (full_home.home / "drydock").symlink_to(tmp_path / "drydock")
    result = full_home.run_stack("backup", str(tmp_path / "kept.tar"))
    assert result.returncode == 2 and "drydock is a link" in " ".join(result.stderr.split()), result.stderr
    assert not (tmp_path / "kept.tar").exists()
    assert full_home.run_stack("restore", str(full_home.archive)).returncode == 2, (
        "a link counts as state, which only --force replaces"
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [(".leeway/in.tar", "is in the home"), ("no/where.tar", "no folder"), ("dags", "exists already")],
)
def test_refuses_a_wrong_target(name: str, message: str, full_home: HomeWithBackup) -> None:
    result = full_home.run_stack("backup", str(full_home.project / name))
    assert result.returncode == 2 and message in " ".join(result.stderr.split())


def test_refuses_a_home_without_state(empty_home: HomeWithBackup, tmp_path: Path) -> None:
    result = empty_home.run_stack("backup", str(tmp_path / "kept.tar"))
    assert result.returncode == 2 and "nothing to back up" in result.stderr
