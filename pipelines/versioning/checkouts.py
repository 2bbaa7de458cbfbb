"""The project's code in a folder of its own: a git worktree at a commit, or a copy where there is no git."""

from __future__ import annotations

import hashlib
import platform
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from pipelines.errors import DataError, InvalidError, SpecError, StorageError
from pipelines.settings import PARAMS_FILE, settings
from pipelines.system.error_translation import NO_SPACE_TEXTS
from pipelines.system.files import read_json, sha256, write_json
from pipelines.system.locks import hold_lock
from pipelines.system.packages import find_versions
from pipelines.versioning.git import (
    DIRTY,
    GitError,
    describe_commit,
    has_changes,
    is_repository,
    lock_path,
    resolve_commit,
    run_git,
)

CODE_PATHS = ("pipelines", "expectations", "dvc.yaml", PARAMS_FILE)
"""What a copy takes of the project, and what makes it dirty."""
CODE_FILE = "code.json"
DVCIGNORE = ".dvcignore"
PACKAGES = (
    *("duckdb", "dvc", "ibis-framework", "mlflow", "numpy", "pandas", "pyarrow", "pyiceberg", "pyspark"),
    *("scikit-learn", "xgboost-cpu"),
)
"""Libraries whose version may change features, a model or its metrics."""


@dataclass(frozen=True)
class Code:
    """Which code, in which environment; beside it as code.json."""

    git_commit: str
    """Of the code, with '-dirty' where files differ from it; 'unknown' without git."""
    digest: str
    """SHA-256 of pipelines/, expectations/ and dvc.yaml, names and contents."""
    uv_lock: str
    """SHA-256 of the project's uv.lock; empty where it has none."""
    versions: Mapping[str, str]
    """Python's and the libraries' versions."""

    @classmethod
    def of(cls, folder: Path, commit: str = "") -> Self:
        """The code in `folder`: as told when it was put there, else as it is now."""
        if not commit and (folder / CODE_FILE).is_file():
            try:
                return cls(**read_json(folder / CODE_FILE, "the step `repro` writes it"))
            except TypeError:
                raise DataError(
                    f"{folder / CODE_FILE} does not say which code this is.", "Remove the workspace."
                ) from None
        lock = settings().project / "uv.lock"
        return cls(
            git_commit=commit or describe_commit(folder),
            digest=digest_code(folder),
            uv_lock=sha256(lock) if lock.is_file() else "",
            versions=find_library_versions(),
        )


def digest_code(folder: Path) -> str:
    """SHA-256 of what `Code.digest` is of. Bytecode does not count, nor do parameters: they are told apart."""
    told = hashlib.sha256()
    for top in CODE_PATHS:
        for path in sorted([folder / top, *(folder / top).rglob("*")]):
            if path.is_file() and top != PARAMS_FILE and "__pycache__" not in path.parts:
                told.update(f"{path.relative_to(folder)}\0{sha256(path)}\n".encode())
    return told.hexdigest()


def find_library_versions() -> dict[str, str]:
    """Name to version of Python and of those of `PACKAGES` that are installed."""
    return {"python": platform.python_version(), **find_versions(PACKAGES)}


def check_out(folder: Path, commit: str = "") -> Code:
    """`folder` holds the project's code, and code.json says which. What else is in the folder stays.

    The commit is `commit`, or LEEWAY_GIT_COMMIT where the repository has it, or HEAD. A working tree that differs from
    HEAD is copied on top, and marked dirty. The caller holds the folder.

    Raises:
        SpecError: the project lacks a file, or the repository the commit.
        StorageError: no space.
    """
    at, name = _choose_commit(settings().project, commit)
    try:
        _prepare_worktree(folder, at) if at else folder.mkdir(parents=True, exist_ok=True)
    except GitError as error:
        if any(text in str(error) for text in NO_SPACE_TEXTS):
            raise StorageError(str(error), "Free some and run it again.") from None
        raise InvalidError(f"git could not put commit {at} into {folder}: {error}.") from None
    if not at or name.endswith(DIRTY):
        _copy_project(folder)
    code = Code.of(folder, name)
    write_json(folder / CODE_FILE, asdict(code))
    return code


def _choose_commit(project: Path, commit: str) -> tuple[str, str]:
    """The commit to check out, empty for a copy; and the name of what will be there."""
    if not is_repository(project):
        if commit:
            raise SpecError(f"commit {commit} was asked for, and {project} is no git repository.")
        return "", describe_commit(project)
    head, told = resolve_commit(project, "HEAD"), commit or describe_commit(project).removesuffix(DIRTY)
    at = resolve_commit(project, told)
    if not at and commit:
        raise SpecError(f"the repository {project} has no commit {commit}.", "Fetch it.")
    if not at:
        return "", describe_commit(project)
    dirty = not commit and at == head and has_changes(project, CODE_PATHS)
    return at, f"{at}{DIRTY}" if dirty else at


def _prepare_worktree(folder: Path, commit: str) -> None:
    """`folder` is a worktree at the commit. One that is there keeps its dvc.lock, and what git does not know."""
    if (folder / ".git").is_file() and (folder / CODE_FILE).is_file():
        try:
            _move_worktree(folder, commit)
        except GitError:  # half of a worktree, or one whose repository is gone
            shutil.rmtree(folder)
    elif folder.exists():
        shutil.rmtree(folder)
    if not folder.exists():
        # git's own locks do not make concurrent `worktree add` safe: two of them may choose one name.
        with hold_lock(lock_path(settings().project)):
            run_git(settings().project, "worktree", "prune")
            # Twice: over one that was killed while it was made, which git keeps locked.
            force = ("--force", "--force")
            run_git(settings().project, "worktree", "add", "--quiet", *force, "--detach", str(folder), commit)
        (folder / "dvc.lock").unlink(missing_ok=True)


def _move_worktree(folder: Path, commit: str) -> None:
    lock = folder / "dvc.lock"
    kept = lock.read_bytes() if lock.is_file() else None
    run_git(folder, "checkout", "--quiet", "--force", "--detach", commit)
    run_git(folder, "clean", "--quiet", "-fd", "--", *CODE_PATHS)
    lock.unlink(missing_ok=True)
    if kept is not None:
        lock.write_bytes(kept)


def _copy_project(folder: Path) -> None:
    ignore = shutil.ignore_patterns("__pycache__")
    for name in CODE_PATHS:
        source, target = settings().project / name, folder / name
        if not source.exists():
            raise SpecError(f"{settings().project} has no {name}.", "Set LEEWAY_PROJECT to the project's folder.")
        if source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target, ignore=ignore)
        else:
            shutil.copy2(source, target)
    if (settings().project / DVCIGNORE).is_file():
        shutil.copy2(settings().project / DVCIGNORE, folder)
