"""Test the alerts of Prometheus, and that dashboard and alerts name only metrics that are exported."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from pipelines.costs.figures.targets import Targets
from pipelines.status.metrics.costs import CostCollector
from pipelines.status.metrics.models import READ_AT, StatusCollector
from tests.tools.imports import ROOT

MONITORING = ROOT / "docker" / "monitoring"
TESTS = Path(__file__).with_name("alerts_test.yaml")
GROUPS = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]
RULES = [rule for group in GROUPS for rule in group["rules"]]
COSTS = CostCollector(None, Targets())
NAMES = {metric.name for metric in StatusCollector([], None, costs=COSTS).collect()}


def find_unknown_metrics(text: str) -> set[str]:
    """Return the metrics of Leeway that a text names and `python -m pipelines metrics` does not export."""
    return set(re.findall(r"\bleeway_\w+", text)) - NAMES


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool (Debian's package prometheus)")
def test_alerts_are_raised_and_not_raised():
    result = subprocess.run(["promtool", "test", "rules", str(TESTS)], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool (Debian's package prometheus)")
def test_an_alert_that_is_never_raised_fails_the_test(tmp_path):
    rules = (MONITORING / "alerts.yaml").read_text()
    (tmp_path / "alerts.yaml").write_text(rules.replace("leeway_model_drifted == 1", "leeway_model_drifted == 2"))
    (tmp_path / "test.yaml").write_text(TESTS.read_text().replace("../../../docker/monitoring/", ""))
    result = subprocess.run(["promtool", "test", "rules", "test.yaml"], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 1 and "LeewayDriftUnanswered" in result.stdout + result.stderr


def test_each_alert_is_tested_and_has_a_runbook():
    tests = yaml.safe_load(TESTS.read_text())["tests"]
    raised = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert raised == {rule["alert"] for rule in RULES}
    for rule in RULES:
        assert (ROOT / rule["annotations"]["runbook"]).is_file(), rule["alert"]


def test_alerts_and_dashboard_name_exported_metrics():
    assert READ_AT in NAMES
    wrong_names = {"leeway_model_mood", "leeway_cost_mood", "leeway_key_figure_mood"}
    assert find_unknown_metrics(" + ".join(wrong_names)) == wrong_names, "a wrong name must be found"
    assert find_unknown_metrics("\n".join(rule["expr"] for rule in RULES)) == set()
    dashboard = json.loads((MONITORING / "grafana/dashboards/leeway.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert find_unknown_metrics("\n".join(expressions)) == set()
    assert any("leeway_model_health" in expression for expression in expressions)
