"""Make the page of the settings: environment variables and params.yaml."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from pipelines.settings import Settings
from tools.reference.markdown import code, prose, table

INTRO = """# Settings

What changes a model is in params.yaml. Where things are is in the environment. Connections and passwords are Airflow
connections. What one run chooses is the DAG's params.
"""


def build_page(root: Path) -> str:
    """Return the page of all settings.

    Args:
        root: folder of the project, which has .env.example and params.yaml.
    """
    return "\n".join([INTRO, *_variables(), *_file(root, ".env.example", "ini"), *_file(root, "params.yaml", "yaml")])


def _variables() -> Iterator[str]:
    rows = [
        [code(_variable(name, field)), prose(field.description or ""), _default(field)]
        for name, field in Settings.model_fields.items()
    ]
    yield "## Variables of the steps\n"
    yield table(["variable", "meaning", "default"], rows)


def _variable(name: str, field: FieldInfo) -> str:
    """Return the environment variable of a setting."""
    alias = field.validation_alias
    return alias if isinstance(alias, str) else f"{Settings.model_config.get('env_prefix', '')}{name}".upper()


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "computed"
    return code(field.default) if str(field.default) else "empty"


def _file(root: Path, name: str, language: str) -> Iterator[str]:
    yield f"## {name}\n\n```{language}\n{(root / name).read_text(encoding='utf-8').rstrip()}\n```\n"
