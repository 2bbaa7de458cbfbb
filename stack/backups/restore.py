"""Restoring a home from an archive of `stack.backups.backup`: all of it, or nothing.

The archive is read to its end and held against its manifest before anything is touched. It is then unpacked beside the
home, and put in its place by two renames. Killed before them, the home is as it was; between them, it is put back by
the next restore; after them, it is restored.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from stack.backups.backup import MANIFEST, Counted, Entry, Manifest, quiet, read_manifest, state
from stack.errors import RequestError, UnavailableError
from stack.layout import Layout

_CHUNK = 1 << 20


def restore(layout: Layout, archive: Path, force: bool = False) -> Manifest:
    """The home's state is the archive's, and no other.

    Args:
        layout: of the home; its parent folder has room for all of it once more.
        archive: from `backup`.
        force: replace the state that is there.

    Raises:
        RequestError: the archive is none, is damaged or was changed, is of another home or in this one, or there is
            state already. Nothing was touched.
        UnavailableError: the stack runs, or the disk refuses; the home is as it was.
    """
    home = layout.home
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        _recover(home)
        if archive.resolve().is_relative_to(home):
            raise RequestError(f"{archive} is in the home that is replaced, and would go with it: move it elsewhere.")
        manifest = verified(archive)
        _demand_place(home, manifest, force)
        with quiet(layout, "stack restore"), _room(_beside(home, "restoring")) as place:
            _unpack(archive, manifest, place)
            _swap(home)
    except OSError as error:
        raise UnavailableError(f"Cannot restore {archive} to {home}: {error.strerror or error}.") from None
    return manifest


@contextmanager
def _room(place: Path) -> Iterator[Path]:
    """A place where nothing is, before and after: half a home that was left there could keep a disk full."""
    shutil.rmtree(place, ignore_errors=True)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def verified(archive: Path) -> Manifest:
    """What is in the archive, every byte of which was held against it.

    Raises:
        RequestError: it is no whole archive of `backup`, or something in it is not as it was.
    """
    found: dict[str, Entry] = {}
    folders: list[str] = []
    manifest: Manifest | None = None
    try:
        for info, content in _members(archive):
            if manifest is not None:
                raise _Damaged(f"{info.name} comes after the manifest")
            if info.name == MANIFEST and content:
                manifest = read_manifest(content.read())
            elif content is None:
                folders.append(info.name)
            elif info.name in found:
                raise _Damaged(f"{info.name} is there twice")
            else:
                found[info.name] = _digest(info, content)
        _compare(manifest, found, folders)
    except (tarfile.TarError, EOFError, ValueError, ValidationError, _Damaged) as error:
        why = str(error).splitlines()[0][:200]
        raise RequestError(f"{archive} is no whole archive of `make backup`, or was changed: {why}.") from None
    except OSError as error:
        raise RequestError(f"Cannot read {archive}: {error.strerror or error}.") from None
    assert manifest is not None
    return manifest


class _Damaged(Exception):
    """The archive is not as `backup` made it."""


def _members(archive: Path) -> Iterator[tuple[tarfile.TarInfo, Counted | None]]:
    """Each member, with its content where it is a file. Nothing else than files and folders below is let through."""
    with tarfile.open(archive, "r:") as tar:
        for info in tar:
            path = PurePosixPath(info.name)
            if path.is_absolute() or ".." in path.parts or not path.parts or str(path) != info.name:
                raise _Damaged(f"{info.name!r} leads out of the home")
            if not (info.isreg() or info.isdir()):
                raise _Damaged(f"{info.name} is neither a file nor a folder")
            content = tar.extractfile(info) if info.isreg() else None
            yield info, Counted(content) if content else None


def _digest(info: tarfile.TarInfo, content: Counted) -> Entry:
    while content.read(_CHUNK):
        pass
    return Entry(size_bytes=info.size, sha256=content.sha256.hexdigest())


def _compare(manifest: Manifest | None, found: dict[str, Entry], folders: list[str]) -> None:
    if manifest is None:
        raise _Damaged("it has no manifest at its end")
    for name in sorted(manifest.files.keys() | found.keys()):
        if manifest.files.get(name) != found.get(name):
            raise _Damaged(f"{name} is not what was backed up")
    if sorted(folders) != sorted(manifest.folders):
        raise _Damaged("its folders are not what was backed up")


def _demand_place(home: Path, manifest: Manifest, force: bool) -> None:
    if manifest.home != home:
        raise RequestError(
            f"The archive is of {manifest.home}, and tables of the lake name their files by that path: "
            f"restore it there (LEEWAY_HOME={manifest.home})."
        )
    if state(home) and not force:
        raise RequestError(f"{home} has state already; --force replaces it all (make restore FORCE=1).")


def _unpack(archive: Path, manifest: Manifest, place: Path) -> None:
    place.mkdir(mode=0o700)
    for info, content in _members(archive):
        target = place / info.name
        if content is None:
            target.mkdir(parents=True, exist_ok=True)
        elif info.name != MANIFEST:
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                shutil.copyfileobj(content, file, _CHUNK)
            _demand_same(manifest.files[info.name], info, content)
        else:
            continue
        os.chmod(target, info.mode & 0o777)
    os.sync()  # before the swap: what is then there has to survive the machine's end too


def _demand_same(entry: Entry, info: tarfile.TarInfo, content: Counted) -> None:
    if content.sha256.hexdigest() != entry.sha256:
        raise UnavailableError(f"{info.name} changed in the archive while it was read; nothing was touched.")


def _swap(home: Path) -> None:
    """What was unpacked is the home. What is no state, such as the tool that made .venv, stays."""
    new, old = _beside(home, "restoring"), _beside(home, "replaced")
    shutil.rmtree(old, ignore_errors=True)
    mode = home.stat().st_mode & 0o777
    tool = home / "uv"
    if tool.exists():
        tool.rename(new / "uv")
    os.chmod(new, mode)
    try:
        home.rename(old)
    except OSError:  # a home that is a mount cannot be moved
        if (new / "uv").exists():
            (new / "uv").rename(tool)
        raise
    new.rename(home)
    shutil.rmtree(old)


def _recover(home: Path) -> None:
    """A home that a killed restore had moved away is back."""
    old = _beside(home, "replaced")
    if not old.is_dir() or state(home):
        return
    if home.exists():  # `make` has put its tool there before it called us
        if (home / "uv").exists() and not (old / "uv").exists():
            (home / "uv").rename(old / "uv")
        shutil.rmtree(home)
    old.rename(home)


def _beside(home: Path, what: str) -> Path:
    return home.with_name(f".{home.name}.{what}")
