"""Build the page of the settings: environment variables and files of parameters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from pipelines.settings import Settings
from tools.reference.markdown import format_code, format_prose, format_table

INTRO = """# Settings

params.yaml, and models/NAME/params.yaml for one model, hold the parameters of models. Environment variables say where
folders and servers are. Airflow connections hold addresses and credentials of other systems. The params of a DAG hold
what one run can choose.
"""


def build_page(root: Path) -> str:
    """Return the page of all settings.

    Args:
        root: folder of the project, which has .env.example, params.yaml and models/.
    """
    return "\n".join(
        [
            INTRO,
            *_render_variables(),
            *_render_file(root, ".env.example", "ini"),
            *_render_file(root, "params.yaml", "yaml"),
            *_render_file(root, "models/flights/params.yaml", "yaml"),
        ]
    )


def _render_variables() -> Iterator[str]:
    rows = [
        [format_code(_get_variable_name(name, field)), format_prose(field.description or ""), _format_default(field)]
        for name, field in Settings.model_fields.items()
    ]
    yield "## Variables of the steps\n"
    yield format_table(["variable", "meaning", "default"], rows)


def _get_variable_name(name: str, field: FieldInfo) -> str:
    """Return the environment variable of a setting."""
    alias = field.validation_alias
    return alias if isinstance(alias, str) else f"{Settings.model_config.get('env_prefix', '')}{name}".upper()


def _format_default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "computed"
    return format_code(field.default) if str(field.default) else "empty"


def _render_file(root: Path, name: str, language: str) -> Iterator[str]:
    yield f"## {name}\n\n```{language}\n{(root / name).read_text(encoding='utf-8').rstrip()}\n```\n"
