"""Call git: find commits and changes of the code, and run any other git command."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

DIRTY = "-dirty"
"""Suffix of a commit if files differ from it."""
CODE_FILE = "code.json"
"""File of a workspace that describes its code; see `checkouts.Code`."""


class GitError(Exception):
    """git is not installed, or failed. The text is the message of git; without one, it says what went wrong."""


def describe_commit(folder: Path) -> str:
    """Return the git commit of `folder`, with '-dirty' if tracked files differ from it.

    If LEEWAY_GIT_COMMIT is set, it is returned: code that is deployed without its repository needs it. If it is not set
    and git fails, 'unknown' is returned.
    """
    commit = os.environ.get("LEEWAY_GIT_COMMIT")
    if commit:
        return commit
    try:
        return run_git(folder, "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*")
    except GitError:
        return "unknown"


def read_workspace_commit(folder: Path) -> str:
    """Return the commit of a workspace's code, as its code.json says; empty if the folder has none."""
    try:
        return str(json.loads((folder / CODE_FILE).read_text(encoding="utf-8"))["git_commit"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def is_repository(folder: Path) -> bool:
    """Return whether `folder` is the top of a git repository."""
    try:
        return Path(run_git(folder, "rev-parse", "--show-toplevel")).resolve() == folder.resolve()
    except GitError:
        return False


def resolve_commit(folder: Path, name: str) -> str:
    """Return the commit of a hash, tag or branch in the repository of `folder`; empty if there is none."""
    try:
        return run_git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except GitError:
        return ""


def has_changes(folder: Path, paths: Sequence[str]) -> bool:
    """Return whether files below `paths` differ from HEAD, or are not in it."""
    return bool(run_git(folder, "status", "--porcelain", "--", *paths))


def get_worktree_lock_path(folder: Path) -> Path:
    """Return the file to lock while worktrees of the repository are added or removed: one file for all worktrees."""
    return Path(run_git(folder, "rev-parse", "--path-format=absolute", "--git-common-dir")) / "leeway.lock"


def run_git(folder: Path, *arguments: str) -> str:
    """Run `git ARGUMENTS` in `folder` and return what it prints.

    Raises:
        GitError: git is not installed, or failed.
    """
    # If a git hook runs this process, git's variables point to the repository of the hook.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        process = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True, text=True, errors="replace", timeout=300, check=True, env=environment,
        )  # fmt: skip
    except subprocess.CalledProcessError as error:
        raise GitError(error.stderr.strip() or f"git {arguments[0]} failed") from None
    except (OSError, subprocess.SubprocessError) as error:
        raise GitError(str(error)) from None
    return process.stdout.strip()
