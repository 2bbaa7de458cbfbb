"""The views of Leeway's page, and changes of the documents that they show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

VIEWS = {
    "models": ("", "20 models"),
    "model": ("/models/flights", "Would drift start a training?"),
    "data": ("/data/flights", "Partitions"),
    "costs": ("/costs", "Costs by month"),
}
"""View to its path, and a text that is there when it is complete."""


def wait_for_view(page: Any, view: str) -> None:
    """Wait until a view is complete in the browser."""
    page.get_by_text(VIEWS[view][1]).first.wait_for()


def edit_document(status: Path, name: str, **values: Any) -> None:
    """Change fields of a document in the folder of the documents."""
    path = status / name
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
