"""The reports' pages. What they hold came with the data: Jinja escapes all of it, and no page runs a script."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from pipelines.system.files import replace_file

SIGNS = {"passed": "✓", "failed": "✕", "undecided": "?", "reported": "·"}


def write(
    path: Path,
    verdict: Mapping[str, Any],
    facts: Mapping[str, str],
    pictures: Sequence[Path],
    tables: Mapping[str, pd.DataFrame],
) -> Path:
    """`path` is the page: one file that needs no other and no network. Returns it.

    Args:
        path: to write.
        verdict: as in its file; see `GateResult`.
        facts: what the candidate is, by name.
        pictures: PNGs.
        tables: slices and weeks, by title.
    """
    shown = {title: table.astype(object).where(table.notna(), None) for title, table in tables.items() if len(table)}
    records = {title: table.to_dict("records") for title, table in shown.items()}
    return render(path, "report.html", pictures, verdict=verdict, facts=facts, signs=SIGNS, tables=records)


def render(path: Path, template: str, pictures: Sequence[Path], **values: Any) -> Path:
    """`path` is the template's page with the pictures inside it. Returns it."""
    inside = {one.stem: base64.b64encode(one.read_bytes()).decode() for one in pictures}
    text = _jinja().get_template(template).render(pictures=inside, **values)
    with replace_file(path) as making:
        making.write_text(text, encoding="utf-8")
    return path


def _jinja() -> Environment:
    made = Environment(loader=PackageLoader("pipelines.pages"), autoescape=True, undefined=StrictUndefined)
    made.filters["short"] = lambda value: "" if value is None else f"{value:.5g}"
    return made
