"""Where rows come from: files and object stores, databases, HTTP APIs, each read in batches.

Only what a source is (`source`) is loaded by importing the package; a kind of source when it is first named.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pipelines.source import ChangingSource, Description, Source

if TYPE_CHECKING:
    from pipelines.ingestion.sources.api import HttpChanges, HttpSource
    from pipelines.ingestion.sources.database import SqlChanges, SqlSource
    from pipelines.ingestion.sources.files import FileSource
    from pipelines.ingestion.sources.pages import CursorToken, LinkHeader, Offset, OnePage, PageNumber

__all__ = [
    "ChangingSource",
    "CursorToken",
    "Description",
    "FileSource",
    "HttpChanges",
    "HttpSource",
    "LinkHeader",
    "Offset",
    "OnePage",
    "PageNumber",
    "Source",
    "SqlChanges",
    "SqlSource",
]

_HOMES = {
    "FileSource": "files",
    **dict.fromkeys(("SqlSource", "SqlChanges"), "database"),
    **dict.fromkeys(("HttpSource", "HttpChanges"), "api"),
    **dict.fromkeys(("OnePage", "PageNumber", "Offset", "CursorToken", "LinkHeader"), "pages"),
}


def __getattr__(name: str) -> Any:
    """A kind of source, loaded now."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"pipelines.ingestion.sources.{_HOMES[name]}"), name)
