"""Test the documentation: it builds strictly, and its reference has a page for each step and each operator."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipelines.steps import STEPS, load_result_class, load_spec_class
from tools.docs_site import expand_folders, replace_outside_links
from tools.reference import build_pages, operators

ROOT = Path(__file__).parents[3]
PROVIDER = ROOT / "plugins" / "leeway"


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """Return the generated pages of the reference by path."""
    return build_pages(ROOT)


def find_public_classes(folder: Path) -> set[str]:
    """Return the operators, sensors and notifiers that a text search finds in a folder."""
    text = "".join(path.read_text() for path in folder.rglob("*.py"))
    return set(re.findall(r"^class ([A-Z]\w*(?:Operator|Sensor|Notifier))\b", text, re.MULTILINE))


def find_missing_pages(pages: Mapping[str, str]) -> set[str]:
    """Return the paths of missing pages of steps and operators, and of pages that the list of all does not name."""
    expected = {f"reference/steps/{step}.md" for step in STEPS}
    expected |= {f"reference/operators/{name}.md" for name in find_public_classes(PROVIDER)}
    lists = {path: pages[f"{path.rpartition('/')[0]}/index.md"] for path in expected}
    return {path for path in expected if path not in pages or f"({path.rpartition('/')[2]})" not in lists[path]}


def test_each_step_and_operator_has_a_page(pages: dict[str, str]) -> None:
    assert len(STEPS) > 20
    assert len(find_public_classes(PROVIDER)) > 20
    assert find_missing_pages(pages) == set()


def test_check_finds_a_missing_page(pages: dict[str, str]) -> None:
    incomplete = {path: text for path, text in pages.items() if path != "reference/steps/gate.md"}
    assert find_missing_pages(incomplete) == {"reference/steps/gate.md"}
    pages_without_entry = {**pages, "reference/operators/index.md": "# Operators"}
    assert len(find_missing_pages(pages_without_entry)) == len(find_public_classes(PROVIDER))


@pytest.mark.parametrize("step", STEPS)
def test_page_of_a_step_has_each_field(step: str, pages: dict[str, str]) -> None:
    page = pages[f"reference/steps/{step}.md"]
    for name in (*load_spec_class(step).model_fields, *load_result_class(step).model_fields):
        assert f"| `{name}` |" in page


@pytest.mark.parametrize("step", STEPS)
def test_page_of_a_step_has_the_empty_defaults_that_a_function_makes(step: str, pages: dict[str, str]) -> None:
    inputs = pages[f"reference/steps/{step}.md"]
    for name, field in load_spec_class(step).model_fields.items():
        if field.default_factory in (list, dict):
            row = next(line for line in inputs.splitlines() if line.startswith(f"| `{name}` |"))
            assert ("`[]`" if field.default_factory is list else "`{}`") in row


@pytest.mark.parametrize("name", sorted(find_public_classes(PROVIDER)))
def test_page_of_an_operator_describes_each_argument(name: str, pages: dict[str, str]) -> None:
    operator = operators.find_classes(PROVIDER)[name]
    page = pages[f"reference/operators/{name}.md"]
    for argument, _, _ in operator.arguments:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{argument}` |")]
        assert row.rpartition("| ")[0].rpartition(" | ")[2].strip(), f"{argument} has no meaning"


def test_each_decision_is_listed() -> None:
    folder = ROOT / "docs" / "explanation" / "adr"
    listed_names = re.findall(r"\(([\w-]+\.md)\)", (folder / "index.md").read_text())
    assert sorted(listed_names) == sorted({path.name for path in folder.glob("*.md")} - {"index.md"})


def test_settings_and_commands_are_listed(pages: dict[str, str]) -> None:
    for text in ("`LEEWAY_HOME`", "`MLFLOW_TRACKING_URI`", "POSTGRES_PASSWORD", "label_delay_days"):
        assert text in pages["reference/settings.md"]
    for text in ("`make demo`", "python -m pipelines registry events", "python -m drydock interrupt", "`--port-file`"):
        assert text in pages["reference/commands.md"]


def test_folder_in_the_navigation_becomes_its_pages() -> None:
    nav = [{"Steps": "reference/steps/"}, "index.md"]
    paths = ["reference/steps/gate.md", "reference/steps/index.md", "reference/errors.md"]
    assert expand_folders(nav, paths) == [
        {"Steps": ["reference/steps/index.md", "reference/steps/gate.md"]},
        "index.md",
    ]


def test_link_out_of_the_documentation_becomes_a_name() -> None:
    text = "[the stack](../../docker-compose.yaml), [errors](../reference/errors.md#codes), [web](https://example.com)"
    result = replace_outside_links(text, "how-to/compose.md")
    assert result == text.replace("[the stack](../../docker-compose.yaml)", "the stack (`docker-compose.yaml`)")


def build(docs: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of a folder of pages, strictly."""
    hook = ROOT / "tools" / "docs_site.py"
    config = folder / "mkdocs.yml"
    config.write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: {docs}\nsite_dir: {folder / 'site'}\nhooks: [{hook}]\n"
    )
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", config],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}", "NO_MKDOCS_2_WARNING": "1"},
    )


@pytest.mark.slow
def test_site_builds_strictly_and_loads_nothing_from_other_servers(tmp_path: Path) -> None:
    result = build(ROOT / "docs", tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    page = (tmp_path / "site" / "reference" / "steps" / "gate.html").read_text()
    assert "approval_timeout_h" in page
    urls = re.findall(r'<(?:script|img|iframe)[^>]* src="(https?:)?//', page)
    urls += re.findall(r'<link[^>]* rel="(?:stylesheet|preconnect)"[^>]* href="https?:', page)
    assert urls == []


@pytest.mark.slow
@pytest.mark.soak
def test_broken_links_fail_the_build(tmp_path: Path) -> None:
    broken_links = ("reference/gone.md", "how-to/index.md#gone", "reference/steps/gone.md")
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    with (tmp_path / "docs" / "index.md").open("a") as index:
        index.writelines(f"\n[gone]({link})\n" for link in broken_links)
    result = build(tmp_path / "docs", tmp_path)
    assert result.returncode == 1
    for link in broken_links:
        assert link in result.stdout + result.stderr
