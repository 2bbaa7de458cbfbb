"""dvc.yaml names all code and parameters that its stages use, so DVC calls no result up to date after a change."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from pipelines.versioning.stages import Stage, load_stages
from tests.tools.imports import ROOT, imported_files, read_sections

STAGES = load_stages(ROOT / "dvc.yaml")
SOURCE = {"pipelines.datasets.flights.source": "the source is read where days are ingested"}
REGISTRY = {"pipelines.registry": "`dvc repro` has no registry"}
INGESTION = {"pipelines.steps.backfill": "a day that is published stays as it is until it is ingested again"}
NOT_REACHED = {
    "snapshot": SOURCE | INGESTION,
    "preprocess": SOURCE,
    "train": SOURCE,
    "evaluate": SOURCE | REGISTRY,
    "gate": SOURCE | REGISTRY,
}
"""Stage to what its modules import and its command does not run, each with the reason."""
STARTED = {"train": ("pipelines.datasets.flights.training",)}
"""Stage to the modules that it starts as processes of their own."""


def find_unnamed(stage: Stage) -> set[str]:
    """List the files, and the sections of params.yaml, that the stage uses and does not name."""
    step = stage.cmd.split()[-1]
    starts = (f"pipelines.steps.{step}", *STARTED.get(stage.name, ()))
    files = {file for start in starts for file in imported_files(start, "flights", frozenset(NOT_REACHED[stage.name]))}
    deps = [Path(dep) for dep in stage.deps]
    unnamed = {str(file) for file in files if not any(file.is_relative_to(dep) for dep in deps)}
    sections = ({step} & yaml.safe_load((ROOT / "params.yaml").read_text()).keys()) | read_sections(files)
    return unnamed | (sections - {key for _, key in stage.params})


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_names_all_that_the_command_imports_and_reads(stage: Stage) -> None:
    assert find_unnamed(stage) == set()


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_a_dependency_or_a_section_less_is_found(stage: Stage) -> None:
    """The negative control: each entry is needed, so the list does not grow beyond what is used either."""
    for dep in (dep for dep in stage.deps if dep.startswith("pipelines")):
        assert find_unnamed(replace(stage, deps=tuple(other for other in stage.deps if other != dep))), dep
    assert find_unnamed(replace(stage, params=())) == {stage.name}


def test_a_file_of_a_package_in_the_place_of_its_folder_is_found() -> None:
    """As `preprocess` was before it named folders: a change of the engine's parts left a stale result."""
    engine = ("pipelines/features/engines/__init__.py", "pipelines/features/engines/duck.py")
    deps = (*(dep for dep in STAGES["preprocess"].deps if dep != "pipelines/features"), *engine)
    assert "pipelines/features/engines/parts.py" in find_unnamed(replace(STAGES["preprocess"], deps=deps))


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_every_dependency_exists(stage: Stage) -> None:
    assert [dep for dep in stage.deps if dep.startswith("pipelines") and not (ROOT / dep).exists()] == []
