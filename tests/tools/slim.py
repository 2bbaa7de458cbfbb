"""Write an interpreter that can import only what the packages of one image are."""

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
# Python imports sitecustomize at its start. A module that this code refuses seems not to be installed.
SITE_CODE = """
import json, pathlib, sys

class AbsentModules:
    names = frozenset(json.loads(pathlib.Path(__file__).with_name("absent.json").read_text()))

    def find_spec(self, name, path=None, target=None):
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}: not in this image", name=name)

sys.meta_path.insert(0, AbsentModules())
"""
SHELL_SCRIPT = """#!/bin/sh
# The interpreter of another image: it must not inherit this image's PYTHONPATH.
PYTHONPATH={site}:{root} exec {python} "$@"
"""


IMAGES: dict[str, tuple[list[str], list[str]]] = {
    "base": ([], []),
    "airflow": (["airflow"], ["compose"]),
    "pipelines": (["pipelines"], []),
    "drydock": (["drydock"], []),
    "training": (["training"], []),
}
"""The images of the Dockerfile, with the extras and dependency groups of each; `base` is no image, and has no extra."""


def list_installed(image: str) -> set[str]:
    """List the distributions of an image of the Dockerfile on this machine, by uv.lock."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    packages = {package["name"]: package for package in lock["package"]}
    project, (extras, groups) = packages["leeway"], IMAGES[image]
    requirements = [item for extra in ["", *extras] for item in _list_requirements(project, extra)]
    requirements += [item for group in groups for item in _select_applicable(project["dev-dependencies"][group])]
    queue = [(requirement["name"], extra) for requirement in requirements for extra in _list_extras(requirement)]
    visited: set[tuple[str, str]] = set()
    while queue:
        name, extra = item = queue.pop()
        if item in visited:
            continue
        visited.add(item)
        requirements = _list_requirements(packages[name], extra)
        queue += [(requirement["name"], extra) for requirement in requirements for extra in _list_extras(requirement)]
    return {name for name, _ in visited}


def _list_requirements(package: dict[str, Any], extra: str) -> Iterator[dict[str, Any]]:
    return _select_applicable(
        package.get("optional-dependencies", {}).get(extra, []) if extra else package.get("dependencies", [])
    )


def _select_applicable(requirements: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Return the requirements whose markers are true on this machine."""
    return (item for item in requirements if "marker" not in item or Marker(item["marker"]).evaluate())


def _list_extras(requirement: dict[str, Any]) -> list[str]:
    return ["", *requirement.get("extra", [])]


def list_absent_modules(image: str) -> list[str]:
    """List the modules of this environment that an image does not have."""
    installed = list_installed(image) | {"leeway", "pip", "setuptools", "wheel"}
    owners = packages_distributions().items()
    return sorted(module for module, names in owners if not {canonicalize_name(name) for name in names} & installed)


def write_site(folder: Path, image: str) -> Path:
    """Write a folder that hides all modules but the image's where it is first in PYTHONPATH, and return it."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SITE_CODE)
    (folder / "absent.json").write_text(json.dumps(list_absent_modules(image)))
    return folder


def write_interpreter(folder: Path, image: str) -> Path:
    """Write an executable that is the interpreter of an image, and return its path."""
    path = folder / f"python-{image}"
    path.write_text(
        SHELL_SCRIPT.format(site=write_site(folder / f"site-{image}", image), root=ROOT, python=sys.executable)
    )
    path.chmod(0o755)
    return path
