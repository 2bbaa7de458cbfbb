"""Restore a home from a backup archive, completely or not at all.

The archive is verified before any change. It is then unpacked beside the home, and two renames replace the
home with it. If the restore is killed before these renames, the home keeps its state; only its folder `uv`, which
`make` can create again, may be missing. If it is killed between them, the next restore puts the old home back. If it
is killed after them, the home is restored.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stack.backups.archive import MANIFEST, FileEntry, HashingReader, Manifest, list_state, require_stopped_stack
from stack.backups.verification import CHUNK_BYTES, read_members, verify_archive
from stack.errors import RequestError, UnavailableError
from stack.layout import Layout


def restore(layout: Layout, archive: Path, force: bool = False) -> Manifest:
    """Replace the state of the home with the state in the archive, and return the archive's manifest.

    Args:
        layout: the folders of the stack. The disk of the home needs room for the archive's content.
        archive: a file that `back_up` wrote.
        force: whether to replace existing state.

    Raises:
        RequestError: the file is not an archive, is damaged or was changed, belongs to another home or is inside this
            home, or the home already has state. The home is unchanged. A retry cannot help.
        UnavailableError: the stack runs, the disk cannot be written, or the archive changes during the restore. The
            home is unchanged, unless the disk fails during or after the renames. A retry can help.
    """
    home = layout.home
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        _recover_home(home)
        if archive.resolve().is_relative_to(home):
            raise RequestError(
                f"{archive} is in the home, which the restore replaces: move the archive out of it first."
            )
        manifest = verify_archive(archive)
        _check_home(home, manifest, force)
        with (
            require_stopped_stack(layout, "stack restore"),
            _use_temporary_folder(_get_sibling(home, "restoring")) as folder,
        ):
            _unpack(archive, manifest, folder)
            _replace_home(home)
    except OSError as error:
        raise UnavailableError(f"Cannot restore {archive} to {home}: {error.strerror or error}.") from None
    return manifest


@contextmanager
def _use_temporary_folder(folder: Path) -> Iterator[Path]:
    """Remove the folder before and after the block, so that the files of a killed restore do not fill the disk."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_home(home: Path, manifest: Manifest, force: bool) -> None:
    if manifest.home != home:
        raise RequestError(
            f"The archive belongs to {manifest.home}, and the lake's tables refer to their files by that path: "
            f"restore it there (LEEWAY_HOME={manifest.home})."
        )
    if list_state(home) and not force:
        raise RequestError(f"{home} already has state; --force replaces all of it (make restore FORCE=1).")


def _unpack(archive: Path, manifest: Manifest, folder: Path) -> None:
    folder.mkdir(mode=0o700)
    for info, content in read_members(archive):
        target = folder / info.name
        if content is None:
            target.mkdir(parents=True, exist_ok=True)
        elif info.name != MANIFEST:
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                shutil.copyfileobj(content, file, CHUNK_BYTES)
            _check_unchanged(manifest.files[info.name], info, content)
        else:
            continue
        os.chmod(target, info.mode & 0o777)
    os.sync()  # the files have to be on the disk before the renames, in case the machine loses power


def _check_unchanged(entry: FileEntry, info: tarfile.TarInfo, content: HashingReader) -> None:
    if content.sha256.hexdigest() != entry.sha256:
        raise UnavailableError(f"{info.name} changed in the archive during the restore; the home is unchanged.")


def _replace_home(home: Path) -> None:
    """Replace the home by the unpacked folder, but keep the home's folder `uv`, which `make` needs."""
    new_home, old_home = _get_sibling(home, "restoring"), _get_sibling(home, "replaced")
    shutil.rmtree(old_home, ignore_errors=True)
    mode = home.stat().st_mode & 0o777
    uv = home / "uv"
    if uv.exists():
        uv.rename(new_home / "uv")
    os.chmod(new_home, mode)
    try:
        home.rename(old_home)
    except OSError:  # a home that is a mount point cannot be renamed
        if (new_home / "uv").exists():
            (new_home / "uv").rename(uv)
        raise
    new_home.rename(home)
    shutil.rmtree(old_home)


def _recover_home(home: Path) -> None:
    """Give the home its name again if a restore renamed it and was killed. Idempotent."""
    old_home = _get_sibling(home, "replaced")
    if not old_home.is_dir() or list_state(home):
        return
    if home.exists():  # `make restore` has created the folder `uv` in it
        if (home / "uv").exists() and not (old_home / "uv").exists():
            (home / "uv").rename(old_home / "uv")
        shutil.rmtree(home)
    old_home.rename(home)


def _get_sibling(home: Path, purpose: str) -> Path:
    return home.with_name(f".{home.name}.{purpose}")
