"""Put the project's code into a folder of its own: a git worktree at a commit, or a copy if there is no git."""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from pipelines.code_files import MODELS_FOLDER, PARAMS_FILE, has_own_code, list_dataset_paths_in_project
from pipelines.errors import DataError, InvalidError, SpecError, StorageError
from pipelines.settings import settings
from pipelines.system.error_translation import NO_SPACE_TEXTS
from pipelines.system.files import read_json, sha256, write_json
from pipelines.system.locks import hold_lock
from pipelines.system.log import log
from pipelines.system.packages import find_versions
from pipelines.versioning.git import (
    CODE_FILE,
    DIRTY,
    GitError,
    describe_commit,
    get_worktree_lock_path,
    has_changes,
    is_repository,
    resolve_commit,
    run_git,
)
from pipelines.versioning.installed_code import digest_installed_code, write_lock_file

REQUIRED_PATHS = ("expectations", "dvc.yaml", PARAMS_FILE)
"""Parts that every project has."""
CODE_PATHS = ("pipelines", *REQUIRED_PATHS)
"""Parts that are copied, if the project has them. A change in one of them makes the code dirty."""
COMMIT_HASH = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
"""Full hash of a commit (SHA-1 or SHA-256). Of Airflow's DAG bundles, only GitDagBundle has such a version."""
DVCIGNORE = ".dvcignore"
MODEL_FILES = f"{MODELS_FOLDER}/*/{PARAMS_FILE}"
"""Pattern of the files with the parameters of a project's models."""
PACKAGES = (
    *("duckdb", "dvc", "ibis-framework", "leeway", "mlflow", "numpy", "pandas", "pyarrow", "pyiceberg", "pyspark"),
    *("scikit-learn", "xgboost-cpu"),
)
"""Libraries whose version can change features, a model or its metrics."""


@dataclass(frozen=True)
class Code:
    """The identity of the code, and the versions of its libraries; stored beside the code as code.json."""

    git_commit: str
    """Commit of the code, with '-dirty' if files differ from it; 'unknown' without git."""
    digest: str
    """SHA-256 over names and contents of pipelines/, expectations/, dvc.yaml and the project's own datasets. If the
    project has no copy of Leeway's code, the digest of the installed code is included."""
    uv_lock: str
    """SHA-256 of the project's uv.lock; empty if it has none."""
    versions: Mapping[str, str]
    """Versions of Python and the libraries, by name."""

    @classmethod
    def describe(cls, folder: Path, commit: str = "") -> Self:
        """Describe the code in `folder`. If it has a code.json and no commit is given, return what code.json says.

        Raises:
            DataError: code.json cannot be read. A retry cannot help.
        """
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
    """Return the SHA-256 over the code in `folder`: see `Code.digest`. Bytecode and params.yaml are left out."""
    digest = hashlib.sha256()
    for name in (*CODE_PATHS, *list_dataset_paths_in_project()):
        for path in sorted([folder / name, *(folder / name).rglob("*")]):
            if path.is_file() and name != PARAMS_FILE and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(folder)}\0{sha256(path)}\n".encode())
    if not has_own_code(folder):
        digest.update(digest_installed_code().encode())
    return digest.hexdigest()


def find_library_versions() -> dict[str, str]:
    """Return the versions of Python and of the installed `PACKAGES`, by name."""
    return {"python": platform.python_version(), **find_versions(PACKAGES)}


def check_out(folder: Path, commit: str = "", bundle_version: str = "") -> Code:
    """Put the project's code into `folder`, with code.json. The caller must hold the folder's lock.

    The commit is the first of these that is set: `commit`, the DAG bundle's commit, LEEWAY_GIT_COMMIT, HEAD. If neither
    of the first two is set, the commit is HEAD, and the working tree differs from it, the code of the working tree
    is copied over the commit, and is marked dirty. If there is no repository, or it lacks LEEWAY_GIT_COMMIT, the
    project's files are copied without a check-out. Then code.json has LEEWAY_GIT_COMMIT, if it is set.

    If the project has no copy of Leeway's code, leeway.lock is written, too: it describes the installed code. The
    folder is replaced, unless it is a git worktree already or no commit is checked out: then its other files stay.

    Args:
        folder: folder to write.
        commit: hash, tag or branch; empty: another commit is used, as described above.
        bundle_version: version of the run's DAG bundle. It is used if it is the hash of a commit, and the project is a
            git repository.

    Raises:
        SpecError: the project lacks a file, or the repository lacks the commit. A retry cannot help.
        StorageError: the disk is full. A retry can help.
        InvalidError: git failed. A retry cannot help.
    """
    commit, code_version = _choose_commit(settings().project, commit or _find_commit_of_bundle(bundle_version))
    try:
        if commit:
            _prepare_worktree(folder, commit)
        else:
            folder.mkdir(parents=True, exist_ok=True)
    except GitError as error:
        if any(text in str(error) for text in NO_SPACE_TEXTS):
            raise StorageError(str(error), "Free some space and run it again.") from None
        raise InvalidError(f"git could not check out commit {commit} in {folder}: {error}.") from None
    if not commit or code_version.endswith(DIRTY):
        _copy_project(folder)
    if not has_own_code(folder):
        write_lock_file(folder)
    code = Code.describe(folder, code_version)
    write_json(folder / CODE_FILE, asdict(code))
    log.info("workspace %s: the code is that of commit %s", folder.name, code.git_commit)
    return code


def _find_commit_of_bundle(version: str) -> str:
    """Return the version of a DAG bundle if it is a commit; empty if it is not a commit hash or there is no repository.

    Raises:
        SpecError: the repository lacks the commit. A retry cannot help.
    """
    project = settings().project
    if not version:
        return ""
    if not COMMIT_HASH.fullmatch(version) or not is_repository(project):
        reason = "it is not the hash of a commit" if is_repository(project) else f"{project} is not a git repository"
        log.info("the code is not that of the DAG bundle's version %s: %s", version, reason)
        return ""
    if not resolve_commit(project, version):
        raise SpecError(
            f"the repository {project} has no commit {version}, the version of the run's DAG bundle.",
            "Fetch it. If the DAGs have a repository of their own, set `commit`, for example to HEAD.",
        )
    return version


def _choose_commit(project: Path, commit: str) -> tuple[str, str]:
    """Return the commit to check out, and the value for `Code.git_commit`.

    The commit is empty if the project must be copied: it is not a repository, or lacks LEEWAY_GIT_COMMIT.

    Raises:
        SpecError: a commit is requested, but the project is not a repository or lacks it. A retry cannot help.
    """
    if not is_repository(project):
        if commit:
            raise SpecError(f"commit {commit} is requested, but {project} is not a git repository.")
        return "", describe_commit(project)
    head, requested_name = resolve_commit(project, "HEAD"), commit or describe_commit(project).removesuffix(DIRTY)
    resolved_commit = resolve_commit(project, requested_name)
    if not resolved_commit and commit:
        raise SpecError(f"the repository {project} has no commit {commit}.", "Fetch it.")
    if not resolved_commit:
        return "", describe_commit(project)
    is_dirty = not commit and resolved_commit == head and has_changes(project, _list_git_paths())
    return resolved_commit, f"{resolved_commit}{DIRTY}" if is_dirty else resolved_commit


def _prepare_worktree(folder: Path, commit: str) -> None:
    """Make `folder` a worktree at the commit.

    An existing worktree keeps its dvc.lock, and the untracked files outside `_list_git_paths()`. A folder that is not a
    worktree, or a damaged one, is removed first.
    """
    if (folder / ".git").is_file() and (folder / CODE_FILE).is_file():
        try:
            _update_worktree(folder, commit)
        except GitError:  # the worktree is incomplete, or its repository is gone
            shutil.rmtree(folder)
    elif folder.exists():
        shutil.rmtree(folder)
    if not folder.exists():
        # git's own locks do not make concurrent `worktree add` safe: two of them can choose the same name.
        with hold_lock(get_worktree_lock_path(settings().project)):
            run_git(settings().project, "worktree", "prune")
            # If an earlier `worktree add` was killed, its worktree is still locked; only a double --force unlocks it.
            force = ("--force", "--force")
            run_git(settings().project, "worktree", "add", "--quiet", *force, "--detach", str(folder), commit)
        (folder / "dvc.lock").unlink(missing_ok=True)


def _update_worktree(folder: Path, commit: str) -> None:
    """Check out the commit in an existing worktree, and put its dvc.lock back."""
    lock = folder / "dvc.lock"
    content = lock.read_bytes() if lock.is_file() else None
    run_git(folder, "checkout", "--quiet", "--force", "--detach", commit)
    run_git(folder, "clean", "--quiet", "-fd", "--", *_list_git_paths())
    lock.unlink(missing_ok=True)
    if content is not None:
        lock.write_bytes(content)


def _copy_project(folder: Path) -> None:
    """Copy the code of the project's working tree to `folder`, replacing what is there."""
    for name in REQUIRED_PATHS:
        if not (settings().project / name).exists():
            raise SpecError(f"{settings().project} has no {name}.", "Set LEEWAY_PROJECT to the project's folder.")
    # From models/, only the files of parameters are copied: a model's folder also holds its data.
    model_files = {path.relative_to(root) for root in (folder, settings().project) for path in root.glob(MODEL_FILES)}
    for name in (*CODE_PATHS, *list_dataset_paths_in_project(), *sorted(map(str, model_files))):
        _replace_copy(settings().project / name, folder / name)
    if (settings().project / DVCIGNORE).is_file():
        shutil.copy2(settings().project / DVCIGNORE, folder)


def _replace_copy(source: Path, target: Path) -> None:
    """Replace `target` by a copy of `source`, without bytecode; remove it if there is no such file or folder."""
    if target.is_dir():
        shutil.rmtree(target)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    elif source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
    else:
        target.unlink(missing_ok=True)


def _list_git_paths() -> list[str]:
    """List git's patterns of all code and parameters, including those of the project's own models and datasets."""
    return [*CODE_PATHS, MODEL_FILES, *list_dataset_paths_in_project()]
