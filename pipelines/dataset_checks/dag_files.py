"""Find the DAG files of a model that Airflow would skip."""

from __future__ import annotations

import re
from pathlib import Path


def find_dag_files(project: Path, model: str) -> list[Path]:
    """Find the files in dags/ that name the model: `model="NAME"`."""
    files = sorted((project / "dags").rglob("*.py"))
    return [file for file in files if _names_model(file.read_text(encoding="utf-8", errors="replace"), model)]


def find_skipped_files(project: Path, model: str) -> list[str]:
    """Find the DAG files of the model that Airflow skips without an error; return their paths within the project.

    In its safe mode, the default, Airflow 3 imports only files that contain the word "airflow", and the word "dag" or
    "asset". A file that only calls `create_lifecycle_dags` need not contain "airflow", because it imports nothing of
    Airflow.
    """
    texts = {file: file.read_text(encoding="utf-8", errors="replace") for file in find_dag_files(project, model)}
    return [str(file.relative_to(project)) for file, text in texts.items() if "airflow" not in text.lower()]


def _names_model(text: str, model: str) -> bool:
    return re.search(rf"""\bmodel\s*=\s*["']{re.escape(model)}["']""", text) is not None
