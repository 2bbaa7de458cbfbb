"""Write ui/documents.schema.json, the JSON schema of the documents that Leeway's page shows.

`npm --prefix ui run types` writes ui/src/documents/types.ts, the TypeScript types, from this file.
"""

from __future__ import annotations

import json
from pathlib import Path

from pydantic.json_schema import models_json_schema

from pipelines.status.documents.costs import CostDocument
from pipelines.status.documents.data import DatasetDetails
from pipelines.status.documents.jobs import RunningJobs
from pipelines.status.documents.json_object import SCHEMA_VERSION
from pipelines.status.documents.model import ModelDetails
from pipelines.status.documents.models import ModelList

SCHEMA = Path(__file__).parents[1] / "ui/documents.schema.json"
DOCUMENTS = (ModelList, ModelDetails, DatasetDetails, CostDocument, RunningJobs)


def render_schema() -> str:
    """Return the text of the file: one schema, whose definitions are all JSON objects of the documents."""
    _, schema = models_json_schema([(document, "serialization") for document in DOCUMENTS])
    properties = {document.__name__: {"$ref": f"#/$defs/{document.__name__}"} for document in DOCUMENTS}
    # The version as a constant lets the compiler, and the page, tell documents of another version apart.
    for document in DOCUMENTS:
        schema["$defs"][document.__name__]["properties"]["schema_version"]["const"] = SCHEMA_VERSION
    whole_schema = {
        "title": "Documents",
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        **schema,
    }
    return json.dumps(whole_schema | {"additionalProperties": False}, indent=1) + "\n"


def main() -> None:
    """Write the file."""
    SCHEMA.write_text(render_schema(), encoding="utf-8")


if __name__ == "__main__":
    main()
