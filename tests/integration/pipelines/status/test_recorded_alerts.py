"""Test the alerts on series that `python -m pipelines metrics` exported while the state of a real lake changed."""

import datetime as dt
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.lake import Lake
from pipelines.loop.events import Kind as LoopKind
from pipelines.registry.lifecycle import Kind
from pipelines.status.metrics.models import READ_AT
from tests.tools.imports import ROOT
from tests.tools.lake_states import MONDAY, add_event, add_loop_event, write_drift

ALERTS = ROOT / "docker/monitoring/alerts.yaml"
MINUTES = 5
"""Minutes between two samples of a series."""
PHASE_SAMPLES = 30 * 60 // MINUTES
"""Number of samples of a state: each state stays for 30 hours."""
TIME_SUFFIX = "_timestamp_seconds"
"""End of the names of metrics that are a time. In the series, time begins at 0, so they are moved."""


@dataclass(frozen=True)
class Export:
    """What the command printed: samples by series."""

    at_s: float
    """When, seconds since 1970."""
    samples: Mapping[str, float]


def export() -> Export:
    """Run the command."""
    at_s = dt.datetime.now(dt.UTC).timestamp()
    result = CliRunner().invoke(app.build_app(), ["metrics", "flights"])
    assert result.exit_code == 0, result.output
    samples = {}
    for family in text_string_to_metric_families(result.stdout):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            samples[f"{sample.name}{{{labels}}}"] = sample.value
    return Export(at_s, samples)


def build_series(exports: list[Export]) -> list[dict[str, str]]:
    """Build the series in which each export stays for 30 hours. The states are read every five minutes."""
    names = {name for one in exports for name in one.samples}
    return [{"series": name, "values": _build_values(name, exports)} for name in sorted(names)]


def _build_values(name: str, exports: list[Export]) -> str:
    parts, last_value, moved_value = [], None, 0.0
    for number, one in enumerate(exports):
        start_s = number * PHASE_SAMPLES * MINUTES * 60
        value = one.samples.get(name)
        if value is not None and value != last_value:  # a time that did not change stays the time of its event
            moved_value = value - one.at_s + start_s if TIME_SUFFIX in name else value
        last_value = value
        if value is None:
            parts.append(f"_x{PHASE_SAMPLES}")
        elif name.startswith(READ_AT):
            parts.append(f"{start_s}+{MINUTES * 60}x{PHASE_SAMPLES - 1}")
        else:
            parts.append(f"{moved_value!r}x{PHASE_SAMPLES - 1}")
    return " ".join(parts)


@pytest.fixture
def exports(home: Path, source: Any) -> list[Export]:
    """Change the state of a model, from no champion to drift and to a failed training; export each state."""
    exports = []
    day = MONDAY
    Lake.open().write_partition("flights", day, source.read(day))
    add_loop_event(LoopKind.STARTED, "d/1", as_of=day, trigger="manual")
    add_loop_event(LoopKind.ENDED, "d/1", as_of=day, outcome="not_passed", version="1")
    exports.append(export())
    add_event(Kind.PROMOTED, "2", champions=("", "2"))
    exports.append(export())
    write_drift(day, "drift", {"distance": 0.3})
    exports.append(export())
    add_loop_event(LoopKind.STARTED, "d/2", as_of=day, trigger="drift")
    add_loop_event(LoopKind.ENDED, "d/2", as_of=day, outcome="failed", version="")
    exports.append(export())
    return exports


def evaluate(exports: list[Export], expected: list[set[str]], folder: Path) -> str:
    """Let Prometheus' rules judge the series; return what it says, empty if the alerts are the expected ones.

    Args:
        exports: samples of each state.
        expected: alerts at the end of each state.
        folder: an empty folder.
    """
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    names = [rule["alert"] for rule in rules]
    assert set().union(*expected) <= set(names)
    checks = []
    for number, alerts in enumerate(expected, start=1):
        end = f"{number * PHASE_SAMPLES * MINUTES - MINUTES}m"
        expression = f'count by (alertname) (ALERTS{{alertstate="firing",alertname=~"{"|".join(names)}"}})'
        samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(alerts)]
        checks.append({"expr": expression, "eval_time": end, "exp_samples": samples})
    test = {"interval": f"{MINUTES}m", "input_series": build_series(exports), "promql_expr_test": checks}
    content = {"rule_files": [str(ALERTS)], "evaluation_interval": f"{MINUTES}m", "tests": [test]}
    (folder / "test.yaml").write_text(yaml.safe_dump(content))
    result = subprocess.run(["promtool", "test", "rules", "test.yaml"], capture_output=True, text=True, cwd=folder)
    return "" if result.returncode == 0 else result.stdout + result.stderr


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool (Debian's package prometheus)")
def test_recorded_states_raise_the_alerts_that_they_should(exports: list[Export], tmp_path: Path) -> None:
    unanswered_drift = {"LeewayDriftUnanswered", "LeewayDataStale"}
    expected = [{"LeewayNoChampion"}, {"LeewayDataStale"}, unanswered_drift, {*unanswered_drift, "LeewayModelFailed"}]
    assert evaluate(exports, expected, tmp_path) == ""
    # The negative controls: an alert too few, and a state that was not exported.
    assert "LeewayNoChampion" in evaluate(exports, [set(), *expected[1:]], tmp_path)
    drifted = 'leeway_model_drifted{model="flights"}'
    without_drift = [replace(one, samples={**one.samples, drifted: 0.0}) for one in exports]
    assert "LeewayDriftUnanswered" in evaluate(without_drift, expected, tmp_path)
