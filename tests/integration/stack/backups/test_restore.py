"""Test the restore of a home: it restores all of the state or nothing, and refuses some archives."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import shutil
import signal
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stack.backups.archive import MANIFEST
from stack.backups.restore import restore
from stack.errors import RequestError, UnavailableError

if TYPE_CHECKING:
    from tests.integration.stack.backups.conftest import HomeWithBackup

Change = Callable[[str, bytes], list[tuple[tarfile.TarInfo, bytes]]]
"""Replaces a member (name, content) of an archive by other members."""


def test_restored_home_has_its_state_and_a_readable_lake(empty_home: HomeWithBackup) -> None:
    result = empty_home.run_stack("restore", str(empty_home.archive))
    assert result.returncode == 0, result.stderr
    assert empty_home.read_state() == empty_home.original_state
    assert empty_home.read_lake() == "[2, 3, 4]\n"
    assert (empty_home.home / "uv").is_dir(), "the tool that made .venv stays"
    assert empty_home.list_leftovers() == []


def test_replaces_state_only_with_force(full_home: HomeWithBackup) -> None:
    (full_home.home / "docs/index.html").write_text("newer")
    (full_home.home / "docs/more.html").write_text("newer")
    result = full_home.run_stack("restore", str(full_home.archive))
    assert result.returncode == 2 and "already has state" in result.stderr
    assert (full_home.home / "docs/more.html").read_text() == "newer"
    result = full_home.run_stack("restore", str(full_home.archive), "--force")
    assert result.returncode == 0, result.stderr
    assert full_home.read_state() == full_home.original_state and not (full_home.home / "docs/more.html").exists()


def copy_changed(archive: Path, target: Path, change: Change) -> Path:
    """Copy the archive, with each file replaced by what `change` returns for it."""
    with tarfile.open(archive) as old_tar, tarfile.open(target, "w") as new_tar:
        for info in old_tar:
            content = old_tar.extractfile(info).read() if info.isreg() else b""
            for changed_info, data in change(info.name, content) if info.isreg() else [(info, b"")]:
                changed_info.size = len(data)
                new_tar.addfile(changed_info, io.BytesIO(data))
    return target


def build_member(name: str, **fields: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for key, value in fields.items():
        setattr(info, key, value)
    return info


def add_member(info: tarfile.TarInfo, data: bytes = b"x") -> Change:
    """Add a member, and list it in the manifest, as an attacker would."""

    def change(name: str, content: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
        if name != MANIFEST:
            return [(build_member(name), content)]
        manifest = json.loads(content)
        manifest["files"][info.name] = {"size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        return [(info, data), (build_member(name), json.dumps(manifest).encode())]

    return change


def flip_bits(name: str, content: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    return [(build_member(name), content.replace(b"model", b"m0del") if "model.bin" in name else content)]


def remove_manifest(name: str, content: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    return [] if name == MANIFEST else [(build_member(name), content)]


def change_home(name: str, content: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    text = json.dumps({**json.loads(content), "home": "/elsewhere"}).encode() if name == MANIFEST else content
    return [(build_member(name), text)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (flip_bits, "mlflow/artifacts/1/model.bin is not what was backed up"),
        (remove_manifest, "no manifest at its end"),
        (change_home, "restore it there (LEEWAY_HOME=/elsewhere)"),
        (add_member(build_member("../escaped")), "leads out of the home"),
        (add_member(build_member("/tmp/escaped")), "leads out of the home"),
        (add_member(build_member("docs/../../escaped")), "leads out of the home"),
        (add_member(build_member("docs/link", type=tarfile.SYMTYPE, linkname="/etc/passwd"), b""), "neither a file"),
        (add_member(build_member("docs/link", type=tarfile.LNKTYPE, linkname="airflow/airflow.cfg"), b""), "neither a"),
        (add_member(build_member("docs/pipe", type=tarfile.FIFOTYPE), b""), "neither a file"),
    ],
)
def test_refuses_a_changed_archive(change: Change, message: str, full_home: HomeWithBackup, tmp_path: Path) -> None:
    with pytest.raises(RequestError) as refusal:
        restore(full_home.layout, copy_changed(full_home.archive, tmp_path / "changed.tar", change), force=True)
    assert message in str(refusal.value)
    assert full_home.read_state() == full_home.original_state
    assert not (full_home.project / "escaped").exists() and not Path("/tmp/escaped").exists()


@pytest.mark.parametrize("part", [0.0, 0.5, 0.9])
def test_refuses_a_truncated_archive(part: float, full_home: HomeWithBackup, tmp_path: Path) -> None:
    truncated_archive = tmp_path / "truncated.tar"
    content = full_home.archive.read_bytes()
    truncated_archive.write_bytes(content[: int(len(content) * part)])
    result = full_home.run_stack("restore", str(truncated_archive), "--force") if part == 0.5 else None
    with pytest.raises(RequestError):
        restore(full_home.layout, truncated_archive, force=True)
    assert full_home.read_state() == full_home.original_state
    if result:
        assert result.returncode == 2 and result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("module", "name", "count"),
    [
        ("stack.backups.restore", "_unpack", 1),
        ("stack.backups.restore", "_check_unchanged", 4),
        ("os", "sync", 1),
        ("os", "rename", 2),
        ("os", "rename", 3),
    ],
)
def test_killed_restore_leaves_the_old_state_and_can_be_repeated(
    module: str, name: str, count: int, full_home: HomeWithBackup
) -> None:
    (full_home.home / "docs/index.html").write_text("old state")
    old_state = full_home.read_state()
    statement = f"restore(Layout.from_environment(), Path({str(full_home.archive)!r}), True)"
    result = full_home.run_until_killed(statement, module, name, count)
    assert result.returncode == -signal.SIGKILL, result.stderr
    if (name, count) == ("rename", 3):  # between the two renames: the next restore puts the home back, even if it fails
        assert not full_home.home.exists()
        (full_home.home / "uv").mkdir(parents=True)  # `make restore` creates this folder first
        assert full_home.run_stack("restore", "nothing.tar").returncode == 2
    assert full_home.read_state() == old_state
    result = full_home.run_stack("restore", str(full_home.archive), "--force")
    assert result.returncode == 0, result.stderr
    assert full_home.read_state() == full_home.original_state


def test_leaves_a_home_that_cannot_be_renamed(full_home: HomeWithBackup, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if path == full_home.home:
            raise OSError(errno.EBUSY, "Device or resource busy")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    old_state = full_home.read_state()
    with pytest.raises(UnavailableError, match="busy"):
        restore(full_home.layout, full_home.archive, force=True)
    assert full_home.read_state() == old_state
    assert (full_home.home / "uv/bin/uv").read_text() == "tool"


def test_full_disk_leaves_the_home_and_no_temporary_folder(
    full_home: HomeWithBackup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half an unpacked home would keep the disk full."""

    def fail(source: Any, target: Any, length: int = 0) -> None:
        target.write(source.read(9))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", fail)
    old_state = full_home.read_state()
    with pytest.raises(UnavailableError, match="No space left on device"):
        restore(full_home.layout, full_home.archive, force=True)
    assert full_home.read_state() == old_state
    assert full_home.list_leftovers() == []


def test_refuses_an_archive_that_lies_in_the_home(full_home: HomeWithBackup) -> None:
    """The restore would remove it with the rest of the home."""
    archive = full_home.home / "docs/kept.tar"
    shutil.copy2(full_home.archive, archive)
    result = full_home.run_stack("restore", str(archive), "--force")
    assert result.returncode == 2 and "is in the home" in " ".join(result.stderr.split()), result.stderr
    assert archive.read_bytes() == full_home.archive.read_bytes()
