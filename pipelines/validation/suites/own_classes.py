"""Load the project's own classes of expectations, from the Python files of expectations/.

They are subclasses of Great Expectations' classes. When such a class is defined, Great Expectations registers it: the
class's name in snake case is the type of its expectations. The files are loaded only if a suite has a type that Great
Expectations does not know.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from pathlib import Path
from types import ModuleType

from great_expectations.expectations import registry

from pipelines.errors import DataError

_PACKAGE = "great_expectations."
_loaded_files: dict[Path, str] = {}
"""Each loaded file, with the SHA-256 of its content when it was loaded."""


def require_class(kind: str, folder: Path, origin: str) -> None:
    """Raise an error if neither Great Expectations nor a Python file of the folder has a class of this type.

    Args:
        kind: type of an expectation, in snake case.
        folder: folder whose Python files are loaded if Great Expectations does not know the type.
        origin: where the expectation is, for the error message.

    Raises:
        DataError: there is no such class, or a file cannot be loaded. A retry cannot help.
    """
    if kind in registry._registered_expectations and not is_own_class(kind):
        return
    for path in sorted(folder.glob("*.py")):
        _load_file(path)
    if kind not in registry._registered_expectations:
        raise DataError(
            f"{origin}: neither Great Expectations nor a Python file of {folder.name}/ has a class for {kind}.",
            f"Correct the type, or define class {kind.title().replace('_', '')} there.",
        )


def is_own_class(kind: str) -> bool:
    """Return whether a class of the project's own has this type."""
    own_class = registry._registered_expectations.get(kind)
    return own_class is not None and not own_class.__module__.startswith(_PACKAGE)


def _load_file(path: Path) -> None:
    """Run a Python file, unless it was loaded with this content before.

    Raises:
        DataError: its code fails, or gives a class the name of one of Great Expectations'. A retry cannot help.
    """
    name = f"{path.parent.name}/{path.name}"
    source = path.read_bytes()
    digest = hashlib.sha256(source).hexdigest()
    if _loaded_files.get(path) == digest:
        return
    classes = dict(registry._registered_expectations)
    module = ModuleType(f"leeway_expectations_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # pydantic looks up the types of fields there
    try:
        # importlib is not used: it would reuse the bytecode of a file that had the same size and time in seconds.
        exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))  # noqa: S102
    except (Exception, SystemExit) as error:  # whatever the code raises
        raise DataError(f"{name} cannot be loaded: {_describe_error(error, path)}.") from None
    for kind, known_class in classes.items():
        if known_class.__module__.startswith(_PACKAGE) and registry._registered_expectations[kind] is not known_class:
            registry._registered_expectations[kind] = known_class
            raise DataError(f"{name} redefines {kind} of Great Expectations.", "Give the class another name.")
    _loaded_files[path] = digest


def _describe_error(error: BaseException, path: Path) -> str:
    """Describe an error, with the number of the last line of the file in its traceback."""
    if isinstance(error, SyntaxError):
        return f"SyntaxError in line {error.lineno}: {error.msg}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{type(error).__name__}{f' in line {lines[-1]}' if lines else ''}: {error}"
