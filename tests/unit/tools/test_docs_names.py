"""Test the names on pages and in code.

Pages name only commands, options, files and modules that exist. Code names only pages that exist.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tools.reference.commands import load_programs
from tools.reference.operators import find_classes

ROOT = Path(__file__).parents[3]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"), ROOT / "infra" / "terraform" / "README.md"])
RUNBOOKS = sorted((ROOT / "docs" / "how-to" / "runbooks").glob("*.md"))
SOURCES = ("pipelines", "plugins", "drydock", "stack", "dags", "tools", "docker", "infra", "benchmarks")
NAMING_SUFFIXES = {".py", ".tf", ".yaml", ".toml", ".example", ".html", ""}
CALL = re.compile(r"python -m (pipelines|stack|drydock)((?: [a-z][\w-]*)*)([^`#\n|]*)")
FOLDERS = "pipelines|leeway|plugins|drydock|stack|dags|tests|tools|docker|infra|benchmarks|expectations|docs"
PATH = re.compile(rf"(?<![\w./-])(?:{FOLDERS})/[\w./-]*[\w/]")
IMPORT = re.compile(r"(?:from|import) ((?:pipelines|leeway)(?:\.\w+)+)")
PAGE = re.compile(r"(?<![\w./-])docs/[\w/-]+\.md\b")
CLASS = re.compile(r"\b(?!SageMaker|Base)[A-Z]\w+(?:Operator|Sensor|Notifier)\b")
PLACEHOLDER = re.compile(r"[A-Z]{3,}")
"""Words in capitals, as in pipelines/datasets/NAME/, stand for a name that the reader chooses."""
CHANGELOG = "CHANGELOG.md"
"""This page names also what no longer exists."""


def find_wrong_calls(text: str, programs: dict[str, Any]) -> list[str]:
    """List the calls in a text whose command or options do not exist."""
    wrong_calls = []
    for program, words, arguments in CALL.findall(text.replace("\\\n", " ")):
        command, name = programs[program], program
        for word in words.split():
            if not getattr(command, "commands", {}):
                break  # an argument
            command, name = command.commands.get(word), f"{name} {word}"
        parameters = command.params if command else []
        options = {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)}
        unknown = [
            option for option in re.findall(r"(?<!\S)--[a-z][\w-]*", arguments) if option not in {*options, "--help"}
        ]
        if command is None or unknown:
            wrong_calls.append(f"{name} {unknown}")
    return wrong_calls


def find_missing_paths(text: str) -> list[str]:
    """List the files, folders and modules of this repository that a text names and that do not exist."""
    paths = {path for path in PATH.findall(text) if not PLACEHOLDER.search(path)}
    missing_paths = [path for path in paths if not locate(path).exists() and not is_outside_repository(path)]
    for module in IMPORT.findall(text):
        file = locate(module.replace(".", "/"))
        if not file.is_dir() and not file.with_suffix(".py").exists():
            missing_paths.append(module)
    return sorted(missing_paths)


def locate(path: str) -> Path:
    """Return the path of a file that a page names: the package leeway is in plugins/."""
    return (ROOT / "plugins" if path.startswith("leeway/") else ROOT) / path


def is_outside_repository(path: str) -> bool:
    """Return whether a path is not a file of the repository.

    Such paths are a file in LEEWAY_HOME/docs, the file of Terraform's plan, the name of a secret on AWS, or a file of
    the project that the tutorial makes.
    """
    at_run_time = ("infra/terraform/plan", "leeway/connections", "dags/rain", "expectations/rain", "tests/test_rain")
    return (path.startswith("docs/") and not path.endswith(".md")) or path.startswith(at_run_time)


@pytest.fixture(scope="module")
def programs() -> dict[str, Any]:
    """Return the command-line programs by name."""
    return load_programs()


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != CHANGELOG], ids=lambda page: page.stem)
def test_each_name_on_a_page_exists(page: Path, programs: dict[str, Any]) -> None:
    text = page.read_text()
    assert find_wrong_calls(text, programs) == []
    assert find_missing_paths(text) == []
    assert set(CLASS.findall(text)) - {"NameOperator"} <= set(find_classes(ROOT / "plugins" / "leeway"))
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"(?:`|\$ )make ([\w-]+)", text)) <= set(targets)


@pytest.mark.parametrize("page", RUNBOOKS, ids=lambda page: page.stem)
def test_runbook_has_commands(page: Path) -> None:
    assert CALL.search(page.read_text()) or page.stem == "README"


def test_check_finds_names_that_do_not_exist(programs: dict[str, Any]) -> None:
    text = (
        "`python -m pipelines undo --all` and `python -m stack restore x --yes`, "
        "`python -m drydock capacity t --unavailable`"
    )
    assert find_wrong_calls(text, programs) == ["pipelines undo ['--all']", "stack restore ['--yes']"]
    text = (
        "`pipelines/gone.py`, `pipelines/steps/gate.py`, `docs/gone.md`, from pipelines.gone import x, pipelines/NAME/"
    )
    assert find_missing_paths(text) == ["docs/gone.md", "pipelines.gone", "pipelines/gone.py"]
    assert CLASS.findall("`GoneOperator`, SageMakerTrainingOperator") == ["GoneOperator"]


def find_named_pages(source: str) -> set[str]:
    """Return the pages of the documentation that a source file names."""
    return set(PAGE.findall(source))


def test_each_page_that_the_code_names_exists() -> None:
    files = [path for folder in SOURCES for path in (ROOT / folder).rglob("*") if path.suffix in NAMING_SUFFIXES]
    files += [
        ROOT / name for name in ("Makefile", "params.yaml", "pyproject.toml", ".env.example", "docker-compose.yaml")
    ]
    pages = {page for path in files if path.is_file() for page in find_named_pages(path.read_text(errors="ignore"))}
    assert len(pages) > 8
    assert sorted(page for page in pages if not (ROOT / page).exists()) == []
    assert find_named_pages("see docs/gone.md, .leeway/docs/x.md") == {"docs/gone.md"}


def test_runbook_of_missing_spot_capacity_names_the_policy_for_several_types() -> None:
    """Without this policy the operator refuses more than one type, and the advice would lead to the next failure."""
    from leeway.hooks.sagemaker.machines import NO_CAPACITY_POLICIES

    page = ROOT / "docs" / "how-to" / "runbooks" / "spot-drought.md"
    (types,) = re.findall(r"^2\. \*\*More instance types.+?(?=^3\.)", page.read_text(), re.MULTILINE | re.DOTALL)
    assert f'on_no_capacity="{NO_CAPACITY_POLICIES[1]}"' in types
