"""Find out whether the packages that Python imports as `pipelines`, `drydock` and `stack` are Leeway's own.

These names are not reserved: a project can have a package or a module of its own with such a name. If Python finds
that package first, Leeway does not run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

MARKERS = {"drydock": "moto_registry.py", "pipelines": "code_files.py", "stack": "layout.py"}
"""For each package, a file that only Leeway's own package has."""


class ForeignPackageError(ImportError):
    """Python finds a package of another owner first."""


def require_package(name: str, folders: Sequence[str] | None = None) -> None:
    """Check that the first package of this name is Leeway's. It is no error if there is no such package.

    Args:
        name: pipelines, drydock or stack.
        folders: folders to search; by default those of `sys.path`.

    Raises:
        ForeignPackageError: the first package of this name belongs to another owner. A retry cannot help.
    """
    location = _locate(PathFinder.find_spec(name, list(sys.path if folders is None else folders)))
    if location and not (location.name == name and (location / MARKERS[name]).is_file()):
        raise ForeignPackageError(
            f"{location} hides Leeway's package {name!r}: Python finds it first. Rename it, or remove its folder from "
            "Python's path. `python -m` puts the working directory first on this path."
        )


def _locate(spec: ModuleSpec | None) -> Path | None:
    """Return the folder of a package, or the file of a module; None if there is neither.

    A folder without __init__.py does not count. Python uses it only if no other folder has a package of this name.
    """
    if spec is None or not spec.origin:
        return None
    return Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)
