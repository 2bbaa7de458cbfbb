"""Build Leeway's wheel, and install it apart from the checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("pipelines", "drydock", "stack", "plugins", "pyproject.toml", "README.md", "LICENSE")
"""The parts of the checkout that the wheel is built from."""
# The environment of the tests has an editable Leeway: a file .pth in it adds the checkout to Python's path.
HIDE_CHECKOUT = f"""
import sys
sys.path[:] = [folder for folder in sys.path if folder not in ({str(ROOT)!r}, {str(ROOT / "plugins")!r})]
"""
SHELL_SCRIPT = """#!/bin/sh
PYTHONPATH={path} exec {python} "$@"
"""


def find_uv() -> str:
    """Return the path of the checkout's uv, or of the system's; skip the test where there is none."""
    uv = ROOT / ".leeway/uv/bin/uv"
    path = str(uv) if uv.exists() else shutil.which("uv")
    if not path:
        pytest.skip("uv is missing: `make setup` installs it")
    return path


def run_uv(*arguments: str, cwd: Path | None = None) -> str:
    """Run uv and return what it writes to stdout; a test whose uv fails shows both outputs.

    In a working directory inside the checkout, uv would apply the overrides of pyproject.toml, which no wheel has.
    """
    command = [find_uv(), *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    environment |= {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_CONFIG": "1"}
    process = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, f"{' '.join(arguments)}\n{process.stdout[-2_000:]}\n{process.stderr[-4_000:]}"
    return process.stdout


def build_wheel(folder: Path, version: str = "") -> Path:
    """Build the wheel of the checkout in `folder`, without the network; with another version, if one is given.

    `make setup` has put the build backend into uv's cache.
    """
    source = ROOT
    if version:
        source = folder / "source"
        source.mkdir(parents=True)
        for name in PARTS:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
            copy(ROOT / name, source / name)
        for path in ("pyproject.toml", "pipelines/__init__.py", "plugins/leeway/__init__.py", "drydock/__init__.py"):
            text = (source / path).read_text()
            (source / path).write_text(re.sub(r'(?m)^(__)?version(__)? = ".*"', f'\\1version\\2 = "{version}"', text))
    run_uv(
        "build", "--quiet", "--offline", "--wheel", "--python", sys.executable, "--out-dir", str(folder), str(source)
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def install_apart(wheel: Path, folder: Path) -> Path:
    """Install the wheel, without what it needs, into a folder that is not an environment; return the folder."""
    run_uv("pip", "install", "--quiet", "--offline", "--no-deps", "--target", str(folder), str(wheel))
    (folder / "sitecustomize.py").write_text(HIDE_CHECKOUT)
    return folder


def write_interpreter(path: Path, site: Path) -> Path:
    """Write an executable that is Python with this Leeway and with the packages of the tests; return its path."""
    path.write_text(SHELL_SCRIPT.format(path=site, python=sys.executable))
    path.chmod(0o755)
    return path
