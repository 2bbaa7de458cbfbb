"""Describe the installed Leeway, for a project that has no copy of Leeway's code.

The stages of such a project cannot depend on the files of the code. They depend on leeway.lock instead, which names the
version of Leeway and a digest of its code.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import yaml

from pipelines import __version__
from pipelines.code_files import CODE_FOLDER
from pipelines.system.files import replace_file, sha256

LOCK_FILE = "leeway.lock"
"""File in a project. It describes the version of Leeway that computed the outputs of the project's stages."""
COMMENT = "# The installed Leeway; the stages depend on it. `python -m pipelines code lock` writes this file.\n"


def digest_installed_code() -> str:
    """Return the SHA-256 over names and contents of the installed package `pipelines`, without bytecode."""
    digest = hashlib.sha256()
    for path in sorted((CODE_FOLDER / "pipelines").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(CODE_FOLDER)}\0{sha256(path)}\n".encode())
    return digest.hexdigest()


def write_lock_file(folder: Path) -> Path:
    """Write leeway.lock to a folder, and return its path. A file with the same content is kept. Idempotent."""
    path, description = folder / LOCK_FILE, {"version": __version__, "digest": digest_installed_code()}
    content = COMMENT + yaml.safe_dump(description, sort_keys=False)
    if not path.is_file() or path.read_bytes() != content.encode():
        with replace_file(path) as temporary:
            temporary.write_text(content, encoding="utf-8")
    return path
