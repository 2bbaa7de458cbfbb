"""Which code this is, and its files at a commit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

DIRTY = "-dirty"


class GitError(Exception):
    """git is not installed, or refused; the text is its own."""


def describe_commit(folder: Path) -> str:
    """The git commit of `folder`, with '-dirty' where tracked files differ from it.

    LEEWAY_GIT_COMMIT names it where the code is deployed without its repository; else 'unknown'.
    """
    given = os.environ.get("LEEWAY_GIT_COMMIT")
    if given:
        return given
    try:
        return run_git(folder, "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*")
    except GitError:
        return "unknown"


def is_repository(folder: Path) -> bool:
    """Whether `folder` is the top of a git repository."""
    try:
        return Path(run_git(folder, "rev-parse", "--show-toplevel")).resolve() == folder.resolve()
    except GitError:
        return False


def resolve_commit(folder: Path, name: str) -> str:
    """The commit that `name` (hash, tag, branch) stands for in the repository of `folder`; empty where none is."""
    try:
        return run_git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except GitError:
        return ""


def has_changes(folder: Path, paths: Sequence[str]) -> bool:
    """Whether files below `paths` differ from the commit, new ones among them."""
    return bool(run_git(folder, "status", "--porcelain", "--", *paths))


def lock_path(folder: Path) -> Path:
    """A file, one for all that share the repository of `folder`, to lock while its worktrees change."""
    return Path(run_git(folder, "rev-parse", "--path-format=absolute", "--git-common-dir")) / "leeway.lock"


def run_git(folder: Path, *arguments: str) -> str:
    """What `git ARGUMENTS` prints in `folder`.

    Raises:
        GitError: it failed.
    """
    # Of a git that calls us (a hook), not of `folder`.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True, text=True, errors="replace", timeout=300, check=True, env=environment,
        )  # fmt: skip
    except subprocess.CalledProcessError as error:
        raise GitError(error.stderr.strip() or f"git {arguments[0]} failed") from None
    except (OSError, subprocess.SubprocessError) as error:
        raise GitError(str(error)) from None
    return done.stdout.strip()
