"""An interpreter that has what one group of pyproject.toml installs, and nothing else of this environment."""

import json
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
# The interpreter imports it by itself, before all else; a module that it refuses looks as if it were not installed.
SITE = """
import json, pathlib, sys

class Absent:
    names = frozenset(json.loads(pathlib.Path(__file__).with_name("absent.json").read_text()))

    def find_spec(self, name, path=None, target=None):
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}: not in this image", name=name)

sys.meta_path.insert(0, Absent())
"""
SHELL = """#!/bin/sh
# The interpreter of another image: nothing of the first one's applies there.
PYTHONPATH={site}:{root} exec {python} "$@"
"""


def installed(group: str) -> set[str]:
    """The distributions that `uv sync --only-group GROUP` installs here, by uv.lock."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    packages = {one["name"]: one for one in lock["package"]}
    wanted = [(one["name"], extra) for one in _group(packages["leeway"], group) for extra in _extras(one)]
    found: set[tuple[str, str]] = set()
    while wanted:
        name, extra = one = wanted.pop()
        if one in found:
            continue
        found.add(one)
        wanted += [(needed["name"], more) for needed in _needs(packages[name], extra) for more in _extras(needed)]
    return {name for name, _ in found}


def _group(project: dict[str, Any], group: str) -> Iterator[dict[str, Any]]:
    return _applying(project["dev-dependencies"][group])


def _needs(package: dict[str, Any], extra: str) -> Iterator[dict[str, Any]]:
    return _applying(
        package.get("optional-dependencies", {}).get(extra, []) if extra else package.get("dependencies", [])
    )


def _applying(needed: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (one for one in needed if "marker" not in one or Marker(one["marker"]).evaluate())


def _extras(needed: dict[str, Any]) -> list[str]:
    return ["", *needed.get("extra", [])]


def absent(group: str) -> list[str]:
    """The modules of this environment that an image of the group alone does not have."""
    there = installed(group) | {"leeway", "pip", "setuptools", "wheel"}
    owners = packages_distributions().items()
    return sorted(module for module, names in owners if not {canonicalize_name(one) for one in names} & there)


def site(folder: Path, group: str) -> Path:
    """The folder that makes each interpreter slim that has it first in its PYTHONPATH."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SITE)
    (folder / "absent.json").write_text(json.dumps(absent(group)))
    return folder


def interpreter(folder: Path, group: str) -> Path:
    """The interpreter of the group's image: an executable, whoever asks for it."""
    path = folder / f"python-{group}"
    path.write_text(SHELL.format(site=site(folder / f"site-{group}", group), root=ROOT, python=sys.executable))
    path.chmod(0o755)
    return path
