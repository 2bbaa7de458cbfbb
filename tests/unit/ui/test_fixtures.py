"""Test that the documents of the page's tests agree with each other about money."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_models_months_and_budgets_have_the_same_costs(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "ui/fixtures/write_fixtures.py"), str(tmp_path)]
    subprocess.run(command, check=True, env={"PYTHONPATH": str(ROOT)})
    models = json.loads((tmp_path / "models.json").read_text())["models"]
    costs = json.loads((tmp_path / "costs.json").read_text())
    rows = [row for row in costs["months"] if row["month"] == costs["month"]]
    budgets = {row["project"]: row for row in costs["budgets"]}
    for model in models:
        spent = sum(row["jobs_usd"] + row["endpoints_usd"] for row in rows if row["model"] == model["model"])
        assert model["month_usd"] == pytest.approx(spent)
        budget = budgets[model["project"]]
        assert (model["project_month_usd"], model["budget_usd"]) == (budget["month_usd"], budget["budget_usd"])
    for project, budget in budgets.items():
        sums = [row["jobs_usd"] + row["endpoints_usd"] for row in rows if row["project"] == project]
        assert budget["month_usd"] == pytest.approx(sum(sums))
    assert len({model["budget_usd"] for model in models}) == 2, "the control"
