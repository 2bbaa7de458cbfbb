"""Test that the files dvc.yaml name all code and parameters of their stages, so that DVC notices every change."""

from dataclasses import replace
from pathlib import Path
from posixpath import normpath

import pytest

from pipelines import params
from pipelines.versioning.stages import Stage, load_stages, strip_model_suffix
from tests.tools.imports import ROOT, list_imported_files, read_sections


def load_stages_of_model(folder: str) -> dict[str, Stage]:
    """Load the stages of flights of a folder's dvc.yaml, with paths relative to the project."""
    stages = load_stages(ROOT / folder / "dvc.yaml")
    return {
        strip_model_suffix(name, "flights"): replace(
            stage, deps=tuple(normpath(f"{folder}/{dep}") for dep in stage.deps), folder=f"{folder}/{stage.folder}"
        )
        for name, stage in stages.items()
        if name.endswith("@flights")
    }


STAGES = load_stages_of_model(".") | load_stages_of_model("models")
SOURCE = {"pipelines.datasets.flights.source": "the source is read when days are ingested"}
REGISTRY = {"pipelines.registry": "`dvc repro` has no registry"}
REGISTRATION = {"pipelines.serving": "features are compiled for the registry"}
INGESTION = {"pipelines.steps.backfill": "a published day stays as it is until it is ingested again"}
DEFAULT_FEATURES = {"pipelines.defaults.features": "flights has features of its own"}
DEFAULT_CODE = {"pipelines.defaults": "the stage loads no model, and flights has features of its own"}
SERVING = {"pipelines.defaults.serving": "MLflow runs it"}
TRAINING = {
    **dict.fromkeys(
        ("pipelines.defaults.training", "pipelines.defaults.folds"), "the script is a process of the stage `train`"
    ),
    **dict.fromkeys(
        tuple(f"pipelines.defaults.{name}" for name in ("channels", "collective", "objectives", "shares")),
        "only the script imports it",
    ),
}
NOT_REACHED = {
    "snapshot": SOURCE | INGESTION | DEFAULT_CODE,
    "preprocess": SOURCE | DEFAULT_CODE,
    "train": SOURCE | SERVING | DEFAULT_FEATURES,
    "tune": SOURCE | SERVING | DEFAULT_FEATURES,
    "evaluate": SOURCE | REGISTRY | REGISTRATION | SERVING | TRAINING | DEFAULT_FEATURES,
    "gate": SOURCE | REGISTRY | DEFAULT_CODE,
}
"""For each stage, the modules that its code imports and its command does not run, with the reason."""
SUBPROCESSES = dict.fromkeys(("train", "tune"), ("pipelines.defaults.training",))
"""For each stage, the modules that it starts as other processes."""


def find_unnamed(stage: Stage) -> set[str]:
    """List the files, and the sections of params.yaml, that the stage uses and does not name."""
    step = stage.cmd.split()[-1]
    starts = (f"pipelines.steps.{step}", *SUBPROCESSES.get(step, ()))
    excluded_modules = frozenset(NOT_REACHED[step])
    files = {file for start in starts for file in list_imported_files(start, "flights", excluded_modules)}
    deps = [Path(dep) for dep in stage.deps]
    unnamed_files = {str(file) for file in files if not any(file.is_relative_to(dep) for dep in deps)}
    sections = ({step} & params.load(ROOT, "flights").keys()) | read_sections(files)
    return unnamed_files | (sections - {key.partition(".")[0] for _, key in stage.params})


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_a_stage_names_all_that_its_command_imports_and_reads(stage: Stage) -> None:
    assert find_unnamed(stage) == set()


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_each_entry_of_a_stage_is_needed(stage: Stage) -> None:
    """Negative control: without any one entry, the test above would fail."""
    for dep in (dep for dep in stage.deps if dep.startswith("pipelines")):
        assert find_unnamed(replace(stage, deps=tuple(other for other in stage.deps if other != dep))), dep
    sections = {strip_model_suffix(stage.name, "flights")}
    assert find_unnamed(replace(stage, params=())) == sections | ({"train"} if "tune" in sections else set())


def test_naming_single_files_of_a_package_is_not_enough() -> None:
    """With only these files, a change of the engine's parts would leave an old result."""
    engine = ("pipelines/features/engines/__init__.py", "pipelines/features/engines/duck.py")
    deps = (*(dep for dep in STAGES["preprocess"].deps if dep != "pipelines/features"), *engine)
    assert "pipelines/features/engines/parts.py" in find_unnamed(replace(STAGES["preprocess"], deps=deps))


@pytest.mark.parametrize("stage", STAGES.values(), ids=lambda stage: stage.name)
def test_every_dependency_exists(stage: Stage) -> None:
    assert [dep for dep in stage.deps if dep.startswith("pipelines") and not (ROOT / dep).exists()] == []
