"""Test that a change of any code that a stage names changes the stage's key, so the run cache has no result for it."""

import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from pipelines.steps.repro import ReproSpec
from pipelines.steps.repro import run as repro
from pipelines.versioning.runcache import digest_inputs
from pipelines.versioning.stages import Stage, load_stages
from tests.tools.imports import ROOT
from tests.tools.parameters import copy_models

MODEL = "flights"
STAGES = load_stages(ROOT / "dvc.yaml")
STAGES = {name: stage for name, stage in STAGES.items() if name.endswith(f"@{MODEL}")}
CODE = sorted({dep for stage in STAGES.values() for dep in stage.deps if dep.startswith("pipelines")})
DATA = {path for stage in STAGES.values() for path in (*stage.deps, *stage.outs) if path.startswith("models/")}


@pytest.fixture
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, fresh_settings: Callable[[], None]) -> Path:
    """Return a copy of this project. Its stages have their dependencies, and commands that write constant outputs."""
    folder = tmp_path / "project"
    for name in ("pipelines", "expectations"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("params.yaml", ".dvcignore"):
        shutil.copy2(ROOT / name, folder)
    copy_models(ROOT, folder)
    content = yaml.safe_load((ROOT / "dvc.yaml").read_text())
    for name, stage in content["stages"].items():
        stage["cmd"] = build_command(STAGES[f"{name}@{MODEL}"])
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"vars": [{"models": [MODEL]}], "stages": content["stages"]}))
    monkeypatch.setenv("LEEWAY_PROJECT", str(folder))
    fresh_settings()
    return folder


def build_command(stage: Stage) -> str:
    """Return a command that writes the stage's outputs, with all files in them that any stage names."""
    paths = [path for path in DATA if any(PurePosixPath(path).is_relative_to(out) for out in stage.outs)]
    files = [stage.make_relative(path if PurePosixPath(path).suffix else f"{path}/file") for path in sorted(paths)]
    return " && ".join(f"mkdir -p {PurePosixPath(file).parent} && echo {file} > {file}" for file in files)


def find_deepest_file(folder: Path, dep: str) -> Path:
    """Return the file that lies deepest in the folders of a dependency."""
    path = folder / dep
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return max(files, key=lambda file: (len(file.parts), file))


def list_stages_with(file: Path) -> set[str]:
    """Return the stages that depend on a file of the project, or on a folder that has it."""
    return {name for name, stage in STAGES.items() if any(file.is_relative_to(dep) for dep in stage.deps)}


def digest_stages(folder: Path) -> dict[str, str]:
    """Return the key of each stage alone, without the stages that it depends on."""
    return {name: digest_inputs(folder, [name], [other for other in STAGES if other != name]) for name in STAGES}


def find_changed_stages(dvc: Any) -> set[str]:
    """Return the stages that `dvc status` reports as changed."""
    return {name.rpartition(":")[2] for name in dvc.status()}


def test_a_change_in_each_folder_gives_another_key_of_the_stages_that_name_it(project: Path) -> None:
    keys = digest_stages(project)
    for dep in CODE:
        file = find_deepest_file(project, dep)
        content = file.read_bytes()
        file.write_bytes(content + b"\n# changed")
        changed_keys = digest_stages(project)
        assert {name for name in STAGES if changed_keys[name] != keys[name]} == list_stages_with(
            file.relative_to(project)
        ), file
        file.write_bytes(content)
    assert digest_stages(project) == keys


def test_the_key_does_not_depend_on_the_bytecode_of_the_workspace(project: Path) -> None:
    """Python writes bytecode while a stage runs. With another key, a second run of the same work would not wait."""
    keys = digest_stages(project)
    for dep in CODE:
        folder = find_deepest_file(project, dep).parent / "__pycache__"
        folder.mkdir(exist_ok=True)
        (folder / "module.cpython-311.pyc").write_bytes(dep.encode())
    assert digest_stages(project) == keys


@pytest.mark.soak
def test_dvc_on_a_laptop_sees_a_change_in_each_folder(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dvc.repo import Repo

    monkeypatch.chdir(project)
    with Repo.init(str(project), no_scm=True) as dvc:
        dvc.reproduce()
        assert find_changed_stages(dvc) == set()
        for dep in CODE:
            file = find_deepest_file(project, dep)
            content = file.read_bytes()
            file.write_bytes(content + b"\n# changed")
            assert find_changed_stages(dvc) == list_stages_with(file.relative_to(project)), file
            file.write_bytes(content)
        assert find_changed_stages(dvc) == set()


def test_a_run_takes_no_result_of_other_code_from_the_run_cache(project: Path) -> None:
    def list_stages_run(workspace: str) -> list[str]:
        ran = repro(ReproSpec(workspace=workspace, targets=["gate"], model=MODEL)).ran
        return [f"{name}@{MODEL}" for name in ran]

    assert list_stages_run("one") == list(STAGES)
    assert list_stages_run("two") == [], "the same code: all outputs come from the run cache"
    file = find_deepest_file(project, "pipelines/features")
    file.write_text(f"{file.read_text()}\n# changed")
    assert set(list_stages_run("three")) == list_stages_with(file.relative_to(project))
