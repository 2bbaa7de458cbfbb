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
"""A link to a file, in Markdown: its text and its path. A link to a web page, and an image, do not match."""
pages: dict[str, str] = {}
"""The text of each generated page of this build, by its path below docs/."""


def on_config(config: Any) -> None:
    """Generate the reference, and replace each folder in the navigation by the list of its pages."""
    pages.clear()
    pages.update(build_pages(ROOT))
    docs = Path(config["docs_dir"])
    paths = [*pages, *(str(path.relative_to(docs)) for path in docs.rglob("*.md"))]
    config["nav"] = expand_folders(config["nav"], paths)


def expand_folders(nav: Any, paths: list[str]) -> Any:
    """Return the navigation with each folder (such as "reference/steps/") replaced by its pages, the index first.

    Args:
        nav: MkDocs' navigation: a path, a mapping of a title to a navigation, or a list of navigations.
        paths: paths of all pages, relative to docs/.
    """
    if isinstance(nav, list):
        return [expand_folders(entry, paths) for entry in nav]
    if isinstance(nav, dict):
        return {title: expand_folders(entry, paths) for title, entry in nav.items()}
    if nav.endswith("/"):
        return sorted((path for path in paths if posixpath.dirname(path) + "/" == nav), key=_build_sort_key)
    return nav


def on_files(files: Any, config: Any) -> None:
    """Add the generated pages to those of docs/."""
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace links to files outside docs/, which the site does not have, by the files' paths."""
    return replace_outside_links(markdown, page.file.src_uri)


def replace_outside_links(markdown: str, page: str) -> str:
    """Return the page's text, in which the link's text and the file's path replace each link to a file outside docs/.

    If the path contains the link's text, the path alone replaces the link.

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


def _build_sort_key(path: str) -> tuple[bool, str]:
    return posixpath.basename(path) not in {"index.md", "README.md"}, path
