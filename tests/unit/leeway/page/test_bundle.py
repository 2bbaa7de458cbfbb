"""Test that the committed bundle of the page is the one that its sources give.

The tests need no Node: `npm --prefix ui run build` writes the digests of the sources and of the bundle beside it.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
STATIC = Path("plugins/leeway/page/static")
BUILD_FILES = {"build.mjs", "package-lock.json", "package.json", "tsconfig.json"}
BUILD = "npm --prefix ui ci && npm --prefix ui run build"


def list_stale_files(root: Path) -> list[str]:
    """List the sources that were changed, added or removed after the build, and the bundle if it is another one."""
    ui, static = root / "ui", root / STATIC
    lines = (static / "sources.sha256").read_text(encoding="utf-8").splitlines()
    digests = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    sources = {path.relative_to(ui).as_posix(): path for path in (ui / "src").rglob("*") if path.is_file()}
    files = sources | {name: ui / name for name in BUILD_FILES} | {"leeway.js": static / "leeway.js"}
    found = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    return sorted(name for name in digests.keys() | found.keys() if digests.get(name) != found.get(name))


def test_bundle_is_not_older_than_its_sources():
    assert list_stale_files(ROOT) == [], f"run `{BUILD}`"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of the sources and of the bundle."""
    shutil.copytree(ROOT / STATIC, tmp_path / STATIC)
    shutil.copytree(ROOT / "ui/src", tmp_path / "ui/src")
    for name in BUILD_FILES:
        shutil.copy(ROOT / "ui" / name, tmp_path / "ui" / name)
    return tmp_path


def test_changes_after_the_build_are_found(checkout: Path):
    assert list_stale_files(checkout) == []
    (checkout / "ui/src/app.tsx").write_text("changed", encoding="utf-8")
    (checkout / "ui/src/new.ts").write_text("added", encoding="utf-8")
    (checkout / "ui/src/index.tsx").unlink()
    (checkout / STATIC / "leeway.js").write_text("edited by hand", encoding="utf-8")
    assert list_stale_files(checkout) == ["leeway.js", "src/app.tsx", "src/index.tsx", "src/new.ts"]


def test_bundle_renders_no_html_and_has_its_licenses():
    bundle = (ROOT / STATIC / "leeway.js").read_text(encoding="utf-8")
    assert "dangerouslySetInnerHTML" not in bundle
    assert "sourceMappingURL" not in bundle
    licenses = (ROOT / STATIC / "leeway.licenses.txt").read_text(encoding="utf-8")
    assert "@observablehq/plot" in licenses and "d3-scale" in licenses
