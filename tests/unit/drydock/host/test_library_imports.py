"""Test the list of the libraries that a program has imported, in new processes."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[4]
RECORD = """
import sys
from pathlib import Path
from drydock.host.library_imports import write_imports
known = frozenset(sys.modules)
folder = Path(sys.argv[1])
sys.path[:0] = [str(folder / "own"), str(folder / "library")]
import json, wave
{imports}
write_imports(folder / "imports.json", known, folder / "own")
"""
REPEAT = """
import sys
from pathlib import Path
from drydock.host.library_imports import import_modules, read_imports
folder = Path(sys.argv[1])
sys.path.insert(0, str(folder / "library"))
names = read_imports(folder / "imports.json")
import_modules([*names[:1], "broken", *names[1:]])
print(*(name for name in names if name in sys.modules))
"""


def write_modules(folder: Path) -> None:
    for name, text in {
        "own/mine.py": "import parts.inner",
        "library/parts/__init__.py": "",
        "library/parts/inner.py": "",
        "library/broken.py": "1 / 0",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def run(program: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", program, str(folder)], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )


def test_libraries_are_imported_again_and_own_modules_are_not(tmp_path: Path) -> None:
    write_modules(tmp_path)
    run(RECORD.format(imports="import mine"), tmp_path)
    result = run(REPEAT, tmp_path)
    names = result.stdout.split()
    assert names[-2:] == ["parts", "parts.inner"] and "wave" in names and "mine" not in names
    assert "broken was not imported ahead of time: ZeroDivisionError: division by zero" in result.stderr


def test_program_without_libraries_writes_no_file(tmp_path: Path) -> None:
    write_modules(tmp_path)
    run(RECORD.format(imports=""), tmp_path)
    assert not (tmp_path / "imports.json").exists()
    run(RECORD.format(imports="import parts"), tmp_path)
    assert (tmp_path / "imports.json").exists()
