"""Which code this is."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def commit_of(folder: Path) -> str:
    """The git commit of `folder`, with '-dirty' where tracked files differ from it.

    LEEWAY_GIT_COMMIT names it where the code is deployed without its repository; else 'unknown'.
    """
    given = os.environ.get("LEEWAY_GIT_COMMIT")
    if given:
        return given
    try:
        command = ["git", "-C", str(folder), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
        found = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return found.stdout.strip()
