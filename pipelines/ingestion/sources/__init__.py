"""Read rows in batches from sources: files on this machine, in an object store or on the web, databases, HTTP APIs.

Importing the package loads the protocols only. Every other class or function is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pipelines.source import ChangingSource, Description, Source

if TYPE_CHECKING:
    from pipelines.ingestion.sources.addresses import read_address
    from pipelines.ingestion.sources.database.sql_source import SqlChanges, SqlSource
    from pipelines.ingestion.sources.files.file_source import FileSource
    from pipelines.ingestion.sources.true_false import TrueFalse
    from pipelines.ingestion.sources.web.api import HttpChanges, HttpSource
    from pipelines.ingestion.sources.web.pages import CursorToken, LinkHeader, Offset, OnePage, PageNumber

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
    "TrueFalse",
    "read_address",
]

_MODULES = {
    "read_address": "addresses",
    "FileSource": "files.file_source",
    "TrueFalse": "true_false",
    **dict.fromkeys(("SqlSource", "SqlChanges"), "database.sql_source"),
    **dict.fromkeys(("HttpSource", "HttpChanges"), "web.api"),
    **dict.fromkeys(("OnePage", "PageNumber", "Offset", "CursorToken", "LinkHeader"), "web.pages"),
}
"""Maps each name that is loaded when it is first used to the module that defines it."""


def __getattr__(name: str) -> Any:
    """Return the object with this name; import its module first."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"pipelines.ingestion.sources.{_MODULES[name]}"), name)
