"""Copy drydock's stand-alone programs into the folder tree of a host, where they run without drydock."""

import shutil
from pathlib import Path
from types import ModuleType

from drydock.host import library_imports, model_code, request_context

# What the programs import in addition to the standard library, copied under the full module names.
_MODULES = (library_imports, model_code, request_context)
_PACKAGE = Path("drydock") / "host"


def copy_program(program: ModuleType, code: Path, name: str) -> None:
    """Copy a program and what it imports into the code folder of a host.

    Args:
        program: The program's module.
        code: The folder. Python finds the imports there, since it is the folder of the program's file.
        name: Name of the program's file.

    Raises:
        OSError: The disk is full or not writable. A retry can help.
    """
    package = code / _PACKAGE
    package.mkdir(parents=True, exist_ok=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    for module in _MODULES:
        shutil.copyfile(str(module.__file__), package / Path(str(module.__file__)).name)
    shutil.copyfile(str(program.__file__), code / name)
