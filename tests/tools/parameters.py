"""Change the parameters of a copy of this project."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

MODEL = "flights"


def update_params(project: Path, model: str = MODEL, **sections: dict[str, Any]) -> None:
    """Set keys of sections: of models/MODEL/params.yaml, or of params.yaml where the section is only there."""
    paths = (project / "models" / model / "params.yaml", project / "params.yaml")
    files = {path: yaml.safe_load(path.read_text()) for path in paths}
    for name, values in sections.items():
        next(content for content in files.values() if name in content)[name].update(values)
    for path, content in files.items():
        path.write_text(yaml.safe_dump(content))


def read_hyperparameters(project: Path) -> dict[str, Any]:
    """Return the hyperparameters of the model flights."""
    content = yaml.safe_load((project / "models" / MODEL / "params.yaml").read_text())
    hyperparameters: dict[str, Any] = content["train"]["hyperparameters"]
    return hyperparameters


def keep_one_model(project: Path) -> None:
    """Leave flights as the only model of dvc.yaml: `dvc repro` then brings nothing else up to date."""
    list_models(project, MODEL)


def list_models(project: Path, *models: str) -> None:
    """Name the models of dvc.yaml."""
    path = project / "dvc.yaml"
    text, count = re.subn(r"(?m)^  - models: .*$", f"  - models: [{', '.join(models)}]", path.read_text())
    assert count == 1
    path.write_text(text)


def copy_models(source: Path, project: Path) -> None:
    """Copy the parameters of the models, without their data."""
    for path in source.glob("models/*/params.yaml"):
        target = project / path.relative_to(source)
        target.parent.mkdir(parents=True)
        target.write_bytes(path.read_bytes())
