"""Define the fields and rules that all documents of Leeway's page share."""

from __future__ import annotations

import datetime as dt

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 1
"""Version of the documents. The page refuses a document of another version.

A field that is added without a default changes the version, because older documents lack it."""


class Message(BaseModel):
    """A part of a document. Fields that are not declared, and numbers that JSON does not have, are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


class Document(Message):
    """A file that the page reads."""

    schema_version: int = SCHEMA_VERSION
    """Version of the document's form."""
    written_at: dt.datetime
    """When the document was written, UTC."""
