"""List the modules of libraries that a program has imported, and import them in another process ahead of time.

A stand-alone program imports this module: both are copied into a host's folder tree by `programs.copy_program`. It
needs only the standard library, since it may run in a container.
"""

import importlib
import json
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from types import ModuleType


def write_imports(path: Path, known_names: Collection[str], folder: Path) -> None:
    """Write the names of the modules that a program has imported, in the order of their import.

    Write nothing if all of them belong to the standard library. The file is complete when it exists.

    Args:
        path: The file.
        known_names: Names of the modules that were imported when the program began.
        folder: The folder of the program's own code, whose modules are left out.
    """
    names = [
        name
        for name, module in sys.modules.copy().items()
        if name not in known_names and name != "__main__" and _is_outside(module, str(folder))
    ]
    standard_names = getattr(sys, "stdlib_module_names", ())
    if all(name.partition(".")[0] in standard_names for name in names):
        return
    part = path.with_suffix(".part")
    part.write_text(json.dumps(names), encoding="utf-8")
    part.replace(path)


def read_imports(path: Path) -> list[str]:
    """Return the names of modules that `write_imports` wrote."""
    return [str(name) for name in json.loads(path.read_text(encoding="utf-8"))]


def import_modules(names: Sequence[str]) -> None:
    """Import modules. One that cannot be imported is left out: the program imports it again when it needs it."""
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            print(f"{name} was not imported ahead of time: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201


def _is_outside(module: ModuleType, folder: str) -> bool:
    """Return whether a module was loaded from outside of a folder; False if it is not known where it comes from."""
    spec = getattr(module, "__spec__", None)
    if spec is None:
        return False
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    return bool(places) and not any(str(place).startswith(f"{folder}/") for place in places)
