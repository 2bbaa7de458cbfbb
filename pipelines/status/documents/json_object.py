"""Define the fields and rules that all documents of Leeway's page share."""

from __future__ import annotations

import datetime as dt

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 1
"""Version of the documents. The page refuses a document of another version.

Increase it when a field without a default is added, because older documents lack that field."""


class JsonObject(BaseModel):
    """A JSON object of a document. Undeclared fields, NaN and infinite numbers are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


class Document(JsonObject):
    """The JSON object of a whole file that the page reads."""

    schema_version: int = SCHEMA_VERSION
    """Version of the document's schema."""
    written_at: dt.datetime
    """When the document was written, UTC."""
