"""Render the HTML pages. Each page is one file. It needs no other file and no network, and runs no script.

The values of a page come from data. So Jinja escapes all of them, `pipelines.escaping` escapes the characters that are
invisible, and the layout's Content-Security-Policy forbids scripts. Equal values give byte-identical files.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pipelines.escaping import escape
from pipelines.system.files import replace_file


def render(template: str, **values: Any) -> str:
    """Render a template of `pages/templates` to HTML; `values` are its variables."""
    return _build_environment().get_template(template).render(**values)


def write_page(path: Path, template: str, pictures: Sequence[Path], **values: Any) -> Path:
    """Render a template and write it to a file with the pictures inside, replacing what was there.

    Args:
        path: file to write.
        template: name of a file in `pages/templates`.
        pictures: PNG files. The variable `pictures` of the template maps the name of each, without suffix, to its
            content in base64.
        **values: other variables of the template.

    Returns:
        `path`.
    """
    encoded_pictures = {picture.stem: base64.b64encode(picture.read_bytes()).decode() for picture in pictures}
    text = render(template, pictures=encoded_pictures, **values)
    with replace_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def _escape_value(value: Any) -> Any:
    """Escape the invisible characters of a value; return numbers and HTML unchanged."""
    return value if value is None or isinstance(value, Markup | int | float) else escape(value)


@lru_cache(maxsize=1)
def _build_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pipelines.pages"),
        autoescape=True,
        finalize=_escape_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = lambda value: "?" if value is None else f"{value:,}"
    environment.filters["short"] = lambda value: "" if value is None else f"{value:.5g}"
    return environment
