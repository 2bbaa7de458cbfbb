"""Backup and restore of a home with real state: a lake, MLflow's database with a model, objects, keys."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stack.backups import backup as backups
from stack.backups import restore as restoring
from stack.errors import UnavailableError
from stack.layout import Layout
from tests.tools import untar

ROOT = Path(__file__).parents[4]
FILL = """
import datetime as dt, pyarrow as pa
from pipelines.lake import Lake
lake = Lake.open()
for n in (1, 2):
    day = dt.date(2026, 1, n)
    lake.write_partition("boats", day, pa.table({"date": [day] * 3, "number": [n, n + 1, n + 2]}))
"""
READ = """
import datetime as dt
from pipelines.lake import Lake
print(sorted(Lake.open().read_partition("boats", dt.date(2026, 1, 2))["number"].to_pylist()))
"""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A home as it was filled, and the archive of it. Both are copied by `place`, at the same path for all tests."""
    folder = tmp_path_factory.mktemp("filled")
    project, home = folder / "project", folder / "project" / ".leeway"
    (project / "dags").mkdir(parents=True)
    made = SimpleNamespace(project=project, home=home, archive=folder / "kept.tar")
    made.env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("LEEWAY_")},
        **{"PYTHONPATH": str(ROOT), "LEEWAY_PROJECT": str(project), "LEEWAY_HOME": str(home)},
    }
    python(made, "-c", FILL)
    for name, text in {
        "airflow/airflow.cfg": "[core]\nfernet_key = k\n",
        "mlflow/artifacts/1/model.bin": "model",
        "dvc/cache/files/md5/ab/cd": "features",
        "drydock/objects/leeway/key": "object",
        "docs/index.html": "docs",
        "uv/bin/uv": "tool",
        "workspaces/one/dvc.yaml": "stages: {}",
        "stack.lock": "",
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    (home / "airflow/airflow.cfg").chmod(0o600)
    (home / "airflow/latest").symlink_to("nowhere")
    database(home / "airflow/airflow.db", "a run")
    (home / "mlflow/mlflow.db").write_bytes((home / "airflow/airflow.db").read_bytes())
    done = stack(made, "backup", str(made.archive))
    assert done.returncode == 0, done.stderr
    made.said = done.stdout
    made.seen = seen(home)
    shutil.copytree(home, folder / "as-it-was", symlinks=True)
    made.as_it_was = folder / "as-it-was"
    return made


@pytest.fixture
def full(filled: SimpleNamespace) -> SimpleNamespace:
    """The home, full as it was."""
    empty_of(filled)
    shutil.rmtree(filled.home, ignore_errors=True)
    shutil.copytree(filled.as_it_was, filled.home, symlinks=True)
    return filled


@pytest.fixture
def empty(filled: SimpleNamespace) -> SimpleNamespace:
    """The home, with nothing in it but the tool."""
    empty_of(filled)
    (filled.home / "uv").mkdir(parents=True)
    return filled


def empty_of(filled: SimpleNamespace) -> None:
    for name in (".leeway", "..leeway.restoring", "..leeway.replaced"):
        shutil.rmtree(filled.project / name, ignore_errors=True)


def database(path: Path, text: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE said (text)")
        connection.execute("INSERT INTO said VALUES (?)", (text,))
    connection.close()


def command(filled: SimpleNamespace, *arguments: str, **env: str) -> subprocess.Popen[str]:
    given = {"cwd": filled.project, "env": {**filled.env, **env}, "text": True}
    return subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **given
    )


def python(filled: SimpleNamespace, *arguments: str, **env: str) -> SimpleNamespace:
    child = command(filled, *arguments, **env)
    out, err = child.communicate()
    return SimpleNamespace(returncode=child.returncode, stdout=out, stderr=err)


def stack(filled: SimpleNamespace, *arguments: str, **env: str) -> SimpleNamespace:
    return python(filled, "-m", "stack", *arguments, **env)


def seen(home: Path) -> dict[str, tuple[int, str]]:
    """Mode and digest of each file of the state; of databases what is in them."""
    found = {}
    for path in sorted(home.rglob("*")):
        name = str(path.relative_to(home))
        if (
            path.is_file()
            and not path.is_symlink()
            and name.split("/", maxsplit=1)[0] not in (*backups.LEFT_OUT, "stack.lock")
        ):
            content = path.read_bytes()
            if content.startswith(b"SQLite"):
                with sqlite3.connect(path) as connection:
                    content = "\n".join(connection.iterdump()).encode()
                connection.close()
            found[name] = (path.stat().st_mode & 0o777, hashlib.sha256(content).hexdigest())
    return found


def test_all_state_is_in_one_file_for_the_owner_only(filled: SimpleNamespace) -> None:
    assert filled.archive.stat().st_mode & 0o777 == 0o600
    assert "keep it safe" in filled.said
    with tarfile.open(filled.archive) as tar:
        names = tar.getnames()
    assert names[-1] == backups.MANIFEST
    assert {"airflow/airflow.cfg", "airflow/airflow.db", "mlflow/mlflow.db", "lake/catalog.db"} <= set(names)
    assert {"dvc/cache/files/md5/ab/cd", "drydock/objects/leeway/key", "mlflow/artifacts/1/model.bin"} <= set(names)
    assert not [one for one in names if one.startswith(("uv", "workspaces", "stack.")) or one == "airflow/latest"]


def test_a_restored_home_is_as_it_was_and_its_lake_can_be_read(empty: SimpleNamespace) -> None:
    done = stack(empty, "restore", str(empty.archive))
    assert done.returncode == 0, done.stderr
    assert seen(empty.home) == empty.seen
    assert python(empty, "-c", READ).stdout == "[2, 3, 4]\n"
    assert (empty.home / "uv").is_dir(), "the tool that made .venv stays"
    assert [one.name for one in empty.project.iterdir() if "leeway." in one.name] == []


def test_state_that_is_there_is_replaced_only_when_that_is_asked_for(full: SimpleNamespace) -> None:
    (full.home / "docs/index.html").write_text("newer")
    (full.home / "docs/more.html").write_text("newer")
    done = stack(full, "restore", str(full.archive))
    assert done.returncode == 2 and "has state already" in done.stderr
    assert (full.home / "docs/more.html").read_text() == "newer"
    done = stack(full, "restore", str(full.archive), "--force")
    assert done.returncode == 0, done.stderr
    assert seen(full.home) == full.seen and not (full.home / "docs/more.html").exists()


def changed(archive: Path, target: Path, change: Callable[[str, bytes], list[tuple[tarfile.TarInfo, bytes]]]) -> Path:
    """A copy of the archive in which each member became what `change` gives for it."""
    with tarfile.open(archive) as old, tarfile.open(target, "w") as new:
        for info in old:
            content = old.extractfile(info).read() if info.isreg() else b""  # type: ignore[union-attr]
            for made, data in change(info.name, content) if info.isreg() else [(info, b"")]:
                made.size = len(data)
                new.addfile(made, io.BytesIO(data))
    return target


def member(name: str, **more: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for key, value in more.items():
        setattr(info, key, value)
    return info


def with_one_more(info: tarfile.TarInfo, data: bytes = b"x") -> Callable[[str, bytes], Any]:
    """Adds a member, and names it in the manifest, as who knows how would."""

    def change(name: str, content: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
        if name != backups.MANIFEST:
            return [(member(name), content)]
        told = json.loads(content)
        told["files"][info.name] = {"size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        return [(info, data), (member(name), json.dumps(told).encode())]

    return change


def flipped(name: str, content: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    return [(member(name), content.replace(b"model", b"m0del") if "model.bin" in name else content)]


def without_manifest(name: str, content: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    return [] if name == backups.MANIFEST else [(member(name), content)]


def of_another_home(name: str, content: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    text = json.dumps({**json.loads(content), "home": "/elsewhere"}).encode() if name == backups.MANIFEST else content
    return [(member(name), text)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (flipped, "mlflow/artifacts/1/model.bin is not what was backed up"),
        (without_manifest, "no manifest at its end"),
        (of_another_home, "restore it there (LEEWAY_HOME=/elsewhere)"),
        (with_one_more(member("../escaped")), "leads out of the home"),
        (with_one_more(member("/tmp/escaped")), "leads out of the home"),
        (with_one_more(member("docs/../../escaped")), "leads out of the home"),
        (with_one_more(member("docs/link", type=tarfile.SYMTYPE, linkname="/etc/passwd"), b""), "neither a file"),
        (with_one_more(member("docs/link", type=tarfile.LNKTYPE, linkname="airflow/airflow.cfg"), b""), "neither a"),
        (with_one_more(member("docs/pipe", type=tarfile.FIFOTYPE), b""), "neither a file"),
    ],
)
def test_an_archive_that_was_changed_touches_nothing(
    change: Any, said: str, full: SimpleNamespace, tmp_path: Path
) -> None:
    layout = backups.Layout(full.home, full.project)
    with pytest.raises(restoring.RequestError) as refused:
        restoring.restore(layout, changed(full.archive, tmp_path / "changed.tar", change), force=True)
    assert said in str(refused.value)
    assert seen(full.home) == full.seen
    assert not (full.project / "escaped").exists() and not Path("/tmp/escaped").exists()


@pytest.mark.parametrize("part", [0.0, 0.5, 0.9])
def test_an_archive_that_was_cut_off_touches_nothing(part: float, full: SimpleNamespace, tmp_path: Path) -> None:
    cut = tmp_path / "cut.tar"
    content = full.archive.read_bytes()
    cut.write_bytes(content[: int(len(content) * part)])
    done = stack(full, "restore", str(cut), "--force") if part == 0.5 else None
    with pytest.raises(restoring.RequestError):
        restoring.restore(backups.Layout(full.home, full.project), cut, force=True)
    assert seen(full.home) == full.seen
    if done:
        assert done.returncode == 2 and done.stderr.count("\n") == 1


KILLED = """
import os, signal, sys
from pathlib import Path
from stack.backups import backup, restore
from stack.layout import Layout
module, name, count = sys.argv[1:4]
seen, owner = [], {{"os": os, "backup": backup, "restore": restore}}[module]
real = getattr(owner, name)
def die(*args, **kw):
    seen.append(1)
    if len(seen) == int(count):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **kw)
setattr(owner, name, die)
{call}
"""


@pytest.mark.parametrize(
    "where",
    [
        ("restore", "_unpack", 1),
        ("restore", "_demand_same", 4),
        ("os", "sync", 1),
        ("os", "rename", 2),
        ("os", "rename", 3),
    ],
)
def test_a_restore_that_is_killed_leaves_the_old_state_and_the_next_one_works(
    where: tuple[str, str, int], full: SimpleNamespace
) -> None:
    (full.home / "docs/index.html").write_text("old state")
    old = seen(full.home)
    call = f"restore.restore(Layout.from_environment(), Path({str(full.archive)!r}), True)"
    module, name, count = where
    done = python(full, "-c", KILLED.format(call=call), module, name, str(count))
    assert done.returncode == -signal.SIGKILL, done.stderr
    if where == ("os", "rename", 3):  # between the two: it is put back by the next restore, whatever becomes of that
        assert not full.home.exists()
        (full.home / "uv").mkdir(parents=True)  # `make restore` sets its tool up first
        assert stack(full, "restore", "nothing.tar").returncode == 2
    assert seen(full.home) == old
    done = stack(full, "restore", str(full.archive), "--force")
    assert done.returncode == 0, done.stderr
    assert seen(full.home) == full.seen


def test_a_home_that_cannot_be_moved_is_left_as_it_was(full: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def refused(path: Path, target: Path) -> Path:
        if path == full.home:
            raise OSError(errno.EBUSY, "Device or resource busy")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refused)
    old = seen(full.home)
    with pytest.raises(UnavailableError, match="busy"):
        restoring.restore(Layout(full.home, full.project), full.archive, force=True)
    assert seen(full.home) == old
    assert (full.home / "uv/bin/uv").read_text() == "tool"


def test_a_restore_that_the_disk_refuses_leaves_the_home_and_nothing_beside_it(
    full: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half an unpacked home would keep the disk as full as it was."""

    def refused(source: Any, target: Any, length: int = 0) -> None:
        target.write(source.read(9))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", refused)
    old = seen(full.home)
    with pytest.raises(UnavailableError, match="No space left on device"):
        restoring.restore(Layout(full.home, full.project), full.archive, force=True)
    assert seen(full.home) == old
    assert [one.name for one in full.project.iterdir() if "leeway." in one.name] == []


def test_a_backup_that_is_killed_leaves_no_archive(full: SimpleNamespace, tmp_path: Path) -> None:
    call = f"backup.backup(Layout.from_environment(), Path({str(tmp_path / 'half.tar')!r}))"
    done = python(full, "-c", KILLED.format(call=call), "backup", "_add", "9")
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (tmp_path / "half.tar").exists()
    assert stack(full, "backup", str(tmp_path / "half.tar")).returncode == 0


def test_while_the_stack_runs_there_is_no_backup_and_no_restore(full: SimpleNamespace, tmp_path: Path) -> None:
    marks = {"LEEWAY_STACK_ID": "it", "LEEWAY_HOME": str(full.home)}
    child = command(full, "-c", "print('ready', flush=True); import time; time.sleep(600)", **marks)
    assert child.stdout and child.stdout.readline() == "ready\n"
    try:
        for asked in (["backup", str(tmp_path / "kept.tar")], ["restore", str(full.archive), "--force"]):
            done = stack(full, *asked)
            assert done.returncode == 75 and "stop it first, with `make down`" in done.stderr
    finally:
        child.kill()
        child.communicate()
    assert stack(full, "backup", str(tmp_path / "kept.tar")).returncode == 0


def test_a_database_that_is_written_to_is_copied_whole(full: SimpleNamespace, tmp_path: Path) -> None:
    """Its last commit is in the write-ahead log only."""
    writer = sqlite3.connect(full.home / "airflow/airflow.db", isolation_level=None)
    writer.execute("PRAGMA journal_mode=WAL")
    writer.execute("INSERT INTO said VALUES ('committed')")
    writer.execute("BEGIN")
    writer.execute("INSERT INTO said VALUES ('not committed')")
    done = stack(full, "backup", str(tmp_path / "kept.tar"))
    writer.close()
    assert done.returncode == 0, done.stderr
    with tarfile.open(tmp_path / "kept.tar") as tar:
        assert not [one for one in tar.getnames() if one.endswith("-wal")]
        tar.extract("airflow/airflow.db", tmp_path, **untar.DATA)
    with sqlite3.connect(tmp_path / "airflow/airflow.db") as reader:
        assert [text for (text,) in reader.execute("SELECT text FROM said")] == ["a run", "committed"]
    reader.close()


def test_a_database_that_stays_locked_is_refused_and_not_waited_for_for_ever(
    full: SimpleNamespace, tmp_path: Path
) -> None:
    writer = sqlite3.connect(full.home / "airflow/airflow.db", isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    child = command(full, "-m", "stack", "backup", str(tmp_path / "kept.tar"))
    try:
        said = child.communicate(timeout=120)[1]  # SQLite itself waits for 5 s
    finally:
        child.kill()
        child.communicate()
        writer.close()
    assert child.returncode == 75 and "airflow.db: database is locked" in " ".join(said.split()), said
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_for_a_copy_of_a_database_is_told_in_a_line(
    full: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect

    def narrow(name: str, *args: Any, **more: Any) -> sqlite3.Connection:
        connection = connect(name, *args, **more)
        if "leeway-backup-" in name:  # the copy
            connection.execute("PRAGMA max_page_count = 1")
        return connection

    monkeypatch.setattr(sqlite3, "connect", narrow)
    with pytest.raises(UnavailableError, match=r"Cannot write .*: database or disk is full"):
        backups.backup(Layout(full.home, full.project), tmp_path / "kept.tar")
    assert list(tmp_path.iterdir()) == []


def test_a_part_of_the_home_that_is_elsewhere_is_not_left_out_in_silence(full: SimpleNamespace, tmp_path: Path) -> None:
    (full.home / "drydock").rename(tmp_path / "drydock")
    (full.home / "drydock").symlink_to(tmp_path / "drydock")
    done = stack(full, "backup", str(tmp_path / "kept.tar"))
    assert done.returncode == 2 and "drydock is a link" in " ".join(done.stderr.split()), done.stderr
    assert not (tmp_path / "kept.tar").exists()
    assert stack(full, "restore", str(full.archive)).returncode == 2, "it is state, which only --force replaces"


@pytest.mark.parametrize(
    ("name", "said"), [(".leeway/in.tar", "is in the home"), ("no/where.tar", "no folder"), ("dags", "there already")]
)
def test_a_file_that_cannot_be_meant_is_refused(name: str, said: str, full: SimpleNamespace) -> None:
    done = stack(full, "backup", str(full.project / name))
    assert done.returncode == 2 and said in " ".join(done.stderr.split())


def test_an_archive_in_the_home_is_not_restored_as_it_would_go_with_what_it_replaces(full: SimpleNamespace) -> None:
    inside = full.home / "docs/kept.tar"
    shutil.copy2(full.archive, inside)
    done = stack(full, "restore", str(inside), "--force")
    assert done.returncode == 2 and "is in the home" in " ".join(done.stderr.split()), done.stderr
    assert inside.read_bytes() == full.archive.read_bytes()


def test_where_nothing_is_nothing_is_backed_up(empty: SimpleNamespace, tmp_path: Path) -> None:
    done = stack(empty, "backup", str(tmp_path / "kept.tar"))
    assert done.returncode == 2 and "nothing to back up" in done.stderr
