"""Test what `dvc repro` shows on a real terminal: a verdict in a few lines, and the whole result only in a file."""

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.tools.evaluations import write_evaluation

ROOT = Path(__file__).parents[3]
PARAMS = "gate: {policy: {draws: 100, bounds: {auc: {at_least: 0.6}}, baseline: []}}\n"
STAGE = """
stages:
  gate:
    cmd: {python} -m pipelines gate
    deps: [data/evaluation]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Write a project whose only stage is the gate."""
    write_evaluation(tmp_path / "data")
    (tmp_path / "params.yaml").write_text(PARAMS)
    (tmp_path / "dvc.yaml").write_text(STAGE.format(python=sys.executable))
    run(tmp_path, "init", "--no-scm", stdout=subprocess.DEVNULL)
    return tmp_path


def run(project: Path, *arguments: str, stdout: int) -> str:
    """Run DVC; return what it writes to stdout, if that is a pipe."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "LEEWAY_PROJECT": str(project), "LEEWAY_HOME": str(project / "home")}
    command = [sys.executable, "-m", "dvc", *arguments]
    result = subprocess.run(command, cwd=project, env=env, stdout=stdout, stderr=subprocess.STDOUT, text=True)
    assert result.returncode == 0
    return result.stdout or ""


def run_in_terminal(project: Path, *arguments: str) -> str:
    """Run DVC on a pseudo-terminal; return what the terminal shows."""
    main_end, terminal = os.openpty()
    reader = subprocess.Popen(
        [sys.executable, "-c", READ, str(main_end)], pass_fds=[main_end], stdout=subprocess.PIPE, text=True
    )
    os.close(main_end)
    try:
        run(project, *arguments, stdout=terminal)
    finally:
        os.close(terminal)
    return reader.communicate()[0]


READ = """
import os, sys
while True:
    try:
        part = os.read(int(sys.argv[1]), 65536)
    except OSError:  # no process has the terminal open any more
        break
    sys.stdout.buffer.write(part)
"""


def find_json(text: str) -> dict[str, object]:
    """Return the first JSON object in a text; empty if there is none."""
    with suppress(ValueError):
        return dict(json.JSONDecoder().raw_decode(text[text.index("{\n") :])[0])
    return {}


@pytest.mark.soak
def test_repro_ends_with_the_verdict_on_a_terminal_and_with_the_result_in_a_file(project: Path) -> None:
    shown = re.sub(r"\x1b\[[0-9;]*m|\r", "", run_in_terminal(project, "repro"))
    lines = [line for line in shown.splitlines() if line.strip()]
    (verdict,) = [number for number, line in enumerate(lines) if "verdict: passed: " in line]
    assert "report: data/report/report.html" in lines[verdict + 1]
    assert len(lines[verdict:]) <= 5, "after the verdict come only its report and DVC's own words"
    assert find_json(shown) == {} and len(lines) < 20, shown
    written = run(project, "repro", "--force", stdout=subprocess.PIPE)
    assert find_json(written)["passed"] is True, "the control: a pipe gets the whole result"
