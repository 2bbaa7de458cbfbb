"""Add the generated reference to the documentation's site: hooks that MkDocs calls (mkdocs.yml)."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from tools.reference import build_pages  # noqa: E402

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s:]+)(?:#[^)]*)?\)")
pages: dict[str, str] = {}
"""The generated pages of this build, by path below docs/."""


def on_config(config: Any) -> None:
    """Generate the reference, and put the pages of each folder that the navigation names in its place."""
    pages.clear()
    pages.update(build_pages(ROOT))
    docs = Path(config["docs_dir"])
    paths = [*pages, *(str(path.relative_to(docs)) for path in docs.rglob("*.md"))]
    config["nav"] = expand(config["nav"], paths)


def expand(nav: Any, paths: list[str]) -> Any:
    """Return the navigation with each folder ("reference/steps/") replaced by the list of its pages.

    Args:
        nav: MkDocs' navigation: lists, mappings of one title, paths.
        paths: all pages, below docs/.
    """
    if isinstance(nav, list):
        return [expand(part, paths) for part in nav]
    if isinstance(nav, dict):
        return {title: expand(part, paths) for title, part in nav.items()}
    if nav.endswith("/"):
        return sorted((path for path in paths if posixpath.dirname(path) + "/" == nav), key=_index_first)
    return nav


def on_files(files: Any, config: Any) -> None:
    """Add the generated pages to those of docs/."""
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Write links to files outside of docs/ as names: the site does not have these files."""
    return name_files_outside(markdown, page.file.src_uri)


def name_files_outside(markdown: str, page: str) -> str:
    """Return the text with each link that leaves docs/ replaced by the file's path in the repository.

    Args:
        markdown: text of a page.
        page: the page's path below docs/.
    """

    def replace(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link[2]))
        if path.startswith("docs/"):
            return link[0]
        return f"`{path}`" if link[1].strip("`") in path else f"{link[1]} (`{path}`)"

    return LINK.sub(replace, markdown)


def _index_first(path: str) -> tuple[bool, str]:
    return posixpath.basename(path) not in {"index.md", "README.md"}, path
